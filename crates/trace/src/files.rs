//! The table of a trace's files.

use std::collections::HashMap;

/// The files of a trace: paths, each with its index.
#[derive(Clone, Debug, Default)]
pub struct Files {
    paths: Vec<Box<[u8]>>,
    indices: HashMap<Box<[u8]>, u32>,
}

impl Files {
    /// The index of a path.
    pub fn index(&mut self, path: &[u8]) -> u32 {
        if let Some(index) = self.indices.get(path) {
            return *index;
        }
        let index = self.paths.len() as u32;
        self.paths.push(path.into());
        self.indices.insert(path.into(), index);
        index
    }

    /// The path of an index.
    pub fn path(&self, index: u32) -> &[u8] {
        &self.paths[index as usize]
    }

    /// All paths, by index.
    pub fn paths(&self) -> impl Iterator<Item = &[u8]> {
        self.paths.iter().map(|path| &**path)
    }
}

//! Whether a plan that comes from outside makes sense.

use std::collections::BTreeMap;
use std::fmt;

use super::document::{Plan, PlanFile};

/// Which file, and which of its regions, of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Where {
    /// Number of the file in the plan.
    pub file: usize,
    /// Its path.
    pub path: String,
    /// Number of the region in the file, and its offset.
    pub region: Option<(usize, u64)>,
}

impl fmt::Display for Where {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.region {
            Some((_, offset)) => write!(f, "region at {offset} of {}", self.path),
            None => write!(f, "{}", self.path),
        }
    }
}

/// What is wrong with a plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct PlanError {
    /// Where.
    pub place: Where,
    /// What, and what it should be.
    pub problem: String,
}

impl Plan {
    /// Checks that each file is there once, and that its regions lie within it and share no byte.
    ///
    /// Whether they fit onto flash is for whoever places them: people may choose by hand.
    pub fn check(&self) -> Result<(), PlanError> {
        let (mut paths, mut inodes) = (BTreeMap::new(), BTreeMap::new());
        for (number, file) in self.files.iter().enumerate() {
            let whole = || Where { file: number, path: file.path.clone(), region: None };
            if file.size_bytes > i64::MAX as u64 {
                return Err(PlanError { place: whole(), problem: "no file is longer than 2^63 - 1 bytes".into() });
            }
            if file.path.is_empty() {
                return Err(PlanError { place: whole(), problem: format!("file {number} has no path") });
            }
            if paths.insert(&file.path, number).is_some() {
                return Err(PlanError { place: whole(), problem: "the file is there twice".into() });
            }
            if let Some(other) = file.inode.and_then(|inode| inodes.insert(inode, number)) {
                let problem = format!("it has the inode of {}: a file is there once", self.files[other].path);
                return Err(PlanError { place: whole(), problem });
            }
            file.check_regions(number)?;
        }
        Ok(())
    }
}

impl PlanFile {
    fn check_regions(&self, number: usize) -> Result<(), PlanError> {
        let bad = |region: usize, problem: String| {
            let offset = self.regions[region].range.offset;
            let place = Where { file: number, path: self.path.clone(), region: Some((region, offset)) };
            Err(PlanError { place, problem })
        };
        for (index, region) in self.regions.iter().enumerate() {
            if region.range.is_empty() {
                return bad(index, "it has no bytes".into());
            }
            if region.range.end() > self.size_bytes {
                let problem = format!("it ends at {}, beyond the file's {} bytes", region.range.end(), self.size_bytes);
                return bad(index, problem);
            }
        }
        let mut order: Vec<usize> = (0..self.regions.len()).collect();
        order.sort_unstable_by_key(|index| (self.regions[*index].range, *index));
        for pair in order.windows(2) {
            let (first, second) = (self.regions[pair[0]].range, self.regions[pair[1]].range);
            if first.end() > second.offset {
                return bad(pair[1], format!("it overlaps the region at {} of {} bytes", first.offset, first.length));
            }
        }
        Ok(())
    }
}

//! Where one node keeps its files below the fast directory: nodes that share it never write one file.
//!
//! ```text
//! FAST/.headstart/journal, lock, slow               of node 0, as ever
//! FAST/.headstart/node.001/journal, lock, slow      of node 1
//! FAST/.headstart/data.XXXXXXXX                     of all: the number of a data file has its node above 22 bits
//! SLOW/HEADSTART-DIRTY, HEADSTART-DIRTY.001         what is dirty of node 0, of node 1
//! ```

use std::path::{Path, PathBuf};

use headstart_protocol::{DIRTY_LIST_FILE, FLASH_DIRECTORY, data_file_name};

/// Nodes that a directory can have.
pub const NODES_MAX: u16 = 1024;
/// Bits of a data file's number below its node.
const COUNT_BITS: u32 = 22;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFiles {
    fast: PathBuf,
    node: u16,
}

impl NodeFiles {
    /// Of the node that has the directory to itself.
    pub fn first(fast: &Path) -> NodeFiles {
        NodeFiles::of(fast, 0)
    }

    /// Of that node.
    pub fn of(fast: &Path, node: u16) -> NodeFiles {
        assert!(node < NODES_MAX, "the roster refuses others");
        NodeFiles { fast: fast.to_path_buf(), node }
    }

    /// The node.
    pub fn node(&self) -> u16 {
        self.node
    }

    /// The fast directory.
    pub fn fast(&self) -> &Path {
        &self.fast
    }

    /// All nodes' files.
    pub fn shared(&self) -> PathBuf {
        self.fast.join(FLASH_DIRECTORY)
    }

    /// This node's own.
    pub fn own(&self) -> PathBuf {
        match self.node {
            0 => self.shared(),
            node => self.shared().join(format!("node.{node:03}")),
        }
    }

    /// The journal.
    pub fn journal(&self) -> PathBuf {
        self.own().join("journal")
    }

    /// A data file, whichever node's.
    pub fn data_file(&self, number: u32) -> PathBuf {
        self.shared().join(data_file_name(number))
    }

    /// The number of this node's first data file. Zero is none's.
    pub fn first_data_file(&self) -> u32 {
        (u32::from(self.node) << COUNT_BITS).max(1)
    }

    /// The first number behind this node's; the last of all numbers is nobody's.
    pub fn data_files_end(&self) -> u32 {
        (u32::from(self.node) << COUNT_BITS).saturating_add(1 << COUNT_BITS)
    }

    /// Whether a data file is this node's.
    pub fn is_own(&self, number: u32) -> bool {
        number >> COUNT_BITS == u32::from(self.node)
    }

    /// The name of the list of dirty files at the top of the managed directory.
    pub fn list(&self) -> String {
        match self.node {
            0 => DIRTY_LIST_FILE.into(),
            node => format!("{DIRTY_LIST_FILE}.{node:03}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn two_nodes_share_no_file_and_the_first_has_the_names_of_ever() {
        let first = NodeFiles::first(Path::new("/fast"));
        assert_eq!(first.journal(), Path::new("/fast/.headstart/journal"));
        assert_eq!((first.first_data_file(), first.list().as_str()), (1, "HEADSTART-DIRTY"));
        let nodes = [0, 1, 2, NODES_MAX - 1].map(|node| NodeFiles::of(Path::new("/fast"), node));
        let differ =
            |name: fn(&NodeFiles) -> String| nodes.iter().map(name).collect::<BTreeSet<_>>().len() == nodes.len();
        assert!(differ(|files| files.journal().display().to_string()) && differ(NodeFiles::list));
        for files in &nodes {
            let number = files.first_data_file();
            assert_eq!(nodes.iter().filter(|other| other.is_own(number)).collect::<Vec<_>>(), [files]);
            assert!(files.is_own(number | ((1 << COUNT_BITS) - 1)), "4 million of them");
            let end = files.data_files_end();
            assert!(files.is_own(end - 1) && (end == u32::MAX || !files.is_own(end)));
        }
    }
}

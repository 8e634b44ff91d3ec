//! What a node leaves on flash when it leaves its cluster: nothing. Other nodes write the slow files from then on, so
//! that clean bytes here may soon be old.

use std::io;

use super::data_files::data_file_number;
use crate::error::{Error, Result};
use crate::node_files::NodeFiles;

/// Removes the node's journal and data files, of which nothing counts any more. The data files go first: a journal that
/// names missing ones says that clean bytes are lost, and is one that a next agent can go on with.
pub(crate) fn wipe(files: &NodeFiles) -> Result<()> {
    let shared = files.shared();
    let failed = |error| Error::file("list", &shared, error);
    for entry in std::fs::read_dir(&shared).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if data_file_number(&path).is_some_and(|number| files.is_own(number)) {
            remove(&path)?;
        }
    }
    for path in [files.journal(), files.own().join("slow")] {
        remove(&path)?;
    }
    Ok(())
}

fn remove(path: &std::path::Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::file("remove", path, error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_other_nodes_have_on_flash_stays() {
        let fast = tempfile::tempdir().unwrap();
        let (first, second) = (NodeFiles::first(fast.path()), NodeFiles::of(fast.path(), 1));
        std::fs::create_dir_all(second.own()).unwrap();
        for files in [&first, &second] {
            std::fs::write(files.journal(), b"journal").unwrap();
            std::fs::write(files.data_file(files.first_data_file()), b"data").unwrap();
        }
        wipe(&second).unwrap();
        let is_there =
            |files: &NodeFiles| [files.journal(), files.data_file(files.first_data_file())].map(|path| path.exists());
        assert_eq!([is_there(&first), is_there(&second)], [[true; 2], [false; 2]]);
        wipe(&second).unwrap();
        wipe(&first).unwrap();
        assert_eq!(is_there(&first), [false; 2]);
    }
}

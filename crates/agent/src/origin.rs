//! Which managed directory the journal speaks of.
//!
//! A journal names files by absolute path, inode and birth time, which tell files apart within the file
//! system of the managed directory. `FAST/.headstart/slow` says which directory that was: where it lay, its
//! inode and its birth time. After the directory was moved, or its file system mounted elsewhere, a start
//! gives the files the paths that they have now. A journal of another directory, which has bytes that its
//! disk has not, is refused: nothing tells its files from those of this one.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use headstart_overlay::recovery::Recovered;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::identity::birth_ns;
use crate::node_files::NodeFiles;
use crate::text_file;

/// Longest text that is read: a path of the kernel's length with every byte escaped, and room.
const BYTES_MAX: u64 = 256 << 10;

/// The managed directory as agents of this flash knew it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    slow: String,
    inode: u64,
    birth_ns: u64,
    /// Device numbers its file system had, by which journals of format 03 name its files. No longer written.
    #[serde(default, skip_serializing)]
    devices: Vec<u64>,
}

fn path(files: &NodeFiles) -> PathBuf {
    files.own().join("slow")
}

/// The device numbers that the managed directory's file system had, where an agent wrote them whose journals name files
/// by them; none where none did.
pub fn devices(files: &NodeFiles) -> Result<Vec<u64>> {
    Ok(Origin::earlier(files)?.map(|earlier| earlier.devices).unwrap_or_default())
}

impl Origin {
    fn now(slow: &Path) -> Result<Origin> {
        let found = std::fs::metadata(slow).map_err(|error| Error::file("look at", slow, error))?;
        let text = slow.display().to_string();
        Ok(Origin { slow: text, inode: found.ino(), birth_ns: birth_ns(&found), devices: Vec::new() })
    }

    /// Finds out where the managed directory was, gives what was replayed the paths that it has now, and
    /// changes nothing on flash. The journal names the old paths until [`Origin::settle`].
    ///
    /// # Errors
    /// The file of origin cannot be understood, or names another directory, of which bytes are dirty.
    pub(crate) fn translate(slow: &Path, files: &NodeFiles, recovered: &mut Recovered) -> Result<Origin> {
        let now = Origin::now(slow)?;
        if let Some(earlier) = Origin::earlier(files)? {
            now.apply(&earlier, files, recovered)?;
        }
        Ok(now)
    }

    /// None where no agent of this flash has served a directory. One that cannot be understood is not taken
    /// for none: files of a directory that was moved would not be found again.
    fn earlier(files: &NodeFiles) -> Result<Option<Origin>> {
        let path = path(files);
        match text_file::read_own(&path, BYTES_MAX) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::file("read", &path, error)),
            Ok(text) => Origin::parse(&text).map(Some).map_err(|problem| Error::File {
                action: "understand",
                path,
                source: io::Error::other(problem),
                hint: "; remove it if the managed directory was neither moved nor mounted anew since",
            }),
        }
    }

    /// What the text of a file of origin says, or why it is none.
    pub fn parse(text: &str) -> std::result::Result<Origin, String> {
        let origin: Origin = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if origin.slow.starts_with('/') { Ok(origin) } else { Err("it names no directory".into()) }
    }

    /// The text that says it.
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).expect("it has a JSON form")
    }

    fn apply(&self, earlier: &Origin, files: &NodeFiles, recovered: &mut Recovered) -> Result<()> {
        if (self.inode, self.birth_ns) != (earlier.inode, earlier.birth_ns) {
            return earlier.refuse_debt(self, files, recovered);
        }
        for file in recovered.files.values_mut() {
            let rest = file.path.strip_prefix(earlier.slow.as_bytes()).filter(|rest| rest.starts_with(b"/"));
            if let Some(rest) = rest {
                file.path = [Path::new(&self.slow).as_os_str().as_bytes(), rest].concat();
            }
        }
        Ok(())
    }

    /// Clean bytes of another directory's files count where the file that was meant is found, by path, identity and
    /// fingerprint; they need no refusal.
    fn refuse_debt(&self, now: &Origin, files: &NodeFiles, recovered: &Recovered) -> Result<()> {
        let dirty_bytes = recovered.dirty_bytes();
        if dirty_bytes == 0 {
            return Ok(());
        }
        let problem = format!(
            "it has {dirty_bytes} bytes of files below another directory, which was {} and is not the one that \
             is {} now: bring that one back, or give a site file that names it, and run 'headstart drain'",
            self.slow, now.slow
        );
        Err(Error::Journal { path: files.journal(), problem })
    }

    /// The journal names the files as they are now.
    pub fn settle(&self, files: &NodeFiles) -> Result<()> {
        let path = path(files);
        let fresh = path.with_extension("new");
        let attempt = || -> io::Result<()> {
            std::fs::write(&fresh, self.to_text())?;
            std::fs::File::open(&fresh)?.sync_all()?;
            std::fs::rename(&fresh, &path)
        };
        attempt().map_err(|error| Error::file("write", &path, error))
    }
}

#[cfg(test)]
mod tests {
    use headstart_overlay::journal::Identity;
    use headstart_overlay::recovery::RecoveredFile;
    use headstart_overlay::{ExtentMap, Mapped};
    use headstart_units::request::Range;

    use super::*;

    fn file(path: &str, dirty: bool) -> RecoveredFile {
        let mut map = ExtentMap::default();
        let (stamp, benefit) = Default::default();
        map.put(Mapped { range: Range::new(0, 10), data_file: 1, place: 0, dirty, stamp, benefit });
        RecoveredFile {
            identity: Identity { inode: 5, birth_ns: 6 },
            path: path.as_bytes().to_vec(),
            map,
            intent: false,
            unlinked: false,
            followed: false,
            regions: Default::default(),
            fingerprint: None,
        }
    }

    fn origin(slow: &str, inode: u64) -> Origin {
        Origin { slow: slow.into(), inode, birth_ns: 3, devices: Vec::new() }
    }

    #[test]
    fn files_of_a_directory_that_was_moved_have_their_paths_below_it() {
        let mut recovered = Recovered::default();
        for (number, path) in ["/old/a", "/old/b/c", "/older/a"].into_iter().enumerate() {
            recovered.files.insert(number as u32, file(path, true));
        }
        origin("/new", 2).apply(&origin("/old", 2), &NodeFiles::first(Path::new("/fast")), &mut recovered).unwrap();
        let found: Vec<&[u8]> = recovered.files.values().map(|file| file.path.as_slice()).collect();
        assert_eq!(found, [&b"/new/a"[..], b"/new/b/c", b"/older/a"]);
    }

    #[test]
    fn a_journal_of_another_directory_is_refused_if_its_disk_lacks_bytes_of_it() {
        for (dirty, refused) in [(false, false), (true, true)] {
            let mut recovered = Recovered::default();
            recovered.files.insert(1, file("/old/a", dirty));
            let applied =
                origin("/new", 4).apply(&origin("/old", 2), &NodeFiles::first(Path::new("/fast")), &mut recovered);
            assert_eq!(applied.is_err(), refused);
            assert_eq!(recovered.files[&1].path, b"/old/a");
            if let Err(error) = applied {
                let text = error.to_string();
                assert!(text.contains("/fast") && text.contains("/old") && text.contains("10 bytes"), "{text}");
            }
        }
    }

    #[test]
    fn a_damaged_file_of_origin_is_named_and_not_taken_for_none() {
        let (slow, fast) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let files = NodeFiles::first(fast.path());
        let kept = path(&files);
        std::fs::create_dir(kept.parent().unwrap()).unwrap();
        let mut recovered = Recovered::default();
        let origin = Origin::translate(slow.path(), &files, &mut recovered).unwrap();
        origin.settle(&files).unwrap();
        assert_eq!(Origin::earlier(&files).unwrap(), Some(origin));
        for text in ["", "{}", r#"{"slow":"","inode":1,"birth_ns":1}"#] {
            std::fs::write(&kept, text).unwrap();
            let error = Origin::translate(slow.path(), &files, &mut recovered).expect_err("it is refused");
            assert!(error.to_string().contains(kept.to_str().unwrap()), "{error}");
            assert_eq!(std::fs::read_to_string(&kept).unwrap(), text, "it is left as it was");
        }
    }

    #[test]
    fn devices_that_an_agent_before_wrote_are_read_and_not_written_again() {
        let fast = tempfile::tempdir().unwrap();
        let files = NodeFiles::first(fast.path());
        let kept = path(&files);
        std::fs::create_dir(kept.parent().unwrap()).unwrap();
        assert_eq!(devices(&files).unwrap(), [0; 0]);
        std::fs::write(&kept, r#"{"slow":"/slow","inode":2,"birth_ns":3,"devices":[70,71]}"#).unwrap();
        assert_eq!(devices(&files).unwrap(), [70, 71]);
        Origin::earlier(&files).unwrap().unwrap().settle(&files).unwrap();
        assert_eq!(devices(&files).unwrap(), [0; 0]);
    }
}

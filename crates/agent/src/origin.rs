//! Which managed directory the journal speaks of, so that its files are found again after the directory was
//! moved, or after its file system was mounted anew and got another device number.
//!
//! Journals name files by absolute path, device, inode and birth time. `FAST/.headstart/slow` says where the
//! managed directory was and which device number its own file system had; a start translates both to what
//! they are now. Files on other file systems mounted below keep the numbers they have.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use headstart_overlay::recovery::Recovered;
use headstart_protocol::FLASH_DIRECTORY;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::text_file;

/// Longest text that is read: a path of the kernel's length with every byte escaped, and room.
const BYTES_MAX: u64 = 256 << 10;

/// The managed directory as agents of this flash knew it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    slow: String,
    inode: u64,
    birth_ns: u64,
    /// Device numbers its file system had; several until the journal names the last alone.
    devices: Vec<u64>,
}

/// Birth time in nanoseconds since 1970; zero where the file system keeps none.
pub fn birth_ns(found: &std::fs::Metadata) -> u64 {
    let born = found.created().ok().and_then(|born| born.duration_since(UNIX_EPOCH).ok());
    born.map_or(0, |born| born.as_nanos() as u64)
}

fn path(fast: &Path) -> PathBuf {
    fast.join(FLASH_DIRECTORY).join("slow")
}

impl Origin {
    fn now(slow: &Path) -> Result<Origin> {
        let found = std::fs::metadata(slow).map_err(|error| Error::file("look at", slow, error))?;
        let text = slow.display().to_string();
        Ok(Origin { slow: text, inode: found.ino(), birth_ns: birth_ns(&found), devices: vec![found.dev()] })
    }

    /// Finds out where the managed directory was and translates what was replayed to where it is. The journal
    /// may name either device number until [`Origin::settle`].
    pub fn translate(slow: &Path, fast: &Path, recovered: &mut Recovered) -> Result<Origin> {
        let now = Origin::now(slow)?;
        let Some(earlier) = Origin::earlier(fast)? else { return Ok(now) };
        now.apply(&earlier, recovered);
        let devices = earlier.devices.iter().filter(|device| !now.devices.contains(device)).chain(&now.devices);
        let both = Origin { devices: devices.copied().collect(), ..now.clone() };
        both.write(fast)?;
        Ok(now)
    }

    /// Translates what was replayed and changes nothing on flash.
    pub fn look(slow: &Path, fast: &Path, recovered: &mut Recovered) -> Result<()> {
        if let (Ok(now), Some(earlier)) = (Origin::now(slow), Origin::earlier(fast)?) {
            now.apply(&earlier, recovered);
        }
        Ok(())
    }

    /// None where no agent of this flash has served a directory. One that cannot be understood is not taken
    /// for none: files of a directory that was moved would not be found again.
    fn earlier(fast: &Path) -> Result<Option<Origin>> {
        let path = path(fast);
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

    fn apply(&self, earlier: &Origin, recovered: &mut Recovered) {
        if (self.inode, self.birth_ns) != (earlier.inode, earlier.birth_ns) {
            return; // Another directory: files of the first are still where they were.
        }
        for file in recovered.files.values_mut() {
            if earlier.devices.contains(&file.identity.device) {
                file.identity.device = self.devices[0];
            }
            let rest = file.path.strip_prefix(earlier.slow.as_bytes()).filter(|rest| rest.starts_with(b"/"));
            if let Some(rest) = rest {
                file.path = [Path::new(&self.slow).as_os_str().as_bytes(), rest].concat();
            }
        }
    }

    /// The journal names the files as they are now.
    pub fn settle(&self, fast: &Path) -> Result<()> {
        self.write(fast)
    }

    fn write(&self, fast: &Path) -> Result<()> {
        let path = path(fast);
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
    use headstart_overlay::extent_map::ExtentMap;
    use headstart_overlay::journal::Identity;
    use headstart_overlay::recovery::RecoveredFile;

    use super::*;

    fn file(device: u64, path: &str) -> RecoveredFile {
        RecoveredFile {
            identity: Identity { device, inode: 5, birth_ns: 6 },
            path: path.as_bytes().to_vec(),
            map: ExtentMap::default(),
            intent: false,
            unlinked: false,
            followed: false,
            regions: Default::default(),
            fingerprint: None,
        }
    }

    #[test]
    fn a_directory_moved_and_mounted_anew_keeps_its_files_and_those_of_other_file_systems_differ() {
        let earlier = Origin { slow: "/old".into(), inode: 2, birth_ns: 3, devices: vec![70, 71] };
        let now = Origin { slow: "/new".into(), devices: vec![90], ..earlier.clone() };
        let mut recovered = Recovered::default();
        for (number, (device, path)) in [(71, "/old/a"), (72, "/old/b/c"), (70, "/older/a")].into_iter().enumerate() {
            recovered.files.insert(number as u32, file(device, path));
        }
        now.apply(&earlier, &mut recovered);
        let found: Vec<(u64, &[u8])> =
            recovered.files.values().map(|file| (file.identity.device, file.path.as_slice())).collect();
        assert_eq!(found, [(90, &b"/new/a"[..]), (72, b"/new/b/c"), (90, b"/older/a")]);
    }

    #[test]
    fn another_directory_leaves_the_names_as_they_were() {
        let earlier = Origin { slow: "/old".into(), inode: 2, birth_ns: 3, devices: vec![70] };
        let now = Origin { slow: "/new".into(), inode: 4, birth_ns: 5, devices: vec![90] };
        let mut recovered = Recovered::default();
        recovered.files.insert(1, file(70, "/old/a"));
        now.apply(&earlier, &mut recovered);
        assert_eq!(recovered.files[&1].path, b"/old/a");
        assert_eq!(recovered.files[&1].identity.device, 70);
    }

    #[test]
    fn a_damaged_file_of_origin_is_named_and_not_taken_for_none() {
        let (slow, fast) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let kept = path(fast.path());
        std::fs::create_dir(kept.parent().unwrap()).unwrap();
        let mut recovered = Recovered::default();
        let origin = Origin::translate(slow.path(), fast.path(), &mut recovered).unwrap();
        origin.settle(fast.path()).unwrap();
        assert_eq!(Origin::earlier(fast.path()).unwrap(), Some(origin));
        for text in ["", "{}", r#"{"slow":"","inode":1,"birth_ns":1,"devices":[]}"#] {
            std::fs::write(&kept, text).unwrap();
            let refused = [
                Origin::translate(slow.path(), fast.path(), &mut recovered).err(),
                Origin::look(slow.path(), fast.path(), &mut recovered).err(),
            ];
            for error in refused {
                let message = error.expect("it is refused").to_string();
                assert!(message.contains(kept.to_str().unwrap()), "{message}");
            }
            assert_eq!(std::fs::read_to_string(&kept).unwrap(), text, "it is left as it was");
        }
    }
}

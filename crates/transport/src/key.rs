//! The secret that makes an agent one of a managed directory: a private key in the fast directory, which all nodes of
//! the user see.
//!
//! The first agent makes it (Ed25519), under a name of its own and then by a link, so that of two that start at once
//! one makes it and both have the same. Whoever can read the file is a member; so a file that others can read or have
//! made is refused.

use std::fs::{File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
use rcgen::{KeyPair, PKCS_ED25519};

use crate::error::{Error, Result};

/// The key's name in the fast directory.
pub const KEY_FILE: &str = "cluster.key";
/// A key of any kind is shorter.
const KEY_BYTES_MAX: u64 = 16 << 10;

/// The agents' key.
pub struct Key {
    pair: KeyPair,
    path: PathBuf,
}

impl Key {
    /// The key at `path`; made if there is none.
    ///
    /// # Errors
    /// The file is not this user's, can be read by others, is no file or no key, or cannot be made.
    pub fn load_or_create(path: &Path) -> Result<Key> {
        match load(path) {
            Ok(Some(key)) => return Ok(key),
            Ok(None) => create(path)?,
            Err(error) => return Err(error),
        }
        load(path)?.ok_or_else(|| Error::Key { path: path.into(), problem: "somebody removes it: start again".into() })
    }

    pub(crate) fn pair(&self) -> &KeyPair {
        &self.pair
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// None if there is no such file.
fn load(path: &Path) -> Result<Option<Key>> {
    // What stands in its place may be a pipe, which nobody waits for.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::file("open the agents' key", path, error)),
    };
    let refused = |problem: String| Error::Key { path: path.into(), problem };
    check(&file).map_err(|error| Error::file("look at", path, error))?.map_err(refused)?;
    let mut text = String::new();
    file.take(KEY_BYTES_MAX).read_to_string(&mut text).map_err(|error| Error::file("read", path, error))?;
    let none = "remove it, if no agent of this directory runs on any node, and the next one makes another";
    let pair = KeyPair::from_pem(&text).map_err(|error| refused(format!("it is none ({error}); {none}")))?;
    Ok(Some(Key { pair, path: path.into() }))
}

/// What is wrong with the file itself.
fn check(file: &File) -> io::Result<std::result::Result<(), String>> {
    let found = file.metadata()?;
    let (own, mode) = (nix::unistd::geteuid().as_raw(), found.mode() & 0o7777);
    Ok(if !found.is_file() {
        Err("it is no regular file".into())
    } else if found.uid() != own {
        Err(format!("it belongs to user {}, and this agent is user {own}'s: whoever made it is a member", found.uid()))
    } else if mode != 0o600 {
        Err(format!(
            "its mode is {mode:04o}, and must be 0600: others may have read it. Remove it when no agent of this \
             directory runs on any node, and the next one makes another"
        ))
    } else {
        Ok(())
    })
}

/// Makes a key, unless somebody else has by then.
fn create(path: &Path) -> Result<()> {
    let failed = |error: io::Error| Error::file("make the agents' key", path, error);
    let pair = KeyPair::generate_for(&PKCS_ED25519).map_err(|error| failed(io::Error::other(error)))?;
    let mut fresh = path.as_os_str().to_owned();
    fresh.push(format!(".{:016x}", RandomState::new().hash_one(std::process::id())));
    let fresh = PathBuf::from(fresh);
    let made = write(&fresh, &pair.serialize_pem()).and_then(|()| publish(&fresh, path));
    let _ = std::fs::remove_file(&fresh);
    match made {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(failed(error)),
        _ => sync_directory(path).map_err(failed),
    }
}

fn write(fresh: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(fresh)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// Gives the whole file its name, which nobody else may have taken; by a rename where there are no links.
fn publish(fresh: &Path, path: &Path) -> io::Result<()> {
    match std::fs::hard_link(fresh, path) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EPERM | libc::EOPNOTSUPP | libc::ENOSYS)) => {
            rename_to_nothing(fresh, path)
        }
        linked => linked,
    }
}

fn rename_to_nothing(fresh: &Path, path: &Path) -> io::Result<()> {
    Ok(renameat2(AT_FDCWD, fresh, AT_FDCWD, path, RenameFlags::RENAME_NOREPLACE)?)
}

fn sync_directory(path: &Path) -> io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match File::open(directory)?.sync_all() {
        // Some file systems sync no directories.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(()),
        synced => synced,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn place() -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(KEY_FILE);
        (directory, path)
    }

    fn problem(path: &Path) -> String {
        let text = Key::load_or_create(path).err().expect("it is refused").to_string();
        assert!(text.contains(&path.display().to_string()), "{text} names the file");
        text
    }

    #[test]
    fn the_first_makes_the_key_and_the_others_take_it() {
        let (directory, path) = place();
        let keys: Vec<Vec<u8>> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..8).map(|_| scope.spawn(|| Key::load_or_create(&path).unwrap().pair().serialize_der())).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(keys.iter().all(|key| *key == keys[0]));
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1, "nothing else is left");
    }

    #[test]
    fn a_key_that_others_can_read_is_refused() {
        let (_directory, path) = place();
        Key::load_or_create(&path).unwrap();
        for mode in [0o640, 0o604, 0o700, 0o400] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            assert!(problem(&path).contains(&format!("{mode:04o}")));
        }
    }

    #[test]
    fn a_key_of_another_user_is_refused() {
        let (_directory, path) = place();
        Key::load_or_create(&path).unwrap();
        if std::os::unix::fs::chown(&path, Some(12345), None).is_ok() {
            assert!(problem(&path).contains("12345"));
        } else {
            // Not root: every file of root's that can be read stands for it.
            assert!(check(&File::open("/etc/passwd").unwrap()).unwrap().unwrap_err().contains("user 0"));
        }
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let (_directory, path) = place();
        write(&path, "nothing").unwrap();
        assert!(problem(&path).contains("it is none"));
        std::fs::remove_file(&path).unwrap();
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap();
        assert!(problem(&path).contains("no regular file"));
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("elsewhere", &path).unwrap();
        problem(&path);
    }

    #[test]
    fn where_there_are_no_links_the_first_name_stays_too() {
        let (directory, path) = place();
        let fresh = directory.path().join("fresh");
        write(&fresh, "1").unwrap();
        rename_to_nothing(&fresh, &path).unwrap();
        write(&fresh, "2").unwrap();
        assert_eq!(rename_to_nothing(&fresh, &path).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "1");
    }
}

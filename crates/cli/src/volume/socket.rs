//! The socket on which NBD is to be spoken.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use anyhow::{Context, Result, bail};

/// What a socket's address has room for, on Linux.
const SOCKET_PATH_MAX: usize = 107;

/// Makes room for a socket: removes one that nobody listens on.
pub fn free(socket: &Path) -> Result<()> {
    let named = || socket.display().to_string();
    let length = socket.as_os_str().len();
    if length > SOCKET_PATH_MAX {
        bail!(
            "{}: a socket's path has at most {SOCKET_PATH_MAX} bytes and this one {length}; name a shorter one",
            named()
        );
    }
    let directory = socket.parent().filter(|parent| !parent.as_os_str().is_empty());
    if directory.is_some_and(|directory| !directory.is_dir()) {
        bail!("{}: its directory is not there; create it", named());
    }
    match fs::symlink_metadata(socket) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).with_context(named),
        Ok(found) if !found.file_type().is_socket() => {
            bail!("{} is no socket; name one that is absent", socket.display())
        }
        Ok(_) => {}
    }
    match UnixStream::connect(socket) {
        Ok(_) => bail!("{}: a server listens there already; stop it, or name another socket", socket.display()),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(socket).with_context(named),
        Err(error) => Err(error).with_context(named),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_socket_without_a_listener_makes_room() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        free(&path).unwrap();
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let living = free(&path).unwrap_err().to_string();
        assert!(living.contains("listens there already"), "{living}");
        drop(listener);
        free(&path).unwrap();
        assert!(!path.exists());
        fs::write(&path, "precious").unwrap();
        assert!(free(&path).is_err());
        assert!(path.exists());
    }
}

//! nbdkit: its program, our plugin, and the socket it is to listen on.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// Environment: where the plugin is.
const ENVIRONMENT_PLUGIN: &str = "HEADSTART_PLUGIN";

/// What a socket's address has room for, on Linux.
const SOCKET_PATH_MAX: usize = 107;

/// As cargo names the plugin, and as nbdkit's own are named.
const PLUGIN_NAMES: [&str; 2] = ["libnbdkit_headstart_plugin.so", "nbdkit-headstart-plugin.so"];

/// The plugin: `$HEADSTART_PLUGIN`, beside this program, or in `../lib` of it.
pub fn plugin() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os(ENVIRONMENT_PLUGIN) {
        let path = PathBuf::from(path);
        return path.canonicalize().with_context(|| format!("{ENVIRONMENT_PLUGIN} names {}", path.display()));
    }
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let beside = program.parent().map(Path::to_owned);
    let installed = beside.as_deref().and_then(Path::parent).map(|prefix| prefix.join("lib"));
    let candidates = [beside, installed].into_iter().flatten();
    let found =
        candidates.flat_map(|directory| PLUGIN_NAMES.map(|name| directory.join(name))).find(|path| path.exists());
    found.with_context(|| {
        let beside = program.with_file_name(PLUGIN_NAMES[0]);
        format!(
            "the plugin of nbdkit is not at {}; build it with 'make build' or name it in {ENVIRONMENT_PLUGIN}",
            beside.display()
        )
    })
}

/// The program in PATH.
pub fn program() -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut candidates = std::env::split_paths(&path).map(|directory| directory.join("nbdkit"));
    candidates
        .find(|candidate| nix::unistd::access(candidate, nix::unistd::AccessFlags::X_OK).is_ok())
        .context("nbdkit is not installed, and --nbd needs it: apt install nbdkit (or use --mount-file)")
}

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

//! The right to use the fast directory.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use crate::error::{Error, Result};
use crate::node_files::NodeFiles;

/// How long an agent that was killed may take to let go.
const CLAIM_PATIENCE: Duration = Duration::from_secs(2);

/// The right to use a node's files; ends with the process.
pub(crate) struct Claim {
    _lock: Flock<File>,
}

/// Makes this agent the only one of this machine that uses the node's files, whatever its runtime directory.
pub(crate) fn claim(files: &NodeFiles) -> Result<Claim> {
    claim_within(files, CLAIM_PATIENCE)
}

/// The same, if whoever has them lets go soon enough.
pub(crate) fn claim_within(files: &NodeFiles, patience: Duration) -> Result<Claim> {
    let directory = files.own();
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&directory)
        .map_err(|error| Error::file("create", &directory, error))?;
    let path = directory.join("lock");
    let create = || OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
    let mut file = create().map_err(|error| Error::file("open", &path, error))?;
    let deadline = Instant::now() + patience;
    loop {
        file = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => return Ok(Claim { _lock: lock }),
            Err((file, Errno::EWOULDBLOCK)) if Instant::now() < deadline => file,
            Err((_, Errno::EWOULDBLOCK)) => return Err(Error::FlashInUse { path: directory }),
            Err((_, error)) => return Err(Error::file("lock", &path, error)),
        };
        std::thread::sleep(Duration::from_millis(10));
    }
}

//! What the user gave up: flash that comes back after its bytes were given up must not write them over newer ones.
//!
//! `.headstart-discarded` at the top of the managed directory names the epoch up to which journals count no
//! more. It stays: nobody knows when an old device is plugged in again.

use std::io::{self, Write};
use std::path::Path;

use headstart_overlay::journal::Header;
use headstart_protocol::FLASH_DIRECTORY;
use serde::{Deserialize, Serialize};

use crate::epoch::EPOCH_MAX;
use crate::error::{Error, Result};
use crate::node_files::NodeFiles;
use crate::store;
use crate::text_file;

const FILE: &str = ".headstart-discarded";

/// Longest text that is read.
const BYTES_MAX: u64 = 64 << 10;

#[derive(Serialize, Deserialize)]
struct Discarded {
    note: String,
    epoch: u64,
}

/// The epoch that the text of `.headstart-discarded` names, or why it names none.
pub fn parse(text: &str) -> std::result::Result<u64, String> {
    let Discarded { epoch, .. } = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if epoch > EPOCH_MAX { Err(format!("no agent has the epoch {epoch}")) } else { Ok(epoch) }
}

/// The text that names an epoch.
pub fn to_text(epoch: u64) -> String {
    let note = "Dirty bytes of this directory were given up with 'headstart'. Flash of an agent up to this \
                epoch is not trusted any more, should it come back."
        .to_string();
    serde_json::to_string(&Discarded { note, epoch }).expect("it has a JSON form")
}

/// Journals up to this epoch count no more; zero if nothing was given up.
pub fn epoch(slow: &Path) -> Result<u64> {
    let path = slow.join(FILE);
    match text_file::read_own(&path, BYTES_MAX) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(Error::file("read", &path, error)),
        Ok(text) => parse(&text).map_err(|problem| Error::file("understand", &path, io::Error::other(problem))),
    }
}

/// Remembers durably that journals up to `given_up` count no more.
pub fn remember(slow: &Path, given_up: u64) -> Result<()> {
    let epoch = given_up.max(epoch(slow)?);
    let path = slow.join(FILE);
    let fresh = slow.join(format!("{FILE}.new"));
    let attempt = || {
        let mut file = std::fs::File::create(&fresh)?;
        file.write_all(to_text(epoch).as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&fresh, &path)?;
        text_file::sync_directory(slow)
    };
    attempt().map_err(|error| Error::file("write", &path, error))
}

/// Moves a journal that counts no more out of the way, with all that an agent kept beside it.
pub(crate) fn set_aside(slow: &Path, files: &NodeFiles) -> Result<()> {
    let given_up = if files.node() == 0 { epoch(slow)? } else { 0 };
    if given_up == 0 {
        return Ok(());
    }
    let journal = std::fs::read(files.journal()).unwrap_or_default();
    if Header::decode_any(&journal).is_ok_and(|header| header.epoch <= given_up) {
        let _claim = store::claim(files)?;
        move_away(files.fast())?;
    }
    Ok(())
}

/// Moves what an agent kept on flash out of the way; nothing if it kept nothing there.
pub(crate) fn move_away(fast: &Path) -> Result<()> {
    let kept = fast.join(FLASH_DIRECTORY);
    if !kept.join("lock").exists() && !kept.join("journal").exists() {
        return Ok(());
    }
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let away = (0..).map(|number| fast.join(format!("{FLASH_DIRECTORY}-discarded-{now}-{number}")));
    let away = away.into_iter().find(|path| !path.exists()).expect("some number is free");
    tracing::warn!(from = %kept.display(), to = %away.display(), "bytes that were given up are moved away");
    std::fs::rename(&kept, &away).map_err(|error| Error::file("move away", &kept, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_given_up_stays_so() {
        let slow = tempfile::tempdir().unwrap();
        assert_eq!(epoch(slow.path()).unwrap(), 0);
        remember(slow.path(), 7).unwrap();
        remember(slow.path(), 3).unwrap();
        assert_eq!(epoch(slow.path()).unwrap(), 7);
        let last = format!(r#"{{"note":"","epoch":{}}}"#, u64::MAX);
        for text in ["{", &last] {
            std::fs::write(slow.path().join(FILE), text).unwrap();
            let message = epoch(slow.path()).unwrap_err().to_string();
            assert!(message.contains(FILE), "not taken for nothing: {message}");
        }
    }
}

//! What an earlier agent left: the journal in the fast directory and its copy in memory.

use std::path::{Path, PathBuf};

use headstart_overlay::journal::HEADER_BYTES;
use headstart_overlay::journal::earlier::Earlier;
use headstart_overlay::recovery::{Observation, Recovered, Replay};
use headstart_protocol::shared::FILES_MAX;

use super::data_files::data_file_number;
use super::journal_files::read_journal;
use crate::epoch::EPOCH_MAX;
use crate::error::{Error, Result};
use crate::node_files::NodeFiles;
use crate::origin;
use crate::storage::{Access, Storage};

/// What was found before this agent started.
pub(crate) struct Found {
    /// The replayed journal.
    pub recovered: Recovered,
    /// The epoch of the agent that wrote it.
    pub epoch: u64,
    /// Whether nothing that was appended is missing.
    pub complete: bool,
}

/// What is taken for possible of a data file that is missing or was cut: bytes that lie there cannot be read,
/// the others can.
const LOST_BYTES_MAX: u64 = 1 << 40;

/// Looks for a journal in the fast directory and its copy in memory, and replays what counts of them.
pub(crate) fn recover(storage: &dyn Storage, files: &NodeFiles, runtime: &Path, boot_id: [u8; 16]) -> Result<Found> {
    let path = files.journal();
    let Some((header, bytes)) = read_journal(storage, &path)? else {
        refuse_lost_journal(storage, files)?;
        return Ok(Found { recovered: Recovered::default(), epoch: 0, complete: false });
    };
    let live = read_journal(storage, &runtime.join(super::LIVE_JOURNAL_FILE)).unwrap_or_else(|error| {
        tracing::warn!(%error, "only what was made durable counts");
        None
    });
    // The copy is replaced first: one of a later epoch is that of an agent that ended before its journal was in place.
    let live = live.filter(|(live_header, _)| live_header.boot_id == boot_id && live_header.epoch >= header.epoch);
    let (header, bytes, tail_present) = match live {
        Some((live_header, live_bytes)) => (live_header, live_bytes, true),
        None => (header, bytes, false),
    };
    if header.epoch > EPOCH_MAX {
        return Err(Error::Journal { path, problem: format!("no agent has the epoch {}", header.epoch) });
    }
    let observation = Observation { same_boot: header.boot_id == boot_id, tail_present };
    let replay = observation.decide();
    let recovered = replayed(storage, files, &path, &bytes, replay)?;
    let mapped = recovered.files.values().flat_map(|file| file.map.iter().map(|mapped| mapped.data_file));
    if let Some(strange) = recovered.data_files.keys().copied().chain(mapped).find(|number| !files.is_own(*number)) {
        let problem = format!(
            "it names {}, a data file of another node's number; restore this node's journal",
            files.data_file(strange).display()
        );
        return Err(Error::Journal { path, problem });
    }
    let size = |data_file| {
        let opened = storage.open(&files.data_file(data_file), Access::Existing);
        opened.and_then(|file| file.attributes()).map_or(LOST_BYTES_MAX, |found| found.size.max(LOST_BYTES_MAX))
    };
    if !recovered.is_plausible(FILES_MAX, size) {
        let problem = "it names bytes that are not there; restore the data files beside it, or remove all of \
                       them to give up what only flash holds";
        return Err(Error::Journal { path, problem: problem.into() });
    }
    tracing::info!(
        ?observation,
        ?replay,
        records = recovered.records,
        dirty_bytes = recovered.dirty_bytes(),
        "journal replayed"
    );
    Ok(Found { recovered, epoch: header.epoch, complete: replay == Replay::Everything })
}

/// What a journal says. One of the format before also names files of other file systems that are mounted
/// below the managed directory: clean bytes of those are given up, dirty ones are for the version that
/// manages them.
fn replayed(storage: &dyn Storage, files: &NodeFiles, path: &Path, bytes: &[u8], replay: Replay) -> Result<Recovered> {
    let Some(earlier) = Earlier::find(bytes) else { return Ok(Recovered::replay(&bytes[HEADER_BYTES..], replay)) };
    let devices = origin::devices(files)?;
    let is_own = |device| if devices.is_empty() { storage.is_managed(device) } else { devices.contains(&device) };
    let dirty_bytes = Recovered::replay(&earlier.body(|device| !is_own(device)), replay).dirty_bytes();
    if dirty_bytes > 0 {
        let problem = format!(
            "it has {dirty_bytes} bytes of files on other file systems that are mounted below the slow \
             directory, which this version of Headstart does not manage: \
             run 'headstart drain' with the version that wrote it"
        );
        return Err(Error::Journal { path: path.to_path_buf(), problem });
    }
    tracing::info!("the journal has the format before this one: the next one has this");
    Ok(Recovered::replay(&earlier.body(is_own), replay))
}

/// A journal is there before the first data file is.
fn refuse_lost_journal(storage: &dyn Storage, files: &NodeFiles) -> Result<()> {
    let is_own = |entry: &PathBuf| data_file_number(entry).is_some_and(|number| files.is_own(number));
    let data = storage.list(&files.shared()).ok().and_then(|entries| entries.into_iter().find(is_own));
    data.map_or(Ok(()), |data| {
        let problem = format!("it is missing, but {} is there", data.display());
        Err(Error::Journal { path: files.journal(), problem })
    })
}

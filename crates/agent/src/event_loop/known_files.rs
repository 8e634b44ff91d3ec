//! What the event loop keeps of files beside the overlay: opens that wait for a number, files kept off flash,
//! numbers whose memory is given back, directories that were looked at, and how far the search for removed
//! files has come.

use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use headstart_overlay::journal::Identity;
use headstart_protocol::message::Envelope;

/// Files forgotten last that keep their memory: 4 MiB.
const FORGOTTEN_MAX: usize = 256;
/// Directories remembered.
const OWN_DIRECTORIES_MAX: usize = 4096;
/// How often files that were removed by a stranger are looked for: each is a call on the slow file system.
const SWEEP_PERIOD: Duration = Duration::from_secs(1);

/// An open that waits: the table of files is full, and one will be forgotten.
pub(super) struct WaitingOpen {
    pub(super) envelope: Envelope,
    pub(super) identity: Identity,
    pub(super) writable: bool,
    pub(super) path: Vec<u8>,
}

/// See the module.
pub(super) struct KnownFiles {
    opens: Vec<WaitingOpen>,
    /// Files that may not come to flash, as far as they were opened.
    excluded: BTreeSet<u32>,
    /// Numbers of files that were forgotten and have memory, the last ones behind.
    forgotten: VecDeque<u32>,
    /// Directories known to lie in no managed directory but this.
    own_directories: BTreeSet<PathBuf>,
    last_sweep: Instant,
    /// The next file to look at.
    sweep_from: u32,
    /// It was told that no number is left for data files.
    told_of_numbers: bool,
}

impl KnownFiles {
    pub(super) fn new() -> KnownFiles {
        KnownFiles {
            opens: Vec::new(),
            excluded: BTreeSet::new(),
            forgotten: VecDeque::new(),
            own_directories: BTreeSet::new(),
            last_sweep: Instant::now(),
            sweep_from: 0,
            told_of_numbers: false,
        }
    }

    /// An open waits until a file is forgotten.
    pub(super) fn wait(&mut self, open: WaitingOpen) {
        self.opens.push(open);
    }

    /// The opens that wait; those that have to wait again come back by [`KnownFiles::wait`].
    pub(super) fn take_waiting(&mut self) -> Vec<WaitingOpen> {
        std::mem::take(&mut self.opens)
    }

    /// The thread behind a slot waits no more.
    pub(super) fn forget_slot(&mut self, slot: u32) {
        self.opens.retain(|open| open.envelope.slot != slot);
    }

    /// Whether a file that was opened may come to flash.
    pub(super) fn set_excluded(&mut self, file: u32, is_excluded: bool) {
        if is_excluded {
            self.excluded.insert(file);
        } else {
            self.excluded.remove(&file);
        }
    }

    /// Whether it may not.
    pub(super) fn is_excluded(&self, file: u32) -> bool {
        self.excluded.contains(&file)
    }

    /// The overlay forgot the file.
    pub(super) fn forgotten(&mut self, file: u32) {
        self.forgotten.push_back(file);
    }

    /// The next forgotten number whose memory is to be given back; the last ones keep it, as threads that
    /// were just closing them may look at their bits once more.
    pub(super) fn next_to_release(&mut self) -> Option<u32> {
        if self.forgotten.len() > FORGOTTEN_MAX { self.forgotten.pop_front() } else { None }
    }

    /// Whether files in the directory are known to lie in no managed directory but this.
    pub(super) fn is_own(&self, directory: &Path) -> bool {
        self.own_directories.contains(directory)
    }

    /// They do.
    pub(super) fn remember_own(&mut self, directory: &Path) {
        if self.own_directories.len() >= OWN_DIRECTORIES_MAX {
            self.own_directories.clear();
        }
        self.own_directories.insert(directory.to_path_buf());
    }

    /// No number is left for data files; true the first time.
    pub(super) fn tell_of_numbers(&mut self) -> bool {
        !std::mem::replace(&mut self.told_of_numbers, true)
    }

    /// The first file to look for, if it is time to look for removed ones.
    pub(super) fn begin_sweep(&mut self) -> Option<u32> {
        if self.last_sweep.elapsed() < SWEEP_PERIOD {
            return None;
        }
        self.last_sweep = Instant::now();
        Some(self.sweep_from)
    }

    /// All files up to `last` were looked at; none: all there are.
    pub(super) fn swept(&mut self, last: Option<u32>) {
        self.sweep_from = last.map_or(0, |last| last + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_forgotten_last_keep_their_memory() {
        let mut files = KnownFiles::new();
        (0..FORGOTTEN_MAX as u32).for_each(|file| files.forgotten(file));
        assert_eq!(files.next_to_release(), None);
        files.forgotten(1000);
        assert_eq!((files.next_to_release(), files.next_to_release()), (Some(0), None));
    }

    #[test]
    fn a_sweep_goes_on_where_the_one_before_ended_and_begins_anew_after_the_last_file() {
        let mut files = KnownFiles::new();
        assert_eq!(files.begin_sweep(), None, "it is not time yet");
        let mut due = |last| {
            files.last_sweep -= SWEEP_PERIOD;
            let from = files.begin_sweep();
            files.swept(last);
            from
        };
        assert_eq!([due(Some(9)), due(None), due(None)], [Some(0), Some(10), Some(0)]);
    }
}

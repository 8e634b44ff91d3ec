//! Where the barrier stands: what it has to sync, and what is durable. How it runs is told in
//! `barrier.rs` of the crate.

use std::collections::BTreeSet;

use crate::errno;
use crate::flash_space::Run;
use crate::journal::Record;
use crate::output::{Answer, NotSynced, Output};
use crate::page_set::PageSet;

/// What has to be synced with the next barrier.
#[derive(Clone, Debug, Default)]
struct Unsynced {
    /// Data files named by records since the last barrier.
    data_files: BTreeSet<u32>,
    /// Slow files to sync with the next one.
    slow_files: BTreeSet<u32>,
    /// Slow files that records since their last sync wrote, cut or left alone, of which no program asked that
    /// anything survive power loss: only a full barrier syncs them.
    deferred: BTreeSet<u32>,
    /// Directories from which the names of files were removed of which a program asked it, since they were last synced.
    left_directories: BTreeSet<Vec<u8>>,
}

/// How barriers are numbered, and how they ended.
#[derive(Clone, Debug, Default)]
struct Turns {
    begun: u64,
    ended: u64,
    /// When the last one ended.
    ended_ns: u64,
    failed: BTreeSet<u64>,
}

/// A barrier under way.
#[derive(Clone, Debug)]
struct Running {
    /// The journal's end when it began.
    end: u64,
    data_files: Vec<u32>,
    /// In order.
    slow_files: Vec<u32>,
    left_directories: BTreeSet<Vec<u8>>,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Barrier {
    /// Somebody asked for one.
    wanted: bool,
    /// The next one is to be a full one, whenever it comes.
    full: bool,
    /// None may begin.
    held: bool,
    running: Option<Running>,
    turns: Turns,
    /// Position up to which records are durable.
    durable_end: u64,
    unsynced: Unsynced,
    /// Pages named by records since the last barrier began, and by those the barrier under way takes in.
    uncovered: PageSet,
    covering: PageSet,
    /// Files of which a program asked that they survive power loss, since this agent started or before.
    asked: BTreeSet<u32>,
}

impl Barrier {
    /// Asks for a barrier.
    pub(crate) fn want(&mut self) {
        self.wanted = true;
    }

    /// Asks for one if that is so.
    pub(crate) fn want_if(&mut self, wanted: bool) {
        self.wanted |= wanted;
    }

    /// At a start: whether one is wanted, whatever was before.
    pub(crate) fn want_at_start(&mut self, wanted: bool) {
        self.wanted = wanted;
    }

    /// Asks for one that syncs every slow file.
    pub(crate) fn want_full(&mut self) {
        self.wanted = true;
        self.full = true;
    }

    /// Asks for the next barrier to begin: its number.
    pub(crate) fn want_next(&mut self) -> u64 {
        self.wanted = true;
        self.next()
    }

    /// Lets no barrier begin until told otherwise.
    pub(crate) fn hold(&mut self, hold: bool) {
        self.held = hold;
    }

    /// A program asked that the file survive power loss.
    pub(crate) fn ask(&mut self, file: u32) {
        self.asked.insert(file);
    }

    /// Whether one ever did.
    pub(crate) fn is_asked(&self, file: u32) -> bool {
        self.asked.contains(&file)
    }

    /// The next barrier syncs the slow file.
    pub(crate) fn sync_slow(&mut self, file: u32) {
        self.unsynced.slow_files.insert(file);
    }

    /// The next barrier syncs the directory that a file of the path lies in.
    pub(crate) fn sync_directory_of(&mut self, path: &[u8]) {
        let end = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
        self.unsynced.left_directories.insert(path[..end.max(1).min(path.len())].to_vec());
    }

    /// A record is appended: what has to be synced before it counts. `has_intent`: the journal says that its file may
    /// be written. True if it names bytes of a data file.
    pub(crate) fn note(&mut self, record: &Record, has_intent: impl Fn(u32) -> bool) -> Option<u32> {
        let mut named = None;
        match record {
            Record::Map { data_file, place, length, .. } | Record::Fetched { data_file, place, length, .. } => {
                self.unsynced.data_files.insert(*data_file);
                self.uncovered.insert(Run::touching(*data_file, *place, *length));
                named = Some(*data_file);
            }
            // Without an intent the clean bytes are kept after power loss: the disk must hold the same.
            Record::Clean { file, .. } if !has_intent(*file) => self.sync_slow(*file),
            Record::Clean { file, .. } | Record::Drop { file, .. } | Record::Truncate { file, .. } => {
                self.unsynced.deferred.insert(*file);
            }
            // A fingerprint of a size that power loss takes back would be taken for a foreign change.
            Record::Closed { file } | Record::Fingerprint { file, .. } => self.sync_slow(*file),
            _ => {}
        }
        if let Record::Fetched { file, .. } = record {
            // What was fetched may be newer than what the disk would hold after power loss: bytes written before the
            // file was opened here, or under an intent closed since. A clean extent must not outlive such bytes.
            self.sync_slow(*file);
        }
        named
    }

    /// Number of the next barrier to begin.
    pub(crate) fn next(&self) -> u64 {
        self.turns.begun + 1
    }

    /// Whether one is under way.
    pub(crate) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Whether the barrier under way syncs the slow file: its number must not be used again meanwhile.
    pub(crate) fn names(&self, file: u32) -> bool {
        self.running.as_ref().is_some_and(|running| running.slow_files.binary_search(&file).is_ok())
    }

    /// Whether records speak of the slow file that no barrier has synced.
    pub(crate) fn is_unsynced(&self, file: u32) -> bool {
        self.unsynced.slow_files.contains(&file) || self.unsynced.deferred.contains(&file)
    }

    /// Whether every slow file that records speak of is synced.
    pub(crate) fn slow_files_are_synced(&self) -> bool {
        let running = self.running.as_ref().is_some_and(|running| !running.slow_files.is_empty());
        !running && self.unsynced.slow_files.is_empty() && self.unsynced.deferred.is_empty()
    }

    /// Whether every record up to `journal_end` is durable, and every slow file it speaks of.
    pub(crate) fn is_durable(&self, journal_end: u64) -> bool {
        self.durable_end == journal_end && self.unsynced.deferred.is_empty()
    }

    /// Position up to which records are durable.
    pub(crate) fn durable_end(&self) -> u64 {
        self.durable_end
    }

    /// Records are durable up to there.
    pub(crate) fn set_durable_end(&mut self, end: u64) {
        self.durable_end = end;
    }

    /// When the last barrier ended.
    pub(crate) fn ended_ns(&self) -> u64 {
        self.turns.ended_ns
    }

    /// The answer for whoever waits for barrier `number`.
    pub(crate) fn answer(&self, number: u64) -> Option<Answer> {
        if self.turns.ended < number {
            return None;
        }
        if self.turns.failed.contains(&number) {
            let text = "flash or disk could not be synced; see the agent's log".to_string();
            return Some(Answer::Error { errno: errno::EIO, text });
        }
        Some(Answer::Done)
    }

    /// Takes the number of a barrier that begins now, if one is wanted and may. Then [`Barrier::take_slow_files`], then
    /// [`Barrier::begin`].
    pub(crate) fn take_turn(&mut self) -> Option<u64> {
        if self.running.is_some() || !self.wanted || self.held {
            return None;
        }
        self.wanted = false;
        self.turns.begun += 1;
        self.covering = std::mem::take(&mut self.uncovered);
        Some(self.turns.begun)
    }

    /// The slow files that it has to sync, as far as they are there.
    pub(crate) fn take_slow_files(&mut self) -> BTreeSet<u32> {
        let full = std::mem::take(&mut self.full);
        let mut slow = std::mem::take(&mut self.unsynced.slow_files);
        let (now, later) = std::mem::take(&mut self.unsynced.deferred)
            .into_iter()
            .partition(|file| full || self.asked.contains(file) || slow.contains(file));
        self.unsynced.deferred = later;
        slow.extend::<BTreeSet<u32>>(now);
        slow
    }

    /// It begins: what the runtime has to sync. `slow_files` are in order, `end` is the journal's.
    pub(crate) fn begin(&mut self, end: u64, slow_files: Vec<u32>) -> Output {
        let data_files: Vec<u32> = std::mem::take(&mut self.unsynced.data_files).into_iter().collect();
        let left_directories = std::mem::take(&mut self.unsynced.left_directories);
        let output = Output::Barrier {
            data_files: data_files.clone(),
            slow_files: slow_files.clone(),
            directories: left_directories.iter().cloned().collect(),
        };
        self.running = Some(Running { end, data_files, slow_files, left_directories });
        output
    }

    /// Its files are synced: the position that its record names.
    pub(crate) fn on_synced(&mut self) -> Option<u64> {
        let end = self.running.as_ref()?.end;
        self.covering = PageSet::default();
        Some(end)
    }

    /// It is durable: its number, and the position that its record names.
    pub(crate) fn end(&mut self, now_ns: u64) -> Option<(u64, u64)> {
        let running = self.running.take()?;
        self.turns.ended += 1;
        self.turns.ended_ns = now_ns;
        Some((self.turns.ended, running.end))
    }

    /// It failed, and the next one has to do what it was to. That may have been a full one. False if none is under way.
    pub(crate) fn fail(&mut self, now_ns: u64, is_trusted: impl Fn(u32) -> bool) -> bool {
        let Some(running) = self.running.take() else { return false };
        self.turns.ended += 1;
        self.turns.ended_ns = now_ns;
        self.turns.failed.insert(self.turns.ended);
        self.unsynced.data_files.extend(running.data_files.into_iter().filter(|data_file| is_trusted(*data_file)));
        self.unsynced.slow_files.extend(running.slow_files);
        self.unsynced.left_directories.extend(running.left_directories);
        self.full = true;
        true
    }

    /// The barrier under way could not sync these data files: the pages of each that may not hold what was written.
    /// The others that it named were synced; what came since it began was not.
    pub(crate) fn take_unsynced_pages(&mut self, failed: &NotSynced) -> Vec<(u32, Vec<Run>)> {
        let covering = std::mem::take(&mut self.covering);
        let untried: Vec<Run> =
            covering.iter().filter(|run| failed.data_files_untried.contains(&run.data_file)).collect();
        let mut recent = covering;
        recent.extend(self.uncovered.iter());
        let mut lost = Vec::new();
        for &data_file in &failed.data_files {
            lost.push((data_file, recent.of_data_file(data_file).collect()));
            self.uncovered.remove_data_file(data_file);
        }
        self.uncovered.extend(untried);
        lost
    }

    /// The file is forgotten; its number may be another's.
    pub(crate) fn forget_file(&mut self, file: u32) {
        self.unsynced.slow_files.remove(&file);
        self.unsynced.deferred.remove(&file);
        self.asked.remove(&file);
    }

    /// The data file is removed.
    pub(crate) fn forget_data_file(&mut self, data_file: u32) {
        self.unsynced.data_files.remove(&data_file);
    }

    /// Nobody asks for one any more.
    #[cfg(test)]
    pub(crate) fn forget_wish(&mut self) {
        self.wanted = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(barrier: &mut Barrier) -> Output {
        barrier.take_turn().expect("one is wanted, and none runs");
        let slow_files = barrier.take_slow_files().into_iter().collect();
        barrier.begin(50, slow_files)
    }

    fn synced(slow: &[u32]) -> Output {
        Output::Barrier { data_files: vec![], slow_files: slow.to_vec(), directories: vec![] }
    }

    #[test]
    fn a_short_barrier_leaves_slow_files_that_nobody_asked_for_to_the_next_full_one() {
        let mut barrier = Barrier::default();
        for file in [1, 2, 3] {
            barrier.note(&Record::Drop { file, offset: 0, length: 1 }, |_| true);
        }
        barrier.ask(2);
        barrier.want();
        assert_eq!(begin(&mut barrier), synced(&[2]));
        assert!(barrier.take_turn().is_none() && barrier.names(2) && !barrier.names(1));
        assert_eq!(barrier.end(7), Some((1, 50)));
        assert!(barrier.is_unsynced(1) && !barrier.is_unsynced(2));
        barrier.want_full();
        assert_eq!(begin(&mut barrier), synced(&[1, 3]));
    }

    #[test]
    fn whoever_waits_for_a_barrier_that_fails_is_told_so_and_the_next_one_syncs_the_same() {
        let mut barrier = Barrier::default();
        barrier.sync_slow(4);
        let number = barrier.want_next();
        assert_eq!(begin(&mut barrier), synced(&[4]));
        assert_eq!(barrier.answer(number), None);
        assert!(barrier.fail(0, |_| true) && !barrier.fail(0, |_| true));
        assert!(matches!(barrier.answer(number), Some(Answer::Error { errno: errno::EIO, .. })));
        let number = barrier.want_next();
        assert_eq!(begin(&mut barrier), synced(&[4]));
        barrier.end(0);
        assert_eq!(barrier.answer(number), Some(Answer::Done));
    }

    #[test]
    fn a_held_barrier_does_not_begin_and_a_clean_byte_without_an_intent_has_its_slow_file_synced() {
        let mut barrier = Barrier::default();
        let clean = Record::Clean { file: 1, offset: 0, length: 1, data_file: 1, place: 0 };
        assert_eq!(barrier.note(&clean, |_| false), None);
        barrier.want();
        barrier.hold(true);
        assert!(barrier.take_turn().is_none());
        barrier.hold(false);
        assert_eq!(begin(&mut barrier), synced(&[1]));
    }
}

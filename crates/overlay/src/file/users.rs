//! Who uses a file.

use std::collections::BTreeSet;

use crate::process::Process;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Users {
    openers: BTreeSet<Process>,
    writers: BTreeSet<Process>,
    /// Processes that use the file by means the library does not see; nothing comes to flash while one lives.
    bypassers: BTreeSet<Process>,
    /// The slow file may refuse to be written by whoever has it open now.
    sealed: bool,
}

impl Users {
    /// The process has it open.
    pub(crate) fn open(&mut self, process: Process) {
        self.openers.insert(process);
    }

    /// The process has it open for writing: the slow file can be written.
    pub(crate) fn write(&mut self, process: Process) {
        self.sealed = false;
        self.writers.insert(process);
    }

    /// The process no longer has it open; true if it was a writer.
    pub(crate) fn close(&mut self, process: Process) -> bool {
        self.openers.remove(&process);
        self.writers.remove(&process)
    }

    /// The process uses it by means that the library does not see.
    pub(crate) fn bypass(&mut self, process: Process) {
        self.bypassers.insert(process);
    }

    /// It no longer does.
    pub(crate) fn end_bypass(&mut self, process: Process) {
        self.bypassers.remove(&process);
    }

    /// The slow file may refuse to be written.
    pub(crate) fn seal(&mut self) {
        self.sealed = true;
    }

    /// Whether it may.
    pub(crate) fn is_sealed(&self) -> bool {
        self.sealed
    }

    /// Whether anybody has it open.
    pub(crate) fn are_there(&self) -> bool {
        !self.openers.is_empty()
    }

    /// Whether anybody has it open for writing.
    pub(crate) fn may_write(&self) -> bool {
        !self.writers.is_empty()
    }

    /// Whether anybody uses it unseen.
    pub(crate) fn bypass_us(&self) -> bool {
        !self.bypassers.is_empty()
    }

    /// Whether the process has it open, and for writing if it is to be `writable`.
    pub(crate) fn has_open(&self, process: Process, writable: bool) -> bool {
        self.openers.contains(&process) && (!writable || self.writers.contains(&process))
    }

    /// Whether the process uses it in any way.
    pub(crate) fn include(&self, process: Process) -> bool {
        self.openers.contains(&process) || self.bypassers.contains(&process)
    }

    /// The processes that have it open.
    #[cfg(test)]
    pub(crate) fn openers(&self) -> Vec<Process> {
        self.openers.iter().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Process = Process { pid: 1, start_time: 1 };
    const OTHER: Process = Process { pid: 2, start_time: 1 };

    #[test]
    fn a_file_is_written_until_its_last_writer_closes_it() {
        let mut users = Users::default();
        users.open(ONE);
        users.open(OTHER);
        users.seal();
        users.write(ONE);
        assert!(!users.is_sealed() && users.has_open(ONE, true) && !users.has_open(OTHER, true));
        assert!(!users.close(OTHER) && users.close(ONE) && !users.close(ONE));
        assert!(!users.are_there() && !users.may_write());
    }

    #[test]
    fn who_uses_a_file_unseen_does_so_whether_it_has_it_open_or_not() {
        let mut users = Users::default();
        users.open(ONE);
        users.bypass(ONE);
        users.close(ONE);
        assert!(users.include(ONE) && users.bypass_us() && !users.are_there());
        users.end_bypass(ONE);
        assert!(!users.include(ONE) && !users.bypass_us());
    }
}

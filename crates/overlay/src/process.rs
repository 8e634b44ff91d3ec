//! Processes, as the agent tells them apart.

/// Set in numbers of processes that the agent's namespace does not show: they are the processes' own.
const UNSEEN: u32 = 1 << 31;

/// A process: number and start time, so that a number used again is another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Process {
    /// Process id.
    pub pid: u32,
    /// Start time in clock ticks since boot.
    pub start_time: u64,
}

impl Process {
    /// One that the agent's namespace of process numbers does not show, as it says of itself who it is.
    pub fn unseen(pid: u32, start_time: u64) -> Process {
        Process { pid: pid | UNSEEN, start_time }
    }

    /// Whether nothing can be found out by its number.
    pub fn is_unseen(self) -> bool {
        self.pid & UNSEEN != 0
    }
}

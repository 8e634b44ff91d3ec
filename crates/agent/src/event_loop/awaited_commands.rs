//! Commands that are answered later, and what was asked to go on until it is done: a drain of all, or flash
//! becoming less; and the runs that leave their drain to others.

use std::collections::BTreeMap;

use super::relayed::Relayed;
use super::runs_of_jobs::RunsOfJobs;

/// A command that waits for barriers.
struct Sync {
    connection: u64,
    /// Barriers that have to end; the last of them begins after the command came.
    barriers: u32,
}

/// See the module.
#[derive(Default)]
pub(super) struct AwaitedCommands {
    /// Drains of one file: who waits, and the file's path.
    drains: BTreeMap<u64, (u64, String)>,
    last: u64,
    syncs: Vec<Sync>,
    /// Runs that are ranks of one program.
    pub(super) runs: RunsOfJobs,
    /// Those for other nodes' agents, and from them.
    pub(super) relayed: Relayed,
    /// Everything is being written back.
    pub(super) is_draining: bool,
    /// The capacity was changed, and flash may hold more.
    pub(super) is_shrinking: bool,
}

impl AwaitedCommands {
    /// The first of `count` numbers that no command had before.
    pub(super) fn number(&mut self, count: u64) -> u64 {
        let first = self.last + 1;
        self.last += count;
        first
    }

    /// A connection waits until one file is written back; the command's number.
    pub(super) fn drain(&mut self, connection: u64, path: &str) -> u64 {
        let number = self.number(1);
        self.drains.insert(number, (connection, path.to_string()));
        number
    }

    /// That drain is over: who waits, and the file's path.
    pub(super) fn drained(&mut self, number: u64) -> Option<(u64, String)> {
        self.drains.remove(&number)
    }

    /// A connection waits until so many barriers have ended.
    pub(super) fn sync(&mut self, connection: u64, barriers: u32) {
        self.syncs.push(Sync { connection, barriers });
    }

    /// A barrier has ended: who waits no longer.
    pub(super) fn barrier_ended(&mut self) -> Vec<u64> {
        self.syncs.iter_mut().for_each(|sync| sync.barriers -= 1);
        self.syncs.extract_if(.., |sync| sync.barriers == 0).map(|sync| sync.connection).collect()
    }

    /// A connection is gone.
    pub(super) fn forget(&mut self, connection: u64) {
        self.drains.retain(|_, (waiting, _)| *waiting != connection);
        self.syncs.retain(|sync| sync.connection != connection);
        self.runs.forget(connection);
        self.relayed.forget(connection);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_waits_is_told_once_and_nobody_who_is_gone() {
        let mut commands = AwaitedCommands::default();
        assert_eq!((commands.drain(7, "/slow/a"), commands.number(3), commands.drain(8, "/slow/b")), (1, 2, 5));
        [(7, 2), (8, 1), (9, 1)].into_iter().for_each(|(connection, barriers)| commands.sync(connection, barriers));
        commands.forget(8);
        assert_eq!((commands.drained(5), commands.drained(1)), (None, Some((7, "/slow/a".into()))));
        assert_eq!(commands.drained(1), None);
        assert_eq!(commands.barrier_ended(), [9]);
        assert_eq!(commands.barrier_ended(), [7]);
        assert_eq!(commands.barrier_ended(), [0; 0]);
    }
}

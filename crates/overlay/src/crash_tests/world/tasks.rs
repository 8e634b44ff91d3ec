//! The runtime's work, done a step at a time in any order.

use super::World;
use crate::crash_tests::storage::{Byte, Bytes, moved};
use crate::output::{CopyKind, CopyOrder, Growth};
use headstart_units::request::Range;

/// Work of the runtime, done a step at a time.
pub enum Task {
    Copy { inode: usize, order: CopyOrder, bytes: Vec<Bytes>, written: bool },
    Extend { file: u32, inode: usize, size: u64, growth: Growth, found: Option<u64> },
    Barrier { data: Vec<u32>, slow: Vec<usize> },
    SyncJournal,
}

impl World {
    /// Moves one task on by one step.
    pub fn step_task(&mut self, at: usize) {
        let mut task = self.agents[self.at].tasks.swap_remove(at);
        let fails = self.whims.failures > 0 && self.random.below(self.whims.failures) == 0;
        let fails = fails || matches!(&task, Task::Copy { inode, order, .. } if self.ends_early(*inode, order));
        match &mut task {
            Task::Copy { inode, order, bytes, written } => {
                if !self.step_copy(*inode, order, bytes, written, fails) {
                    let result = if fails { Err(5) } else { Ok(()) };
                    self.agents[self.at].overlay.on_copy_done(self.agents[self.at].memory.view(), order.id, result);
                    return self.carry_out();
                }
            }
            Task::Extend { file, inode, size, growth, found } => {
                let store = &mut self.inodes[*inode].store;
                match found {
                    None => *found = Some(store.size()),
                    Some(found) => {
                        let result = match growth {
                            _ if *found >= *size => Ok(*found),
                            Growth::Sized => {
                                store.truncate(*size);
                                Ok(*size)
                            }
                            Growth::LastByte => {
                                store.write(vec![(Range::new(*size - 1, 1), Byte::Zero)]);
                                Ok(*size)
                            }
                            Growth::Found => Err(16),
                        };
                        self.agents[self.at].overlay.on_extended(self.agents[self.at].memory.view(), *file, result);
                        return self.carry_out();
                    }
                }
            }
            Task::Barrier { data, slow } => {
                if fails {
                    self.agents[self.at]
                        .overlay
                        .on_barrier_synced(self.agents[self.at].memory.view(), Err(crate::NotSynced::default()));
                    return self.carry_out();
                }
                if let Some(data_file) = data.pop() {
                    self.agents[self.at].data.get_mut(&data_file).expect("a synced data file exists").sync();
                } else if let Some(inode) = slow.pop() {
                    // What dead threads had under way has landed when an fsync begun since returns.
                    self.land_late(Some(inode));
                    self.inodes[inode].store.sync();
                } else {
                    self.agents[self.at].overlay.on_barrier_synced(self.agents[self.at].memory.view(), Ok(()));
                    return self.carry_out();
                }
            }
            Task::SyncJournal => {
                self.agents[self.at].journal.stable = self.agents[self.at].journal.bytes.len();
                self.agents[self.at]
                    .overlay
                    .on_journal_durable(self.agents[self.at].memory.view(), if fails { Err(5) } else { Ok(()) });
                return self.carry_out();
            }
        }
        self.agents[self.at].tasks.push(task);
    }

    /// Whether a fetch meets the end of the file, which fails it.
    fn ends_early(&self, inode: usize, order: &CopyOrder) -> bool {
        order.kind == CopyKind::Fetch && order.range.end() > self.inodes[inode].store.size()
    }

    /// Reads first, writes a piece at a time; false when all is done.
    fn step_copy(
        &mut self,
        inode: usize,
        order: &CopyOrder,
        bytes: &mut Vec<Bytes>,
        written: &mut bool,
        fails: bool,
    ) -> bool {
        if *written || fails {
            return false;
        }
        if let Some(piece) = order.pieces.get(bytes.len()) {
            let (offset, length) = (piece.range.offset, piece.range.length);
            bytes.push(match order.kind {
                CopyKind::Fetch => moved(&self.inodes[inode].store.read(piece.range), offset, piece.place),
                CopyKind::WriteBack => {
                    // Another node's is found by its number.
                    let of = if self.cluster.is_some() { (piece.data_file >> 22) as usize } else { self.at };
                    let store = self.agents[of].data.get(&piece.data_file).expect("a copied data file exists");
                    moved(&store.read(Range::new(piece.place, length)), piece.place, offset)
                }
            });
            return true;
        }
        for (piece, bytes) in order.pieces.iter().zip(std::mem::take(bytes)) {
            match order.kind {
                CopyKind::Fetch => self.agents[self.at].data.get_mut(&piece.data_file).expect("it exists").write(bytes),
                CopyKind::WriteBack => self.inodes[inode].store.write(bytes),
            }
        }
        bytes.resize(order.pieces.len(), Vec::new());
        *written = true;
        true
    }
}

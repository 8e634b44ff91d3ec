//! The death of the agent under living threads, and the start of the next one.
//!
//! It dies between any two steps of carrying out: before its records are appended, after, before what they
//! allow is seen in the shared file, between two outputs. Threads go on where bits are clear; others wait,
//! and ask again under the same number.

use std::collections::{BTreeMap, BTreeSet};

use super::ranks::{self, NO_SLOT};
use super::storage::{Byte, Store};
use super::world::{Late, RANKS, Task, World};
use crate::journal::HEADER_BYTES;
use crate::output::{Answer, CopyKind, Growth};
use crate::overlay::Overlay;
use crate::recovery::{Recovered, Replay};
use headstart_protocol::message::Request;
use headstart_units::request::Range;

impl World {
    /// Whether the agent dies here.
    pub fn dies(&mut self) -> bool {
        match &mut self.agents[self.at].dying {
            Some(0) => {
                self.agents[self.at].dying = None;
                self.kill_agent();
            }
            Some(left) => *left -= 1,
            None => {}
        }
        self.agents[self.at].is_dead
    }

    /// kill -9 of the agent: what its copiers had under way may land later.
    pub fn kill_agent(&mut self) {
        self.agents[self.at].is_dead = true;
        for rank in self.ranks_here() {
            self.ranks[rank].connected = false;
        }
        for task in std::mem::take(&mut self.agents[self.at].tasks) {
            if let Task::Extend { inode, size, growth: Growth::LastByte, found: Some(found), .. } = task {
                if found < size && self.random.chance(50) {
                    self.agents[self.at].ghosts.push((inode, vec![(Range::new(size - 1, 1), Byte::Zero)]));
                }
                continue;
            }
            let Task::Copy { inode, order, bytes, written: false } = task else { continue };
            if bytes.len() < order.pieces.len() || self.random.chance(20) {
                continue;
            }
            for (piece, bytes) in order.pieces.iter().zip(bytes) {
                match order.kind {
                    CopyKind::WriteBack => self.agents[self.at].ghosts.push((inode, bytes)),
                    CopyKind::Fetch => {
                        let (agent, data_file) = (self.at, piece.data_file);
                        self.late.push(Late::Flash { agent, data_file, bytes });
                    }
                }
            }
        }
    }

    /// One step of anybody while there is no agent.
    pub fn step_without_agent(&mut self, choice: u64, begin: bool) {
        match choice {
            0..70 => {
                let rank = self.random.below(RANKS as u64) as usize;
                ranks::step(self, rank, begin);
            }
            70..80 => self.land_one(),
            _ => self.restart(),
        }
    }

    /// Lets one write of a dead thread or agent land, if there is any.
    pub fn land_one(&mut self) {
        if !self.agents[self.at].ghosts.is_empty() && self.random.chance(50) {
            let at = self.random.below(self.agents[self.at].ghosts.len() as u64) as usize;
            let (inode, bytes) = self.agents[self.at].ghosts.swap_remove(at);
            self.inodes[inode].store.write(bytes);
            self.old_copies_landed();
        } else if !self.late.is_empty() {
            let at = self.random.below(self.late.len() as u64) as usize;
            let late = self.late.swap_remove(at);
            self.land(late);
        }
    }

    /// Lets all write-backs of dead agents land.
    pub fn land_ghosts(&mut self) {
        for (inode, bytes) in std::mem::take(&mut self.agents[self.at].ghosts) {
            self.inodes[inode].store.write(bytes);
        }
        self.old_copies_landed();
    }

    fn old_copies_landed(&mut self) {
        if self.agents[self.at].ghosts.is_empty() && !self.agents[self.at].is_dead {
            self.agents[self.at].overlay.on_old_copies_landed(self.agents[self.at].memory.view());
            self.carry_out();
        }
    }

    /// The next agent starts; now and then it dies on the way, before or after its checkpoint has taken the
    /// journal's place.
    pub fn restart(&mut self) {
        self.agents[self.at].restarts += 1;
        self.agents[self.at].tasks.clear();
        while self.random.chance(20) {
            let checkpoint = self.adopt();
            if self.random.chance(50) {
                self.replace_journal(checkpoint);
            }
        }
        let checkpoint = self.adopt();
        self.replace_journal(checkpoint);
        self.agents[self.at].is_dead = false;
        self.agents[self.at].leaked_pages = 0;
        self.land_growth();
        self.rejoin();
        self.join();
        self.carry_out();
        self.old_copies_landed();
    }

    /// An agent takes part when no file is being made longer any more for the one before.
    fn land_growth(&mut self) {
        let ghosts = std::mem::take(&mut self.agents[self.at].ghosts);
        for (inode, bytes) in ghosts {
            match bytes[..] {
                [(_, Byte::Zero)] => self.inodes[inode].store.write(bytes),
                _ => self.agents[self.at].ghosts.push((inode, bytes)),
            }
        }
    }

    pub fn replace_journal(&mut self, checkpoint: Vec<u8>) {
        self.agents[self.at].journal.bytes.truncate(HEADER_BYTES);
        self.agents[self.at].journal.bytes.extend(checkpoint);
        self.agents[self.at].journal.stable = self.agents[self.at].journal.bytes.len();
    }

    /// The next agent begins; the checkpoint that takes the journal's place.
    pub fn adopt(&mut self) -> Vec<u8> {
        let recovered = Recovered::replay(&self.agents[self.at].journal.bytes[HEADER_BYTES..], Replay::Everything);
        let living: BTreeSet<u32> = self
            .ranks_here()
            .map(|rank| self.ranks[rank].slot)
            .filter(|slot| *slot != NO_SLOT)
            .map(|slot| slot as u32)
            .collect();
        let open = |inode: usize| self.open.iter().any(|open| open.get(&inode).is_some_and(Option::is_some));
        let mut found = BTreeMap::new();
        for (&number, file) in &recovered.files {
            let known = self.agents[self.at].numbers.get(&number).copied().filter(|&inode| {
                self.inodes[inode].identity == file.identity && (self.inodes[inode].linked || open(inode))
            });
            let named = || self.inodes.iter().rposition(|inode| inode.identity == file.identity && inode.linked);
            found.insert(number, known.or_else(named));
        }
        self.adopt_overlay(recovered, &found, &living);
        for (number, inode) in found {
            if let Some(inode) = inode {
                self.agents[self.at].numbers.insert(number, inode);
            }
            if inode.is_none_or(|inode| !self.inodes[inode].linked) {
                self.agents[self.at].overlay.disown(self.agents[self.at].memory.view(), number);
            }
        }
        self.checkpoint_adopted()
    }

    /// The agent takes over what its journal says, of files that are found there or not, with these slots' threads
    /// alive.
    pub fn adopt_overlay(
        &mut self,
        recovered: Recovered,
        found: &BTreeMap<u32, Option<usize>>,
        living: &BTreeSet<u32>,
    ) {
        let size = |inode: usize| self.inodes[inode].store.size();
        let sizes = found.iter().filter_map(|(&number, inode)| Some((number, size((*inode)?)))).collect();
        let agent = &mut self.agents[self.at];
        agent.data.retain(|data_file, _| recovered.data_files.contains_key(data_file));
        agent.overlay = Overlay::adopt(agent.settings.clone(), recovered, agent.memory.view(), &sizes, living);
        self.count_as_before();
    }

    /// All is synced that it found; the checkpoint that takes the journal's place.
    pub fn checkpoint_adopted(&mut self) -> Vec<u8> {
        self.agents[self.at].overlay.take_journal();
        self.agents[self.at].data.values_mut().for_each(Store::sync);
        self.inodes.iter_mut().for_each(|inode| inode.store.sync());
        self.agents[self.at].overlay.checkpoint(HEADER_BYTES as u64)
    }

    /// A thread that awaits an answer finds the new agent: it says which slot it has, opens its files again,
    /// and sends what is pending as it was.
    pub fn reconnect(&mut self, rank: usize) {
        let Some(pending) = self.ranks[rank].pending else { return };
        if self.agents[self.at].is_dead || self.ranks[rank].connected {
            return;
        }
        let process = self.ranks[rank].process;
        if self.agents[self.at].overlay.owner(self.ranks[rank].slot as u32) != Some(process) {
            return self.violations.push(format!("{process:?} has lost slot {}", self.ranks[rank].slot));
        }
        self.ranks[rank].connected = true;
        for (inode, _) in self.open[rank / 2].clone().into_iter().filter(|(_, file)| file.is_some()) {
            let identity = self.inodes[inode].identity;
            let (inode_number, birth_ns) = (identity.inode, identity.birth_ns);
            let size = self.inodes[inode].store.size();
            let writable = self.writable[rank / 2].contains(&inode);
            let path = b"/slow/x";
            self.send(rank, 0, &Request::Open { inode: inode_number, birth_ns, size, writable, path });
            if self.agents[self.at].is_dead {
                return;
            }
        }
        self.send(rank, self.ranks[rank].seq, &pending);
    }

    /// Every file has the number it had.
    pub fn check_reopened(&mut self, rank: usize, answer: &Answer) {
        let known = |file: u32| self.open[rank / 2].values().any(|open| *open == Some(file));
        if !matches!(answer, Answer::Opened { file } if known(*file)) {
            self.violations.push(format!("a file opened again got {answer:?}; open: {:?}", self.open[rank / 2]));
        }
    }
}

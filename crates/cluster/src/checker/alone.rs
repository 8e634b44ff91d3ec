//! Files that one node uses, by the rules of one node: what an agent does there without its machines.

use super::node::blocks;
use super::rank::{Op, Rank};
use super::row::{Alone, Slip};
use super::world::World;
use crate::Found;
use crate::guest::ALL;
use crate::message::{Ask, Writing};
use crate::names::{FileId, RequestId};
use crate::record::What;

impl World {
    pub(super) fn is_alone(&self, number: u8, op: &Op) -> bool {
        self.node(number).agent.as_ref().is_some_and(|agent| agent.is_alone(op.file()))
    }

    /// Whether bytes are written directly that the policy wants on flash, as others use the file.
    pub(super) fn refuses(&self, number: u8, op: &Op) -> bool {
        self.row.alone == Alone::Leaves && !self.is_alone(number, op)
    }

    /// Sets the bit, appends, answers.
    pub(super) fn absorb_alone(&mut self, number: u8, op: Op) {
        let place = self.write_flash(number, op.value);
        let id = self.change(number, |node| {
            node.clear[op.file as usize] &= !blocks(op.range());
            node.seq += 1;
            RequestId { slot: 0, seq: node.seq }
        });
        self.record_alone(number, op.file(), op.block, What::Map { place }, Some(id));
        let asked = Some((id, Ask::Commit { range: op.range(), place }));
        self.set(number, Rank::Ends { op, value: op.value, asked });
    }

    fn record_alone(&mut self, number: u8, file: FileId, block: u8, what: What, by: Option<RequestId>) {
        self.agent(number, |agent| agent.record_alone(file, World::range(block), what, by));
    }

    /// What the node's own log has on top.
    fn own_top(&self, number: u8, file: FileId, block: u8) -> Option<u8> {
        match self.node(number).log().top(file, World::range(block)) {
            Some(What::Map { place }) => Some(place as u8),
            Some(What::Drop) | None => None,
        }
    }

    pub(super) fn read_alone(&mut self, number: u8, op: Op) {
        let of = self.node(number).member();
        let rank = match self.own_top(number, op.file(), op.block) {
            Some(place) => Rank::Flash { op, of, place, durable: true, disturbed: false },
            None => Rank::Disk { op, disturbed: false, of: None },
        };
        self.set(number, rank);
    }

    /// Told to write by the own agent. If others come to use the file meanwhile and it keeps its bytes on flash, the
    /// owner is to know of the write and of its end.
    pub(super) fn direct_alone(&self, op: Op) -> Rank {
        Rank::Direct { op, landed: false, by_owner: self.row.alone == Alone::Keeps }
    }

    pub(super) fn end_direct_alone(&mut self, number: u8, op: Op) {
        if self.own_top(number, op.file(), op.block).is_some() {
            self.record_alone(number, op.file(), op.block, What::Drop, None);
        }
        self.end(number, op, op.value);
        self.say_ended(number, &op);
    }

    /// The node's threads that write, as its agent names them.
    pub(super) fn named_writers(&mut self, number: u8, file: FileId) -> Vec<Writing> {
        let threads = self.node(number).writers(file);
        self.change(number, |node| node.named |= !threads.is_empty());
        threads
    }

    /// A thread that was named as a writer has ended.
    pub(super) fn say_ended(&mut self, number: u8, op: &Op) {
        if self.change(number, |node| std::mem::take(&mut node.named)) {
            self.agent(number, |agent| agent.on_writer_ended(op.file(), Found::default()));
        }
    }

    /// Whether a file that leaves flash can go on to do so: nothing is copied beside a direct write.
    pub(super) fn may_leave(&self, number: u8) -> bool {
        let node = self.node(number);
        let (Some((file, _)), Some(_)) = (node.leaving, node.agent.as_ref()) else {
            return false;
        };
        let mapped = |block: &u8| self.own_top(number, file, *block).is_some();
        let written = |block: u8| node.writers(file).iter().any(|writing| writing.range == World::range(block));
        self.slips(Slip::LeaveInDirect) || !(0..self.row.blocks).filter(mapped).any(written)
    }

    /// A file leaves flash: its bytes are copied, what says so is made durable, and the claim is answered.
    pub(super) fn leave(&mut self, number: u8) {
        let Some((file, epoch)) = self.change(number, |node| node.leaving.take()) else {
            return;
        };
        for block in 0..self.row.blocks {
            if let Some(place) = self.own_top(number, file, block) {
                let value = self.read_flash((number, place));
                self.write_slow(number, file.0 as u8 * self.row.blocks + block, value);
                self.record_alone(number, file, block, What::Drop, None);
            }
        }
        if !self.slips(Slip::LeaveUndurable) {
            self.barrier(number);
        }
        let threads = self.named_writers(number, file);
        let found = Found { threads, uses: false };
        self.agent(number, |agent| agent.on_left(file, epoch, None, ALL, found));
    }
}

//! Completely fair queueing: a queue for every reader, one for all writes, turns among them.
//!
//! What decides how concurrent readers share a disk, and no more. Reads of a rank have a queue of their own;
//! what is read ahead of a file's readers has one for the job and file; writes share one. A turn lasts a
//! slice, in which its queue is served in rising address order from where the last command ended (C-SCAN).
//! When a queue of reads runs dry within its slice, the drive waits for its next read rather than seek away
//! (anticipation).
//!
//! ```text
//!             command left                dry, nothing in the drive
//!   Turn --------------------> Turn    Turn -----------------------> Idle --next read--> Turn
//!   Turn --slice over or dry without patience--> next queue          Idle --timer--> next queue
//! ```
//!
//! A command has one of `nr_requests` places until the drive has finished it. Submitters without a place wait
//! first come first served and get one place at a time; the queue that the drive waits for gets one beyond
//! the limit once a turn.
//!
//! Not modelled: expiry of old requests, backward seeks within a queue, priorities, think times and seek
//! distances by which Linux chooses its patience, and that a queue ends with its task.

mod turn;

use std::collections::hash_map::DefaultHasher;
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;

use headstart_units::Nanos;

use super::batch_list::BatchList;
use super::part::{Batch, Part};
use crate::request::Operation;
use turn::Turn;

/// How CFQ shares a drive. The defaults are those of Linux 2.6.18 (`block/cfq-iosched.c`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CfqConfig {
    /// How long a queue of reads is served before the next one's turn.
    pub slice: Nanos,
    /// The same of the queue of all writes.
    pub async_slice: Nanos,
    /// Writes served in one turn.
    pub async_requests_max: usize,
    /// How long the drive waits for the next read of a rank whose queue ran dry; zero is not at all.
    pub idle_rank: Nanos,
    /// The same for the reads of a file's read-ahead.
    pub idle_read_ahead: Nanos,
    /// Commands of one queue in the drive at a time.
    pub quantum: usize,
}

impl Default for CfqConfig {
    fn default() -> CfqConfig {
        CfqConfig {
            slice: Nanos(100_000_000),
            async_slice: Nanos(40_000_000),
            async_requests_max: 16,
            idle_rank: Nanos(8_000_000),
            idle_read_ahead: Nanos(8_000_000),
            quantum: 4,
        }
    }
}

/// Whose a queue is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Key {
    Rank {
        job: u32,
        rank: u32,
    },
    ReadAhead {
        job: u32,
        file: u32,
    },
    /// All writes.
    Async,
    /// A rank as a writer; it has no commands, but may wait for a place for one.
    Writer {
        job: u32,
        rank: u32,
    },
}

impl Key {
    fn of<T>(part: &Part<T>) -> Key {
        let origin = part.origin;
        match part.operation {
            Operation::Write => Key::Async,
            _ if part.is_read_ahead => Key::ReadAhead { job: origin.job, file: origin.file },
            _ => Key::Rank { job: origin.job, rank: origin.rank },
        }
    }
}

#[derive(Debug)]
struct Queue<T> {
    key: Key,
    commands: BatchList<T>,
    /// True while it waits for its turn.
    is_in_line: bool,
    in_drive: usize,
    /// Parts that wait for a place.
    outside: VecDeque<Part<T>>,
}

/// Queues and whose turn it is.
#[derive(Debug)]
pub(super) struct Cfq<T> {
    config: CfqConfig,
    nr_requests: usize,
    bytes_max: u64,
    /// Only ever asked for one key, so that its order does not matter.
    by_key: HashMap<Key, u32, BuildHasherDefault<DefaultHasher>>,
    queues: Vec<Queue<T>>,
    free: Vec<u32>,
    /// Queues with commands, the active one apart, in order of their turns.
    line: VecDeque<u32>,
    turn: Turn,
    /// Where the last command ended.
    sweep: u64,
    /// Places taken.
    taken: usize,
    /// Queues with parts outside, in order of waiting.
    without_place: VecDeque<u32>,
    /// Commands not yet in the drive, and parts outside.
    len: usize,
    sequence: u64,
}

impl<T: Copy> Cfq<T> {
    pub(super) fn new(config: CfqConfig, nr_requests: usize, bytes_max: u64) -> Cfq<T> {
        assert!(config.quantum > 0 && config.async_requests_max > 0, "a turn serves something");
        assert!(config.slice > Nanos::ZERO && config.async_slice > Nanos::ZERO, "a turn serves something");
        Cfq {
            config,
            nr_requests,
            bytes_max,
            by_key: HashMap::default(),
            queues: Vec::new(),
            free: Vec::new(),
            line: VecDeque::new(),
            turn: Turn::default(),
            sweep: 0,
            taken: 0,
            without_place: VecDeque::new(),
            len: 0,
            sequence: 0,
        }
    }

    fn queue_of(&mut self, key: Key) -> u32 {
        if let Some(&index) = self.by_key.get(&key) {
            return index;
        }
        let index = self.free.pop().unwrap_or(self.queues.len() as u32);
        self.by_key.insert(key, index);
        match self.queues.get_mut(index as usize) {
            Some(queue) => queue.key = key,
            None => self.queues.push(Queue {
                key,
                commands: BatchList::without_age(),
                is_in_line: false,
                in_drive: 0,
                outside: VecDeque::new(),
            }),
        }
        index
    }

    /// Forgets a queue that nothing refers to.
    fn release(&mut self, index: u32) {
        let queue = &self.queues[index as usize];
        let is_used = queue.is_in_line || queue.in_drive > 0 || queue.commands.len() > 0 || !queue.outside.is_empty();
        if !is_used && self.turn.queue() != Some(index) {
            self.by_key.remove(&queue.key);
            self.free.push(index);
        }
    }

    pub(super) fn on_part(&mut self, now: Nanos, part: Part<T>) {
        self.len += 1;
        let key = Key::of(&part);
        let queue = self.queue_of(key);
        let submitter = match key {
            Key::Async => self.queue_of(Key::Writer { job: part.origin.job, rank: part.origin.rank }),
            _ => queue,
        };
        let waits = !self.queues[submitter as usize].outside.is_empty();
        if waits || !self.place(now, queue, part) {
            if !waits {
                self.without_place.push_back(submitter);
            }
            self.queues[submitter as usize].outside.push_back(part);
        }
        if submitter != queue {
            self.release(submitter);
        }
    }

    /// Gives a part a place, its own or one in a waiting command; false if there is none.
    fn place(&mut self, now: Nanos, queue: u32, part: Part<T>) -> bool {
        if !part.is_read_ahead && self.queues[queue as usize].commands.merge(&part, self.bytes_max) {
            self.len -= 1;
            return true;
        }
        if self.taken >= self.nr_requests && !self.turn.exceed(queue) {
            return false;
        }
        self.taken += 1;
        self.sequence += 1;
        let slot = &mut self.queues[queue as usize];
        slot.commands.insert(Batch { queue, ..Batch::new(now, part, self.sequence) });
        if self.turn.queue() == Some(queue) {
            self.turn.stop_waiting();
        } else if !slot.is_in_line {
            slot.is_in_line = true;
            self.line.push_back(queue);
        }
        true
    }

    /// Hands free places to those who wait for one, one place each in turn.
    fn hand_out(&mut self, now: Nanos) {
        while self.taken < self.nr_requests
            && let Some(submitter) = self.without_place.pop_front()
        {
            let part = self.queues[submitter as usize].outside.pop_front().expect("it waits with a part");
            let queue = self.queue_of(Key::of(&part));
            let placed = self.place(now, queue, part);
            assert!(placed, "there is a free place");
            if !self.queues[submitter as usize].outside.is_empty() {
                self.without_place.push_back(submitter);
            }
            self.release(submitter);
        }
    }

    pub(super) fn on_finished(&mut self, now: Nanos, queue: u32) {
        self.taken -= 1;
        self.queues[queue as usize].in_drive -= 1;
        self.hand_out(now);
        self.release(queue);
    }

    pub(super) fn next_command(&mut self, now: Nanos) -> Option<Batch<T>> {
        self.on_timer(now);
        if self.turn.idle_until().is_some() {
            return None;
        }
        if let Some(index) = self.turn.queue() {
            match self.go_on(now, index) {
                Next::Serve => return self.take(index),
                Next::Wait => return None,
                Next::Over => self.end_turn(),
            }
        }
        let index = self.line.pop_front()?;
        self.queues[index as usize].is_in_line = false;
        let is_async = self.queues[index as usize].key == Key::Async;
        self.turn.begin(index, now + if is_async { self.config.async_slice } else { self.config.slice });
        self.take(index)
    }

    fn go_on(&mut self, now: Nanos, index: u32) -> Next {
        let queue = &self.queues[index as usize];
        let idle = match queue.key {
            Key::Rank { .. } => self.config.idle_rank,
            Key::ReadAhead { .. } => self.config.idle_read_ahead,
            Key::Async | Key::Writer { .. } => Nanos::ZERO,
        };
        let served_max = if queue.key == Key::Async { self.config.async_requests_max } else { usize::MAX };
        if self.turn.is_used_up(now, served_max) {
            return Next::Over;
        }
        if queue.commands.len() > 0 {
            return if queue.in_drive < self.config.quantum { Next::Serve } else { Next::Wait };
        }
        if idle == Nanos::ZERO {
            return Next::Over;
        }
        if queue.in_drive > 0 {
            return Next::Wait;
        }
        self.turn.wait(now, idle);
        if self.place_beyond_limit(now, index) { Next::Serve } else { Next::Wait }
    }

    /// Places what the queue that the drive waits for has outside, if it may exceed the limit.
    fn place_beyond_limit(&mut self, now: Nanos, index: u32) -> bool {
        let Some(&part) = self.queues[index as usize].outside.front() else { return false };
        if !self.place(now, index, part) {
            return false;
        }
        let outside = &mut self.queues[index as usize].outside;
        outside.pop_front();
        if outside.is_empty() {
            self.without_place.retain(|waiting| *waiting != index);
        }
        true
    }

    fn end_turn(&mut self) {
        let Some(index) = self.turn.finish() else { return };
        let queue = &mut self.queues[index as usize];
        if queue.commands.len() > 0 {
            queue.is_in_line = true;
            self.line.push_back(index);
        }
        self.release(index);
    }

    fn take(&mut self, index: u32) -> Option<Batch<T>> {
        let queue = &mut self.queues[index as usize];
        let batch = queue.commands.take_from(self.sweep).or_else(|| queue.commands.take_from(0))?;
        queue.in_drive += 1;
        self.len -= 1;
        self.turn.serve();
        self.sweep = batch.end;
        Some(batch)
    }

    pub(super) fn next_timer(&self) -> Option<Nanos> {
        self.turn.idle_until()
    }

    pub(super) fn on_timer(&mut self, now: Nanos) {
        if self.turn.idle_until().is_some_and(|until| until <= now) {
            self.end_turn();
        }
    }

    pub(super) fn has_room(&self) -> bool {
        self.without_place.is_empty() && self.taken < self.nr_requests
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }
}

/// What a turn does next.
enum Next {
    Serve,
    Wait,
    Over,
}

#[cfg(test)]
mod tests;

//! Pushes and drains made store by store, for what leaves a rule out.

use headstart_protocol::ring::{ENTRIES_MAX, Pushed};
use loom::sync::atomic::{Ordering, fence};

use super::explorer::{FILE, HERE, World};
use super::rings::PLACE;

/// Writes the entry that will be at the head of the ring; the head does not move.
pub fn fill(world: &World, slot: u32, open: u64) {
    let at = world.shared().rings[slot as usize].head.0.load(Ordering::Relaxed);
    fill_at(world, slot, at, open);
}

/// Writes entry `at`.
pub fn fill_at(world: &World, slot: u32, at: u64, open: u64) {
    let (shared, slot) = (world.shared(), slot as usize);
    let ticket = shared.marks.tickets.0.fetch_add(1, Ordering::SeqCst) + 1;
    let seq = shared.slots[slot].seq.load(Ordering::Relaxed) + 1;
    shared.slots[slot].seq.store(seq, Ordering::Release);
    let entry = &shared.rings[slot].entries[at as usize % ENTRIES_MAX];
    entry.seq.store(seq, Ordering::Relaxed);
    entry.ticket.store(ticket, Ordering::Relaxed);
    entry.open.store(open, Ordering::Relaxed);
    entry.offset.store(HERE.offset, Ordering::Relaxed);
    entry.length.store(HERE.length, Ordering::Relaxed);
    entry.place.store(PLACE.place, Ordering::Relaxed);
    entry.file.store(FILE, Ordering::Relaxed);
    entry.data_file.store(PLACE.data_file, Ordering::Relaxed);
}

/// Moves the head over one entry, and returns which that is.
pub fn move_head(world: &World, slot: u32, ordering: Ordering) -> u64 {
    let head = &world.shared().rings[slot as usize].head.0;
    let at = head.load(Ordering::Relaxed);
    head.store(at + 1, ordering);
    at
}

/// What a drain leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Without {
    /// Nothing.
    Nothing,
    /// The fence between marks and rings.
    Fence,
    /// The tickets taken before it began to look.
    Bound,
    /// That it notes them before it takes the marks.
    EarlyBound,
    /// The order of tickets.
    Order,
}

/// Takes entries out of the rings of two slots.
#[derive(Debug, Default)]
pub struct Hand {
    left: u64,
    read: [u64; 2],
}

impl Hand {
    pub fn take(&mut self, world: &World, without: Without) -> Vec<Pushed> {
        let shared = world.shared();
        let mut until = shared.marks.tickets.0.load(Ordering::SeqCst);
        if shared.marks.words[0].load(Ordering::Relaxed) != 0 {
            self.left |= shared.marks.words[0].swap(0, Ordering::SeqCst);
        }
        if without != Without::Fence {
            fence(Ordering::SeqCst);
        }
        match without {
            Without::Bound => until = u64::MAX,
            Without::EarlyBound => until = shared.marks.tickets.0.load(Ordering::SeqCst),
            Without::Nothing | Without::Fence | Without::Order => {}
        }
        let mut taken = Vec::new();
        for (slot, (ring, read)) in (0..).zip(shared.rings.iter().zip(&mut self.read)) {
            if self.left & 1 << slot == 0 {
                continue;
            }
            world.step();
            let head = ring.head.0.load(Ordering::Acquire);
            let entries = (*read..head).map(|at| entry(world, slot, at));
            let wanted: Vec<_> = entries.take_while(|pushed| pushed.ticket <= until).collect();
            *read += wanted.len() as u64;
            taken.extend(wanted);
            if *read == head {
                self.left &= !(1 << slot);
            }
        }
        if without != Without::Order {
            taken.sort_unstable_by_key(|pushed| pushed.ticket);
        }
        taken
    }

    /// Moves the tail of the first slot's ring before it reads what lies there.
    pub fn take_behind_the_tail(&mut self, world: &World) -> Vec<Pushed> {
        let ring = &world.shared().rings[0];
        let head = ring.head.0.load(Ordering::Acquire);
        ring.tail.0.store(head, Ordering::Release);
        let taken = (self.read[0]..head).map(|at| entry(world, 0, at)).collect();
        self.read[0] = head;
        taken
    }
}

fn entry(world: &World, slot: u32, at: u64) -> Pushed {
    world.shared().rings[slot as usize].read(slot, at)
}

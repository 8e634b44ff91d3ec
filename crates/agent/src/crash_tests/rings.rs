//! What lies in rings when all processes die: the shared file stays, as the copy of the journal beside it does.

use std::sync::atomic::Ordering;

use headstart_protocol::lease::Place;
use headstart_protocol::memory::Memory;
use headstart_protocol::ring::{CLOSING, ENTRIES_MAX, Pushed, word_of};
use headstart_protocol::shared::GRANULES_PER_FILE;
use headstart_units::request::Range;

/// Commits that threads take for done, and that the agent has not taken out for good.
#[derive(Clone, Debug, Default)]
pub struct Rings {
    seqs: Vec<u64>,
    pushed: Vec<Pushed>,
}

impl Rings {
    /// Those in the shared file now.
    pub fn left_in(memory: &Memory) -> Rings {
        let seqs = memory.slots.iter().map(|slot| slot.seq.load(Ordering::Relaxed)).collect();
        let (mut pushed, view) = (Vec::new(), memory.view());
        for (slot, ring) in (0..).zip(&memory.rings) {
            for at in ring.tail.0.load(Ordering::Relaxed)..ring.head.0.load(Ordering::Relaxed) {
                let entry = &ring.entries[at as usize % ENTRIES_MAX];
                let (file, length) = (entry.file.load(Ordering::Relaxed), entry.length.load(Ordering::Relaxed));
                let range = Range::new(entry.offset.load(Ordering::Relaxed), length);
                let found = view.open_words(file).find(|(word, _)| *word == word_of(range.offset));
                let open = entry.open.load(Ordering::Relaxed);
                if found.is_some_and(|(_, number)| number == open) {
                    let (data_file, place) =
                        (entry.data_file.load(Ordering::Relaxed), entry.place.load(Ordering::Relaxed));
                    let (seq, ticket) = (entry.seq.load(Ordering::Relaxed), entry.ticket.load(Ordering::Relaxed));
                    pushed.push(Pushed {
                        slot,
                        seq,
                        ticket,
                        open,
                        range,
                        place: Place { file, data_file, place, length },
                    });
                }
            }
        }
        Rings { seqs, pushed }
    }

    /// Puts them into another memory, which is to be the same shared file.
    pub fn put_into(&self, memory: &Memory) {
        for (slot, seq) in memory.slots.iter().zip(&self.seqs) {
            slot.seq.store(*seq, Ordering::Relaxed);
        }
        for Pushed { slot, seq, ticket, open, range, place } in &self.pushed {
            let granule = &memory.view().granules[place.file as usize * GRANULES_PER_FILE + word_of(range.offset)];
            memory.view().announce(place.file, *range);
            granule.generation.fetch_max(*open, Ordering::Relaxed);
            granule.open.store(*open | CLOSING, Ordering::Relaxed);
            let ring = &memory.rings[*slot as usize];
            let head = ring.head.0.fetch_add(1, Ordering::Relaxed);
            let entry = &ring.entries[head as usize % ENTRIES_MAX];
            for (cell, value) in [
                (&entry.seq, *seq),
                (&entry.ticket, *ticket),
                (&entry.open, *open),
                (&entry.offset, range.offset),
                (&entry.length, range.length),
                (&entry.place, place.place),
            ] {
                cell.store(value, Ordering::Relaxed);
            }
            entry.file.store(place.file, Ordering::Relaxed);
            entry.data_file.store(place.data_file, Ordering::Relaxed);
            memory.marks.tickets.0.fetch_max(*ticket, Ordering::Relaxed);
        }
    }
}

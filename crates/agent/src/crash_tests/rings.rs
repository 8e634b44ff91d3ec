//! What lies in rings when all processes die: the shared file stays, as the copy of the journal beside it does.

use std::sync::atomic::Ordering;

use headstart_protocol::memory::Memory;
use headstart_protocol::ring::{CLOSING, Pushed};
use headstart_protocol::shared::{GRANULES_PER_FILE, word_of};

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
                let entry = ring.read(slot, at);
                let word = word_of(entry.range.offset);
                if view.open_words(entry.place.file).any(|found| found == (word, entry.open)) {
                    pushed.push(entry);
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
        for pushed in &self.pushed {
            let Pushed { slot, ticket, open, range, place, .. } = pushed;
            memory.view().announce(place.file, *range);
            let granule = &memory.granules[place.file as usize * GRANULES_PER_FILE + word_of(range.offset)];
            granule.generation.fetch_max(*open, Ordering::Relaxed);
            granule.open.store(*open | CLOSING, Ordering::Relaxed);
            memory.rings[*slot as usize].write(pushed);
            memory.marks.tickets.0.fetch_max(*ticket, Ordering::Relaxed);
        }
    }
}

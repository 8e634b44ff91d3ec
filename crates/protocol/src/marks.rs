//! Marks: whose slots have something for the agent, so that it need not look at every slot.
//!
//! ```text
//! thread: leaves something | fence | is its mark clear? sets it | fence | does the agent sleep? tells it
//! agent:  takes all marks, each slot into every set | fence | looks at what the slots of one set have left
//!         before it sleeps: says so | fence | is a mark set? looks first
//! ```
//!
//! A mark does not say what its thread has left: an entry of its ring ([`super::ring`]), a hint ([`super::hints`]).
//! [`Gathered`] alone takes marks, and notes the slots for each of them: whoever looks for one thing loses the others
//! nothing. A slot stays in a set until what the set is for was looked for there.
//!
//! A thread that finds its mark set has fenced before: the agent that takes the mark fences before it looks.
//!
//! **Sleep.** While programs are busy the agent looks at marks by its timer. Where nothing has come for a while it sets
//! none, and sleeps until somebody tells it something. Of the thread's fence behind its mark and the agent's one comes
//! first: either the agent sees the mark or the thread that it sleeps. Who finds its mark set tells nobody: whoever set
//! it has, or the agent has not slept since. So an agent that is stopped in its sleep is told once by each thread.

use super::shared::{SLOTS_MAX, Shared};
use headstart_units::atomics::{AtomicU64, Ordering, fence};

/// Words of marks.
pub const MARK_WORDS: usize = if cfg!(loom) { 1 } else { SLOTS_MAX / 64 };

/// A word in a cache line of its own.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct Lonely(pub AtomicU64);

/// Whose slots have something for the agent, and the counter of tickets.
#[repr(C)]
#[derive(Debug)]
pub struct Marks {
    /// Tickets taken so far, of all rings.
    pub tickets: Lonely,
    /// A bit a slot.
    pub words: [AtomicU64; MARK_WORDS],
    /// Not zero: the agent looks at marks when it is told something, and not before.
    pub sleeping: Lonely,
}

impl Default for Marks {
    fn default() -> Marks {
        let words = std::array::from_fn(|_| AtomicU64::new(0));
        Marks { tickets: Lonely::default(), words, sleeping: Lonely::default() }
    }
}

impl Shared<'_> {
    /// The slot has something for the agent when it next looks. The caller has fenced since it left that. Whether the
    /// agent sleeps, and is to be told.
    #[inline]
    pub fn mark(&self, slot: u32) -> bool {
        let (word, bit) = (&self.marks.words[slot as usize / 64], 1 << (slot % 64));
        if word.load(Ordering::Relaxed) & bit != 0 {
            return false;
        }
        word.fetch_or(bit, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        self.marks.sleeping.0.load(Ordering::SeqCst) != 0
    }

    /// The agent sleeps from now on: whoever marks its slot tells it. Not if a mark is set: it is to look.
    fn fall_asleep(&self) -> bool {
        self.marks.sleeping.0.store(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let is_quiet = self.used_marks().iter().all(|word| word.load(Ordering::Relaxed) == 0);
        if !is_quiet {
            self.wake_up();
        }
        is_quiet
    }

    /// The agent looks by itself: it was told something, or it begins.
    pub fn wake_up(&self) {
        self.marks.sleeping.0.store(0, Ordering::Relaxed);
    }

    /// Marks of slots that were ever used.
    fn used_marks(&self) -> &[AtomicU64] {
        &self.marks.words[..self.used_slots().len().div_ceil(64)]
    }
}

/// A set of slots.
#[derive(Clone, Debug)]
pub struct SlotSet {
    words: [u64; MARK_WORDS],
    /// A bit for each word that is not zero.
    filled: u64,
}

impl Default for SlotSet {
    fn default() -> SlotSet {
        SlotSet { words: [0; MARK_WORDS], filled: 0 }
    }
}

impl SlotSet {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.filled == 0
    }

    /// Adds one.
    pub fn insert(&mut self, slot: u32) {
        self.add(slot as usize / 64, 1 << (slot % 64));
    }

    fn add(&mut self, at: usize, slots: u64) {
        self.words[at] |= slots;
        self.filled |= u64::from(slots != 0) << at;
    }

    /// Those there are, in order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + use<> {
        let words = self.words;
        bits(self.filled).flat_map(move |at| bits(words[at as usize]).map(move |bit| at * 64 + bit))
    }

    /// Leaves those that `keep` says of, which is asked in order.
    pub fn retain(&mut self, mut keep: impl FnMut(u32) -> bool) {
        for at in bits(self.filled) {
            let slots = bits(self.words[at as usize]).filter(|bit| keep(at * 64 + bit));
            let kept = slots.fold(0, |kept, bit| kept | 1 << bit);
            self.words[at as usize] = kept;
            self.filled &= !(u64::from(kept == 0) << at);
        }
    }
}

/// Which bits are set.
fn bits(mut word: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let bit = (word != 0).then(|| word.trailing_zeros())?;
        word &= word - 1;
        Some(bit)
    })
}

/// The agent's side: slots whose marks it has taken, and who may have something left of each kind.
#[derive(Clone, Debug, Default)]
pub struct Gathered {
    /// Whose rings may hold entries.
    pub rings: SlotSet,
    /// Who may have left hints.
    pub hints: SlotSet,
}

impl Gathered {
    /// Takes the marks of the shared file, and fences if there is a ring to read. What a thread leaves from now on has
    /// a mark of its own.
    pub fn gather(&mut self, shared: Shared<'_>) {
        let used = shared.used_slots().len();
        for (at, word) in shared.used_marks().iter().enumerate() {
            if word.load(Ordering::Relaxed) != 0 {
                // A slot that was never used may have no memory: it is not looked at, whatever its mark says.
                let slots = word.swap(0, Ordering::SeqCst) & (u64::MAX >> 64_usize.saturating_sub(used - at * 64));
                self.rings.add(at, slots);
                self.hints.add(at, slots);
            }
        }
        if !self.rings.is_empty() {
            fence(Ordering::SeqCst);
        }
    }

    /// The agent sleeps from now on, unless it is to look: a mark is set, or something of one that it took is left.
    pub fn fall_asleep(&self, shared: Shared<'_>) -> bool {
        self.rings.is_empty() && self.hints.is_empty() && shared.fall_asleep()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Memory;

    #[test]
    fn a_mark_is_taken_once_and_stays_in_each_set_until_that_is_looked_through() {
        let memory = Memory::new(1, SLOTS_MAX, 1);
        let (shared, mut gathered) = (memory.view(), Gathered::default());
        [0, 63, 64, 4095, 64].into_iter().for_each(|slot| assert!(!shared.mark(slot)));
        gathered.gather(shared);
        assert!(gathered.rings.iter().eq([0, 63, 64, 4095]) && gathered.hints.iter().eq([0, 63, 64, 4095]));
        assert!(memory.marks.words.iter().all(|word| word.load(Ordering::Relaxed) == 0));
        gathered.rings.retain(|slot| slot == 64);
        shared.mark(5);
        gathered.gather(shared);
        assert!(gathered.rings.iter().eq([5, 64]) && gathered.hints.iter().eq([0, 5, 63, 64, 4095]));
        gathered.rings.retain(|_| false);
        assert!(gathered.rings.is_empty() && gathered.rings.iter().next().is_none() && !gathered.hints.is_empty());
    }

    #[test]
    fn a_sleeping_agent_is_told_by_whoever_marks_its_slot_and_does_not_sleep_over_what_is_left() {
        let memory = Memory::new(1, 2, 1);
        let (shared, mut gathered) = (memory.view(), Gathered::default());
        assert!(!shared.mark(0) && !gathered.fall_asleep(shared), "it is to look first");
        gathered.gather(shared);
        gathered.hints.retain(|_| false);
        assert!(!gathered.fall_asleep(shared), "a ring is not read to its end");
        gathered.rings.retain(|_| false);
        gathered.hints.insert(0);
        assert!(!gathered.fall_asleep(shared), "nobody looked for hints");
        gathered.hints.retain(|_| false);
        assert!(gathered.fall_asleep(shared));
        assert_eq!([0, 0, 1, 1].map(|slot| shared.mark(slot)), [true, false, true, false], "each thread tells it once");
        shared.wake_up();
        gathered.gather(shared);
        assert!(!shared.mark(0));
    }

    #[test]
    fn marks_of_slots_that_were_never_used_are_not_looked_at() {
        let memory = Memory::new(1, 256, 1);
        memory.header.slots_used.store(65, Ordering::Relaxed);
        let mut gathered = Gathered::default();
        [3, 64, 65, 128].into_iter().for_each(|slot| assert!(!memory.view().mark(slot)));
        gathered.gather(memory.view());
        assert!(gathered.rings.iter().eq([3, 64]));
    }
}

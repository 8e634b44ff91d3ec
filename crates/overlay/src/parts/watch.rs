//! Which slots are looked at to see what programs are at: of few threads all, of many those that were seen at
//! something lately, and some others in turn.

use std::collections::BTreeMap;

/// Of so many slots at most all are looked at, of more so many in turn (assumed: more threads than that need a look
/// less often).
const TURN: usize = 64;
/// A slot that was seen at something is looked at so many times more (assumed: a thread is not always at something
/// when it is looked at).
const LOOKS: u8 = 16;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watch {
    /// Slots seen at something, and how many looks they have left.
    lately: BTreeMap<u32, u8>,
    /// The turn goes on here.
    next: usize,
}

impl Watch {
    /// Looks at slots, of so many that are in use: `is_busy` says of one whether its thread is at something.
    pub(crate) fn look(&mut self, used: usize, mut is_busy: impl FnMut(usize) -> bool) {
        if used <= TURN {
            self.lately.clear();
            for slot in 0..used {
                is_busy(slot);
            }
            return;
        }
        self.lately.retain(|&slot, looks| {
            *looks = if is_busy(slot as usize) { LOOKS } else { *looks - 1 };
            *looks > 0
        });
        for slot in (self.next..self.next + TURN).map(|slot| slot % used) {
            if !self.lately.contains_key(&(slot as u32)) && is_busy(slot) {
                self.lately.insert(slot as u32, LOOKS);
            }
        }
        self.next = (self.next + TURN) % used;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looked_at(watch: &mut Watch, used: usize, busy: impl Fn(usize) -> bool) -> Vec<usize> {
        let mut seen = Vec::new();
        watch.look(used, |slot| {
            seen.push(slot);
            busy(slot)
        });
        seen.sort_unstable();
        seen
    }

    #[test]
    fn of_few_slots_all_are_looked_at() {
        let mut watch = Watch::default();
        assert!(looked_at(&mut watch, TURN, |_| true).into_iter().eq(0..TURN));
        assert!(looked_at(&mut watch, TURN, |_| false).into_iter().eq(0..TURN));
    }

    #[test]
    fn of_many_slots_each_gets_its_turn_and_a_busy_one_is_looked_at_every_time() {
        let mut watch = Watch::default();
        let (used, busy) = (10 * TURN, 5 * TURN + 3);
        let mut seen = vec![0; used];
        for _ in 0..10 {
            looked_at(&mut watch, used, |slot| slot == busy).into_iter().for_each(|slot| seen[slot] += 1);
        }
        assert!(seen.iter().enumerate().all(|(slot, times)| *times == if slot == busy { 5 } else { 1 }), "{seen:?}");
        for _ in 0..LOOKS {
            looked_at(&mut watch, used, |_| false);
        }
        assert!(watch.lately.is_empty());
    }
}

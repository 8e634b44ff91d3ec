//! Stack distances: how many others were used since something was used last (R. Mattson et al., IBM Systems
//! Journal 9, 1970).
//!
//! Each entry stands at the time of its last use; a Fenwick tree counts how many stand behind a time. Times
//! are given out one by one until none is left: then [`Stack::compact`] gives those that are in use the
//! lowest again.

/// Times between two compactions.
const TIMES: usize = 1 << 17;

/// When an entry was used last; none if it is not on the stack.
pub(crate) type Time = Option<u32>;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Stack {
    tree: Vec<u32>,
    next: u32,
    count: u32,
}

impl Default for Stack {
    fn default() -> Stack {
        Stack { tree: vec![0; TIMES + 1], next: 0, count: 0 }
    }
}

impl Stack {
    /// Puts an entry on top. How many others were above it, if it was there.
    pub(crate) fn touch(&mut self, time: &mut Time) -> Option<u32> {
        assert!(!self.is_full(), "a stack without free times is compacted first");
        let above = self.above(*time);
        self.remove(time);
        *time = Some(self.next);
        self.add(self.next, 1);
        self.next += 1;
        self.count += 1;
        above
    }

    /// How many others are above an entry, if it is there.
    pub(crate) fn above(&self, time: Time) -> Option<u32> {
        time.map(|time| self.count - self.up_to(time))
    }

    /// Takes an entry off.
    pub(crate) fn remove(&mut self, time: &mut Time) {
        if let Some(time) = time.take() {
            self.add(time, -1);
            self.count -= 1;
        }
    }

    /// Whether the next use needs a compaction first.
    pub(crate) fn is_full(&self) -> bool {
        self.next as usize == TIMES
    }

    /// Gives all entries, which these are, new times in the same order. There are fewer of them than times.
    pub(crate) fn compact<'a>(&mut self, entries: impl Iterator<Item = &'a mut Time>) {
        let mut entries: Vec<&mut Time> = entries.filter(|time| time.is_some()).collect();
        assert!(entries.len() == self.count as usize && entries.len() < TIMES, "all entries, fewer than times");
        entries.sort_unstable();
        *self = Stack::default();
        for entry in entries {
            *entry = None;
            self.touch(entry);
        }
    }

    fn add(&mut self, time: u32, change: i32) {
        let mut at = time as usize + 1;
        while at <= TIMES {
            self.tree[at] = self.tree[at].wrapping_add_signed(change);
            at += at & at.wrapping_neg();
        }
    }

    /// Entries that were used at a time or before.
    fn up_to(&self, time: u32) -> u32 {
        let (mut at, mut sum) = (time as usize + 1, 0);
        while at > 0 {
            sum += self.tree[at];
            at -= at & at.wrapping_neg();
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headstart_units::chance::splitmix64;

    #[test]
    fn distances_are_those_of_a_list_in_order_of_use() {
        let mut seed = std::env::var("SEED").map_or(1, |seed| seed.parse().expect("SEED is a number"));
        println!("SEED={seed}");
        let (mut stack, mut times, mut list) = (Stack::default(), vec![None; 300], Vec::<usize>::new());
        let mut compactions = 0;
        for step in 0..400_000u64 {
            if stack.is_full() {
                stack.compact(times.iter_mut());
                compactions += 1;
            }
            let random = splitmix64(&mut seed);
            // Most uses are of few entries.
            let entry = (random % 300).min(random / 300 % 300) as usize;
            let place = list.iter().rposition(|listed| *listed == entry);
            let expected = place.map(|place| (list.len() - 1 - place) as u32);
            place.map(|place| list.remove(place));
            if step % 97 == 0 {
                stack.remove(&mut times[entry]);
            } else {
                list.push(entry);
                assert_eq!(stack.touch(&mut times[entry]), expected, "step {step}");
            }
        }
        assert!(compactions > 1);
    }
}

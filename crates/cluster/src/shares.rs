//! The one capacity of a directory, shared out among its members by need.
//!
//! Every member tells all others how much flash it needs, so that all compute the same shares: as much as each needs, and
//! where that is more than there is, nobody gets more than another one that has too little (max-min fairness). What is
//! left over they have in equal parts, so that whoever begins has room at once. One that has told nothing yet counts as
//! one that needs its equal part; one that is gone keeps its share until its log is out of the view.
//!
//! A share that falls counts at once. One that grows does so a period after it was found to: by then the others have
//! heard of the same needs, and theirs have fallen. No rule of the protocol rests on it: while needs change, more may be
//! taken for a moment, and flash that is full is no error.

use std::collections::BTreeMap;

use headstart_units::Nanos;

use crate::names::MemberId;

/// So long a share is found to grow before it does; assumed: a note's way over a busy network, and a few looks at needs.
const PERIOD: Nanos = Nanos(1_000_000_000);
/// A need is told anew when it differs by this part of an equal share from what was told; assumed: an eighth is soon
/// settled by eviction.
const TOLD_PART: u64 = 8;

/// See the module.
#[derive(Clone, Debug)]
pub struct Shares {
    /// What the others have told.
    others: BTreeMap<MemberId, Option<u64>>,
    /// What this member has told them.
    told: Option<u64>,
    share: Option<u64>,
    /// Since when it is found to be more.
    grows: Option<Nanos>,
}

/// What one of several has, if those have such needs: none less than it needs while another one has more.
fn shared_out(capacity: u64, own: u64, others: impl Iterator<Item = u64>) -> u64 {
    let mut needs: Vec<u64> = others.chain([own]).collect();
    needs.sort_unstable();
    let (mut left, mut members) = (capacity, needs.len() as u64);
    for need in needs {
        let part = left / members;
        if need > part {
            // Nobody with as much need or more has all of it.
            return own.min(part);
        }
        (left, members) = (left - need, members - 1);
    }
    // All have what they need, and an equal part of what is left over.
    own
}

impl Shares {
    /// Of a member that knows nobody's need and has told nobody its own.
    pub fn new() -> Shares {
        Shares { others: BTreeMap::new(), told: None, share: None, grows: None }
    }

    /// Those with whom it is shared now, this one not among them.
    pub fn on_members(&mut self, members: impl IntoIterator<Item = MemberId>) {
        let known = std::mem::take(&mut self.others);
        self.others = members.into_iter().map(|member| (member, known.get(&member).copied().flatten())).collect();
    }

    /// Another one needs so many bytes.
    pub fn heard(&mut self, member: MemberId, need: u64) {
        if let Some(known) = self.others.get_mut(&member) {
            *known = Some(need);
        }
    }

    /// What the others know of this one's need.
    pub fn told(&self) -> Option<u64> {
        self.told
    }

    /// This one needs so many bytes; whether the others are to be told.
    pub fn needs(&mut self, capacity: u64, need: u64) -> bool {
        let least = self.equal_part(capacity) / TOLD_PART;
        let is_told = self.told.is_some_and(|told| told.abs_diff(need) <= least && (told == 0) == (need == 0));
        if !is_told {
            self.told = Some(need);
        }
        !is_told
    }

    fn equal_part(&self, capacity: u64) -> u64 {
        capacity / (self.others.len() as u64 + 1)
    }

    /// What this one may take now.
    pub fn share(&mut self, capacity: u64, now: Nanos) -> u64 {
        let equal = self.equal_part(capacity);
        let own = self.told.unwrap_or(equal);
        let others = || self.others.values().map(|need| need.unwrap_or(equal));
        let needed = others().fold(own, u64::saturating_add);
        let rest = capacity.saturating_sub(needed) / (self.others.len() as u64 + 1);
        let found = shared_out(capacity, own, others()) + rest;
        let share = self.share.get_or_insert(found.min(equal));
        if found <= *share || now >= *self.grows.get_or_insert(now) + PERIOD {
            (*share, self.grows) = (found, None);
        }
        *share
    }

    /// Whether the share is about to grow.
    pub fn grows(&self) -> bool {
        self.grows.is_some()
    }
}

impl Default for Shares {
    fn default() -> Shares {
        Shares::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(node: u16) -> MemberId {
        MemberId { node, life: 1 }
    }

    /// Members that have all heard all, a period later.
    fn settled(capacity: u64, needs: &[u64]) -> Vec<u64> {
        let others = |at: usize| (0..needs.len()).filter(move |other| *other != at);
        (0..needs.len())
            .map(|at| {
                let mut shares = Shares::new();
                shares.on_members(others(at).map(|other| member(other as u16)));
                others(at).for_each(|other| shares.heard(member(other as u16), needs[other]));
                shares.needs(capacity, needs[at]);
                shares.share(capacity, Nanos(5));
                shares.share(capacity, Nanos(5) + PERIOD)
            })
            .collect()
    }

    #[test]
    fn who_needs_more_has_more_and_the_rest_is_divided() {
        assert_eq!(settled(90, &[0, 0, 0]), [30, 30, 30]);
        assert_eq!(settled(90, &[60, 0, 0]), [70, 10, 10]);
        assert_eq!(settled(90, &[90, 0, 0]), [90, 0, 0]);
        assert_eq!(settled(90, &[90, 90, 0]), [45, 45, 0]);
        assert_eq!(settled(90, &[90, 90, 10]), [40, 40, 10]);
        assert_eq!(settled(90, &[900, 20, 10]), [60, 20, 10]);
        assert_eq!(settled(90, &[7]), [90]);
    }

    #[test]
    fn no_more_is_taken_than_there_is_and_nobody_has_less_than_another_who_lacks_nothing() {
        let seed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64;
        let seed = std::env::var("SEED").map_or(seed, |text| text.parse().unwrap());
        println!("SEED={seed}");
        let mut random = seed;
        let mut below = |limit: u64| {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (random >> 33) % limit
        };
        for _ in 0..2000 {
            let capacity = below(1000);
            let needs: Vec<u64> = (0..1 + below(9)).map(|_| below(400)).collect();
            let shares = settled(capacity, &needs);
            let sum: u64 = shares.iter().sum();
            // Less by what division leaves.
            assert!(sum <= capacity && sum + needs.len() as u64 > capacity, "{capacity} {needs:?} {shares:?}");
            for (need, share) in needs.iter().zip(&shares) {
                let has_more = |other: &u64| *other > share + 1;
                assert!(share >= need || !shares.iter().any(has_more), "{capacity} {needs:?} {shares:?}");
            }
        }
    }

    #[test]
    fn a_share_falls_at_once_and_grows_a_period_later() {
        let mut shares = Shares::new();
        shares.on_members([member(1)]);
        assert_eq!(shares.share(100, Nanos(0)), 50, "nothing was told");
        assert!(shares.needs(100, 20));
        shares.heard(member(1), 0);
        assert_eq!(shares.share(100, Nanos(10)), 50);
        assert!(shares.grows());
        assert_eq!(shares.share(100, Nanos(9) + PERIOD), 50);
        assert_eq!(shares.share(100, Nanos(10) + PERIOD), 60);
        assert!(!shares.grows());
        shares.heard(member(1), 70);
        assert_eq!(shares.share(100, Nanos(11) + PERIOD), 25);
        shares.heard(member(1), 0);
        shares.share(100, Nanos(12) + PERIOD);
        shares.heard(member(1), 70);
        assert_eq!(shares.share(100, Nanos(13) + PERIOD + PERIOD), 25, "what it was about to be is forgotten");
    }

    #[test]
    fn one_that_has_told_nothing_counts_with_an_equal_part_and_one_that_left_no_more() {
        let mut shares = Shares::new();
        shares.on_members([member(1)]);
        assert!(shares.needs(100, 100));
        assert_eq!(shares.share(100, Nanos(0)), 50);
        shares.heard(member(2), 0);
        assert_eq!(shares.share(100, Nanos(0)), 50, "it is nobody");
        shares.on_members([]);
        shares.share(100, Nanos(0));
        assert_eq!(shares.share(100, PERIOD), 100);
    }

    #[test]
    fn what_changes_little_is_not_told_again() {
        let mut shares = Shares::new();
        shares.on_members([member(1)]);
        assert!(shares.needs(800, 100) && !shares.needs(800, 150) && shares.needs(800, 151));
        assert_eq!(shares.told(), Some(151));
        assert!(shares.needs(800, 10) && shares.needs(800, 0), "that it needs nothing counts");
    }
}

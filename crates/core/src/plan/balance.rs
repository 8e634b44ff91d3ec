//! A run ends with its last rank: of choices that gain about the same in all, the one that lets ranks end together.
//!
//! By gain alone (eq. 9) it is chance which of the many regions of about the same gain are chosen, and so how many requests each rank
//! has left on disk. From the best choice on, regions are exchanged: the rank that will end last gets another one, and for it those
//! leave that are missed least, of ranks that end earlier all the same.
//!
//! Which rank ends last in the traced run is chance too where counts are small. So a region that is not chosen is expected to be
//! asked for as often as its count says and as its like are, by the ratio of the spread between them to that of chance (Bühlmann's
//! credibility, with counts by Poisson's law). Not in the paper.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::cost::region::gain_table::{RegionGain, RegionId};

/// More shares than this are not kept, and nothing is exchanged: they would take more memory than the table.
const SHARES_MAX: usize = 1 << 20;
/// One region gains about the same as another if it gains no more than so many times as much; assumed: what a rank loses others lose
/// too, as they wait for the same disks.
const ALIKE: f64 = 1.3;
/// Exchanges for each rank at most; assumed: a few regions decide.
const EXCHANGES_PER_RANK: usize = 32;

/// Who would gain how much of each region, nanoseconds, and what each rank's requests take on flash.
#[derive(Clone, Debug, Default)]
pub(super) struct Shares {
    gains: HashMap<(RegionId, u32), i64>,
    flash_ns: BTreeMap<u32, i64>,
    overflown: bool,
}

impl Shares {
    /// A part of a request.
    pub(super) fn add(&mut self, id: RegionId, rank: u32, gain_ns: i64, flash_ns: i64) {
        if self.overflown {
            return;
        }
        *self.gains.entry((id, rank)).or_default() += gain_ns;
        *self.flash_ns.entry(rank).or_default() += flash_ns;
        if self.gains.len() > SHARES_MAX {
            (self.gains, self.overflown) = (HashMap::new(), true);
        }
    }

    /// Those of both.
    pub(super) fn with(&self, other: &Shares) -> Shares {
        let mut sum = self.clone();
        other.gains.iter().for_each(|(key, gain_ns)| *sum.gains.entry(*key).or_default() += gain_ns);
        other.flash_ns.iter().for_each(|(rank, ns)| *sum.flash_ns.entry(*rank).or_default() += ns);
        sum.overflown |= other.overflown;
        sum
    }
}

/// What is expected of one region.
#[derive(Debug, Default)]
struct Expected {
    gain_ns: f64,
    by_rank: Vec<(u32, f64)>,
    flash_bytes: u64,
}

/// Exchanges regions of the best choice for others; `regions` is the number of all there are, `flash_bytes` what one takes.
pub(super) fn balance(
    chosen: &mut BTreeSet<RegionId>,
    table: &BTreeMap<RegionId, RegionGain>,
    shares: &Shares,
    regions: u64,
    flash_bytes: impl Fn(RegionId) -> u64,
) {
    if shares.overflown || shares.gains.is_empty() {
        return;
    }
    let mut expected = expect(chosen, table, regions);
    for (&(id, rank), &gain_ns) in &shares.gains {
        let own = table[&id].gain_ns();
        let region = expected.get_mut(&id).expect("every region of the table is there");
        region.flash_bytes = flash_bytes(id);
        let part = if own > 0 { gain_ns as f64 / own as f64 } else { 0.0 };
        region.by_rank.push((rank, region.gain_ns * part));
    }
    // The same sums whenever the same plan is made.
    expected.values_mut().for_each(|region| region.by_rank.sort_by_key(|(rank, _)| *rank));
    let mut loads: BTreeMap<u32, f64> = shares.flash_ns.iter().map(|(rank, ns)| (*rank, *ns as f64)).collect();
    for (_, region) in expected.iter().filter(|(id, _)| !chosen.contains(id)) {
        region.by_rank.iter().for_each(|(rank, gain_ns)| *loads.entry(*rank).or_default() += gain_ns);
    }
    for _ in 0..EXCHANGES_PER_RANK * loads.len() {
        if !exchange(chosen, &expected, &mut loads) {
            return;
        }
    }
}

/// The gains to expect of all regions.
fn expect(
    chosen: &BTreeSet<RegionId>,
    table: &BTreeMap<RegionId, RegionGain>,
    regions: u64,
) -> BTreeMap<RegionId, Expected> {
    let count = |region: &RegionGain| (region.reads + region.writes) as f64;
    let left: Vec<f64> = table.iter().filter(|(id, _)| !chosen.contains(id)).map(|(_, region)| count(region)).collect();
    let number = (regions.saturating_sub(chosen.len() as u64)).max(left.len() as u64).max(1) as f64;
    let mean = left.iter().sum::<f64>() / number;
    let spread = left.iter().map(|count| count * count).sum::<f64>() / number - mean * mean;
    // What is left of the spread when that of chance is taken off.
    let credibility = if spread > 0.0 { ((spread - mean) / spread).max(0.0) } else { 0.0 };
    let expected = |(id, region): (&RegionId, &RegionGain)| {
        let likely = mean + (count(region) - mean) * credibility;
        let factor = if chosen.contains(id) { 1.0 } else { likely / count(region).max(1.0) };
        (*id, Expected { gain_ns: region.gain_ns() as f64 * factor, ..Expected::default() })
    };
    table.iter().map(expected).collect()
}

/// Puts one region of the last rank's on flash in place of one that is there; false if none helps.
fn exchange(
    chosen: &mut BTreeSet<RegionId>,
    expected: &BTreeMap<RegionId, Expected>,
    loads: &mut BTreeMap<u32, f64>,
) -> bool {
    let Some((&last, &most_ns)) = loads.iter().max_by(|a, b| a.1.total_cmp(b.1)) else { return false };
    let of_last = |region: &Expected| -> f64 {
        region.by_rank.iter().filter(|(rank, _)| *rank == last).map(|(_, gain_ns)| gain_ns).sum()
    };
    let outside = expected.iter().filter(|(id, region)| !chosen.contains(id) && region.flash_bytes > 0);
    let Some((&comes, new)) = outside.max_by(|a, b| of_last(a.1).total_cmp(&of_last(b.1))) else { return false };
    let relief_ns = of_last(new);
    let goes = chosen
        .iter()
        .map(|id| (*id, &expected[id]))
        .filter(|(_, old)| {
            let ends_earlier = |(rank, gain_ns): &(u32, f64)| *rank != last && loads[rank] + gain_ns < most_ns;
            old.flash_bytes >= new.flash_bytes
                && old.gain_ns < new.gain_ns * ALIKE
                && old.by_rank.iter().all(ends_earlier)
        })
        .min_by(|a, b| a.1.gain_ns.total_cmp(&b.1.gain_ns));
    let Some((goes, old)) = goes.filter(|_| relief_ns > 0.0) else { return false };
    chosen.remove(&goes);
    chosen.insert(comes);
    let mut add = |(rank, gain_ns): &(u32, f64), sign: f64| *loads.entry(*rank).or_default() += sign * gain_ns;
    old.by_rank.iter().for_each(|one| add(one, 1.0));
    new.by_rank.iter().for_each(|one| add(one, -1.0));
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::region::Costs;
    use crate::cost::region::gain_table::GainTable;
    use crate::request::{Direction, Range};

    const RANKS: u32 = 4;
    const REGIONS: u64 = 10;

    /// Each rank has ten regions of its own; how often it asks for its k-th one.
    fn traced(count: impl Fn(u32, u64) -> u64) -> (BTreeMap<RegionId, RegionGain>, Shares) {
        let (mut table, mut shares) = (GainTable::new(Costs::of_a_test()), Shares::default());
        let gain_ns = Costs::of_a_test().gain_ns(Direction::Read, 1);
        for rank in 0..RANKS {
            for k in 0..REGIONS {
                let number = u64::from(rank) * REGIONS + k;
                for _ in 0..count(rank, k) {
                    table.add(0, 4096, Direction::Read, Range::new(number * 4096, 1));
                    shares.add((0, number), rank, gain_ns, 1000);
                }
            }
        }
        (table.into_regions(), shares)
    }

    fn balanced(chosen: &[u64], count: impl Fn(u32, u64) -> u64) -> Vec<u64> {
        let (table, shares) = traced(count);
        let mut chosen: BTreeSet<RegionId> = chosen.iter().map(|number| (0, *number)).collect();
        balance(&mut chosen, &table, &shares, u64::from(RANKS) * REGIONS, |_| 4096);
        chosen.into_iter().map(|(_, number)| number).collect()
    }

    #[test]
    fn ranks_that_ask_alike_get_as_many_regions_each() {
        // By chance the first rank's regions were asked for a little more often.
        let chosen =
            balanced(&[0, 1, 2, 3, 10, 20, 30, 31], |rank, k| if rank == 0 { 21 } else { 20 } + (k == 0) as u64);
        let of = |rank: u64| chosen.iter().filter(|number| *number / REGIONS == rank).count();
        assert_eq!([0, 1, 2, 3].map(of), [2, 2, 2, 2], "{chosen:?}");
    }

    #[test]
    fn a_region_of_far_more_gain_stays_whoever_ends_last() {
        let chosen = balanced(&[0, 1], |rank, k| match (rank, k) {
            (0, 0 | 1) => 1000,
            (3, _) => 100,
            _ => 1,
        });
        assert_eq!(chosen, [0, 1]);
    }

    #[test]
    fn a_rank_that_has_more_to_wait_for_gets_more() {
        let chosen = balanced(&[0, 10, 20, 30], |rank, _| if rank == 3 { 300 } else { 30 });
        assert!(chosen.iter().filter(|number| *number / REGIONS == 3).count() >= 3, "{chosen:?}");
    }
}

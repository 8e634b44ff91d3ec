//! The map against plain lists of extents, under random operations.

use super::*;
use crate::recency::{Access, Recency};
use headstart_units::chance::Random;
use headstart_units::chunked_map::reference::{Reference, check_room};
use headstart_units::request::Range;

/// Extents without their uses, which a map may say as of a later fold.
fn unstamped(mapped: impl IntoIterator<Item = Mapped>) -> Vec<Mapped> {
    mapped.into_iter().map(|mapped| Mapped { stamp: Stamp::default(), ..mapped }).collect()
}

fn generation(mapped: &Mapped, folds: u32) -> u8 {
    mapped.stamp.at(folds).generation
}

/// Where the operations of one case happen.
fn range(random: &mut Random, wide: bool) -> Range {
    let offset = match random.below(4) {
        0 => random.below(1 << 13) * 4096,
        1 => random.below(1 << 25),
        // About the bounds of windows.
        _ if wide => (random.below(6) << 32).wrapping_sub(1 << 14).saturating_add(random.below(1 << 15)),
        _ => random.below(1 << 10) * 8192,
    };
    let length = match random.below(8) {
        0 => random.below(1 << 22) + 1,
        1 => random.below(5000) + 1,
        _ => 4096,
    };
    Range::new(offset.min(1 << 50), length)
}

fn run(random: &mut Random, operations: usize) {
    let (mut map, mut reference, mut recency) = (ExtentMap::default(), Reference::default(), Recency::default());
    let (wide, grow) = (random.below(2) == 0, random.below(3));
    let mut next_page = 1 << 20;
    for _ in 0..operations {
        let range = range(random, wide);
        let some = reference.0.range(range.offset..).next().map(|(offset, mapped)| (*offset, *mapped));
        match random.below(10 + 6 * grow) {
            0 | 1 => {
                let before = unstamped(reference.overlapping(range));
                let change = map.carve(range);
                reference.carve(range);
                assert_eq!(unstamped(change.removed), before);
            }
            2 | 3 => {
                if let Some((offset, _)) = some {
                    map.set_clean(offset);
                    reference.0.get_mut(&offset).unwrap().dirty = false;
                }
            }
            4 | 5 => {
                if let Some((offset, _)) = some {
                    let access = if random.below(3) == 0 { Access::Random } else { Access::Sequential };
                    let stamp = recency.stamp_use(reference.0.len() as u64, access);
                    map.set_stamp(offset, stamp);
                    reference.0.get_mut(&offset).unwrap().stamp = stamp;
                }
            }
            _ => {
                map.carve(range);
                reference.carve(range);
                next_page -= range.length.div_ceil(4096) + 1;
                let mapped = Mapped {
                    range,
                    data_file: 7 + (random.below(20) / 19) as u32,
                    place: next_page.max(1) * 4096 + range.offset % 4096,
                    dirty: random.below(2) == 0,
                    stamp: recency.stamp_use(reference.0.len() as u64, Access::Sequential),
                    benefit: Benefit(random.below(256) as u8),
                };
                next_page = next_page.max(1 << 18);
                map.put(mapped);
                reference.put(mapped);
            }
        }
        check(&mut map, &reference, range, recency.stamp_use(reference.0.len() as u64, Access::Sequential));
    }
    check_whole(&map, &reference);
    map.carve(Range::new(0, u64::MAX));
    check_whole(&map, &Reference::default());
}

fn check(map: &mut ExtentMap, reference: &Reference<Mapped>, range: Range, now: Stamp) {
    assert_eq!(unstamped(map.overlapping(range)), unstamped(reference.overlapping(range)));
    assert_eq!(map.touches(range), !reference.overlapping(range).is_empty());
    let at = map.at(range.offset);
    assert_eq!(unstamped(at), unstamped(reference.0.get(&range.offset).copied()));
    if let Some(mapped) = at {
        assert_eq!(generation(&mapped, now.folds), generation(&reference.0[&range.offset], now.folds));
    }
    let after = || reference.0.range(range.offset..).map(|(_, mapped)| *mapped);
    assert_eq!(unstamped(map.next_dirty(range.offset)), unstamped(after().find(|mapped| mapped.dirty)));
    for age in [255, 40, 3] {
        let limit = Stamp { generation: now.generation.saturating_sub(age), folds: now.folds };
        let oldest = after().find(|mapped| !mapped.dirty && generation(mapped, limit.folds) <= limit.generation);
        assert_eq!(unstamped(map.oldest(range.offset, limit)), unstamped(oldest));
    }
}

fn check_whole(map: &ExtentMap, reference: &Reference<Mapped>) {
    assert_eq!(unstamped(map.iter()), unstamped(reference.0.values().copied()));
    reference.check(map);
}

#[test]
fn the_map_agrees_with_a_list_of_extents_under_random_operations() {
    let seed = std::env::var("SEED").ok().map_or(0x5eed_0001, |text| text.parse().expect("SEED is a number"));
    println!("SEED={seed}");
    let mut random = Random(seed);
    for _ in 0..12 {
        run(&mut random, 4000);
    }
}

#[test]
fn extents_put_in_any_order_leave_no_more_chunks_than_half_filled_ones_would_be() {
    let (stamp, benefit) = (Stamp::default(), Benefit::default());
    check_room::<Chunk>(20_000, 20, |k| {
        let range = Range::new(k * 8192, 4096);
        Mapped { range, data_file: 1, place: k * 4096, dirty: true, stamp, benefit }
    });
}

//! Extents against an array of bytes.

use super::*;

/// Epoch of each dirty byte.
type Bytes = Vec<Option<u64>>;

fn check(extents: &Extents, bytes: &Bytes) {
    assert_eq!(extents.bytes(), bytes.iter().flatten().count() as u64);
    for position in 0..bytes.len() {
        let until = (position..bytes.len()).find(|&byte| bytes[byte].is_none()).unwrap_or(bytes.len());
        assert_eq!(extents.covered_until(position as u64), until as u64);
        let first = (position..bytes.len()).find(|&byte| bytes[byte].is_some());
        let run = first.map(|first| {
            let end = (first..bytes.len()).find(|&byte| bytes[byte].is_none()).unwrap_or(bytes.len());
            (first as u64, end.min(first + 9) as u64)
        });
        assert_eq!(extents.run_from(position as u64, 9), run);
    }
}

#[test]
fn extents_are_the_bytes_they_stand_for() {
    let mut state = 12_u64;
    let mut random = |bound: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    };
    let (mut extents, mut bytes): (Extents, Bytes) = (Extents::default(), vec![None; 64]);
    for step in 0..20_000 {
        let start = random(60);
        let end = start + random(64 - start) + 1;
        let epoch = step / 50;
        if random(2) == 0 {
            let fresh = bytes[start as usize..end as usize].iter_mut().filter(|byte| byte.is_none());
            let added = fresh.map(|byte| *byte = Some(epoch)).count() as u64;
            assert_eq!(extents.insert(start, end, epoch), added);
        } else {
            let mut removed: BTreeMap<u64, u64> = BTreeMap::new();
            extents.remove(start, end, |epoch, count| *removed.entry(epoch).or_default() += count);
            let mut expected: BTreeMap<u64, u64> = BTreeMap::new();
            for epoch in bytes[start as usize..end as usize].iter_mut().filter_map(Option::take) {
                *expected.entry(epoch).or_default() += 1;
            }
            assert_eq!(removed, expected);
        }
        check(&extents, &bytes);
    }
}

#[test]
fn ranges_around_an_address_come_from_both_sides() {
    let mut extents = Extents::default();
    for start in 0..10 {
        extents.insert(start * 10, start * 10 + 5, 0);
    }
    let starts: Vec<u64> = extents.around(50, 5).map(|(start, _)| start).collect();
    assert_eq!(starts, [50, 60, 70, 40, 30]);
}

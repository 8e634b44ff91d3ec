//! RANDOM (CARL §IV-A): regions for flash drawn at random from all regions of the files, for comparison.

use std::collections::BTreeSet;

use headstart_units::chance::splitmix64;

use crate::cost::region::gain_table::{FileRegions, RegionId, flash_bytes};

/// Regions drawn from those of `files`, each as likely as any other; one that does not fit is passed over.
/// The same seed draws the same regions.
pub fn choose(
    files: impl IntoIterator<Item = (u32, FileRegions)>,
    capacity_bytes: u64,
    seed: u64,
) -> BTreeSet<RegionId> {
    let all = |(file, regions): (u32, FileRegions)| {
        (0..regions.count()).map(move |number| ((file, number), flash_bytes(regions.range(number))))
    };
    let mut regions: Vec<(RegionId, u64)> = files.into_iter().flat_map(all).collect();
    let (mut chosen, mut free_bytes, mut state) = (BTreeSet::new(), capacity_bytes, seed);
    while !regions.is_empty() && free_bytes > 0 {
        let at = (splitmix64(&mut state) % regions.len() as u64) as usize;
        let (id, bytes) = regions.swap_remove(at);
        if let Some(rest) = free_bytes.checked_sub(bytes) {
            free_bytes = rest;
            chosen.insert(id);
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: FileRegions = FileRegions { size_bytes: 99 * 8192 + 1, region_bytes: 8192 };

    #[test]
    fn a_draw_fills_the_capacity_and_depends_on_the_seed_alone() {
        let draw = |seed| choose([(0, FILE), (3, FILE)], 40 * 8192, seed);
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        let bytes: u64 = draw(1).iter().map(|(_, number)| flash_bytes(FILE.range(*number))).sum();
        assert!(bytes > 39 * 8192 && bytes <= 40 * 8192, "{bytes}");
        assert!(choose([(0, FILE)], 0, 1).is_empty());
        assert_eq!(choose([(0, FILE)], u64::MAX, 1).len(), 100);
    }

    #[test]
    fn every_region_is_drawn_as_often_as_any_other() {
        let mut drawn = [0u32; 100];
        for seed in 0..2000 {
            for (_, number) in choose([(0, FILE)], 20 * 8192, seed) {
                drawn[number as usize] += 1;
            }
        }
        // Of 2000 draws of about a fifth: 400 each, give or take four standard deviations of 18.
        assert!(drawn.iter().all(|count| (325..480).contains(count)), "{drawn:?}");
    }
}

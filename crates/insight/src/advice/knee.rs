//! Where a curve of diminishing returns bends: more flash beyond it buys less than the curve buys on average.
//!
//! Kneedle (V. Satopää, J. Albrecht, D. Irwin, B. Raghavan, "Finding a 'Kneedle' in a Haystack", ICDCS
//! Workshops 2011, §III) without smoothing, as predictions have no noise: both axes are scaled to 0..1, and
//! the knee is the point farthest above the chord from the first point to the first of the best ones.

/// Less than this share of the run time is no gain worth a knee (assumed: predictions err by several percent).
const GAIN_MIN: f64 = 0.05;

/// The knee of run times by rising capacity; none where flash saves less than a 20th, or the least flash saves all.
pub(crate) fn knee(capacities: &[u64], run_s: &[f64]) -> Option<usize> {
    assert_eq!(capacities.len(), run_s.len(), "each capacity has a run time");
    // More flash is never slower: it need not be used.
    let mut best_s = f64::INFINITY;
    let falling: Vec<f64> = run_s
        .iter()
        .map(|one| {
            best_s = best_s.min(*one);
            best_s
        })
        .collect();
    let (first_s, last_s) = (*falling.first()?, *falling.last()?);
    if first_s - last_s <= GAIN_MIN * first_s {
        return None;
    }
    // What is within a hundredth of the best gain is as good.
    let end = falling.iter().position(|one| first_s - one >= 0.99 * (first_s - last_s))?;
    let width = (capacities[end] - capacities[0]).max(1) as f64;
    let above = |index: usize| {
        let x = (capacities[index] - capacities[0]) as f64 / width;
        (first_s - falling[index]) / (first_s - falling[end]) - x
    };
    // On a straight line every point is as good as any: then all that gains is worth its flash.
    let farthest = (1..=end)
        .fold((end, 0.05), |(at, most), index| if above(index) > most { (index, above(index)) } else { (at, most) });
    Some(farthest.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPACITIES: [u64; 6] = [0, 20, 40, 60, 80, 100];

    #[test]
    fn the_knee_is_the_point_farthest_from_the_chord() {
        assert_eq!(knee(&CAPACITIES, &[100.0, 60.0, 30.0, 26.0, 23.0, 20.0]), Some(2));
        assert_eq!(knee(&CAPACITIES, &[100.0, 30.0, 28.0, 26.0, 24.0, 22.0]), Some(1));
    }

    #[test]
    fn a_straight_line_is_worth_its_whole_length_and_a_flat_one_nothing() {
        assert_eq!(knee(&CAPACITIES, &[100.0, 90.0, 80.0, 70.0, 60.0, 50.0]), Some(5));
        assert_eq!(knee(&CAPACITIES, &[100.0, 100.0, 99.0, 98.0, 98.0, 97.0]), None);
        assert_eq!(knee(&[], &[]), None);
    }

    #[test]
    fn a_curve_that_rises_again_has_the_knee_of_its_best_part() {
        assert_eq!(knee(&CAPACITIES, &[100.0, 60.0, 30.0, 29.0, 50.0, 70.0]), Some(2));
    }

    #[test]
    fn what_fits_at_once_has_its_knee_where_it_fits() {
        assert_eq!(knee(&CAPACITIES, &[100.0, 100.0, 100.0, 20.0, 20.0, 20.0]), Some(3));
    }
}

//! What to do with flash: how much of it, under which policy.

use super::knee::knee;
use super::report::{Curve, Point, Policy, Recommendation};

/// Of two policies, the one that is simpler to use is as good if it is slower by no more than this (assumed).
const AS_GOOD: f64 = 1.03;

pub(crate) fn columns(points: &[Point]) -> (Vec<u64>, Vec<f64>) {
    points.iter().map(|point| (point.capacity_bytes, point.run_s)).unzip()
}

/// The knee of the best that can be had for each capacity, and the simplest policy that is as good there.
/// Plans are predicted for requests they have not seen; so S4D is judged by what it does within one run, not
/// by what the same run would find again.
pub(crate) fn recommend(curves: &[Curve]) -> Option<Recommendation> {
    let candidates = [Policy::S4dFirst, Policy::Carl, Policy::CarlS4d];
    let of = |policy: Policy| curves.iter().find(|curve| curve.policy == policy);
    let best_s = |point: usize| {
        let all = candidates.iter().filter_map(|policy| of(*policy));
        all.map(|curve| curve.points[point].run_s).fold(f64::INFINITY, f64::min)
    };
    let (capacities, _) = columns(&curves.first()?.points);
    let envelope: Vec<f64> = (0..capacities.len()).map(best_s).collect();
    let point = knee(&capacities, &envelope)?;
    let is_as_good =
        |policy: &&Policy| of(**policy).is_some_and(|curve| curve.points[point].run_s <= envelope[point] * AS_GOOD);
    candidates.iter().find(is_as_good).map(|policy| Recommendation { policy: *policy, point })
}

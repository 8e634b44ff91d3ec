//! S4D's F, seek time by distance, and R, the average rotation delay, from reads at known distances.
//!
//! A read at distance d takes c + F(d) + a wait of 0 to 2R: c is what a read of bytes that the drive still
//! holds takes, and the waits are spread evenly by the pauses of [`Pattern::Seek`](super::Pattern::Seek). Of
//! an even spread the ends tell most: R is half the distance of the 5th from the 95th percentile, over 0.9,
//! and F(d) lies c and R below the middle between them. A few hits in caches and a few late replies move
//! neither.

use serde::Serialize;

use super::fit_error::FitError;
use super::latencies::Latencies;
use headstart_policy::cost::benefit::SeekPoint;

/// The percentile that stands for an end.
const TAIL: f64 = 0.05;

/// What was learnt of arm and spindle.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Seek {
    /// c, seconds of a read that needs neither.
    pub overhead_s: f64,
    /// R, seconds.
    pub rotation_s: f64,
    /// F, from zero, never falling.
    pub curve: Vec<SeekPoint>,
    /// The usual form of F, if there are points enough.
    pub form: Option<SeekForm>,
}

/// F(d) = α + β √d up to the knee, then on in a straight line. Distances are bytes here.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SeekForm {
    /// α, seconds.
    pub alpha_s: f64,
    /// β, seconds per √byte.
    pub beta_s: f64,
    /// Where the line begins, bytes.
    pub knee_bytes: u64,
    /// ε, seconds per byte.
    pub epsilon_s: f64,
    /// Of F + R.
    pub error: FitError,
}

impl SeekForm {
    /// F(d), seconds; d at least 1.
    pub fn seconds(&self, distance_bytes: u64) -> f64 {
        let near = distance_bytes.min(self.knee_bytes) as f64;
        let far = distance_bytes.saturating_sub(self.knee_bytes) as f64;
        self.alpha_s + self.beta_s * near.sqrt() + self.epsilon_s * far
    }
}

impl Seek {
    /// From the latencies of reads of held bytes, and of reads at rising distances.
    pub(crate) fn of(again: &Latencies, seeks: &[(u64, &Latencies)]) -> Option<Seek> {
        let seeks: Vec<_> = seeks.iter().filter(|(_, latencies)| latencies.count() >= 4).collect();
        let shortest_s = seeks.iter().filter_map(|(_, latencies)| latencies.quantile_s(0.0)).reduce(f64::min)?;
        // A drive that holds nothing takes a whole turn to read the same again.
        let overhead_s = again.quantile_s(0.5).unwrap_or(0.0).min(shortest_s);
        let ends = |found: &Latencies| Some((found.quantile_s(TAIL)?, found.quantile_s(1.0 - TAIL)?));
        let ends: Vec<_> = seeks.iter().filter_map(|(distance, found)| Some((*distance, ends(found)?))).collect();
        let mut waits: Vec<f64> = ends.iter().map(|(_, (low, high))| (high - low) / (1.0 - 2.0 * TAIL)).collect();
        waits.sort_by(f64::total_cmp);
        let rotation_s = waits[waits.len() / 2] / 2.0;
        let beyond_s = overhead_s + rotation_s;
        let seek_s = |(low, high): (f64, f64)| ((low + high) / 2.0 - beyond_s).max(0.0);
        let measured: Vec<(u64, f64)> = ends.iter().map(|&(distance, ends)| (distance, seek_s(ends))).collect();
        let never_falling = never_falling(&measured);
        let points = never_falling.iter().map(|&(distance_bytes, seek_s)| SeekPoint { distance_bytes, seek_s });
        let curve = std::iter::once(SeekPoint { distance_bytes: 0, seek_s: 0.0 }).chain(points).collect();
        Some(Seek { overhead_s, rotation_s, curve, form: form(&measured, rotation_s) })
    }

    /// S, the longest seek within what was measured, seconds.
    pub fn longest_s(&self) -> f64 {
        self.curve.last().map_or(0.0, |point| point.seek_s)
    }
}

/// The nearest curve that never falls: neighbours that do are replaced by their mean.
fn never_falling(points: &[(u64, f64)]) -> Vec<(u64, f64)> {
    let mut pools: Vec<(f64, usize)> = Vec::new();
    for &(_, seconds) in points {
        let mut pool = (seconds, 1);
        while let Some(&(mean, count)) = pools.last().filter(|(mean, _)| *mean > pool.0) {
            let total = count + pool.1;
            pool = ((mean * count as f64 + pool.0 * pool.1 as f64) / total as f64, total);
            pools.pop();
        }
        pools.push(pool);
    }
    let levels = pools.iter().flat_map(|&(mean, count)| std::iter::repeat_n(mean, count));
    points.iter().zip(levels).map(|(&(distance, _), level)| (distance, level)).collect()
}

/// The best form over all knees at measured distances. Its error is that of F + R: at short distances F alone
/// is less than the noise.
fn form(points: &[(u64, f64)], rotation_s: f64) -> Option<SeekForm> {
    if points.len() < 4 {
        return None;
    }
    let forms = points[2..].iter().filter_map(|&(knee_bytes, _)| {
        let rows = points.iter().map(|&(distance, seconds)| {
            let near = distance.min(knee_bytes) as f64;
            ([1.0, near.sqrt(), distance.saturating_sub(knee_bytes) as f64], seconds)
        });
        let [alpha_s, beta_s, epsilon_s] = least_squares(rows)?;
        // An arm is not faster for going further.
        if alpha_s.min(beta_s).min(epsilon_s) < 0.0 {
            return None;
        }
        let form = SeekForm { alpha_s, beta_s, knee_bytes, epsilon_s, error: FitError::default() };
        let error = FitError::of(
            points.iter().map(|&(distance, seconds)| (rotation_s + seconds, rotation_s + form.seconds(distance))),
        );
        Some(SeekForm { error, ..form })
    });
    forms.min_by(|one, other| one.error.rms.total_cmp(&other.error.rms))
}

/// Three coefficients by the normal equations; a column of zeros gets zero.
fn least_squares(rows: impl Iterator<Item = ([f64; 3], f64)>) -> Option<[f64; 3]> {
    let rows: Vec<_> = rows.collect();
    // Columns differ by ten orders of magnitude: each is scaled to 1.
    let mut scale = [0.0f64; 3];
    for (row, _) in &rows {
        (0..3).for_each(|column| scale[column] = scale[column].max(row[column].abs()));
    }
    let mut matrix = [[0.0; 4]; 3];
    for (row, value) in &rows {
        let scaled: [f64; 3] =
            std::array::from_fn(|column| if scale[column] > 0.0 { row[column] / scale[column] } else { 0.0 });
        for line in 0..3 {
            (0..3).for_each(|column| matrix[line][column] += scaled[line] * scaled[column]);
            matrix[line][3] += scaled[line] * value;
        }
    }
    for line in 0..3 {
        if scale[line] == 0.0 {
            matrix[line][line] = 1.0;
        }
    }
    for pivot in 0..3 {
        let best = (pivot..3).max_by(|&one, &other| matrix[one][pivot].abs().total_cmp(&matrix[other][pivot].abs()))?;
        matrix.swap(pivot, best);
        if matrix[pivot][pivot].abs() < 1e-12 {
            return None;
        }
        for line in 0..3 {
            if line != pivot {
                let factor = matrix[line][pivot] / matrix[pivot][pivot];
                (pivot..4).for_each(|column| matrix[line][column] -= factor * matrix[pivot][column]);
            }
        }
    }
    let solution =
        std::array::from_fn(
            |line| {
                if scale[line] > 0.0 { matrix[line][3] / matrix[line][line] / scale[line] } else { 0.0 }
            },
        );
    Some(solution)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_of_a_seek_curve_comes_back() {
        let truth = SeekForm {
            alpha_s: 0.002,
            beta_s: 6e-8,
            knee_bytes: 1 << 31,
            epsilon_s: 3e-13,
            error: FitError::default(),
        };
        let points: Vec<(u64, f64)> = (20..36).map(|power| (1u64 << power, truth.seconds(1 << power))).collect();
        let found = form(&points, 0.0).unwrap();
        assert_eq!(found.knee_bytes, 1 << 31);
        assert!((found.alpha_s / 0.002 - 1.0).abs() < 1e-3 && (found.beta_s / 6e-8 - 1.0).abs() < 1e-3, "{found:?}");
        assert!((found.epsilon_s / 3e-13 - 1.0).abs() < 1e-3 && found.error.max < 1e-3, "{found:?}");
    }

    #[test]
    fn a_curve_that_falls_is_levelled() {
        let levelled = never_falling(&[(1, 1.0), (2, 3.0), (3, 2.0), (4, 2.5), (5, 4.0)]);
        assert_eq!(levelled, [(1, 1.0), (2, 2.5), (3, 2.5), (4, 2.5), (5, 4.0)]);
    }

    #[test]
    fn overhead_rotation_and_seek_are_told_apart() {
        let wait = |base: u64| Latencies::new((0..800).map(|k| base + k * 10_000).collect());
        let (near, far) = (wait(1_500_000), wait(6_500_000));
        let seek = Seek::of(&Latencies::new(vec![500_000; 9]), &[(1 << 20, &near), (1 << 30, &far)]).unwrap();
        assert!((seek.rotation_s - 0.004).abs() < 1e-4, "{seek:?}");
        assert!((seek.curve[1].seek_s - 0.001).abs() < 1e-4 && (seek.longest_s() - 0.006).abs() < 1e-4, "{seek:?}");
        assert_eq!((seek.curve[0].distance_bytes, seek.curve[0].seek_s), (0, 0.0));
        assert_eq!(Seek::of(&Latencies::default(), &[]), None);
    }
}

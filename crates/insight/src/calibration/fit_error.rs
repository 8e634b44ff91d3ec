//! How far a fit is off.

use serde::Serialize;

/// How far a fit is from what it fits, relative to the measured value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct FitError {
    /// Root of the mean square.
    pub rms: f64,
    /// The largest.
    pub max: f64,
    /// Points fitted.
    pub points: usize,
}

impl FitError {
    /// Of pairs (measured, fitted).
    pub(crate) fn of(pairs: impl IntoIterator<Item = (f64, f64)>) -> FitError {
        let (mut sum, mut max, mut points) = (0.0, 0.0f64, 0);
        for (measured, fitted) in pairs {
            let error = (fitted - measured).abs() / measured.abs().max(1e-12);
            sum += error * error;
            max = max.max(error);
            points += 1;
        }
        FitError { rms: (sum / (points.max(1)) as f64).sqrt(), max, points }
    }
}

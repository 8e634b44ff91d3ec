//! Draws by Zipf's law: number k of 1..=n with weight k^-θ.
//!
//! Rejection-inversion (Hörmann and Derflinger 1996, "Rejection-inversion to generate variates from monotone discrete
//! distributions"): draws from the continuous density x^-θ by inverting its integral H, and rejects what the
//! steps of the discrete law do not cover. It is exact, takes fewer than 1.2 tries on average and four
//! numbers of memory. A cumulated table, which ranks could share, is as fast where it fits a cache but takes
//! eight bytes for each transfer of a block: 80 MB for ten million.

use crate::random::Random;

/// The law.
#[derive(Clone, Debug)]
pub struct Zipf {
    count: u64,
    exponent: f64,
    /// H(3/2) - 1 and H(n + 1/2), between which the integral is drawn.
    integral_first: f64,
    integral_last: f64,
    /// Up to so far below its number a draw is accepted without a look at its density.
    accepted: f64,
}

impl Zipf {
    /// Of `1..=count`, with exponent θ of at least 0; 0 is uniform.
    pub fn new(count: u64, exponent: f64) -> Zipf {
        assert!(count > 0 && exponent >= 0.0, "there is something to draw, and the first is not drawn least");
        Zipf {
            count,
            exponent,
            integral_first: integral(1.5, exponent) - 1.0,
            integral_last: integral(count as f64 + 0.5, exponent),
            accepted: 2.0 - inverse(integral(2.5, exponent) - weight(2.0, exponent), exponent),
        }
    }

    /// A draw, from 0 for the most frequent number.
    pub fn draw(&self, random: &mut Random) -> u64 {
        loop {
            let area = self.integral_last + random.unit() * (self.integral_first - self.integral_last);
            let place = inverse(area, self.exponent);
            let number = ((place + 0.5) as u64).clamp(1, self.count);
            let x = number as f64;
            if x - place <= self.accepted || area >= integral(x + 0.5, self.exponent) - weight(x, self.exponent) {
                return number - 1;
            }
        }
    }
}

fn weight(x: f64, exponent: f64) -> f64 {
    libm::exp(-exponent * libm::log(x))
}

/// H(x), the integral of the weight from 1.
fn integral(x: f64, exponent: f64) -> f64 {
    let log = libm::log(x);
    let scaled = (1.0 - exponent) * log;
    // (e^y - 1) / y
    let ratio = if scaled.abs() > 1e-8 { libm::expm1(scaled) / scaled } else { 1.0 + scaled / 2.0 };
    ratio * log
}

/// The x of an H(x).
fn inverse(area: f64, exponent: f64) -> f64 {
    // Rounding may carry it out of the domain of the logarithm.
    let scaled = (area * (1.0 - exponent)).max(-1.0);
    // ln(1 + y) / y
    let ratio = if scaled.abs() > 1e-8 { libm::log1p(scaled) / scaled } else { 1.0 - scaled / 2.0 };
    libm::exp(ratio * area)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weights(count: u64, exponent: f64) -> Vec<f64> {
        let weights: Vec<f64> = (1..=count).map(|k| weight(k as f64, exponent)).collect();
        let sum: f64 = weights.iter().sum();
        weights.into_iter().map(|weight| weight / sum).collect()
    }

    /// Chi-square over numbers that are expected at least ten times: its mean, and five deviations.
    #[test]
    fn draws_are_as_frequent_as_their_weights() {
        const DRAWS: u64 = 200_000;
        for (count, exponent) in [
            (1, 1.0),
            (2, 1.0),
            (10, 0.0),
            (10, 1.0),
            (100, 0.5),
            (100, 1.0),
            (300, 0.9),
            (50, 2.0),
            (40_960, 1.0),
            (9, 30.0),
        ] {
            let law = Zipf::new(count, exponent);
            let mut random = Random::stream(11, count);
            let mut found = vec![0u64; count as usize];
            for _ in 0..DRAWS {
                found[law.draw(&mut random) as usize] += 1;
            }
            let expected = weights(count, exponent).into_iter().map(|share| share * DRAWS as f64);
            let frequent: Vec<(u64, f64)> =
                found.iter().copied().zip(expected).filter(|(_, expected)| *expected >= 10.0).collect();
            let chi_square: f64 =
                frequent.iter().map(|(found, expected)| (*found as f64 - expected).powi(2) / expected).sum();
            let bound = frequent.len() as f64 + 5.0 * (2.0 * frequent.len() as f64).sqrt();
            assert!(chi_square < bound, "{count}, {exponent}: chi-square {chi_square:.1}, at most {bound:.1}");
            let rare = found.iter().sum::<u64>() - frequent.iter().map(|(found, _)| found).sum::<u64>();
            let rare_expected = DRAWS as f64 - frequent.iter().map(|(_, expected)| expected).sum::<f64>();
            assert!((rare as f64 - rare_expected).abs() <= 5.0 * rare_expected.max(1.0).sqrt(), "{count}, {exponent}");
        }
    }

    /// The block of a rank of CARL's experiments, 10 GB / 32, in transfers of 8, 16, 32 and 256 KiB.
    #[test]
    fn the_hottest_fifth_gets_the_share_that_carls_figures_were_read_against() {
        for (transfer, share) in [(8u64 << 10, 0.855), (16 << 10, 0.846), (32 << 10, 0.835), (256 << 10, 0.790)] {
            let count = 10_000_000_000 / 32 / transfer;
            let hot = count / 5;
            let exact: f64 = weights(count, 1.0)[..hot as usize].iter().sum();
            assert!((exact - share).abs() < 0.001, "{transfer}: {exact}");
            let law = Zipf::new(count, 1.0);
            let mut random = Random::stream(1, transfer);
            let found = (0..400_000).filter(|_| law.draw(&mut random) < hot).count() as f64 / 400_000.0;
            assert!((found - exact).abs() < 0.003, "{transfer}: drawn {found}, exactly {exact}");
        }
    }
}

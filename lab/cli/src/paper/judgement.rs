//! Whether what was found is near enough to what was printed.
//!
//! | class | a value | a ratio or gain |
//! |---|---|---|
//! | T1 | within 15 % | within 15 % of the ratio; where that is below 1.3 within 0.05 |
//! | T2 | within 30 % | within 30 % of the ratio |
//! | T2, a printed range | within 30 % of its ends | inside, or no more than ten points outside |
//! | T3 | claims alone | claims alone |
//!
//! An improved T1 series passes above the paper as well. Of a paper's 0 % of requests, 5 % are near enough.

use super::figure::{Claim, Class, Form, Must, Printed};

/// What was found to be printed, found, and of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judgement {
    /// Ours over the paper's, less one; of gains that of the ratios, of ranges from the nearer end.
    pub deviation: Option<f64>,
    /// None if nothing was printed or nothing is judged.
    pub pass: Option<bool>,
}

/// A small excess that rounding may make.
const ROUNDING: f64 = 1e-9;
/// Steps of a monotone series may go the wrong way by so much: less than a simulation with another seed differs.
const LEVEL: f64 = 0.02;

pub fn judge(class: Class, form: Form, improved: bool, printed: Option<&Printed>, ours: f64) -> Judgement {
    let (low, high) = match printed {
        Some(Printed::Value(value)) => (*value, *value),
        Some(Printed::Range([low, high])) => (*low, *high),
        Some(Printed::Not(_)) | None => return Judgement { deviation: None, pass: None },
    };
    let nearest = ours.clamp(low, high);
    let factor = |value: f64| if form == Form::Gain { 1.0 + value / 100.0 } else { value };
    let (found, wanted) = (factor(ours), factor(nearest));
    let deviation = (wanted != 0.0).then(|| found / wanted - 1.0);
    let within = |share: f64| match deviation {
        Some(deviation) => deviation.abs() <= share + ROUNDING,
        None => found.abs() <= 5.0,
    };
    let is_range = low < high;
    let pass = match class {
        Class::T1 if improved && ours >= high => Some(true),
        Class::T1 if form != Form::Value && wanted < 1.3 => Some((found - wanted).abs() <= 0.05 + ROUNDING),
        Class::T1 => Some(within(0.15)),
        Class::T2 if is_range && form == Form::Gain => Some((ours - nearest).abs() <= 10.0 + ROUNDING),
        Class::T2 => Some(within(0.3)),
        Class::T3 | Class::Shown => None,
    };
    Judgement { deviation, pass }
}

/// Whether a claim holds of values at named points; none where fewer points were simulated than it needs.
pub fn holds(claim: &Claim, form: Form, values: &[(&str, f64)], others: &[(&str, f64)]) -> Option<bool> {
    let is_meant = |name: &str| claim.at.is_empty() || claim.at.iter().any(|at| at == name);
    let meant: Vec<f64> = values.iter().filter(|(name, _)| is_meant(name)).map(|(_, value)| *value).collect();
    let pairs = || meant.windows(2).map(|pair| (pair[0], pair[1]));
    let bound = |name: &str| match claim.than {
        Some(_) => others.iter().find(|(other, _)| *other == name).map(|(_, value)| *value),
        None => claim.bound,
    };
    let compared = || values.iter().filter(|(name, _)| is_meant(name)).filter_map(|(name, v)| Some((*v, bound(name)?)));
    let slack = |value: f64| LEVEL * value.abs();
    match claim.must {
        Must::Rise => (meant.len() > 1).then(|| pairs().all(|(before, after)| after >= before - slack(before))),
        Must::Fall => (meant.len() > 1).then(|| pairs().all(|(before, after)| after <= before + slack(before))),
        Must::Peak => (meant.len() > 2).then(|| {
            let highest = meant.iter().copied().fold(f64::MIN, f64::max);
            meant.first().is_some_and(|first| *first < highest) && meant.last().is_some_and(|last| *last < highest)
        }),
        Must::Exceed => (compared().count() > 0).then(|| compared().all(|(value, bound)| value >= bound)),
        Must::Stay => (compared().count() > 0).then(|| compared().all(|(value, bound)| value <= bound)),
        Must::Level => match (&meant[..], claim.bound) {
            ([.., before, last], Some(bound)) => Some(*last <= before * bound),
            _ => None,
        },
        Must::Knee => knee(claim, values),
        Must::Mean | Must::Best => {
            let printed = claim.bound.map(Printed::Value);
            judge(claim.class, form, false, printed.as_ref(), summary(claim, values)?).pass
        }
    }
}

/// The value that a claim of a mean or of the best is about.
pub fn summary(claim: &Claim, values: &[(&str, f64)]) -> Option<f64> {
    let is_meant = |name: &str| claim.at.is_empty() || claim.at.iter().any(|at| at == name);
    let meant = values.iter().filter(|(name, _)| is_meant(name)).map(|(_, value)| *value);
    let count = meant.clone().count();
    match claim.must {
        Must::Mean if count > 0 => Some(meant.sum::<f64>() / count as f64),
        Must::Best if count > 0 => Some(meant.fold(f64::MIN, f64::max)),
        _ => None,
    }
}

fn knee(claim: &Claim, values: &[(&str, f64)]) -> Option<bool> {
    let place = values.iter().position(|(name, _)| claim.at.iter().any(|at| at == name))?;
    let bound = claim.bound?;
    let adds = |index: usize| Some(values.get(index + 1)?.1 / values[index].1 - 1.0);
    Some((0..place).all(|index| adds(index).is_some_and(|share| share >= bound)) && adds(place)? < bound)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pass(class: Class, form: Form, improved: bool, printed: Printed, ours: f64) -> Option<bool> {
        judge(class, form, improved, Some(&printed), ours).pass
    }

    #[test]
    fn primary_figures_pass_within_fifteen_percent() {
        let value = |ours| pass(Class::T1, Form::Value, false, Printed::Value(100.0), ours);
        assert_eq!([84.0, 85.0, 115.0, 116.0].map(value), [Some(false), Some(true), Some(true), Some(false)]);
    }

    #[test]
    fn gains_are_compared_as_ratios_and_small_ones_absolutely() {
        // +200 % is a ratio of 3, of which 15 % are 45 points.
        let large = |ours| pass(Class::T1, Form::Gain, false, Printed::Value(200.0), ours);
        assert_eq!([154.0, 156.0, 244.0, 246.0].map(large), [Some(false), Some(true), Some(true), Some(false)]);
        let small = |ours| pass(Class::T1, Form::Gain, false, Printed::Value(15.0), ours);
        assert_eq!([9.0, 11.0, 19.0, 21.0].map(small), [Some(false), Some(true), Some(true), Some(false)]);
        assert_eq!(pass(Class::T1, Form::Gain, true, Printed::Value(15.0), 90.0), Some(true), "better is no miss");
    }

    #[test]
    fn a_printed_range_has_ten_points_on_either_side() {
        let range = |ours| pass(Class::T2, Form::Gain, false, Printed::Range([20.0, 60.0]), ours);
        assert_eq!([9.0, 11.0, 40.0, 69.0, 71.0].map(range), [false, true, true, true, false].map(Some));
    }

    #[test]
    fn what_is_not_printed_is_not_judged() {
        let printed = Printed::Not("n.p.".into());
        assert_eq!(pass(Class::T1, Form::Gain, false, printed, 5.0), None);
        assert_eq!(pass(Class::T3, Form::Value, false, Printed::Value(5.0), 5.0), None);
        assert_eq!(pass(Class::T1, Form::Value, false, Printed::Value(0.0), 6.0), Some(false));
    }

    fn claim(must: Must, bound: Option<f64>, at: &[&str]) -> Claim {
        let at = at.iter().map(|name| name.to_string()).collect();
        Claim { text: String::new(), series: String::new(), must, bound, than: None, at, class: Class::T3 }
    }

    #[test]
    fn claims_are_of_the_points_they_name() {
        let values = [("a", 1.0), ("b", 3.0), ("c", 2.0)];
        let check = |must, bound, at: &[&str]| holds(&claim(must, bound, at), Form::Value, &values, &[]);
        assert_eq!(check(Must::Rise, None, &[]), Some(false));
        assert_eq!(check(Must::Rise, None, &["a", "b"]), Some(true));
        assert_eq!(check(Must::Fall, None, &["b", "c"]), Some(true));
        assert_eq!(check(Must::Peak, None, &[]), Some(true));
        assert_eq!(check(Must::Exceed, Some(1.5), &[]), Some(false));
        assert_eq!(check(Must::Stay, Some(3.0), &[]), Some(true));
        assert_eq!(check(Must::Rise, None, &["a"]), None, "one point has no direction");
    }

    #[test]
    fn a_mean_is_judged_as_a_value_of_the_claims_class() {
        let gains = [("9", 20.0), ("16", 31.0), ("25", 42.0)];
        let check =
            |class, bound| holds(&Claim { class, ..claim(Must::Mean, Some(bound), &[]) }, Form::Gain, &gains, &[]);
        assert_eq!([31.0, 40.0, 60.0].map(|bound| check(Class::T1, bound)), [true, true, false].map(Some));
        assert_eq!([60.0, 100.0].map(|bound| check(Class::T2, bound)), [true, false].map(Some));
    }

    #[test]
    fn beyond_the_knee_and_not_before_little_is_added() {
        let values = [("1", 40.0), ("2", 52.0), ("4", 60.0), ("8", 64.0)];
        let check = |at| holds(&claim(Must::Knee, Some(0.1), &[at]), Form::Value, &values, &[]);
        assert_eq!(["2", "4", "8"].map(check), [Some(false), Some(true), Some(false)]);
        let rising = [("1", 10.0), ("2", 20.0)];
        assert_eq!(
            holds(&claim(Must::Knee, Some(0.1), &["2"]), Form::Value, &rising, &[]),
            None,
            "nobody knows what comes next"
        );
    }
}

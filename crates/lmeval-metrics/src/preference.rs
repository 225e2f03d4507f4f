//! Win rates of pairwise comparisons.

use lmeval_pycompat::float::sum;

use crate::number::square;
use crate::stderr::mean_stderr;

/// The 97.5 % quantile of the standard normal distribution.
const Z: f64 = 1.959_963_984_540_054;

/// A win rate with its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Preference {
    /// The mean outcome: a tie counts as half a win. NaN without outcomes.
    pub rate: f64,
    /// The standard error of the rate. NaN with fewer than two outcomes.
    pub stderr: f64,
    /// The lower bound of the interval.
    pub low: f64,
    /// The upper bound of the interval.
    pub high: f64,
    /// Outcomes above one half.
    pub wins: u64,
    /// Outcomes of exactly one half.
    pub ties: u64,
    /// Outcomes below one half.
    pub losses: u64,
}

/// The win rate of outcomes: 1 for a win, 0.5 for a tie, 0 for a loss, or the mean of several verdicts. NaN is skipped.
///
/// The interval is Wilson's score interval at the rate, which stays within 0 and 1 and has a width when every
/// comparison is won. It takes each outcome for a win or a loss; ties vary less, so with ties it is wider than needed.
///
/// ```
/// use lmeval_metrics::preference::win_rate;
///
/// let preference = win_rate(&[1.0, 1.0, 0.5, 0.0]);
/// assert_eq!((preference.rate, preference.wins, preference.ties, preference.losses), (0.625, 2, 1, 1));
/// assert!(preference.low < 0.3 && preference.high > 0.9);
/// ```
pub fn win_rate(outcomes: &[f64]) -> Preference {
    let outcomes: Vec<f64> = outcomes.iter().copied().filter(|outcome| !outcome.is_nan()).collect();
    let count = outcomes.len() as f64;
    let rate = sum(outcomes.iter().copied()) / count;
    let number = |holds: fn(&f64) -> bool| outcomes.iter().filter(|outcome| holds(outcome)).count() as u64;
    let wins = number(|outcome| *outcome > 0.5);
    let losses = number(|outcome| *outcome < 0.5);
    let (low, high) = if outcomes.is_empty() { (0.0, 1.0) } else { wilson(rate, count) };
    Preference {
        rate,
        stderr: mean_stderr(&outcomes).unwrap_or(f64::NAN),
        low,
        high,
        wins,
        ties: outcomes.len() as u64 - wins - losses,
        losses,
    }
}

/// Wilson's 95 % score interval of the share `rate` of `count` documents: it stays within 0 and 1, and has a width even if
/// `rate` is 0 or 1.
pub fn wilson(rate: f64, count: f64) -> (f64, f64) {
    let k = square(Z) / count;
    let centre = (rate + 0.5 * k) / (1.0 + k);
    let reach = (k * (rate * (1.0 - rate)).max(0.0) + 0.25 * square(k)).sqrt() / (1.0 + k);
    // Exact at the ends, where rounding would leave a gap.
    let low = if rate == 0.0 { 0.0 } else { (centre - reach).max(0.0) };
    let high = if rate == 1.0 { 1.0 } else { (centre + reach).min(1.0) };
    (low, high)
}

/// The win rate that would be expected if both answers had the same length, after the idea of AlpacaEval 2.
///
/// `length_difference` is the length of the model's answer minus that of the baseline's, document by document. With
/// `s` the standard deviation of the differences, the logistic regression
///
/// ```text
/// P(win) = σ(a + b · tanh(difference / s))
/// ```
///
/// is fitted to the outcomes by maximum likelihood (a tie is half a win and half a loss), and the result is `σ(a)`,
/// its value at a difference of zero. The differences are not centred, so that zero keeps its meaning; `tanh` limits
/// the influence of a few very long answers. Unlike AlpacaEval 2 there is no term for the difficulty of an
/// instruction and no penalty on the coefficients.
///
/// If all differences are zero the result is the plain win rate. `None` if the effect of length cannot be told from
/// that of the model: the differences are all the same but not zero, wins and losses are separated by length, or all
/// outcomes are wins or all are losses. Pairs with a NaN are skipped; an infinite difference counts as NaN.
pub fn length_controlled(outcomes: &[f64], length_difference: &[f64]) -> Option<f64> {
    let pairs: Vec<(f64, f64)> = outcomes
        .iter()
        .copied()
        .zip(length_difference.iter().copied())
        .filter(|(outcome, difference)| !outcome.is_nan() && difference.is_finite())
        .map(|(outcome, difference)| (outcome.clamp(0.0, 1.0), difference))
        .collect();
    let count = pairs.len() as f64;
    if pairs.is_empty() {
        return None;
    }
    if pairs.iter().all(|(_, difference)| *difference == 0.0) {
        return Some(sum(pairs.iter().map(|(outcome, _)| *outcome)) / count);
    }
    let mean = sum(pairs.iter().map(|(_, difference)| *difference)) / count;
    let deviation = (sum(pairs.iter().map(|(_, difference)| square(difference - mean))) / count).sqrt();
    if deviation == 0.0 || !deviation.is_finite() {
        return None;
    }
    let points: Vec<(f64, f64)> =
        pairs.iter().map(|(outcome, difference)| (*outcome, (difference / deviation).tanh())).collect();
    (!is_separated(&points)).then(|| intercept(&points))?.map(sigmoid)
}

/// Whether the likelihood has no finite maximum: a threshold on `x` has all wins on one side and all losses on the other.
fn is_separated(points: &[(f64, f64)]) -> bool {
    let range = |share: fn(f64) -> f64| {
        let of_kind = points.iter().filter(move |(outcome, _)| share(*outcome) > 0.0).map(|(_, x)| *x);
        of_kind.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)))
    };
    let (win_low, win_high) = range(|outcome| outcome);
    let (loss_low, loss_high) = range(|outcome| 1.0 - outcome);
    loss_high <= win_low || win_high <= loss_low
}

/// The intercept of the fitted regression, by Newton's method with step halving; the likelihood is concave.
fn intercept(points: &[(f64, f64)]) -> Option<f64> {
    let (mut a, mut b) = (0.0, 0.0);
    let mut likelihood = log_likelihood(points, a, b);
    for _ in 0..200 {
        let residual = |(outcome, x): &(f64, f64)| outcome - sigmoid(a + b * x);
        let weight = |(_, x): &(f64, f64)| {
            let p = sigmoid(a + b * x);
            p * (1.0 - p)
        };
        let g0 = sum(points.iter().map(residual));
        let g1 = sum(points.iter().map(|point| residual(point) * point.1));
        let h00 = sum(points.iter().map(weight));
        let h01 = sum(points.iter().map(|point| weight(point) * point.1));
        let h11 = sum(points.iter().map(|point| weight(point) * square(point.1)));
        let determinant = h00 * h11 - square(h01);
        if determinant <= 0.0 || !determinant.is_finite() {
            return None;
        }
        let (mut step_a, mut step_b) =
            ((h11 * g0 - h01 * g1) / determinant, (h00 * g1 - h01 * g0) / determinant);
        let is_small = |step: f64, at: f64| step.abs() <= 1e-12 * (1.0 + at.abs());
        loop {
            let next = log_likelihood(points, a + step_a, b + step_b);
            if next >= likelihood {
                (a, b, likelihood) = (a + step_a, b + step_b, next);
                break;
            }
            if is_small(step_a, a) && is_small(step_b, b) {
                return Some(a);
            }
            (step_a, step_b) = (0.5 * step_a, 0.5 * step_b);
        }
        if is_small(step_a, a) && is_small(step_b, b) {
            return Some(a);
        }
    }
    None
}

fn log_likelihood(points: &[(f64, f64)], a: f64, b: f64) -> f64 {
    // ln σ(t) = −ln(1 + e^−t), without overflow for a large negative t.
    let log_sigmoid = |t: f64| if t < 0.0 { t - t.exp().ln_1p() } else { -(-t).exp().ln_1p() };
    sum(points.iter().map(|(outcome, x)| {
        let t = a + b * x;
        outcome * log_sigmoid(t) + (1.0 - outcome) * log_sigmoid(-t)
    }))
}

fn sigmoid(t: f64) -> f64 {
    1.0 / (1.0 + (-t).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wilson_has_a_width_at_the_ends() {
        let all = win_rate(&[1.0; 10]);
        assert_eq!((all.rate, all.stderr, all.high), (1.0, 0.0, 1.0));
        // z²/(n + z²) below one.
        assert!((all.low - 10.0 / (10.0 + Z * Z)).abs() < 1e-12, "{all:?}");
        let none = win_rate(&[]);
        assert!(none.rate.is_nan() && none.stderr.is_nan());
        assert_eq!((none.low, none.high, none.wins, none.ties, none.losses), (0.0, 1.0, 0, 0, 0));
        let one = win_rate(&[0.5, f64::NAN]);
        assert!(one.stderr.is_nan());
        assert_eq!((one.rate, one.wins, one.ties, one.losses), (0.5, 0, 1, 0));
        assert!(one.low >= 0.0 && one.high <= 1.0);
        // The mean of a jury's verdicts is a win or a loss by its majority.
        let jury = win_rate(&[2.0 / 3.0, 1.0 / 3.0, 0.5]);
        assert_eq!((jury.wins, jury.ties, jury.losses), (1, 1, 1));
    }

    #[test]
    fn length_has_no_effect_if_it_does_not_vary() {
        assert_eq!(length_controlled(&[1.0, 0.0, 1.0, 0.5], &[0.0; 4]), Some(0.625));
        assert_eq!(length_controlled(&[1.0, 0.0], &[7.0, 7.0]), None);
        assert_eq!(length_controlled(&[], &[]), None);
        assert_eq!(length_controlled(&[f64::NAN], &[1.0]), None);
    }

    #[test]
    fn separated_outcomes_have_no_estimate() {
        assert_eq!(length_controlled(&[1.0, 1.0, 0.0], &[5.0, 1.0, -3.0]), None);
        assert_eq!(length_controlled(&[1.0, 1.0, 0.0, 0.0], &[5.0, 1.0, 1.0, -3.0]), None);
        assert_eq!(length_controlled(&[1.0; 3], &[5.0, 1.0, -3.0]), None);
        assert_eq!(length_controlled(&[0.0; 3], &[5.0, 1.0, -3.0]), None);
        assert!(length_controlled(&[1.0, 0.0, 1.0, 0.0], &[5.0, 1.0, -3.0, 2.0]).is_some());
    }

    #[test]
    fn a_symmetric_length_effect_is_removed() {
        // Longer answers win three of four times whoever wrote them, and this model's are mostly the longer ones.
        let mut outcomes = Vec::new();
        let mut differences = Vec::new();
        for (difference, wins, losses) in [(100.0, 60, 20), (-100.0, 5, 15)] {
            outcomes.extend([1.0].repeat(wins).into_iter().chain([0.0].repeat(losses)));
            differences.extend([difference].repeat(wins + losses));
        }
        assert_eq!(win_rate(&outcomes).rate, 0.65);
        let controlled = length_controlled(&outcomes, &differences).unwrap();
        assert!((controlled - 0.5).abs() < 1e-12, "{controlled}");
    }

    #[test]
    fn outliers_do_not_stop_the_fit() {
        let outcomes = [1.0, 0.0, 1.0, 0.0, 0.5, 1.0];
        let controlled = length_controlled(&outcomes, &[1e12, 1.0, -2.0, 3.0, -1.0, 2.0]);
        assert!(controlled.is_some_and(|rate| (0.0..=1.0).contains(&rate)), "{controlled:?}");
        assert!(length_controlled(&outcomes, &[f64::INFINITY, 1.0, -2.0, 3.0, -1.0, 2.0]).is_some());
    }
}

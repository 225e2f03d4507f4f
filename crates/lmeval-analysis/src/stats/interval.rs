//! Confidence intervals of a mean and of a paired difference.

use lmeval_metrics::preference::wilson;
use lmeval_pycompat::Value;

use super::special::{normal_quantile, student_quantile};

/// A confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The lower bound.
    pub low: f64,
    /// The upper bound.
    pub high: f64,
}

impl Interval {
    /// The interval of a list of two numbers.
    pub fn from_value(value: &Value) -> Option<Self> {
        match value.as_list()? {
            [low, high] => Some(Self { low: low.to_f64()?, high: high.to_f64()? }),
            _ => None,
        }
    }
}

/// The 95 % interval of the mean of `count` values; `None` without a finite standard error.
///
/// A mean of 0/1 values is recognised by its standard error and gets Wilson's interval, which is non-degenerate even if
/// all values are equal. Without a count the mean is not taken for one of such values.
pub fn mean_interval(mean: f64, stderr: Option<f64>, count: Option<f64>) -> Option<Interval> {
    if let Some(count) = count.filter(|count| *count > 1.0)
        && (0.0..=1.0).contains(&mean)
        && stderr.is_some_and(|stderr| {
            let binary = (mean * (1.0 - mean) / (count - 1.0)).sqrt();
            (stderr - binary).abs() <= 1e-9 + 1e-6 * binary
        })
    {
        let (low, high) = wilson(mean, count);
        return Some(Interval { low, high });
    }
    let reach = normal_quantile(0.975) * stderr.filter(|stderr| stderr.is_finite())?;
    Some(Interval { low: mean - reach, high: mean + reach })
}

/// The interval `mean ± t·stderr` with Student's t of `freedom` degrees.
pub fn student(mean: f64, stderr: f64, freedom: f64, confidence: f64) -> Interval {
    let reach = stderr * student_quantile(0.5 + 0.5 * confidence, freedom);
    Interval { low: mean - reach, high: mean + reach }
}

/// The score interval of Tango (1998) for the difference of two paired proportions.
///
/// `won` of `count` documents are right only in the new run, `lost` only in the base run. The bounds are the
/// differences Δ at which `(won − lost − nΔ) / √(n(2q + Δ(1−Δ)))` equals ±z, where `q` is the most likely share of
/// `lost` under Δ. Unlike `mean ± z·stderr` it covers what it promises for few discordant documents, and has a width
/// when there are none.
pub fn paired_proportions(won: u64, lost: u64, count: u64, confidence: f64) -> Interval {
    if count == 0 {
        return Interval { low: f64::NAN, high: f64::NAN };
    }
    let z = normal_quantile(0.5 + 0.5 * confidence);
    let score = |delta: f64| tango_score(won as f64, lost as f64, count as f64, delta);
    let estimate = (won as f64 - lost as f64) / count as f64;
    // The score falls as Δ grows: it is 0 at the estimate, positive below and negative above.
    let low = bisect(-1.0, estimate, |delta| score(delta) > z);
    let high = bisect(estimate, 1.0, |delta| score(delta) > -z);
    Interval { low, high }
}

fn tango_score(won: f64, lost: f64, count: f64, delta: f64) -> f64 {
    let a = 2.0 * count;
    let b = -won - lost + (2.0 * count - won + lost) * delta;
    let c = -lost * delta * (1.0 - delta);
    let share = ((b * b - 4.0 * a * c).max(0.0).sqrt() - b) / (2.0 * a);
    let variance = count * (2.0 * share + delta * (1.0 - delta));
    let difference = won - lost - count * delta;
    if variance > 0.0 {
        difference / variance.sqrt()
    } else if difference == 0.0 {
        0.0
    } else {
        difference.signum() * f64::INFINITY
    }
}

/// The point in `[low, high]` up to which `holds` is true.
fn bisect(mut low: f64, mut high: f64, holds: impl Fn(f64) -> bool) -> f64 {
    loop {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high || high - low < 1e-15 {
            return middle;
        }
        if holds(middle) { low = middle } else { high = middle }
    }
}

//! Differences of scores that share no documents, or of which only the scores are known.

use super::interval::Interval;
use super::special::normal_quantile;

/// A score with its sampling error, as far as it is published.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampled {
    /// The score itself.
    pub value: f64,
    /// Its standard error.
    pub stderr: Option<f64>,
    /// The number of documents.
    pub documents: Option<f64>,
}

impl Sampled {
    /// The standard error; that of a share of documents if none is given.
    pub fn error(&self) -> Option<f64> {
        self.stderr.or_else(|| self.share().map(|count| (self.value * (1.0 - self.value) / count).sqrt()))
    }

    /// The number of documents, if the score can be a share of them.
    fn share(&self) -> Option<f64> {
        self.documents.filter(|count| *count > 1.0 && (0.0..=1.0).contains(&self.value))
    }

    /// Whether the score is a share of its documents: then its standard error follows from it.
    fn is_share(&self) -> bool {
        let Some(count) = self.share() else { return false };
        self.stderr.is_none_or(|stderr| {
            let binary = (self.value * (1.0 - self.value) / (count - 1.0)).sqrt();
            // Published standard errors are rounded.
            (stderr - binary).abs() <= 1e-9 + 0.01 * binary
        })
    }

    /// The interval of the score: Wilson's for a share of documents, which has a width even at 0 and 1, else the normal one. `None`
    /// if nothing is known of the sampling error.
    pub fn interval(&self, confidence: f64) -> Option<Interval> {
        let z = normal_quantile(0.5 + 0.5 * confidence);
        if let Some(count) = self.share().filter(|_| self.is_share()) {
            return Some(wilson(self.value, count, z));
        }
        let reach = z * self.stderr.filter(|stderr| stderr.is_finite())?;
        Some(Interval { low: self.value - reach, high: self.value + reach })
    }
}

/// Wilson's score interval of a share.
fn wilson(rate: f64, count: f64, z: f64) -> Interval {
    let k = z * z / count;
    let centre = (rate + 0.5 * k) / (1.0 + k);
    let reach = (k * rate * (1.0 - rate) + 0.25 * k * k).sqrt() / (1.0 + k);
    Interval { low: (centre - reach).max(0.0), high: (centre + reach).min(1.0) }
}

/// The interval of `new − base` for two independent scores, from the intervals of both (Newcombe 1998; Zou and Donner 2008): each
/// bound lies as far from the difference as the root of the squared distances of the bounds that it comes from.
pub fn independent_difference(base: &Sampled, new: &Sampled, confidence: f64) -> Option<Interval> {
    let (from, to) = (base.interval(confidence)?, new.interval(confidence)?);
    let difference = new.value - base.value;
    Some(Interval {
        low: difference - (new.value - to.low).hypot(from.high - base.value),
        high: difference + (to.high - new.value).hypot(base.value - from.low),
    })
}

/// The interval of `Σ weight·difference` for independent differences with their intervals, by the same method.
pub fn weighted_sum(parts: &[(f64, f64, Interval)]) -> (f64, Interval) {
    let sum: f64 = parts.iter().map(|(weight, difference, _)| weight * difference).sum();
    let reach = |arm: fn(f64, Interval) -> f64| {
        let squares =
            parts.iter().map(|(weight, difference, interval)| (weight * arm(*difference, *interval)).powi(2));
        squares.sum::<f64>().sqrt()
    };
    let low = reach(|difference, interval| difference - interval.low);
    let high = reach(|difference, interval| interval.high - difference);
    (sum, Interval { low: sum - low, high: sum + high })
}

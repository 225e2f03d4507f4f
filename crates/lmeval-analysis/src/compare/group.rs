//! Differences of a group's aggregate.

use rustc_hash::FxHashMap;

use super::difference::{Difference, Precision, Test};
use crate::read::DocKey;
use crate::stats::{Interval, student, student_cdf};

/// One task of a group: the documents that both runs share, and their values.
#[derive(Clone, Debug)]
pub struct GroupPart {
    /// Documents.
    pub keys: Vec<DocKey>,
    /// Their values in the base run.
    pub base: Vec<f64>,
    /// Their values in the new run.
    pub new: Vec<f64>,
}

/// Compares the mean over the tasks of a group, weighted by their sizes or equally.
///
/// A document that occurs in several tasks, for example under several prompts, is not independent evidence each time.
/// Its residuals are added over the tasks before they are squared: `√(N/(N−1)·Σ_d (Σ_t w_t·(x_td − μ_t)/n_t)²)` for `N`
/// different documents.
pub fn group_difference(parts: &[GroupPart], by_size: bool, precision: &Precision) -> Difference {
    let sizes: Vec<f64> = parts.iter().map(|part| part.base.len() as f64).collect();
    let weights: Vec<f64> = sizes.iter().map(|size| if by_size { *size } else { 1.0 }).collect();
    let total: f64 = weights.iter().sum();
    let mut residuals: FxHashMap<DocKey, f64> = FxHashMap::default();
    let (mut base, mut new, mut up, mut down, mut count) = (0.0, 0.0, 0, 0, 0);
    for ((part, size), weight) in parts.iter().zip(&sizes).zip(&weights) {
        let weight = weight / total;
        let base_mean = part.base.iter().sum::<f64>() / size;
        let new_mean = part.new.iter().sum::<f64>() / size;
        base += weight * base_mean;
        new += weight * new_mean;
        count += part.base.len();
        for ((key, base), new) in part.keys.iter().zip(&part.base).zip(&part.new) {
            let difference = new - base;
            up += usize::from(difference > 0.0);
            down += usize::from(difference < 0.0);
            *residuals.entry(*key).or_default() += weight * (difference - (new_mean - base_mean)) / size;
        }
    }
    let documents = residuals.len() as f64;
    let squares: f64 = residuals.values().map(|residual| residual * residual).sum();
    let stderr = (documents / (documents - 1.0) * squares).sqrt();
    let difference = new - base;
    let freedom = documents - 1.0;
    let p_value =
        if difference == 0.0 { 1.0 } else { 2.0 * student_cdf(-(difference / stderr).abs(), freedom) };
    let interval = if stderr.is_finite() {
        student(difference, stderr, freedom, precision.confidence)
    } else {
        Interval { low: f64::NAN, high: f64::NAN }
    };
    Difference {
        base,
        new,
        difference,
        stderr,
        interval,
        p_value,
        test: Test::Student,
        count,
        up,
        down,
        clusters: None,
        detectable: f64::NAN,
        needed: None,
    }
    .with_power(precision)
}

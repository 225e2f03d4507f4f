//! Standard errors of aggregates and groups.

use lmeval_pycompat::Value;
use lmeval_pycompat::draws::Draws;
use lmeval_pycompat::float::sum;
use rayon::prelude::*;

use crate::aggregation::{AnyAggregation, LANES, Resample, quotient};
use crate::error::MetricError;
use crate::number::square;

/// A standard error, if available.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StandardError {
    /// The computed value.
    Known(f64),
    /// Not available: resampling is off, or there are fewer than two values.
    NotAvailable,
}

impl StandardError {
    /// The value in result files: a number or `"N/A"`.
    pub fn to_value(self) -> Value {
        match self {
            Self::Known(error) => Value::Float(error),
            Self::NotAvailable => Value::str("N/A"),
        }
    }
}

/// The number of resamples per chunk; each chunk has its own generator.
const CHUNK: usize = 1000;

/// The minimum number of squares per parallel job.
const SQUARES: usize = 8192;

/// The number of indices drawn before they are scored.
const BATCH_DRAWS: usize = 8192;

/// The standard error of an aggregate: closed form for the mean, bootstrap for everything else.
///
/// Not available if `bootstrap_iters` is zero or negative, or with fewer than two values.
pub fn stderr_for_metric(
    aggregation: &dyn AnyAggregation,
    values: &[Value],
    bootstrap_iters: i64,
) -> Result<StandardError, MetricError> {
    if bootstrap_iters <= 0 || values.len() < 2 {
        return Ok(StandardError::NotAvailable);
    }
    let error = if aggregation.is_mean() {
        let numbers: Option<Vec<f64>> = values.iter().map(Value::to_f64).collect();
        mean_stderr(&numbers.ok_or_else(|| not_numbers(values))?)?
    } else {
        bootstrap_stderr(&*aggregation.prepare(values)?, values.len(), bootstrap_iters as usize)?
    };
    Ok(StandardError::Known(error))
}

fn not_numbers(values: &[Value]) -> MetricError {
    let strange = values.iter().find(|value| value.to_f64().is_none());
    MetricError::wrong_value("a number", strange.unwrap_or(&Value::None))
}

/// The standard error of the mean: `√(Σ(x−μ)² / (n−1)) / √n`.
///
/// ```
/// assert_eq!(lmeval_metrics::mean_stderr(&[1.0, 0.0, 1.0, 1.0]), Ok(0.25));
/// ```
pub fn mean_stderr(numbers: &[f64]) -> Result<f64, MetricError> {
    Ok(sample_stddev(numbers)? / (numbers.len() as f64).sqrt())
}

/// How a bootstrap with `iterations` resamples is split: the number of generators, seeded from 0, and the resamples
/// of each.
///
/// Resamples that do not fill a generator's share are not drawn.
pub fn bootstrap_plan(iterations: usize) -> (usize, usize) {
    let chunk = iterations.min(CHUNK);
    (iterations.checked_div(chunk).unwrap_or(0), chunk)
}

/// The sample standard deviation: `√(Σ(x−μ)² / (n−1))`. Over the scores of resamples it is the standard error.
pub fn sample_stddev(numbers: &[f64]) -> Result<f64, MetricError> {
    let count = numbers.len() as f64;
    let mean = quotient(sum(numbers.iter().copied()), count, "the number of values")?;
    // A square takes 11 ns, so squaring 100,000 numbers costs as much as 600 resamples; small inputs are not worth a
    // thread.
    let squares: Vec<f64> =
        numbers.par_iter().with_min_len(SQUARES).map(|number| square(number - mean)).collect();
    Ok(quotient(sum(squares), count - 1.0, "the number of values minus one")?.sqrt())
}

/// The standard deviation of the scores of resamples with replacement.
///
/// Resamples are drawn in chunks of 1,000 (or in one chunk, if there are fewer; a remainder is not drawn), each by
/// Python's generator seeded with the index of the chunk. Chunks run in parallel, which does not affect the result.
pub fn bootstrap_stderr(
    prepared: &dyn Resample,
    count: usize,
    iterations: usize,
) -> Result<f64, MetricError> {
    let chunk = iterations.min(CHUNK);
    if chunk == 0 || count == 0 {
        return Err(MetricError::NoValues);
    }
    if !Draws::COUNTS.contains(&count) {
        return Err(MetricError::TooManyValues { count });
    }
    let scores: Vec<Vec<f64>> = (0..(iterations / chunk) as u32)
        .into_par_iter()
        .map(|number| draw_chunk(prepared, count, chunk, number))
        .collect::<Result<_, _>>()?;
    sample_stddev(&scores.concat())
}

fn draw_chunk(
    prepared: &dyn Resample,
    count: usize,
    chunk: usize,
    seed: u32,
) -> Result<Vec<f64>, MetricError> {
    let mut draws = Draws::new(seed, count);
    // Resamples are summed side by side in groups; more groups at a time would not fit the cache.
    let batch = (BATCH_DRAWS / (LANES * count)).max(1) * LANES;
    let mut positions = vec![0; batch.min(chunk) * count];
    let mut scores = Vec::with_capacity(chunk);
    while scores.len() < chunk {
        let now = &mut positions[..(chunk - scores.len()).min(batch) * count];
        draws.fill(now);
        prepared.score_all(now, count, &mut scores)?;
    }
    Ok(scores)
}

/// The mean over the parts of a group: `Σ m·s / Σ s`, with every size set to 1 unless weighted.
pub fn weighted_mean(means: &[f64], sizes: &[u64], weight_by_size: bool) -> Result<f64, MetricError> {
    let weight = |size: &u64| if weight_by_size { *size as f64 } else { 1.0 };
    let total = sum(means.iter().zip(sizes).map(|(mean, size)| mean * weight(size)));
    quotient(total, sum(sizes.iter().map(weight)), "the total size")
}

/// The standard error of a group from those of its parts: `√(Σ (s−1)·e²·s / (Σs − k) / Σs)` for k parts.
pub fn pooled_stderr(errors: &[f64], sizes: &[u64]) -> Result<f64, MetricError> {
    let total = sizes.iter().sum::<u64>() as f64;
    let parts =
        errors.iter().zip(sizes).map(|(error, size)| (*size as f64 - 1.0) * square(*error) * *size as f64);
    let pooled = quotient(sum(parts), total - sizes.len() as f64, "the size of the group minus its parts")?;
    Ok(quotient(pooled, total, "the size of the group")?.sqrt())
}

/// The standard error of an unweighted mean of parts, as in the 0.4 line: `√(Σe²) / k`.
pub fn combined_stderr_unweighted(errors: &[f64]) -> Result<f64, MetricError> {
    let squares = sum(errors.iter().map(|error| square(*error)));
    quotient(squares.sqrt(), errors.len() as f64, "the number of parts")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregation::{Aggregation, BitsPerByte, Mean, Median, Perplexity};
    use crate::item::Weighted;
    use crate::number::Number;
    use crate::registry::aggregation;

    fn numbers(values: &[f64]) -> Vec<Number> {
        values.iter().copied().map(Number::Float).collect()
    }

    #[test]
    fn resampling_matches_the_reference() {
        let values = numbers(&[1.0, 2.0, 3.0, 4.0, 5.0]);
        let median = Median.prepare(&values).unwrap();
        for (iterations, expected) in
            [(500, 1.0003526432322016), (1000, 0.9843947546757014), (2500, 1.0030264358507728)]
        {
            assert_eq!(bootstrap_stderr(&*median, 5, iterations), Ok(expected));
        }
        let mean = Mean.prepare(&values).unwrap();
        assert_eq!(bootstrap_stderr(&*mean, 5, 100_000), Ok(0.6343405399902883));
        let perplexity = Perplexity.prepare(&numbers(&[-1.0, -2.0, -0.5])).unwrap();
        assert_eq!(bootstrap_stderr(&*perplexity, 3, 1000), Ok(1.3728669400528377));
        let pairs = [(-10.0, 5), (-20.0, 3), (-7.0, 9)]
            .map(|(total, weight)| Weighted { total, weight: Number::Int(weight) });
        let bits = BitsPerByte.prepare(&pairs).unwrap();
        assert_eq!(bootstrap_stderr(&*bits, 3, 1000), Ok(2.0339959320897565));
    }

    #[test]
    fn not_available_without_resamples_or_values() {
        let mean = aggregation("mean").unwrap();
        let error = |values: &[Value], iterations| stderr_for_metric(&*mean, values, iterations).unwrap();
        let two = [Value::Int(0), Value::Int(1)];
        assert_eq!(error(&two, 100_000), StandardError::Known(0.5));
        assert_eq!(error(&two, 0), StandardError::NotAvailable);
        assert_eq!(error(&two, -1), StandardError::NotAvailable);
        assert_eq!(error(&two[..1], 10), StandardError::NotAvailable);
        assert_eq!(error(&[], 10), StandardError::NotAvailable);
        assert_eq!(StandardError::NotAvailable.to_value(), Value::str("N/A"));
        let bypass = aggregation("bypass").unwrap();
        assert_eq!(stderr_for_metric(&*bypass, &two, 100).unwrap(), StandardError::Known(0.0));
        assert!(stderr_for_metric(&*mean, &[Value::None, Value::None], 10).is_err());
        let perplexity = aggregation("perplexity").unwrap();
        let far = [Value::Float(-1000.0), Value::Float(-1000.0)];
        assert!(stderr_for_metric(&*perplexity, &far, 10).is_err());
        // A single resample has no deviation.
        assert!(stderr_for_metric(&*perplexity, &two, 1).is_err());
        let holes = [Value::Float(f64::NAN), Value::Int(1)];
        assert!(matches!(error(&holes, 10), StandardError::Known(known) if known.is_nan()));
    }

    #[test]
    fn pools_groups() {
        assert_eq!(pooled_stderr(&[0.1, 0.2], &[10, 20]), Ok(0.13844373104863458));
        assert_eq!(pooled_stderr(&[0.05, 0.03], &[10, 30]), Ok(0.025751852258368565));
        assert!(pooled_stderr(&[0.1], &[1]).is_err());
        assert!(pooled_stderr(&[], &[]).is_err());
        assert_eq!(weighted_mean(&[0.5, 0.8], &[10, 30], true), Ok(0.725));
        assert_eq!(weighted_mean(&[0.5, 0.8], &[10, 30], false), Ok(0.65));
        assert_eq!(combined_stderr_unweighted(&[0.1, 0.2]), Ok(0.1118033988749895));
    }
}

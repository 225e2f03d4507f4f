//! Distributions of a task's scores and lengths.

use lmeval_analysis::samples::Outcome;

use crate::api::{Histogram, MetricStats, TaskStats};
use crate::index::{FileIndex, State};
use crate::scan::FLAGS;
use crate::wire::Num;

/// Bins of a histogram.
const BINS: usize = 30;

/// The distributions of one filter pipeline.
pub(crate) fn describe(state: &State, filter: usize) -> TaskStats {
    let columns = &state.columns;
    let rows: Vec<usize> =
        (0..columns.len()).filter(|row| usize::from(columns.filters[*row]) == filter).collect();
    let metrics: Vec<MetricStats> = columns
        .filter_metrics
        .get(filter)
        .into_iter()
        .flatten()
        .filter_map(|metric| {
            let (name, values) = &columns.metrics[*metric];
            let numbers: Vec<f64> =
                rows.iter().map(|row| values[*row]).filter(|value| !value.is_nan()).collect();
            // A metric of strings, such as the pairs that BLEU aggregates, has no distribution.
            if numbers.is_empty() {
                return None;
            }
            let mean = numbers.iter().sum::<f64>() / numbers.len() as f64;
            Some(MetricStats {
                metric: name.clone(),
                histogram: histogram(&numbers),
                mean: Num(mean),
                missing: rows.len() - numbers.len(),
            })
        })
        .collect();
    let lengths =
        |column: &[u32]| histogram(&rows.iter().map(|row| f64::from(column[*row])).collect::<Vec<f64>>());
    let count = |holds: &dyn Fn(usize) -> bool| rows.iter().filter(|row| holds(**row)).count();
    let outcomes =
        Outcome::ALL.map(|outcome| (outcome.name(), count(&|row| columns.outcomes[row] == outcome)));
    let flags = FLAGS.map(|(name, flag)| (name, count(&|row| columns.flags[row] & flag != 0)));
    TaskStats {
        index: FileIndex::progress(state),
        filters: columns.filter_names.clone(),
        filter: columns.filter_names.get(filter).cloned(),
        metrics,
        prompt_length: lengths(&columns.prompts),
        answer_length: lengths(&columns.answers),
        outcomes: outcomes.into_iter().collect(),
        flags: flags.into_iter().filter(|(_, count)| *count > 0).collect(),
        fields: columns.fields.clone(),
    }
}

/// Equal bins over the range of the finite values. Integers that are few get a bin each.
fn histogram(values: &[f64]) -> Histogram {
    let finite = || values.iter().copied().filter(|value| value.is_finite());
    let (low, high) = (finite().fold(f64::INFINITY, f64::min), finite().fold(f64::NEG_INFINITY, f64::max));
    if low > high {
        return Histogram::default();
    }
    let is_whole = finite().all(|value| value.fract() == 0.0);
    let (start, width, bins) = if low == high {
        (low, if low == 0.0 { 1.0 } else { low.abs() }, 1)
    } else if is_whole && high - low < BINS as f64 {
        (low, 1.0, (high - low) as usize + 1)
    } else {
        (low, (high - low) / BINS as f64, BINS)
    };
    let mut counts = vec![0u64; bins];
    for value in finite() {
        counts[(((value - start) / width) as usize).min(bins - 1)] += 1;
    }
    Histogram { edges: (0..=bins).map(|edge| start + width * edge as f64).collect(), counts }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_cover_all_finite_values() {
        let found = histogram(&[0.0, 1.0, 1.0]);
        assert_eq!(found, Histogram { edges: vec![0.0, 1.0, 2.0], counts: vec![1, 2] });
        assert_eq!(histogram(&[f64::NAN, f64::INFINITY]), Histogram::default());
        assert_eq!(histogram(&[0.5, 0.5]).counts, [2]);
        let many: Vec<f64> = (0..1000).map(f64::from).collect();
        assert_eq!(histogram(&many).counts.iter().sum::<u64>(), 1000);
    }
}

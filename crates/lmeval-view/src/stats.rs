//! Distributions of a task's scores and lengths.

use lmeval_analysis::samples::Outcome;
use serde_json::{Map, Value as Json, json};

use crate::index::{FileIndex, State};
use crate::scan::FLAGS;
use crate::wire;

/// Bins of a histogram.
const BINS: usize = 30;

/// `TaskStats` of the interface, for one filter pipeline.
pub(crate) fn describe(state: &State, filter: usize) -> Json {
    let columns = &state.columns;
    let rows: Vec<usize> =
        (0..columns.len()).filter(|row| usize::from(columns.filters[*row]) == filter).collect();
    let metrics: Vec<Json> = columns
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
            Some(json!({
                "metric": name,
                "histogram": histogram(&numbers),
                "mean": wire::number(mean),
                "missing": rows.len() - numbers.len(),
            }))
        })
        .collect();
    let lengths = |column: &[u32]| -> Json {
        histogram(&rows.iter().map(|row| f64::from(column[*row])).collect::<Vec<f64>>())
    };
    let outcomes: Map<String, Json> = Outcome::ALL
        .into_iter()
        .map(|outcome| {
            let count = rows.iter().filter(|row| columns.outcomes[**row] == outcome).count();
            (outcome.name().to_owned(), Json::from(count))
        })
        .collect();
    let flags: Map<String, Json> = FLAGS
        .iter()
        .map(|(name, flag)| (*name, rows.iter().filter(|row| columns.flags[**row] & flag != 0).count()))
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| (name.to_owned(), Json::from(count)))
        .collect();
    json!({
        "index": FileIndex::progress(state),
        "filters": columns.filter_names,
        "filter": columns.filter_names.get(filter),
        "metrics": metrics,
        "prompt_length": lengths(&columns.prompts),
        "answer_length": lengths(&columns.answers),
        "outcomes": outcomes,
        "flags": flags,
        "fields": columns.fields,
    })
}

/// Equal bins over the range of the finite values. Integers that are few get a bin each.
fn histogram(values: &[f64]) -> Json {
    let finite = || values.iter().copied().filter(|value| value.is_finite());
    let (low, high) = (finite().fold(f64::INFINITY, f64::min), finite().fold(f64::NEG_INFINITY, f64::max));
    if low > high {
        return json!({ "edges": [], "counts": [] });
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
    let edges: Vec<Json> = (0..=bins).map(|edge| wire::number(start + width * edge as f64)).collect();
    json!({ "edges": edges, "counts": counts })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_cover_all_finite_values() {
        assert_eq!(histogram(&[0.0, 1.0, 1.0]), json!({ "edges": [0.0, 1.0, 2.0], "counts": [1, 2] }));
        assert_eq!(histogram(&[f64::NAN, f64::INFINITY]), json!({ "edges": [], "counts": [] }));
        assert_eq!(histogram(&[0.5, 0.5])["counts"], json!([2]));
        let many: Vec<f64> = (0..1000).map(f64::from).collect();
        let counts = histogram(&many)["counts"].clone();
        let total: u64 = counts.as_array().unwrap().iter().filter_map(Json::as_u64).sum();
        assert_eq!(total, 1000);
    }
}

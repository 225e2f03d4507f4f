//! Scores with unfinished answers: their mark in a table, and what it means.

use std::fmt::Write as _;

use lmeval_pycompat::{Dict, Value};

use super::{Column, four_decimals};

/// Marks a score that could be another one if all answers were finished.
pub(super) const MARK: &str = "†";

/// The bounds of one score.
pub(super) fn bounds_of(object: &Dict, name: &str, key: &str) -> Option<(f64, f64)> {
    let bounds = part(object, "bounds")?.get_str(name)?.as_dict()?.get_str(key)?;
    match bounds.as_list()? {
        [low, high] => Some((low.to_f64()?, high.to_f64()?)),
        _ => None,
    }
}

/// A line below the table for each score with a mark, each with a newline.
///
/// ```
/// use lmeval_pycompat::json;
/// use lmeval_report::{Column, bound_notes};
///
/// let object = r#"{"results": {"t": {"acc,none": 0.5}}, "bounds": {"t": {"acc,none": [0.4, 0.7]}},
///                  "audit": {"t": {"none": {"documents": 10, "unfinished": 3, "truncated": 3}}}}"#;
/// let object = json::loads(object).unwrap();
/// assert_eq!(
///     bound_notes(object.as_dict().unwrap(), Column::Results),
///     "† t, none: 3 of 10 documents are unfinished (3 answers cut off); acc is between 0.4000 and 0.7000\n"
/// );
/// ```
pub fn bound_notes(object: &Dict, column: Column) -> String {
    let shown = part(object, column.key());
    let mut notes = String::new();
    for (name, scores) in part(object, "bounds").into_iter().flat_map(Dict::iter) {
        let (Some(name), Some(scores)) = (name.as_str(), scores.as_dict()) else { continue };
        if !shown.is_some_and(|shown| shown.contains_str(name)) {
            continue;
        }
        let mut pipelines: Vec<(&str, Vec<String>)> = Vec::new();
        for key in scores.keys().filter_map(Value::as_str) {
            let Some((low, high)) = bounds_of(object, name, key) else { continue };
            let (metric, filter) = key.split_once(',').unwrap_or((key, ""));
            let range = format!("{metric} is between {} and {}", four_decimals(low), four_decimals(high));
            match pipelines.iter_mut().find(|(known, _)| *known == filter) {
                Some((_, ranges)) => ranges.push(range),
                None => pipelines.push((filter, vec![range])),
            }
        }
        for (filter, ranges) in pipelines {
            let reason = reason(object, name, filter).unwrap_or_else(|| "answers are unfinished".to_owned());
            let _ = writeln!(notes, "{MARK} {name}, {filter}: {reason}; {}", ranges.join(", "));
        }
    }
    notes
}

/// What is unfinished in a task. A group has no counts of its own.
fn reason(object: &Dict, task: &str, filter: &str) -> Option<String> {
    let audit = part(object, "audit")?.get_str(task)?.as_dict()?.get_str(filter)?.as_dict()?;
    let count = |name: &str| audit.get_str(name).and_then(Value::as_i64).unwrap_or(0);
    let causes = [
        (count("truncated"), "cut off"),
        (count("refused"), "refused"),
        (count("extraction_failed"), "not matched by the filter"),
    ];
    let mut noun = " answers";
    let causes = causes.into_iter().filter(|(count, _)| *count > 0).map(|(count, cause)| {
        let noun = std::mem::take(&mut noun);
        let noun = if count == 1 && !noun.is_empty() { " answer" } else { noun };
        format!("{count}{noun} {cause}")
    });
    let causes: Vec<String> = causes.collect();
    let (unfinished, all) = (count("unfinished"), count("documents"));
    let verb = if unfinished == 1 { "is" } else { "are" };
    Some(format!("{unfinished} of {all} documents {verb} unfinished ({})", causes.join(", ")))
}

fn part<'a>(object: &'a Dict, key: &str) -> Option<&'a Dict> {
    object.get_str(key).and_then(Value::as_dict)
}

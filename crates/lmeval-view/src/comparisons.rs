//! Comparisons of runs.

use std::sync::{Arc, Mutex, PoisonError};

use lmeval_analysis::compare::{Comparison, Difference, Flip, Settings, adjust, compare};
use lmeval_analysis::read::Run;
use lmeval_core::registry::Registry;
use serde_json::{Map, Value as Json, json};

use crate::Error;
use crate::wire;

/// Comparisons that are kept.
const KEPT: usize = 4;

/// Computes comparisons and remembers the last ones.
#[derive(Default)]
pub(crate) struct Comparisons {
    kept: Mutex<Vec<(String, Arc<Vec<Comparison>>)>>,
}

impl Comparisons {
    /// The comparisons of `base` with each other run; `key` identifies the runs, their versions and the settings.
    pub(crate) fn get(
        &self,
        key: String,
        base: &Run,
        others: &[Arc<Run>],
        settings: &Settings,
    ) -> Result<Arc<Vec<Comparison>>, Error> {
        let kept = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, found)) = kept().iter().find(|(known, _)| *known == key) {
            return Ok(Arc::clone(found));
        }
        let registry = Registry::default();
        let mut found: Vec<Comparison> =
            others.iter().map(|new| compare(base, new, settings, &registry)).collect::<Result<_, _>>()?;
        adjust(&mut found);
        let found = Arc::new(found);
        let mut kept = kept();
        kept.insert(0, (key, Arc::clone(&found)));
        kept.truncate(KEPT);
        Ok(found)
    }
}

/// The scores of a comparison as JSON.
pub(crate) fn scores(comparison: &Comparison) -> Vec<Json> {
    comparison
        .scores
        .iter()
        .map(|score| {
            let by = score.by.iter().map(|(label, outcome)| {
                let mut entry = difference(outcome);
                entry.insert("label".to_owned(), wire::text(label, wire::SHORT)["text"].clone());
                Json::Object(entry)
            });
            let by: Vec<Json> = by.collect();
            let mut entry = difference(&score.outcome);
            let Json::Object(rest) = json!({
                "task": score.task,
                "filter": score.filter,
                "metric": score.metric,
                "higher_is_better": score.higher_is_better,
                "is_group": score.is_group,
                "benjamini_hochberg": wire::number(score.benjamini_hochberg),
                "holm": wire::number(score.holm),
                "only_base": score.only_base,
                "only_new": score.only_new,
                "by": by,
                "flips": score.flips.len(),
            }) else {
                return Json::Null;
            };
            entry.extend(rest);
            Json::Object(entry)
        })
        .collect()
}

fn difference(outcome: &Difference) -> Map<String, Json> {
    let Json::Object(entry) = json!({
        "base_score": wire::number(outcome.base),
        "new_score": wire::number(outcome.new),
        "difference": wire::number(outcome.difference),
        "stderr": wire::number(outcome.stderr),
        "low": wire::number(outcome.interval.low),
        "high": wire::number(outcome.interval.high),
        "p_value": wire::number(outcome.p_value),
        "test": outcome.test.name(),
        "count": outcome.count,
        "up": outcome.up,
        "down": outcome.down,
        "detectable": wire::number(outcome.detectable),
    }) else {
        return Map::new();
    };
    entry
}

/// The flips of one score: all that are selected, and how many went up and down.
pub(crate) struct Flips<'a> {
    pub(crate) selected: Vec<&'a Flip>,
    pub(crate) up: usize,
    pub(crate) down: usize,
}

/// The flips of a score; `None` if the runs do not share it.
pub(crate) fn flips<'a>(
    comparison: &'a Comparison,
    (task, filter, metric): (&str, &str, &str),
    direction: Option<&str>,
) -> Option<Flips<'a>> {
    let score = comparison.scores.iter().find(|score| {
        !score.is_group && score.task == task && score.filter == filter && score.metric == metric
    })?;
    let is_up = |flip: &&Flip| flip.new > flip.base;
    let up = score.flips.iter().filter(is_up).count();
    let selected = score
        .flips
        .iter()
        .filter(|flip| match direction {
            Some("up") => is_up(flip),
            Some("down") => !is_up(flip),
            _ => true,
        })
        .collect();
    Some(Flips { selected, up, down: score.flips.len() - up })
}

//! Comparisons of runs.

use std::sync::{Arc, Mutex, PoisonError};

use lmeval_analysis::compare::{Comparison, Difference, Flip, Settings, adjust, compare};
use lmeval_analysis::fidelity::divergences;
use lmeval_analysis::read::Run;
use lmeval_scoring::registry::Registry;

use crate::Error;
use crate::api::{self, ComparedScore, LabelledDifference, Text};
use crate::wire::{Num, SHORT};

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
        for (comparison, new) in found.iter_mut().zip(others) {
            comparison.scores.extend(divergences(base, new));
        }
        let found = Arc::new(found);
        let mut kept = kept();
        kept.insert(0, (key, Arc::clone(&found)));
        kept.truncate(KEPT);
        Ok(found)
    }
}

/// The scores of a comparison as pages show them.
pub(crate) fn scores(comparison: &Comparison) -> Vec<ComparedScore> {
    let labelled = |(label, outcome): &(String, Difference)| LabelledDifference {
        difference: outcome.into(),
        label: Text::start_of(label, SHORT).text,
    };
    comparison
        .scores
        .iter()
        .map(|score| ComparedScore {
            difference: (&score.outcome).into(),
            task: score.task.clone(),
            filter: score.filter.clone(),
            metric: score.metric.clone(),
            higher_is_better: score.higher_is_better,
            is_group: score.is_group,
            benjamini_hochberg: Num(score.benjamini_hochberg),
            holm: Num(score.holm),
            possible: score
                .possible
                .filter(|_| score.is_within_bounds())
                .map(|possible| [Num(possible.low), Num(possible.high)]),
            only_base: score.only_base,
            only_new: score.only_new,
            by: score.by.iter().map(labelled).collect(),
            flips: score.flips.len(),
        })
        .collect()
}

impl From<&Difference> for api::Difference {
    fn from(outcome: &Difference) -> Self {
        Self {
            base_score: Num(outcome.base),
            new_score: Num(outcome.new),
            difference: Num(outcome.difference),
            stderr: Num(outcome.stderr),
            low: Num(outcome.interval.low),
            high: Num(outcome.interval.high),
            p_value: Num(outcome.p_value),
            test: outcome.test.name(),
            count: outcome.count,
            up: outcome.up,
            down: outcome.down,
            detectable: Num(outcome.detectable),
        }
    }
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

//! Right and wrong.

use lmeval_core::registry::Registry;
use lmeval_pycompat::Value;

use super::sample::metric_names;
use crate::read::{Fields, Run, number};

/// How a document was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The score is 1.
    Right,
    /// The score is 0.
    Wrong,
    /// The score is another number, such as an F1 of 0.5 or the mean of several repeats.
    Partial,
    /// The document has no score that tells right from wrong, or it is NaN.
    Unscored,
}

impl Outcome {
    /// All outcomes, in the order in which reports count them.
    pub const ALL: [Self; 4] = [Self::Right, Self::Wrong, Self::Partial, Self::Unscored];

    /// The name, as in the field `outcome` of expressions.
    pub fn name(self) -> &'static str {
        match self {
            Self::Right => "right",
            Self::Wrong => "wrong",
            Self::Partial => "partial",
            Self::Unscored => "unscored",
        }
    }
}

/// Decides outcomes by one metric: the given one, or the first metric of a sample that is a number of which more is better.
#[derive(Clone, Debug)]
pub(super) struct Judge {
    metric: Option<String>,
    /// Metrics of which less is better.
    lower_is_better: Vec<String>,
}

impl Judge {
    pub(super) fn new(run: &Run, task: &str, metric: Option<&str>) -> Self {
        let registry = Registry::default();
        let mut lower_is_better: Vec<String> = registry
            .metrics
            .iter()
            .filter(|entry| !entry.facts.higher_is_better)
            .map(|entry| entry.name.to_string())
            .filter(|metric| run.higher_is_better(task, metric).is_none())
            .collect();
        let stated = run.section("higher_is_better").and_then(|section| section.get_str(task)?.as_dict());
        lower_is_better.extend(stated.into_iter().flat_map(|metrics| {
            metrics
                .iter()
                .filter(|(_, higher)| **higher == Value::Bool(false))
                .filter_map(|(metric, _)| metric.as_str().map(str::to_owned))
        }));
        Self { metric: metric.map(str::to_owned), lower_is_better }
    }

    /// The deciding metric of a sample, and its value.
    pub(super) fn score(&self, fields: &Fields<'_>) -> Option<(String, f64)> {
        if let Some(metric) = &self.metric {
            return Some((metric.clone(), number(fields.raw(metric)?)?));
        }
        metric_names(fields).into_iter().filter(|metric| !self.lower_is_better.contains(metric)).find_map(
            |metric| {
                let value = number(fields.raw(&metric)?)?;
                Some((metric, value))
            },
        )
    }

    pub(super) fn outcome(&self, fields: &Fields<'_>) -> Outcome {
        match self.score(fields) {
            Some((_, 1.0)) => Outcome::Right,
            Some((_, 0.0)) => Outcome::Wrong,
            Some((_, score)) if !score.is_nan() => Outcome::Partial,
            _ => Outcome::Unscored,
        }
    }
}

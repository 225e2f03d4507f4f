//! Right and wrong.

use std::sync::LazyLock;

use lmeval_pycompat::Dict;
use lmeval_scoring::registry::Registry;

use super::sample::metric_names;
use crate::read::{Fields, Run, number};

/// How a document was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
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

    /// The name, as in the field `outcome` of expressions and in addresses of the viewer.
    pub fn name(self) -> &'static str {
        match self {
            Self::Right => "right",
            Self::Wrong => "wrong",
            Self::Partial => "partial",
            Self::Unscored => "unscored",
        }
    }

    /// The outcome with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.name() == name)
    }

    /// The outcome by the metrics that may decide, in order; `None` for one that is not a number. The first number decides.
    ///
    /// ```
    /// use lmeval_analysis::samples::Outcome;
    ///
    /// assert_eq!(Outcome::decide([None, Some(1.0), Some(0.0)]), Outcome::Right);
    /// assert_eq!(Outcome::decide([Some(f64::NAN), Some(0.0)]), Outcome::Unscored);
    /// ```
    pub fn decide(scores: impl IntoIterator<Item = Option<f64>>) -> Self {
        match scores.into_iter().flatten().next() {
            Some(1.0) => Self::Right,
            Some(0.0) => Self::Wrong,
            Some(score) if !score.is_nan() => Self::Partial,
            _ => Self::Unscored,
        }
    }
}

/// Which metrics of a task tell right from wrong: the given one, or all of which more is better.
#[derive(Clone, Debug, Default)]
pub struct OutcomeRule {
    metric: Option<String>,
    /// Metrics of which less is better.
    lower_is_better: Vec<String>,
}

impl OutcomeRule {
    /// The rule for the samples of a task. The results say of which metrics more is better; where they do not, the registry does.
    pub fn new(run: &Run, task: &str, metric: Option<&str>) -> Self {
        static REGISTERED: LazyLock<Vec<String>> = LazyLock::new(|| {
            let registry = Registry::default();
            let lower = registry.metrics.iter().filter(|entry| !entry.facts.higher_is_better);
            lower.map(|entry| entry.name.to_string()).collect()
        });
        let unstated = REGISTERED.iter().filter(|metric| run.higher_is_better(task, metric).is_none());
        let mut lower_is_better: Vec<String> = unstated.cloned().collect();
        let stated = run.section("higher_is_better").and_then(|section| section.get_str(task)?.as_dict());
        let lower =
            stated.into_iter().flat_map(Dict::iter).filter(|(_, higher)| higher.as_bool() == Some(false));
        lower_is_better.extend(lower.filter_map(|(metric, _)| metric.as_str().map(str::to_owned)));
        Self { metric: metric.map(str::to_owned), lower_is_better }
    }

    /// Whether a number of this metric decides, unless that of an earlier metric does.
    pub fn may_decide(&self, metric: &str) -> bool {
        match &self.metric {
            Some(chosen) => chosen == metric,
            None => !self.lower_is_better.iter().any(|lower| lower == metric),
        }
    }

    /// The deciding metric of a sample, and its value.
    pub(super) fn score(&self, fields: &Fields<'_>) -> Option<(String, f64)> {
        let deciding = metric_names(fields).into_iter().filter(|metric| self.may_decide(metric));
        let mut scores = deciding.filter_map(|metric| Some((number(fields.raw(&metric)?)?, metric)));
        scores.next().map(|(score, metric)| (metric, score))
    }

    pub(super) fn outcome(&self, fields: &Fields<'_>) -> Outcome {
        Outcome::decide([self.score(fields).map(|(_, score)| score)])
    }
}

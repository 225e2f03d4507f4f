//! Gates: conditions on a comparison or a score that decide a release.

use lmeval_core::Diagnostic;

use crate::Error;
use crate::compare::Compared;
use crate::stats::{Interval, documents_needed};

/// A condition on the difference of two runs, such as `mmlu:acc >= -0.01`.
#[derive(Clone, Debug, PartialEq)]
pub struct Gate {
    /// The task or group.
    pub task: String,
    /// The metric, optionally with its filter: `exact_match` or `exact_match,strict-match`.
    pub metric: String,
    /// The worst difference that is acceptable, new minus base.
    pub margin: f64,
    /// Whether the difference has to be at most the margin, for metrics where lower is better.
    pub at_most: bool,
}

/// The outcome of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// The whole interval satisfies the condition.
    Pass,
    /// The interval reaches to both sides of the margin: more documents would decide.
    Inconclusive,
    /// The whole interval violates the condition.
    Fail,
}

impl Verdict {
    /// The word in tables and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pass => "PASS",
            Self::Inconclusive => "INCONCLUSIVE",
            Self::Fail => "FAIL",
        }
    }
}

impl Gate {
    /// Reads `TASK:METRIC >= MARGIN` or `TASK:METRIC <= MARGIN`.
    ///
    /// ```
    /// use lmeval_analysis::gate::Gate;
    ///
    /// let gate = Gate::parse("mmlu:acc >= -0.01").unwrap();
    /// assert_eq!((gate.task.as_str(), gate.metric.as_str(), gate.margin), ("mmlu", "acc", -0.01));
    /// assert!(Gate::parse("mmlu >= 1").is_err());
    /// ```
    pub fn parse(text: &str) -> Result<Self, Error> {
        let wrong = || {
            Diagnostic::new(format!("`{text}` is not a gate"))
                .hint("Write TASK:METRIC >= MARGIN, for example 'mmlu:acc >= -0.01'")
        };
        let (score, margin, at_most) = match (text.split_once(">="), text.split_once("<=")) {
            (Some((score, margin)), None) => (score, margin, false),
            (None, Some((score, margin))) => (score, margin, true),
            _ => return Err(wrong().into()),
        };
        // Tasks of groups contain `::`, so the metric follows the last colon.
        let (task, metric) = score.trim().rsplit_once(':').ok_or_else(wrong)?;
        let margin: f64 = margin.trim().parse().map_err(|_| wrong())?;
        if task.is_empty() || task.ends_with(':') || metric.is_empty() || !margin.is_finite() {
            return Err(wrong().into());
        }
        Ok(Self { task: task.trim().to_owned(), metric: metric.trim().to_owned(), margin, at_most })
    }

    /// Whether the gate is about a score.
    pub fn is_about(&self, score: &Compared) -> bool {
        let (metric, filter) = match self.metric.split_once(',') {
            Some((metric, filter)) => (metric, Some(filter)),
            None => (self.metric.as_str(), None),
        };
        score.task == self.task
            && score.metric == metric
            && filter.is_none_or(|filter| score.filter == filter)
    }

    /// Decides by the interval of the difference.
    pub fn decide(&self, interval: Interval) -> Verdict {
        let (low, high, margin) = if self.at_most {
            (-interval.high, -interval.low, -self.margin)
        } else {
            (interval.low, interval.high, self.margin)
        };
        if low >= margin {
            Verdict::Pass
        } else if high < margin {
            Verdict::Fail
        } else {
            // NaN bounds decide nothing.
            Verdict::Inconclusive
        }
    }

    /// The number of documents that would probably decide, if the difference stays as it is.
    pub fn documents_to_decide(&self, score: &Compared, alpha: f64, power: f64) -> f64 {
        let distance = score.outcome.difference - self.margin;
        documents_needed(score.outcome.stderr, score.outcome.count, distance, alpha, power)
    }
}

//! Decides whether the scores of a run are what is expected.

use std::path::Path;

use lmeval_analysis::compare::{self, Compared};
use lmeval_analysis::gate::{Gate, Verdict};
use lmeval_analysis::read::Run;
use lmeval_analysis::stats::{Interval, Sampled, documents_needed, independent_difference, moments, student};
use lmeval_core::Diagnostic;
use lmeval_pycompat::Dict;
use lmeval_scoring::registry::Registry;

use super::{Against, Check, Expectations};
use crate::Error;
use crate::scores::Scores;

/// The confidence of intervals, and the power that numbers of documents are for.
const CONFIDENCE: f64 = 0.95;
const POWER: f64 = 0.8;

/// The decision about one score or gate.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The score or the gate, as it is written.
    pub of: String,
    /// Whether it is as expected.
    pub verdict: Verdict,
    /// The score; `None` for a gate.
    pub score: Option<f64>,
    /// The expected value or run, in words.
    pub expected: String,
    /// The difference to it.
    pub difference: f64,
    /// Its interval, if the sampling errors are known.
    pub interval: Option<Interval>,
    /// The documents that would probably decide, of an inconclusive decision.
    pub needed: Option<f64>,
}

/// A difference with its interval, and what it is to.
struct Found {
    expected: String,
    difference: f64,
    interval: Option<Interval>,
    documents: Option<f64>,
}

impl Expectations {
    /// Decides about every score and gate of a run.
    pub fn decide(&self, run: &Run) -> Result<Vec<Outcome>, Error> {
        let empty = Dict::new();
        let scores = Scores::new(run.results.as_ref().unwrap_or(&empty));
        let mut outcomes: Vec<Outcome> =
            self.checks.iter().map(|check| check.decide(run, scores)).collect::<Result<_, _>>()?;
        let Some(path) = self.baseline.as_ref().filter(|_| !self.gates.is_empty()) else {
            return Ok(outcomes);
        };
        let base = Run::open(path)?;
        let compared = compare::compare(&base, run, &compare::Settings::default(), &Registry::default())?;
        for gate in &self.gates {
            for decided in gate.decide(&compared.scores, CONFIDENCE, POWER)? {
                outcomes.push(Outcome {
                    of: format!("{} ({})", gate.text, decided.filter),
                    verdict: decided.verdict,
                    score: None,
                    expected: format!("no loss against `{}`", path.display()),
                    difference: decided.difference,
                    interval: Some(decided.interval),
                    needed: needed(decided.verdict, decided.needed),
                });
            }
        }
        Ok(outcomes)
    }
}

fn needed(verdict: Verdict, documents: f64) -> Option<f64> {
    (verdict == Verdict::Inconclusive && documents.is_finite()).then_some(documents)
}

impl Check {
    fn decide(&self, run: &Run, scores: Scores<'_>) -> Result<Outcome, Error> {
        let missing = |reason: String| -> Error {
            Diagnostic::new(format!("Cannot check what is expected: {reason}")).into()
        };
        let key = scores.key(&self.task).map_err(missing)?;
        let score = scores.number(&key, &self.metric, self.filter.as_deref()).map_err(missing)?;
        let higher = scores.higher_is_better(&key, &self.metric);
        let filter = self.filter.as_ref().map(|filter| format!(",{filter}")).unwrap_or_default();
        let found = match &self.against {
            Against::Tolerance { value, .. } => {
                unpaired(Sampled { value: *value, stderr: None, documents: None }, score)
            }
            Against::Score(expected) => unpaired(*expected, score),
            Against::Run(path) => self.against_run(path, run, (&key, score))?,
            Against::Series { folder, last } => self.against_series(folder, *last, run, score)?,
        };
        let (verdict, expected) = match self.against {
            Against::Tolerance { value, rtol } => {
                let loss = if higher { -found.difference } else { found.difference };
                let is_close = loss <= rtol * value.abs();
                let expected = format!("{value} with rtol {rtol}");
                (if is_close { Verdict::Pass } else { Verdict::Fail }, expected)
            }
            _ => (self.judge(&found, higher), found.expected.clone()),
        };
        let distance = found.difference - self.gate(higher).margin;
        let stderr = found.interval.map_or(f64::NAN, |interval| (interval.high - interval.low) / 3.92);
        let documents = found.documents.unwrap_or(f64::NAN) as usize;
        Ok(Outcome {
            of: format!("{} {}{filter}", self.task, self.metric),
            verdict,
            score: Some(score.value),
            expected,
            difference: found.difference,
            interval: found.interval,
            needed: needed(verdict, documents_needed(stderr, documents, distance, 1.0 - CONFIDENCE, POWER)),
        })
    }

    /// The condition on the difference.
    fn gate(&self, higher: bool) -> Gate {
        let margin = self.margin.unwrap_or(0.0);
        let margin = if higher { -margin } else { margin };
        Gate { task: self.task.clone(), metric: self.metric.clone(), margin, at_most: !higher }
    }

    /// With a margin, the whole interval decides, as for a gate. Without one there is nothing that a score could be sure of: it fails
    /// if the loss is significant.
    fn judge(&self, found: &Found, higher: bool) -> Verdict {
        let Some(interval) = found.interval else {
            // Without sampling errors, the difference itself is all there is.
            let exactly = Interval { low: found.difference, high: found.difference };
            return self.gate(higher).decide(exactly);
        };
        match (self.gate(higher).decide(interval), self.margin) {
            (Verdict::Fail, _) => Verdict::Fail,
            (_, None) => Verdict::Pass,
            (verdict, Some(_)) => verdict,
        }
    }

    fn against_run(&self, path: &Path, run: &Run, (key, score): (&str, Sampled)) -> Result<Found, Error> {
        let base = Run::open(path)?;
        if base.samples_of(key).is_some() && run.samples_of(key).is_some() {
            let settings = compare::Settings { tasks: vec![key.to_owned()], ..compare::Settings::default() };
            let compared = compare::compare(&base, run, &settings, &Registry::default())?;
            let is_about = |one: &&Compared| {
                one.task == key
                    && one.metric == self.metric
                    && self.filter.as_deref().is_none_or(|filter| one.filter == filter)
            };
            if let Some(one) = compared.scores.iter().find(is_about) {
                return Ok(Found {
                    expected: format!("the score of `{}`, document by document", path.display()),
                    difference: one.outcome.difference,
                    interval: Some(one.outcome.interval),
                    documents: Some(one.outcome.count as f64),
                });
            }
        }
        let empty = Dict::new();
        let expected = Scores::new(base.results.as_ref().unwrap_or(&empty));
        let expected = expected.score(&self.task, &self.metric, self.filter.as_deref());
        let expected =
            expected.map_err(|reason| Diagnostic::new(format!("`{}`: {reason}", path.display())))?;
        Ok(Found { expected: format!("the score of `{}`", path.display()), ..unpaired(expected, score) })
    }

    /// The spread of earlier runs is the noise of the next one.
    fn against_series(&self, folder: &Path, last: usize, run: &Run, score: Sampled) -> Result<Found, Error> {
        let mut runs = Run::open_all(folder)?;
        runs.retain(|other| other.path != run.path);
        runs.sort_by_key(Run::stamp);
        let values = runs.iter().rev().filter_map(|other| {
            let scores = Scores::new(other.results.as_ref()?);
            scores.score(&self.task, &self.metric, self.filter.as_deref()).ok()
        });
        let values: Vec<f64> = values.take(last).map(|score| score.value).collect();
        if values.len() < 2 {
            let message = format!(
                "The noise of `{}` needs at least two earlier runs, and `{}` has {}",
                self.task,
                folder.display(),
                values.len()
            );
            return Err(Diagnostic::new(message).into());
        }
        let (found, count) = (moments(&values), values.len() as f64);
        let difference = score.value - found.mean;
        // The next run of the series: its own noise and that of the mean.
        let stderr = found.deviation * (1.0 + 1.0 / count).sqrt();
        Ok(Found {
            expected: format!(
                "{:.4}, the mean of {count} runs with spread {:.4}",
                found.mean, found.deviation
            ),
            difference,
            interval: Some(student(difference, stderr, count - 1.0, CONFIDENCE)),
            documents: None,
        })
    }
}

/// Both sides with their sampling errors. The expected score without one is taken to be as uncertain as that of the run.
fn unpaired(expected: Sampled, score: Sampled) -> Found {
    let filled = crate::claim::as_uncertain_as(expected, score);
    let stderr = expected.error().map(|error| format!(" ± {error:.4}")).unwrap_or_default();
    Found {
        expected: format!("{}{stderr}", expected.value),
        difference: score.value - expected.value,
        interval: independent_difference(&filled, &score, CONFIDENCE),
        documents: score.documents,
    }
}

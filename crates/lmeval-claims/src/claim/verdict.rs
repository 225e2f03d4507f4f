//! Whether a claim is reproduced.

use lmeval_analysis::compare;
use lmeval_analysis::read::Run;
use lmeval_analysis::stats::{Interval, Sampled, independent_difference, normal_quantile};
use lmeval_core::Diagnostic;
use lmeval_pycompat::Dict;
use lmeval_scoring::registry::Registry;

use super::{Claim, Claims, as_uncertain_as};
use crate::Error;
use crate::scores::Scores;

/// The chance of a wrong DIFFERENT, and of a wrong REPRODUCED.
const ALPHA: f64 = 0.05;

/// Whether a claim is reproduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// The difference is smaller than the margin.
    Reproduced,
    /// Neither can be said.
    CannotTell,
    /// The difference is not the sampling error of both sides.
    Different,
}

impl Verdict {
    /// The words in tables and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Reproduced => "REPRODUCED",
            Self::CannotTell => "CANNOT TELL",
            Self::Different => "DIFFERENT",
        }
    }
}

/// A verdict with what it is based on.
#[derive(Clone, Copy, Debug)]
pub struct Judgement {
    /// Whether the claim is reproduced.
    pub verdict: Verdict,
    /// Measured minus claimed.
    pub difference: f64,
    /// The 95 % interval of the difference; `None` without sampling errors.
    pub interval: Option<Interval>,
    /// The difference that does not matter.
    pub margin: f64,
    /// The documents that the run would need to tell; `None` if it can tell, or if more documents would not help.
    pub needed: Option<f64>,
}

/// A claim with its judgement.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The reported score.
    pub claim: Claim,
    /// The measured score.
    pub measured: Sampled,
    /// The verdict with its numbers.
    pub judgement: Judgement,
    /// Whether both runs were compared document by document.
    pub is_paired: bool,
}

/// Judges a claim by the sampling errors of both sides.
///
/// DIFFERENT if the 95 % interval of the difference excludes 0, unless REPRODUCED; REPRODUCED if the 90 % interval is within the
/// margin, which are two one-sided tests at 5 %. So equal models are called different in at most 5 % of cases, and models that differ
/// by the margin are called equal in at most 5 %.
pub fn judge(claim: Sampled, measured: Sampled, margin: f64) -> Judgement {
    let claim = as_uncertain_as(claim, measured);
    let difference = measured.value - claim.value;
    // Shares of documents have steps, and half a step belongs to neither side.
    let step =
        measured.documents.filter(|_| (0.0..=1.0).contains(&measured.value)).map_or(0.0, |count| 0.5 / count);
    let at = |confidence| {
        let found = independent_difference(&claim, &measured, confidence)?;
        Some(Interval { low: found.low - step, high: found.high + step })
    };
    let (Some(wide), Some(narrow)) = (at(1.0 - ALPHA), at(1.0 - 2.0 * ALPHA)) else {
        return Judgement { verdict: Verdict::CannotTell, difference, interval: None, margin, needed: None };
    };
    let verdict = decide(wide, narrow, margin);
    let needed = (verdict == Verdict::CannotTell).then(|| needed(claim, measured, margin)).flatten();
    Judgement { verdict, difference, interval: Some(wide), margin, needed }
}

/// Judges by the 95 % interval of a difference and the number of its documents.
pub fn judge_interval(difference: f64, interval: Interval, documents: f64, margin: f64) -> Judgement {
    let share = normal_quantile(1.0 - ALPHA) / normal_quantile(1.0 - 0.5 * ALPHA);
    let narrow = Interval {
        low: difference - share * (difference - interval.low),
        high: difference + share * (interval.high - difference),
    };
    let verdict = decide(interval, narrow, margin);
    let wanted = reach(difference, margin);
    let ratio = 0.5 * (interval.high - interval.low) / wanted;
    let needed =
        (verdict == Verdict::CannotTell && ratio.is_finite()).then(|| (documents * ratio * ratio).ceil());
    Judgement { verdict, difference, interval: Some(interval), margin, needed }
}

fn decide(wide: Interval, narrow: Interval, margin: f64) -> Verdict {
    if narrow.low > -margin && narrow.high < margin {
        Verdict::Reproduced
    } else if wide.low > 0.0 || wide.high < 0.0 {
        Verdict::Different
    } else {
        Verdict::CannotTell
    }
}

/// The half width of an interval that would decide, if the difference stays as it is.
fn reach(difference: f64, margin: f64) -> f64 {
    difference.abs().max(margin - difference.abs())
}

/// The documents that the run would need. The sampling error of the claim stays what it is.
fn needed(claim: Sampled, measured: Sampled, margin: f64) -> Option<f64> {
    let (of_claim, of_run) = (claim.error()?, measured.error()?);
    let wanted = reach(measured.value - claim.value, margin) / normal_quantile(1.0 - 0.5 * ALPHA);
    let left = wanted * wanted - of_claim * of_claim;
    let documents = measured.documents? * of_run * of_run / left;
    (left > 0.0 && documents.is_finite()).then(|| documents.ceil().max(2.0))
}

impl Claims {
    /// Judges every claim by the scores of a run: document by document where both have samples.
    pub fn check(&self, run: &Run, margin: Option<f64>) -> Result<Vec<Checked>, Error> {
        let empty = Dict::new();
        let scores = Scores::new(run.results.as_ref().unwrap_or(&empty));
        // Runs that cannot be paired are compared by their scores; the table says which were paired.
        let compared = match &self.run {
            Some(base) if !base.samples.is_empty() && !run.samples.is_empty() => {
                let settings =
                    compare::Settings { allow_different_prompts: true, ..compare::Settings::default() };
                compare::compare(base, run, &settings, &Registry::default())
                    .map(|found| found.scores)
                    .unwrap_or_default()
            }
            _ => Vec::new(),
        };
        let mut checked = Vec::new();
        for claim in &self.claims {
            let (Ok(key), filter) = (scores.key(&claim.task), claim.filter.as_deref()) else { continue };
            let Ok(measured) = scores.number(&key, &claim.metric, filter) else { continue };
            // Three points of a share, or 3 % of another score.
            let is_share = |value: f64| (0.0..=1.0).contains(&value);
            let by_default = if is_share(claim.score.value) { 0.03 } else { 0.03 * claim.score.value.abs() };
            let margin = margin.unwrap_or(by_default);
            let paired = compared.iter().find(|one| {
                one.task == key
                    && one.metric == claim.metric
                    && filter.is_none_or(|filter| one.filter == filter)
            });
            let judgement = match paired {
                Some(one) => {
                    let outcome = &one.outcome;
                    judge_interval(outcome.difference, outcome.interval, outcome.count as f64, margin)
                }
                None => judge(claim.score, measured, margin),
            };
            checked.push(Checked { claim: claim.clone(), measured, judgement, is_paired: paired.is_some() });
        }
        if checked.is_empty() {
            let names: Vec<String> = self.claims.iter().map(|claim| format!("`{}`", claim.name())).collect();
            return Err(Diagnostic::new(format!(
                "The run has none of the claimed scores: {}",
                names.join(", ")
            ))
            .hint("Check the names of tasks, metrics and filters, and the number of examples")
            .into());
        }
        Ok(checked)
    }
}

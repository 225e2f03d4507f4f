//! Claims: scores that someone reports, to be reproduced.

mod open;
mod settings;
mod verdict;

use lmeval_analysis::read::Run;
use lmeval_analysis::stats::Sampled;
use lmeval_core::Diagnostic;
use lmeval_pycompat::Dict;

pub use self::settings::{differing_settings, settings_of};
pub use self::verdict::{Checked, Judgement, Verdict, judge, judge_interval};
use crate::Error;
use crate::expect::split_metric;
use crate::recipe::Recipe;

/// A reported score.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// The task or group, with options as `--tasks` takes them; of a row of a recipe its key in results.
    pub task: String,
    /// The metric, without its filter.
    pub metric: String,
    /// The filter pipeline; `None` for the only one.
    pub filter: Option<String>,
    /// The reported value with its sampling error.
    pub score: Sampled,
    /// Where it is from.
    pub source: String,
}

/// The claims that a name or a file stands for.
#[derive(Clone, Debug, Default)]
pub struct Claims {
    /// The claims, in the order of their source.
    pub claims: Vec<Claim>,
    /// The run that made them, if its files exist.
    pub run: Option<Run>,
    /// The recipe that they belong to.
    pub recipe: Option<Recipe>,
    /// Settings of the run that made them, as a settings file has them.
    pub settings: Dict,
}

impl Claim {
    /// Reads `TASK=METRIC=VALUE`, optionally followed by `±STDERR` and `@DOCUMENTS`.
    ///
    /// ```
    /// use lmeval_claims::claim::Claim;
    ///
    /// let claim = Claim::parse("gsm8k:5=exact_match,strict-match=0.54±0.0137@1319").unwrap();
    /// assert_eq!((claim.task.as_str(), claim.filter.as_deref()), ("gsm8k:5", Some("strict-match")));
    /// assert_eq!((claim.score.stderr, claim.score.documents), (Some(0.0137), Some(1319.0)));
    /// assert!(Claim::parse("gsm8k=0.54").is_err());
    /// ```
    pub fn parse(text: &str) -> Result<Self, Error> {
        let wrong = || -> Error {
            Diagnostic::new(format!("`{text}` is not a claim"))
                .hint("Write TASK=METRIC=VALUE, for example 'gsm8k:5=exact_match,strict-match=0.54'; ±STDERR and @DOCUMENTS may follow")
                .into()
        };
        let (score, number) = text.rsplit_once('=').ok_or_else(wrong)?;
        let (task, metric) = score.rsplit_once('=').ok_or_else(wrong)?;
        let (number, documents) = match number.split_once('@') {
            Some((number, documents)) => (number, Some(documents)),
            None => (number, None),
        };
        let (value, stderr) = match ["±", "+/-", "+-"].iter().find_map(|sign| number.split_once(sign)) {
            Some((value, stderr)) => (value, Some(stderr)),
            None => (number, None),
        };
        let parse = |text: &str| text.trim().parse::<f64>().ok().filter(|number| number.is_finite());
        let optional = |text: Option<&str>, least: f64| match text {
            Some(text) => parse(text).filter(|number| *number >= least).map(Some).ok_or_else(wrong),
            None => Ok(None),
        };
        let (metric, filter) = split_metric(metric);
        if task.trim().is_empty() || metric.is_empty() || filter.as_deref() == Some("") {
            return Err(wrong());
        }
        Ok(Self {
            task: task.trim().to_owned(),
            metric,
            filter,
            score: Sampled {
                value: parse(value).ok_or_else(wrong)?,
                stderr: optional(stderr, 0.0)?,
                documents: optional(documents, 1.0)?,
            },
            source: "command line".to_owned(),
        })
    }

    /// The score as tables show it.
    pub fn name(&self) -> String {
        match &self.filter {
            Some(filter) => format!("{} {},{filter}", self.task, self.metric),
            None => format!("{} {}", self.task, self.metric),
        }
    }
}

/// A reported score with the sampling error of the measured one where its own is not known: both are usually of the same documents.
pub fn as_uncertain_as(reported: Sampled, measured: Sampled) -> Sampled {
    if reported.interval(0.95).is_some() {
        return reported;
    }
    let documents = reported.documents.or(measured.documents);
    let with_documents = Sampled { documents, ..reported };
    // A score between 0 and 1 need not be a share of documents; the standard error of the measured one says whether it is.
    let is_share = measured.stderr.is_none_or(|stderr| {
        let as_share = Sampled { stderr: None, ..measured };
        as_share.error().is_some_and(|error| (error - stderr).abs() <= 0.05 * error)
    });
    if is_share && with_documents.interval(0.95).is_some() {
        with_documents
    } else {
        Sampled { stderr: measured.stderr, ..with_documents }
    }
}

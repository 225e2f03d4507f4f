//! Expectations: what CI wants of the scores of a run.
//!
//! A file names scores with what they are compared to: a value, an earlier run, or the last runs of a series. The suites of vLLM and
//! SGLang are read as they are.

mod decide;
mod own;
mod suite;

use std::path::{Path, PathBuf};

use lmeval_analysis::condition::Condition;
use lmeval_analysis::stats::Sampled;
use lmeval_core::Diagnostic;
use lmeval_pycompat::Dict;

pub use self::decide::Outcome;
use crate::Error;
use crate::document::Document;

/// The scores that are expected of a run.
#[derive(Clone, Debug)]
pub struct Expectations {
    /// The path of the file, for messages.
    pub path: PathBuf,
    /// Settings of the run, as a settings file has them.
    pub settings: Dict,
    /// The expected scores.
    pub checks: Vec<Check>,
    /// Conditions on differences to [`baseline`](Self::baseline).
    pub gates: Vec<Condition>,
    /// The run that gates compare with.
    pub baseline: Option<PathBuf>,
    /// Hints for the user of the file.
    pub notes: Vec<String>,
}

/// The expectation of one score.
#[derive(Clone, Debug)]
pub struct Check {
    /// The task or group.
    pub task: String,
    /// The metric, without its filter.
    pub metric: String,
    /// The filter pipeline; `None` for the only one.
    pub filter: Option<String>,
    /// The value or run that the score is compared to.
    pub against: Against,
    /// The loss that is acceptable. Without it, a loss has to be significant to fail.
    pub margin: Option<f64>,
}

/// The other side of a comparison.
#[derive(Clone, Debug)]
pub enum Against {
    /// A value with a relative tolerance, and nothing else.
    Tolerance {
        /// The expected value.
        value: f64,
        /// The share of it that may be lost.
        rtol: f64,
    },
    /// A value with its sampling error.
    Score(Sampled),
    /// An earlier run, document by document where both have samples.
    Run(PathBuf),
    /// The last runs of a series, whose spread is the noise.
    Series {
        /// The folder of the runs.
        folder: PathBuf,
        /// How many of them.
        last: usize,
    },
}

impl Expectations {
    /// Reads a file of either form. Paths in it are relative to its folder.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let document = Document::read(path)?;
        let keys = document.value().as_dict();
        if keys.is_some_and(|keys| keys.contains_str("expect") || keys.contains_str("gates")) {
            return own::read(path, &document);
        }
        if keys.is_some_and(|keys| keys.contains_str("tasks")) {
            return suite::read(path, &document);
        }
        Err(Diagnostic::new(format!("`{}` does not say what is expected", path.display()))
            .hint("Write a list of scores below `expect:`, or use a file of vLLM's suite with `tasks:`")
            .into())
    }

    /// Whether samples of the run are needed, because it is compared document by document.
    pub fn needs_samples(&self) -> bool {
        !self.gates.is_empty() || self.checks.iter().any(|check| matches!(check.against, Against::Run(_)))
    }
}

/// Splits `metric,filter`, as results files have it.
pub(crate) fn split_metric(name: &str) -> (String, Option<String>) {
    match name.split_once(',') {
        Some((metric, filter)) => (metric.trim().to_owned(), Some(filter.trim().to_owned())),
        None => (name.trim().to_owned(), None),
    }
}

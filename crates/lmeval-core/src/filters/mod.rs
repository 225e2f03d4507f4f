//! Filters: what becomes of a model's answers before they are scored. One file each.
//!
//! A [`Filter`] works on the answers of many requests at once. A [`FilterEnsemble`] is a named chain of filters. A registry
//! makes filters from their names and keyword arguments, and says what is wrong with those before anything is sent to a
//! model.
//!
//! ```
//! use lmeval_core::filters::{FilterContext, FilterDocs, FilterSpec};
//! use lmeval_core::registry::Registry;
//! use lmeval_core::{DocId, MemoryDocuments};
//! use lmeval_pycompat::{Dict, Value};
//!
//! let steps = [
//!     FilterSpec::named("regex").with("regex_pattern", r"answer is (\d+)"),
//!     FilterSpec::named("take_first"),
//! ];
//! let ensemble = Registry::default().filter_ensemble("strict", &steps, &FilterContext::default())?;
//!
//! let documents = MemoryDocuments::new(vec![Dict::new(), Dict::new()]);
//! let answers = vec![vec![Value::str("The answer is 42.")], vec![Value::str("No idea")]];
//! let docs = FilterDocs::new(&documents, &[DocId(0), DocId(1)]);
//! let outcome = ensemble.apply(answers, &docs)?;
//! assert_eq!(outcome.responses, [[Value::str("42")], [Value::str("[invalid]")]]);
//! assert_eq!(outcome.audits[0].fallbacks, [0, 1]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod arguments;
mod custom;
mod docs;
mod ensemble;
mod error;
mod format_span;
mod found;
mod literals;
mod lowercase;
mod majority_vote;
mod map;
mod multi_choice_regex;
mod noop;
mod normaliser;
mod parallel;
mod regex;
mod regex_pos;
mod registry;
mod remove_whitespace;
mod sequence;
mod spec;
mod take_first;
mod take_first_k;
#[cfg(test)]
mod testing;
mod uppercase;

use std::fmt;

use lmeval_pycompat::Value;

pub use self::arguments::Arguments;
pub use self::custom::Custom;
pub use self::docs::FilterDocs;
pub use self::ensemble::{EnsembleError, FilterEnsemble, Outcome, StepAudit};
pub use self::error::FilterError;
pub use self::format_span::FormatSpan;
pub use self::lowercase::Lowercase;
pub use self::majority_vote::MajorityVote;
pub use self::map::MapFilter;
pub use self::multi_choice_regex::MultiChoiceRegex;
pub use self::noop::Noop;
pub use self::regex::RegexFilter;
pub use self::regex_pos::RegexPos;
pub use self::registry::FilterContext;
pub(crate) use self::registry::built_in;
pub use self::remove_whitespace::RemoveWhitespace;
pub use self::spec::{FilterFunction, FilterSpec};
pub use self::take_first::TakeFirst;
pub use self::take_first_k::TakeFirstK;
pub use self::uppercase::Uppercase;

/// The answers to many requests: for each request its repeats, in order.
///
/// A generation is a string, a log-likelihood is a tuple of a float and a bool; filters may turn them into anything.
pub type Responses = Vec<Vec<Value>>;

/// A step between a model's answers and their scores.
///
/// A filter keeps no state between calls; calls come from several threads.
pub trait Filter: fmt::Debug + Send + Sync {
    /// Filters the answers to all requests of a task; the requests keep their number and order.
    fn apply(&self, responses: Responses, docs: &FilterDocs<'_>) -> Result<Filtered, FilterError>;

    /// Filters answers that stand for themselves, without the level of repeats.
    ///
    /// They come from an earlier step of dialect 0.4, see [`Filtered::bare`]. Unless a filter knows better, each is
    /// taken for the list of what Python finds in it: of a text, its characters.
    fn apply_bare(&self, values: Vec<Value>, docs: &FilterDocs<'_>) -> Result<Filtered, FilterError> {
        self.apply(sequence::lists(values, docs)?, docs)
    }

    /// Whether the filter looks at documents; unless a filter says otherwise, it may.
    fn needs_documents(&self) -> bool {
        true
    }

    /// Whether what becomes of the answers to a request depends on these answers alone; unless a filter says so, it may
    /// depend on those to others.
    fn works_apart(&self) -> bool {
        false
    }

    /// Whether the filter calls code of a task, which may keep state or cost something and so is called once per run.
    fn calls_task_code(&self) -> bool {
        false
    }
}

/// What a filter made of answers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filtered {
    /// The new answers, in the order of the requests.
    pub responses: Responses,
    /// Every list of answers holds one that stands for itself; in dialect 0.4 some filters end the level of repeats.
    pub bare: bool,
    /// For each request, how many answers were replaced because nothing was found in them; empty for a filter that
    /// does not look for anything.
    pub fallbacks: Vec<u32>,
}

impl From<Responses> for Filtered {
    fn from(responses: Responses) -> Self {
        Self { responses, ..Self::default() }
    }
}

impl Filtered {
    /// Answers that stand for themselves.
    pub fn from_bare(values: Vec<Value>) -> Self {
        Self {
            responses: values.into_iter().map(|value| vec![value]).collect(),
            bare: true,
            fallbacks: Vec::new(),
        }
    }
}

//! Filters, which transform a model's answers before they are scored. One file each.
//!
//! A [`Filter`] processes the answers to many requests at once. A [`FilterEnsemble`] is a named chain of filters. The
//! registry creates filters from their names and keyword arguments, and checks those before anything is sent to a model.
//!
//! ```
//! use lmeval_scoring::filters::{FilterContext, FilterDocs, FilterSpec};
//! use lmeval_scoring::registry::Registry;
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
//! assert_eq!(outcome.audits[0].fallbacks, [vec![], vec![0]]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod arguments;
mod choice_letter;
mod custom;
mod docs;
mod ensemble;
mod error;
mod extract;
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
mod strings;
mod take_first;
mod take_first_k;
#[cfg(test)]
mod testing;
mod uppercase;

use std::fmt;

use lmeval_pycompat::Value;

pub use self::arguments::Arguments;

pub use self::docs::FilterDocs;
pub use self::ensemble::{EnsembleError, FilterEnsemble, Outcome, StepAudit};
pub use self::error::FilterError;

pub use self::noop::Noop;

pub use self::registry::FilterContext;
pub(crate) use self::registry::built_in;

pub use self::spec::{FilterFunction, FilterSpec};
pub use self::strings::StringFilter;
pub use self::take_first::TakeFirst;

pub use self::uppercase::UPPERCASE;

/// The answers to many requests: one list of repeats per request.
///
/// A generation is a string, a log-likelihood a tuple of a float and a bool; filters may turn them into anything.
pub type Responses = Vec<Vec<Value>>;

/// A step between a model's answers and their scores.
///
/// Filters keep no state between calls; calls come from several threads.
pub trait Filter: fmt::Debug + Send + Sync {
    /// Filters the answers to all requests of a task; the number and order of requests must not change.
    fn apply(&self, responses: Responses, docs: &FilterDocs<'_>) -> Result<Filtered, FilterError>;

    /// Filters unwrapped answers, without the level of repeats.
    ///
    /// They come from an earlier step in dialect 0.4, see [`Filtered::bare`]. By default each answer is iterated as
    /// in Python: a string becomes the list of its characters.
    fn apply_bare(&self, values: Vec<Value>, docs: &FilterDocs<'_>) -> Result<Filtered, FilterError> {
        self.apply(sequence::lists(values, docs)?, docs)
    }

    /// Whether the filter reads documents; true by default.
    fn needs_documents(&self) -> bool {
        true
    }

    /// Whether each request is filtered independently of the others; false by default.
    fn is_per_request(&self) -> bool {
        false
    }

    /// Whether the filter calls task code, which may keep state or be expensive, and is therefore called once per
    /// run.
    fn calls_task_code(&self) -> bool {
        false
    }
}

/// The output of a filter.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filtered {
    /// The filtered answers, in request order.
    pub responses: Responses,
    /// Whether every list holds a single unwrapped answer; in dialect 0.4, some filters remove the level of repeats.
    pub bare: bool,
    /// The indices of the answers replaced by a fallback, by request; empty for filters that do not extract anything.
    pub fallbacks: Vec<Vec<u32>>,
}

impl From<Responses> for Filtered {
    fn from(responses: Responses) -> Self {
        Self { responses, ..Self::default() }
    }
}

impl Filtered {
    /// Wraps bare answers.
    pub fn from_bare(values: Vec<Value>) -> Self {
        Self {
            responses: values.into_iter().map(|value| vec![value]).collect(),
            bare: true,
            fallbacks: Vec::new(),
        }
    }
}

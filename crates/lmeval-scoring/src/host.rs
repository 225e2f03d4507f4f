//! Code of tasks that runs outside this process, such as Python functions.

use std::fmt::Debug;
use std::sync::Arc;

use lmeval_pycompat::{Dict, Function, Value};

use crate::filters::{Filter, FilterDocs};
use crate::registry::{NameLookup, NameScope};
use crate::sampler::Sampler;
use crate::scorers::{HostAggregation, HostMetric, HostReduction, HostScorer, ScoreError, TaskCode};
use lmeval_core::ChatTemplate;
use lmeval_core::DatasetRequest;
use lmeval_core::{Diagnose, downcast_error};
use lmeval_core::{DocId, DocumentError, Documents, Splits};

/// The error of a call on a [`Host`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// No Python interpreter is available.
    #[error("The function `{function}` needs Python")]
    NeedsPython {
        /// The function as the task refers to it.
        function: String,
    },
    /// The function failed.
    #[error("The function `{function}` failed: {message}")]
    Failed {
        /// The function as the task refers to it.
        function: String,
        /// The message of the exception.
        message: String,
        /// The complete traceback, if there is one.
        traceback: Option<String>,
        /// A suggestion for fixing the problem, if one is known.
        hint: Option<String>,
    },
    /// The function was not called because another one, called at the same time, timed out. Report that failure instead;
    /// see [`HostError::is_abandoned`].
    #[error("The function `{function}` was not called because `{culprit}` timed out after {seconds} seconds")]
    Abandoned {
        /// The function as the task refers to it.
        function: String,
        /// The function that timed out.
        culprit: String,
        /// The timeout in seconds.
        seconds: f64,
    },
}

impl HostError {
    /// The error of a host without Python.
    pub fn needs_python(function: &Function) -> Self {
        Self::NeedsPython { function: display_reference(&function.reference) }
    }

    /// Finds the host error in an error's chain of sources.
    pub fn find<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a Self> {
        let mut next = Some(error);
        while let Some(error) = next {
            // `ScoreError::Host` repeats the message of the function's error and therefore omits it from its sources.
            if let Some(ScoreError::Host(found)) = downcast_error(error) {
                return Some(found);
            }
            if let Some(found) = downcast_error(error) {
                return Some(found);
            }
            next = error.source();
        }
        None
    }

    /// Whether the function was only skipped because another one timed out. Any other error of the same run is more
    /// informative.
    pub fn is_abandoned(&self) -> bool {
        matches!(self, Self::Abandoned { .. })
    }
}

impl Diagnose for HostError {
    fn hints(&self) -> Vec<String> {
        match self {
            Self::Failed { hint, .. } => hint.iter().cloned().collect(),
            _ => Vec::new(),
        }
    }

    fn traceback(&self) -> Option<&str> {
        match self {
            Self::Failed { traceback, .. } => traceback.as_deref(),
            _ => None,
        }
    }
}

/// Runs code that this crate cannot run itself: the Python functions and classes that tasks refer to.
///
/// Every method has a default that refuses with [`HostError::NeedsPython`], so an implementor provides only what it
/// supports. Calls come from several threads at once.
pub trait Host: Debug + Send + Sync {
    /// Calls a function with a document.
    fn call(&self, function: &Function, document: &Arc<Dict>) -> Result<Value, HostError> {
        let _ = document;
        Err(HostError::needs_python(function))
    }

    /// Calls a function with a document, and also returns the document if the function changed it.
    fn call_watched(
        &self,
        function: &Function,
        document: &Arc<Dict>,
    ) -> Result<(Value, Option<Dict>), HostError> {
        Ok((self.call(function, document)?, None))
    }

    /// Applies `process_docs` to a split.
    fn process_documents(
        &self,
        function: &Function,
        documents: Arc<dyn Documents>,
    ) -> Result<Arc<dyn Documents>, HostError> {
        let _ = documents;
        Err(HostError::needs_python(function))
    }

    /// Calls a function without arguments that returns documents.
    fn documents(&self, function: &Function) -> Result<Arc<dyn Documents>, HostError> {
        Err(HostError::needs_python(function))
    }

    /// Creates a sampler from a class and seeds its generator.
    fn sampler(&self, class: &Function, seed: Option<i64>) -> Result<Box<dyn Sampler>, HostError> {
        let _ = seed;
        Err(HostError::needs_python(class))
    }

    /// Builds the requests of a document with a task object: a dictionary of its requests (`instances`) and its
    /// `target`.
    fn class_requests(&self, object: &Function, call: &ClassCall<'_>) -> Result<Value, HostError> {
        let _ = call;
        Err(HostError::needs_python(object))
    }

    /// Filters the answers to all requests: returns one value per request.
    ///
    /// Each item of `responses` is the list of answers to a request or, in dialect 0.4 after `take_first`, one answer.
    fn call_filter(
        &self,
        function: &Function,
        responses: Vec<Value>,
        docs: &FilterDocs<'_>,
    ) -> Result<Vec<Value>, HostError> {
        let _ = (responses, docs);
        Err(HostError::needs_python(function))
    }

    /// Checks that a filter function can be called, before anything is sent to a model.
    fn check_filter(&self, function: &Function) -> Result<(), HostError> {
        Err(HostError::needs_python(function))
    }

    /// Creates a filter from a class.
    fn filter_of_class(&self, class: &Function, kwargs: &Dict) -> Result<Box<dyn Filter>, HostError> {
        let _ = kwargs;
        Err(HostError::needs_python(class))
    }

    /// Wraps a function as a metric.
    fn metric(&self, function: &Arc<Function>) -> Result<Arc<dyn HostMetric>, HostError> {
        Err(HostError::needs_python(function))
    }

    /// Wraps a function as an aggregation.
    fn aggregation(&self, function: &Arc<Function>) -> Result<Arc<dyn HostAggregation>, HostError> {
        Err(HostError::needs_python(function))
    }

    /// Wraps a function as a reduction.
    fn reduction(&self, function: &Arc<Function>) -> Result<Arc<dyn HostReduction>, HostError> {
        Err(HostError::needs_python(function))
    }

    /// Wraps a `process_results` function.
    fn process_results(&self, function: &Arc<Function>) -> Result<Arc<dyn TaskCode>, HostError> {
        Err(HostError::needs_python(function))
    }

    /// Creates a scorer from a class and the configuration of a pipeline: `name`, `metric_list`, `output_type` and
    /// `kwargs`.
    fn scorer(&self, class: &Arc<Function>, pipeline: &Dict) -> Result<Arc<dyn HostScorer>, HostError> {
        let _ = pipeline;
        Err(HostError::needs_python(class))
    }

    /// Whether plug-ins are loaded; the names they register take precedence over built-in ones.
    fn has_plugins(&self) -> bool {
        false
    }

    /// Looks up a name that Python code registered for a kind (`metric`, `aggregation`, `reduction`, `filter`, `scorer`,
    /// `sampler` or `model`). The default knows no names.
    fn find_registered(&self, kind: &str, name: &str, scope: &NameScope) -> Result<NameLookup, HostError> {
        let _ = (kind, name, scope);
        Ok(NameLookup::Unknown(Vec::new()))
    }
}

/// One document, handed to a Python task class to build requests from.
#[derive(Clone, Copy, Debug)]
pub struct ClassCall<'a> {
    /// The evaluated document.
    pub document: &'a Arc<Dict>,
    /// Its index in the split.
    pub doc_id: DocId,
    /// The rendered context; with `None` the object renders it.
    pub context: Option<&'a Value>,
    /// The few-shot examples drawn for it.
    pub examples: &'a [Arc<Dict>],
    /// The system prompt.
    pub system_instruction: Option<&'a str>,
    /// The model's chat template, if prompts are conversations.
    pub chat_template: Option<&'a dyn ChatTemplate>,
    /// Whether each example is a separate turn of the conversation.
    pub fewshot_as_multiturn: bool,
}

/// The splits of a dataset with their names.
#[derive(Clone, Debug)]
pub struct NamedSplits {
    /// The names, in the order of the dataset.
    pub names: Vec<String>,
    /// Gives access to the splits by name.
    pub splits: Arc<dyn Splits>,
}

/// Services that the engine offers to task code, the reverse direction of [`Host`]: a separate trait because the engine
/// implements it and hosts call it. Calls come from several threads at once.
pub trait HostServices: Debug + Send + Sync {
    /// Loads a dataset.
    fn dataset(&self, request: &DatasetRequest) -> Result<NamedSplits, DocumentError>;

    /// Renders a template with the fields of a document.
    fn render(&self, template: &str, document: &Dict) -> Result<String, DocumentError>;
}

/// A function reference as messages and results show it: class and method for a method of a task object, the bare name for
/// something that Python code registered.
///
/// ```
/// use lmeval_scoring::display_reference;
///
/// assert_eq!(display_reference("class:3:tasks.Mine/score"), "tasks.Mine.score");
/// assert_eq!(display_reference("registry:metric@aggregation/near"), "near");
/// assert_eq!(display_reference("utils.score"), "utils.score");
/// ```
pub fn display_reference(reference: &str) -> String {
    if let Some((_, name)) = reference.strip_prefix("registry:").and_then(|rest| rest.split_once('/')) {
        return name.to_owned();
    }
    match reference.strip_prefix("class:").and_then(|rest| rest.split_once(':')) {
        Some((_, path)) => path.replace('/', "."),
        None => reference.to_owned(),
    }
}

/// The host of a run without Python: refuses every call.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHost;

impl Host for NoHost {}

/// A function bound to the host that runs it.
#[derive(Clone, Debug)]
pub struct HostFn {
    function: Arc<Function>,
    host: Arc<dyn Host>,
}

impl HostFn {
    /// Binds a function to a host.
    pub fn new(function: Arc<Function>, host: Arc<dyn Host>) -> Self {
        Self { function, host }
    }

    /// The reference as the task file spells it.
    pub fn reference(&self) -> &str {
        &self.function.reference
    }

    /// Calls the function with a document.
    pub fn call(&self, document: &Arc<Dict>) -> Result<Value, HostError> {
        self.host.call(&self.function, document)
    }

    /// Calls the function with a document, and also returns the document if the function changed it.
    pub fn call_watched(&self, document: &Arc<Dict>) -> Result<(Value, Option<Dict>), HostError> {
        self.host.call_watched(&self.function, document)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_error_of_a_failed_aggregation() {
        let function = Function { reference: "utils.f".to_owned(), directory: String::new() };
        let source = Box::new(HostError::needs_python(&function));
        let (metric, aggregation) = ("m".to_owned(), "f".to_owned());
        let error = ScoreError::HostAggregation { metric, aggregation, source };
        assert!(
            matches!(HostError::find(&error), Some(HostError::NeedsPython { function }) if function == "utils.f")
        );
    }
}

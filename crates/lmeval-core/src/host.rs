//! Functions of a task that something outside of this program runs.

use std::fmt::Debug;
use std::sync::Arc;

use lmeval_pycompat::{Dict, Function, Value};

use crate::chat::ChatTemplate;
use crate::dataset::DatasetRequest;
use crate::diagnostic::{Diagnose, as_known};
use crate::document::{DocId, DocumentError, Documents, Splits};
use crate::registry::RegisteredHost;
use crate::sampler::Sampler;
use crate::scorers::ScoreError;

/// Why a function gave no value.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// There is nothing that runs Python.
    #[error("The function `{function}` needs Python")]
    NeedsPython {
        /// The function, as the task names it.
        function: String,
    },
    /// The function failed.
    #[error("The function `{function}` failed: {message}")]
    Failed {
        /// The function, as the task names it.
        function: String,
        /// What it says.
        message: String,
        /// The whole traceback, where there is one.
        traceback: Option<String>,
    },
    /// The function was not called, because another one that ran at the same time gave no answer. That one is the
    /// failure to report; see [`HostError::is_abandoned`].
    #[error(
        "The function `{function}` was not called, because `{culprit}` gave no answer within {seconds} seconds"
    )]
    Abandoned {
        /// The function, as the task names it.
        function: String,
        /// The function that gave no answer.
        culprit: String,
        /// How long it was waited for.
        seconds: f64,
    },
}

impl HostError {
    /// The error of a function that nothing can run.
    pub fn needs_python(function: &Function) -> Self {
        Self::NeedsPython { function: shown_reference(&function.reference) }
    }

    /// The failure of a function among an error and its sources.
    pub fn find<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a Self> {
        let mut next = Some(error);
        while let Some(error) = next {
            // The message of a scoring error may be that of the function, which is then none of its sources.
            if let Some(ScoreError::Host(found)) = as_known(error) {
                return Some(found);
            }
            if let Some(found) = as_known(error) {
                return Some(found);
            }
            next = error.source();
        }
        None
    }

    /// Whether this only says that the function was not called because another one gave no answer. Any other error of the
    /// same run says more.
    pub fn is_abandoned(&self) -> bool {
        matches!(self, Self::Abandoned { .. })
    }
}

impl Diagnose for HostError {
    fn traceback(&self) -> Option<&str> {
        match self {
            Self::Failed { traceback, .. } => traceback.as_deref(),
            _ => None,
        }
    }
}

/// Something that runs the functions that tasks refer to.
///
/// Calls come from several threads at once.
pub trait FunctionHost: Debug + Send + Sync {
    /// The function's value for a document.
    fn call(&self, function: &Function, document: &Arc<Dict>) -> Result<Value, HostError>;

    /// The function's value for a document, and the document where the function has changed it.
    fn call_watched(
        &self,
        function: &Function,
        document: &Arc<Dict>,
    ) -> Result<(Value, Option<Dict>), HostError> {
        Ok((self.call(function, document)?, None))
    }

    /// The documents that the function makes of a split.
    fn process_documents(
        &self,
        function: &Function,
        documents: Arc<dyn Documents>,
    ) -> Result<Arc<dyn Documents>, HostError>;

    /// The documents that the function, which takes no arguments, gives.
    fn documents(&self, function: &Function) -> Result<Arc<dyn Documents>, HostError>;

    /// The sampler of a class, whose generator starts from a seed.
    fn sampler(&self, class: &Function, seed: Option<i64>) -> Result<Box<dyn Sampler>, HostError>;

    /// What knows the names that Python code has registered.
    fn registered_names(&self) -> &dyn RegisteredHost {
        &NoHost
    }

    /// What the object of a task's class makes of a document: a dictionary with its requests (`instances`) and its
    /// `target`.
    fn class_requests(&self, object: &Function, call: &ClassCall<'_>) -> Result<Value, HostError> {
        let _ = call;
        Err(HostError::needs_python(object))
    }
}

/// A document that the object of a task's class makes requests of.
#[derive(Clone, Copy, Debug)]
pub struct ClassCall<'a> {
    /// The document.
    pub document: &'a Arc<Dict>,
    /// Its number.
    pub doc_id: DocId,
    /// Its context; `None` lets the object make it.
    pub context: Option<&'a Value>,
    /// The examples that were drawn for it.
    pub examples: &'a [Arc<Dict>],
    /// Text before everything else.
    pub system_instruction: Option<&'a str>,
    /// The chat template of the model, where prompts are conversations.
    pub chat_template: Option<&'a dyn ChatTemplate>,
    /// Whether, in a conversation, each example is a turn of its own.
    pub fewshot_as_multiturn: bool,
}

/// The splits of a data set with their names.
#[derive(Clone, Debug)]
pub struct NamedSplits {
    /// The names, in order.
    pub names: Vec<String>,
    /// The splits.
    pub splits: Arc<dyn Splits>,
}

/// What code of a task can ask of the program that runs it.
///
/// Questions come from several threads at once.
pub trait HostServices: Debug + Send + Sync {
    /// Loads a data set.
    fn dataset(&self, request: &DatasetRequest) -> Result<NamedSplits, DocumentError>;

    /// Fills a template with the fields of a document.
    fn render(&self, template: &str, document: &Dict) -> Result<String, DocumentError>;
}

/// A reference as messages and results show it: of a method of a task's object, the class and the method; of what Python
/// code registers, its name.
///
/// ```
/// use lmeval_core::shown_reference;
///
/// assert_eq!(shown_reference("class:3:tasks.Mine/score"), "tasks.Mine.score");
/// assert_eq!(shown_reference("registry:metric@aggregation/near"), "near");
/// assert_eq!(shown_reference("utils.score"), "utils.score");
/// ```
pub fn shown_reference(reference: &str) -> String {
    if let Some((_, name)) = reference.strip_prefix("registry:").and_then(|rest| rest.split_once('/')) {
        return name.to_owned();
    }
    match reference.strip_prefix("class:").and_then(|rest| rest.split_once(':')) {
        Some((_, path)) => path.replace('/', "."),
        None => reference.to_owned(),
    }
}

/// The host of a run without Python: every function is an error that says so.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHost;

impl FunctionHost for NoHost {
    fn call(&self, function: &Function, _: &Arc<Dict>) -> Result<Value, HostError> {
        Err(HostError::needs_python(function))
    }

    fn process_documents(
        &self,
        function: &Function,
        _: Arc<dyn Documents>,
    ) -> Result<Arc<dyn Documents>, HostError> {
        Err(HostError::needs_python(function))
    }

    fn documents(&self, function: &Function) -> Result<Arc<dyn Documents>, HostError> {
        Err(HostError::needs_python(function))
    }

    fn sampler(&self, class: &Function, _: Option<i64>) -> Result<Box<dyn Sampler>, HostError> {
        Err(HostError::needs_python(class))
    }
}

/// A function together with what runs it.
#[derive(Clone, Debug)]
pub struct HostFn {
    function: Arc<Function>,
    host: Arc<dyn FunctionHost>,
}

impl HostFn {
    /// A handle.
    pub fn new(function: Arc<Function>, host: Arc<dyn FunctionHost>) -> Self {
        Self { function, host }
    }

    /// The reference, as the task writes it.
    pub fn reference(&self) -> &str {
        &self.function.reference
    }

    /// The function's value for a document.
    pub fn call(&self, document: &Arc<Dict>) -> Result<Value, HostError> {
        self.host.call(&self.function, document)
    }

    /// The function's value for a document, and the document where the function has changed it.
    pub fn call_watched(&self, document: &Arc<Dict>) -> Result<(Value, Option<Dict>), HostError> {
        self.host.call_watched(&self.function, document)
    }
}

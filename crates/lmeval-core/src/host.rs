//! Functions of a task that something outside of this program runs.

use std::fmt::Debug;
use std::sync::Arc;

use lmeval_pycompat::{Dict, Function, Value};

use crate::document::Documents;
use crate::sampler::Sampler;

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
}

impl HostError {
    /// The error of a function that nothing can run.
    pub fn needs_python(function: &Function) -> Self {
        Self::NeedsPython { function: function.reference.clone() }
    }
}

/// Something that runs the functions that tasks refer to.
///
/// Calls come from several threads at once.
pub trait FunctionHost: Debug + Send + Sync {
    /// The function's value for a document.
    fn call(&self, function: &Function, document: &Arc<Dict>) -> Result<Value, HostError>;

    /// The documents that the function makes of a split.
    fn process_documents(
        &self,
        function: &Function,
        documents: Arc<dyn Documents>,
    ) -> Result<Arc<dyn Documents>, HostError>;

    /// The documents that the function, which takes no arguments, gives.
    fn documents(&self, function: &Function) -> Result<Arc<dyn Documents>, HostError>;

    /// The sampler of a class.
    fn sampler(&self, class: &Function) -> Result<Box<dyn Sampler>, HostError>;
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

    fn sampler(&self, class: &Function) -> Result<Box<dyn Sampler>, HostError> {
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
}

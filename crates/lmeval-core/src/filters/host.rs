//! Filters that something outside of this program runs.

use std::fmt;

use lmeval_pycompat::{Dict, Function, Value};

use super::{Filter, FilterDocs};
use crate::host::{HostError, NoHost};

/// Something that runs the filters that are Python code of a task.
pub trait FilterHost: fmt::Debug + Send + Sync {
    /// What a function makes of the answers to all requests: one value for each request.
    ///
    /// Each request comes as the list of its answers, or, in dialect 0.4 after `take_first`, as the answer.
    fn call_filter(
        &self,
        function: &Function,
        responses: Vec<Value>,
        docs: &FilterDocs<'_>,
    ) -> Result<Vec<Value>, HostError>;

    /// Whether a function can be called at all, asked before anything is sent to a model.
    fn check_filter(&self, function: &Function) -> Result<(), HostError> {
        let _ = function;
        Ok(())
    }

    /// A filter that is an object of a Python class.
    fn filter_of_class(&self, class: &Function, kwargs: &Dict) -> Result<Box<dyn Filter>, HostError>;
}

impl FilterHost for NoHost {
    fn call_filter(
        &self,
        function: &Function,
        _: Vec<Value>,
        _: &FilterDocs<'_>,
    ) -> Result<Vec<Value>, HostError> {
        Err(HostError::needs_python(function))
    }

    fn check_filter(&self, function: &Function) -> Result<(), HostError> {
        Err(HostError::needs_python(function))
    }

    fn filter_of_class(&self, class: &Function, _: &Dict) -> Result<Box<dyn Filter>, HostError> {
        Err(HostError::needs_python(class))
    }
}

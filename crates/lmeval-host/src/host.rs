//! Host functions for prompts and data.

use std::sync::Arc;

use lmeval_core::{Documents, MemoryDocuments, MemorySplits, Splits};
use lmeval_pycompat::{Dict, Function, Value};
use lmeval_scoring::filters::{Filter, FilterDocs};
use lmeval_scoring::judge::Judges;
use lmeval_scoring::registry::{NameLookup, NameScope};
use lmeval_scoring::sampler::Sampler;
use lmeval_scoring::scorers::{HostAggregation, HostMetric, HostReduction, HostScorer, TaskCode};
use lmeval_scoring::{ClassCall, Host, HostError, HostServices};

use crate::class_task;
use crate::filters::{ClassFilter, filter};
use crate::message::{Message, failed, wrong_type};
use crate::options::PythonOptions;
use crate::pool::Pool;
use crate::protocol::encode_dict;
use crate::registered::{self, ClassScorer};
use crate::sampler::PythonSampler;

/// Runs the Python functions of tasks in worker processes.
///
/// Workers are started on the first call and end with the host.
#[derive(Debug)]
pub struct PythonHost {
    pub(crate) pool: Arc<Pool>,
}

impl PythonHost {
    /// Creates a host without starting workers.
    pub fn new(options: PythonOptions) -> Arc<Self> {
        Arc::new(Self { pool: Arc::new(Pool::new(options)) })
    }

    /// Gives Python code access to datasets and rendered templates.
    pub fn set_services(&self, services: Arc<dyn HostServices>) {
        self.pool.services.set_engine(services);
    }

    /// Gives scorers in Python the judges of a run; `None` takes them away.
    pub fn set_judges(&self, judges: Option<Arc<dyn Judges>>) {
        self.pool.services.set_judges(judges);
    }

    /// Imports a function and checks that it is callable.
    pub fn check(&self, function: &Function) -> Result<(), HostError> {
        Message::new("load", function).ask_once(&self.pool).map(drop)
    }

    /// The splits returned by a `custom_dataset` function.
    pub fn custom_dataset(&self, function: &Function, kwargs: &Dict) -> Result<Arc<dyn Splits>, HostError> {
        let answer = Message::new("splits", function).with_dict("kwargs", kwargs).ask_once(&self.pool)?;
        let Value::Dict(splits) = &answer else {
            return Err(wrong_type(function, "a dictionary of splits", &answer));
        };
        let mut known = MemorySplits::new();
        for (name, split) in splits.iter() {
            known = known.with(lmeval_pycompat::repr::str(name), documents(function, split)?);
        }
        Ok(Arc::new(known))
    }
}

/// The documents of an answer.
fn documents(function: &Function, answer: &Value) -> Result<MemoryDocuments, HostError> {
    let part = |name: &str| answer.as_dict().and_then(|answer| answer.get_str(name)).and_then(Value::as_list);
    let (Some(columns), Some(rows)) = (part("columns"), part("documents")) else {
        return Err(wrong_type(function, "documents", answer));
    };
    let columns = columns.iter().filter_map(Value::as_str).map(str::to_owned).collect();
    let rows = rows.iter().map(|row| match row {
        Value::Dict(row) => Ok(Arc::clone(row)),
        other => Err(wrong_type(function, "documents that are dictionaries", other)),
    });
    Ok(MemoryDocuments::with_columns(columns, rows.collect::<Result<_, _>>()?))
}

/// The message that calls a function with one document.
fn call<'a>(function: &'a Function, document: &Arc<Dict>) -> Message<'a> {
    Message::new("call", function).with_list("calls", [document], |text, document| {
        text.push('[');
        encode_dict(text, document)?;
        text.push(']');
        Ok(())
    })
}

impl Host for PythonHost {
    fn call(&self, function: &Function, document: &Arc<Dict>) -> Result<Value, HostError> {
        let answers = call(function, document).ask(&self.pool, 1, |_| Some(document))?;
        Ok(answers.into_iter().next().unwrap_or_default())
    }

    fn call_watched(
        &self,
        function: &Function,
        document: &Arc<Dict>,
    ) -> Result<(Value, Option<Dict>), HostError> {
        let message = call(function, document).with("watch", &Value::Bool(true));
        let answer = message.ask(&self.pool, 1, |_| Some(document))?.into_iter().next().unwrap_or_default();
        match answer.as_list() {
            Some([value]) => Ok((value.clone(), None)),
            Some([value, Value::Dict(changed)]) => Ok((value.clone(), Some(Dict::clone(changed)))),
            _ => Err(wrong_type(function, "a value with its document", &answer)),
        }
    }

    fn process_documents(
        &self,
        function: &Function,
        given: Arc<dyn Documents>,
    ) -> Result<Arc<dyn Documents>, HostError> {
        let columns = Value::list(given.columns().iter().map(|name| Value::str(name.as_str())));
        let features = Value::from(given.features());
        let rows = (0..given.len())
            .map(|index| given.get(index))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| failed(function, format!("Cannot read the documents: {error}")))?;
        let message = Message::new("process_docs", function)
            .with("columns", &columns)
            .with("features", &features)
            .with_list("documents", &rows, |text, row| encode_dict(text, row));
        drop(rows);
        let answer = message.ask_once(&self.pool)?;
        Ok(Arc::new(documents(function, &answer)?))
    }

    fn documents(&self, function: &Function) -> Result<Arc<dyn Documents>, HostError> {
        let answer = Message::new("documents", function).ask_once(&self.pool)?;
        Ok(Arc::new(documents(function, &answer)?))
    }

    fn sampler(&self, class: &Function, seed: Option<i64>) -> Result<Box<dyn Sampler>, HostError> {
        Ok(Box::new(PythonSampler::new(class, seed, &self.pool)?))
    }

    fn class_requests(&self, object: &Function, call: &ClassCall<'_>) -> Result<Value, HostError> {
        class_task::requests(&self.pool, object, call)
    }
    fn call_filter(
        &self,
        function: &Function,
        responses: Vec<Value>,
        docs: &FilterDocs<'_>,
    ) -> Result<Vec<Value>, HostError> {
        filter(Message::new("filter", function), &self.pool, function, &responses, docs)
    }

    fn check_filter(&self, function: &Function) -> Result<(), HostError> {
        self.check(function)
    }

    fn filter_of_class(&self, class: &Function, kwargs: &Dict) -> Result<Box<dyn Filter>, HostError> {
        Ok(Box::new(ClassFilter::new(class, kwargs, &self.pool)?))
    }

    fn metric(&self, function: &Arc<Function>) -> Result<Arc<dyn HostMetric>, HostError> {
        Ok(Arc::new(self.scoring(function)?))
    }

    fn aggregation(&self, function: &Arc<Function>) -> Result<Arc<dyn HostAggregation>, HostError> {
        Ok(Arc::new(self.scoring(function)?))
    }

    fn reduction(&self, function: &Arc<Function>) -> Result<Arc<dyn HostReduction>, HostError> {
        Ok(Arc::new(self.scoring(function)?))
    }

    fn process_results(&self, function: &Arc<Function>) -> Result<Arc<dyn TaskCode>, HostError> {
        Ok(Arc::new(self.scoring(function)?))
    }

    fn scorer(&self, class: &Arc<Function>, pipeline: &Dict) -> Result<Arc<dyn HostScorer>, HostError> {
        Ok(Arc::new(ClassScorer::new(class, pipeline, &self.pool)?))
    }

    fn has_plugins(&self) -> bool {
        self.pool.has_plugins()
    }

    fn find_registered(&self, kind: &str, name: &str, scope: &NameScope) -> Result<NameLookup, HostError> {
        registered::find(&self.pool, kind, name, scope)
    }
}

//! The metrics of a pipeline with their options bound, and the calls of task functions.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use lmeval_metrics::{BoundMetric, LLResults, MetricError, MetricInput};
use lmeval_pycompat::{Dict, Value};

use super::error::ScoreError;
use super::input::ScoringInput;
use super::ll_scorer::UNRESOLVED;
use super::metric::{MetricFunction, PipelineMetric, text_keys};
use super::scored::Scores;
use super::task_code::HostMetric;
use lmeval_core::DocId;
use lmeval_core::OutputType;

/// The metrics of a pipeline with their options bound once per task, so that patterns are compiled only once.
pub struct BoundMetrics<'a> {
    metrics: &'a [PipelineMetric],
    context: &'a Dict,
    /// Options carried by the requests, normally identical for all requests of a task.
    request_kwargs: Option<Arc<Dict>>,
    bound: Arc<[Bound]>,
    /// For each value name returned by a task function, the index of the metric it belongs to.
    owners: Mutex<Vec<(Arc<str>, usize)>>,
    /// Results of batched task functions, by metric index and document.
    ready: OnceLock<HashMap<(usize, DocId), Value>>,
    /// The values, by metric index and returned name, whose lists are one value per document instead of one value per
    /// answer.
    single_values: OnceLock<HashSet<(usize, Option<Arc<str>>)>>,
    known: Vec<KnownValue>,
}

/// The result of a task function for a document that was checked early, so that the function is called only once.
#[derive(Debug)]
pub(super) struct KnownValue {
    /// The index of the metric.
    metric: usize,
    document: DocId,
    call: (Value, Value),
    kwargs: Dict,
    value: Value,
}

/// A metric with its options bound.
pub(super) enum Bound {
    Registered(BoundMetric),
    Host(Arc<dyn HostMetric>, Dict),
    Placeholder,
    Pair,
}

impl fmt::Debug for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Registered(_) => "Registered",
            Self::Host(..) => "Host",
            Self::Placeholder => "Placeholder",
            Self::Pair => "Pair",
        })
    }
}

impl fmt::Debug for BoundMetrics<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BoundMetrics").field(&self.metrics).finish()
    }
}

impl<'a> BoundMetrics<'a> {
    /// Takes metrics that are [bound](bind) to the options of the task and its requests.
    pub(super) fn new(
        metrics: &'a [PipelineMetric],
        context: &'a Dict,
        request_kwargs: Option<Arc<Dict>>,
        bound: Arc<[Bound]>,
        known: Vec<KnownValue>,
    ) -> Self {
        Self {
            metrics,
            context,
            request_kwargs,
            bound,
            owners: Mutex::default(),
            ready: OnceLock::new(),
            single_values: OnceLock::new(),
            known,
        }
    }

    /// The metrics in configuration order.
    pub fn metrics(&self) -> &'a [PipelineMetric] {
        self.metrics
    }

    /// Keyword arguments passed to every metric, overriding its configuration.
    pub fn context(&self) -> &'a Dict {
        self.context
    }

    pub(super) fn into_owners(self) -> Vec<(Arc<str>, usize)> {
        self.owners.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls the task functions for all documents in one batch, which is much cheaper than one call per document.
    ///
    /// Calls nothing if a document has no inputs for them: scoring that document reports the error.
    pub(super) fn prepare(&self, inputs: &[ScoringInput<'_>]) -> Result<(), ScoreError> {
        let mut ready = HashMap::new();
        let mut single_values = HashSet::new();
        for (index, bound) in self.bound.iter().enumerate() {
            let Bound::Host(function, kwargs) = bound else { continue };
            let usual: Vec<_> = inputs.iter().filter(|input| self.has_bound_kwargs(input)).collect();
            let calls: Result<Vec<_>, ScoreError> = usual
                .iter()
                .map(|input| input.with_metric_input(|given| host_arguments(input, given)))
                .collect();
            let Ok(mut calls) = calls else { return Ok(()) };
            let known: Vec<Option<&Value>> = usual
                .iter()
                .zip(&calls)
                .map(|(input, call)| self.known_value(index, input.doc_id(), call, kwargs))
                .collect();
            let mut calls_known = known.iter();
            calls.retain(|_| calls_known.next().is_some_and(Option::is_none));
            let called: Vec<DocId> = usual
                .iter()
                .zip(&known)
                .filter(|(_, known)| known.is_none())
                .map(|(input, _)| input.doc_id())
                .collect();
            let new = if calls.is_empty() { Ok(Vec::new()) } else { function.compute_many(&calls, kwargs) };
            let mut new = new
                .map_err(|(failed, source)| ScoreError::HostOnDocument { document: called[failed], source })?
                .into_iter();
            let values: Vec<Value> =
                known.into_iter().filter_map(|known| known.cloned().or_else(|| new.next())).collect();
            for (input, value) in usual.iter().zip(&values) {
                single_values.extend(self.single_value_lists(index, value, input));
            }
            ready.extend(usual.iter().zip(values).map(|(input, value)| ((index, input.doc_id()), value)));
        }
        // Set only here.
        let _ = self.ready.set(ready);
        let _ = self.single_values.set(single_values);
        Ok(())
    }

    fn known_value(
        &self,
        metric: usize,
        document: DocId,
        call: &(Value, Value),
        kwargs: &Dict,
    ) -> Option<&Value> {
        let is_same = |known: &&KnownValue| {
            known.metric == metric
                && known.document == document
                && known.call == *call
                && known.kwargs == *kwargs
        };
        self.known.iter().find(is_same).map(|known| &known.value)
    }

    /// The results of task functions for documents that [`BoundMetrics::prepare`] has handled.
    pub(super) fn known_values(&self, inputs: &[ScoringInput<'_>]) -> Vec<KnownValue> {
        let Some(ready) = self.ready.get() else { return Vec::new() };
        let mut values = Vec::new();
        for (metric, bound) in self.bound.iter().enumerate() {
            let Bound::Host(_, kwargs) = bound else { continue };
            for input in inputs {
                let document = input.doc_id();
                let call = input.with_metric_input(|given| host_arguments(input, given));
                if let (Some(value), Ok(call)) = (ready.get(&(metric, document)), call) {
                    let (kwargs, value) = (kwargs.clone(), value.clone());
                    values.push(KnownValue { metric, document, call, kwargs, value });
                }
            }
        }
        values
    }

    /// The names under which a task function returned a list that is a single value.
    ///
    /// A list with one item per answer, or with exactly one item, holds values per answer. Any other list is a single
    /// value. With one answer, so is a list that a `!function` metric passes to an aggregation of the task, as in the
    /// 0.4 line. Registered functions return one value per answer. The decision for one document applies to all.
    fn single_value_lists(
        &self,
        index: usize,
        value: &Value,
        input: &ScoringInput<'_>,
    ) -> Vec<(usize, Option<Arc<str>>)> {
        let answers = input.predictions().map_or(1, <[Value]>::len);
        let metric = &self.metrics[index];
        let keeps_lists = metric.is_by_reference || input.dialect.scoring.results_per_request;
        let by_task = answers == 1 && keeps_lists && metric.is_aggregated_by_task();
        let is_single_value = |list: &[Value], by_task: bool| by_task || ![1, answers].contains(&list.len());
        match value {
            Value::List(items) if is_single_value(items, by_task) => vec![(index, None)],
            Value::Dict(named) => named
                .iter()
                .filter_map(|(key, value)| match (key, value) {
                    // Reference: the 0.4 line keeps all lists; in 0.5, dictionaries hold lists of values per answer.
                    (Value::Str(key), Value::List(items))
                        if is_single_value(items, by_task && input.dialect.scoring.results_per_request) =>
                    {
                        Some((index, Some(Arc::clone(key))))
                    }
                    _ => None,
                })
                .collect(),
            _ => Vec::new(),
        }
    }

    /// Whether the document's requests carry the options that the metrics are bound to.
    fn has_bound_kwargs(&self, input: &ScoringInput<'_>) -> bool {
        match (input.metric_kwargs(), &self.request_kwargs) {
            (Some(ours), Some(known)) => Arc::ptr_eq(ours, known) || ours == known,
            (None, None) => true,
            _ => false,
        }
    }

    /// Computes all metrics of a document.
    pub(super) fn compute(
        &self,
        input: &ScoringInput<'_>,
        given: MetricInput<'_>,
    ) -> Result<Scores<Vec<Value>>, ScoreError> {
        let own;
        let bound = if self.has_bound_kwargs(input) {
            &self.bound
        } else {
            own = bind(self.metrics, self.context, input.metric_kwargs())?;
            &own
        };
        let mut scores = Scores::new();
        for (index, (metric, bound)) in self.metrics.iter().zip(&**bound).enumerate() {
            self.compute_one(index, metric, bound, input, given, &mut scores)?;
        }
        Ok(scores)
    }

    fn compute_one(
        &self,
        index: usize,
        metric: &PipelineMetric,
        bound: &Bound,
        input: &ScoringInput<'_>,
        given: MetricInput<'_>,
        scores: &mut Scores<Vec<Value>>,
    ) -> Result<(), ScoreError> {
        let name = &metric.name;
        match bound {
            Bound::Registered(_) if is_unresolved(given) && is_skipped(metric, input) => {}
            Bound::Registered(function) => match call(function, name, input, given) {
                Ok(values) => scores.insert(Arc::clone(name), values),
                Err(source) if is_unresolved(given) && has_no_value(&source) => {}
                Err(source) => {
                    let metric = name.to_string();
                    return Err(ScoreError::Metric { metric, document: input.doc_id(), source });
                }
            },
            Bound::Host(function, kwargs) => {
                let document = input.doc_id();
                let ready = self.ready.get().and_then(|ready| ready.get(&(index, document)));
                let value = match ready {
                    Some(value) => value.clone(),
                    None => {
                        let (references, predictions) = host_arguments(input, given);
                        let value = function.compute(&references, &predictions, kwargs);
                        value.map_err(|source| ScoreError::HostOnDocument { document, source })?
                    }
                };
                self.insert_host_value(index, value, input, scores)?;
            }
            Bound::Placeholder => return Err(ScoreError::NoFunction { metric: name.to_string() }),
            Bound::Pair => {
                let (references, predictions) = given.generation().map_err(|source| ScoreError::Metric {
                    metric: name.to_string(),
                    document: input.doc_id(),
                    source,
                })?;
                let pair =
                    [references.first(), predictions.first()].map(|part| part.cloned().unwrap_or_default());
                scores.insert(Arc::clone(name), vec![Value::list(pair)]);
            }
        }
        Ok(())
    }

    /// Stores the result of a task function: a dictionary by its keys, anything else under the metric's name.
    fn insert_host_value(
        &self,
        index: usize,
        value: Value,
        input: &ScoringInput<'_>,
        scores: &mut Scores<Vec<Value>>,
    ) -> Result<(), ScoreError> {
        let own = self.single_value_lists(index, &value, input);
        let is_single_value = |name: Option<&Arc<str>>| {
            let key = (index, name.cloned());
            own.contains(&key)
                || self.single_values.get().is_some_and(|single_values| single_values.contains(&key))
        };
        let values = |name: Option<&Arc<str>>, value: Value| match (value, input.output_type) {
            (Value::List(items), OutputType::GenerateUntil) if !is_single_value(name) => items.to_vec(),
            (value, _) => vec![value],
        };
        let Value::Dict(named) = &value else {
            scores.insert(Arc::clone(&self.metrics[index].name), values(None, value));
            return Ok(());
        };
        for (key, value) in text_keys(named, input.doc_id())? {
            if !self.metrics.iter().any(|metric| metric.name == key) {
                let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
                if !owners.iter().any(|(known, _)| *known == key) {
                    owners.push((Arc::clone(&key), index));
                }
            }
            let values = values(Some(&key), value);
            scores.insert(key, values);
        }
        Ok(())
    }
}

/// Binds metrics to the options of the task and its requests, which compiles their patterns.
pub(super) fn bind(
    metrics: &[PipelineMetric],
    context: &Dict,
    request_kwargs: Option<&Arc<Dict>>,
) -> Result<Arc<[Bound]>, ScoreError> {
    let bound = metrics.iter().map(|metric| {
        let mut kwargs = metric.kwargs.clone();
        kwargs.update(context);
        if let Some(own) = request_kwargs {
            kwargs.update(own);
        }
        Ok(match &metric.function {
            MetricFunction::Registered(function) => Bound::Registered(
                function
                    .bind(&kwargs)
                    .map_err(|source| ScoreError::Options { metric: metric.name.to_string(), source })?,
            ),
            MetricFunction::Host(function) => Bound::Host(Arc::clone(function), kwargs),
            MetricFunction::Placeholder => Bound::Placeholder,
            MetricFunction::Pair => Bound::Pair,
        })
    });
    bound.collect()
}

fn call(
    function: &BoundMetric,
    name: &str,
    input: &ScoringInput<'_>,
    given: MetricInput<'_>,
) -> Result<Vec<Value>, MetricError> {
    let MetricInput::Likelihood { reference, results } = given else { return function(given) };
    let alone = input.output_type == OutputType::MultipleChoice && results.lls.len() == 1 && name == "acc";
    if !(alone && input.dialect.scoring.single_option_by_argmax) {
        return function(given);
    }
    // Add a second option that is never the most likely, so that the metric compares options instead of testing
    // whether the only one is greedy.
    let mut results = results.clone();
    results.lls.push(f64::NEG_INFINITY);
    results.is_greedy.push(false);
    function(MetricInput::Likelihood { reference, results: &results })
}

/// Whether the target is not among the options.
fn is_unresolved(given: MetricInput<'_>) -> bool {
    matches!(given, MetricInput::Likelihood { reference, .. } if *reference == Value::Int(UNRESOLVED))
}

/// Whether a corpus metric skips documents whose target is not among the options.
fn is_skipped(metric: &PipelineMetric, input: &ScoringInput<'_>) -> bool {
    !input.dialect.scoring.unresolved_is_label && metric.needs_corpus
}

/// Whether a metric failed because an unresolved target has no option.
fn has_no_value(error: &MetricError) -> bool {
    matches!(error, MetricError::IndexOutOfRange { .. })
}

/// The arguments of a metric that is a task function.
fn host_arguments(input: &ScoringInput<'_>, given: MetricInput<'_>) -> (Value, Value) {
    match given {
        MetricInput::Generation { references, predictions } => {
            let predictions = Value::list(predictions.iter().cloned());
            let several = input.dialect.scoring.results_per_request
                && predictions.as_list().is_some_and(|list| list.len() > 1);
            (
                Value::list(references.iter().cloned()),
                if several { Value::list([predictions]) } else { predictions },
            )
        }
        MetricInput::Likelihood { reference, results } => (reference.clone(), to_dict(results)),
    }
}

/// A document's log-likelihoods as task functions receive them: a dictionary of the fields.
fn to_dict(results: &LLResults) -> Value {
    let numbers = |numbers: &[f64]| Value::list(numbers.iter().copied().map(Value::Float));
    let texts = |texts: &[String]| Value::list(texts.iter().map(|text| Value::str(text.as_str())));
    Value::dict([
        ("lls", numbers(&results.lls)),
        ("is_greedy", Value::list(results.is_greedy.iter().copied().map(Value::Bool))),
        ("targets", results.targets.clone()),
        ("ctx", Value::str(results.ctx.as_str())),
        ("choices", texts(&results.choices)),
        ("lls_mutual_info", numbers(&results.lls_mutual_info)),
        ("metadata", Value::from(results.metadata.clone())),
        ("option_texts", texts(&results.option_texts)),
    ])
}

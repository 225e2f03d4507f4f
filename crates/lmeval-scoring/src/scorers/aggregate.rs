//! Aggregation of document values into scores and standard errors.

use std::sync::{Arc, Mutex, PoisonError};

use lmeval_metrics::{
    AnyAggregation, MetricError, Number, Resample, bootstrap_plan, sample_stddev, stderr_for_metric,
};
use lmeval_pycompat::Value;

use super::bounds::{Bounds, ScoreBounds, Unfinished, is_bounded};
use super::error::ScoreError;
use super::metric::{MetricAggregation, MetricFunction, MetricReduction, PipelineMetric};
use super::metric_key::MetricKey;
use super::pipeline::ScoringPipeline;
use super::scored::ReducedDoc;
use super::task_code::{HostAggregation, TaskCode};
use crate::host::HostError;
use crate::registry::Registry;

/// The maximum number of bootstrap resamples for string-based corpus metrics in the 0.4 line.
const LEGACY_STRING_RESAMPLES: i64 = 100;

/// The scores of a pipeline or task.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Aggregated {
    /// Scores, each followed by its standard error.
    pub metrics: Vec<(MetricKey, Value)>,
    /// The largest number of documents with a value of one metric.
    pub sample_len: usize,
    /// The bounds of scores if answers are unfinished.
    pub bounds: ScoreBounds,
    /// Warnings about metrics without an aggregation, and metrics that some documents lack.
    pub warnings: Vec<String>,
}

impl Aggregated {
    /// Adds the scores of another pipeline; an existing key keeps its position and gets the new value.
    pub(super) fn merge(&mut self, other: Self) {
        for (key, value) in other.metrics {
            match self.metrics.iter_mut().find(|(known, _)| *known == key) {
                Some((_, old)) => *old = value,
                None => self.metrics.push((key, value)),
            }
        }
        self.sample_len = self.sample_len.max(other.sample_len);
        self.bounds.retain(|(key, _)| !other.bounds.iter().any(|(later, _)| later == key));
        self.bounds.extend(other.bounds);
        self.warnings.extend(other.warnings);
    }
}

impl ScoringPipeline {
    /// Aggregates the pipeline's values. Standard errors are omitted if `bootstrap_iters` is zero or negative.
    pub fn aggregate(
        &self,
        bootstrap_iters: i64,
        code: Option<&Arc<dyn TaskCode>>,
    ) -> Result<Aggregated, ScoreError> {
        if let Some(own) = self.scorer().aggregate(self.reduced_docs(), bootstrap_iters)? {
            return Ok(own);
        }
        let mut aggregated = Aggregated::default();
        let mut counts = Vec::new();
        let delivered = self.scorer().delivered();
        for (name, values) in transpose(self.reduced_docs()) {
            let key = MetricKey::new(Arc::clone(&name), Arc::clone(self.name()));
            let metric = self.metric_of(&name);
            let used = match self.aggregation_of(&name, code) {
                Some(used) => used,
                None if delivered.iter().any(|(own, _)| *own == name) => {
                    MetricAggregation::Registered(mean()?)
                }
                None => {
                    let warning = format!("`{key}` has no aggregation; using the mean");
                    aggregated.warnings.push(warning);
                    MetricAggregation::Registered(mean()?)
                }
            };
            let draws = self.draws(&name, metric, bootstrap_iters);
            let (score, stderr) = score_and_stderr(&used, &values, draws, &key)
                .map_err(|error| self.locate_error(error, &name, metric, &used))?;
            aggregated.metrics.push((key.clone(), score));
            aggregated.metrics.push((key.stderr(), stderr));
            aggregated.sample_len = aggregated.sample_len.max(values.len());
            counts.push((key, values.len()));
        }
        aggregated.warnings.extend(self.unreduced().iter().map(|name| {
            format!(
                "`{name}` has several values per document and no reduction; using the first. Set one: \
                 `metric_list: [{{metric: {name}, reduction: mean}}]`"
            )
        }));
        for (name, _) in &delivered {
            let key = MetricKey::new(Arc::clone(name), Arc::clone(self.name()));
            if !aggregated.metrics.iter().any(|(known, _)| *known == key) {
                // No document has a value; a missing key would look like another metric.
                aggregated.metrics.push((key.clone(), Value::Float(f64::NAN)));
                aggregated.metrics.push((key.stderr(), Value::str("N/A")));
            }
        }
        for (key, count) in counts.into_iter().filter(|(_, count)| *count != aggregated.sample_len) {
            let all = aggregated.sample_len;
            aggregated.warnings.push(format!("only {count} of {all} documents have a value for `{key}`"));
        }
        aggregated.bounds = self.bounds(code)?;
        Ok(aggregated)
    }

    /// The bounds of the pipeline's scores, if answers are unfinished and the metric has bounds.
    fn bounds(&self, code: Option<&Arc<dyn TaskCode>>) -> Result<ScoreBounds, ScoreError> {
        let mut bounds = ScoreBounds::new();
        if self.unfinished().is_empty() {
            return Ok(bounds);
        }
        let extreme = |pick: fn(&Unfinished) -> &ReducedDoc| {
            let mut documents = self.reduced_docs().to_vec();
            for one in self.unfinished() {
                documents[one.index] = pick(one).clone();
            }
            transpose(&documents)
        };
        let (lows, highs) = (extreme(|one| &one.low), extreme(|one| &one.high));
        for (name, values) in transpose(self.reduced_docs()) {
            if !values.iter().all(is_bounded) {
                continue;
            }
            let key = MetricKey::new(Arc::clone(&name), Arc::clone(self.name()));
            let used = self.aggregation_of(&name, code);
            let used = used.map_or_else(|| mean().map(MetricAggregation::Registered), Ok)?;
            let of = |columns: &[(Arc<str>, Vec<Value>)]| {
                let column = columns.iter().find(|(other, _)| *other == name);
                let score = column.map(|(_, values)| score(&used, values, &key)).transpose()?;
                Ok::<_, ScoreError>(score.and_then(|score| score.to_f64()))
            };
            if let Some((low, high)) = of(&lows)?.zip(of(&highs)?) {
                // The score of a metric for which lower is better falls with the values.
                bounds.push((key, Bounds { low: low.min(high), high: low.max(high) }));
            }
        }
        Ok(bounds)
    }

    /// The aggregation of a metric: its own, or the task's.
    fn aggregation_of(&self, name: &Arc<str>, code: Option<&Arc<dyn TaskCode>>) -> Option<MetricAggregation> {
        let by_task = || code.and_then(|code| code.aggregation(name)).map(MetricAggregation::Host);
        self.metric_of(name).map(|metric| metric.aggregation.clone()).or_else(by_task)
    }

    /// Whether a built-in aggregation may get values of a type that it does not accept: from a task function, or because the
    /// task combines the metric with the aggregation of another one.
    ///
    /// False if filters or reductions are task code: calling them twice could change their results.
    pub(super) fn may_produce_unsupported_values(&self) -> bool {
        let by_task = |metric: &PipelineMetric| matches!(metric.reduction, MetricReduction::Host(_));
        if self.filters.calls_task_code() || self.metrics().iter().any(by_task) {
            return false;
        }
        self.scorer().scores_by_metrics() && !self.metrics().iter().all(PipelineMetric::is_aggregated_by_task)
    }

    /// Whether filters, metrics or reductions are functions of the task.
    pub(super) fn calls_task_code(&self) -> bool {
        let by_task = |metric: &PipelineMetric| {
            matches!(metric.reduction, MetricReduction::Host(_))
                || matches!(metric.function, MetricFunction::Host(_))
        };
        self.filters.calls_task_code() || self.metrics().iter().any(by_task)
    }

    /// Checks that the aggregations accept the values computed so far.
    pub(super) fn check_values(&self) -> Result<(), ScoreError> {
        for document in self.reduced_docs() {
            for (name, value) in document.values.iter() {
                let Some(metric) = self.metric_of(name) else { continue };
                if let Some(source) = value_error(&metric.aggregation, value) {
                    return Err(ScoreError::AggregationValue {
                        metric: name.to_string(),
                        aggregation: metric.aggregation_name.to_string(),
                        document: document.doc_id,
                        source,
                    });
                }
            }
        }
        Ok(())
    }

    /// Adds the name of the aggregation to its error, and the document with the offending value.
    fn locate_error(
        &self,
        error: ScoreError,
        name: &Arc<str>,
        metric: Option<&PipelineMetric>,
        used: &MetricAggregation,
    ) -> ScoreError {
        let aggregation = metric.map_or("mean", |metric| &*metric.aggregation_name).to_owned();
        match (error, used) {
            (ScoreError::Host(source), _) => {
                let source = Box::new(source);
                ScoreError::HostAggregation { metric: name.to_string(), aggregation, source }
            }
            (error @ ScoreError::Aggregation { source: MetricError::WrongValue { .. }, .. }, used) => {
                let wrong = self.reduced_docs().iter().find_map(|document| {
                    let value = document.values.get(name)?;
                    Some((document.doc_id, value_error(used, value)?))
                });
                match wrong {
                    Some((document, source)) => ScoreError::AggregationValue {
                        metric: name.to_string(),
                        aggregation,
                        document,
                        source,
                    },
                    None => error,
                }
            }
            (error, _) => error,
        }
    }

    /// The number of bootstrap resamples for the standard error of a metric.
    fn draws(&self, name: &str, metric: Option<&PipelineMetric>, bootstrap_iters: i64) -> i64 {
        if !self.dialect.scoring.listed_stderrs_only {
            return bootstrap_iters;
        }
        match metric {
            Some(metric) if !metric.has_legacy_stderr => 0,
            _ if matches!(name, "bleu" | "chrf" | "chrf++" | "ter") => {
                bootstrap_iters.min(LEGACY_STRING_RESAMPLES)
            }
            _ => bootstrap_iters,
        }
    }
}

/// The error of an aggregation that does not accept the type of a value.
pub(super) fn value_error(used: &MetricAggregation, value: &Value) -> Option<MetricError> {
    let MetricAggregation::Registered(used) = used else { return None };
    used.prepare(std::slice::from_ref(value))
        .err()
        .filter(|error| matches!(error, MetricError::WrongValue { .. }))
}

/// The built-in mean.
fn mean() -> Result<Arc<dyn AnyAggregation>, ScoreError> {
    Ok(Arc::clone(Registry::default().aggregation("mean")?))
}

/// The values of each metric over all documents that have it; metrics in order of first appearance.
fn transpose(documents: &[ReducedDoc]) -> Vec<(Arc<str>, Vec<Value>)> {
    let mut columns: Vec<(Arc<str>, Vec<Value>)> = Vec::new();
    for document in documents {
        for (index, (name, value)) in document.values.iter().enumerate() {
            // Nearly all documents have the same metrics in the same order.
            let expected = columns.get(index).is_some_and(|(known, _)| known == name);
            let found =
                if expected { Some(index) } else { columns.iter().position(|(known, _)| known == name) };
            match found {
                Some(index) => columns[index].1.push(value.clone()),
                None => {
                    let mut values = Vec::with_capacity(documents.len());
                    values.push(value.clone());
                    columns.push((Arc::clone(name), values));
                }
            }
        }
    }
    columns
}

fn score(used: &MetricAggregation, values: &[Value], key: &MetricKey) -> Result<Value, ScoreError> {
    match used {
        MetricAggregation::Registered(used) => {
            let failed = |source| ScoreError::Aggregation { key: key.to_string(), source };
            Ok(Value::from(used.aggregate(values).map_err(failed)?))
        }
        MetricAggregation::Host(function) => Ok(function.aggregate(values)?),
    }
}

fn score_and_stderr(
    used: &MetricAggregation,
    values: &[Value],
    draws: i64,
    key: &MetricKey,
) -> Result<(Value, Value), ScoreError> {
    let failed = |source: MetricError| ScoreError::Aggregation { key: key.to_string(), source };
    let score = score(used, values, key)?;
    match used {
        MetricAggregation::Registered(used) => {
            let stderr = stderr_for_metric(&**used, values, draws).map_err(failed)?;
            Ok((score, stderr.to_value()))
        }
        MetricAggregation::Host(function) => {
            if draws > 0 && values.len() > 1 {
                let (seeds, count) = bootstrap_plan(draws as usize);
                if let Some(scores) = function.resample(values, seeds, count)? {
                    let scores: Vec<f64> =
                        scores.iter().map(number).collect::<Result<_, _>>().map_err(failed)?;
                    return Ok((score, Value::Float(sample_stddev(&scores).map_err(failed)?)));
                }
            }
            let resampled = HostResamples { function: Arc::clone(function), failure: Arc::default() };
            match stderr_for_metric(&resampled, values, draws) {
                Ok(stderr) => Ok((score, stderr.to_value())),
                Err(source) => Err(resampled.take_failure().map_or_else(|| failed(source), ScoreError::Host)),
            }
        }
    }
}

/// Resampling with a task function as the aggregation.
struct HostResamples {
    function: Arc<dyn HostAggregation>,
    /// The first error of the function; `MetricError` cannot carry it.
    failure: Arc<Mutex<Option<HostError>>>,
}

impl HostResamples {
    fn take_failure(&self) -> Option<HostError> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Values aggregated by a task function.
struct HostValues {
    function: Arc<dyn HostAggregation>,
    failure: Arc<Mutex<Option<HostError>>>,
    values: Vec<Value>,
}

impl Resample for HostValues {
    fn score(&self, draws: &[u32]) -> Result<f64, MetricError> {
        let drawn: Vec<Value> =
            draws.iter().filter_map(|draw| self.values.get(*draw as usize)).cloned().collect();
        let score = self.function.aggregate(&drawn).map_err(|error| {
            self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            MetricError::NoValues
        })?;
        number(&score)
    }
}

/// The result of a task function as a float.
fn number(score: &Value) -> Result<f64, MetricError> {
    score.to_f64().ok_or_else(|| MetricError::WrongValue {
        expected: "a number",
        found: lmeval_pycompat::repr::repr(score),
    })
}

impl AnyAggregation for HostResamples {
    fn prepare(&self, values: &[Value]) -> Result<Box<dyn Resample>, MetricError> {
        Ok(Box::new(HostValues {
            function: Arc::clone(&self.function),
            failure: Arc::clone(&self.failure),
            values: values.to_vec(),
        }))
    }

    fn aggregate(&self, values: &[Value]) -> Result<Number, MetricError> {
        let all: Vec<u32> = (0..values.len() as u32).collect();
        self.prepare(values)?.score(&all).map(Number::Float)
    }

    fn is_mean(&self) -> bool {
        false
    }
}

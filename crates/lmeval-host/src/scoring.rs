//! Host functions for scoring.

use std::sync::Arc;

use lmeval_pycompat::{Dict, Function, Value};
use lmeval_scoring::HostError;
use lmeval_scoring::scorers::{HostAggregation, HostMetric, HostReduction, Needs, TaskCode};
use rayon::prelude::*;

use crate::host::PythonHost;
use crate::message::{Message, wrong_type};
use crate::pool::Pool;
use crate::protocol::{encode, encode_dict};

/// How many calls are sent to a worker at once: enough to amortise the cost of a message.
const BATCH: usize = 64;

/// A function of a task and the pool that runs it.
#[derive(Debug)]
pub(crate) struct Scoring {
    function: Arc<Function>,
    pool: Arc<Pool>,
}

impl PythonHost {
    /// Checks that a function can be imported, before anything is sent to a model.
    pub(crate) fn scoring(&self, function: &Arc<Function>) -> Result<Scoring, HostError> {
        self.check(function)?;
        Ok(Scoring { function: Arc::clone(function), pool: Arc::clone(&self.pool) })
    }
}

impl Scoring {
    fn call(&self, operation: &str, arguments: Value) -> Result<Value, HostError> {
        let calls = Value::list([arguments]);
        Message::new(operation, &self.function).with("calls", &calls).ask_once(&self.pool)
    }

    fn process(&self, calls: &[(Arc<Dict>, Vec<Value>)]) -> Result<Vec<Option<Dict>>, HostError> {
        let message =
            Message::new("call", &self.function).with_list("calls", calls, |text, (document, results)| {
                text.push('[');
                encode_dict(text, document)?;
                text.push(',');
                encode(text, &Value::list(results.iter().cloned()))?;
                text.push(']');
                Ok(())
            });
        let answers = message
            .ask(&self.pool, calls.len(), |index| calls.get(index).map(|(document, _)| &**document))?;
        answers
            .into_iter()
            .map(|answer| match answer {
                Value::None => Ok(None),
                Value::Dict(values) => Ok(Some(Arc::unwrap_or_clone(values))),
                other => Err(wrong_type(&self.function, "a dictionary of values", &other)),
            })
            .collect()
    }
}

impl HostMetric for Scoring {
    fn compute(&self, references: &Value, predictions: &Value, kwargs: &Dict) -> Result<Value, HostError> {
        let arguments = Value::list([references.clone(), predictions.clone(), Value::from(kwargs.clone())]);
        self.call("metric", arguments)
    }

    fn compute_many(
        &self,
        calls: &[(Value, Value)],
        kwargs: &Dict,
    ) -> Result<Vec<Value>, (usize, HostError)> {
        let batches = calls.par_chunks(BATCH).enumerate().map(|(number, batch)| {
            let message = Message::new("metric", &self.function).with_list(
                "calls",
                batch,
                |text, (references, predictions)| {
                    text.push('[');
                    encode(text, references)?;
                    text.push(',');
                    encode(text, predictions)?;
                    text.push(',');
                    encode_dict(text, kwargs)?;
                    text.push(']');
                    Ok(())
                },
            );
            let mut failed = 0;
            let answers = message.ask(&self.pool, batch.len(), |index| {
                failed = index;
                None
            });
            answers.map_err(|error| (number * BATCH + failed, error))
        });
        Ok(batches.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
    }
}

impl HostAggregation for Scoring {
    fn aggregate(&self, values: &[Value]) -> Result<Value, HostError> {
        self.call("call", Value::list([Value::list(values.iter().cloned())]))
    }

    fn resample(
        &self,
        values: &[Value],
        seeds: usize,
        count: usize,
    ) -> Result<Option<Vec<Value>>, HostError> {
        // Each worker gets the values once.
        let workers = if is_set("LMEVAL_DISABLE_MULTIPROC") { 1 } else { self.pool.size() };
        let share = seeds.div_ceil(workers).max(1);
        let all: Vec<i64> = (0..seeds as i64).collect();
        let parts = all.par_chunks(share).map(|seeds| {
            let message = Message::new("resample", &self.function)
                .with_list("values", values, encode)
                .with("count", &Value::Int(count as i64))
                .with("seeds", &Value::list(seeds.iter().copied().map(Value::Int)));
            message.ask(&self.pool, seeds.len(), |_| None)
        });
        let mut scores = Vec::with_capacity(seeds * count);
        for of_seed in parts.collect::<Result<Vec<_>, _>>()?.into_iter().flatten() {
            match of_seed {
                Value::List(some) => scores.extend(Arc::unwrap_or_clone(some)),
                other => return Err(wrong_type(&self.function, "a list of scores", &other)),
            }
        }
        Ok(Some(scores))
    }
}

/// Whether an environment variable is set to a true value.
fn is_set(variable: &str) -> bool {
    let value = std::env::var(variable).unwrap_or_default().trim().to_lowercase();
    !matches!(value.as_str(), "" | "0" | "false" | "no" | "off")
}

impl HostReduction for Scoring {
    fn reduce(&self, reference: &Value, values: &[Value]) -> Result<Value, HostError> {
        self.call("call", Value::list([reference.clone(), Value::list(values.iter().cloned())]))
    }
}

impl TaskCode for Scoring {
    fn needs(&self) -> Needs {
        // `process_results` gets the document and the filtered answers.
        Needs { documents: true, prompts: false, together: true }
    }

    fn process_results(&self, document: &Arc<Dict>, results: &[Value]) -> Result<Option<Dict>, HostError> {
        let calls = [(Arc::clone(document), results.to_vec())];
        Ok(self.process(&calls)?.into_iter().next().flatten())
    }

    fn process_many(&self, calls: &[(Arc<Dict>, Vec<Value>)]) -> Result<Vec<Option<Dict>>, HostError> {
        let batches = calls.par_chunks(BATCH).map(|batch| self.process(batch));
        Ok(batches.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
    }
}

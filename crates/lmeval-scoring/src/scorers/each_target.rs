//! Task functions as metrics of documents with several targets, following the 0.4 line.

use std::sync::Arc;

use lmeval_pycompat::{Dict, Value, repr};

use super::task_code::HostMetric;
use crate::host::HostError;

/// Compares an answer with each target separately. The value is 1 if any comparison is true.
#[derive(Debug)]
pub(super) struct EachTarget {
    pub(super) metric: Arc<dyn HostMetric>,
    /// The name of the metric, used to select its value from a dictionary.
    pub(super) name: Arc<str>,
}

/// The targets, if there are several.
fn targets(references: &Value) -> Option<&[Value]> {
    match references.as_list() {
        Some([Value::List(targets)]) => Some(targets),
        _ => None,
    }
}

impl EachTarget {
    fn any(&self, values: &[Value]) -> Result<Value, HostError> {
        // Check every value: a dictionary without the metric is an error wherever it appears.
        let mut any = false;
        for value in values {
            any |= self.own_value(value)?.is_truthy();
        }
        Ok(Value::Float(if any { 1.0 } else { 0.0 }))
    }

    /// Reference: 0.4.13 takes the metric's own entry from a dictionary and drops the others.
    fn own_value<'a>(&self, value: &'a Value) -> Result<&'a Value, HostError> {
        let Value::Dict(named) = value else { return Ok(value) };
        named.get_str(&self.name).ok_or_else(|| {
            let keys: Vec<String> = named.keys().map(|key| format!("`{}`", repr::str(key))).collect();
            let message = format!(
                "its dictionary has no key `{}`, which is needed for documents with several targets; its keys are: {}",
                self.name,
                keys.join(", ")
            );
            HostError::Failed { function: self.name.to_string(), message, traceback: None, hint: None }
        })
    }
}

impl HostMetric for EachTarget {
    fn compute(&self, references: &Value, predictions: &Value, kwargs: &Dict) -> Result<Value, HostError> {
        let call = [(references.clone(), predictions.clone())];
        let values = self.compute_many(&call, kwargs).map_err(|(_, error)| error)?;
        Ok(values.into_iter().next().unwrap_or_default())
    }

    fn compute_many(
        &self,
        calls: &[(Value, Value)],
        kwargs: &Dict,
    ) -> Result<Vec<Value>, (usize, HostError)> {
        // Send all calls to the host in one batch; each keeps the index of its document.
        let mut single = Vec::with_capacity(calls.len());
        for (index, (references, predictions)) in calls.iter().enumerate() {
            match targets(references) {
                None => single.push((index, (references.clone(), predictions.clone()))),
                Some(targets) => single.extend(
                    targets
                        .iter()
                        .map(|target| (index, (Value::list([target.clone()]), predictions.clone()))),
                ),
            }
        }
        let (indices, single): (Vec<usize>, Vec<(Value, Value)>) = single.into_iter().unzip();
        let values = self.metric.compute_many(&single, kwargs);
        let values = values.map_err(|(index, error)| (indices[index], error))?;
        let mut of_call: Vec<Vec<Value>> = vec![Vec::new(); calls.len()];
        for (index, value) in indices.into_iter().zip(values) {
            of_call[index].push(value);
        }
        let value = |(index, mut values): (usize, Vec<Value>)| match targets(&calls[index].0) {
            Some(_) => self.any(&values).map_err(|error| (index, error)),
            None => Ok(values.pop().unwrap_or_default()),
        };
        of_call.into_iter().enumerate().map(value).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns whether reference and prediction are equal, under a given name.
    #[derive(Debug)]
    struct Named(&'static str);

    impl HostMetric for Named {
        fn compute(&self, references: &Value, predictions: &Value, _: &Dict) -> Result<Value, HostError> {
            let is_same = f64::from(u8::from(references == predictions));
            Ok(Value::dict([(self.0, Value::Float(is_same)), ("other", Value::Float(1.0))]))
        }
    }

    fn compute(key: &'static str, answer: &str) -> Result<Value, HostError> {
        let metric = EachTarget { metric: Arc::new(Named(key)), name: "close".into() };
        let targets = Value::list([Value::list([Value::str("a"), Value::str("b")])]);
        metric.compute(&targets, &Value::list([Value::str(answer)]), &Dict::new())
    }

    #[test]
    fn takes_own_entry_of_a_dictionary() {
        assert_eq!(compute("close", "b").unwrap(), Value::Float(1.0));
        assert_eq!(compute("close", "c").unwrap(), Value::Float(0.0));
    }

    #[test]
    fn rejects_a_dictionary_without_the_metric() {
        let error = compute("near", "b").unwrap_err().to_string();
        assert!(error.contains("`close`") && error.contains("`near`"), "{error}");
    }
}

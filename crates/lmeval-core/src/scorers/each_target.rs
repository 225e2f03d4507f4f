//! Functions of a task as metrics of documents with several acceptable answers, by the rules of the 0.4 line.

use std::sync::Arc;

use lmeval_pycompat::{Dict, Value};

use super::task_code::HostMetric;
use crate::host::HostError;

/// Compares an answer with each of the acceptable ones alone. The value is 1 where any of the values is true.
#[derive(Debug)]
pub(super) struct EachTarget(pub(super) Arc<dyn HostMetric>);

/// The acceptable answers, where there are several to choose from.
fn targets(references: &Value) -> Option<&[Value]> {
    match references.as_list() {
        Some([Value::List(targets)]) => Some(targets),
        _ => None,
    }
}

fn any(values: &[Value]) -> Value {
    Value::Float(if values.iter().any(Value::is_truthy) { 1.0 } else { 0.0 })
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
        // All calls go to the host together; each comes with the place of the document that it is about.
        let mut single = Vec::with_capacity(calls.len());
        for (place, (references, predictions)) in calls.iter().enumerate() {
            match targets(references) {
                None => single.push((place, (references.clone(), predictions.clone()))),
                Some(targets) => single.extend(
                    targets
                        .iter()
                        .map(|target| (place, (Value::list([target.clone()]), predictions.clone()))),
                ),
            }
        }
        let (places, single): (Vec<usize>, Vec<(Value, Value)>) = single.into_iter().unzip();
        let values = self.0.compute_many(&single, kwargs);
        let values = values.map_err(|(place, error)| (places[place], error))?;
        let mut of_call: Vec<Vec<Value>> = vec![Vec::new(); calls.len()];
        for (place, value) in places.into_iter().zip(values) {
            of_call[place].push(value);
        }
        let value = |(mut values, (references, _)): (Vec<Value>, &(Value, Value))| match targets(references) {
            Some(_) => any(&values),
            None => values.pop().unwrap_or_default(),
        };
        Ok(of_call.into_iter().zip(calls).map(value).collect())
    }
}

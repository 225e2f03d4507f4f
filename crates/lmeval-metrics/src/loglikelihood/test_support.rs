//! Three options shared by the unit tests.

use lmeval_pycompat::{Dict, Value};

use crate::error::MetricError;
use crate::item::Item;
use crate::ll_results::LLResults;
use crate::metric::{Metric, MetricInput};

pub(super) fn three_options() -> LLResults {
    LLResults {
        lls: vec![-4.0, -3.0, -6.0],
        is_greedy: vec![false, true, false],
        choices: [" cat", " a", " elephant"].map(str::to_owned).to_vec(),
        option_texts: ["cat", "a", "elephant"].map(str::to_owned).to_vec(),
        lls_mutual_info: vec![1.0, -1.0, 0.0],
        ..LLResults::default()
    }
}

pub(super) fn value<T: Item>(
    metric: &Metric<T>,
    results: &LLResults,
    target: impl IntoTarget,
) -> Result<Value, MetricError> {
    let reference = target.into_target();
    let input = MetricInput::Likelihood { reference: &reference, results };
    Ok(metric.compute(input, &Dict::new())?[0].to_value())
}

pub(super) fn number<T: Item>(metric: &Metric<T>, results: &LLResults, target: impl IntoTarget) -> f64 {
    value(metric, results, target).unwrap().to_f64().unwrap()
}

pub(super) trait IntoTarget {
    fn into_target(self) -> Value;
}

impl IntoTarget for i32 {
    fn into_target(self) -> Value {
        Value::Int(self.into())
    }
}

impl IntoTarget for &str {
    fn into_target(self) -> Value {
        self.into()
    }
}

impl IntoTarget for Value {
    fn into_target(self) -> Value {
        self
    }
}

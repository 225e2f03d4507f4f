//! Metrics compared with recordings and with the Python packages that they follow.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod agreement;
mod bootstrap;
mod differential;
mod golden;
mod recorded_runs;

use lmeval_pycompat::{Value, json};

/// A field of an object.
fn field<'a>(value: &'a Value, name: &str) -> &'a Value {
    value.as_dict().unwrap().get_str(name).unwrap_or(&Value::None)
}

/// The numbers of a list; strings represent values that JSON cannot encode.
fn numbers(value: &Value) -> Vec<f64> {
    value.as_list().unwrap().iter().map(number).collect()
}

fn number(value: &Value) -> f64 {
    match value.as_str() {
        Some(text) => text.parse().unwrap(),
        None => value.to_f64().unwrap(),
    }
}

fn load(text: &str) -> Value {
    json::loads(text).unwrap()
}

/// Whether two floats are equal, treating NaN as equal to itself.
fn same(left: f64, right: f64) -> bool {
    left == right || (left.is_nan() && right.is_nan())
}

/// Whether two floats that went through `exp` or `ln` are equal up to rounding.
fn close(left: f64, right: f64) -> bool {
    same(left, right) || (left - right).abs() <= 1e-12 * left.abs().max(right.abs())
}

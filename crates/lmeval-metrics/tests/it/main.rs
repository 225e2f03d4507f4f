//! Metrics against recordings and against the Python packages that they follow.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bootstrap;
mod differential;
mod golden;
mod recorded_runs;

use lmeval_pycompat::{Value, json};

/// The field of an object.
fn field<'a>(value: &'a Value, name: &str) -> &'a Value {
    value.as_dict().unwrap().get_str(name).unwrap_or(&Value::None)
}

/// The numbers of a list, in which text stands for what JSON cannot write.
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

/// Whether two numbers are the same number, NaN included.
fn same(left: f64, right: f64) -> bool {
    left == right || (left.is_nan() && right.is_nan())
}

/// Whether two numbers that went through `exp` or `ln` are the same but for the last digits.
fn close(left: f64, right: f64) -> bool {
    same(left, right) || (left - right).abs() <= 1e-12 * left.abs().max(right.abs())
}

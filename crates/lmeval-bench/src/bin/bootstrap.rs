//! Times bootstrap standard errors; run by `bench/bootstrap.py`.
//!
//! `bootstrap CASE` reads a JSON object with the name of an `aggregation`, its `values` and the number of `draws`, and prints
//! another one: the standard error, the seconds it took, and the number of threads.

use std::error::Error;
use std::fs::File;
use std::io::{BufReader, Write};
use std::time::Instant;

use lmeval_metrics::{StandardError, aggregation, stderr_for_metric};
use lmeval_pycompat::Value;
use serde_json::{Value as Json, json};

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [path] = words.as_slice() else {
        return Err("usage: bootstrap CASE".into());
    };
    let case: Json = serde_json::from_reader(BufReader::new(File::open(path)?))?;
    let name = case["aggregation"].as_str().ok_or("the case has no `aggregation`")?;
    let draws = case["draws"].as_i64().ok_or("the case has no `draws`")?;
    let values: Vec<Value> =
        case["values"].as_array().ok_or("the case has no `values`")?.iter().map(value).collect();
    let used = aggregation(name).ok_or("unknown aggregation")?;
    // Threads start before the clock, like the reference's modules are loaded before it.
    let workers = rayon::broadcast(|_| ()).len();
    let start = Instant::now();
    let StandardError::Known(stderr) = stderr_for_metric(&*used, &values, draws)? else {
        return Err("the aggregation has no standard error".into());
    };
    let seconds = start.elapsed().as_secs_f64();
    let result = json!({"stderr": stderr, "seconds": seconds, "workers": workers});
    writeln!(std::io::stdout().lock(), "{result}")?;
    Ok(())
}

/// Converts JSON to a Python value, with tuples for lists, as in the values of metrics.
fn value(json: &Json) -> Value {
    match json {
        Json::Array(items) => Value::tuple(items.iter().map(value)),
        Json::String(text) => Value::str(text.as_str()),
        Json::Number(number) => match number.as_i64() {
            Some(number) => Value::Int(number),
            None => number.as_f64().map_or(Value::None, Value::Float),
        },
        Json::Bool(truth) => Value::Bool(*truth),
        Json::Null | Json::Object(_) => Value::None,
    }
}

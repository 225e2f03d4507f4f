//! The parts of a logged sample: requests, continuations, answer, and the option that is right.

use lmeval_pycompat::Value;

/// The arguments of each request. Files of old releases have lists of them, later ones named arguments.
pub fn requests(arguments: &Value) -> Vec<Vec<Value>> {
    let of_request = |request: &Value| -> Vec<Value> {
        match request {
            Value::Dict(named) => named.values().cloned().collect(),
            Value::List(items) => items.to_vec(),
            other => vec![other.clone()],
        }
    };
    match arguments {
        Value::Dict(requests) => requests.values().map(of_request).collect(),
        Value::List(requests) => requests.iter().map(of_request).collect(),
        _ => Vec::new(),
    }
}

/// The prompt of the first request: a string, or messages; `None` if there is none.
pub fn prompt(arguments: &Value) -> Value {
    requests(arguments).into_iter().flatten().next().unwrap_or_default()
}

/// The continuations whose log-likelihoods were requested, such as the options of a multiple-choice question.
pub fn continuations(arguments: &Value) -> Vec<Value> {
    let second = |request: Vec<Value>| request.into_iter().nth(1).filter(|value| value.as_str().is_some());
    requests(arguments).into_iter().filter_map(second).collect()
}

/// A value without the lists around it that have a single item: the answer in `resps`, for example.
pub fn unwrapped(mut value: Value) -> Value {
    loop {
        value = match &value {
            Value::List(items) => match items.as_slice() {
                [single] => single.clone(),
                _ => return value,
            },
            _ => return value,
        };
    }
}

/// The option that a target names by its index, of this many; `None` if the target is something else.
///
/// ```
/// use lmeval_analysis::samples::parts::target_option;
/// use lmeval_pycompat::Value;
///
/// assert_eq!(target_option(&Value::Int(2), 4), Some(2));
/// assert_eq!(target_option(&Value::str("2"), 4), Some(2));
/// assert_eq!(target_option(&Value::str("Paris"), 4), None);
/// assert_eq!(target_option(&Value::Int(2), 0), None);
/// ```
pub fn target_option(target: &Value, options: usize) -> Option<usize> {
    let index = match target {
        Value::Int(index) => usize::try_from(*index).ok()?,
        Value::Str(text) => text.parse().ok()?,
        _ => return None,
    };
    (index < options).then_some(index)
}

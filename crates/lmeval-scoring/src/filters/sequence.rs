//! Iteration over values as in Python.

use lmeval_pycompat::Value;

use super::error::FilterError;
use super::{FilterDocs, Responses};

/// The items that a `for` loop over the value yields; `None` if it is not iterable.
pub(super) fn items(value: &Value) -> Option<Vec<Value>> {
    Some(match value {
        Value::List(items) | Value::Tuple(items) | Value::Set(items) => items.to_vec(),
        Value::Str(text) => text.chars().map(|character| Value::str(character.to_string())).collect(),
        Value::Dict(dict) => dict.keys().cloned().collect(),
        Value::Bytes(bytes) => bytes.iter().map(|&byte| Value::Int(i64::from(byte))).collect(),
        _ => return None,
    })
}

/// The items of each value.
pub(super) fn lists(values: Vec<Value>, docs: &FilterDocs<'_>) -> Result<Responses, FilterError> {
    let lists = values.into_iter().enumerate().map(|(request, value)| {
        items(&value).ok_or_else(|| FilterError::WrongResponse {
            filter: "take_first".to_owned(),
            document: docs.id(request),
            expected: "a list of answers for the next step",
            found: value.type_name(),
        })
    });
    lists.collect()
}

/// Whether Python can hash the value.
pub(super) fn is_hashable(value: &Value) -> bool {
    match value {
        Value::List(_) | Value::Set(_) | Value::Dict(_) => false,
        Value::Tuple(items) => items.iter().all(is_hashable),
        _ => true,
    }
}

//! Conversion of resolved values into lists, indices and strings.

use lmeval_pycompat::Value;
use lmeval_pycompat::float::parse_int;
use lmeval_pycompat::literal::literal_eval;
use lmeval_pycompat::repr::repr;
use lmeval_pycompat::strings::is_digit;

use super::error::{PromptError, PromptErrorKind};

/// Parses a string as a list literal.
///
/// It must begin with `[` and end with `]`, without surrounding whitespace.
pub(crate) fn list_literal(text: &str) -> Option<Value> {
    if !(text.len() >= 2 && text.starts_with('[') && text.ends_with(']')) {
        return None;
    }
    literal_eval(text).ok().filter(|value| matches!(value, Value::List(_)))
}

/// Converts a string that is a list literal into the list; other values stay as they are.
pub(crate) fn coerce_list(value: Value) -> Value {
    value.as_str().and_then(list_literal).unwrap_or(value)
}

/// Whether a string consists of digits of any script, as in Python's `str.isdigit`.
pub(crate) fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.chars().all(is_digit)
}

/// Converts digits into an integer.
pub(crate) fn digits_to_int(text: &str) -> Result<Value, PromptError> {
    parse_int(text, 10).ok_or_else(|| {
        PromptError::new(PromptErrorKind::Value, format!("The digits `{text}` are not a number"))
            .hint("Only decimal digits are an index; others, such as `²`, are not")
    })
}

/// Converts digits into an integer, if they are a valid Python literal.
pub(crate) fn digits_literal(text: &str) -> Result<Value, PromptError> {
    literal_eval(text).map_err(|error| {
        PromptError::new(PromptErrorKind::Value, format!("The digits `{text}` are not a number"))
            .caused_by(error)
    })
}

/// Converts digits into an integer and, with several targets, a list literal into the list.
pub(crate) fn coerce_target(value: Value, multiple_targets: bool) -> Result<Value, PromptError> {
    match value.as_str() {
        Some(text) if is_digits(text) => digits_to_int(text),
        Some(_) if multiple_targets => Ok(coerce_list(value)),
        _ => Ok(value),
    }
}

/// The index of a target among options. The target is an index, an option, or a list of these.
///
/// Yields `None` for anything else. Negative indices stay as they are.
pub(crate) fn resolve_index(target: &Value, options: &[Value]) -> Value {
    let below = |index: i64| {
        let in_range = index < 0 || (index as usize) < options.len();
        if in_range { Value::Int(index) } else { Value::None }
    };
    match target {
        Value::Bool(_) | Value::Int(_) => target.as_i64().map_or(Value::None, below),
        Value::Float(number) if number.is_finite() => below(*number as i64),
        Value::Str(_) => {
            let found = options.iter().position(|option| option == target);
            found.map_or(Value::None, |index| Value::Int(index as i64))
        }
        Value::List(items) => {
            let indices: Vec<Value> = items
                .iter()
                .map(|item| resolve_index(item, options))
                .filter(|index| !index.is_none())
                .collect();
            if indices.is_empty() { Value::None } else { Value::from(indices) }
        }
        _ => Value::None,
    }
}

/// The item at an index; negative indices count from the end.
pub(crate) fn item_at(items: &[Value], index: i64) -> Result<&Value, PromptError> {
    let position = if index < 0 { index + items.len() as i64 } else { index };
    usize::try_from(position).ok().and_then(|position| items.get(position)).ok_or_else(|| {
        let message = format!("The index {index} is out of range: there are {} options", items.len());
        PromptError::new(PromptErrorKind::Value, message)
    })
}

/// Describes a value for a message: its type and, if it is short, the value.
pub(crate) fn described(value: &Value) -> String {
    const LONGEST: usize = 60;
    let text = repr(value);
    if value.is_none() {
        "null".to_owned()
    } else if text.chars().count() > LONGEST {
        format!("a {}", value.type_name())
    } else {
        format!("the {} `{text}`", value.type_name())
    }
}

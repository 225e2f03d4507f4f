//! Targets as option indices.

use lmeval_pycompat::float::parse_int;
use lmeval_pycompat::repr::repr;
use lmeval_pycompat::{Value, strings};

use crate::error::MetricError;
use crate::item::items;
use crate::number::Number;

/// A target that is not among the options.
const NONE: i64 = -100;

/// Whether the chosen option is a target.
pub(super) fn is_target(chosen: usize, target: &Value) -> Result<Number, MetricError> {
    let chosen = chosen as i64;
    let right = match items(target) {
        Some(targets) => {
            targets.iter().any(|target| target.to_f64().is_some_and(|target| target == chosen as f64))
        }
        None => integer(target)? == chosen,
    };
    Ok(Number::from(right))
}

/// Whether a flag is set for a target; −100 has no flag.
pub(super) fn any_flag(flags: &[bool], target: &Value) -> Result<Number, MetricError> {
    let targets = items(target).unwrap_or(std::slice::from_ref(target));
    for target in targets {
        let index = integer(target)?;
        if index != NONE && flags[position(index, flags.len())?] {
            return Ok(Number::Int(1));
        }
    }
    Ok(Number::Int(0))
}

/// The index of the only target among `count` options; negative targets count from the end.
pub(super) fn one_target(target: &Value, count: usize) -> Result<usize, MetricError> {
    match items(target) {
        Some([target]) => position(integer(target)?, count),
        Some(targets) => Err(MetricError::SeveralTargets { count: targets.len() }),
        None => position(integer(target)?, count),
    }
}

/// The indices of all targets among `count` options.
pub(super) fn all_targets(target: &Value, count: usize) -> Result<Vec<usize>, MetricError> {
    items(target)
        .unwrap_or(std::slice::from_ref(target))
        .iter()
        .map(|target| position(integer(target)?, count))
        .collect()
}

fn position(index: i64, count: usize) -> Result<usize, MetricError> {
    let from_start = if index < 0 { index + count as i64 } else { index };
    usize::try_from(from_start)
        .ok()
        .filter(|position| *position < count)
        .ok_or(MetricError::IndexOutOfRange { index, count })
}

/// Python's `int(target)`.
fn integer(target: &Value) -> Result<i64, MetricError> {
    let number = match target {
        Value::Str(text) => parse_int(strings::strip(text), 10).and_then(|number| number.as_i64()),
        Value::Float(number) if number.is_finite() => Some(number.trunc() as i64),
        _ => target.as_i64(),
    };
    number.ok_or_else(|| MetricError::NotAnIndex { target: repr(target) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolves_targets() {
        let list = Value::list([Value::Int(-100), Value::Int(2)]);
        assert_eq!(is_target(2, &list), Ok(Number::Int(1)));
        assert_eq!(is_target(0, &Value::list([])), Ok(Number::Int(0)));
        assert_eq!(is_target(1, &"1".into()), Ok(Number::Int(1)));
        assert_eq!(is_target(1, &Value::Int(-1)), Ok(Number::Int(0)));
        assert_eq!(is_target(1, &Value::Bool(true)), Ok(Number::Int(1)));
        assert!(is_target(1, &"x".into()).is_err());
        assert!(is_target(1, &Value::None).is_err());
        assert_eq!(any_flag(&[true, false], &Value::Int(-2)), Ok(Number::Int(1)));
        assert_eq!(any_flag(&[true], &Value::Int(-100)), Ok(Number::Int(0)));
        assert!(any_flag(&[true], &Value::Int(1)).is_err());
        assert_eq!(one_target(&Value::Int(-1), 3), Ok(2));
        assert_eq!(one_target(&Value::list([Value::Int(1)]), 3), Ok(1));
        assert!(one_target(&list, 3).is_err());
        assert!(one_target(&Value::Int(3), 3).is_err());
    }
}

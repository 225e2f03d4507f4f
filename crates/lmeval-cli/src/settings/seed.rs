//! `--seed`: four seeds in one option.

use lmeval_pycompat::{Value, float, repr};

/// The seeds of Python, numpy, torch and few-shot sampling; `None` for unseeded.
pub(super) type Seeds = [Option<i64>; 4];

/// The default seeds.
pub(super) const DEFAULT: Seeds = [Some(0), Some(1234), Some(1234), Some(1234)];

/// Parsed seeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ParsedSeeds {
    /// One seed for each of the four generators.
    pub seeds: Seeds,
    /// Whether the few-shot seed was omitted and is the default.
    pub filled: bool,
}

/// Parses `42`, `1,2,3`, `1,None,3,4`.
pub(super) fn parse(text: &str) -> Result<ParsedSeeds, String> {
    let items: Result<Vec<Option<i64>>, String> = text.split(',').map(item).collect();
    spread(&items?)
}

/// Reads a value of a settings file: an integer, a string, or a list of 1, 3 or 4 seeds.
pub(super) fn from_value(value: &Value) -> Result<ParsedSeeds, String> {
    match value {
        Value::Str(text) => parse(text),
        Value::List(items) | Value::Tuple(items) => {
            let items: Result<Vec<Option<i64>>, String> = items.iter().map(value_item).collect();
            spread(&items?)
        }
        other => spread(&[value_item(other)?]),
    }
}

/// The seeds as the list shown in results and records.
pub(super) fn to_value(seeds: &Seeds) -> Value {
    Value::list(seeds.iter().map(|seed| seed.map_or(Value::None, Value::Int)))
}

fn item(text: &str) -> Result<Option<i64>, String> {
    let text = lmeval_pycompat::strings::strip(text);
    if text.eq_ignore_ascii_case("none") {
        return Ok(None);
    }
    let number = float::parse_int(text, 10).and_then(|number| number.as_i64());
    number.map(Some).ok_or_else(|| format!("`{text}` is neither an integer nor `None`"))
}

fn value_item(value: &Value) -> Result<Option<i64>, String> {
    match value {
        Value::None => Ok(None),
        Value::Int(number) => Ok(Some(*number)),
        Value::Str(text) => item(text),
        other => Err(format!("`{}` is neither an integer nor null", repr::repr(other))),
    }
}

fn spread(items: &[Option<i64>]) -> Result<ParsedSeeds, String> {
    match *items {
        [one] => Ok(ParsedSeeds { seeds: [one; 4], filled: false }),
        [python, numpy, torch] => Ok(ParsedSeeds { seeds: [python, numpy, torch, DEFAULT[3]], filled: true }),
        [python, numpy, torch, fewshot] => {
            Ok(ParsedSeeds { seeds: [python, numpy, torch, fewshot], filled: false })
        }
        _ => Err(format!("expected 1, 3 or 4 seeds, got {}", items.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seeds(text: &str) -> Seeds {
        parse(text).unwrap().seeds
    }

    #[test]
    fn parses_flag_values() {
        assert_eq!(seeds("42"), [Some(42); 4]);
        assert_eq!(seeds("none"), [None; 4]);
        assert_eq!(seeds("1, 2 ,3"), [Some(1), Some(2), Some(3), Some(1234)]);
        assert!(parse("1,2,3").unwrap().filled && !parse("1,2,3,4").unwrap().filled);
        assert_eq!(seeds("1,None,3,4"), [Some(1), None, Some(3), Some(4)]);
        assert_eq!(seeds("-5"), [Some(-5); 4]);
        for wrong in ["", "1,2", "1,2,3,4,5", "x", "1.5", "1,,3"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn reads_file_values() {
        assert_eq!(from_value(&Value::Int(42)).unwrap().seeds, [Some(42); 4]);
        assert_eq!(from_value(&Value::None).unwrap().seeds, [None; 4]);
        assert_eq!(from_value(&Value::str("1,2,3,4")).unwrap().seeds, [1, 2, 3, 4].map(Some));
        let list = Value::list([Value::Int(1), Value::None, Value::Int(3)]);
        assert_eq!(from_value(&list).unwrap().seeds, [Some(1), None, Some(3), Some(1234)]);
        assert!(from_value(&Value::list([])).is_err());
        assert!(from_value(&Value::Bool(true)).is_err());
    }
}

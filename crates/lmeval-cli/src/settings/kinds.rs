//! The types of setting values.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use clap::ValueEnum;
use clap::builder::{StringValueParser, TypedValueParser};
use lmeval_analysis::threshold::Threshold;
use lmeval_core::Dialect;
use lmeval_pycompat::{Dict, Value, float, repr, strings};

use super::layer::{InvalidValue, Setting};
use super::{dict_option, seed};

impl Setting for String {
    fn read(value: &Value) -> Result<Option<Self>, InvalidValue> {
        match value {
            Value::None => Ok(None),
            Value::Str(text) => Ok(Some(text.to_string())),
            Value::Int(_) => Ok(Some(repr::str(value))),
            _ => InvalidValue::expected("a string"),
        }
    }

    fn to_value(&self) -> Value {
        Value::str(self.as_str())
    }
}

impl Setting for PathBuf {
    fn read(value: &Value) -> Result<Option<Self>, InvalidValue> {
        Ok(String::read(value)?.filter(|path| !path.is_empty()).map(Self::from))
    }

    fn to_value(&self) -> Value {
        Value::str(self.to_string_lossy())
    }
}

impl Setting for bool {
    fn read(value: &Value) -> Result<Option<Self>, InvalidValue> {
        match value {
            Value::None => Ok(None),
            Value::Bool(flag) => Ok(Some(*flag)),
            Value::Int(number) => Ok(Some(*number != 0)),
            _ => InvalidValue::expected("true or false"),
        }
    }

    fn to_value(&self) -> Value {
        Value::Bool(*self)
    }
}

/// Reference: on the command line, every word but these three is false.
pub(crate) fn truth() -> impl TypedValueParser<Value = bool> {
    StringValueParser::new().map(|word| matches!(word.to_lowercase().as_str(), "true" | "1" | "yes"))
}

impl Setting for i64 {
    fn read(value: &Value) -> Result<Option<Self>, InvalidValue> {
        match value {
            Value::None => Ok(None),
            Value::Int(number) => Ok(Some(*number)),
            _ => InvalidValue::expected("an integer"),
        }
    }

    fn to_value(&self) -> Value {
        Value::Int(*self)
    }
}

/// Parses an integer of the command line.
pub(super) fn integer(text: &str) -> Result<i64, String> {
    let number = float::parse_int(text, 10).and_then(|number| number.as_i64());
    number.ok_or_else(|| "not an integer".to_owned())
}

impl Setting for Value {
    fn read(value: &Value) -> Result<Option<Self>, InvalidValue> {
        Ok(Some(value.clone()).filter(|value| !value.is_none()))
    }

    fn to_value(&self) -> Value {
        self.clone()
    }
}

/// A value of any type, converted to a string.
#[derive(Clone, Debug)]
pub(crate) struct Stringified(pub String);

impl From<String> for Stringified {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl Setting for Stringified {
    fn read(value: &Value) -> Result<Option<Self>, InvalidValue> {
        Ok((!value.is_none()).then(|| Self(repr::str(value))))
    }

    fn to_value(&self) -> Value {
        Value::str(self.0.as_str())
    }
}

/// Any value, converted by Python's truth rules.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Truthy(pub bool);

impl Setting for Truthy {
    fn read(value: &Value) -> Result<Option<Self>, InvalidValue> {
        Ok(Some(Self(value.is_truthy())))
    }

    fn to_value(&self) -> Value {
        Value::Bool(self.0)
    }
}

/// A non-negative integer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Count(pub i64);

impl Count {
    /// Parses a word of the command line; negative values are rejected later.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        integer(text).map(Self)
    }

    /// Parses a word of the command line, rejecting negative values.
    pub(super) fn parse_natural(text: &str) -> Result<Self, std::num::ParseIntError> {
        text.parse::<usize>().map(|number| Self(i64::try_from(number).unwrap_or(i64::MAX)))
    }

    pub(super) fn get(self) -> Result<usize, InvalidValue> {
        usize::try_from(self.0).map_err(|_| InvalidValue::Found("a non-negative integer", self.0.to_string()))
    }
}

impl Setting for Count {
    fn read(value: &Value) -> Result<Option<Self>, InvalidValue> {
        let Some(number) = i64::read(value)? else { return Ok(None) };
        Self(number).get().map(|_| Some(Self(number)))
    }

    fn to_value(&self) -> Value {
        Value::Int(self.0)
    }
}

/// A number of bootstrap iterations. Reference: null means none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Iterations(pub i64);

impl Iterations {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        integer(text).map(Self)
    }
}

impl Setting for Iterations {
    fn read(value: &Value) -> Result<Option<Self>, InvalidValue> {
        Ok(Some(Self(i64::read(value)?.unwrap_or(0))))
    }

    fn to_value(&self) -> Value {
        Value::Int(self.0)
    }
}

/// An integer or a float, as given.
#[derive(Clone, Debug)]
pub(crate) struct Number(pub Value);

impl Number {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        float::parse_float(text)
            .map(|number| Self(Value::Float(number)))
            .ok_or_else(|| "not a number".to_owned())
    }
}

impl Setting for Number {
    fn read(value: &Value) -> Result<Option<Self>, InvalidValue> {
        match value {
            Value::None => Ok(None),
            Value::Int(_) | Value::Float(_) => Ok(Some(Self(value.clone()))),
            // YAML 1.1 parses `1e3` as a string.
            Value::Str(text) => match float::parse_float(text) {
                Some(number) => Ok(Some(Self(Value::Float(number)))),
                None => InvalidValue::expected("a number"),
            },
            _ => InvalidValue::expected("a number"),
        }
    }

    fn to_value(&self) -> Value {
        self.0.clone()
    }
}

/// An integer, or a string such as `auto`.
#[derive(Clone, Debug)]
pub(crate) struct BatchSize(pub Value);

impl FromStr for BatchSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let size = Value::from(text);
        match lmeval::wrong_batch_size(&size) {
            None => Ok(Self(size)),
            Some(_) => Err("must be at least 1, or `auto`".to_owned()),
        }
    }
}

impl Setting for BatchSize {
    fn read(value: &Value) -> Result<Option<Self>, InvalidValue> {
        match value {
            Value::None => Ok(None),
            size => match lmeval::wrong_batch_size(size) {
                None => Ok(Some(Self(size.clone()))),
                Some(wrong) => Err(InvalidValue::Message(wrong)),
            },
        }
    }

    fn to_value(&self) -> Value {
        self.0.clone()
    }
}

/// The name of a release line of the reference.
#[derive(Clone, Debug)]
pub(crate) struct Compat(String);

impl Compat {
    /// The rules of that release line.
    pub(crate) fn dialect(&self) -> Result<Dialect, InvalidValue> {
        self.0.parse().map_err(|error| InvalidValue::Message(format!("{error}")))
    }
}

impl From<String> for Compat {
    fn from(name: String) -> Self {
        Self(name)
    }
}

impl Setting for Compat {
    fn read(value: &Value) -> Result<Option<Self>, InvalidValue> {
        if value.is_none() {
            return Ok(None);
        }
        // `compat: 0.4` in YAML is a float.
        let compat = Self(repr::str(value));
        compat.dialect().map(|_| Some(compat))
    }

    fn to_value(&self) -> Value {
        Value::str(self.0.as_str())
    }
}

/// Whether to use a chat template, and optionally which.
impl Setting for Option<String> {
    fn read(value: &Value) -> Result<Option<Self>, InvalidValue> {
        match value {
            Value::None | Value::Bool(false) => Ok(None),
            Value::Bool(true) => Ok(Some(None)),
            Value::Str(name) => Ok(Some(Some(name.to_string()))),
            _ => InvalidValue::expected("true, false or the name of a template"),
        }
    }

    fn to_value(&self) -> Value {
        self.as_deref().map_or(Value::Bool(true), Value::str)
    }
}

/// An item of a setting that is a list.
pub(super) trait Item: Sized {
    /// The description of a list of items in error messages.
    const LIST: &'static str;

    /// Whether null is an error rather than an omitted setting.
    const NEEDED: bool = false;

    /// Whether items may be numbers, or separated by commas in a string.
    const ARE_NUMBERS: bool = false;

    fn read_item(text: &str) -> Result<Self, InvalidValue>;

    /// An item that is a mapping, as it would be written; `None` if there is no such item.
    fn written(_: &Dict) -> Option<Result<String, InvalidValue>> {
        None
    }

    /// Reads a mapping; `None` if the setting cannot be one.
    fn read_mapping(_: &Dict) -> Option<Result<Vec<Self>, InvalidValue>> {
        None
    }

    fn shown(&self) -> Value;
}

impl<T: Item> Setting for Vec<T> {
    fn read(value: &Value) -> Result<Option<Self>, InvalidValue> {
        let text = |value: &Value| match value {
            Value::Str(text) => Some(Ok(text.to_string())),
            Value::Int(_) if T::ARE_NUMBERS => Some(Ok(repr::str(value))),
            Value::Dict(item) => T::written(item),
            _ => None,
        };
        let texts: Option<Result<Vec<String>, _>> = match value {
            Value::None if !T::NEEDED => return Ok(None),
            Value::List(items) => items.iter().map(text).collect(),
            Value::Dict(given) => match T::read_mapping(given) {
                Some(read) => return read.map(Some),
                None => None,
            },
            Value::Str(text) if T::ARE_NUMBERS => Some(Ok(text.split(',').map(str::to_owned).collect())),
            single => text(single).map(|text| text.map(|text| vec![text])),
        };
        let texts = texts.ok_or_else(|| InvalidValue::Expected(T::LIST.to_owned()))??;
        texts.iter().map(|text| T::read_item(text)).collect::<Result<_, _>>().map(Some)
    }

    fn to_value(&self) -> Value {
        match self.as_slice() {
            [one] => one.shown(),
            several => Value::list(several.iter().map(Item::shown)),
        }
    }
}

impl Item for PathBuf {
    const LIST: &'static str = "a folder or a list of folders";

    fn read_item(text: &str) -> Result<Self, InvalidValue> {
        Ok(Self::from(text))
    }

    fn shown(&self) -> Value {
        self.to_value()
    }
}

/// A Python module or file that registers extensions.
impl Item for String {
    const LIST: &'static str = "a module or a list of modules";

    fn read_item(text: &str) -> Result<Self, InvalidValue> {
        Ok(text.to_owned())
    }

    fn shown(&self) -> Value {
        self.to_value()
    }
}

/// Comma-separated task names.
#[derive(Clone, Debug)]
pub(crate) struct TaskNames(String);

impl TaskNames {
    pub(super) fn split(&self) -> impl Iterator<Item = String> {
        let names = self.0.split(',').map(strings::strip);
        names.filter(|name| !name.is_empty()).map(str::to_owned)
    }
}

impl From<String> for TaskNames {
    fn from(names: String) -> Self {
        Self(names)
    }
}

impl Item for TaskNames {
    const LIST: &'static str = "a list of names, or of mappings such as `{task: arc_easy, num_fewshot: 25}`";
    const NEEDED: bool = true;

    fn written(item: &Dict) -> Option<Result<String, InvalidValue>> {
        Some(written_task(item))
    }

    fn read_item(text: &str) -> Result<Self, InvalidValue> {
        Ok(Self(text.to_owned()))
    }

    fn shown(&self) -> Value {
        Value::str(self.0.as_str())
    }
}

/// A mapping such as `{task: arc_easy, num_fewshot: 25}` as the word of the command line.
fn written_task(item: &Dict) -> Result<String, InvalidValue> {
    let wrong = |what: &str| Err(InvalidValue::Message(format!("An entry of `tasks` {what}")));
    let Some(mut word) = item.get_str("task").and_then(Value::as_str).map(str::to_owned) else {
        return wrong("is a mapping without the key `task`");
    };
    for (key, value) in item.iter() {
        let names = value.as_list().map(|names| names.iter().map(Value::as_str).collect::<Option<Vec<_>>>());
        let option = match (repr::str(key).as_str(), value) {
            ("task", _) => continue,
            (key @ ("num_fewshot" | "repeats" | "limit"), Value::Int(count)) => format!(":{key}={count}"),
            ("reductions", Value::Str(name)) => format!(":reductions={name}"),
            ("reductions", _) if matches!(names, Some(Some(_))) => {
                format!(":reductions={}", names.flatten().unwrap_or_default().join("+"))
            }
            (key @ ("num_fewshot" | "repeats" | "limit"), _) => {
                return wrong(&format!("has `{key}`, which must be an integer, not {}", value.type_name()));
            }
            ("reductions", _) => return wrong("has `reductions`, which must be a name or a list of names"),
            (key, _) => {
                return wrong(&format!(
                    "has the key `{key}`; the keys are `task`, `num_fewshot`, `limit`, `repeats` and `reductions`"
                ));
            }
        };
        word += &option;
    }
    Ok(word)
}

/// Comma-separated names of reductions.
#[derive(Clone, Debug)]
pub(crate) struct Reductions(String);

impl Reductions {
    pub(super) fn split(&self) -> impl Iterator<Item = Arc<str>> {
        let names = self.0.split(',').map(strings::strip);
        names.filter(|name| !name.is_empty()).map(Arc::from)
    }
}

impl From<String> for Reductions {
    fn from(names: String) -> Self {
        Self(names)
    }
}

impl Item for Reductions {
    const LIST: &'static str = "a name or a list of names";

    fn read_item(text: &str) -> Result<Self, InvalidValue> {
        Ok(Self(text.to_owned()))
    }

    fn shown(&self) -> Value {
        Value::str(self.0.as_str())
    }
}

/// A number of tokens of an answer, such as `4096` or `4k`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Budget(pub(crate) u64);

impl Budget {
    /// Parses a word of the command line.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let (digits, factor) = match text.strip_suffix(['k', 'K']) {
            Some(digits) => (digits, 1024),
            None => (text, 1),
        };
        let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
        let number = number.filter(|number| (1..=i64::MAX as u64).contains(number));
        number
            .map(Self)
            .ok_or_else(|| format!("`{text}` is not a number of tokens; write `4096`, or `4k` for the same"))
    }
}

impl Item for Budget {
    const LIST: &'static str = "a number of tokens, such as `4096` or `4k`, or a list of them";
    const ARE_NUMBERS: bool = true;

    fn read_item(text: &str) -> Result<Self, InvalidValue> {
        Self::parse(text).or_else(|_| InvalidValue::expected(Self::LIST))
    }

    fn shown(&self) -> Value {
        Value::Int(self.0 as i64)
    }
}

/// A threshold of `--fail_under`.
#[derive(Clone, Debug)]
pub(crate) struct FailUnder(pub Threshold);

impl FailUnder {
    /// Parses a word of the command line.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        Threshold::parse(text)
            .map(Self)
            .map_err(|error| format!("{}. {}", error.message, error.hints.join(". ")))
    }
}

impl Item for FailUnder {
    const LIST: &'static str = "a threshold or a list of thresholds";

    fn read_item(text: &str) -> Result<Self, InvalidValue> {
        Self::parse(text).map_err(|message| InvalidValue::Message(format!("`fail_under`: {message}")))
    }

    fn shown(&self) -> Value {
        Value::from(self.0.to_string())
    }
}

impl Setting for seed::ParsedSeeds {
    fn read(value: &Value) -> Result<Option<Self>, InvalidValue> {
        seed::from_value(value)
            .map(Some)
            .map_err(|message| InvalidValue::Message(format!("`seed`: {message}")))
    }

    fn to_value(&self) -> Value {
        seed::to_value(&self.seeds)
    }
}

/// A dictionary, not yet parsed.
#[derive(Clone, Debug)]
pub(super) enum Pairs {
    /// Words of the command line, by occurrence.
    Words(Vec<Vec<String>>),
    /// A mapping, or a string that represents one.
    Value(Value),
}

impl Pairs {
    /// Parses the dictionary, with warnings.
    pub(super) fn dict(&self, name: &str) -> anyhow::Result<dict_option::ParsedDict> {
        match self {
            Self::Words(words) => dict_option::parse(name, words),
            Self::Value(value) => match Self::dict_of(value) {
                Ok(dict) => Ok(dict_option::ParsedDict { dict, notes: Vec::new() }),
                Err(wrong) => Err(anyhow::anyhow!(wrong.message(name, value))),
            },
        }
    }

    fn dict_of(value: &Value) -> Result<Dict, InvalidValue> {
        match value {
            Value::None => Ok(Dict::new()),
            Value::Dict(dict) => Ok(Dict::clone(dict)),
            Value::Str(text) => Ok(dict_option::from_text(text)),
            _ => InvalidValue::expected("a mapping"),
        }
    }
}

impl Setting for Pairs {
    fn read(value: &Value) -> Result<Option<Self>, InvalidValue> {
        let dict = Self::dict_of(value)?;
        Ok((!value.is_none()).then(|| Self::Value(Value::from(dict))))
    }

    fn to_value(&self) -> Value {
        match self {
            Self::Words(words) => Value::list(words.iter().flatten().map(|word| Value::str(word.as_str()))),
            Self::Value(value) => value.clone(),
        }
    }
}

/// Reads one of several names, ignoring case.
pub(super) fn choice<T: ValueEnum>(value: &Value) -> Result<Option<T>, InvalidValue> {
    let Some(text) = String::read(value)? else { return Ok(None) };
    T::from_str(&text, true).map(Some).map_err(|_| {
        let names: Vec<String> =
            T::value_variants().iter().map(|one| format!("`{}`", name_of(one))).collect();
        InvalidValue::Expected(format!("one of {}", names.join(", ")))
    })
}

/// The name of a variant on the command line.
pub(super) fn name_of(choice: &impl ValueEnum) -> String {
    choice.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_numbers_of_tokens() {
        let read = |text: &str| Budget::parse(text).map(|budget| budget.0);
        assert_eq!(read("4096"), Ok(4096));
        assert_eq!(read("4k"), Ok(4096));
        assert_eq!(read(" 1K "), Ok(1024));
        for wrong in ["", "k", "0", "-1", "1.5k", "4m", "99999999999999999999", "18446744073709551615k"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}

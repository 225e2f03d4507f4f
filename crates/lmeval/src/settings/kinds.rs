//! The kinds of values that settings have.

use std::path::PathBuf;

use clap::ValueEnum;
use clap::builder::{StringValueParser, TypedValueParser};
use lmeval_core::Dialect;
use lmeval_pycompat::{Dict, Value, float, json, repr, strings};

use super::layer::{Setting, Wrong};
use super::{dict_option, seed};

impl Setting for String {
    fn read(value: &Value) -> Result<Option<Self>, Wrong> {
        match value {
            Value::None => Ok(None),
            Value::Str(text) => Ok(Some(text.to_string())),
            Value::Int(_) => Ok(Some(repr::str(value))),
            _ => Wrong::expected("text"),
        }
    }

    fn to_value(&self) -> Value {
        Value::str(self.as_str())
    }
}

impl Setting for PathBuf {
    fn read(value: &Value) -> Result<Option<Self>, Wrong> {
        Ok(String::read(value)?.filter(|path| !path.is_empty()).map(Self::from))
    }

    fn to_value(&self) -> Value {
        Value::str(self.to_string_lossy())
    }
}

impl Setting for bool {
    fn read(value: &Value) -> Result<Option<Self>, Wrong> {
        match value {
            Value::None => Ok(None),
            Value::Bool(flag) => Ok(Some(*flag)),
            Value::Int(number) => Ok(Some(*number != 0)),
            _ => Wrong::expected("true or false"),
        }
    }

    fn to_value(&self) -> Value {
        Value::Bool(*self)
    }
}

/// Reference: on the command line, everything but these three words is false.
pub fn truth() -> impl TypedValueParser<Value = bool> {
    StringValueParser::new().map(|word| matches!(word.to_lowercase().as_str(), "true" | "1" | "yes"))
}

impl Setting for i64 {
    fn read(value: &Value) -> Result<Option<Self>, Wrong> {
        match value {
            Value::None => Ok(None),
            Value::Int(number) => Ok(Some(*number)),
            _ => Wrong::expected("a whole number"),
        }
    }

    fn to_value(&self) -> Value {
        Value::Int(*self)
    }
}

/// Reads a whole number of the command line.
pub(super) fn integer(text: &str) -> Result<i64, String> {
    let number = float::parse_int(text, 10).and_then(|number| number.as_i64());
    number.ok_or_else(|| "not a whole number".to_owned())
}

impl Setting for Value {
    fn read(value: &Value) -> Result<Option<Self>, Wrong> {
        Ok(Some(value.clone()).filter(|value| !value.is_none()))
    }

    fn to_value(&self) -> Value {
        self.clone()
    }
}

/// Text that everything can be written as.
#[derive(Clone, Debug)]
pub struct Shown(pub String);

impl From<String> for Shown {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl Setting for Shown {
    fn read(value: &Value) -> Result<Option<Self>, Wrong> {
        Ok((!value.is_none()).then(|| Self(repr::str(value))))
    }

    fn to_value(&self) -> Value {
        Value::str(self.0.as_str())
    }
}

/// What counts as true in Python.
#[derive(Clone, Copy, Debug)]
pub struct Truthy(pub bool);

impl Setting for Truthy {
    fn read(value: &Value) -> Result<Option<Self>, Wrong> {
        Ok(Some(Self(value.is_truthy())))
    }

    fn to_value(&self) -> Value {
        Value::Bool(self.0)
    }
}

/// A whole number that must not be negative.
#[derive(Clone, Copy, Debug)]
pub struct Count(pub i64);

impl Count {
    /// Reads one of the command line; a negative one is refused later.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        integer(text).map(Self)
    }

    /// Reads one that the command line refuses if it is negative.
    pub(super) fn parse_natural(text: &str) -> Result<Self, std::num::ParseIntError> {
        text.parse::<usize>().map(|number| Self(i64::try_from(number).unwrap_or(i64::MAX)))
    }

    /// The number.
    pub(super) fn get(self) -> Result<usize, Wrong> {
        usize::try_from(self.0)
            .map_err(|_| Wrong::Found("a whole number that is not negative", self.0.to_string()))
    }
}

impl Setting for Count {
    fn read(value: &Value) -> Result<Option<Self>, Wrong> {
        let Some(number) = i64::read(value)? else { return Ok(None) };
        Self(number).get().map(|_| Some(Self(number)))
    }

    fn to_value(&self) -> Value {
        Value::Int(self.0)
    }
}

/// A number of draws. Reference: null draws none.
#[derive(Clone, Copy, Debug)]
pub struct Draws(pub i64);

impl Draws {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        integer(text).map(Self)
    }
}

impl Setting for Draws {
    fn read(value: &Value) -> Result<Option<Self>, Wrong> {
        Ok(Some(Self(i64::read(value)?.unwrap_or(0))))
    }

    fn to_value(&self) -> Value {
        Value::Int(self.0)
    }
}

/// A number, whole or not as it was given.
#[derive(Clone, Debug)]
pub struct Number(pub Value);

impl Number {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        float::parse_float(text)
            .map(|number| Self(Value::Float(number)))
            .ok_or_else(|| "not a number".to_owned())
    }
}

impl Setting for Number {
    fn read(value: &Value) -> Result<Option<Self>, Wrong> {
        match value {
            Value::None => Ok(None),
            Value::Int(_) | Value::Float(_) => Ok(Some(Self(value.clone()))),
            // YAML 1.1 takes `1e3` for text.
            Value::Str(text) => match float::parse_float(text) {
                Some(number) => Ok(Some(Self(Value::Float(number)))),
                None => Wrong::expected("a number"),
            },
            _ => Wrong::expected("a number"),
        }
    }

    fn to_value(&self) -> Value {
        self.0.clone()
    }
}

/// A number, or text such as `auto`.
#[derive(Clone, Debug)]
pub struct BatchSize(pub Value);

impl From<String> for BatchSize {
    fn from(text: String) -> Self {
        Self(Value::from(text))
    }
}

impl Setting for BatchSize {
    fn read(value: &Value) -> Result<Option<Self>, Wrong> {
        match value {
            Value::None => Ok(None),
            Value::Int(_) | Value::Str(_) => Ok(Some(Self(value.clone()))),
            _ => Wrong::expected("a number or a text such as `auto`"),
        }
    }

    fn to_value(&self) -> Value {
        self.0.clone()
    }
}

/// The name of a line of the reference.
#[derive(Clone, Debug)]
pub struct Compat(String);

impl Compat {
    /// The rules of the line.
    pub fn dialect(&self) -> Result<Dialect, Wrong> {
        self.0.parse().map_err(|error| Wrong::Message(format!("{error}")))
    }
}

impl From<String> for Compat {
    fn from(name: String) -> Self {
        Self(name)
    }
}

impl Setting for Compat {
    fn read(value: &Value) -> Result<Option<Self>, Wrong> {
        if value.is_none() {
            return Ok(None);
        }
        // `compat: 0.4` in a file is a number.
        let compat = Self(repr::str(value));
        compat.dialect().map(|_| Some(compat))
    }

    fn to_value(&self) -> Value {
        Value::str(self.0.as_str())
    }
}

/// Whether to use a chat template, by default without a name.
impl Setting for Option<String> {
    fn read(value: &Value) -> Result<Option<Self>, Wrong> {
        match value {
            Value::None | Value::Bool(false) => Ok(None),
            Value::Bool(true) => Ok(Some(None)),
            Value::Str(name) => Ok(Some(Some(name.to_string()))),
            _ => Wrong::expected("true, false or the name of a template"),
        }
    }

    fn to_value(&self) -> Value {
        self.as_deref().map_or(Value::Bool(true), Value::str)
    }
}

/// Something of which a setting takes several.
pub(super) trait Item: From<String> {
    /// What a list of them is called.
    const LIST: &'static str;

    /// Whether null is no list.
    const NEEDED: bool = false;

    fn shown(&self) -> Value;
}

impl<T: Item> Setting for Vec<T> {
    fn read(value: &Value) -> Result<Option<Self>, Wrong> {
        let item = |value: &Value| value.as_str().map(|text| T::from(text.to_owned()));
        let items = match value {
            Value::None if !T::NEEDED => return Ok(None),
            Value::Str(_) => item(value).map(|item| vec![item]),
            Value::List(items) => items.iter().map(item).collect(),
            _ => None,
        };
        items.map(Some).ok_or_else(|| Wrong::Expected(T::LIST.to_owned()))
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

    fn shown(&self) -> Value {
        self.to_value()
    }
}

/// A Python module, or a file, that registers things.
impl Item for String {
    const LIST: &'static str = "a module or a list of modules";

    fn shown(&self) -> Value {
        self.to_value()
    }
}

/// Names of tasks between commas.
#[derive(Clone, Debug)]
pub struct TaskNames(String);

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
    const LIST: &'static str = "a list of names";
    const NEEDED: bool = true;

    fn shown(&self) -> Value {
        Value::str(self.0.as_str())
    }
}

impl Setting for seed::Given {
    fn read(value: &Value) -> Result<Option<Self>, Wrong> {
        seed::from_value(value).map(Some).map_err(|message| Wrong::Message(format!("`seed`: {message}")))
    }

    fn to_value(&self) -> Value {
        seed::to_value(&self.seeds)
    }
}

/// A dictionary as it was given.
#[derive(Clone, Debug)]
pub enum Pairs {
    /// Words of the command line, occurrence by occurrence.
    Words(Vec<Vec<String>>),
    /// A mapping, or text that stands for one.
    Value(Value),
}

impl Pairs {
    /// Reads JSON of the command line.
    pub(super) fn parse_json(text: &str) -> Result<Self, String> {
        json::loads(text).map(Self::Value).map_err(|error| format!("not JSON: {error}"))
    }

    /// The dictionary, and what is doubtful about it.
    pub(super) fn dict(&self, name: &str) -> anyhow::Result<dict_option::Typed> {
        match self {
            Self::Words(words) => dict_option::parse(name, words),
            Self::Value(value) => match Self::dict_of(value) {
                Ok(dict) => Ok(dict_option::Typed { dict, notes: Vec::new() }),
                Err(wrong) => Err(anyhow::anyhow!(wrong.message(name, value))),
            },
        }
    }

    fn dict_of(value: &Value) -> Result<Dict, Wrong> {
        match value {
            Value::None => Ok(Dict::new()),
            Value::Dict(dict) => Ok(Dict::clone(dict)),
            Value::Str(text) => Ok(dict_option::from_text(text)),
            _ => Wrong::expected("a mapping"),
        }
    }
}

impl Setting for Pairs {
    fn read(value: &Value) -> Result<Option<Self>, Wrong> {
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

/// Reads one of several names, in any case.
pub(super) fn choice<T: ValueEnum>(value: &Value) -> Result<Option<T>, Wrong> {
    let Some(text) = String::read(value)? else { return Ok(None) };
    T::from_str(&text, true).map(Some).map_err(|_| {
        let names: Vec<String> =
            T::value_variants().iter().map(|one| format!("`{}`", name_of(one))).collect();
        Wrong::Expected(format!("one of {}", names.join(", ")))
    })
}

/// The name of a choice, as the command line has it.
pub(super) fn name_of(choice: &impl ValueEnum) -> String {
    choice.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

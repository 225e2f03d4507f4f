//! Keyword arguments of filters.

use lmeval_pycompat::re::{Flags, Regex};
use lmeval_pycompat::{Dict, Value};

use super::error::FilterError;
use crate::registry::OptionKind;

/// The keyword arguments of one step, with the name of the filter for error messages.
#[derive(Clone, Copy, Debug)]
pub struct Arguments<'a> {
    filter: &'a str,
    kwargs: &'a Dict,
}

impl<'a> Arguments<'a> {
    /// Wraps the arguments of a filter.
    pub fn new(filter: &'a str, kwargs: &'a Dict) -> Self {
        Self { filter, kwargs }
    }

    /// The name of the filter.
    pub fn filter(&self) -> &'a str {
        self.filter
    }

    /// All arguments.
    pub fn kwargs(&self) -> &'a Dict {
        self.kwargs
    }

    /// An argument, if present.
    pub fn get(&self, argument: &str) -> Option<&'a Value> {
        self.kwargs.get_str(argument)
    }

    /// An argument that must be present.
    pub fn required(&self, argument: &str, kind: OptionKind) -> Result<&'a Value, FilterError> {
        let value = self.get(argument).ok_or_else(|| FilterError::MissingArgument {
            filter: self.filter.to_owned(),
            argument: argument.to_owned(),
            expected: kind.expected(),
        })?;
        if kind.accepts(value) { Ok(value) } else { Err(self.wrong(argument, kind, value)) }
    }

    /// An argument, or a default.
    pub fn value_or(&self, argument: &str, default: impl Into<Value>) -> Value {
        self.get(argument).cloned().unwrap_or_else(|| default.into())
    }

    /// An integer argument, or a default.
    pub fn integer(&self, argument: &str, default: i64) -> Result<i64, FilterError> {
        self.get(argument).map_or(Ok(default), |value| {
            value.as_i64().ok_or_else(|| self.wrong(argument, OptionKind::Integer, value))
        })
    }

    /// The truth value of an argument of any type; false if missing.
    pub fn truth(&self, argument: &str) -> bool {
        self.get(argument).is_some_and(Value::is_truthy)
    }

    /// A regular expression, or a default.
    pub fn pattern(&self, argument: &str, default: &str) -> Result<Regex, FilterError> {
        match self.get(argument) {
            None => self.compile(argument, default),
            Some(Value::Str(pattern)) => self.compile(argument, pattern),
            Some(other) => Err(self.wrong(argument, OptionKind::Pattern, other)),
        }
    }

    /// A list of regular expressions; empty if missing or `None`. A string is split into characters, as in Python.
    pub fn patterns(&self, argument: &str) -> Result<Vec<Regex>, FilterError> {
        let wrong = |value| self.wrong(argument, OptionKind::Patterns, value);
        match self.get(argument) {
            None | Some(Value::None) => Ok(Vec::new()),
            Some(given @ (Value::List(items) | Value::Tuple(items))) => items
                .iter()
                .map(|item| self.compile(argument, item.as_str().ok_or_else(|| wrong(given))?))
                .collect(),
            Some(Value::Str(text)) => text
                .chars()
                .map(|character| self.compile(argument, character.encode_utf8(&mut [0; 4])))
                .collect(),
            Some(other) => Err(wrong(other)),
        }
    }

    /// The error of an argument of the wrong type.
    pub fn wrong(&self, argument: &str, kind: OptionKind, value: &Value) -> FilterError {
        FilterError::WrongArgument {
            filter: self.filter.to_owned(),
            argument: argument.to_owned(),
            expected: kind.expected(),
            found: value.type_name(),
        }
    }

    fn compile(&self, argument: &str, pattern: &str) -> Result<Regex, FilterError> {
        Regex::new(pattern, Flags::NONE).map_err(|source| FilterError::Pattern {
            filter: self.filter.to_owned(),
            argument: argument.to_owned(),
            source,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_a_string_into_character_patterns() {
        let kwargs: Dict = [(Value::str("p"), Value::str(".a"))].into_iter().collect();
        let patterns = Arguments::new("f", &kwargs).patterns("p").unwrap();
        let texts: Vec<&str> = patterns.iter().map(Regex::pattern).collect();
        assert_eq!(texts, [".", "a"]);
        let kwargs: Dict = [(Value::str("p"), Value::list([Value::Int(1)]))].into_iter().collect();
        let error = Arguments::new("f", &kwargs).patterns("p").unwrap_err();
        assert_eq!(
            error.to_string(),
            "The argument `p` of the filter `f` must be a list of regular expressions, not `list`"
        );
    }
}

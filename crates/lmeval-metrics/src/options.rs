//! Option tables: which keyword arguments exist, their types, and the treatment of unknown ones.

use std::borrow::Cow;

use lmeval_pycompat::{Dict, Value};

use crate::near::nearest;

/// The type of an option's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OptionKind {
    /// Any type; its truth value is used.
    Truth,
    /// An `int`.
    Integer,
    /// A `str`.
    Text,
    /// A regular expression in Python's syntax.
    Pattern,
    /// A `list` of regular expressions, or `None`.
    Patterns,
    /// A `dict`, or `None`.
    Mapping,
    /// A function.
    Function,
    /// Anything.
    Any,
}

impl OptionKind {
    /// The expected type, for messages.
    pub fn expected(self) -> &'static str {
        match self {
            Self::Truth => "a bool",
            Self::Integer => "an int",
            Self::Text => "a str",
            Self::Pattern => "a str with a regular expression",
            Self::Patterns => "a list of regular expressions",
            Self::Mapping => "a dict",
            Self::Function => "a function",
            Self::Any => "anything",
        }
    }

    /// Whether a value has the type.
    pub fn accepts(self, value: &Value) -> bool {
        match self {
            Self::Truth => matches!(value, Value::Bool(_) | Value::Int(_) | Value::None),
            Self::Integer => matches!(value, Value::Int(_) | Value::Bool(_)),
            Self::Text | Self::Pattern => matches!(value, Value::Str(_)),
            Self::Patterns => match value {
                Value::None => true,
                Value::List(items) | Value::Tuple(items) => items.iter().all(|item| item.as_str().is_some()),
                _ => false,
            },
            Self::Mapping => matches!(value, Value::Dict(_) | Value::None),
            Self::Function => matches!(value, Value::Function(_)),
            Self::Any => true,
        }
    }

    /// Whether a value of another type fails the run; otherwise it is only misinterpreted.
    fn is_strict(self, value: &Value) -> bool {
        match self {
            Self::Truth => false,
            // A plain string is read as a list of one-character patterns.
            Self::Patterns => !matches!(value, Value::Str(_)),
            _ => true,
        }
    }
}

/// The definition of one keyword argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionEntry {
    /// The name as spelled in task files.
    pub name: Cow<'static, str>,
    /// The type of its value.
    pub kind: OptionKind,
    /// The default as a Python literal; `None` if the option is required.
    pub default: Option<Cow<'static, str>>,
}

impl OptionEntry {
    /// An optional argument.
    pub const fn optional(name: &'static str, kind: OptionKind, default: &'static str) -> Self {
        Self { name: Cow::Borrowed(name), kind, default: Some(Cow::Borrowed(default)) }
    }

    /// A required argument.
    pub const fn required(name: &'static str, kind: OptionKind) -> Self {
        Self { name: Cow::Borrowed(name), kind, default: None }
    }
}

/// The option passed to every built-in metric, whether or not it reads it.
pub(crate) const SEVERAL_TARGETS: &[OptionEntry] =
    &[OptionEntry::optional("multiple_targets", OptionKind::Truth, "False")];

/// The treatment of an option that is not in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnknownOptions {
    /// Dropped silently.
    Ignored,
    /// Rejected with an error.
    Rejected,
    /// Passed on to code that the table does not know.
    PassedOn,
}

/// The options of one filter, metric or scorer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionTable {
    /// The known options.
    pub known: Cow<'static, [OptionEntry]>,
    /// The treatment of other options.
    pub unknown: UnknownOptions,
}

/// A problem with the given options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OptionProblem {
    /// An option that does not exist.
    Unknown {
        /// The name of the option.
        name: String,
        /// Similar options.
        nearest: Vec<String>,
        /// Whether it is an error; otherwise it has no effect.
        fatal: bool,
    },
    /// A required option is missing.
    Missing {
        /// The name of the option.
        name: String,
    },
    /// A value of the wrong type.
    WrongType {
        /// The name of the option.
        name: String,
        /// The expected type.
        expected: &'static str,
        /// The Python type name of the value, or a description of the problem.
        found: &'static str,
        /// Whether it is an error; otherwise the value is misinterpreted.
        fatal: bool,
    },
}

impl OptionProblem {
    /// Whether the run would fail.
    pub fn is_fatal(&self) -> bool {
        match self {
            Self::Unknown { fatal, .. } | Self::WrongType { fatal, .. } => *fatal,
            Self::Missing { .. } => true,
        }
    }

    /// The name of the option with the problem.
    pub fn option(&self) -> &str {
        match self {
            Self::Unknown { name, .. } | Self::Missing { name } | Self::WrongType { name, .. } => name,
        }
    }
}

impl OptionTable {
    /// No options; given ones are dropped.
    pub const NONE: Self = Self { known: Cow::Borrowed(&[]), unknown: UnknownOptions::Ignored };

    /// No options; given ones are rejected.
    pub const REJECT_ALL: Self = Self { known: Cow::Borrowed(&[]), unknown: UnknownOptions::Rejected };

    /// Any options, passed on to code that the table does not know.
    pub const OPEN: Self = Self { known: Cow::Borrowed(&[]), unknown: UnknownOptions::PassedOn };

    /// Only these options; others are rejected.
    pub const fn strict(known: &'static [OptionEntry]) -> Self {
        Self { known: Cow::Borrowed(known), unknown: UnknownOptions::Rejected }
    }

    /// These options; others are dropped.
    pub const fn lenient(known: &'static [OptionEntry]) -> Self {
        Self { known: Cow::Borrowed(known), unknown: UnknownOptions::Ignored }
    }

    /// Looks up an option by name.
    pub fn get(&self, name: &str) -> Option<&OptionEntry> {
        self.known.iter().find(|option| option.name == name)
    }

    /// All problems with the given options, in their order; missing ones last.
    pub fn check(&self, given: &Dict) -> Vec<OptionProblem> {
        let mut problems = Vec::new();
        for (key, value) in given.iter() {
            let name = key.as_str().unwrap_or_default();
            match self.get(name) {
                Some(option) if option.kind.accepts(value) => {}
                Some(option) => problems.push(OptionProblem::WrongType {
                    name: name.to_owned(),
                    expected: option.kind.expected(),
                    found: match value {
                        Value::BigInt(_) if option.kind == OptionKind::Integer => "an int that is too large",
                        _ => value.type_name(),
                    },
                    fatal: option.kind.is_strict(value),
                }),
                None if self.unknown == UnknownOptions::PassedOn => {}
                None => problems.push(OptionProblem::Unknown {
                    name: name.to_owned(),
                    nearest: nearest(name, self.known.iter().map(|option| &*option.name))
                        .into_iter()
                        .map(str::to_owned)
                        .collect(),
                    fatal: self.unknown == UnknownOptions::Rejected,
                }),
            }
        }
        for option in self.known.iter().filter(|option| option.default.is_none()) {
            if !given.contains_str(&option.name) {
                problems.push(OptionProblem::Missing { name: option.name.clone().into_owned() });
            }
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lmeval_pycompat::literal::literal_eval;

    const OPTIONS: &[OptionEntry] = &[
        OptionEntry::required("k", OptionKind::Integer),
        OptionEntry::optional("ignore_case", OptionKind::Truth, "False"),
        OptionEntry::optional("regexes_to_ignore", OptionKind::Patterns, "None"),
    ];

    fn given(entries: &[(&str, Value)]) -> Dict {
        entries.iter().map(|(key, value)| (Value::str(*key), value.clone())).collect()
    }

    #[test]
    fn strict_tables_reject_lenient_ones_drop() {
        let options = given(&[("k", Value::Int(1)), ("ignore_caes", Value::Bool(true))]);
        let problems = OptionTable::strict(OPTIONS).check(&options);
        assert_eq!(
            problems,
            [OptionProblem::Unknown {
                name: "ignore_caes".into(),
                nearest: vec!["ignore_case".into()],
                fatal: true
            }]
        );
        assert!(OptionTable::lenient(OPTIONS).check(&options).iter().all(|problem| !problem.is_fatal()));
    }

    #[test]
    fn names_missing_and_wrong_options() {
        let problems = OptionTable::strict(OPTIONS).check(&Dict::new());
        assert_eq!(problems, [OptionProblem::Missing { name: "k".into() }]);
        let problems = OptionTable::strict(OPTIONS).check(&given(&[
            ("k", Value::str("3")),
            ("ignore_case", Value::str("no")),
            ("regexes_to_ignore", Value::str("ab")),
        ]));
        let fatal: Vec<bool> = problems.iter().map(OptionProblem::is_fatal).collect();
        assert_eq!(fatal, [true, false, false]);
        assert_eq!(problems[0].option(), "k");
        let huge = literal_eval("123456789012345678901234567890").unwrap();
        let problems = OptionTable::strict(OPTIONS).check(&given(&[("k", huge)]));
        assert!(matches!(
            &problems[..],
            [OptionProblem::WrongType { found: "an int that is too large", .. }]
        ));
    }
}

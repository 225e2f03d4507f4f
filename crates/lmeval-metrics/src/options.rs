//! Keyword arguments: which there are, of which type, and what happens to others.

use std::borrow::Cow;

use lmeval_pycompat::{Dict, Value};

use crate::near::nearest;

/// The type of an option's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OptionKind {
    /// Its truth value counts, so every type works.
    Truth,
    /// An `int`.
    Integer,
    /// A `str`.
    Text,
    /// A regular expression in Python's syntax.
    Pattern,
    /// A `list` of regular expressions, or nothing.
    Patterns,
    /// A `dict`, or nothing.
    Mapping,
    /// A function.
    Function,
    /// Anything.
    Any,
}

impl OptionKind {
    /// What a value must be, for messages.
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

    /// Whether a value of another type makes the run fail; otherwise it only means something unexpected.
    fn is_strict(self, value: &Value) -> bool {
        match self {
            Self::Truth => false,
            // A bare text is read as a list of one-character patterns.
            Self::Patterns => !matches!(value, Value::Str(_)),
            _ => true,
        }
    }
}

/// One keyword argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionEntry {
    /// Its name.
    pub name: Cow<'static, str>,
    /// The type of its value.
    pub kind: OptionKind,
    /// The value that is used when it is not given, as a Python literal; `None` when it must be given.
    pub default: Option<Cow<'static, str>>,
}

impl OptionEntry {
    /// An option that may be left out.
    pub const fn optional(name: &'static str, kind: OptionKind, default: &'static str) -> Self {
        Self { name: Cow::Borrowed(name), kind, default: Some(Cow::Borrowed(default)) }
    }

    /// An option that must be given.
    pub const fn required(name: &'static str, kind: OptionKind) -> Self {
        Self { name: Cow::Borrowed(name), kind, default: None }
    }
}

/// The option that every built-in metric is offered, whether it looks at it or not.
pub(crate) const SEVERAL_TARGETS: &[OptionEntry] =
    &[OptionEntry::optional("multiple_targets", OptionKind::Truth, "False")];

/// What happens to an option that is not in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnknownOptions {
    /// It is dropped without a word.
    Ignored,
    /// It is an error.
    Rejected,
    /// It reaches code that is not known here.
    PassedOn,
}

/// The options of one filter, metric or scorer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionTable {
    /// The options that there are.
    pub known: Cow<'static, [OptionEntry]>,
    /// What happens to others.
    pub unknown: UnknownOptions,
}

/// Something that is wrong with given options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OptionProblem {
    /// There is no such option.
    Unknown {
        /// The option.
        name: String,
        /// Options that look like it.
        nearest: Vec<String>,
        /// Whether it is an error, or has no effect.
        fatal: bool,
    },
    /// An option is missing.
    Missing {
        /// The option.
        name: String,
    },
    /// A value has another type.
    WrongType {
        /// The option.
        name: String,
        /// What its value must be.
        expected: &'static str,
        /// Python's name of the type of the value, or what else is wrong with it.
        found: &'static str,
        /// Whether it is an error, or only means something unexpected.
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

    /// The option that it is about.
    pub fn option(&self) -> &str {
        match self {
            Self::Unknown { name, .. } | Self::Missing { name } | Self::WrongType { name, .. } => name,
        }
    }
}

impl OptionTable {
    /// No options; given ones are dropped.
    pub const NONE: Self = Self { known: Cow::Borrowed(&[]), unknown: UnknownOptions::Ignored };

    /// No options; given ones are errors.
    pub const NONE_ALLOWED: Self = Self { known: Cow::Borrowed(&[]), unknown: UnknownOptions::Rejected };

    /// Any options: they reach code that is not known here.
    pub const OPEN: Self = Self { known: Cow::Borrowed(&[]), unknown: UnknownOptions::PassedOn };

    /// These options and no others.
    pub const fn strict(known: &'static [OptionEntry]) -> Self {
        Self { known: Cow::Borrowed(known), unknown: UnknownOptions::Rejected }
    }

    /// These options; others are dropped.
    pub const fn lenient(known: &'static [OptionEntry]) -> Self {
        Self { known: Cow::Borrowed(known), unknown: UnknownOptions::Ignored }
    }

    /// The option of a name.
    pub fn get(&self, name: &str) -> Option<&OptionEntry> {
        self.known.iter().find(|option| option.name == name)
    }

    /// Everything that is wrong with given options, in their order, missing ones last.
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
                        Value::BigInt(_) if option.kind == OptionKind::Integer => "one that is too large",
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
    fn strict_tables_reject_and_lenient_ones_drop() {
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
    fn missing_and_wrong_options_are_named() {
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
        assert!(matches!(&problems[..], [OptionProblem::WrongType { found: "one that is too large", .. }]));
    }
}

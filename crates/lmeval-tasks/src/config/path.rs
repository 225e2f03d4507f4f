//! Paths into a configuration, and references by name or function.

use std::fmt;
use std::sync::Arc;

use lmeval_pycompat::{Function, Value};

use crate::error::Location;
use crate::formats::locate;
use crate::source::{Mapping, Origin, Step};

/// The path from the root of a task or group to one of its values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigPath(Vec<Step>);

impl ConfigPath {
    /// The path of a top-level key.
    pub fn key(key: &str) -> Self {
        Self(vec![key.into()])
    }

    /// The path extended by one step.
    pub fn then(&self, step: impl Into<Step>) -> Self {
        let mut steps = self.0.clone();
        steps.push(step.into());
        Self(steps)
    }

    /// The steps from the root.
    pub fn steps(&self) -> &[Step] {
        &self.0
    }

    /// The location of the value; for a value set by a format, the location that selected the format.
    pub fn locate(&self, mapping: &Mapping) -> Option<Location> {
        if let Some(Step::Key(first)) = self.0.first()
            && let Some(Origin::Format(format)) = mapping.origin(first)
        {
            return locate(mapping, &["formats".into(), Step::Key(Arc::clone(format))]);
        }
        mapping.locate(&self.0)
    }
}

impl fmt::Display for ConfigPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, step) in self.0.iter().enumerate() {
            match step {
                Step::Key(key) if position == 0 => f.write_str(key)?,
                Step::Key(key) => write!(f, ".{key}")?,
                Step::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

/// A reference by registered name or by function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Named {
    /// A name to look up in the registry.
    Name(Arc<str>),
    /// A Python function or class.
    Function(Arc<Function>),
}

impl Named {
    /// Converts a value; `None` if it is neither a string nor a function.
    pub(super) fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Str(name) => Some(Self::Name(Arc::clone(name))),
            Value::Function(function) => Some(Self::Function(Arc::clone(function))),
            _ => None,
        }
    }

    /// The name, unless this is a function.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Name(name) => Some(name),
            Self::Function(_) => None,
        }
    }
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Function(function) => f.write_str(&function.reference),
        }
    }
}

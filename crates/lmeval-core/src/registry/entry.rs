//! One name: what is known of it, and its code.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use super::registered::Registered;
use super::table::Table;
use super::{OptionTable, Registry};
use crate::OutputType;

/// A kind of thing that has a name, such as metrics.
pub trait Kind: Clone + 'static {
    /// What messages call one of these.
    const WORD: &'static str;

    /// What the code of an entry is: the thing itself, or what makes it.
    type Code: ?Sized + Send + Sync;

    /// What is known of an entry beyond what all kinds have.
    type Facts: Clone + Default + Send + Sync;

    /// The table of the kind.
    fn table_mut(registry: &mut Registry) -> &mut Table<Self>;

    /// Whether the entry stands for this name, too; some names are patterns, such as `pass@k`.
    fn answers_to(_entry: &Entry<Self>, _name: &str) -> bool {
        false
    }
}

/// Where the code of an entry is.
pub enum Code<T: ?Sized> {
    /// In this program.
    BuiltIn(Arc<T>),
    /// In the program that uses this one as a library.
    Program(Arc<T>),
    /// In Python, which registered it.
    Python(Registered),
    /// In the Python code of a task, which registers it when it is imported.
    TaskCode,
}

impl<T: ?Sized> Clone for Code<T> {
    fn clone(&self) -> Self {
        match self {
            Self::BuiltIn(code) => Self::BuiltIn(Arc::clone(code)),
            Self::Program(code) => Self::Program(Arc::clone(code)),
            Self::Python(registered) => Self::Python(registered.clone()),
            Self::TaskCode => Self::TaskCode,
        }
    }
}

impl<T: ?Sized> Code<T> {
    /// The code, where it is not Python.
    pub fn here(&self) -> Option<&Arc<T>> {
        match self {
            Self::BuiltIn(code) | Self::Program(code) => Some(code),
            Self::Python(_) | Self::TaskCode => None,
        }
    }

    /// What Python registered.
    pub fn python(&self) -> Option<&Registered> {
        match self {
            Self::Python(registered) => Some(registered),
            _ => None,
        }
    }

    /// Which entry of a name counts: the one of the highest layer, and of Python's the newest.
    pub(super) fn layer(&self) -> u8 {
        match self {
            Self::BuiltIn(_) | Self::TaskCode => 0,
            Self::Program(_) => 1,
            Self::Python(_) => 2,
        }
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        match (self.here(), other.here()) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}

/// What a name stands for.
pub struct Entry<K: Kind> {
    /// The name used in task files.
    pub name: Cow<'static, str>,
    /// One line for listings.
    pub summary: Cow<'static, str>,
    /// Keyword arguments.
    pub options: OptionTable,
    /// The output types it is for.
    pub output_types: Cow<'static, [OutputType]>,
    /// What is known of its kind alone.
    pub facts: K::Facts,
    /// Its code.
    pub code: Code<K::Code>,
}

impl<K: Kind> Clone for Entry<K> {
    fn clone(&self) -> Self {
        Self {
            name: self.name.clone(),
            summary: self.summary.clone(),
            options: self.options.clone(),
            output_types: self.output_types.clone(),
            facts: self.facts.clone(),
            code: self.code.clone(),
        }
    }
}

impl<K: Kind> fmt::Debug for Entry<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple(K::WORD).field(&self.name).finish()
    }
}

impl<K: Kind> Entry<K> {
    /// An entry with this code, for all output types and with any options.
    pub fn with_code(name: impl Into<Cow<'static, str>>, code: Code<K::Code>) -> Self {
        Self {
            name: name.into(),
            summary: Cow::Borrowed(""),
            options: OptionTable::OPEN,
            output_types: Cow::Borrowed(&OutputType::ALL),
            facts: K::Facts::default(),
            code,
        }
    }

    /// Sets the line for listings.
    pub fn summary(mut self, summary: impl Into<Cow<'static, str>>) -> Self {
        self.summary = summary.into();
        self
    }

    /// Sets the options that it has, so that others are refused or reported.
    pub fn options(mut self, options: OptionTable) -> Self {
        self.options = options;
        self
    }

    /// Sets the output types that it is for.
    pub fn output_types(mut self, output_types: impl Into<Cow<'static, [OutputType]>>) -> Self {
        self.output_types = output_types.into();
        self
    }

    /// Whether it is for tasks of an output type.
    pub fn fits(&self, output_type: OutputType) -> bool {
        self.output_types.contains(&output_type)
    }

    /// Whether it is part of this program.
    pub fn is_built_in(&self) -> bool {
        self.code.layer() == 0
    }

    /// The same entry as part of this program.
    pub(crate) fn built_in(mut self) -> Self {
        if let Code::Program(code) = self.code {
            self.code = Code::BuiltIn(code);
        }
        self
    }
}

//! Registry entries: a name, its metadata and its code.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use super::registered::Registered;
use super::table::Table;
use super::{OptionTable, Registry};
use lmeval_core::OutputType;

/// A kind of registry entry, such as metrics.
pub trait Kind: Clone + 'static {
    /// The noun used in messages, and the kind's name in the registration protocol.
    const NAME: &'static str;

    /// The code of an entry: the object itself, or its constructor.
    type Code: ?Sized + Send + Sync;

    /// Metadata specific to the kind.
    type Facts: Clone + Default + Send + Sync;

    /// The registry's table for the kind.
    fn table_mut(registry: &mut Registry) -> &mut Table<Self>;

    /// Whether the entry also matches this name; some names are patterns, such as `pass@k`.
    fn matches_name(_entry: &Entry<Self>, _name: &str) -> bool {
        false
    }
}

/// The origin of an entry's code.
pub enum Code<T: ?Sized> {
    /// Compiled into this library.
    BuiltIn(Arc<T>),
    /// Registered by the Rust program that uses this library.
    Program(Arc<T>),
    /// Registered by Python code.
    Python(Registered),
    /// Registered by a task's Python code once it is imported.
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
    /// The code, unless it is Python.
    pub fn rust(&self) -> Option<&Arc<T>> {
        match self {
            Self::BuiltIn(code) | Self::Program(code) => Some(code),
            Self::Python(_) | Self::TaskCode => None,
        }
    }

    /// The Python registration.
    pub fn python(&self) -> Option<&Registered> {
        match self {
            Self::Python(registered) => Some(registered),
            _ => None,
        }
    }

    /// The precedence of the entry: the highest layer wins, and the latest registration within the Python layer.
    pub(super) fn layer(&self) -> u8 {
        match self {
            Self::BuiltIn(_) | Self::TaskCode => 0,
            Self::Program(_) => 1,
            Self::Python(_) => 2,
        }
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        match (self.rust(), other.rust()) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}

/// A named entry of the registry.
pub struct Entry<K: Kind> {
    /// The name used in task files.
    pub name: Cow<'static, str>,
    /// A one-line description for listings.
    pub summary: Cow<'static, str>,
    /// The accepted keyword arguments.
    pub options: OptionTable,
    /// The output types it supports.
    pub output_types: Cow<'static, [OutputType]>,
    /// Metadata specific to the kind.
    pub facts: K::Facts,
    /// The code, and where it comes from.
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
        f.debug_tuple(K::NAME).field(&self.name).finish()
    }
}

impl<K: Kind> Entry<K> {
    /// An entry with the given code that supports all output types and accepts any options.
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

    /// Sets the description for listings.
    pub fn summary(mut self, summary: impl Into<Cow<'static, str>>) -> Self {
        self.summary = summary.into();
        self
    }

    /// Sets the accepted options; others are rejected or reported.
    pub fn options(mut self, options: OptionTable) -> Self {
        self.options = options;
        self
    }

    /// Sets the supported output types.
    pub fn output_types(mut self, output_types: impl Into<Cow<'static, [OutputType]>>) -> Self {
        self.output_types = output_types.into();
        self
    }

    /// Whether it supports an output type.
    pub fn fits(&self, output_type: OutputType) -> bool {
        self.output_types.contains(&output_type)
    }

    /// Whether it is part of this library.
    pub fn is_built_in(&self) -> bool {
        self.code.layer() == 0
    }

    /// Marks the entry as part of this library.
    pub(crate) fn built_in(mut self) -> Self {
        if let Code::Program(code) = self.code {
            self.code = Code::BuiltIn(code);
        }
        self
    }
}

//! Registrations made by Python code.

use std::sync::Arc;

use lmeval_pycompat::{Dict, Function, Value};

/// An object that Python code registered under a name.
#[derive(Clone, Debug)]
pub struct Registered {
    /// A reference that resolves to the object in any Python process.
    pub function: Arc<Function>,
    /// Metadata given at registration, such as the aggregation of a metric.
    pub facts: Dict,
}

impl Registered {
    /// A metadata field that is a string.
    pub fn text(&self, fact: &str) -> Option<&str> {
        self.facts.get_str(fact).and_then(Value::as_str)
    }
}

/// Where to look for a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NameScope {
    /// Task folders whose modules may register names, nearest first; plug-ins take precedence over them.
    pub folders: Vec<String>,
    /// Whether to import a folder's `utils.py` even if it does not mention the name.
    pub import_utils: bool,
}

/// The outcome of a name lookup.
#[derive(Clone, Debug)]
pub enum NameLookup {
    /// The name is registered.
    Found(Registered),
    /// Not registered; lists the registered names of the kind.
    Unknown(Vec<String>),
}

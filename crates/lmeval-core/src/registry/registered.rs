//! Names that Python code registers.

use std::sync::Arc;

use lmeval_pycompat::{Dict, Function, Value};

/// Something that Python code has registered under a name.
#[derive(Clone, Debug)]
pub struct Registered {
    /// What finds it again, in any process that runs Python.
    pub function: Arc<Function>,
    /// What was said when it was registered, such as the aggregation of a metric.
    pub facts: Dict,
}

impl Registered {
    /// A fact that is a text.
    pub fn text(&self, fact: &str) -> Option<&str> {
        self.facts.get_str(fact).and_then(Value::as_str)
    }
}

/// Where names are looked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NameScope {
    /// Task folders whose modules may register names, the nearest first; plug-ins come before them.
    pub folders: Vec<String>,
    /// Whether `utils.py` of a folder is imported though it does not mention the name.
    pub whole: bool,
}

/// What came of looking for a name.
#[derive(Clone, Debug)]
pub enum NameLookup {
    /// It is there.
    Found(Registered),
    /// It is not, and these names of the kind are.
    Unknown(Vec<String>),
}

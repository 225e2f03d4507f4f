//! Single expressions, such as conditions on the command line.

use std::collections::BTreeSet;
use std::sync::Arc;

use lmeval_pycompat::{Dict, Value};

use crate::error::Error;
use crate::eval::Vm;
use crate::program::{Program, Settings};
use crate::value::Val;

/// A compiled expression; cheap to clone and to share between threads.
///
/// ```
/// use lmeval_pycompat::{Dict, Value};
/// use lmeval_template::Environment;
///
/// let expression = Environment::new().compile_expression("score > 0.5 and 'a' in name").unwrap();
/// let variables: Dict =
///     [(Value::str("score"), Value::Float(0.75)), (Value::str("name"), Value::str("arc"))].into_iter().collect();
/// assert!(expression.is_true(&variables).unwrap());
/// ```
#[derive(Clone, Debug)]
pub struct Expression {
    program: Arc<Program>,
    settings: Settings,
}

impl Expression {
    pub(crate) fn new(program: Program, settings: Settings) -> Self {
        Self { program: Arc::new(program), settings }
    }

    /// The value; `None` if it is undefined, such as a missing attribute.
    pub fn evaluate(&self, variables: &Dict) -> Result<Option<Value>, Error> {
        self.value(variables)
            .and_then(|value| match &value {
                Val::Undefined(_) => Ok(None),
                value => value.to_value().map(Some).ok_or_else(|| {
                    let error =
                        Error::type_error("The expression gives a function or a generator, not a value");
                    error.with_hint("`| list` collects the items of a generator")
                }),
            })
            .map_err(|error| error.with_template(&self.program.source))
    }

    /// Whether the value is true in Python's sense. An undefined value is an error.
    pub fn is_true(&self, variables: &Dict) -> Result<bool, Error> {
        self.value(variables)
            .and_then(|value| value.truth().map_err(|error| error.or_at(0, self.program.source.len())))
            .map_err(|error| error.with_template(&self.program.source))
    }

    fn value(&self, variables: &Dict) -> Result<Val, Error> {
        Vm::evaluate(&self.program, &self.settings, variables)
    }

    /// The source of the expression.
    pub fn source(&self) -> &str {
        &self.program.source
    }

    /// The variables that the expression reads.
    pub fn variables(&self) -> &BTreeSet<String> {
        &self.program.variables.undeclared
    }
}

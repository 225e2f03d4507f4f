//! Expressions over the fields of a sample.

use std::path::Path;
use std::sync::Arc;

use lmeval_core::{Diagnostic, Location, nearest};
use lmeval_pycompat::{Dict, Value};
use lmeval_template::{Environment, ErrorKind};

use super::sample::Sample;
use crate::Error;
use crate::read::listed;

/// A Jinja expression over the fields of a sample, such as `acc == 0 and 'Paris' in answer`.
///
/// Variables are the fields of the file (`doc`, `doc_id`, `target`, `resps`, `filtered_resps`, `arguments`, metrics by name) and
/// the derived ones: `task`, `prompt`, `answer`, `continuations`, `outcome` and `scores`.
#[derive(Clone, Debug)]
pub struct Expression {
    /// Not every field name is an expression: `pass@1` is not.
    compiled: Result<lmeval_template::Expression, Error>,
    text: Arc<str>,
    origin: Arc<Path>,
}

impl Expression {
    /// Compiles a condition. `origin` names it in errors: a flag, or a box of a page.
    pub fn parse(text: &str, origin: &str) -> Result<Self, Error> {
        Self::compile(text, origin, &Environment::new()).checked()
    }

    /// Compiles a condition with a limit on the steps per sample, for servers that must not be held up by one query.
    pub fn parse_limited(text: &str, origin: &str, steps: u64) -> Result<Self, Error> {
        Self::compile(text, origin, &Environment::new().with_fuel(steps)).checked()
    }

    fn checked(self) -> Result<Self, Error> {
        match self.compiled {
            Err(error) => Err(error),
            Ok(_) => Ok(self),
        }
    }

    /// Compiles a field to show or to sort by: an expression, or the name of a field that is not one, such as `pass@1`.
    pub fn field(text: &str, origin: &str) -> Self {
        Self::compile(text, origin, &Environment::new())
    }

    fn compile(text: &str, origin: &str, environment: &Environment) -> Self {
        let text = text.trim();
        let origin: Arc<Path> = Path::new(origin).into();
        let compiled = environment.compile_expression(text).map_err(|error| {
            let mut diagnostic = diagnostic(&error, error.message().to_owned(), &origin);
            if error.message().starts_with("Found `=`") {
                diagnostic = diagnostic.hint("`==` compares");
            }
            diagnostic.into()
        });
        Self { compiled, text: text.into(), origin }
    }

    /// The text of the expression.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether the condition holds for a sample. A field that the sample lacks is an error that lists those it has.
    pub fn is_true(&self, sample: &Sample<'_>) -> Result<bool, Error> {
        let compiled = self.compiled.as_ref().map_err(Clone::clone)?;
        let variables = variables(compiled, sample)?;
        compiled.is_true(&variables).map_err(|error| self.failed(&error, sample).into())
    }

    /// The value for a sample; `None` if the sample does not have it.
    pub fn value(&self, sample: &Sample<'_>) -> Result<Option<Value>, Error> {
        if let Some(value) = sample.value(&self.text)? {
            return Ok(Some(value));
        }
        let compiled = self.compiled.as_ref().map_err(Clone::clone)?;
        let variables = variables(compiled, sample)?;
        match compiled.evaluate(&variables) {
            Ok(value) => Ok(value),
            Err(error) if error.kind() == ErrorKind::Undefined => Ok(None),
            Err(error) => Err(self.failed(&error, sample).into()),
        }
    }

    /// Fails if the expression reads a field that is none of `names`: a typing error would otherwise give empty values only.
    pub fn check(&self, names: &[&str]) -> Result<(), Error> {
        if names.contains(&&*self.text) {
            return Ok(());
        }
        let compiled = self.compiled.as_ref().map_err(Clone::clone)?;
        let Some(unknown) = compiled.variables().iter().find(|name| !names.contains(&name.as_str())) else {
            return Ok(());
        };
        let start = self.text.find(unknown.as_str()).unwrap_or(0);
        let range = start..start + unknown.len();
        Err(Diagnostic::new(format!("No sample has a field `{unknown}`"))
            .at(Some(Location::new(self.origin.clone(), self.text.clone(), range, 1)))
            .did_you_mean(&nearest(unknown, names.iter().copied()))
            .hint(format!("The fields are {}", listed(names)))
            .into())
    }

    /// The error for a sample that the expression cannot be evaluated for.
    fn failed(&self, error: &lmeval_template::Error, sample: &Sample<'_>) -> Diagnostic {
        let id = sample.fields().raw("doc_id").unwrap_or("?");
        let message = format!("{}, for document {id} of `{}`", error.message(), sample.task());
        let mut diagnostic = diagnostic(error, message, &self.origin);
        if error.kind() != ErrorKind::Undefined {
            return diagnostic;
        }
        let names = sample.names();
        match (error.variable(), sample.value("doc")) {
            (None, Ok(Some(Value::Dict(doc)))) => {
                let keys: Vec<&str> = doc.keys().filter_map(Value::as_str).collect();
                diagnostic = diagnostic.hint(format!("The fields of `doc` are {}", listed(&keys)));
            }
            (Some(variable), _) => {
                diagnostic = diagnostic
                    .did_you_mean(&nearest(variable, names.iter().copied()))
                    .hint(format!("The fields are {}", listed(&names)));
            }
            _ => {}
        }
        diagnostic.hint("`FIELD is defined and …` skips documents without a field")
    }
}

/// The fields that an expression reads.
fn variables(compiled: &lmeval_template::Expression, sample: &Sample<'_>) -> Result<Dict, Error> {
    let mut variables = Dict::with_capacity(compiled.variables().len());
    for name in compiled.variables() {
        if let Some(value) = sample.value(name)? {
            variables.insert(name.as_str(), value);
        }
    }
    Ok(variables)
}

fn diagnostic(error: &lmeval_template::Error, message: String, origin: &Arc<Path>) -> Diagnostic {
    let location = error
        .range()
        .zip(error.template())
        .map(|(range, template)| Location::new(origin.clone(), template, range, error.line().unwrap_or(1)));
    error.hints().iter().fold(Diagnostic::new(message).at(location), Diagnostic::hint)
}

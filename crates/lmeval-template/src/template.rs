//! The prompt environment and its templates.

use std::collections::BTreeSet;
use std::sync::Arc;

use lmeval_pycompat::Dict;

use crate::error::{Error, nearest};
use crate::eval::Vm;
use crate::expression::Expression;
use crate::lexer::Whitespace;
use crate::parser::Syntax;
use crate::program::{Clock, Program, Settings};

/// Default step limit of one rendering: seconds of work, far more than any prompt needs.
pub(crate) const DEFAULT_FUEL: u64 = 50_000_000;

/// The rules for compiling and rendering prompts.
///
/// Undefined values are strict, whitespace is kept as written, nothing is escaped.
///
/// ```
/// use lmeval_pycompat::{Dict, Value};
/// use lmeval_template::Environment;
///
/// let template = Environment::new().compile("{{ question.strip() }}\nAnswer:").unwrap();
/// let document: Dict = [(Value::str("question"), Value::str(" Why? "))].into_iter().collect();
/// assert_eq!(template.render(&document).unwrap(), "Why?\nAnswer:");
/// ```
#[derive(Clone, Debug)]
pub struct Environment {
    settings: Settings,
}

impl Default for Environment {
    fn default() -> Self {
        Self::new()
    }
}

impl Environment {
    /// An environment with the default step limit.
    pub fn new() -> Self {
        Self { settings: Settings { strict: true, chat: false, fuel: DEFAULT_FUEL, clock: None } }
    }

    /// Limits the steps of one rendering.
    pub fn with_fuel(mut self, steps: u64) -> Self {
        self.settings.fuel = steps;
        self
    }

    /// Compiles a template.
    ///
    /// Unknown filters and tests fail here, except inside of conditions, where they fail when reached; see
    /// [`Template::unresolved_names`].
    pub fn compile(&self, source: &str) -> Result<Template, Error> {
        let whitespace = Whitespace { keep_trailing_newline: true, ..Whitespace::default() };
        let syntax = Syntax { whitespace, ..Syntax::default() };
        let program = Program::compile(source, syntax, false)?;
        Ok(Template { program: Arc::new(program), settings: self.settings.clone() })
    }

    /// Compiles a single expression, written without `{{ }}`.
    pub fn compile_expression(&self, source: &str) -> Result<Expression, Error> {
        let program = Program::compile(source, Syntax { expression: true, ..Syntax::default() }, false)?;
        Ok(Expression::new(program, self.settings.clone()))
    }
}

/// A compiled template; cheap to clone and to share between threads.
#[derive(Clone, Debug)]
pub struct Template {
    program: Arc<Program>,
    settings: Settings,
}

impl Template {
    pub(crate) fn with_settings(program: Program, settings: Settings) -> Self {
        Self { program: Arc::new(program), settings }
    }

    pub(crate) fn set_clock(&mut self, clock: Clock) {
        self.settings.clock = Some(clock);
    }

    /// Renders the template with the document's keys as variables.
    pub fn render(&self, document: &Dict) -> Result<String, Error> {
        let mut out = String::with_capacity(self.program.source.len());
        match Vm::render(&self.program, &self.settings, document, &mut out) {
            Ok(()) => Ok(out),
            // The variables of a chat template are not columns.
            Err(error) if self.settings.chat => Err(error.with_template(&self.program.source)),
            Err(error) => Err(explain(error, document).with_template(&self.program.source)),
        }
    }

    /// The template source, with line endings normalized to `\n`.
    pub fn source(&self) -> &str {
        &self.program.source
    }

    /// The variables that the template expects from the document.
    pub fn undeclared_variables(&self) -> BTreeSet<String> {
        self.program.variables.undeclared.clone()
    }

    /// Unknown filters and tests inside of conditions, which may never be reached.
    pub fn unresolved_names(&self) -> &BTreeSet<String> {
        &self.program.unresolved
    }
}

/// Adds hints: the nearest column names, and all columns.
fn explain(error: Error, document: &Dict) -> Error {
    const SHOWN: usize = 40;
    let columns: Vec<&str> = document.keys().filter_map(|key| key.as_str()).collect();
    let missing = error.variable().filter(|variable| !columns.contains(variable));
    let near = missing.and_then(|variable| nearest(variable, columns.iter().copied()));
    let mut shown: Vec<String> = columns.iter().take(SHOWN).map(|column| format!("`{column}`")).collect();
    if columns.len() > SHOWN {
        shown.push(format!("and {} more", columns.len() - SHOWN));
    }
    let error = near.into_iter().fold(error, Error::with_hint);
    if shown.is_empty() { error } else { error.with_hint(format!("The columns are {}", shown.join(", "))) }
}

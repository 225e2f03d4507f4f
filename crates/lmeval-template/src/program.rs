//! A compiled template and the settings it runs under.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::ast::Block;
use crate::error::Error;
use crate::lexer::normalize_newlines;
use crate::parser::{Syntax, parse};
use crate::scope::Variables;

/// The clock of `strftime_now`: a format in, a text out.
pub(crate) type Clock = Arc<dyn Fn(&str) -> String + Send + Sync>;

/// What does not change from one rendering to the next.
#[derive(Clone)]
pub(crate) struct Settings {
    /// Whether printing an undefined value fails.
    pub(crate) strict: bool,
    /// Whether this is a chat template.
    pub(crate) chat: bool,
    /// Steps that one rendering may take.
    pub(crate) fuel: u64,
    pub(crate) clock: Option<Clock>,
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Settings")
            .field("strict", &self.strict)
            .field("chat", &self.chat)
            .field("fuel", &self.fuel)
            .finish_non_exhaustive()
    }
}

/// A template ready to run.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) source: Arc<str>,
    /// The template itself, which is a block without a name.
    pub(crate) main: Block,
    pub(crate) blocks: Vec<Block>,
    pub(crate) variables: Variables,
    /// Filters and tests that do not exist and may never be reached.
    pub(crate) unresolved: BTreeSet<String>,
    /// Whether the template may call a method that changes a value.
    pub(crate) changes_values: bool,
}

impl Program {
    pub(crate) fn compile(source: &str, syntax: Syntax, chat: bool) -> Result<Self, Error> {
        let source: Arc<str> = normalize_newlines(source, syntax.whitespace.keep_trailing_newline).into();
        let mut program = parse(&source, syntax, chat).map_err(|error| error.with_template(&source))?;
        program.changes_values = !chat && mentions_mutator(&source);
        Ok(program)
    }
}

/// Whether the text of a template has the name of a method that changes its receiver.
///
/// A name in plain text only costs time, so there is no need to look at the tree.
fn mentions_mutator(source: &str) -> bool {
    const NAMES: [&str; 12] = [
        "append",
        "clear",
        "extend",
        "insert",
        "pop",
        "remove",
        "reverse",
        "setdefault",
        "sort",
        "update",
        "add",
        "attr",
    ];
    NAMES.iter().any(|name| {
        source.match_indices(name).any(|(start, _)| {
            let before = source[..start].trim_end().chars().next_back();
            matches!(before, Some('.' | '[' | '\'' | '"' | '|' | '('))
        })
    })
}

//! A compiled template and the settings it runs under.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::ast::Block;
use crate::error::Error;
use crate::lexer::normalize_newlines;
use crate::parser::{Syntax, parse};
use crate::scope::Variables;

/// The clock of `strftime_now`: formats the current time.
pub(crate) type Clock = Arc<dyn Fn(&str) -> String + Send + Sync>;

/// Settings shared by all renderings.
#[derive(Clone)]
pub(crate) struct Settings {
    /// Whether printing an undefined value fails.
    pub(crate) strict: bool,
    pub(crate) chat: bool,
    /// Step limit of one rendering.
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

/// A compiled template.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) source: Arc<str>,
    /// The template's top level, as a block without a name.
    pub(crate) main: Block,
    pub(crate) blocks: Vec<Block>,
    pub(crate) variables: Variables,
    /// Unknown filters and tests that may never be reached.
    pub(crate) unresolved: BTreeSet<String>,
    /// Whether the template may call a mutating method.
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

/// Whether a template's source contains the name of a mutating method.
///
/// A false positive only costs time, so the source is searched instead of the tree.
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

//! A compiled template and the settings it runs under.

use std::sync::Arc;

use crate::ast::{Expr, ExprKind};
use crate::error::{Error, ErrorKind};
use crate::filters;
use crate::lexer::normalize_newlines;
use crate::parser::{Syntax, parse};
use crate::scope::{Resolved, resolve};

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
    pub(crate) resolved: Resolved,
    /// Whether the template may call a method that changes a value.
    pub(crate) changes_values: bool,
}

impl Program {
    pub(crate) fn compile(source: &str, syntax: Syntax, chat: bool) -> Result<Self, Error> {
        let source: Arc<str> = normalize_newlines(source, syntax.whitespace.keep_trailing_newline).into();
        let parsed = parse(&source, syntax).map_err(|error| error.with_template(&source))?;
        let resolved = resolve(parsed, chat)
            .map_err(|error| refused(&error, &source, chat).unwrap_or(error).with_template(&source))?;
        if let Some((name, error)) =
            resolved.unresolved.iter().find_map(|name| Some((name, filters::refusal(name, chat)?)))
        {
            let (start, end) = filters::place(&source, name).unwrap_or_default();
            return Err(error.or_at(start, end).with_template(&source));
        }
        let changes_values = !chat && mentions_mutator(&source);
        Ok(Self { source, resolved, changes_values })
    }
}

/// What to report in place of an unknown filter that Jinja has and templates cannot use here.
fn refused(error: &Error, source: &str, chat: bool) -> Option<Error> {
    let range = error.range().filter(|_| error.kind() == ErrorKind::UnknownFilter)?;
    Some(filters::refusal(source.get(range.clone())?, chat)?.or_at(range.start, range.end))
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

/// The deepest nesting of an expression whose parts are this deep.
pub(crate) fn depth_of(kind: &ExprKind) -> u16 {
    let of = |expression: &Expr| expression.depth;
    let arguments = |arguments: &crate::ast::Arguments| {
        let positional = arguments.positional.iter().map(of);
        let keywords = arguments.keywords.iter().map(|(_, value)| value.depth);
        let stars = [&arguments.star, &arguments.star_star].into_iter().flatten().map(|value| value.depth);
        positional.chain(keywords).chain(stars).max().unwrap_or(0)
    };
    let inner = match kind {
        ExprKind::Const(_) | ExprKind::Name { .. } => 0,
        ExprKind::Tuple(items) | ExprKind::List(items) | ExprKind::Concat(items) => {
            items.iter().map(of).max().unwrap_or(0)
        }
        ExprKind::Dict(items) => {
            items.iter().map(|(key, value)| key.depth.max(value.depth)).max().unwrap_or(0)
        }
        ExprKind::Conditional { test, then, otherwise } => {
            test.depth.max(then.depth).max(otherwise.as_ref().map_or(0, |otherwise| otherwise.depth))
        }
        ExprKind::Unary(_, operand) => operand.depth,
        ExprKind::Binary(_, left, right) | ExprKind::And(left, right) | ExprKind::Or(left, right) => {
            left.depth.max(right.depth)
        }
        ExprKind::Compare { first, rest } => {
            rest.iter().map(|(_, operand)| operand.depth).max().unwrap_or(0).max(first.depth)
        }
        ExprKind::Attribute { object, .. } => object.depth,
        ExprKind::Item { object, key } => object.depth.max(key.depth),
        ExprKind::Slice(parts) => parts.iter().flatten().map(of).max().unwrap_or(0),
        ExprKind::Call { callee, arguments: given } => callee.depth.max(arguments(given)),
        ExprKind::Filter(call) => {
            call.input.as_ref().map_or(0, |input| input.depth).max(arguments(&call.arguments))
        }
        ExprKind::Test(call) => call.input.depth.max(arguments(&call.arguments)),
    };
    inner.saturating_add(1)
}

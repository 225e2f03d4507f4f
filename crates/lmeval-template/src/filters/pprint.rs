//! `pprint`.

use lmeval_pycompat::{repr, strings};

use crate::arguments::Args;
use crate::error::Error;
use crate::eval::Vm;
use crate::value::{DictRef, Items, Val, less_than, sort_by, write_repr};

const WIDTH: usize = 80;

/// How deep containers may be nested.
const MAXIMUM_DEPTH: usize = 100;

/// `pprint`: Python's `pprint.pformat`.
pub(super) fn pprint(_: &mut Vm<'_>, value: &Val, args: Args) -> Result<Val, Error> {
    args.none("pprint")?;
    let mut out = String::new();
    format(&mut out, value, 0, 0, 1)?;
    Ok(Val::str(out))
}

fn length(text: &str) -> usize {
    text.chars().count()
}

/// The value on one line, with sorted keys.
fn one_line(out: &mut String, value: &Val, depth: usize) -> Result<(), Error> {
    if depth > MAXIMUM_DEPTH {
        return Err(Error::limit("The value is nested too deeply to be printed"));
    }
    match value {
        Val::Dict(dict) => {
            out.push('{');
            for (index, (key, item)) in sorted(dict)?.iter().enumerate() {
                if index > 0 {
                    out.push_str(", ");
                }
                one_line(out, key, depth + 1)?;
                out.push_str(": ");
                one_line(out, item, depth + 1)?;
            }
            out.push('}');
        }
        Val::List(items) => {
            out.push('[');
            one_line_items(out, items, depth)?;
            out.push(']');
        }
        Val::Tuple(items) => {
            out.push('(');
            one_line_items(out, items, depth)?;
            out.push_str(if items.len() == 1 { ",)" } else { ")" });
        }
        other => write_repr(out, other, depth)?,
    }
    Ok(())
}

fn one_line_items(out: &mut String, items: &Items, depth: usize) -> Result<(), Error> {
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        one_line(out, &item, depth + 1)?;
    }
    Ok(())
}

/// Entries by key; keys that have no order are ordered by the names of their types.
fn sorted(dict: &DictRef) -> Result<Vec<(Val, Val)>, Error> {
    sort_by(dict.entries().collect(), &mut |left, right| {
        Ok(less_than(&left.0, &right.0).unwrap_or_else(|_| left.0.type_name() < right.0.type_name()))
    })
}

fn format(out: &mut String, value: &Val, indent: usize, allowance: usize, level: usize) -> Result<(), Error> {
    if level > MAXIMUM_DEPTH {
        return Err(Error::limit("The value is nested too deeply to be printed"));
    }
    let mut line = String::new();
    one_line(&mut line, value, 0)?;
    if length(&line) <= WIDTH.saturating_sub(indent + allowance) {
        out.push_str(&line);
        return Ok(());
    }
    match value {
        Val::Dict(dict) if dict.len() > 0 => {
            out.push('{');
            let entries = sorted(dict)?;
            let last = entries.len() - 1;
            for (index, (key, item)) in entries.iter().enumerate() {
                let mut key_text = String::new();
                one_line(&mut key_text, key, 0)?;
                out.push_str(&key_text);
                out.push_str(": ");
                let after = if index == last { allowance + 1 } else { 1 };
                format(out, item, indent + 1 + length(&key_text) + 2, after, level + 1)?;
                if index != last {
                    new_line(out, ",", indent + 1);
                }
            }
            out.push('}');
        }
        Val::List(items) if items.len() > 0 => {
            out.push('[');
            format_items(out, items, indent, allowance + 1, level)?;
            out.push(']');
        }
        Val::Tuple(items) if items.len() > 0 => {
            let end = if items.len() == 1 { ",)" } else { ")" };
            out.push('(');
            format_items(out, items, indent, allowance + end.len(), level)?;
            out.push_str(end);
        }
        Val::Str(text) if !text.is_empty() => format_text(out, text, indent, allowance, level),
        _ => out.push_str(&line),
    }
    Ok(())
}

fn new_line(out: &mut String, before: &str, indent: usize) {
    out.push_str(before);
    out.push('\n');
    out.push_str(&" ".repeat(indent));
}

fn format_items(
    out: &mut String,
    items: &Items,
    indent: usize,
    allowance: usize,
    level: usize,
) -> Result<(), Error> {
    let last = items.len() - 1;
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            new_line(out, ",", indent + 1);
        }
        format(out, &item, indent + 1, if index == last { allowance } else { 1 }, level + 1)?;
    }
    Ok(())
}

fn quoted(text: &str) -> String {
    let mut out = String::new();
    repr::write_str_repr(&mut out, text);
    out
}

/// Words with the blanks behind them.
fn words(line: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = line;
    while !rest.is_empty() {
        let word = rest.find(strings::is_space).unwrap_or(rest.len());
        let blanks = rest[word..].find(|c| !strings::is_space(c)).map_or(rest.len(), |offset| word + offset);
        words.push(&rest[..blanks]);
        rest = &rest[blanks..];
    }
    words
}

/// Text over several lines, as adjacent literals.
fn format_text(out: &mut String, text: &str, indent: usize, allowance: usize, level: usize) {
    let (indent, allowance) = if level == 1 { (indent + 1, allowance + 1) } else { (indent, allowance) };
    let width = WIDTH.saturating_sub(indent);
    let lines = strings::splitlines(text, true);
    let mut chunks: Vec<String> = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let last_line = index == lines.len() - 1;
        let whole = quoted(line);
        if length(&whole) <= if last_line { width.saturating_sub(allowance) } else { width } {
            chunks.push(whole);
            continue;
        }
        let words = words(line);
        let mut current = String::new();
        for (position, word) in words.iter().enumerate() {
            let candidate = format!("{current}{word}");
            let last = last_line && position == words.len() - 1;
            let room = if last { width.saturating_sub(allowance) } else { width };
            if length(&quoted(&candidate)) > room {
                if !current.is_empty() {
                    chunks.push(quoted(&current));
                }
                (*word).clone_into(&mut current);
            } else {
                current = candidate;
            }
        }
        if !current.is_empty() {
            chunks.push(quoted(&current));
        }
    }
    if chunks.len() == 1 {
        out.push_str(&chunks[0]);
        return;
    }
    if level == 1 {
        out.push('(');
    }
    for (index, chunk) in chunks.iter().enumerate() {
        if index > 0 {
            new_line(out, "", indent);
        }
        out.push_str(chunk);
    }
    if level == 1 {
        out.push(')');
    }
}

//! `str.format`.

use std::sync::Arc;

use super::percent::ascii;
use super::specification::format_value;
use crate::arguments::Args;
use crate::error::Error;
use crate::eval::Vm;
use crate::value::{Val, escape_html, repr_of, str_of};

struct Formatter<'v, 'a> {
    vm: &'v mut Vm<'a>,
    args: &'v Args,
    /// The next automatic index; `None` once explicit indices were used.
    automatic: Option<usize>,
    manual: bool,
    escape: bool,
}

/// Python's `text.format(*args, **kwargs)`.
pub(crate) fn format_fields(vm: &mut Vm<'_>, text: &str, args: &Args, escape: bool) -> Result<String, Error> {
    let mut formatter = Formatter { vm, args, automatic: Some(0), manual: false, escape };
    formatter.format(text, 2)
}

impl Formatter<'_, '_> {
    fn format(&mut self, text: &str, depth: usize) -> Result<String, Error> {
        if depth == 0 && text.contains(['{', '}']) {
            return Err(Error::value_error("The format string is nested too deeply"));
        }
        let mut out = String::new();
        let mut rest = text;
        while let Some(brace) = rest.find(['{', '}']) {
            out.push_str(&rest[..brace]);
            let after = &rest[brace + 1..];
            let character = &rest[brace..=brace];
            if after.starts_with(character) {
                out.push_str(character);
                rest = &after[1..];
                continue;
            }
            if character == "}" {
                return Err(Error::value_error("A `}` in the format string has no matching `{`"));
            }
            let end = closing(after)
                .ok_or_else(|| Error::value_error("A `{` in the format string is not closed"))?;
            let field = self.field(&after[..end], depth)?;
            out.push_str(&field);
            Vm::check_size(Some(out.len()))?;
            rest = &after[end + 1..];
        }
        out.push_str(rest);
        Ok(out)
    }

    fn field(&mut self, field: &str, depth: usize) -> Result<String, Error> {
        let (head, specification) = split_specification(field);
        let (name, conversion) = match head.split_once('!') {
            Some((name, conversion)) => (name, Some(conversion)),
            None => (head, None),
        };
        let value = self.lookup(name)?;
        let specification = self.format(specification, depth.saturating_sub(1))?;
        let value = match conversion {
            None => value,
            Some("s") => Val::Str(str_of(&value)?),
            Some("r") => Val::str(repr_of(&value)?),
            Some("a") => Val::str(ascii(&repr_of(&value)?)),
            Some(other) => {
                return Err(Error::value_error(format!(
                    "`!{other}` is not a conversion; use `!r`, `!s` or `!a`"
                )));
            }
        };
        let text = format_value(&value, &specification)?;
        Ok(if self.escape && !matches!(value, Val::Markup(_)) { escape_html(&text) } else { text })
    }

    fn lookup(&mut self, name: &str) -> Result<Val, Error> {
        let end = name.find(['.', '[']).unwrap_or(name.len());
        let (first, mut rest) = name.split_at(end);
        let mut value = self.argument(first)?;
        while !rest.is_empty() {
            if let Some(after) = rest.strip_prefix('.') {
                let end = after.find(['.', '[']).unwrap_or(after.len());
                let attribute: Arc<str> = after[..end].into();
                let found = self.vm.plain_attribute(&value, &attribute)?;
                value = found
                    .ok_or_else(|| Error::value_error(format!("The value has no attribute `{attribute}`")))?;
                rest = &after[end..];
            } else if let Some(after) = rest.strip_prefix('[') {
                let end = after
                    .find(']')
                    .ok_or_else(|| Error::value_error("A `[` in the format string is not closed"))?;
                let key = &after[..end];
                let key = key.parse().map_or_else(|_| Val::str(key), Val::Int);
                let found = Vm::plain_item(&value, &key)?;
                value = found.ok_or_else(|| {
                    Error::value_error(format!("The value has no item `{}`", &after[..end]))
                })?;
                rest = &after[end + 1..];
            } else {
                return Err(Error::value_error("A format field must continue with `.` or `[` after `]`"));
            }
        }
        Ok(value)
    }

    fn argument(&mut self, name: &str) -> Result<Val, Error> {
        let mixed = || Error::value_error("Automatic and numbered fields cannot be combined");
        let index = if name.is_empty() {
            if self.manual {
                return Err(mixed());
            }
            let index = self.automatic.unwrap_or(0);
            self.automatic = Some(index + 1);
            index
        } else if name.bytes().all(|byte| byte.is_ascii_digit()) {
            if self.automatic.unwrap_or(0) > 0 {
                return Err(mixed());
            }
            self.manual = true;
            name.parse().unwrap_or(usize::MAX)
        } else {
            let found = self.args.keywords.iter().find(|(known, _)| **known == *name);
            return match found {
                Some((_, value)) => Ok(value.clone()),
                None => {
                    Err(Error::value_error(format!("The format string uses `{name}`, which is not passed")))
                }
            };
        };
        let value = self.args.positional.get(index).cloned();
        value.ok_or_else(|| {
            Error::value_error(format!("The format string uses argument {index}, which is not passed"))
        })
    }
}

/// The brace that ends a field, skipping nested fields.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0;
    for (index, character) in text.char_indices() {
        match character {
            '{' => depth += 1,
            '}' if depth == 0 => return Some(index),
            '}' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// Splits a field at the colon before its specification; brackets may contain colons.
fn split_specification(field: &str) -> (&str, &str) {
    let mut inside = false;
    for (index, character) in field.char_indices() {
        match character {
            '[' => inside = true,
            ']' => inside = false,
            ':' if !inside => return (&field[..index], &field[index + 1..]),
            _ => {}
        }
    }
    (field, "")
}

//! Filters that escape strings for HTML or URLs.
//!
//! A string is either plain or safe (`Val::Markup`). `escape` replaces the five characters `& < > ' "` in
//! plain strings and leaves safe ones alone, `forceescape` replaces them in both, and `safe` replaces
//! nothing; each result is safe. `urlencode` percent-encodes the UTF-8 bytes of a value. A mapping or a
//! sequence of pairs becomes a query string, in which a space is `+` and `/` is encoded; anything else is
//! converted to a string, in which `/` is kept.

use std::fmt::Write as _;

use crate::arguments::Args;
use crate::error::Error;
use crate::eval::Vm;
use crate::value::{Iter, Val, escape_html, str_of};

/// The safe form of a value: itself if safe, else escaped.
pub(super) fn escaped(value: &Val) -> Result<Val, Error> {
    match value {
        Val::Markup(_) => Ok(value.clone()),
        plain => Ok(Val::Markup(escape_html(&str_of(plain)?).into())),
    }
}

/// `escape`, also called `e`.
pub(super) fn escape(_: &mut Vm<'_>, value: &Val, args: Args) -> Result<Val, Error> {
    args.none("escape")?;
    escaped(value)
}

/// `forceescape`.
pub(super) fn forceescape(_: &mut Vm<'_>, value: &Val, args: Args) -> Result<Val, Error> {
    args.none("forceescape")?;
    Ok(Val::Markup(escape_html(&str_of(value)?).into()))
}

/// `safe`.
pub(super) fn safe(_: &mut Vm<'_>, value: &Val, args: Args) -> Result<Val, Error> {
    args.none("safe")?;
    Ok(Val::Markup(str_of(value)?))
}

/// `urlencode`.
pub(super) fn urlencode(vm: &mut Vm<'_>, value: &Val, args: Args) -> Result<Val, Error> {
    args.none("urlencode")?;
    let mut out = String::new();
    match value {
        Val::Dict(dict) => {
            for (name, value) in dict.entries() {
                write_pair(&mut out, &name, &value)?;
            }
        }
        Val::Str(_) | Val::Markup(_) => percent_encode(&mut out, value, UrlPart::Path)?,
        Val::Undefined(undefined) if undefined.strict => return Err(undefined.error()),
        other => match Iter::over(other) {
            Err(_) => percent_encode(&mut out, other, UrlPart::Path)?,
            Ok(mut items) => {
                while let Some(item) = items.next(vm)? {
                    let (name, value) = pair(vm, &item)?;
                    write_pair(&mut out, &name, &value)?;
                }
            }
        },
    }
    Ok(Val::str(out))
}

/// A name and value of a query string.
fn pair(vm: &mut Vm<'_>, item: &Val) -> Result<(Val, Val), Error> {
    let mut parts = Iter::over(item)?;
    match (parts.next(vm)?, parts.next(vm)?, parts.next(vm)?) {
        (Some(name), Some(value), None) => Ok((name, value)),
        _ => Err(Error::value_error("`urlencode` needs a string, a mapping or a sequence of pairs")),
    }
}

fn write_pair(out: &mut String, name: &Val, value: &Val) -> Result<(), Error> {
    if !out.is_empty() {
        out.push('&');
    }
    percent_encode(out, name, UrlPart::Query)?;
    out.push('=');
    percent_encode(out, value, UrlPart::Query)
}

/// The part of a URL that is encoded.
#[derive(Clone, Copy, PartialEq)]
enum UrlPart {
    Path,
    Query,
}

/// Appends a value, percent-encoding every byte outside the unreserved set of RFC 3986.
fn percent_encode(out: &mut String, value: &Val, part: UrlPart) -> Result<(), Error> {
    let text;
    let bytes: &[u8] = match value {
        Val::Bytes(bytes) => bytes,
        other => {
            text = str_of(other)?;
            text.as_bytes()
        }
    };
    for &byte in bytes {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            b'/' if part == UrlPart::Path => out.push('/'),
            b' ' if part == UrlPart::Query => out.push('+'),
            other => {
                let _ = write!(out, "%{other:02X}");
            }
        }
    }
    Ok(())
}

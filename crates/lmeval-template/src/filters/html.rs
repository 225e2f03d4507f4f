//! Filters for HTML and URLs.

use std::fmt::Write as _;
use std::sync::OnceLock;

use lmeval_pycompat::strings;
use rustc_hash::FxHashMap;

use super::sequence::as_dict;
use crate::arguments::Args;
use crate::error::Error;
use crate::eval::Vm;
use crate::value::{Iter, Val, escape_html, str_of};

/// The value as safe text.
pub(super) fn escaped(value: &Val) -> Result<Val, Error> {
    match value {
        Val::Markup(_) => Ok(value.clone()),
        other => Ok(Val::Markup(escape_html(&str_of(other)?).into())),
    }
}

/// `escape`.
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

/// `striptags`: without tags and comments, blanks collapsed, entities resolved.
pub(super) fn striptags(_: &mut Vm<'_>, value: &Val, args: Args) -> Result<Val, Error> {
    args.none("striptags")?;
    let text = str_of(value)?;
    let mut out = String::new();
    let mut rest = &*text;
    while let Some(start) = rest.find('<') {
        let (skip, end) = if rest[start..].starts_with("<!--") { (4, "-->") } else { (0, ">") };
        let Some(found) = rest[start + skip..].find(end) else {
            break;
        };
        out.push_str(&rest[..start]);
        rest = &rest[start + skip + found + end.len()..];
    }
    out.push_str(rest);
    let collapsed = strings::split_whitespace(&out, None).join(" ");
    Ok(Val::str(unescape(&collapsed)))
}

/// Names of characters in HTML with the numbers of the characters they stand for, one name per line.
const ENTITIES: &str = include_str!("entities.txt");

fn entities() -> &'static FxHashMap<&'static str, String> {
    static TABLE: OnceLock<FxHashMap<&'static str, String>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let character = |code: &str| u32::from_str_radix(code, 16).ok().and_then(char::from_u32);
        let lines = ENTITIES.lines().filter_map(|line| line.split_once(' '));
        lines.map(|(name, codes)| (name, codes.split(' ').filter_map(character).collect())).collect()
    })
}

/// Text with its character references resolved.
fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find('&') {
        out.push_str(&rest[..start]);
        rest = &rest[start + 1..];
        let (replacement, length) = reference(rest);
        match replacement {
            Some(replacement) => out.push_str(&replacement),
            None => {
                out.push('&');
                out.push_str(&rest[..length]);
            }
        }
        rest = &rest[length..];
    }
    out.push_str(rest);
    out
}

/// What stands after `&`, and how long the reference is.
fn reference(text: &str) -> (Option<String>, usize) {
    if let Some(number) = text.strip_prefix('#') {
        let (radix, digits, prefix) = match number.strip_prefix(['x', 'X']) {
            Some(digits) => (16, digits, 2),
            None => (10, number, 1),
        };
        let end = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
        if end == 0 {
            return (None, 0);
        }
        let length = prefix + end + usize::from(digits[end..].starts_with(';'));
        let code = u32::from_str_radix(&digits[..end], radix).unwrap_or(u32::MAX);
        return (Some(character(code)), length);
    }
    let is_end = |c: char| matches!(c, '\t' | '\n' | '\x0c' | ' ' | '<' | '&' | '#' | ';');
    let mut end = text.find(is_end).unwrap_or(text.len());
    if let Some((limit, _)) = text.char_indices().nth(32) {
        end = end.min(limit);
    }
    if end == 0 {
        return (None, 0);
    }
    let length = end + usize::from(text[end..].starts_with(';'));
    let name = &text[..length];
    let table = entities();
    if let Some(found) = table.get(name) {
        return (Some(found.clone()), length);
    }
    let boundaries: Vec<usize> = name.char_indices().map(|(index, _)| index).collect();
    for boundary in boundaries.into_iter().skip(2).rev() {
        if let Some(found) = table.get(&name[..boundary]) {
            return (Some(format!("{found}{}", &name[boundary..])), length);
        }
    }
    (None, length)
}

/// The character of a numeric reference, with the repairs that HTML prescribes.
fn character(code: u32) -> String {
    const WINDOWS: [u16; 32] = [
        0x20ac, 0x81, 0x201a, 0x192, 0x201e, 0x2026, 0x2020, 0x2021, 0x2c6, 0x2030, 0x160, 0x2039, 0x152,
        0x8d, 0x17d, 0x8f, 0x90, 0x2018, 0x2019, 0x201c, 0x201d, 0x2022, 0x2013, 0x2014, 0x2dc, 0x2122,
        0x161, 0x203a, 0x153, 0x9d, 0x17e, 0x178,
    ];
    let code = match code {
        0 => 0xfffd,
        0x80..=0x9f => u32::from(WINDOWS[(code - 0x80) as usize]),
        other => other,
    };
    let dropped = matches!(code, 0x1..=0x8 | 0xb | 0xe..=0x1f | 0x7f | 0xfdd0..=0xfdef)
        || (code <= 0x10_ffff && code & 0xfffe == 0xfffe);
    if dropped {
        return String::new();
    }
    char::from_u32(code).unwrap_or('\u{fffd}').to_string()
}

fn quote(value: &Val, query: bool) -> Result<String, Error> {
    let bytes: Vec<u8> = match value {
        Val::Bytes(bytes) => bytes.to_vec(),
        other => str_of(other)?.as_bytes().to_vec(),
    };
    let mut out = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'_' | b'.' | b'-' | b'~' => out.push(char::from(byte)),
            b'/' if !query => out.push('/'),
            b' ' if query => out.push('+'),
            other => {
                let _ = write!(out, "%{other:02X}");
            }
        }
    }
    Ok(out)
}

/// `urlencode`: a text for a path, a mapping or pairs for a query.
pub(super) fn urlencode(vm: &mut Vm<'_>, value: &Val, args: Args) -> Result<Val, Error> {
    args.none("urlencode")?;
    let pairs = match value {
        Val::Str(_) | Val::Markup(_) => None,
        Val::Dict(dict) => Some(dict.entries().collect()),
        Val::Bytes(_) => Some(Vec::new()),
        other => match Iter::over(other) {
            Ok(iterator) => {
                let mut pairs = Vec::new();
                for item in iterator.collect(vm)? {
                    let pair = Iter::over(&item)?.collect(vm)?;
                    let [key, value] = pair.as_slice() else {
                        return Err(Error::value_error("A query is made of pairs"));
                    };
                    pairs.push((key.clone(), value.clone()));
                }
                Some(pairs)
            }
            Err(error) if matches!(other, Val::Undefined(_)) => return Err(error),
            Err(_) => None,
        },
    };
    let Some(pairs) = pairs else {
        return quote(value, false).map(Val::str);
    };
    let parts: Result<Vec<String>, Error> = pairs
        .iter()
        .map(|(key, value)| Ok(format!("{}={}", quote(key, true)?, quote(value, true)?)))
        .collect();
    Ok(Val::str(parts?.join("&")))
}

/// `xmlattr(autospace)`: a mapping as attributes of a tag.
pub(super) fn xmlattr(vm: &mut Vm<'_>, value: &Val, args: Args) -> Result<Val, Error> {
    let [space] = args.bind("xmlattr", ["autospace"], 0)?;
    let space = space.map_or(Ok(true), |space| space.truth())?;
    if let Val::Undefined(undefined) = value {
        return Err(undefined.error());
    }
    let Some(dict) = as_dict(value) else {
        return Err(Error::type_error(format!("`{}` is not a mapping", value.type_name())));
    };
    let mut parts = Vec::new();
    for (key, value) in dict.entries() {
        if matches!(value, Val::None | Val::Undefined(_)) {
            continue;
        }
        let key = crate::arguments::text(&key)?.clone();
        if key.contains([' ', '\t', '\n', '\r', '\x0b', '\x0c', '/', '>', '=']) {
            return Err(Error::value_error(format!("`{key}` is not a name of an attribute")));
        }
        let value = escaped(&value)?;
        parts.push(format!("{}=\"{}\"", escape_html(&key), str_of(&value)?));
    }
    let mut out = parts.join(" ");
    if space && !out.is_empty() {
        out.insert(0, ' ');
    }
    Ok(if vm.autoescape { Val::Markup(out.into()) } else { Val::str(out) })
}

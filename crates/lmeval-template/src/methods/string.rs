//! Methods of strings.

use std::fmt::Write as _;
use std::sync::Arc;

use lmeval_pycompat::strings;

use super::unknown;
use crate::arguments::{Args, integer, text as text_of};
use crate::error::Error;
use crate::eval::Vm;
use crate::format::format_fields;
use crate::value::{Iter, Val, escape_html};

pub(super) const NAMES: [&str; 46] = [
    "capitalize",
    "casefold",
    "center",
    "count",
    "encode",
    "endswith",
    "expandtabs",
    "find",
    "format",
    "format_map",
    "index",
    "isalnum",
    "isalpha",
    "isascii",
    "isdecimal",
    "isdigit",
    "isidentifier",
    "islower",
    "isnumeric",
    "isprintable",
    "isspace",
    "istitle",
    "isupper",
    "join",
    "ljust",
    "lower",
    "lstrip",
    "partition",
    "removeprefix",
    "removesuffix",
    "replace",
    "rfind",
    "rindex",
    "rjust",
    "rpartition",
    "rsplit",
    "rstrip",
    "split",
    "splitlines",
    "startswith",
    "strip",
    "swapcase",
    "title",
    "translate",
    "upper",
    "zfill",
];

/// Calls a string method; results on markup are markup.
pub(super) fn call(
    vm: &mut Vm<'_>,
    receiver: &Val,
    text: &Arc<str>,
    name: &str,
    args: Args,
) -> Result<Val, Error> {
    vm.spend(text.len() as u64 / 64)?;
    let like = |result: String| Val::text_like(receiver, result);
    let plain = |args: Args, result: fn(&str) -> String| -> Result<Val, Error> {
        args.none(name)?;
        Ok(like(result(text)))
    };
    match name {
        "upper" => plain(args, strings::upper),
        "lower" => plain(args, strings::lower),
        "title" => plain(args, strings::title),
        "capitalize" => plain(args, strings::capitalize),
        "swapcase" => plain(args, strings::swapcase),
        "casefold" => plain(args, strings::casefold),
        "strip" | "lstrip" | "rstrip" => strip(receiver, text, name, args),
        "split" | "rsplit" => split(receiver, text, name, args),
        "splitlines" => {
            let [keep] = args.bind(name, ["keepends"], 0)?;
            let keep = keep.map_or(Ok(false), |keep| keep.truth())?;
            Ok(pieces(receiver, strings::splitlines(text, keep)))
        }
        "partition" | "rpartition" => {
            let [separator] = args.bind_positional(name, 1)?;
            let separator = separator.unwrap_or(Val::None);
            let separator = text_of(&separator)?;
            let parts = if name == "partition" {
                strings::partition(text, separator)
            } else {
                strings::rpartition(text, separator)
            };
            let (before, middle, after) =
                parts.ok_or_else(|| Error::value_error("The separator must not be empty"))?;
            let parts = [before, middle, after];
            Ok(Val::tuple(parts.into_iter().map(|part| Val::text_like(receiver, part)).collect()))
        }
        "replace" => replace(vm, receiver, text, args),
        "removeprefix" | "removesuffix" => {
            let [affix] = args.bind_positional(name, 1)?;
            let affix = affix.unwrap_or(Val::None);
            let affix = text_of(&affix)?;
            let rest = if name == "removeprefix" {
                text.strip_prefix(&**affix)
            } else {
                text.strip_suffix(&**affix)
            };
            Ok(Val::text_like(receiver, rest.unwrap_or(text)))
        }
        "find" | "rfind" | "index" | "rindex" | "count" => search(text, name, args),
        "startswith" | "endswith" => affix(text, name, args),
        "join" => join(vm, receiver, text, args),
        "format" => Ok(like(format_fields(vm, text, &args, matches!(receiver, Val::Markup(_)))?)),
        "format_map" => {
            let [mapping] = args.bind_positional(name, 1)?;
            let mut args = Args::default();
            if let Some(Val::Dict(dict)) = &mapping {
                for (key, value) in dict.entries() {
                    if let Some(key) = key.as_text() {
                        args.keywords.push((key.clone(), value));
                    }
                }
            }
            Ok(like(format_fields(vm, text, &args, matches!(receiver, Val::Markup(_)))?))
        }
        "center" | "ljust" | "rjust" => justify(vm, receiver, text, name, args),
        "zfill" => {
            let [width] = args.bind_positional(name, 1)?;
            let width = size(vm, &width.unwrap_or(Val::None))?;
            Ok(like(strings::zfill(text, width)))
        }
        "expandtabs" => {
            let [tab] = args.bind(name, ["tabsize"], 0)?;
            let tab = tab.map_or(Ok(8), |tab| size(vm, &tab))?;
            Vm::check_size(text.matches('\t').count().checked_mul(tab))?;
            Ok(like(strings::expandtabs(text, tab)))
        }
        "encode" => encode(text, args),
        "translate" => translate(receiver, text, args),
        _ => {
            args.none(name)?;
            property_of(text, name).map(Val::Bool).ok_or_else(|| unknown(receiver, name))
        }
    }
}

/// The methods that test all characters.
fn property_of(text: &str, name: &str) -> Option<bool> {
    let all = |test: fn(char) -> bool| !text.is_empty() && text.chars().all(test);
    Some(match name {
        "isalnum" => all(strings::is_alnum),
        "isalpha" => all(strings::is_alpha),
        "isascii" => text.is_ascii(),
        "isdecimal" => all(strings::is_decimal),
        "isdigit" => all(strings::is_digit),
        "isidentifier" => strings::is_identifier(text),
        "islower" => strings::is_lower_text(text),
        "isnumeric" => all(strings::is_numeric),
        "isprintable" => text.chars().all(strings::is_printable),
        "isspace" => all(strings::is_space),
        "istitle" => strings::is_title_text(text),
        "isupper" => strings::is_upper_text(text),
        _ => return None,
    })
}

/// A string to insert into the receiver; plain strings are escaped if that is markup.
fn inserted(receiver: &Val, value: &Val) -> Result<Arc<str>, Error> {
    let text = text_of(value)?;
    Ok(if matches!(receiver, Val::Markup(_)) && matches!(value, Val::Str(_)) {
        escape_html(text).into()
    } else {
        text.clone()
    })
}

fn pieces(receiver: &Val, parts: Vec<&str>) -> Val {
    Val::list(parts.into_iter().map(|part| Val::text_like(receiver, part)).collect())
}

fn size(vm: &mut Vm<'_>, value: &Val) -> Result<usize, Error> {
    let number = integer(value)?.max(0);
    let size = Vm::check_size(usize::try_from(number).ok())?;
    vm.spend(size as u64 / 64)?;
    Ok(size)
}

fn strip(receiver: &Val, text: &str, name: &str, args: Args) -> Result<Val, Error> {
    let [characters] = args.bind_positional(name, 0)?;
    let result = match characters {
        None | Some(Val::None) => match name {
            "strip" => strings::strip(text),
            "lstrip" => strings::lstrip(text),
            _ => strings::rstrip(text),
        },
        Some(characters) => {
            let characters = text_of(&characters)?;
            match name {
                "strip" => strings::strip_chars(text, characters),
                "lstrip" => strings::lstrip_chars(text, characters),
                _ => strings::rstrip_chars(text, characters),
            }
        }
    };
    if result.len() == text.len() {
        return Ok(receiver.clone());
    }
    Ok(Val::text_like(receiver, result))
}

fn split(receiver: &Val, text: &str, name: &str, args: Args) -> Result<Val, Error> {
    let [separator, limit] = args.bind(name, ["sep", "maxsplit"], 0)?;
    let limit = limit.map_or(Ok(-1), |limit| integer(&limit))?;
    let limit = usize::try_from(limit).ok();
    let parts = match separator {
        None | Some(Val::None) if name == "split" => Some(strings::split_whitespace(text, limit)),
        None | Some(Val::None) => Some(strings::rsplit_whitespace(text, limit)),
        Some(separator) => {
            let separator = text_of(&separator)?;
            let parts = if name == "split" {
                strings::split(text, separator, limit)
            } else {
                strings::rsplit(text, separator, limit)
            };
            return parts
                .map(|parts| pieces(receiver, parts))
                .ok_or_else(|| Error::value_error("The separator must not be empty"));
        }
    };
    Ok(pieces(receiver, parts.unwrap_or_default()))
}

fn replace(vm: &mut Vm<'_>, receiver: &Val, text: &str, args: Args) -> Result<Val, Error> {
    let [old, new, count] = args.bind_positional("replace", 2)?;
    let old = old.unwrap_or(Val::None);
    let new = inserted(receiver, &new.unwrap_or(Val::None))?;
    let count = count.map_or(Ok(-1), |count| integer(&count))?;
    replaced(vm, text, text_of(&old)?, &new, count).map(|result| Val::text_like(receiver, result))
}

/// Python's `text.replace(old, new, count)`.
pub(crate) fn replaced(
    vm: &mut Vm<'_>,
    text: &str,
    old: &str,
    new: &str,
    count: i64,
) -> Result<String, Error> {
    let matches = text.matches(old).count();
    let matches = usize::try_from(count).map_or(matches, |count| matches.min(count));
    let size = Vm::check_size(matches.checked_mul(new.len()).and_then(|size| size.checked_add(text.len())))?;
    vm.spend(size as u64 / 64)?;
    Ok(match usize::try_from(count) {
        Ok(count) => text.replacen(old, new, count),
        Err(_) => text.replace(old, new),
    })
}

/// The substring between two character positions, and its start.
fn between(text: &str, start: Option<&Val>, end: Option<&Val>) -> Result<Option<(String, usize)>, Error> {
    let length = text.chars().count() as i64;
    let position = |value: Option<&Val>, default: i64| -> Result<i64, Error> {
        let number = match value {
            None | Some(Val::None) => return Ok(default),
            Some(value) => integer(value)?,
        };
        Ok(if number < 0 { number.saturating_add(length).max(0) } else { number })
    };
    let start = position(start, 0)?;
    let end = position(end, length)?.min(length);
    if start > end {
        return Ok(None);
    }
    let part = text.chars().skip(start as usize).take((end - start) as usize).collect();
    Ok(Some((part, start as usize)))
}

fn search(text: &str, name: &str, args: Args) -> Result<Val, Error> {
    let [needle, start, end] = args.bind_positional(name, 1)?;
    let needle = needle.unwrap_or(Val::None);
    let needle = text_of(&needle)?;
    let part = between(text, start.as_ref(), end.as_ref())?;
    if name == "count" {
        return Ok(Val::from_usize(part.map_or(0, |(part, _)| strings::count(&part, needle))));
    }
    let found = part.and_then(|(part, offset)| {
        let found =
            if name.starts_with('r') { strings::rfind(&part, needle) } else { strings::find(&part, needle) };
        found.map(|position| position + offset)
    });
    match found {
        Some(position) => Ok(Val::from_usize(position)),
        None if name.ends_with("index") => {
            Err(Error::value_error(format!("The string does not contain `{needle}`")))
        }
        None => Ok(Val::Int(-1)),
    }
}

fn affix(text: &str, name: &str, args: Args) -> Result<Val, Error> {
    let [wanted, start, end] = args.bind_positional(name, 1)?;
    let wanted = wanted.unwrap_or(Val::None);
    let Some((part, _)) = between(text, start.as_ref(), end.as_ref())? else {
        return Ok(Val::Bool(false));
    };
    let test = |affix: &str| {
        if name == "startswith" { part.starts_with(affix) } else { part.ends_with(affix) }
    };
    if let Val::Tuple(items) = &wanted {
        for item in items.iter() {
            if test(text_of(&item)?) {
                return Ok(Val::Bool(true));
            }
        }
        return Ok(Val::Bool(false));
    }
    Ok(Val::Bool(test(text_of(&wanted)?)))
}

fn join(vm: &mut Vm<'_>, receiver: &Val, text: &str, args: Args) -> Result<Val, Error> {
    let [items] = args.bind_positional("join", 1)?;
    let mut items = Iter::over(&items.unwrap_or(Val::None))?;
    let mut out = String::new();
    let mut first = true;
    while let Some(item) = items.next(vm)? {
        if !first {
            out.push_str(text);
        }
        first = false;
        match (receiver, &item) {
            // Markup joins anything, and escapes what is not safe.
            (Val::Markup(_), Val::Markup(part)) => out.push_str(part),
            (Val::Markup(_), other) => out.push_str(&escape_html(&crate::value::str_of(other)?)),
            (_, other) => out.push_str(text_of(other)?),
        }
        Vm::check_size(Some(out.len()))?;
    }
    Ok(Val::text_like(receiver, out))
}

fn justify(vm: &mut Vm<'_>, receiver: &Val, text: &str, name: &str, args: Args) -> Result<Val, Error> {
    let [width, fill] = args.bind_positional(name, 1)?;
    let width = size(vm, &width.unwrap_or(Val::None))?;
    let fill = match &fill {
        None => ' ',
        Some(fill) => {
            let fill = inserted(receiver, fill)?;
            let mut characters = fill.chars();
            match (characters.next(), characters.next()) {
                (Some(fill), None) => fill,
                _ => return Err(Error::type_error("The fill must be a single character")),
            }
        }
    };
    Ok(Val::text_like(
        receiver,
        match name {
            "center" => strings::center(text, width, fill),
            "ljust" => strings::ljust(text, width, fill),
            _ => strings::rjust(text, width, fill),
        },
    ))
}

fn encode(text: &str, args: Args) -> Result<Val, Error> {
    let [encoding, errors] = args.bind("encode", ["encoding", "errors"], 0)?;
    let encoding = match &encoding {
        None => "utf-8".to_owned(),
        Some(encoding) => text_of(encoding)?.to_lowercase().replace('_', "-"),
    };
    let ignore = matches!(&errors, Some(Val::Str(errors)) if **errors == *"ignore");
    match encoding.as_str() {
        "utf-8" | "utf8" => Ok(Val::Bytes(text.as_bytes().into())),
        "ascii" if text.is_ascii() => Ok(Val::Bytes(text.as_bytes().into())),
        "ascii" if ignore => Ok(Val::Bytes(text.bytes().filter(u8::is_ascii).collect())),
        other => Err(Error::value_error(format!("The string cannot be encoded as `{other}`"))),
    }
}

/// `str.translate` with a dictionary as its table.
fn translate(receiver: &Val, text: &str, args: Args) -> Result<Val, Error> {
    let [table] = args.bind_positional("translate", 1)?;
    let Some(Val::Dict(table)) = table else {
        return Err(Error::type_error("`translate` needs a dictionary"));
    };
    let mut out = String::new();
    for character in text.chars() {
        match table.get(&lmeval_pycompat::Value::Int(i64::from(u32::from(character)))) {
            None => out.push(character),
            Some(Val::None) => {}
            Some(Val::Str(replacement)) => out.push_str(&replacement),
            Some(other) => {
                let code = u32::try_from(integer(&other)?).ok().and_then(char::from_u32);
                out.push(code.ok_or_else(|| Error::value_error("The number is not a code point"))?);
            }
        }
    }
    Ok(Val::text_like(receiver, out))
}

/// Calls a method of bytes.
pub(super) fn call_bytes(bytes: &[u8], name: &str, args: Args) -> Result<Val, Error> {
    if name == "hex" {
        args.none(name)?;
        let mut out = String::new();
        for byte in bytes {
            let _ = write!(out, "{byte:02x}");
        }
        return Ok(Val::str(out));
    }
    let [_, errors] = args.bind(name, ["encoding", "errors"], 0)?;
    if matches!(&errors, Some(Val::Str(errors)) if **errors == *"replace") {
        return Ok(Val::str(String::from_utf8_lossy(bytes).into_owned()));
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(Val::str(text)),
        Err(_) => Err(Error::value_error("The bytes are not valid UTF-8")),
    }
}

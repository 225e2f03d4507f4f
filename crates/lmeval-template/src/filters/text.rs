//! Filters on strings.

use std::sync::Arc;

use lmeval_pycompat::strings;

use super::attribute::Path;
use crate::arguments::{Args, integer, text as text_of};
use crate::error::Error;
use crate::eval::Vm;
use crate::format::percent;
use crate::methods::replaced;
use crate::value::{Iter, OwnDict, Val, escape_html, str_of};

/// The value as a string; markup stays markup.
pub(super) fn soft(value: &Val) -> Result<Val, Error> {
    match value {
        Val::Str(_) | Val::Markup(_) => Ok(value.clone()),
        other => Ok(Val::Str(str_of(other)?)),
    }
}

fn mapped(name: &str, value: &Val, args: Args, function: fn(&str) -> String) -> Result<Val, Error> {
    args.none(name)?;
    let value = soft(value)?;
    let text = str_of(&value)?;
    Ok(Val::text_like(&value, function(&text)))
}

/// `upper`.
pub(super) fn upper(_: &mut Vm<'_>, value: &Val, args: Args) -> Result<Val, Error> {
    mapped("upper", value, args, strings::upper)
}

/// `lower`.
pub(super) fn lower(_: &mut Vm<'_>, value: &Val, args: Args) -> Result<Val, Error> {
    mapped("lower", value, args, strings::lower)
}

/// `capitalize`.
pub(super) fn capitalize(_: &mut Vm<'_>, value: &Val, args: Args) -> Result<Val, Error> {
    mapped("capitalize", value, args, strings::capitalize)
}

/// `title`: capitalizes every word after whitespace, a hyphen or an opening bracket.
pub(super) fn title(_: &mut Vm<'_>, value: &Val, args: Args) -> Result<Val, Error> {
    fn words(text: &str) -> String {
        let is_break = |c: char| strings::is_space(c) || matches!(c, '-' | '(' | '{' | '[' | '<');
        let mut out = String::new();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let breaking = is_break(first);
            let end = rest.find(|c| is_break(c) != breaking).unwrap_or(rest.len());
            let start = first.len_utf8();
            out.push_str(&strings::upper(&rest[..start]));
            out.push_str(&strings::lower(&rest[start..end]));
            rest = &rest[end..];
        }
        out
    }
    args.none("title")?;
    Ok(Val::str(words(&str_of(value)?)))
}

/// `string`.
pub(super) fn string(_: &mut Vm<'_>, value: &Val, args: Args) -> Result<Val, Error> {
    args.none("string")?;
    soft(value)
}

/// `trim(chars)`.
pub(super) fn trim(vm: &mut Vm<'_>, value: &Val, args: Args) -> Result<Val, Error> {
    let [characters] = args.bind("trim", ["chars"], 0)?;
    let value = soft(value)?;
    vm.call_method(&value, "strip", Args::positional(characters.into_iter().collect()))
}

/// `center(width)`.
pub(super) fn center(vm: &mut Vm<'_>, value: &Val, args: Args) -> Result<Val, Error> {
    let [width] = args.bind("center", ["width"], 0)?;
    let value = soft(value)?;
    vm.call_method(&value, "center", Args::positional(vec![width.unwrap_or(Val::Int(80))]))
}

/// `replace(old, new, count)`.
pub(super) fn replace(vm: &mut Vm<'_>, value: &Val, args: Args) -> Result<Val, Error> {
    let [old, new, count] = args.bind("replace", ["old", "new", "count"], 2)?;
    let (old, new) = (old.unwrap_or(Val::None), new.unwrap_or(Val::None));
    let count = match count {
        None | Some(Val::None) => -1,
        Some(count) => integer(&count)?,
    };
    if vm.autoescape {
        let safe = |value: &Val| matches!(value, Val::Markup(_));
        let escape = safe(&old) || (safe(&new) && !safe(value));
        let value = if escape { super::escaping::escaped(value)? } else { soft(value)? };
        let args = Args::positional(vec![soft(&old)?, soft(&new)?, Val::Int(count)]);
        return vm.call_method(&value, "replace", args);
    }
    let (text, old, new) = (str_of(value)?, str_of(&old)?, str_of(&new)?);
    replaced(vm, &text, &old, &new, count).map(Val::str)
}

/// `join(d, attribute)`.
pub(super) fn join(vm: &mut Vm<'_>, value: &Val, args: Args) -> Result<Val, Error> {
    let [separator, attribute] = args.bind("join", ["d", "attribute"], 0)?;
    let separator = separator.unwrap_or_else(|| Val::str(""));
    let path = match attribute {
        None | Some(Val::None) => None,
        Some(attribute) => Some(Path::new(Some(&attribute), None)),
    };
    let mut iterator = Iter::over(value)?;
    let mut items = Vec::new();
    while let Some(item) = iterator.next(vm)? {
        items.push(match &path {
            Some(path) => path.get(vm, &item)?,
            None => item,
        });
    }
    let is_markup = |value: &Val| matches!(value, Val::Markup(_));
    if vm.autoescape && (is_markup(&separator) || items.iter().any(is_markup)) {
        let safe = |value: &Val| -> Result<String, Error> {
            let text = str_of(value)?;
            Ok(if is_markup(value) { text.to_string() } else { escape_html(&text) })
        };
        let parts: Result<Vec<String>, Error> = items.iter().map(safe).collect();
        return Ok(Val::Markup(parts?.join(&safe(&separator)?).into()));
    }
    let separator = str_of(&separator)?;
    let mut out = String::new();
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push_str(&separator);
        }
        crate::value::write_str(&mut out, item)?;
        Vm::check_size(Some(out.len()))?;
    }
    Ok(Val::str(out))
}

/// `format(*args)` or `format(**kwargs)` with `%`.
pub(super) fn format(_: &mut Vm<'_>, value: &Val, args: Args) -> Result<Val, Error> {
    let Args { positional, keywords } = args;
    if !positional.is_empty() && !keywords.is_empty() {
        return Err(Error::type_error("`format` accepts positional or keyword arguments, not both"));
    }
    let value = soft(value)?;
    if keywords.is_empty() {
        return percent(&value, &Val::tuple(positional));
    }
    let mut dict = OwnDict::default();
    for (name, value) in keywords {
        dict.insert((&*name).into(), value);
    }
    percent(&value, &Val::dict(dict))
}

/// `indent(width, first, blank)`.
pub(super) fn indent(vm: &mut Vm<'_>, value: &Val, args: Args) -> Result<Val, Error> {
    let [width, first, blank] = args.bind("indent", ["width", "first", "blank"], 0)?;
    let indentation: Arc<str> = match &width {
        None => "    ".into(),
        Some(Val::Str(text) | Val::Markup(text)) => text.clone(),
        Some(width) => {
            let width = Vm::check_size(usize::try_from(integer(width)?.max(0)).ok())?;
            " ".repeat(width).into()
        }
    };
    let truth = |value: Option<Val>| value.map_or(Ok(false), |value| value.truth());
    let (first, blank) = (truth(first)?, truth(blank)?);
    let text = format!("{}\n", text_of(value)?);
    let lines = strings::splitlines(&text, false);
    Vm::check_size(lines.len().checked_mul(indentation.len()))?;
    vm.spend(lines.len() as u64)?;
    let mut out = String::new();
    for (index, line) in lines.iter().enumerate() {
        if index > 0 {
            out.push('\n');
        }
        let indented = if index == 0 { first } else { blank || !line.is_empty() };
        if indented {
            out.push_str(&indentation);
        }
        out.push_str(line);
    }
    Ok(Val::text_like(value, out))
}

/// `truncate(length, killwords, end, leeway)`.
pub(super) fn truncate(_: &mut Vm<'_>, value: &Val, args: Args) -> Result<Val, Error> {
    let names = ["length", "killwords", "end", "leeway"];
    let [length, kill, end, leeway] = args.bind("truncate", names, 0)?;
    let length = length.map_or(Ok(255), |length| integer(&length))?;
    let kill = kill.map_or(Ok(false), |kill| kill.truth())?;
    let end = match end {
        Some(end) => text_of(&end)?.clone(),
        None => "...".into(),
    };
    let leeway = match leeway {
        None | Some(Val::None) => 5,
        Some(leeway) => integer(&leeway)?,
    };
    let end_length = end.chars().count() as i64;
    if length < end_length || leeway < 0 {
        return Err(Error::value_error(
            "`truncate` needs a length of at least that of `end`, and a non-negative leeway",
        ));
    }
    if (value.length()? as i64) <= length.saturating_add(leeway) {
        return Ok(value.clone());
    }
    let text = text_of(value)?;
    let kept: String = text.chars().take((length - end_length) as usize).collect();
    let kept =
        if kill { kept.as_str() } else { kept.rsplit_once(' ').map_or(kept.as_str(), |(head, _)| head) };
    Ok(Val::text_like(value, format!("{kept}{end}")))
}

/// `wordcount`.
pub(super) fn wordcount(_: &mut Vm<'_>, value: &Val, args: Args) -> Result<Val, Error> {
    args.none("wordcount")?;
    let text = str_of(value)?;
    let is_word = |c: char| c == '_' || strings::is_alnum(c);
    let words = text.split(|c| !is_word(c)).filter(|word| !word.is_empty()).count();
    Ok(Val::from_usize(words))
}

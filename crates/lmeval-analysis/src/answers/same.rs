//! Compares a request with a stored one without decoding it, where that is possible.

use std::sync::Arc;

use lmeval_core::recorded::RequestContent;
use lmeval_core::{Arguments, Context, ModelRequest};
use lmeval_pycompat::{Dict, Value, json};

use super::line::stored_requests;
use crate::read::Fields;

/// Generation settings as a string that does not depend on their order; empty for requests without.
pub(super) fn canonical(kwargs: Option<&Dict>) -> String {
    let options = json::Options { sort_keys: true, ..json::Options::default() };
    kwargs.and_then(|kwargs| json::dumps(&Value::from(kwargs.clone()), &options).ok()).unwrap_or_default()
}

/// Generation settings, which hardly ever change from one request to the next.
#[derive(Debug, Default)]
pub(super) struct Settings {
    /// Those of a request, with their canonical form.
    wanted: Option<(Arc<Dict>, String)>,
    /// Those of a line as they are written, with their canonical form.
    stored: Option<(String, String)>,
}

impl Settings {
    pub(super) fn wanted(&mut self, kwargs: Option<&Arc<Dict>>) -> &str {
        let Some(kwargs) = kwargs else { return "" };
        if !self.wanted.as_ref().is_some_and(|(last, _)| Arc::ptr_eq(last, kwargs)) {
            self.wanted = Some((Arc::clone(kwargs), canonical(Some(kwargs))));
        }
        self.wanted.as_ref().map_or("", |(_, text)| text)
    }

    /// Whether raw settings are those of a request; `None` if they are not an object.
    fn are_equal(&mut self, raw: &str, kwargs: &Arc<Dict>) -> Option<bool> {
        if self.stored.as_ref().is_none_or(|(last, _)| last != raw) {
            let Ok(Value::Dict(stored)) = json::loads(raw) else { return None };
            self.stored = Some((raw.to_owned(), canonical(Some(&stored))));
        }
        let stored = self.stored.take()?;
        let are_equal = self.wanted(Some(kwargs)) == stored.1;
        self.stored = Some(stored);
        Some(are_equal)
    }
}

/// Whether the request at an index of raw `arguments` is this one; or what is wrong with the arguments.
pub(super) fn is_same(
    arguments: &str,
    index: usize,
    request: &ModelRequest,
    settings: &mut Settings,
) -> Result<bool, String> {
    if let Some(is_same) = is_same_raw(arguments, index, request, settings) {
        return Ok(is_same);
    }
    let stored = stored_requests(arguments)?;
    let (content, kwargs) = RequestContent::of_request(request);
    let kwargs = settings.wanted(kwargs);
    let is_it = |(stored, own): &(RequestContent, Option<Arc<Dict>>)| {
        *stored == content && canonical(own.as_deref()) == kwargs
    };
    Ok(stored.get(index).is_some_and(|types| types.iter().any(is_it)))
}

/// Compares the request at an index of raw `arguments` if both have the usual form: a string without messages, and settings
/// or a continuation. `None` means that the arguments have to be decoded.
fn is_same_raw(
    arguments: &str,
    index: usize,
    request: &ModelRequest,
    settings: &mut Settings,
) -> Option<bool> {
    let (Arguments::Loglikelihood { context, .. } | Arguments::Generate { context, .. }) = &request.arguments
    else {
        return None;
    };
    // Chat messages have several forms that are equal.
    let Context::Text(context) = context else { return None };
    if context.starts_with('[') {
        return None;
    }
    let requests = Fields::parse(arguments).ok()?;
    let (name, raw) = requests.iter().nth(index)?;
    let own = Fields::parse(raw).ok()?;
    let mut parts = own.iter();
    let (Some(("arg_0", first)), Some(("arg_1", second)), None) = (parts.next(), parts.next(), parts.next())
    else {
        return None;
    };
    if name.strip_prefix("gen_args_")?.parse() != Ok(index) {
        return None;
    }
    let is_same = match &request.arguments {
        Arguments::Loglikelihood { continuation, .. } => text_equals(second, continuation)?,
        Arguments::Generate { kwargs, .. } => settings.are_equal(second, kwargs)?,
        _ => return None,
    };
    Some(text_equals(first, context)? && is_same)
}

/// Whether a raw JSON string is this string; `None` if it is not a string or has to be decoded.
fn text_equals(raw: &str, text: &str) -> Option<bool> {
    let mut raw = raw.strip_prefix('"')?.strip_suffix('"')?.as_bytes();
    let mut text = text.as_bytes();
    loop {
        let plain = memchr::memchr(b'\\', raw).unwrap_or(raw.len());
        let Some(rest) = text.strip_prefix(&raw[..plain]) else { return Some(false) };
        raw = &raw[plain..];
        let byte = match raw {
            [] => return Some(rest.is_empty()),
            [_, b'n', ..] => b'\n',
            [_, b't', ..] => b'\t',
            [_, b'r', ..] => b'\r',
            [_, byte @ (b'"' | b'\\' | b'/'), ..] => *byte,
            [_, b'u', ..] => {
                // Surrogates come in pairs, and a lone one is not a character.
                let digits = std::str::from_utf8(raw.get(2..6)?).ok()?;
                if digits.starts_with('+') {
                    return None;
                }
                let letter = char::from_u32(u32::from_str_radix(digits, 16).ok()?)?;
                let mut buffer = [0; 4];
                let Some(rest) = rest.strip_prefix(letter.encode_utf8(&mut buffer).as_bytes()) else {
                    return Some(false);
                };
                (raw, text) = (&raw[6..], rest);
                continue;
            }
            _ => return None,
        };
        let Some(rest) = rest.strip_prefix(&[byte]) else { return Some(false) };
        (raw, text) = (&raw[2..], rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_strings_are_compared_as_decoded_ones() {
        let texts = ["", "a", "Zoë\n\t\"x\" \\n/", "é", "日本", "a\u{8}b", "😀", "\u{7f}\u{0}"];
        for text in texts {
            for ensure_ascii in [true, false] {
                let options = json::Options { ensure_ascii, ..json::Options::default() };
                let raw = json::dumps(&Value::str(text), &options).expect("a string");
                for other in texts {
                    let is_equal = text_equals(&raw, other);
                    assert!(is_equal.is_none_or(|is_equal| is_equal == (text == other)), "{raw} {other:?}");
                }
            }
        }
        assert_eq!(text_equals(r#""a\nb""#, "a\nb"), Some(true));
        assert_eq!(text_equals(r#""a\nb""#, "a\nbc"), Some(false));
        assert_eq!(text_equals(r#""a\u00e9\/""#, "aé/"), Some(true));
        assert_eq!(text_equals(r#""\u+0e9""#, "\u{e9}").filter(|equal| *equal), None);
        assert_eq!(text_equals("3", "3"), None);
    }
}

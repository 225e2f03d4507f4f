//! The known secrets, and masking them in strings.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock};

use lmeval_pycompat::{Dict, Value, repr};

use super::names::{is_public_header, is_secret};
use super::policy::{is_credential, is_hidden_in_messages};
use super::settings::MASK;

/// The known secrets, longest first, so that masking a shorter one leaves no part of a longer one.
static KNOWN: RwLock<Vec<Known>> = RwLock::new(Vec::new());

struct Known {
    text: String,
    /// Whether it is masked in data too.
    is_credential: bool,
}

/// Registers a secret in every form in which it may appear, unless it could be an ordinary word.
pub fn remember(secret: &str) {
    let secret = secret.trim();
    let mut forms = vec![secret.to_owned()];
    // `Bearer` and similar schemes are not secret; the part after them is.
    forms.extend(secret.split_once(' ').map(|(_, key)| key.trim().to_owned()));
    for form in forms.clone() {
        forms.extend([in_json(&form), percent_decoded(&form)]);
    }
    forms.retain(|form| is_hidden_in_messages(form));
    let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
    for text in forms {
        if !known.iter().any(|known| known.text == text) {
            known.push(Known { is_credential: is_credential(&text), text });
        }
    }
    known.sort_by_key(|secret| std::cmp::Reverse(secret.text.len()));
}

/// Registers the secrets in settings: the values of keys that are named like secrets, and credentials in URLs.
pub fn learn(settings: &Value) {
    match settings {
        Value::Dict(dict) => {
            for (name, value) in dict.iter() {
                if name.as_str().is_some_and(is_secret) { learn_all(value) } else { learn(value) }
            }
        }
        Value::List(items) => items.iter().for_each(learn),
        Value::Tuple(items) => items.iter().for_each(learn),
        Value::Str(text) => {
            learn_urls(text);
            // Model arguments may be a string: `key=value,…`.
            let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
            pairs.filter(|(name, _)| is_secret(name)).for_each(|(_, value)| remember(value));
        }
        _ => {}
    }
}

/// Registers every string inside a secret, except public headers.
fn learn_all(value: &Value) {
    match value {
        Value::Dict(dict) => {
            let hidden = dict.iter().filter(|(name, _)| !name.as_str().is_some_and(is_public_header));
            hidden.for_each(|(_, value)| learn_all(value));
        }
        Value::List(items) => items.iter().for_each(learn_all),
        Value::Tuple(items) => items.iter().for_each(learn_all),
        Value::None | Value::Bool(_) => {}
        other => remember(&repr::str(other)),
    }
}

/// Registers the passwords and query values of URLs in a string.
fn learn_urls(text: &str) {
    for (start, _) in text.match_indices("://") {
        let rest = &text[start + 3..];
        let end = rest.find(|c: char| c.is_whitespace() || "\"'<>".contains(c)).unwrap_or(rest.len());
        let (place, query) = rest[..end].split_once(['?', '#']).unwrap_or((&rest[..end], ""));
        let authority = place.split('/').next().unwrap_or_default();
        if let Some((user, _)) = authority.rsplit_once('@') {
            remember(user.split_once(':').map_or(user, |(_, password)| password));
        }
        for (name, value) in query.split(['&', '#']).filter_map(|parameter| parameter.split_once('=')) {
            // `api-version=2024-02-01` is not secret, and a date in results must remain readable.
            if !name.ends_with("version") {
                remember(value);
            }
        }
    }
}

/// Registers the secrets in a file that cannot be parsed as settings, such as invalid YAML.
pub fn learn_from_text(text: &str) {
    for range in secret_ranges(text) {
        learn_pieces(&text[range]);
    }
    learn_urls(text);
}

/// A settings file with everything after the name of a secret replaced by asterisks, both on its line and on the
/// lines indented below it. The length in bytes does not change.
pub fn hide_secret_lines(text: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    for range in secret_ranges(text) {
        let start = range.start;
        for (place, character) in text[range].char_indices().filter(|(_, c)| !c.is_whitespace()) {
            bytes[start + place..start + place + character.len_utf8()].fill(b'*');
        }
    }
    // Only complete characters are replaced, and by ASCII, so this is valid UTF-8.
    let hidden = String::from_utf8(bytes).unwrap_or_default();
    mask_keeping_length(&hidden).into_owned()
}

/// The byte ranges in a settings file that may be secret.
fn secret_ranges(text: &str) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    let mut within: Option<usize> = None;
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let end = start + line.len();
        let indent = line.len() - line.trim_start().len();
        if !line.trim().is_empty() {
            within = within.filter(|outer| indent > *outer);
            let names = names_and_rests(line);
            if within.is_some() {
                let value = names.first().map_or(line, |(_, rest)| rest);
                ranges.push(end - value.len()..end);
            } else if let Some((_, value)) = names.into_iter().find(|(name, _)| is_secret(name)) {
                ranges.push(end - value.len()..end);
                within = Some(indent);
            }
        }
        start = end;
    }
    ranges
}

/// Each name on a line that is followed by `:` or `=`, with the rest of the line.
fn names_and_rests(line: &str) -> Vec<(&str, &str)> {
    let separators = line.match_indices([':', '=']);
    separators
        .filter_map(|(place, _)| {
            let name = line[..place].trim_end().trim_end_matches(['"', '\'']);
            let is_part = |c: char| c.is_alphanumeric() || "_-.".contains(c);
            let start = name.char_indices().rev().take_while(|(_, c)| is_part(*c)).last()?.0;
            Some((&name[start..], &line[place + 1..]))
        })
        .collect()
}

/// Registers a string and its parts between quotes, brackets and spaces: one of them is the secret.
fn learn_pieces(text: &str) {
    remember(text.trim().trim_matches(['"', '\'']));
    let names = names_and_rests(text);
    let pieces = text.split(|c: char| c.is_whitespace() || "\"'{}[],".contains(c));
    for piece in pieces.map(|piece| piece.trim_end_matches(':')) {
        // Skip header names and other settings on the line.
        let is_setting = names.iter().any(|(name, _)| {
            *name == piece
                || piece.strip_prefix(name).is_some_and(|rest| rest.starts_with('=') && !is_secret(name))
        });
        if !is_setting || piece.ends_with('=') {
            remember(piece);
        }
    }
}

/// Registers the values of environment variables that are named like secrets.
pub fn learn_environment() {
    for (name, value) in std::env::vars_os() {
        let (Some(name), Some(value)) = (name.to_str(), value.to_str()) else { continue };
        // The path of a key file is not a key.
        if is_secret(name) && !value.starts_with(['/', '~', '.']) {
            remember(value);
        }
    }
}

/// Masks every known secret in a message.
///
/// ```
/// use lmeval_core::secrets;
///
/// secrets::remember("Bearer sk-doc-example");
/// assert_eq!(secrets::mask("got sk-doc-example"), "got ***");
/// assert_eq!(secrets::mask("got nothing"), "got nothing");
/// ```
pub fn mask(text: &str) -> Cow<'_, str> {
    replace(text, |_| true, |_| MASK.to_owned())
}

/// Like [`mask`], but keeps the length in bytes, so that locations remain valid.
pub fn mask_keeping_length(text: &str) -> Cow<'_, str> {
    replace(text, |_| true, |secret| "*".repeat(secret.len()))
}

/// Masks secrets in data, such as a prompt: only values that look like generated keys, so that ordinary words
/// survive.
///
/// ```
/// use lmeval_core::secrets;
///
/// secrets::remember("sk-doc-0123456789");
/// secrets::remember("Doc-Password");
/// assert_eq!(secrets::mask_data("sk-doc-0123456789 Doc-Password"), "*** Doc-Password");
/// ```
pub fn mask_data(text: &str) -> Cow<'_, str> {
    replace(text, |secret| secret.is_credential, |_| MASK.to_owned())
}

/// Masks the strings inside a value using [`mask`] or [`mask_data`]. Numbers and keys remain.
pub fn mask_strings(value: Value, mask: fn(&str) -> Cow<'_, str>) -> Value {
    changed(&value, mask).unwrap_or(value)
}

/// The masked value; `None` if nothing changes, to avoid a copy.
fn changed(value: &Value, mask: fn(&str) -> Cow<'_, str>) -> Option<Value> {
    let all = |items: &[Value]| -> Option<Vec<Value>> {
        let masked: Vec<Option<Value>> = items.iter().map(|item| changed(item, mask)).collect();
        let is_changed = masked.iter().any(Option::is_some);
        let pairs = masked.into_iter().zip(items);
        is_changed.then(|| pairs.map(|(masked, item)| masked.unwrap_or_else(|| item.clone())).collect())
    };
    match value {
        Value::Str(text) => match mask(text) {
            Cow::Borrowed(_) => None,
            Cow::Owned(masked) => Some(Value::from(masked)),
        },
        Value::List(items) => all(items).map(Value::list),
        Value::Tuple(items) => all(items).map(Value::tuple),
        Value::Set(items) => all(items).map(|items| Value::Set(Arc::new(items))),
        Value::Dict(dict) => {
            let values: Vec<Value> = dict.iter().map(|(_, value)| value.clone()).collect();
            let masked = all(&values)?;
            Some(Value::from(dict.iter().map(|(key, _)| key.clone()).zip(masked).collect::<Dict>()))
        }
        _ => None,
    }
}

fn replace(text: &str, is_wanted: impl Fn(&Known) -> bool, masked: impl Fn(&str) -> String) -> Cow<'_, str> {
    let known = KNOWN.read().unwrap_or_else(PoisonError::into_inner);
    let mut out = Cow::Borrowed(text);
    for Known { text: secret, .. } in known.iter().filter(|known| is_wanted(known)) {
        if out.contains(secret.as_str()) {
            out = Cow::Owned(out.replace(secret.as_str(), &masked(secret)));
        }
    }
    out
}

/// The string as it appears inside a JSON string.
fn in_json(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}

/// Decodes percent-encoding such as `%41`.
fn percent_decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut place = 0;
    while place < bytes.len() {
        let digits = bytes.get(place + 1..place + 3).filter(|_| bytes[place] == b'%');
        let byte = digits.and_then(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
        out.push(byte.unwrap_or(bytes[place]));
        place += if byte.is_some() { 3 } else { 1 };
    }
    String::from_utf8(out).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use lmeval_pycompat::json;

    use super::*;

    #[test]
    fn masks_known_secrets_completely() {
        let settings = json::loads(
            r#"{"header": {"Authorization": "Bearer sk-known-11", "Content-Type": "application/known"},
                "base_url": "http://me:pw%2Fknown-12@h/v1?code=known-13&api-version=2024-known", "model": "known-model",
                "api_key": "EMPTY"}"#,
        );
        learn(&settings.unwrap());
        assert_eq!(mask("sk-known-11 pw%2Fknown-12 pw/known-12 known-13"), "*** *** *** ***");
        let kept = "application/known 2024-known known-model EMPTY";
        assert_eq!(mask(kept), kept);
        assert_eq!(mask_keeping_length("a sk-known-11 b"), "a *********** b");
    }

    #[test]
    fn masks_only_generated_keys_in_data() {
        for secret in ["password", "question", "2718281828459045", "Known-Word", "sk-data-0123456789"] {
            remember(secret);
        }
        let value = json::loads(
            r#"{"question": "a question, a password, a Known-Word", "score": 0.2718281828459045,
                "resps": [["sk-data-0123456789!"], 2718281828459045], "sk-data-0123456789": true}"#,
        );
        let masked = repr::repr(&mask_strings(value.unwrap(), mask_data));
        assert_eq!(
            masked,
            "{'question': 'a question, a password, a Known-Word', 'score': 0.2718281828459045, \
             'resps': [['***!'], 2718281828459045], 'sk-data-0123456789': True}"
        );
        assert_eq!(mask("question 2718281828459045 Known-Word"), "question 2718281828459045 ***");
    }

    #[test]
    fn learns_secrets_from_invalid_yaml() {
        learn_from_text(
            "model: known-model\nmodel_args:\n  header: {\"Authorization\": \"Bearer sk-text-21\"\n  header:\n    \
             X-One: sk-text-22\n  bearer: 'sk text-23'\n  max_length: 20480000\n\
             other: api_key=sk-text-24,model=known-other\n",
        );
        for secret in ["sk-text-21", "sk-text-22", "sk text-23", "sk-text-24"] {
            assert_eq!(mask(secret), "***", "{secret}");
        }
        for open in ["known-model", "known-other", "20480000", "max_length", "Authorization"] {
            assert_eq!(mask(open), open);
        }
    }

    #[test]
    fn hides_secret_lines_without_moving_offsets() {
        let text = "model: m\nmodel_args:\n  header:\n    X: é1\n  n: 2\n  args: a=1,api_key=x\nb: 1\n";
        let hidden = "model: m\nmodel_args:\n  header:\n    X: ***\n  n: 2\n  args: a=1,api_key=*\nb: 1\n";
        assert_eq!(hide_secret_lines(text), hidden);
    }
}

//! Masking secrets in settings.

use lmeval_pycompat::json;
use lmeval_pycompat::{Dict, Value};

use super::names::is_secret;

/// The replacement of a secret.
pub const MASK: &str = "***";

/// A value with its secrets replaced by `***`: everything under a key that is named like a secret, and credentials in
/// URLs.
///
/// Model arguments in string form (`key=value,…`) are masked individually.
///
/// ```
/// use lmeval_pycompat::{Value, repr};
/// use lmeval_core::secrets::mask_secrets;
///
/// let arguments = Value::dict([("model", Value::str("m")), ("api_key", Value::str("sk-1"))]);
/// assert_eq!(repr::repr(&mask_secrets(&arguments)), "{'model': 'm', 'api_key': '***'}");
/// assert_eq!(mask_secrets(&Value::str("model=m,token=abc")).as_str(), Some("model=m,token=***"));
/// ```
pub fn mask_secrets(value: &Value) -> Value {
    match value {
        Value::Str(text) => Value::from(mask_text(text)),
        other => mask_within(other),
    }
}

fn mask_within(value: &Value) -> Value {
    match value {
        Value::Dict(dict) => Value::from(
            dict.iter()
                .map(|(key, value)| {
                    let secret = key.as_str().is_some_and(is_secret) && is_worth_hiding(value);
                    (key.clone(), if secret { Value::str(MASK) } else { mask_within(value) })
                })
                .collect::<Dict>(),
        ),
        Value::List(items) => Value::list(items.iter().map(mask_within)),
        Value::Tuple(items) => Value::tuple(items.iter().map(mask_within)),
        Value::Str(text) => match mask_urls(text) {
            Some(masked) => Value::from(masked),
            None => value.clone(),
        },
        other => other.clone(),
    }
}

/// Booleans and missing values reveal nothing.
fn is_worth_hiding(value: &Value) -> bool {
    match value {
        Value::None | Value::Bool(_) => false,
        Value::Str(text) => !text.is_empty(),
        _ => true,
    }
}

/// `key=value,…` with masked values. A value ends where the next `,key=` begins, so that a comma inside a secret does
/// not reveal the rest.
fn mask_text(text: &str) -> String {
    if text.trim_start().starts_with('{')
        && let Ok(value @ Value::Dict(_)) = json::loads(text)
        && let Ok(masked) = json::dumps(
            &mask_within(&value),
            &json::Options { ensure_ascii: false, ..json::Options::default() },
        )
    {
        return masked;
    }
    let mut out = String::with_capacity(text.len());
    let mut hidden = false;
    // The number of braces the secret has opened: `key=` inside them is not another argument.
    let mut open = 0;
    for (place, part) in text.split(',').enumerate() {
        let named = part.split_once('=').filter(|(key, _)| open == 0 && is_argument_name(key));
        if hidden && named.is_none() {
            open = count_open_braces(open, part);
            continue;
        }
        if place > 0 {
            out.push(',');
        }
        let Some((key, value)) = named else {
            out.push_str(part);
            continue;
        };
        hidden = is_secret(key) && !value.is_empty() && !is_switch(value);
        open = if hidden { count_open_braces(0, value) } else { 0 };
        out.push_str(key);
        out.push('=');
        out.push_str(if hidden { MASK } else { value });
    }
    mask_urls(&out).unwrap_or(out)
}

fn count_open_braces(open: usize, text: &str) -> usize {
    text.chars().fold(open, |open, character| match character {
        '{' => open + 1,
        '}' => open.saturating_sub(1),
        _ => open,
    })
}

fn is_switch(value: &str) -> bool {
    ["true", "false", "none"].contains(&value.trim().to_ascii_lowercase().as_str())
}

fn is_argument_name(key: &str) -> bool {
    let key = key.trim();
    !key.is_empty() && key.chars().all(|character| character.is_alphanumeric() || "_-.".contains(character))
}

/// Masks the user, query and fragment of each URL; `None` if there are no URLs.
fn mask_urls(text: &str) -> Option<String> {
    let mut rest = text;
    let mut out = String::new();
    let mut changed = false;
    while let Some(start) = rest.find("://") {
        let (before, url) = rest.split_at(start + 3);
        out.push_str(before);
        let (url, after) = url.split_at(url_end(url));
        let masked = mask_url(url);
        changed |= masked != url;
        out.push_str(&masked);
        rest = after;
    }
    out.push_str(rest);
    changed.then_some(out)
}

/// The end of a URL in a string. Commas and semicolons may be part of a secret, but also separate settings and URLs:
/// they end a URL only if another setting or URL follows.
fn url_end(text: &str) -> usize {
    let hard = text.find(|c: char| c.is_whitespace() || "\"'<>".contains(c)).unwrap_or(text.len());
    let separators = text[..hard].char_indices().filter(|(_, c)| matches!(c, ',' | ';'));
    let mut ends = separators.map(|(place, _)| place).filter(|place| {
        let next = &text[place + 1..hard];
        let word = next.find(|c: char| !c.is_alphanumeric() && !"_-.+".contains(c)).unwrap_or(next.len());
        next[word..].starts_with("://") || (word > 0 && next[word..].starts_with('='))
    });
    ends.next().unwrap_or(hard)
}

/// Masks the part after `scheme://`.
fn mask_url(url: &str) -> String {
    let authority = url.find(['/', '?', '#']).unwrap_or(url.len());
    let (authority, path) = url.split_at(authority);
    let mut out = match authority.rsplit_once('@') {
        Some((_, host)) => format!("{MASK}@{host}"),
        None => authority.to_owned(),
    };
    let (path, fragment) = path.split_once('#').unwrap_or((path, ""));
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    out.push_str(path);
    for (place, parameter) in query.split('&').filter(|parameter| !parameter.is_empty()).enumerate() {
        out.push(if place == 0 { '?' } else { '&' });
        // A parameter without a name may be a secret too.
        let (name, value) = parameter.split_once('=').unwrap_or(("", parameter));
        out.push_str(name);
        out.push_str(if name.is_empty() { "" } else { "=" });
        out.push_str(if value.is_empty() { "" } else { MASK });
    }
    if !fragment.is_empty() {
        out.push('#');
        out.push_str(MASK);
    }
    out
}

#[cfg(test)]
mod tests {
    use lmeval_pycompat::repr::repr;

    use super::*;

    #[test]
    fn masks_nested_values() {
        let value = json::loads(
            r#"{"model": "m", "header": {"Authorization": "Bearer x"}, "list": [{"password": 12, "n": 1}],
                "token": true, "key": null, "base_url": "https://me:pw@host/v1?api_key=abc&v=2"}"#,
        );
        assert_eq!(
            repr(&mask_secrets(&value.unwrap())),
            "{'model': 'm', 'header': '***', 'list': [{'password': '***', 'n': 1}], 'token': True, 'key': None, \
             'base_url': 'https://***@host/v1?api_key=***&v=***'}"
        );
    }

    #[test]
    fn masks_argument_strings() {
        for (given, masked) in [
            ("model=m,header={\"Authorization\": \"Bearer a,b=c\"},x=1", "model=m,header=***,x=1"),
            ("model=m,api_key=a,b,c", "model=m,api_key=***"),
            ("pretrained=org/m,stop=a,b", "pretrained=org/m,stop=a,b"),
            ("token=True,a=1", "token=True,a=1"),
            ("{\"api_key\": \"x\", \"a\": 1}", "{\"api_key\": \"***\", \"a\": 1}"),
            ("base_url=http://u:p@h/x,model=m", "base_url=http://***@h/x,model=m"),
            ("", ""),
        ] {
            assert_eq!(mask_text(given), masked, "{given}");
        }
    }
}

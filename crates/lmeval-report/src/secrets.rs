//! Secrets do not reach results.

use lmeval_pycompat::json;
use lmeval_pycompat::{Dict, Value};

/// What stands for a secret.
const MASK: &str = "***";

/// Words that end the name of a secret.
const SECRET: [&str; 12] = [
    "header",
    "headers",
    "token",
    "key",
    "apikey",
    "password",
    "passwd",
    "secret",
    "authorization",
    "credential",
    "credentials",
    "cookie",
];

/// Words in front of `token` and `key` that make them something else.
const HARMLESS: [&str; 12] =
    ["bos", "eos", "pad", "unk", "eot", "sep", "cls", "mask", "stop", "prefix", "think", "end"];

/// A value in which secrets are `***`: whatever stands under a key that is named like one, and what a URL carries.
///
/// The arguments of a model as text (`key=value,…`) are masked part by part.
///
/// ```
/// use lmeval_pycompat::{Value, repr};
/// use lmeval_report::mask_secrets;
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

/// Switches and what is not there tell nothing.
fn is_worth_hiding(value: &Value) -> bool {
    match value {
        Value::None | Value::Bool(_) => false,
        Value::Str(text) => !text.is_empty(),
        _ => true,
    }
}

/// Whether something with this name is probably a secret.
fn is_secret(name: &str) -> bool {
    let words = words(name);
    let Some((last, before)) = words.split_last() else { return false };
    let harmless = before.last().is_some_and(|word| HARMLESS.contains(&word.as_str()));
    SECRET.contains(&last.as_str()) && !(harmless && matches!(last.as_str(), "token" | "key"))
}

/// The words of a name, in lower case: `apiKey`, `api_key` and `API-KEY` have the same.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut after_small = false;
    for character in name.trim().trim_matches(['"', '\'']).chars() {
        let starts = !character.is_alphanumeric() || (after_small && character.is_uppercase());
        after_small = character.is_lowercase() || character.is_numeric();
        if starts {
            words.push(String::new());
        }
        if let (true, Some(word)) = (character.is_alphanumeric(), words.last_mut()) {
            word.extend(character.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// `key=value,…` with masked values. A value ends where the next `,key=` begins, so that a comma inside a secret
/// does not show its rest.
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
    // How many braces a secret has opened: what looks like an argument inside them is none.
    let mut open = 0;
    for (place, part) in text.split(',').enumerate() {
        let named = part.split_once('=').filter(|(key, _)| open == 0 && is_argument_name(key));
        if hidden && named.is_none() {
            open = braces(open, part);
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
        open = if hidden { braces(0, value) } else { 0 };
        out.push_str(key);
        out.push('=');
        out.push_str(if hidden { MASK } else { value });
    }
    mask_urls(&out).unwrap_or(out)
}

fn braces(open: usize, text: &str) -> usize {
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

/// The text with the user and the secret parameters of each URL masked; `None` where there are none.
fn mask_urls(text: &str) -> Option<String> {
    let mut rest = text;
    let mut out = String::new();
    let mut changed = false;
    while let Some(start) = rest.find("://") {
        let (before, url) = rest.split_at(start + 3);
        out.push_str(before);
        let end = url.find(|c: char| c.is_whitespace() || "\"'<>,".contains(c)).unwrap_or(url.len());
        let (url, behind) = url.split_at(end);
        let masked = mask_url(url);
        changed |= masked != url;
        out.push_str(&masked);
        rest = behind;
    }
    out.push_str(rest);
    changed.then_some(out)
}

/// What stands behind `scheme://`.
fn mask_url(url: &str) -> String {
    let authority = url.find(['/', '?', '#']).unwrap_or(url.len());
    let (authority, path) = url.split_at(authority);
    let mut out = match authority.rsplit_once('@') {
        Some((_, host)) => format!("{MASK}@{host}"),
        None => authority.to_owned(),
    };
    let Some((path, query)) = path.split_once('?') else { return out + path };
    out.push_str(path);
    for (place, parameter) in query.split('&').enumerate() {
        out.push(if place == 0 { '?' } else { '&' });
        match parameter.split_once('=') {
            Some((name, value)) if is_secret(name) && !value.is_empty() => {
                out.push_str(name);
                out.push('=');
                out.push_str(MASK);
            }
            _ => out.push_str(parameter),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use lmeval_pycompat::repr::repr;

    use super::*;

    #[test]
    fn names_of_secrets_are_known() {
        for name in [
            "header",
            "auth_token",
            "api_key",
            "apiKey",
            "API-KEY",
            "x-api-key",
            "token",
            "hf_token",
            "HF_TOKEN",
            "key",
            "password",
            "Authorization",
            "client_secret",
            "HEADERS",
            "openai_api_key",
        ] {
            assert!(is_secret(name), "{name}");
        }
        for name in [
            "tokenizer",
            "max_tokens",
            "eos_token",
            "add_bos_token",
            "tokenized_requests",
            "keys",
            "model",
            "monkey",
            "prefix_token_id",
            "think_end_token",
            "num_concurrent",
            "stop_token",
            "",
        ] {
            assert!(!is_secret(name), "{name}");
        }
    }

    #[test]
    fn nested_values_are_masked() {
        let value = json::loads(
            r#"{"model": "m", "header": {"Authorization": "Bearer x"}, "list": [{"password": 12, "n": 1}],
                "token": true, "key": null, "base_url": "https://me:pw@host/v1?api_key=abc&v=2"}"#,
        );
        assert_eq!(
            repr(&mask_secrets(&value.unwrap())),
            "{'model': 'm', 'header': '***', 'list': [{'password': '***', 'n': 1}], 'token': True, 'key': None, \
             'base_url': 'https://***@host/v1?api_key=***&v=2'}"
        );
    }

    #[test]
    fn text_is_masked_part_by_part() {
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

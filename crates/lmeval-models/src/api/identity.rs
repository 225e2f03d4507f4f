//! The identity of the model that a server runs.

use std::borrow::Borrow;
use std::time::{Duration, Instant};

use lmeval_core::{ModelError, ModelErrorKind, secrets};
use lmeval_pycompat::{Dict, Value};
use reqwest::Url;
use sha2::{Digest, Sha256};

use super::answer::parse;
use crate::http::Client;
use crate::tokenizer::{server_query, server_root};

/// Attempts when a server answers without a usable model list.
const MAX_ODD_ANSWERS: u32 = 4;

/// The first wait after such an answer.
const WAIT: Duration = Duration::from_millis(100);

/// URL path endings that do not depend on the model.
const USUAL_PATH_ENDINGS: [&str; 6] =
    ["/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/completion", "/generate", "/v1"];

/// The facts that identify what answers: the model that the server reports, if any, and the server's
/// location.
///
/// Different servers may report the same name for different weights, so the name alone is not enough. A
/// server that is down is waited for, and an unexpected answer is retried: answers are looked up by these
/// facts, so different facts would repeat every request. If there is no model list in the end, `serves` is
/// omitted, and the journal uses the value it knows.
pub(super) async fn server_facts(
    client: &Client,
    base_url: &str,
    model: Option<&str>,
    is_hosted: bool,
) -> Result<Vec<(&'static str, String)>, ModelError> {
    let location = ("server", locations(client.addresses()));
    if is_hosted {
        return Ok(vec![location]);
    }
    let root = server_root(base_url);
    let url = format!("{}/v1/models{}", root.trim_end_matches("/generate"), server_query(base_url));
    let start = Instant::now();
    let mut odd = 0;
    loop {
        match client.get(&url, Duration::from_secs(5)).await {
            Ok(bytes) => {
                let name = parse(&bytes).ok().and_then(|answer| reported(&answer, model));
                if let Some(name) = name {
                    return Ok(vec![("serves", name), location]);
                }
            }
            Err(error) if error.kind() == ModelErrorKind::Unreachable => {
                if start.elapsed() >= client.patience() {
                    return Err(error);
                }
                tokio::time::sleep(Duration::from_secs(1)).await;
                continue;
            }
            Err(_) => {}
        }
        odd += 1;
        if odd >= MAX_ODD_ANSWERS {
            return Ok(vec![location]);
        }
        tokio::time::sleep(WAIT * 2_u32.pow(odd)).await;
    }
}

/// The entry of the model list with this name, or the only entry: its name and what it was loaded from.
/// `None` without a list, or with an empty one.
fn reported(answer: &Value, model: Option<&str>) -> Option<String> {
    let entries = answer.as_dict()?.get_str("data")?.as_list()?;
    let text = |entry: &Dict, name: &str| entry.get_str(name).and_then(Value::as_str).map(str::to_owned);
    let entries: Vec<&Dict> = entries.iter().filter_map(Value::as_dict).collect();
    let named = entries.iter().find(|entry| model.is_some() && text(entry, "id").as_deref() == model);
    let only = || entries.first().filter(|_| entries.len() == 1);
    let Some(entry) = named.or_else(only) else {
        // A server that lists models but not this one is not a transient failure.
        return (!entries.is_empty()).then(|| "a model that it does not list".to_owned());
    };
    let id = text(entry, "id")?;
    Some(match text(entry, "root") {
        Some(root) if root != id => format!("{id} ({root})"),
        _ => id,
    })
}

/// The locations of all addresses, independent of their order.
///
/// Several addresses answer as one model, so they form one location together.
fn locations(addresses: impl Iterator<Item = impl Borrow<Url>>) -> String {
    let mut locations: Vec<String> = addresses.map(|address| location(address.borrow())).collect();
    locations.sort();
    locations.dedup();
    locations.join(";")
}

/// Query parameters of signed URLs besides the signature: validity period and permissions.
const SIGNATURE_PARAMETERS: [&str; 14] = [
    "exp",
    "expires",
    "expiry",
    "expiration",
    "se",
    "sip",
    "ske",
    "skt",
    "sks",
    "sp",
    "spr",
    "sr",
    "st",
    "sv",
];

/// Host and port of a URL, its path before the usual ending, and a hash of its query: one host may serve
/// several models under different paths. No credentials and no readable query values. Secrets are excluded
/// from the hash, so that renewing a key does not repeat every request.
fn location(address: &Url) -> String {
    let mut location = address.host_str().unwrap_or_default().to_owned();
    match address.port() {
        Some(port) => location = format!("{location}:{port}"),
        None if address.scheme() == "http" => location.push_str(":80"),
        None => {}
    }
    let path = address.path().trim_end_matches('/');
    let path = USUAL_PATH_ENDINGS.iter().find_map(|end| path.strip_suffix(end)).unwrap_or(path);
    location.push_str(path.trim_end_matches('/'));
    let query = identifying_parameters(address.query().unwrap_or_default());
    if !query.is_empty() {
        let digest = Sha256::digest(query.join("&").as_bytes());
        let first = digest.iter().take(8).fold(0_u64, |digits, byte| (digits << 8) | u64::from(*byte));
        location = format!("{location}?{first:016x}");
    }
    location
}

/// The query parameters that may select a model.
fn identifying_parameters(query: &str) -> Vec<&str> {
    let name = |parameter: &str| parameter.split('=').next().unwrap_or_default().to_ascii_lowercase();
    // Some services call a key `code`.
    let is_key = |name: &str| name == "code" || secrets::is_secret(name);
    let parameters: Vec<&str> = query.split('&').filter(|parameter| !parameter.is_empty()).collect();
    let is_signed = parameters.iter().any(|parameter| is_key(&name(parameter)));
    let is_of_signature = |name: &str| {
        // Prefixes of signature parameters.
        name.starts_with("x-amz-") || name.starts_with("x-goog-") || SIGNATURE_PARAMETERS.contains(&name)
    };
    let changes = |name: &str| is_key(name) || (is_signed && is_of_signature(name));
    parameters.into_iter().filter(|parameter| !changes(&name(parameter))).collect()
}

#[cfg(test)]
mod tests {
    use lmeval_pycompat::json;

    use super::*;

    #[test]
    fn reported_model_names() {
        let list =
            json::loads(r#"{"data": [{"id": "a", "root": "/models/a"}, {"id": "b", "root": "b"}]}"#).unwrap();
        assert_eq!(reported(&list, Some("a")).as_deref(), Some("a (/models/a)"));
        assert_eq!(reported(&list, Some("b")).as_deref(), Some("b"));
        assert_eq!(reported(&list, Some("c")).as_deref(), Some("a model that it does not list"));
        for odd in ["{}", "[]", "null", r#"{"data": []}"#, r#"{"data": null}"#, r#"{"error": "x"}"#] {
            assert_eq!(reported(&json::loads(odd).unwrap(), Some("a")), None, "{odd}");
        }
        let single = json::loads(r#"{"data": [{"id": "a"}]}"#).unwrap();
        assert_eq!(reported(&single, Some("c")).as_deref(), Some("a"));
    }

    #[test]
    fn locations_of_addresses() {
        let of = |addresses: &[&str]| locations(addresses.iter().map(|address| Url::parse(address).unwrap()));
        assert_eq!(of(&["http://me:secret@localhost:8000/v1/completions"]), "localhost:8000");
        assert_eq!(of(&["https://api.openai.com/v1/chat/completions"]), "api.openai.com");
        assert_eq!(of(&["http://Host/v1"]), "host:80");
        assert_eq!(of(&["http://host:8000"]), "host:8000");
        assert_eq!(of(&["http://host:8000/left/v1/completions"]), "host:8000/left");
        assert_ne!(of(&["http://host:8000/v1/completions"]), of(&["http://host:8001/v1/completions"]));
        let replicas =
            of(&["http://b:1/v1/completions", "http://a:1/v1/completions", "http://b:1/v1/completions"]);
        assert_eq!(replicas, "a:1;b:1");
    }

    #[test]
    fn queries_distinguish_models_but_not_keys() {
        let of = |query: &str| location(&Url::parse(&format!("https://host/v1{query}")).unwrap());
        let named = of("?deployment=hunter2");
        assert!(
            named.starts_with("host?") && !named.contains("hunter2") && !named.contains("dep"),
            "{named}"
        );
        assert_ne!(named, of("?deployment=hunter3"));
        assert_ne!(named, of(""));
        for (one, other) in [
            ("key=hunter2", "key=hunter3"),
            ("api_key=hunter2", "api-key=hunter3"),
            ("code=hunter2", "code=hunter3"),
            ("sv=2024-01-01&st=1&se=2&sp=r&sig=abc%3D", "sv=2025-01-01&st=3&se=4&sp=rw&sig=def%3D"),
            ("Expires=1&Signature=a", "Expires=2&Signature=b"),
            (
                "X-Amz-Date=1&X-Amz-Expires=5&X-Amz-Signature=a&X-Amz-Credential=b",
                "X-Amz-Date=2&X-Amz-Expires=6&X-Amz-Signature=c&X-Amz-Credential=d",
            ),
        ] {
            assert_eq!(of(&format!("?{one}")), "host", "{one}");
            assert_eq!(
                of(&format!("?{one}&deployment=hunter2")),
                of(&format!("?deployment=hunter2&{other}")),
                "{one}"
            );
        }
        // Without a key, these are ordinary parameters.
        assert_ne!(of("?sv=1"), of("?sv=2"));
    }
}

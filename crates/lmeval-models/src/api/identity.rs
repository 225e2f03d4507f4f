//! What a server says of the model that it runs.

use std::borrow::Borrow;
use std::time::{Duration, Instant};

use lmeval_core::{ModelError, ModelErrorKind, secrets};
use lmeval_pycompat::{Dict, Value};
use reqwest::Url;
use sha2::{Digest, Sha256};

use super::answer::parse;
use crate::http::Client;
use crate::tokenizer::{server_query, server_root};

/// How often a server is asked that answers, but not with a list of models.
const ODD_ANSWERS: u32 = 4;

/// The first wait after such an answer.
const WAIT: Duration = Duration::from_millis(100);

/// What the paths of addresses end in whatever model they serve.
const USUAL_ENDS: [&str; 6] =
    ["/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/completion", "/generate", "/v1"];

/// The facts that name what answers: the model that the server reports, where it does, and where the server is.
///
/// Two servers may report the same name for different weights, so the name alone is not enough. A server that is away is
/// waited for, and one that gives an odd answer is asked again: answers are found by these facts, and other facts would
/// ask for all of them again. Where there is no list of models in the end, `serves` is missing, and the journal knows
/// what it was before.
pub(super) async fn server_facts(
    client: &Client,
    base_url: &str,
    model: Option<&str>,
    is_hosted: bool,
) -> Result<Vec<(&'static str, String)>, ModelError> {
    let place = ("server", places(client.addresses()));
    if is_hosted {
        return Ok(vec![place]);
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
                    return Ok(vec![("serves", name), place]);
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
        if odd >= ODD_ANSWERS {
            return Ok(vec![place]);
        }
        tokio::time::sleep(WAIT * 2_u32.pow(odd)).await;
    }
}

/// The entry of the list of models that has the name, or the only one: its name and what it was loaded from. `None`
/// where there is no list, or nothing in it.
fn reported(answer: &Value, model: Option<&str>) -> Option<String> {
    let entries = answer.as_dict()?.get_str("data")?.as_list()?;
    let text = |entry: &Dict, name: &str| entry.get_str(name).and_then(Value::as_str).map(str::to_owned);
    let entries: Vec<&Dict> = entries.iter().filter_map(Value::as_dict).collect();
    let named = entries.iter().find(|entry| model.is_some() && text(entry, "id").as_deref() == model);
    let only = || entries.first().filter(|_| entries.len() == 1);
    let Some(entry) = named.or_else(only) else {
        // The server knows its models well: that this one is not among them is no slip.
        return (!entries.is_empty()).then(|| "a model that it does not list".to_owned());
    };
    let id = text(entry, "id")?;
    Some(match text(entry, "root") {
        Some(root) if root != id => format!("{id} ({root})"),
        _ => id,
    })
}

/// The addresses that answers come from, in one order whichever way they were given.
///
/// Answers of several addresses are answers of one model, so all of them together are the place.
fn places(addresses: impl Iterator<Item = impl Borrow<Url>>) -> String {
    let mut places: Vec<String> = addresses.map(|address| place(address.borrow())).collect();
    places.sort();
    places.dedup();
    places.join(";")
}

/// What a signed address says beside its signature: since when and until when it holds, and what it allows.
const OF_SIGNATURES: [&str; 14] = [
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

/// Host and port of an address, what stands in its path before the usual end, and a hash of its query: one host may
/// serve several models under different paths. No credentials, and no values of the query that can be read. A key may
/// be renewed without asking for everything again, so secrets are left out of the hash.
fn place(address: &Url) -> String {
    let mut place = address.host_str().unwrap_or_default().to_owned();
    match address.port() {
        Some(port) => place = format!("{place}:{port}"),
        None if address.scheme() == "http" => place.push_str(":80"),
        None => {}
    }
    let path = address.path().trim_end_matches('/');
    let path = USUAL_ENDS.iter().find_map(|end| path.strip_suffix(end)).unwrap_or(path);
    place.push_str(path.trim_end_matches('/'));
    let query = telling(address.query().unwrap_or_default());
    if !query.is_empty() {
        let digest = Sha256::digest(query.join("&").as_bytes());
        let first = digest.iter().take(8).fold(0_u64, |digits, byte| (digits << 8) | u64::from(*byte));
        place = format!("{place}?{first:016x}");
    }
    place
}

/// The parameters of a query that may say which model answers.
fn telling(query: &str) -> Vec<&str> {
    let name = |parameter: &str| parameter.split('=').next().unwrap_or_default().to_ascii_lowercase();
    // `code` is what some services call a key.
    let is_key = |name: &str| name == "code" || secrets::is_secret(name);
    let parameters: Vec<&str> = query.split('&').filter(|parameter| !parameter.is_empty()).collect();
    let is_signed = parameters.iter().any(|parameter| is_key(&name(parameter)));
    let is_of_signature = |name: &str| {
        // All that signatures add has these in front.
        name.starts_with("x-amz-") || name.starts_with("x-goog-") || OF_SIGNATURES.contains(&name)
    };
    let changes = |name: &str| is_key(name) || (is_signed && is_of_signature(name));
    parameters.into_iter().filter(|parameter| !changes(&name(parameter))).collect()
}

#[cfg(test)]
mod tests {
    use lmeval_pycompat::json;

    use super::*;

    #[test]
    fn names_and_places() {
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
    fn addresses_as_places() {
        let of = |addresses: &[&str]| places(addresses.iter().map(|address| Url::parse(address).unwrap()));
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
    fn a_query_tells_models_apart_but_not_keys() {
        let of = |query: &str| place(&Url::parse(&format!("https://host/v1{query}")).unwrap());
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
        // Without a key, these are names like any other.
        assert_ne!(of("?sv=1"), of("?sv=2"));
    }
}

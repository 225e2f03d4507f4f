//! What a server says of the model that it runs.

use std::time::{Duration, Instant};

use lmeval_core::{ModelError, ModelErrorKind};
use lmeval_pycompat::{Dict, Value};

use super::answer::parse;
use crate::http::Client;
use crate::tokenizer::{server_query, server_root};

/// The fact that names what answers: the model that the server reports, else where the server is.
///
/// A server that is away is waited for: answers are found by this fact, and another one would ask for all of them again.
pub(super) async fn server_facts(
    client: &Client,
    base_url: &str,
    model: Option<&str>,
    is_hosted: bool,
) -> Result<(&'static str, String), ModelError> {
    let place = || ("server", host(base_url));
    if is_hosted {
        return Ok(place());
    }
    let root = server_root(base_url);
    let url = format!("{}/v1/models{}", root.trim_end_matches("/generate"), server_query(base_url));
    let start = Instant::now();
    loop {
        match client.get(&url, Duration::from_secs(5)).await {
            Ok(bytes) => {
                let name = parse(&bytes).ok().and_then(|answer| reported(&answer, model));
                return Ok(name.map_or_else(place, |name| ("serves", name)));
            }
            Err(error) if error.kind() != ModelErrorKind::Unreachable => return Ok(place()),
            Err(error) if start.elapsed() >= client.patience() => return Err(error),
            Err(_) => tokio::time::sleep(Duration::from_secs(1)).await,
        }
    }
}

/// The entry of the list of models that has the name, or the only one: its name and what it was loaded from.
fn reported(answer: &Value, model: Option<&str>) -> Option<String> {
    let entries = answer.as_dict()?.get_str("data")?.as_list()?;
    let text = |entry: &Dict, name: &str| entry.get_str(name).and_then(Value::as_str).map(str::to_owned);
    let entries: Vec<&Dict> = entries.iter().filter_map(Value::as_dict).collect();
    let named = entries.iter().find(|entry| model.is_some() && text(entry, "id").as_deref() == model);
    let only = || entries.first().filter(|_| entries.len() == 1);
    let entry = named.or_else(only)?;
    let id = text(entry, "id")?;
    Some(match text(entry, "root") {
        Some(root) if root != id => format!("{id} ({root})"),
        _ => id,
    })
}

/// Host and port of an address.
fn host(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let place = rest.split(['/', '?', '#']).next().unwrap_or_default();
    // What stands before `@` may be a password.
    place.rsplit('@').next().unwrap_or_default().to_owned()
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
        assert_eq!(reported(&list, Some("c")), None);
        let single = json::loads(r#"{"data": [{"id": "a"}]}"#).unwrap();
        assert_eq!(reported(&single, Some("c")).as_deref(), Some("a"));
        assert_eq!(host("http://me:secret@localhost:8000/v1/completions"), "localhost:8000");
        assert_eq!(host("https://api.openai.com/v1"), "api.openai.com");
    }
}

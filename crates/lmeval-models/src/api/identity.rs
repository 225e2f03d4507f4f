//! The identity of the model that a server runs.

use std::borrow::Borrow;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lmeval_core::{ModelError, ModelErrorKind, secrets};
use lmeval_pycompat::{Dict, Value, json};
use reqwest::Url;
use sha2::{Digest, Sha256};

use super::answer::parse;
use super::contact::Wait;
use super::pool::Keeper;
use crate::http::Client;
use crate::tokenizer::{server_query, server_root};

/// Attempts when a server answers without a usable model list.
const MAX_ODD_ANSWERS: u32 = 4;

/// The time limit of a query of one member of a pool.
const MEMBER_TIMEOUT: Duration = Duration::from_secs(5);

/// The first wait after such an answer.
const WAIT: Duration = Duration::from_millis(100);

/// URL path endings that do not depend on the model.
const USUAL_PATH_ENDINGS: [&str; 6] =
    ["/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/completion", "/generate", "/v1"];

/// How the model of a server is identified.
pub(super) struct ServerIdentity<'a> {
    pub(super) client: &'a Client,
    /// The first base URL.
    pub(super) base_url: &'a str,
    /// Knows what the members of a pool report; `None` for a fixed list of addresses.
    pub(super) pool: Option<&'a Keeper>,
    /// The model's name on the server.
    pub(super) model: Option<&'a str>,
    /// The argument `model_id`: a name for the model wherever it is served.
    pub(super) model_id: Option<&'a str>,
    /// Whether it is a vendor's API, which need not be queried for the model it serves.
    pub(super) is_hosted: bool,
}

impl ServerIdentity<'_> {
    /// Whether the server must be asked for part of the identity.
    pub(super) fn is_asked(&self) -> bool {
        !self.is_hosted && self.model_id.is_none()
    }

    /// The facts known without asking: the `model_id`, or else the server's location.
    pub(super) fn known(&self) -> Fact {
        match self.model_id {
            Some(model_id) => ("model_id", model_id.to_owned()),
            None => {
                let members = || locations(self.client.members().into_iter().map(|member| member.url));
                ("server", self.client.pool().unwrap_or_else(members))
            }
        }
    }

    /// All facts about the server and what it runs.
    ///
    /// Different servers may report the same name for different weights, and a restarted one may run others, so the name
    /// alone is not enough: the location and what else the server reports are facts too. A
    /// server that is down is waited for, and an unexpected answer is retried: answers are looked up by these
    /// facts, so different facts would repeat every request. If there is no model list in the end, `serves` is
    /// omitted, and the journal uses the value it knows.
    pub(super) async fn facts(&self) -> Result<Vec<Fact>, ModelError> {
        if !self.is_asked() {
            return Ok(vec![self.known()]);
        }
        if let Some(pool) = self.pool {
            // Its members differ in age and version, and in their addresses.
            let report = pool.report().await?;
            return Ok(report
                .map_or_else(Vec::new, Report::facts)
                .into_iter()
                .chain([self.known()])
                .collect());
        }
        let wait = Wait::new(self.client);
        let mut odd = 0;
        loop {
            let report = self.ask(&wait).await;
            if !matches!(&report, Err(error) if error.kind() == ModelErrorKind::Unreachable) {
                wait.done();
            }
            match report {
                Ok(Some(report)) => {
                    let mut facts = report.facts();
                    facts.insert(1, self.known());
                    return Ok(facts);
                }
                Err(error) if error.kind() == ModelErrorKind::Unreachable => {
                    wait.again(error).await?;
                    continue;
                }
                Ok(None) | Err(_) => {}
            }
            odd += 1;
            if odd >= MAX_ODD_ANSWERS {
                return Ok(vec![self.known()]);
            }
            tokio::time::sleep(WAIT * 2_u32.pow(odd)).await;
        }
    }

    /// The report of the server, or `None` without a usable model list.
    async fn ask(&self, wait: &Wait<'_>) -> Result<Option<Report>, ModelError> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |now| now.as_secs_f64());
        let Some(listed) = self.listed(wait).await? else { return Ok(None) };
        let Listed { name, entry } = listed;
        let mut details = details(&entry, &DETAILS);
        if let Some(created) = created(&entry) {
            let age = (now - created).abs();
            // Some servers report the time of the query, which is not a fact about the model.
            let is_clock = if age > CLOCK_SKEW {
                false
            } else if age <= 2.0 {
                true
            } else {
                tokio::time::sleep(Duration::from_millis(1100)).await;
                let Some(again) = self.listed(wait).await? else { return Ok(None) };
                self::created(&again.entry) != Some(created)
            };
            if !is_clock {
                details.push(format!("created {created}"));
            }
        }
        if entry.get_str("owned_by").and_then(Value::as_str) == Some("vllm") {
            details.extend(self.version().await?.map(|version| format!("version {version}")));
        }
        Ok(Some(Report { name, details: details.join(", ") }))
    }

    async fn listed(&self, wait: &Wait<'_>) -> Result<Option<Listed>, ModelError> {
        let url = self.url("/v1/models");
        let bytes = match wait.get(&url).await {
            Err(error) if error.kind() != ModelErrorKind::Unreachable => {
                self.client.get(&url, Duration::from_secs(5)).await?
            }
            answer => answer?,
        };
        Ok(parse(&bytes).ok().and_then(|answer| listed(&answer, self.model)))
    }

    /// The server's version; `None` if it has no such endpoint.
    async fn version(&self) -> Result<Option<String>, ModelError> {
        match self.client.get(&self.url("/version"), Duration::from_secs(5)).await {
            Ok(bytes) => {
                Ok(parse(&bytes).ok().and_then(|answer| shown(answer.as_dict()?.get_str("version")?)))
            }
            Err(error) if error.kind() == ModelErrorKind::Unreachable => Err(error),
            Err(_) => Ok(None),
        }
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}{}", server_root(self.base_url), server_query(self.base_url))
    }
}

/// A fact of an identity.
pub(super) type Fact = (&'static str, String);

/// The report of a server about its model.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Report {
    /// The model's name and what it was loaded from.
    pub(super) name: String,
    /// Everything else, as one string.
    pub(super) details: String,
}

impl Report {
    fn facts(self) -> Vec<Fact> {
        let details = Some(("reports", self.details)).filter(|(_, details)| !details.is_empty());
        [("serves", self.name)].into_iter().chain(details).collect()
    }
}

/// The report of a member of a pool, without facts in which members with the same model differ: the time it was started and
/// its version. `None` without a usable model list.
pub(super) async fn member_report(
    client: &Client,
    base_url: &str,
    model: Option<&str>,
) -> Result<Option<Report>, ModelError> {
    let url = format!("{}/v1/models{}", server_root(base_url), server_query(base_url));
    let bytes = match client.get_in(&url, MEMBER_TIMEOUT, 1).await {
        Err(error) if error.kind() != ModelErrorKind::Unreachable => client.get(&url, MEMBER_TIMEOUT).await,
        answer => answer,
    };
    let bytes = match bytes {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ModelErrorKind::Unreachable => return Err(error),
        Err(_) => return Ok(None),
    };
    let Some(Listed { name, entry }) = parse(&bytes).ok().and_then(|answer| listed(&answer, model)) else {
        return Ok(None);
    };
    let shared: Vec<&str> = DETAILS.into_iter().filter(|detail| *detail != "version").collect();
    Ok(Some(Report { name, details: details(&entry, &shared).join(", ") }))
}

/// Fields of a model list's entry, with their names.
fn details(entry: &Dict, names: &[&str]) -> Vec<String> {
    let detail = |name: &&str| Some(format!("{name} {}", shown(entry.get_str(name)?)?));
    names.iter().filter_map(detail).collect()
}

/// The entry of a model list.
#[derive(Debug, PartialEq)]
struct Listed {
    /// The name, and what the model was loaded from if it differs.
    name: String,
    entry: Dict,
}

/// Fields of a model list that describe the model. Others change without it, such as permissions and prices.
const DETAILS: [&str; 7] = ["parent", "max_model_len", "quantization", "dtype", "digest", "meta", "version"];

/// A creation time this close to the current time, in seconds, may be the server's clock.
const CLOCK_SKEW: f64 = 86_400.0;

/// A field of a model list as part of a fact; `None` if it is null.
fn shown(value: &Value) -> Option<String> {
    match value {
        Value::None => None,
        Value::Str(text) => Some(text.to_string()),
        other => json::dumps(other, &json::Options { sort_keys: true, ..json::Options::default() }).ok(),
    }
}

/// The creation time of a model in Unix seconds.
fn created(entry: &Dict) -> Option<f64> {
    let created = entry.get_str("created")?.to_f64().filter(|created| *created > 0.0)?;
    // Some servers report milliseconds.
    Some(if created > 1e11 { created / 1000.0 } else { created })
}

/// The entry of the model list with this name, or the only entry.
/// `None` without a list, or with an empty one.
fn listed(answer: &Value, model: Option<&str>) -> Option<Listed> {
    let entries = answer.as_dict()?.get_str("data")?.as_list()?;
    let text = |entry: &Dict, name: &str| entry.get_str(name).and_then(Value::as_str).map(str::to_owned);
    let entries: Vec<&Dict> = entries.iter().filter_map(Value::as_dict).collect();
    let named = entries.iter().find(|entry| model.is_some() && text(entry, "id").as_deref() == model);
    let only = || entries.first().filter(|_| entries.len() == 1);
    let Some(entry) = named.or_else(only) else {
        // A server that lists models but not this one is not a transient failure.
        let name = "a model that it does not list".to_owned();
        return (!entries.is_empty()).then(|| Listed { name, entry: Dict::new() });
    };
    let id = text(entry, "id")?;
    let name = match text(entry, "root") {
        Some(root) if root != id => format!("{id} ({root})"),
        _ => id,
    };
    Some(Listed { name, entry: (*entry).clone() })
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
    use super::*;

    #[test]
    fn reported_model_names() {
        let list =
            json::loads(r#"{"data": [{"id": "a", "root": "/models/a"}, {"id": "b", "root": "b"}]}"#).unwrap();
        let name = |list: &Value, model| listed(list, Some(model)).map(|listed| listed.name);
        assert_eq!(name(&list, "a").as_deref(), Some("a (/models/a)"));
        assert_eq!(name(&list, "b").as_deref(), Some("b"));
        assert_eq!(name(&list, "c").as_deref(), Some("a model that it does not list"));
        for odd in ["{}", "[]", "null", r#"{"data": []}"#, r#"{"data": null}"#, r#"{"error": "x"}"#] {
            assert_eq!(listed(&json::loads(odd).unwrap(), Some("a")), None, "{odd}");
        }
        let single = json::loads(r#"{"data": [{"id": "a"}]}"#).unwrap();
        assert_eq!(name(&single, "c").as_deref(), Some("a"));
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

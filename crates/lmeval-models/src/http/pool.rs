//! Lists of servers that change during a run: a watched file, or the addresses of a name.

use std::fmt;
use std::io;
use std::net::{IpAddr, ToSocketAddrs as _};
use std::path::PathBuf;
use std::sync::Arc;

use reqwest::Url;
use serde_json::Value;

use super::connect::read_url;
use super::redact::public_url;

/// Resolves a host name.
pub type Resolver = Arc<dyn Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync>;

/// Where the members of a pool are listed.
#[derive(Clone)]
pub enum PoolSource {
    /// A JSON file, from `base_url=@FILE`.
    File(PathBuf),
    /// The addresses of a host name, from `base_url=dns+http://…`.
    Name {
        /// The URL, with the name.
        url: Url,
        /// Finds the addresses of the name.
        resolve: Resolver,
    },
}

/// A server in a list.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Listing {
    pub(super) url: String,
    pub(super) weight: f64,
    /// The `Host` header, if it is not that of the URL.
    pub(super) host: Option<String>,
}

impl PoolSource {
    /// Reads `@FILE` and `dns+http://…`; `None` for other strings. The error says what is wrong.
    pub(super) fn parse(text: &str) -> Option<Result<Self, String>> {
        if let Some(path) = text.strip_prefix('@') {
            let path = path.trim();
            let is_named = !path.is_empty();
            return Some(
                is_named.then(|| Self::File(path.into())).ok_or_else(|| "no file follows `@`".to_owned()),
            );
        }
        let url = text.strip_prefix("dns+")?;
        let parsed = match Url::parse(url) {
            Ok(parsed) if parsed.scheme() == "http" && parsed.has_host() => parsed,
            Ok(parsed) if parsed.scheme() == "https" => {
                let message = "`dns+https` is not supported, since certificates name hosts and not addresses; list the \
                               servers in a file (`base_url=@FILE`)";
                return Some(Err(message.to_owned()));
            }
            _ => return Some(Err("`dns+` must be followed by a URL that starts with `http://`".to_owned())),
        };
        Some(Ok(Self::Name { url: parsed, resolve: Arc::new(resolve) }))
    }

    /// The name of the pool in messages and in the identity of the model: no folder, and no secret.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::File(path) => format!("@{}", path.file_name().unwrap_or_default().to_string_lossy()),
            Self::Name { url, .. } => format!("dns+{}", public_url(url.as_str())),
        }
    }

    /// Reads the list. The error names the file and the line, or the name.
    pub(super) fn read(&self) -> Result<Vec<Listing>, String> {
        match self {
            Self::File(path) => {
                let shown = path.display();
                let text = match fs_err::read_to_string(path) {
                    Ok(text) => text,
                    Err(error) => return Err(format!("The pool file cannot be read: {error}")),
                };
                parse(&text)
                    .map_err(|(line, problem)| format!("The pool file `{shown}`, line {line}: {problem}"))
            }
            Self::Name { url, resolve } => {
                let name = url.host_str().unwrap_or_default();
                let mut addresses = resolve(name).map_err(|error| {
                    format!("The name `{name}` of `base_url` cannot be resolved: {error}")
                })?;
                addresses.sort_unstable();
                addresses.dedup();
                let host = match url.port() {
                    Some(port) => format!("{name}:{port}"),
                    None => name.to_owned(),
                };
                let listing = |address: IpAddr| {
                    let mut url = url.clone();
                    // Fails only for URLs without a host.
                    let _ = url.set_ip_host(address);
                    Listing { url: url.into(), weight: 1.0, host: Some(host.clone()) }
                };
                Ok(addresses.into_iter().map(listing).collect())
            }
        }
    }
}

impl fmt::Debug for PoolSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

/// The addresses of a name, by the system's resolver.
fn resolve(name: &str) -> io::Result<Vec<IpAddr>> {
    Ok((name.trim_matches(['[', ']']), 0).to_socket_addrs()?.map(|address| address.ip()).collect())
}

/// Parses a pool file: a list of servers, or an object with a list `servers`. The error has the number of a line.
fn parse(text: &str) -> Result<Vec<Listing>, (usize, String)> {
    let found: Value = serde_json::from_str(text).map_err(|error| {
        let problem = if text.trim().is_empty() { "the file is empty".to_owned() } else { error.to_string() };
        (error.line().max(1), problem)
    })?;
    // `serde_json` keeps no positions; the first line with the string is usually the right one.
    let line_of =
        |wanted: &str| text.lines().position(|line| line.contains(wanted)).map_or(1, |index| index + 1);
    let servers = match &found {
        Value::Array(servers) => servers,
        Value::Object(object) => match object.get("servers") {
            Some(Value::Array(servers)) => servers,
            Some(_) => return Err((line_of("\"servers\""), "`servers` is not a list".to_owned())),
            None => return Err((1, "the key `servers` is missing".to_owned())),
        },
        _ => return Err((1, "neither a list nor an object with the key `servers`".to_owned())),
    };
    let mut listings: Vec<Listing> = Vec::with_capacity(servers.len());
    for (index, server) in servers.iter().enumerate() {
        let number = index + 1;
        let url = match server {
            Value::String(url) => url,
            Value::Object(object) => match object.get("url") {
                Some(Value::String(url)) => url,
                Some(_) => {
                    return Err((line_of("\"url\""), format!("`url` of server {number} is not a string")));
                }
                None => return Err((1, format!("server {number} has no `url`"))),
            },
            _ => {
                return Err((
                    1,
                    format!("server {number} is neither a URL nor an object with the key `url`"),
                ));
            }
        };
        if read_url(url).is_err() {
            let problem =
                format!("`url` of server {number} is not a URL that starts with `http://` or `https://`");
            return Err((line_of(url), problem));
        }
        let weight = match server.get("weight") {
            None | Some(Value::Null) => 1.0,
            Some(weight) => match weight.as_f64().filter(|weight| weight.is_finite() && *weight > 0.0) {
                Some(weight) => weight,
                None => {
                    let problem = format!("`weight` of server {number} is {weight}, not a number above 0");
                    return Err((line_of(url), problem));
                }
            },
        };
        match listings.iter_mut().find(|listing| listing.url == *url) {
            Some(listing) => listing.weight = weight,
            None => listings.push(Listing { url: url.clone(), weight, host: None }),
        }
    }
    Ok(listings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_both_forms_of_a_pool_file() {
        let urls =
            |text: &str| parse(text).map(|found| found.into_iter().map(|one| one.url).collect::<Vec<_>>());
        assert_eq!(urls("[]"), Ok(Vec::new()));
        assert_eq!(urls(r#"{"servers": []}"#), Ok(Vec::new()));
        assert_eq!(
            urls(r#"["http://a/v1", "http://b/v1", "http://a/v1"]"#).unwrap(),
            ["http://a/v1", "http://b/v1"]
        );
        let found = parse(
            r#"{"servers": [{"url": "http://a/v1", "weight": 2.5, "node": 3}, {"url": "http://b/v1"}]}"#,
        )
        .unwrap();
        assert_eq!((found[0].weight, found[1].weight), (2.5, 1.0));
    }

    #[test]
    fn names_the_line_of_a_mistake() {
        for (text, line, problem) in [
            ("", 1, "empty"),
            ("{\"servers\": [\n{\"url\": \"http://a/v1\"", 2, "EOF"),
            ("{\n\"server\": []}", 1, "`servers` is missing"),
            ("{\n\"servers\": 5}", 2, "not a list"),
            ("[\n\"http://a/v1\",\n\"b:8000\"]", 3, "server 2 is not a URL"),
            ("[\n{\"url\": 5}]", 2, "not a string"),
            ("[{\"weight\": 5}]", 1, "no `url`"),
            ("[\n{\"url\": \"http://a/v1\", \"weight\": 0}]", 2, "not a number above 0"),
            ("7", 1, "neither"),
        ] {
            let (found, message) = parse(text).unwrap_err();
            assert!(found == line && message.contains(problem), "{text:?}: line {found}: {message}");
        }
    }

    #[test]
    fn names_become_one_server_per_address() {
        let Some(Ok(PoolSource::Name { url, .. })) =
            PoolSource::parse("dns+http://models:8000/v1/completions")
        else {
            panic!("not a name");
        };
        let resolve = |_: &str| Ok(["10.0.0.2", "::1", "10.0.0.1"].map(|ip| ip.parse().unwrap()).to_vec());
        let found = PoolSource::Name { url, resolve: Arc::new(resolve) }.read().unwrap();
        let urls: Vec<&str> = found.iter().map(|listing| listing.url.as_str()).collect();
        assert_eq!(
            urls,
            [
                "http://10.0.0.1:8000/v1/completions",
                "http://10.0.0.2:8000/v1/completions",
                "http://[::1]:8000/v1/completions"
            ]
        );
        assert!(found.iter().all(|listing| listing.host.as_deref() == Some("models:8000")));
        for wrong in ["dns+https://a/v1", "dns+a:80", "@"] {
            assert!(matches!(PoolSource::parse(wrong), Some(Err(_))), "{wrong}");
        }
        assert!(PoolSource::parse("http://a/v1").is_none());
    }
}

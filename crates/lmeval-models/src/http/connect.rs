//! Transports to base URLs, and the headers of every call.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper_util::client::proxy::matcher::Matcher;
use lmeval_core::{ModelError, ModelErrorKind};
use lmeval_net::http_client;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue};
use reqwest::{StatusCode, Url, redirect};
use secrecy::{ExposeSecret, SecretString};

use super::direct::{Direct, Host};
use super::member::Endpoint;
use super::pool::Listing;
use super::redact::public_url;
use super::settings::ClientSettings;
use super::trust::tls_with;

const USER_AGENT: &str = concat!("lm-eval/", env!("CARGO_PKG_VERSION"));
const CONNECT: Duration = Duration::from_secs(10);
/// Longest idle time of a pooled connection: less than the five seconds after which common servers close
/// theirs.
const IDLE: Duration = Duration::from_secs(4);
/// How many redirects within the same server are followed.
pub(super) const REDIRECTS: usize = 5;

/// How requests reach a URL.
#[derive(Clone)]
pub(super) enum Transport {
    /// Our own connections, for plain HTTP.
    Direct(Arc<Host>),
    /// The library's connections: TLS, or through a proxy.
    Reqwest(reqwest::Client),
}

/// Creates transports. Connections to this machine never use a proxy.
pub(super) struct Connections {
    direct: Direct,
    proxies: Matcher,
    local: reqwest::Client,
    remote: Option<reqwest::Client>,
}

impl Connections {
    /// `most` is the number of connections that may be open at once.
    pub(super) fn new(settings: &ClientSettings, most: usize) -> Result<Self, ModelError> {
        let certificates = settings.ca_cert_path.as_deref().filter(|_| settings.verify_certificate);
        let tls = certificates.map(tls_with).transpose()?;
        let build = |is_local: bool| {
            let mut builder = http_client()
                .user_agent(USER_AGENT)
                .redirect(same_server())
                .referer(false)
                .timeout(settings.timeout)
                .connect_timeout(CONNECT.min(settings.timeout))
                .pool_idle_timeout(IDLE)
                .pool_max_idle_per_host(most)
                .tcp_nodelay(true)
                .http2_adaptive_window(true)
                // The library would decompress without a limit; see `decoded`.
                .no_gzip()
                .tls_danger_accept_invalid_certs(!settings.verify_certificate);
            if let Some(tls) = &tls {
                builder = builder.tls_backend_preconfigured(tls.clone());
            }
            if is_local {
                builder = builder.no_proxy();
            }
            builder.build().map_err(|error| {
                let message = format!("The HTTP client could not be created: {}", error.without_url());
                ModelError::new(ModelErrorKind::Configuration, message)
            })
        };
        let is_remote = |url: &String| !Url::parse(url).is_ok_and(|url| is_loopback(&url));
        let has_remote = settings.pool.is_some() || settings.base_urls.iter().any(is_remote);
        let remote = has_remote.then(|| build(false)).transpose()?;
        let direct = Direct::new(USER_AGENT, CONNECT.min(settings.timeout), IDLE, most);
        Ok(Self { direct, proxies: Matcher::from_system(), local: build(true)?, remote })
    }

    /// The transport for a URL.
    pub(super) fn for_url(&self, url: &Url) -> Transport {
        let is_local = is_loopback(url);
        let is_proxied = || url.as_str().parse().is_ok_and(|uri| self.proxies.intercept(&uri).is_some());
        if url.scheme() == "http" && (is_local || !is_proxied()) {
            return Transport::Direct(self.direct.host(url));
        }
        let remote = self.remote.as_ref().filter(|_| !is_local);
        Transport::Reqwest(remote.unwrap_or(&self.local).clone())
    }

    /// Closes the idle connections to a server that is no longer used. Those in use are closed after their answer.
    pub(super) fn forget(&self, url: &Url) {
        self.direct.forget(url);
    }
}

/// The endpoints of the settings, with their headers.
pub(super) fn endpoints(
    settings: &ClientSettings,
    connections: &Connections,
) -> Result<Vec<Endpoint>, ModelError> {
    if settings.base_urls.is_empty() && settings.pool.is_none() {
        let message = "The model needs the argument `base_url`";
        return Err(ModelError::new(ModelErrorKind::Configuration, message));
    }
    settings.base_urls.iter().map(|text| endpoint(text, settings, connections)).collect()
}

/// The endpoint of a member of a pool.
pub(super) fn listed_endpoint(
    listing: &Listing,
    settings: &ClientSettings,
    connections: &Connections,
) -> Result<Endpoint, ModelError> {
    let mut endpoint = endpoint(&listing.url, settings, connections)?;
    if let Some(host) = &listing.host {
        let host = HeaderValue::from_str(host).map_err(|_| unsendable("Host"))?;
        endpoint.headers.insert(HOST, host);
    }
    Ok(endpoint)
}

fn endpoint(
    text: &str,
    settings: &ClientSettings,
    connections: &Connections,
) -> Result<Endpoint, ModelError> {
    let mut url = read_url(text)?;
    let mut headers = header_map(&settings.headers)?;
    if !url.username().is_empty() || url.password().is_some() {
        // Reference: credentials in the address win over the header.
        headers.insert(AUTHORIZATION, basic(&url)?);
        // These fail only for URLs that cannot have credentials.
        let _ = url.set_password(None);
        let _ = url.set_username("");
    }
    let transport = connections.for_url(&url);
    Ok(Endpoint { given: text.to_owned(), shown: public_url(text), url, headers, transport })
}

pub(super) fn read_url(text: &str) -> Result<Url, ModelError> {
    let parsed =
        Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    parsed.ok_or_else(|| {
        // Anything before `@` may be a password, and anything after `?` a key.
        let shown = text.rsplit('@').next().unwrap_or_default().split('?').next().unwrap_or_default();
        ModelError::new(
            ModelErrorKind::Configuration,
            format!("The model argument `base_url` is not a URL: `{shown}`"),
        )
        .hint("It must start with `http://` or `https://`, as in `http://localhost:8000/v1/completions`")
    })
}

fn basic(url: &Url) -> Result<HeaderValue, ModelError> {
    let value = HeaderValue::from_str(&format!("Basic {}", encoded_credentials(url)));
    let mut value = value.map_err(|_| unsendable("Authorization"))?;
    value.set_sensitive(true);
    Ok(value)
}

/// The credentials of a URL, base64-encoded for basic authentication.
pub(super) fn encoded_credentials(url: &Url) -> String {
    // `Url` percent-decodes only queries, where `+` means a space.
    let decode = |text: &str| {
        let query = Url::parse(&format!("http://x/?x={}", text.replace('+', "%2B"))).ok();
        query
            .and_then(|url| url.query_pairs().next().map(|(_, value)| value.into_owned()))
            .unwrap_or_default()
    };
    STANDARD.encode(format!("{}:{}", decode(url.username()), decode(url.password().unwrap_or_default())))
}

fn header_map(headers: &[(String, SecretString)]) -> Result<HeaderMap, ModelError> {
    let mut map = HeaderMap::with_capacity(headers.len() + 1);
    map.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    for (name, value) in headers {
        let header = HeaderName::from_bytes(name.trim().as_bytes()).map_err(|_| unsendable(name))?;
        let mut value = HeaderValue::from_str(value.expose_secret()).map_err(|_| unsendable(name))?;
        value.set_sensitive(true);
        map.insert(header, value);
    }
    Ok(map)
}

fn unsendable(name: &str) -> ModelError {
    let message = format!("The header `{name}` contains characters that are not allowed in headers");
    ModelError::new(ModelErrorKind::Configuration, message)
        .hint("Check that the key does not end in a line break and is pure ASCII")
}

/// Follows method-preserving redirects within the same server. A redirect to another server would send the
/// key there.
fn same_server() -> redirect::Policy {
    redirect::Policy::custom(|attempt| {
        let keeps_call =
            matches!(attempt.status(), StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
        let is_same = attempt.previous().last().is_some_and(|last| last.origin() == attempt.url().origin());
        if keeps_call && is_same && attempt.previous().len() <= REDIRECTS {
            attempt.follow()
        } else {
            attempt.stop()
        }
    })
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']).trim_end_matches('.');
    let address = host.parse::<IpAddr>().map(|address| address.to_canonical());
    host.eq_ignore_ascii_case("localhost")
        || host.to_ascii_lowercase().ends_with(".localhost")
        || address.is_ok_and(|address| address.is_loopback() || address.is_unspecified())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recognizes_loopback_hosts() {
        for (url, expected) in [
            ("http://localhost:8000/v1", true),
            ("http://127.0.0.1/", true),
            ("http://127.9.9.9/", true),
            ("http://[::1]:80/", true),
            ("http://[::ffff:127.0.0.1]:80/", true),
            ("http://localhost.:8000/v1", true),
            ("http://0.0.0.0:8000/", true),
            ("http://api.localhost/", true),
            ("https://api.openai.com/v1", false),
            ("http://10.0.0.1/", false),
            ("http://localhost.example.org/", false),
        ] {
            assert_eq!(is_loopback(&Url::parse(url).unwrap()), expected, "{url}");
        }
    }

    #[test]
    fn rejects_malformed_urls() {
        for text in ["localhost:8000/v1", "host/v1", "ftp://host/", "http://", "me:sk-secret@host"] {
            let error = read_url(text).expect_err(text);
            assert_eq!(error.kind(), ModelErrorKind::Configuration);
            assert!(!error.to_string().contains("sk-secret"), "{error}");
        }
    }

    #[test]
    fn invalid_header_errors_hide_the_secret() {
        let error =
            header_map(&[("Authorization".into(), SecretString::from("Bearer sk-secret\n"))]).unwrap_err();
        assert!(!format!("{error:?}").contains("sk-secret"), "{error:?}");
        assert!(error.to_string().contains("Authorization"));
    }

    #[test]
    fn encodes_url_credentials() {
        let value = basic(&Url::parse("http://me:p%40ss+w@host/").unwrap()).unwrap();
        assert_eq!(value.to_str().unwrap(), format!("Basic {}", STANDARD.encode("me:p@ss+w")));
        assert!(value.is_sensitive());
    }
}

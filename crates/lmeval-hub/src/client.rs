//! HTTP requests to the hub: authentication, redirects and retries.

use std::sync::mpsc;
use std::time::Duration;

use bytes::Bytes;
use lmeval_net::http_client;
use lmeval_pycompat::Value;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue, LINK, LOCATION, RETRY_AFTER};
use reqwest::{Method, Response, StatusCode, Url, redirect};
use secrecy::ExposeSecret;
use tokio::runtime::{Builder, Runtime};

use crate::error::Error;
use crate::hexadecimal;
use crate::repository::parse;
use crate::settings::Settings;

/// Upper bound for the delay the hub requests with `Retry-After`.
const LONGEST_WAIT: Duration = Duration::from_mins(2);
/// Fails a request after this long without a byte from the hub.
const READ_TIMEOUT: Duration = Duration::from_mins(1);
/// Limit on redirects within the hub, which [`Client::describe`] follows itself.
const MAX_REDIRECTS: usize = 5;

/// A blocking hub client. It owns its async runtime, so it works inside and outside other runtimes.
pub struct Client {
    settings: Settings,
    /// Follows redirects. The token is not sent to other hosts.
    following: reqwest::Client,
    /// Returns redirects, whose headers describe the file.
    direct: reqwest::Client,
    runtime: Option<Runtime>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // Dropping the runtime would block, which panics inside another runtime.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Client {
    /// Creates a client without sending a request.
    pub fn new(settings: &Settings) -> Result<Self, Error> {
        let fail = |error: &dyn std::error::Error| Error::connection(&settings.endpoint, error.to_string());
        let build = |policy| {
            http_client()
                .user_agent(concat!("lm-eval/", env!("CARGO_PKG_VERSION")))
                .redirect(policy)
                .connect_timeout(Duration::from_secs(20))
                .read_timeout(READ_TIMEOUT)
                .no_gzip()
                .build()
                .map_err(|error| fail(&error))
        };
        let runtime = Builder::new_multi_thread().worker_threads(1).thread_name("hub").enable_all().build();
        Ok(Self {
            settings: settings.clone(),
            following: build(redirect::Policy::limited(10))?,
            direct: build(redirect::Policy::none())?,
            runtime: Some(runtime.map_err(|error| fail(&error))?),
        })
    }

    /// The settings this client was created with.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Runs a future to completion on the client's runtime.
    pub(crate) fn wait<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let (sender, receiver) = mpsc::channel();
        self.runtime.as_ref()?.spawn(async move {
            // Fails only if the waiting thread is gone.
            let _ = sender.send(future.await);
        });
        receiver.recv().ok()
    }

    /// Sends a request once. An error status is a response, not a failure.
    fn send_once(
        &self,
        method: Method,
        url: &str,
        headers: HeaderMap,
        body: Option<Bytes>,
        follow: bool,
    ) -> Result<Response, Failure> {
        let client = if follow { &self.following } else { &self.direct };
        let mut request = client.request(method, url).headers(headers);
        if let Some(body) = body {
            request = request.body(body);
        }
        if let Some(token) = self.token_for(url) {
            request = request.header(AUTHORIZATION, token);
        }
        let answer = self.wait(async move { request.send().await });
        answer.ok_or(Failure::Stopped)?.map_err(|error| Failure::NoAnswer(error.without_url()))
    }

    /// The `Authorization` header, if the URL is on the hub's origin.
    fn token_for(&self, url: &str) -> Option<HeaderValue> {
        let token = self.settings.token.as_ref()?;
        let (url, hub) = (Url::parse(url).ok()?, Url::parse(&self.settings.endpoint).ok()?);
        if url.origin() != hub.origin() {
            return None;
        }
        let mut value = HeaderValue::from_str(&format!("Bearer {}", token.expose_secret())).ok()?;
        value.set_sensitive(true);
        Some(value)
    }

    /// Sends a request, retrying transient failures.
    pub(crate) fn send(
        &self,
        method: &Method,
        url: &str,
        headers: &HeaderMap,
        follow: bool,
    ) -> Result<Response, Error> {
        self.attempt(self.settings.attempts, url, follow, || {
            self.send_once(method.clone(), url, headers.clone(), None, follow)
        })
    }

    /// Sends content, up to `attempts` times, and returns what the hub answers.
    pub(crate) fn submit(
        &self,
        (method, url): (&Method, &str),
        headers: &HeaderMap,
        body: &Bytes,
        attempts: u32,
    ) -> Result<Bytes, Error> {
        let answer = self.attempt(attempts, url, true, || {
            self.send_once(method.clone(), url, headers.clone(), Some(body.clone()), true)
        })?;
        match self.wait(async move { answer.bytes().await }) {
            Some(body) => body.map_err(|error| Error::connection(url, error.without_url())),
            None => Err(Error::connection(url, "the client has stopped")),
        }
    }

    /// Repeats a request while its failures are transient.
    fn attempt(
        &self,
        attempts: u32,
        url: &str,
        follow: bool,
        send: impl Fn() -> Result<Response, Failure>,
    ) -> Result<Response, Error> {
        let mut attempt = 1;
        loop {
            let result = send();
            let (reason, requested) = match &result {
                Ok(answer) if is_transient(answer.status()) => {
                    (answer.status().to_string(), retry_after(answer.headers()))
                }
                Ok(_) => return Self::checked(url, result, follow),
                Err(failure) if failure.is_transient() => (failure.to_string(), None),
                Err(_) => return Self::checked(url, result, follow),
            };
            if attempt >= attempts {
                return Self::checked(url, result, follow);
            }
            self.pause(attempt, requested, &public(url), &reason);
            attempt += 1;
        }
    }

    /// Waits before the next attempt: as long as the hub requested, or with exponential backoff.
    pub(crate) fn pause(&self, attempt: u32, requested: Option<Duration>, what: &str, reason: &str) {
        let doubled = self.settings.first_wait * 2_u32.saturating_pow(attempt - 1).min(16);
        let wait = requested.unwrap_or(doubled).min(LONGEST_WAIT);
        self.settings.progress.retry(what, reason, wait);
        std::thread::sleep(wait);
    }

    /// Turns failures and error statuses into errors.
    fn checked(url: &str, result: Result<Response, Failure>, follow: bool) -> Result<Response, Error> {
        let answer = result.map_err(|failure| match failure {
            Failure::NoAnswer(error) => Error::connection(url, error),
            Failure::Stopped => Error::connection(url, "the client has stopped"),
        })?;
        let status = answer.status();
        if status.is_success() || (!follow && status.is_redirection()) {
            return Ok(answer);
        }
        let message = answer.headers().get("x-error-message").and_then(|value| value.to_str().ok());
        let message = message.unwrap_or_default().to_owned();
        Err(Error::Status { url: public(url), status: status.as_u16(), message })
    }

    /// Fetches JSON. Returns it with the URL of the next page, if there is one.
    pub(crate) fn json(&self, url: &str) -> Result<(Value, Option<String>), Error> {
        let mut attempt = 1;
        loop {
            let answer = self.send(&Method::GET, url, &HeaderMap::new(), true)?;
            let next = answer.headers().get(LINK).and_then(|link| next_page(link.to_str().ok()?, url));
            match self.wait(async move { answer.bytes().await }) {
                Some(Ok(body)) => return Ok((parse(url, &body)?, next)),
                Some(Err(error)) if attempt < self.settings.attempts => {
                    self.pause(attempt, None, &public(url), &error.without_url().to_string());
                    attempt += 1;
                }
                Some(Err(error)) => return Err(Error::connection(url, error.without_url())),
                None => return Err(Error::connection(url, "the client has stopped")),
            }
        }
    }

    /// Fetches the headers that describe a file: follows redirects within the hub, up to the redirect to another host.
    pub(crate) fn describe(&self, url: &str) -> Result<HeaderMap, Error> {
        let mut url = url.to_owned();
        for _ in 0..MAX_REDIRECTS {
            let answer = self.send(&Method::HEAD, &url, &HeaderMap::new(), false)?;
            let location = answer.headers().get(LOCATION).and_then(|location| location.to_str().ok());
            match location {
                Some(location) if answer.status().is_redirection() && location.starts_with('/') => {
                    let next = Url::parse(&url).and_then(|base| base.join(location));
                    url = next.map_or_else(|_| url.clone(), String::from);
                }
                _ => return Ok(answer.headers().clone()),
            }
        }
        Err(Error::connection(&url, "too many redirects"))
    }
}

/// Why a request got no response.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("{0}")]
    NoAnswer(reqwest::Error),
    #[error("the client has stopped")]
    Stopped,
}

impl Failure {
    fn is_transient(&self) -> bool {
        matches!(self, Self::NoAnswer(error) if !error.is_builder() && !error.is_redirect())
    }
}

fn is_transient(status: StatusCode) -> bool {
    status == StatusCode::TOO_MANY_REQUESTS
        || status == StatusCode::REQUEST_TIMEOUT
        || status.is_server_error()
}

/// The delay requested with `Retry-After: <seconds>`. The date form is ignored.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}

/// The URL of the next page from a `Link` header.
fn next_page(link: &str, current: &str) -> Option<String> {
    link.split(',').find_map(|part| {
        let (address, parameters) = part.split_once(';')?;
        let address = address.trim().strip_prefix('<')?.strip_suffix('>')?;
        let is_next = parameters.split(';').any(|parameter| parameter.trim().replace('"', "") == "rel=next");
        let joined = Url::parse(current).ok()?.join(address).ok()?;
        (is_next && joined.as_str() != current).then(|| joined.to_string())
    })
}

/// Strips credentials and query from a URL, for messages.
pub(crate) fn public(url: &str) -> String {
    match Url::parse(url) {
        Ok(mut parsed) => {
            parsed.set_query(None);
            // These fail only for URLs that cannot have credentials.
            let _ = parsed.set_password(None);
            let _ = parsed.set_username("");
            parsed.to_string()
        }
        Err(_) => "an invalid URL".into(),
    }
}

/// Percent-encodes everything but letters, digits and `-._~`.
pub(crate) fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push('%');
            encoded.push_str(&hexadecimal(&[byte]).to_uppercase());
        }
    }
    encoded
}

/// Percent-encodes the segments of a path.
pub(crate) fn encode_path(path: &str) -> String {
    path.split('/').map(encode).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodes_urls_and_finds_next_pages() {
        assert_eq!(encode("refs/convert/parquet"), "refs%2Fconvert%2Fparquet");
        assert_eq!(encode_path("data/é x.csv"), "data/%C3%A9%20x.csv");
        assert_eq!(public("https://user:pass@host/a?token=x"), "https://host/a");
        let link = "<https://hub/api?cursor=2>; rel=\"next\", <https://hub/api>; rel=\"first\"";
        assert_eq!(next_page(link, "https://hub/api").as_deref(), Some("https://hub/api?cursor=2"));
        assert_eq!(next_page("</p?c=3>;rel=next", "https://hub/x").as_deref(), Some("https://hub/p?c=3"));
        assert_eq!(next_page("<https://hub/api>; rel=\"prev\"", "https://hub/api"), None);
    }
}

//! Settings of the HTTP client.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use lmeval_core::{ModelError, ModelErrorKind, ModelSettings};
use lmeval_pycompat::{Dict, Value, repr};
use secrecy::SecretString;

use super::pool::PoolSource;
use super::redact::public_url;

/// Settings of the HTTP client, read from model arguments.
#[derive(Clone)]
pub struct ClientSettings {
    /// The URLs that answer calls; at least one, unless there is a pool.
    pub base_urls: Vec<String>,
    /// A list of URLs that changes during the run.
    pub pool: Option<PoolSource>,
    /// Sent with every call.
    pub headers: Vec<(String, SecretString)>,
    /// Where the key comes from, for messages; never the key itself.
    pub key_source: String,
    /// Longest duration of an attempt, from connecting to the last byte of the answer.
    pub timeout: Duration,
    /// Longest time without a new byte of an answer that is streamed.
    pub idle_timeout: Duration,
    /// How many bad answers a call may get before it fails.
    pub max_retries: usize,
    /// Maximum number of calls in flight; `None` adapts to the server.
    pub num_concurrent: Option<usize>,
    /// Whether TLS certificates are checked.
    pub verify_certificate: bool,
    /// A PEM file of certificates to trust besides those of the system.
    pub ca_cert_path: Option<PathBuf>,
    /// Limit on requests sent per minute.
    pub requests_per_minute: Option<f64>,
    /// Limit on prompt and output tokens per minute.
    pub tokens_per_minute: Option<f64>,
    /// Maximum number of retries in the whole run.
    pub retry_budget: Option<u64>,
    /// How long the server may be down, with no call answered, before calls fail.
    pub patience: Duration,
    /// How often the members of a pool must give the numbers of the first one again; `None` only when they join.
    pub recheck: Option<Duration>,
    /// Upper bound of the first backoff; it doubles with every attempt. Tests shorten it.
    pub retry_wait: Duration,
}

impl ClientSettings {
    /// Default settings for a URL.
    pub fn new(base_url: impl Into<String>) -> Self {
        Self {
            base_urls: vec![base_url.into()],
            pool: None,
            headers: Vec::new(),
            key_source: "the model argument `header`".into(),
            timeout: Duration::from_mins(5),
            idle_timeout: Duration::from_mins(1),
            max_retries: 10,
            num_concurrent: None,
            verify_certificate: true,
            ca_cert_path: None,
            requests_per_minute: None,
            tokens_per_minute: None,
            retry_budget: None,
            patience: Duration::from_mins(5),
            recheck: Some(Duration::from_secs(30)),
            retry_wait: Duration::from_millis(500),
        }
    }

    /// Reads model arguments; the URL and headers passed in are the defaults of `base_url` and `header`.
    ///
    /// ```
    /// use lmeval_models::ModelSettings;
    /// use lmeval_models::http::ClientSettings;
    /// use lmeval_pycompat::Dict;
    ///
    /// let mut args = Dict::new();
    /// args.insert("base_url", "http://one:8000/v1/completions;http://two:8000/v1/completions");
    /// args.insert("num_concurrent", 32);
    /// let settings = ClientSettings::from_model(&ModelSettings::from_args(args), None, Vec::new())?;
    /// assert_eq!(settings.base_urls.len(), 2);
    /// assert_eq!(settings.num_concurrent, Some(32));
    /// # Ok::<(), lmeval_core::ModelError>(())
    /// ```
    pub fn from_model(
        settings: &ModelSettings,
        base_url: Option<&str>,
        headers: Vec<(String, SecretString)>,
    ) -> Result<Self, ModelError> {
        let mut read = Self::new("");
        read.base_urls = base_urls(settings, base_url)?;
        if let Some(pool) = read.base_urls.iter().find_map(|url| PoolSource::parse(url)) {
            let invalid = |problem: String| {
                let message = format!("The model argument `base_url` is not valid: {problem}");
                ModelError::new(ModelErrorKind::Configuration, message)
            };
            if read.base_urls.len() > 1 {
                return Err(invalid("a pool cannot be combined with other addresses".to_owned())
                    .hint("List all servers in the pool file"));
            }
            read.pool = Some(pool.map_err(invalid)?);
            read.base_urls.clear();
        }
        read.headers = headers;
        match settings.get("header") {
            None => read.key_source = "the environment variable of the API key".into(),
            Some(Value::Dict(header)) => read.headers = header_argument(header)?,
            // The value may be a misplaced key, so it is not shown.
            Some(_) => {
                let message = "The model argument `header` must map names to strings";
                return Err(ModelError::new(ModelErrorKind::Configuration, message)
                    .hint("For example: `--model_args '{\"header\": {\"Authorization\": \"Bearer …\"}}'`"));
            }
        }
        read.timeout = duration(settings, "timeout", read.timeout)?;
        if read.timeout.is_zero() {
            return Err(ModelSettings::wrong("timeout", "a number of seconds above 0", &Value::Int(0)));
        }
        read.idle_timeout = duration(settings, "idle_timeout", read.idle_timeout)?;
        if read.idle_timeout.is_zero() {
            return Err(ModelSettings::wrong("idle_timeout", "a number of seconds above 0", &Value::Int(0)));
        }
        read.patience = duration(settings, "patience", read.patience)?;
        read.recheck = Some(duration(settings, "recheck", read.recheck.unwrap_or_default())?);
        read.recheck = read.recheck.filter(|interval| !interval.is_zero());
        read.retry_wait = duration(settings, "retry_wait", read.retry_wait)?;
        read.max_retries = count(settings, "max_retries")?.map_or(read.max_retries, |count| count.max(1));
        // Reference: anything up to 1 sends one request after another.
        read.num_concurrent = count(settings, "num_concurrent")?.map(|count| count.max(1));
        read.retry_budget = count(settings, "retry_budget")?.map(|count| count as u64);
        read.requests_per_minute = rate(settings, "requests_per_minute")?;
        read.tokens_per_minute = rate(settings, "tokens_per_minute")?;
        read.verify_certificate = settings.flag("verify_certificate", true)?;
        read.ca_cert_path = settings.text("ca_cert_path").map(PathBuf::from);
        Ok(read)
    }

    /// Names the key's source, as in "the environment variable `OPENAI_API_KEY`". A key from the argument
    /// `header` keeps its source.
    pub fn key_from(mut self, settings: &ModelSettings, source: impl Into<String>) -> Self {
        self.key_source = match settings.get("header") {
            Some(_) => "the model argument `header`".into(),
            None => source.into(),
        };
        self
    }
}

impl fmt::Debug for ClientSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let base_urls: Vec<String> = self.base_urls.iter().map(|url| public_url(url)).collect();
        let headers: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("ClientSettings")
            .field("base_urls", &base_urls)
            .field("pool", &self.pool)
            .field("headers", &headers)
            .field("timeout", &self.timeout)
            .field("max_retries", &self.max_retries)
            .field("num_concurrent", &self.num_concurrent)
            .finish_non_exhaustive()
    }
}

/// Parses `base_url`: one URL, several separated by `;`, or a list.
fn base_urls(settings: &ModelSettings, default: Option<&str>) -> Result<Vec<String>, ModelError> {
    let split = |text: &str| -> Vec<String> {
        // The name of a pool file may have any character.
        if text.trim_start().starts_with('@') {
            return vec![text.trim().to_owned()];
        }
        let parts = text.split(';').map(str::trim).filter(|part| !part.is_empty());
        parts.map(str::to_owned).collect()
    };
    let expected = "a URL, several separated by `;`, or a list of URLs";
    let found = match settings.get("base_url") {
        None => default.map(split).unwrap_or_default(),
        Some(Value::Str(text)) => split(text),
        Some(Value::List(items) | Value::Tuple(items)) => {
            let mut found = Vec::new();
            for item in items.iter() {
                let Value::Str(text) = item else {
                    return Err(ModelSettings::wrong("base_url", expected, item));
                };
                found.extend(split(text));
            }
            found
        }
        Some(other) => return Err(ModelSettings::wrong("base_url", expected, other)),
    };
    if found.is_empty() {
        let message = "The model needs the argument `base_url`";
        return Err(ModelError::new(ModelErrorKind::Configuration, message)
            .hint("For example: `--model_args base_url=http://localhost:8000/v1/completions`"));
    }
    Ok(found)
}

fn header_argument(header: &Dict) -> Result<Vec<(String, SecretString)>, ModelError> {
    let read = |(name, value): (&Value, &Value)| match (name, value) {
        (Value::Str(name), Value::Str(_) | Value::Int(_) | Value::Float(_)) => {
            Ok((name.to_string(), SecretString::from(repr::str(value))))
        }
        _ => {
            let message =
                format!("The entry `{}` of the model argument `header` must be a string", repr::str(name));
            Err(ModelError::new(ModelErrorKind::Configuration, message))
        }
    };
    header.iter().map(read).collect()
}

fn duration(settings: &ModelSettings, name: &str, default: Duration) -> Result<Duration, ModelError> {
    match settings.number(name)? {
        None => Ok(default),
        Some(seconds) => Duration::try_from_secs_f64(seconds)
            .ok()
            .filter(|duration| *duration <= Duration::from_hours(24 * 365))
            .ok_or_else(|| ModelSettings::wrong(name, "a number of seconds", &Value::Float(seconds))),
    }
}

fn count(settings: &ModelSettings, name: &str) -> Result<Option<usize>, ModelError> {
    let found = settings.integer(name)?;
    found
        .map(|number| {
            usize::try_from(number)
                .map_err(|_| ModelSettings::wrong(name, "a non-negative integer", &Value::Int(number)))
        })
        .transpose()
}

fn rate(settings: &ModelSettings, name: &str) -> Result<Option<f64>, ModelError> {
    match settings.number(name)? {
        Some(number) if !(number.is_finite() && number > 0.0) => {
            Err(ModelSettings::wrong(name, "a number above 0", &Value::Float(number)))
        }
        found => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    use lmeval_pycompat::json;

    use super::*;

    fn read(args: &str) -> Result<ClientSettings, ModelError> {
        let Ok(Value::Dict(args)) = json::loads(args) else { panic!("not a dictionary: {args}") };
        ClientSettings::from_model(
            &ModelSettings::from_args((*args).clone()),
            Some("http://default/v1"),
            Vec::new(),
        )
    }

    #[test]
    fn reads_base_url_in_every_form() {
        assert_eq!(read("{}").unwrap().base_urls, ["http://default/v1"]);
        assert_eq!(
            read(r#"{"base_url": "http://a; http://b;"}"#).unwrap().base_urls,
            ["http://a", "http://b"]
        );
        assert_eq!(
            read(r#"{"base_url": ["http://a", "http://b"]}"#).unwrap().base_urls,
            ["http://a", "http://b"]
        );
        let pool = |text: &str| read(text).unwrap().pool.map(|pool| pool.name());
        assert_eq!(pool(r#"{"base_url": "@some/pool;1.json"}"#).as_deref(), Some("@pool;1.json"));
        assert_eq!(
            pool(r#"{"base_url": "dns+http://models:8000/v1"}"#).as_deref(),
            Some("dns+http://models:8000/v1")
        );
        assert_eq!(pool("{}"), None);
        for wrong in ["http://a;dns+http://b", "@", "dns+https://b"] {
            let error = read(&format!(r#"{{"base_url": "{wrong}"}}"#)).unwrap_err();
            assert!(error.to_string().contains("`base_url`"), "{error}");
        }
        assert_eq!(read(r#"{"base_url": 5}"#).unwrap_err().kind(), ModelErrorKind::Configuration);
        assert_eq!(read(r#"{"base_url": ";"}"#).unwrap_err().kind(), ModelErrorKind::Configuration);
    }

    #[test]
    fn names_the_argument_with_a_wrong_value() {
        for (args, name) in [
            (r#"{"timeout": "long"}"#, "timeout"),
            (r#"{"timeout": -1}"#, "timeout"),
            (r#"{"timeout": 0}"#, "timeout"),
            (r#"{"num_concurrent": "many"}"#, "num_concurrent"),
            (r#"{"max_retries": -1}"#, "max_retries"),
            (r#"{"verify_certificate": "perhaps"}"#, "verify_certificate"),
            (r#"{"requests_per_minute": 0}"#, "requests_per_minute"),
            (r#"{"header": "Bearer sk-secret"}"#, "header"),
            (r#"{"header": {"Authorization": ["sk-secret"]}}"#, "header"),
        ] {
            let error = read(args).expect_err(args);
            assert_eq!(error.kind(), ModelErrorKind::Configuration, "{args}");
            assert!(error.to_string().contains(name), "{args}: {error}");
            assert!(!format!("{error} {error:?}").contains("sk-secret"), "{error:?}");
        }
    }

    #[test]
    fn debug_output_hides_secrets() {
        let settings = read(
            r#"{"header": {"Authorization": "Bearer sk-secret"}, "base_url": "http://me:sk-secret@host/v1?key=sk-secret"}"#,
        );
        let shown = format!("{:?}", settings.unwrap());
        assert!(shown.contains("Authorization") && !shown.contains("sk-secret"), "{shown}");
    }
}

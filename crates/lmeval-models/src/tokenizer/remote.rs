//! A server's own tokenizer, queried over HTTP.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use lmeval_core::{ModelError, ModelErrorKind, ModelTemplate};
use lmeval_pycompat::{Dict, Value, json};
use lmeval_tokenizers::TokenizerTemplate;
use reqwest::Client;
use secrecy::{ExposeSecret, SecretString};

use crate::http::{self, public_url, tls_with};

/// Immediate attempts per call.
const ATTEMPTS: usize = 3;
/// Between attempts of a call on a pool whose members all failed.
const POOL_WAIT: Duration = Duration::from_millis(500);

/// How to reach a server's tokenizer.
#[derive(Clone, Debug)]
pub(crate) struct RemoteSettings {
    /// The base URL without the completions path.
    pub(crate) root: String,
    /// The query of the base URL.
    pub(crate) query: SecretString,
    /// The servers that may answer instead of the first one, as they come and go.
    pub(crate) pool: Option<Arc<http::Client>>,
    pub(crate) timeout: Duration,
    pub(crate) verify_certificate: bool,
    pub(crate) certificate: Option<PathBuf>,
    pub(crate) token: Option<SecretString>,
}

/// The server's root URL: `base_url` without the completions path.
pub(crate) fn server_root(base_url: &str) -> String {
    // The query belongs to the completions URL and may hold a key.
    let path = base_url.split(['?', '#']).next().unwrap_or_default();
    let root = path.replace("/v1/completions", "").replace("/v1/chat/completions", "");
    let root = root.trim_end_matches('/');
    // SGLang's native API.
    root.strip_suffix("/generate").unwrap_or(root).trim_end_matches('/').to_owned()
}

/// The query of `base_url`, including its `?`. It is sent to other paths too, since it may hold the key.
pub(crate) fn server_query(base_url: &str) -> &str {
    let url = base_url.split('#').next().unwrap_or_default();
    url.find('?').map_or("", |offset| &url[offset..])
}

#[derive(Debug)]
pub(crate) struct RemoteTokenizer {
    settings: RemoteSettings,
    client: Client,
    info: Dict,
    pub(crate) begin: Option<u32>,
    pub(crate) end: Option<u32>,
}

impl RemoteSettings {
    fn client(&self) -> Result<Client, ModelError> {
        let mut builder = lmeval_net::http_client().timeout(self.timeout);
        if !self.verify_certificate {
            builder = builder.danger_accept_invalid_certs(true);
        } else if let Some(path) = &self.certificate {
            builder = builder.tls_backend_preconfigured(tls_with(path)?);
        }
        builder.build().map_err(|error| failed(&self.root, &error.to_string()))
    }

    /// Whether connections to the server fail.
    pub(crate) async fn is_down(&self) -> bool {
        let quick = Self { timeout: Duration::from_secs(5), ..self.clone() };
        let Ok(client) = quick.client() else { return false };
        client.get(&self.root).send().await.is_err_and(|error| error.is_connect())
    }

    /// Whether the server exposes its tokenizer.
    pub(crate) async fn is_offered(&self) -> bool {
        let quick = Self { timeout: Duration::from_secs(5), ..self.clone() };
        let Ok(client) = quick.client() else { return false };
        let Ok(info) = quick.call(&client, "/tokenizer_info", None).await else { return false };
        info.contains_str("eos_token") && quick.encode(&client, "test").await.is_ok()
    }

    /// Fetches the tokenizer's metadata.
    pub(crate) async fn connect(self) -> Result<RemoteTokenizer, ModelError> {
        let client = self.client()?;
        let info = self.call(&client, "/tokenizer_info", None).await?;
        let mut ids = [None, None];
        for (id, name) in ids.iter_mut().zip(["bos_token", "eos_token"]) {
            if let Some(text) = info.get_str(name).and_then(Value::as_str) {
                *id = self.encode(&client, text).await?.first().copied();
            }
        }
        // Connections die with the runtime they were opened on, so later calls need a new client.
        let client = self.client()?;
        let [begin, end] = ids;
        Ok(RemoteTokenizer { settings: self, client, info, begin, end })
    }

    async fn encode(&self, client: &Client, text: &str) -> Result<Vec<u32>, ModelError> {
        let body = Value::dict([("prompt", Value::str(text)), ("add_special_tokens", Value::Bool(false))]);
        let answer = self.call(client, "/tokenize", Some(&body)).await?;
        let tokens = answer.get_str("tokens").and_then(Value::as_list).and_then(|tokens| {
            tokens.iter().map(|token| token.as_i64().and_then(|id| u32::try_from(id).ok())).collect()
        });
        tokens.ok_or_else(|| failed(&self.root, "`/tokenize` returned no list `tokens`"))
    }

    /// Calls the server; one of a pool after the other, for as long as calls on the model are repeated.
    async fn call(&self, client: &Client, path: &str, body: Option<&Value>) -> Result<Dict, ModelError> {
        /// Spreads calls over the members.
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let Some(pool) = &self.pool else {
            let found = self.call_one(client, &self.root, self.query.expose_secret(), path, body).await;
            return found.map_err(|(error, _)| error);
        };
        let begun = Instant::now();
        loop {
            let (members, is_examined) = pool.serving_or_listed()?;
            let (mut failure, mut is_up) = (None, false);
            let start = if is_examined { NEXT.fetch_add(1, Ordering::Relaxed) } else { 0 };
            for step in 0..members.len() {
                let url = &members[(start + step) % members.len()].given;
                let (root, query) = (server_root(url), server_query(url));
                match self.call_one(client, &root, query, path, body).await {
                    Ok(found) => return Ok(found),
                    Err((error, is_down)) => {
                        failure = Some(error);
                        is_up |= !is_down;
                    }
                }
            }
            if is_up || begun.elapsed() >= pool.patience() {
                return Err(failure.unwrap_or_else(|| failed(&self.root, "the pool has no server")));
            }
            tokio::time::sleep(POOL_WAIT).await;
        }
    }

    /// Calls one server. The error has whether it cannot be reached.
    async fn call_one(
        &self,
        client: &Client,
        root: &str,
        query: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Dict, (ModelError, bool)> {
        let url = format!("{root}{path}{query}");
        let body = match body {
            None => None,
            Some(body) => Some(
                json::dumps(body, &json::Options::default())
                    .map_err(|error| (failed(root, &error.to_string()), false))?,
            ),
        };
        let (mut problem, mut is_down) = (String::new(), false);
        for _ in 0..ATTEMPTS {
            let mut request = match &body {
                None => client.get(&url),
                Some(body) => client.post(&url).body(body.clone()),
            };
            request = request.header("Content-Type", "application/json");
            if let Some(token) = &self.token {
                request = request.bearer_auth(token.expose_secret());
            }
            let answer = match request.send().await.and_then(reqwest::Response::error_for_status) {
                Ok(answer) => answer.text().await,
                Err(error) => Err(error),
            };
            match answer {
                Err(error) => {
                    is_down = error.status().is_none_or(|status| status.is_server_error());
                    problem = error.without_url().to_string();
                }
                Ok(text) => match json::loads(&text) {
                    Ok(Value::Dict(dict)) => return Ok(dict.as_ref().clone()),
                    _ => problem = format!("`{path}` did not return a JSON object"),
                },
            }
        }
        Err((failed(root, &problem), is_down))
    }
}

fn failed(root: &str, problem: &str) -> ModelError {
    ModelError::new(
        ModelErrorKind::Configuration,
        format!("The tokenizer of the server `{}` cannot be used: {problem}", public_url(root)),
    )
    .hint(
        "The server must provide `/tokenizer_info` (vLLM: `--enable-tokenizer-info-endpoint`) and `/tokenize`",
    )
    .hint("Otherwise use `tokenizer_backend=huggingface` and `tokenizer=<name or folder>`")
}

impl RemoteTokenizer {
    /// Tokenizes a string.
    pub(crate) async fn encode(&self, text: &str) -> Result<Vec<u32>, ModelError> {
        self.settings.encode(&self.client, text).await
    }

    /// Detokenizes.
    pub(crate) async fn decode(&self, tokens: &[u32]) -> Result<String, ModelError> {
        let tokens = Value::list(tokens.iter().map(|&token| Value::Int(token.into())));
        let body = Value::dict([("tokens", tokens)]);
        let answer = self.settings.call(&self.client, "/detokenize", Some(&body)).await?;
        let text = answer.get_str("prompt").and_then(Value::as_str).map(str::to_owned);
        text.ok_or_else(|| failed(&self.settings.root, "`/detokenize` returned no string `prompt`"))
    }

    /// The EOS token as a string.
    pub(crate) fn end_text(&self) -> Option<&str> {
        self.info.get_str("eos_token").and_then(Value::as_str)
    }

    /// The tokenizer class that the server reports, for the model's identity.
    pub(crate) fn name(&self) -> String {
        let class = self.info.get_str("tokenizer_class").and_then(Value::as_str);
        class.unwrap_or("unnamed").to_owned()
    }

    /// The server's chat template, rendered locally.
    pub(crate) fn chat_template(&self) -> Result<ModelTemplate, ModelError> {
        let Some(source) = self.info.get_str("chat_template").and_then(Value::as_str) else {
            let message = format!("The server `{}` has no chat template", self.settings.root);
            return Err(ModelError::new(ModelErrorKind::Configuration, message)
                .hint("Drop `--apply_chat_template` for models without one"));
        };
        let tokens = self.info.iter().filter(|(name, value)| {
            name.as_str().is_some_and(|name| name.ends_with("_token")) && value.as_str().is_some()
        });
        let tokens: Dict = tokens.map(|(name, value)| (name.clone(), value.clone())).collect();
        // Reference: the source is recorded as unknown, because the template is the server's.
        let template = TokenizerTemplate::from_server(source, tokens)?;
        Ok(ModelTemplate { source: None, ..template.into_model_template() })
    }
}

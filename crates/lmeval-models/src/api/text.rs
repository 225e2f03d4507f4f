//! Models for APIs that take one prompt string per call, and no tokens.

use std::fmt::{self, Debug};
use std::sync::Arc;

use bytes::Bytes;
use lmeval_core::{
    Answer, Arguments, Context, Finish, Model, ModelError, ModelErrorKind, ModelFuture, ModelIdentity,
    ModelRequest, ModelSettings, ModelStats, ModelTraits, RequestType, Response,
};
use lmeval_pycompat::{Dict, Value};

use super::answer::{parse, usage};
use super::arguments::{Credentials, no_base_url, refuse_pool, warn_of_unknown};
use super::identity::ServerIdentity;
use super::model::body_text;
use crate::http::{BadAnswer, Call, Client, ClientSettings};

/// A parsed answer.
#[derive(Debug)]
pub(super) struct TextAnswer {
    pub(super) response: Response,
    pub(super) finish: Finish,
}

/// A server that takes one prompt string per call.
pub(super) trait TextProtocol: Debug + Send + Sync {
    /// The model name, if the server has several.
    fn model(&self) -> Option<&str>;

    /// Whether the server can answer requests of this kind.
    fn supports(&self, kind: RequestType) -> Result<(), ModelError>;

    /// The path to append to the base URL, and the body.
    fn call(&self, arguments: &Arguments) -> Result<(String, Dict), ModelError>;

    /// Parses an answer.
    fn read(&self, answer: &Value, arguments: &Arguments) -> Result<TextAnswer, BadAnswer>;
}

/// The string of a context; chat messages are an error.
pub(super) fn plain(context: &Context) -> Result<&str, ModelError> {
    context.as_text().map(AsRef::as_ref).ok_or_else(|| {
        ModelError::new(
            ModelErrorKind::Unsupported,
            "The model needs a plain string, but the prompt is chat messages",
        )
        .hint("Drop `--apply_chat_template`")
    })
}

/// A backend with one prompt string per call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TextBackend {
    pub(super) name: &'static str,
    pub(super) base_url: Option<&'static str>,
    /// How the server authenticates requests; `None` sends no header.
    pub(super) credentials: Option<Credentials>,
    pub(super) is_hosted: bool,
    pub(super) make: fn(&ModelSettings) -> Result<Box<dyn TextProtocol>, ModelError>,
}

impl TextBackend {
    pub(crate) fn create(&self, settings: &ModelSettings) -> Result<Arc<dyn Model>, ModelError> {
        if settings.get("base_url").is_none() && self.base_url.is_none() {
            return Err(no_base_url(self.name));
        }
        let protocol = (self.make)(settings)?;
        let mut client_settings = match self.credentials {
            Some(credentials) => credentials.client_settings(settings, self.base_url)?,
            None => ClientSettings::from_model(settings, self.base_url, Vec::new())?,
        };
        refuse_pool(self.name, &client_settings)?;
        for url in &mut client_settings.base_urls {
            url.truncate(url.trim_end_matches('/').len());
        }
        let base_url = client_settings.base_urls.first().cloned().unwrap_or_default();
        let client = Client::new(client_settings)?;
        let (path, body) =
            protocol.call(&Arguments::Generate { context: "Hello".into(), kwargs: Arc::default() })?;
        client.set_trial(path, body_text(body)?.into());
        let (is_hosted, model_id) = (self.is_hosted, settings.text("model_id"));
        warn_of_unknown(self.name, settings, client.stats());
        Ok(Arc::new(TextModel { backend: self.name, protocol, client, base_url, is_hosted, model_id }))
    }
}

struct TextModel {
    backend: &'static str,
    protocol: Box<dyn TextProtocol>,
    client: Client,
    base_url: String,
    is_hosted: bool,
    model_id: Option<String>,
}

impl Debug for TextModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TextModel").field("protocol", &self.protocol).finish_non_exhaustive()
    }
}

impl TextModel {
    fn server(&self) -> ServerIdentity<'_> {
        let Self { client, base_url, is_hosted, model_id, .. } = self;
        let (model, model_id) = (self.protocol.model(), model_id.as_deref());
        ServerIdentity { client, base_url, pool: None, model, model_id, is_hosted: *is_hosted }
    }

    async fn one(&self, request: &ModelRequest) -> Result<Answer, ModelError> {
        let (path, body) = self.protocol.call(&request.arguments)?;
        let body = body_text(body)?;
        let tokens = body.len() as u64 / 4;
        let scores = request.request_type() != RequestType::GenerateUntil;
        let about = request.describe();
        let call = Call { path: &path, body: Bytes::from(body), about: &about, tokens, scores };
        let read = |bytes: &[u8]| {
            let answer = parse(bytes)?;
            let found = self.protocol.read(&answer, &request.arguments)?;
            Ok(Answer { finish: found.finish, ..Answer::new(found.response, usage(&answer)) })
        };
        self.client.post(call, read).await
    }
}

impl Model for TextModel {
    fn identity(&self) -> ModelFuture<'_, Result<ModelIdentity, ModelError>> {
        Box::pin(async {
            let name = self.protocol.model().map(|model| ("model", model.to_owned()));
            let facts = name.into_iter().chain(self.server().facts().await?).collect();
            Ok(ModelIdentity { backend: self.backend.into(), facts })
        })
    }

    fn known_identity(&self) -> Option<ModelIdentity> {
        let server = self.server();
        let name = self.protocol.model().map(|model| ("model", model.to_owned()));
        let facts = name.into_iter().chain([server.known()]).collect();
        server.is_asked().then(|| ModelIdentity { backend: self.backend.into(), facts })
    }

    fn supports(&self, kind: RequestType) -> Result<(), ModelError> {
        self.protocol.supports(kind)
    }

    fn traits(&self) -> ModelTraits {
        ModelTraits { batch_size: 1, in_flight: self.client.most_in_flight(), ..ModelTraits::default() }
    }

    fn wind_down(&self) {
        self.client.wind_down();
    }

    fn stats(&self) -> Option<&ModelStats> {
        Some(self.client.stats())
    }

    fn answer(&self, requests: Vec<ModelRequest>) -> ModelFuture<'_, Vec<Result<Answer, ModelError>>> {
        Box::pin(async move {
            let mut answers = Vec::with_capacity(requests.len());
            for request in &requests {
                answers.push(self.one(request).await);
            }
            answers
        })
    }
}

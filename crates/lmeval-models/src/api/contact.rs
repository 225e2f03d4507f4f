//! The first contact with a server.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use lmeval_core::{Diagnose as _, ModelError, ModelErrorKind};
use lmeval_pycompat::{Dict, Value};
use tokio::time::Instant;

use super::answer::parse;
use super::model::{ApiModel, Parts, body_text};
use super::protocol::{Prompt, Protocol, Rules};
use crate::http::{Call, Client, MemberView, models_url, public_url};

/// The time limit of one query.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Between attempts to reach a server.
const WAIT: Duration = Duration::from_secs(1);
/// A query that takes longer is reported.
const SILENCE: Duration = Duration::from_millis(1500);

/// A server's model list.
#[derive(Clone, Debug, Default)]
pub(super) struct Listed {
    /// The names of its models.
    pub(super) names: Vec<String>,
    /// `owned_by` of the model: often the name of the server software.
    pub(super) owner: Option<String>,
    /// `root` of the model: the path or name of its weights.
    pub(super) root: Option<String>,
    /// The longest prompt and answer together, in tokens.
    pub(super) max_length: Option<i64>,
    /// The reason why the model list could not be read.
    pub(super) problem: Option<ModelError>,
}

impl Listed {
    fn without(problem: ModelError) -> Self {
        Self { problem: Some(problem), ..Self::default() }
    }

    /// The list in the answer of a server.
    fn read(bytes: &[u8], model: Option<&str>) -> Self {
        match parse(bytes) {
            Ok(answer) => listed(&answer, model),
            Err(_) => Self::without(ModelError::new(ModelErrorKind::Answer, not_json(bytes))),
        }
    }
}

/// What an answer is if it is not JSON.
pub(super) fn not_json(bytes: &[u8]) -> &'static str {
    match bytes.trim_ascii_start().first() {
        Some(b'<') => "an HTML page",
        Some(_) => "text that is not JSON",
        None => "an empty answer",
    }
}

/// Waits for a server that is down, and says so.
pub(super) struct Wait<'a> {
    client: &'a Client,
    start: Instant,
}

impl<'a> Wait<'a> {
    pub(super) fn new(client: &'a Client) -> Self {
        Self { client, start: Instant::now() }
    }

    /// Sends a GET once; reports a server that takes its time.
    pub(super) async fn get(&self, url: &str) -> Result<Bytes, ModelError> {
        self.report_silence(&public_url(url), self.client.get_in(url, TIMEOUT, 1)).await
    }

    /// Waits for an answer from `asked`; reports one that takes its time.
    pub(super) async fn report_silence<T>(&self, asked: &str, answer: impl Future<Output = T>) -> T {
        tokio::pin!(answer);
        tokio::select! {
            found = &mut answer => return found,
            () = tokio::time::sleep(SILENCE) => {}
        }
        self.report(&format!("No answer yet from `{asked}`"));
        answer.await
    }

    /// After a failure: waits for the next attempt, or returns the error if there is none.
    pub(super) async fn again(&self, error: ModelError) -> Result<(), ModelError> {
        if self.start.elapsed() >= self.client.patience() {
            self.done();
            return Err(error);
        }
        self.report(&error.to_string());
        tokio::time::sleep(WAIT).await;
        Ok(())
    }

    fn report(&self, reason: &str) {
        self.client.stats().wait_for(Some(waiting(self.client, reason)));
    }

    /// The server has answered, or is given up.
    pub(super) fn done(&self) {
        self.client.stats().wait_for(None);
    }
}

/// The line for a run that waits.
pub(super) fn waiting(client: &Client, reason: &str) -> String {
    let left = client.patience().as_secs();
    format!("Waiting for the server: {reason}; retrying for up to {}:{:02}", left / 60, left % 60)
}

/// The entry for the model in the list of each server. `None` for one that cannot be reached; at least one is waited for.
pub(super) async fn list_models(
    client: &Client,
    model: Option<&str>,
) -> Result<Vec<(MemberView, Option<Listed>)>, ModelError> {
    let wait = Wait::new(client);
    loop {
        let mut lists = Vec::new();
        let mut failure = None;
        for member in client.serving() {
            let listed = match wait.get(models_url(&member.url).as_str()).await {
                Ok(bytes) => Some(Listed::read(&bytes, model)),
                Err(error) if error.kind() == ModelErrorKind::Unreachable => {
                    failure = Some(error);
                    None
                }
                Err(error) => Some(Listed::without(error)),
            };
            lists.push((member, listed));
        }
        match failure {
            Some(error) if lists.iter().all(|(_, listed)| listed.is_none()) => wait.again(error).await?,
            _ => {
                wait.done();
                return Ok(lists);
            }
        }
    }
}

fn listed(answer: &Value, model: Option<&str>) -> Listed {
    let entries = answer.as_dict().and_then(|answer| answer.get_str("data")).and_then(Value::as_list);
    let entries: Vec<&Dict> = entries.unwrap_or_default().iter().filter_map(Value::as_dict).collect();
    let text = |entry: &Dict, name: &str| entry.get_str(name).and_then(Value::as_str).map(str::to_owned);
    let named = entries.iter().find(|entry| model.is_some() && text(entry, "id").as_deref() == model);
    let entry = named.or_else(|| entries.first());
    Listed {
        names: entries.iter().filter_map(|entry| text(entry, "id")).collect(),
        owner: entry.and_then(|entry| text(entry, "owned_by")),
        root: entry.and_then(|entry| text(entry, "root")),
        max_length: entry.and_then(|entry| entry.get_str("max_model_len")?.as_i64()),
        problem: None,
    }
}

/// Server software that refuses names it does not list.
const STRICT: [&str; 3] = ["vllm", "sglang", "library"];

/// Server software that continues the last message of a conversation if it is asked to, and ignores fields that it does not know.
const EXTENDED: [&str; 2] = ["vllm", "sglang"];

impl ApiModel {
    /// Waits for the server. Fails for mistakes that every request would repeat: a wrong path, or a model that the
    /// server does not have.
    pub(super) async fn meet(&self) -> Result<(), ModelError> {
        let Parts { client, rules, is_hosted, keeper, .. } = &self.parts;
        if *is_hosted {
            return Ok(());
        }
        keeper.first_contact().await?;
        let lists = list_models(client, rules.model.as_deref()).await?;
        let listed = lists.into_iter().find_map(|(_, listed)| listed).unwrap_or_default();
        if listed.owner.as_deref().is_some_and(|owner| EXTENDED.contains(&owner)) {
            self.parts.is_extended.store(true, Ordering::Relaxed);
        }
        let is_named = rules.model.as_ref().is_some_and(|model| listed.names.contains(model));
        let is_strict = listed.owner.as_deref().is_some_and(|owner| STRICT.contains(&owner));
        let needs_name = rules.model.is_none() && self.parts.protocol.needs_model_name();
        let is_doubtful =
            needs_name || (!is_named && !listed.names.is_empty() && (is_strict || listed.names.len() > 1));
        if !is_doubtful && has_usual_path(&client.first_url()) {
            return Ok(());
        }
        let error = match self.try_once().await {
            Err(error) if error.kind() == ModelErrorKind::Request => error,
            // Other failures may pass, or are reported with the request that meets them.
            _ => return Ok(()),
        };
        Err(self.explain_refusal(&error, &listed))
    }

    /// The error of a server that refuses every request, with what its model list says about the cause.
    pub(super) fn explain_refusal(&self, error: &ModelError, listed: &Listed) -> ModelError {
        let model = self.parts.rules.model.as_ref();
        let mut found = ModelError::new(ModelErrorKind::Configuration, error.to_string());
        for hint in error.hints() {
            found = found.hint(hint);
        }
        if !listed.names.is_empty() && model.is_none_or(|model| !listed.names.contains(model)) {
            let names: Vec<String> = listed.names.iter().take(10).map(|name| format!("`{name}`")).collect();
            found = found.hint(format!("The server lists {}: set `model` to one of them", names.join(", ")));
        } else if model.is_none() && self.parts.protocol.needs_model_name() {
            found = found
                .hint("The model argument `model` is missing: set it to the name of the model on the server");
        }
        found
    }

    /// Requests one token.
    pub(super) async fn try_once(&self) -> Result<(), ModelError> {
        let body = trial_body(&*self.parts.protocol, &self.parts.rules)?;
        let call = Call { path: "", body, about: "a test request", tokens: 8, scores: false };
        let read = |bytes: &[u8]| parse(bytes).map(drop);
        self.parts.client.post(call, read).await
    }
}

/// The body of a request for one token.
pub(super) fn trial_body(protocol: &dyn Protocol, rules: &Rules) -> Result<Bytes, ModelError> {
    let mut settings = Dict::new();
    settings.insert("max_gen_toks", 1);
    settings.insert("until", Value::list([]));
    let prompt = if protocol.is_chat() {
        let message = Value::dict([("role", Value::str("user")), ("content", Value::str("Hello"))]);
        Prompt::Messages(Value::list([message]))
    } else {
        Prompt::Text("Hello".into())
    };
    Ok(body_text(protocol.generation(&prompt, settings, rules)?)?.into())
}

/// Whether a URL ends like that of a model endpoint.
fn has_usual_path(base_url: &str) -> bool {
    let path = base_url.split(['?', '#']).next().unwrap_or_default().trim_end_matches('/');
    ["/completions", "/messages", "/responses", "/generate"].iter().any(|end| path.ends_with(end))
}

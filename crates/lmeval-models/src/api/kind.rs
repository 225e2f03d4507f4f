//! Finds out what kind of server answers, for `lm-eval doctor`.

use bytes::Bytes;
use lmeval_core::{Check, ModelError, ModelErrorKind, ModelFuture};
use lmeval_pycompat::{Dict, Value};

use super::answer::parse;
use super::contact::{Listed, not_json, trial_body};
use super::examine::{LIMIT, failed};
use super::model::{ApiModel, body_text};
use super::scoring::together;
use crate::http::{BadAnswer, server_path};

/// The usual APIs of model servers: path, name and backend.
const APIS: [(&str, &str, &str); 2] = [
    ("/v1/completions", "completions", "local-completions"),
    ("/v1/chat/completions", "chat completions", "local-chat-completions"),
];

impl ApiModel {
    /// Says what the server is. `Err` if no other check makes sense.
    pub(super) async fn check_kind(&self, listed: &Listed) -> Result<Check, Check> {
        let software = software(listed);
        let error = match self.try_base_url().await {
            Ok(()) => {
                let own = if self.parts.protocol.is_chat() { "chat completions" } else { "completions" };
                return Ok(Check::good("server", format!("{software}; answers {own}")));
            }
            Err(error) if error.kind() == ModelErrorKind::Authentication => {
                return Err(failed("server", &error));
            }
            Err(error) => error,
        };
        let root = self.root();
        if let Some((path, api, back_end)) = self.answering_api().await {
            let detail =
                format!("{software}; answers {api}, but not `{}`: {error}", self.parts.client.shown_url());
            let advice = format!("Use `--model {back_end} --model_args base_url={root}{path}`");
            return Err(Check::bad("server", detail).advise(advice));
        }
        if listed.names.is_empty() && error.kind() != ModelErrorKind::Unreachable {
            let paths = APIS.map(|(path, ..)| format!("`{root}{path}`")).join(" or ");
            let check = Check::bad("contact", format!("not a model server: {error}"));
            return Err(check.advise(format!("Check `base_url`: it is usually {paths}")));
        }
        Err(failed("request", &self.explain_refusal(&error, listed)))
    }

    /// Requests one token from the base URL, without retries.
    async fn try_base_url(&self) -> Result<(), ModelError> {
        let body = trial_body(&*self.parts.protocol, &self.parts.rules)?;
        let answer = self.parts.client.post_once(None, body, LIMIT).await?;
        let wrong = |problem: String| ModelError::new(ModelErrorKind::Answer, problem);
        let answer = parse(&answer).map_err(|_| {
            wrong(format!("`{}` answers with {}", self.parts.client.shown_url(), not_json(&answer)))
        })?;
        match self.parts.protocol.read_generations(&answer, &self.parts.rules) {
            Ok(_) => Ok(()),
            Err(BadAnswer::Retry(problem)) => Err(wrong(problem)),
            Err(BadAnswer::Fatal(error) | BadAnswer::Incapable(error) | BadAnswer::Final(error)) => {
                Err(error)
            }
        }
    }

    /// The first of the usual APIs that answers a request for one token.
    async fn answering_api(&self) -> Option<(&'static str, &'static str, &'static str)> {
        let own = self.parts.client.first_url();
        let own = own.split(['?', '#']).next().unwrap_or_default().trim_end_matches('/');
        let others: Vec<_> = APIS.iter().filter(|(path, ..)| !own.ends_with(path)).copied().collect();
        let tries = others.iter().map(|(path, ..)| Box::pin(self.answers_at(path)) as ModelFuture<'_, bool>);
        let answers = together(tries.collect()).await;
        others.into_iter().zip(answers).find_map(|(api, answers)| answers.then_some(api))
    }

    /// Whether a path answers a request for one token.
    async fn answers_at(&self, path: &str) -> bool {
        let mut body = Dict::new();
        body.insert("model", self.parts.rules.model_value());
        body.insert("max_tokens", 1);
        if path.ends_with("/chat/completions") {
            let message = Value::dict([("role", Value::str("user")), ("content", Value::str("Hello"))]);
            body.insert("messages", Value::list([message]));
        } else {
            body.insert("prompt", "Hello");
        }
        let Ok(body) = body_text(body) else { return false };
        let answer = self.parts.client.post_once(Some(path), Bytes::from(body), LIMIT).await;
        let answer = answer.ok().and_then(|answer| parse(&answer).ok());
        let choices = answer.as_ref().and_then(Value::as_dict).and_then(|answer| answer.get_str("choices"));
        choices.and_then(Value::as_list).is_some_and(|choices| !choices.is_empty())
    }

    /// The address of the server without a path of its API.
    fn root(&self) -> String {
        let shown = self.parts.client.shown_url();
        let url = shown.split(['?', '#']).next().unwrap_or_default();
        server_path(url).to_owned()
    }
}

/// The name of the server's software, from its model list.
fn software(listed: &Listed) -> String {
    match listed.owner.as_deref() {
        Some("vllm") => "vLLM".to_owned(),
        Some("sglang") => "SGLang".to_owned(),
        Some("llamacpp") => "llama.cpp".to_owned(),
        Some("library") => "Ollama".to_owned(),
        Some(owner) => format!("a server with models of `{owner}`"),
        None if listed.names.is_empty() => "a server that does not list its models".to_owned(),
        None => "a server that lists its models".to_owned(),
    }
}

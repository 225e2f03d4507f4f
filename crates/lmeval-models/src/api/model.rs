//! The model of servers that take tokens or strings in batches, or chat messages.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use lmeval_core::{
    Answer, Arguments, CheckSink, DistributionSink, Kept, Model, ModelError, ModelErrorKind, ModelFacts,
    ModelFuture, ModelIdentity, ModelRequest, ModelStats, ModelTemplate, ModelTraits, OptionScoring,
    RemoteTemplate, RequestType, SCORING_FACT,
};
use lmeval_pycompat::{Dict, Value, json};

use super::answer::unusable;
use super::completions::needs_tokenizer;
use super::identity::{Fact, ServerIdentity};
use super::letters::TopLogprobs;
use super::media::MediaRules;
use super::pool::Keeper;
use super::protocol::{Prompt, Protocol, Rules};
use super::scoring::Planner;
use super::stream::Streams;
use super::template::JsonTemplate;
use crate::http::Client;
use crate::tokenizer::{Encoder, Tokenizer};

/// Everything an [`ApiModel`] is built from.
pub(super) struct Parts {
    pub(super) backend: &'static str,
    pub(super) protocol: Box<dyn Protocol>,
    pub(super) rules: Rules,
    pub(super) encoder: Option<Encoder>,
    pub(super) client: Arc<Client>,
    /// Examines the servers that join.
    pub(super) keeper: Arc<Keeper>,
    /// Whether prompts are sent as tokens instead of strings.
    pub(super) tokenized: bool,
    /// The prompt limit in tokens.
    pub(super) longest: AtomicUsize,
    pub(super) batch_size: usize,
    pub(super) media: MediaRules,
    /// How many likely tokens to request for the letters of options.
    pub(super) top_logprobs: TopLogprobs,
    /// Whether the server has refused a request's optional fields.
    pub(super) refuses_fields: AtomicBool,
    /// Which generations are streamed.
    pub(super) streams: Streams,
    /// Whether the server has refused to stream.
    pub(super) refuses_streams: AtomicBool,
    /// Whether the server is vLLM or SGLang, which continue the last message of a conversation, and may return tokens.
    pub(super) is_extended: AtomicBool,
    pub(super) is_hosted: bool,
    /// The name under which answers are saved, wherever the model is served.
    pub(super) model_id: Option<String>,
    /// Whether the tokenizer was named separately from the model.
    pub(super) is_tokenizer_named: bool,
    /// Arguments that change answers, as given.
    pub(super) given: Vec<(&'static str, String)>,
}

impl Parts {
    /// The prompt limit in tokens.
    pub(super) fn longest(&self) -> usize {
        self.longest.load(Ordering::Relaxed)
    }
}

/// A model served over HTTP.
pub(crate) struct ApiModel {
    pub(super) parts: Parts,
    pub(super) planner: Planner,
    /// The model itself, for examinations that run beside its calls.
    pub(super) this: Weak<ApiModel>,
}

impl fmt::Debug for ApiModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiModel")
            .field("backend", &self.parts.backend)
            .field("model", &self.parts.rules.model)
            .field("given", &self.parts.given)
            .finish_non_exhaustive()
    }
}

/// Serializes a body like Python's `json.dumps`.
pub(super) fn body_text(body: Dict) -> Result<String, ModelError> {
    let options = json::Options { allow_nan: false, ..json::Options::default() };
    json::dumps(&Value::Dict(Arc::new(body)), &options).map_err(|error| {
        ModelError::new(ModelErrorKind::Request, format!("The generation settings cannot be sent: {error}"))
    })
}

impl ApiModel {
    /// The facts of the identity that are settings.
    pub(super) fn settings(&self) -> Vec<Fact> {
        let Parts { rules, encoder, .. } = &self.parts;
        let mut facts = Vec::new();
        facts.extend(rules.model.clone().map(|model| ("model", model)));
        facts.push(("tokenizer", encoder.as_ref().map_or_else(|| "none".into(), Encoder::describe)));
        facts.push(("max_length", (self.parts.longest() + 1).to_string()));
        facts.push(("max_gen_toks", rules.max_gen_toks.to_string()));
        facts.push(("seed", rules.seed.to_string()));
        facts.push(("tokenized_requests", self.parts.tokenized.to_string()));
        facts.push(("dialect", rules.dialect.name.into()));
        facts.extend(self.parts.given.iter().cloned());
        facts
    }

    fn server<'a>(&'a self, base_url: &'a str) -> ServerIdentity<'a> {
        let Parts { client, keeper, rules, model_id, is_hosted, .. } = &self.parts;
        let (model, model_id) = (rules.model.as_deref(), model_id.as_deref());
        let pool = client.is_pool().then_some(&**keeper);
        ServerIdentity { client, base_url, pool, model, model_id, is_hosted: *is_hosted }
    }

    /// Whether the server can answer requests of this kind, given a tokenizer.
    pub(super) fn serves(&self, kind: RequestType) -> Result<(), ModelError> {
        if kind == RequestType::Loglikelihood && self.scores_chat() {
            return Ok(());
        }
        self.parts.protocol.supports(kind, &self.parts.rules, self.parts.tokenized)
    }

    pub(super) fn encoder(&self, kind: RequestType) -> Result<&Encoder, ModelError> {
        self.parts.encoder.as_ref().ok_or_else(|| needs_tokenizer(kind))
    }

    /// Prompts as servers expect them: a single one is sent without a list if batches never have more.
    pub(super) fn text_prompt(&self, mut texts: Vec<Arc<str>>) -> Prompt {
        match texts.pop() {
            Some(text) if self.parts.batch_size <= 1 && texts.is_empty() => Prompt::Text(text),
            last => Prompt::Texts(texts.into_iter().chain(last).collect()),
        }
    }

    async fn answer_all(&self, requests: &[ModelRequest]) -> Vec<Result<Answer, ModelError>> {
        let mut answers: Vec<Option<Result<Answer, ModelError>>> = vec![None; requests.len()];
        self.answer_loglikelihoods(requests, &mut answers).await;
        for (request, answer) in requests.iter().zip(&mut answers) {
            if let Arguments::Rolling { text } = &request.arguments {
                *answer = Some(self.roll(request, text).await);
            }
        }
        self.answer_generations(requests, &mut answers).await;
        self.answer_letters(requests, &mut answers).await;
        let none = || Err(unusable("The request was not answered"));
        answers.into_iter().map(|answer| answer.unwrap_or_else(none)).collect()
    }
}

impl Model for ApiModel {
    fn identity(&self) -> ModelFuture<'_, Result<ModelIdentity, ModelError>> {
        Box::pin(async {
            let mut facts = self.settings();
            facts.extend(self.server(&self.parts.client.first_url()).facts().await?);
            Ok(ModelIdentity { backend: self.parts.backend.into(), facts })
        })
    }

    fn known_identity(&self) -> Option<ModelIdentity> {
        // With a `model_id`, the server is still asked for its scoring protocol.
        (!self.parts.is_hosted).then(|| ModelIdentity {
            backend: self.parts.backend.into(),
            facts: self.settings().into_iter().chain([self.server("").known()]).collect(),
        })
    }

    fn assume(&self, fact: &dyn Fn(&str) -> Option<String>) {
        self.planner.assume(fact(SCORING_FACT));
    }

    fn examine(&self, report: CheckSink) -> ModelFuture<'_, ()> {
        Box::pin(self.examine_server(report))
    }

    fn first_contact(&self) -> ModelFuture<'_, Result<(), ModelError>> {
        Box::pin(self.meet())
    }

    fn scoring_protocol(&self) -> ModelFuture<'_, Result<Option<String>, ModelError>> {
        Box::pin(self.settle_scoring())
    }

    fn may_score_by(&self, protocol: Option<&str>) -> bool {
        match self.known_to_echo() {
            Some(_) => protocol.is_none(),
            None => self.planner.may_score_by(protocol),
        }
    }

    fn conclude(&self) -> ModelFuture<'_, Result<(), ModelError>> {
        Box::pin(self.finish_metrics())
    }

    fn batches_contexts(&self) -> bool {
        self.planner.active().is_some()
    }

    fn supports(&self, kind: RequestType) -> Result<(), ModelError> {
        self.serves(kind)?;
        if !matches!(kind, RequestType::GenerateUntil | RequestType::ChoiceLetters) {
            self.encoder(kind)?;
        }
        Ok(())
    }

    fn chat_template(&self, name: Option<&str>) -> Result<ModelTemplate, ModelError> {
        let Parts { protocol, rules, encoder, tokenized, .. } = &self.parts;
        if self.scores_chat() {
            // Continuations cannot follow messages that are already JSON.
            return Ok(ModelTemplate { template: Arc::new(RemoteTemplate), source: Some(String::new()) });
        }
        let plain = |source| Ok(JsonTemplate::new(rules.dialect).into_model_template(source));
        match encoder.as_ref().map(Encoder::tokenizer).filter(|_| !protocol.is_chat()) {
            None => plain(Some(String::new())),
            Some(Tokenizer::HuggingFace(tokenizer)) if *tokenized => tokenizer.chat_template(name),
            Some(Tokenizer::Remote(tokenizer)) if *tokenized => tokenizer.chat_template(),
            Some(Tokenizer::Tiktoken(_)) if *tokenized => {
                let message = "OpenAI tokenizers have no chat template, so chat messages cannot be tokenized";
                Err(ModelError::new(ModelErrorKind::Unsupported, message)
                    .hint("Use `--model openai-chat-completions`, or drop `--apply_chat_template`"))
            }
            Some(Tokenizer::HuggingFace(tokenizer)) => {
                plain(tokenizer.chat_template(name).ok().and_then(|template| template.source))
            }
            Some(Tokenizer::Tiktoken(_)) if self.parts.is_hosted => plain(Some(String::new())),
            Some(Tokenizer::Tiktoken(_) | Tokenizer::Remote(_)) => plain(None),
        }
    }

    fn traits(&self) -> ModelTraits {
        let Parts { protocol, rules, client, batch_size, .. } = &self.parts;
        ModelTraits {
            batch_size: *batch_size,
            in_flight: client.most_in_flight(),
            option_scoring: if self.scores_chat() {
                OptionScoring::Continuations
            } else {
                protocol.option_scoring(rules)
            },
            reasons: protocol.reasons(rules),
            takes_optional_fields: true,
            takes_media: protocol.is_chat(),
            streams: self.parts.streams != Streams::None && protocol.can_stream(),
            ..ModelTraits::default()
        }
    }

    fn facts(&self) -> ModelFacts {
        let mut facts = ModelFacts::default();
        if let Some(record) = self.planner.record(self.parts.rules.is_v04()) {
            facts.tokenizer.insert("scoring_protocol", record);
        }
        if let Some(servers) = self.parts.keeper.record().filter(|_| !self.parts.rules.is_v04()) {
            facts.tokenizer.insert("servers", servers);
        }
        let Some(Tokenizer::HuggingFace(tokenizer)) = self.parts.encoder.as_ref().map(Encoder::tokenizer)
        else {
            return facts;
        };
        let shown = |text: Option<&str>, id: Option<u32>| {
            let id = id.map_or_else(|| "None".to_owned(), |id| id.to_string());
            Value::list([text.map_or(Value::None, Value::str), Value::str(id)])
        };
        let own = |name: &str| {
            let token = tokenizer.special_token(name);
            shown(token.map(|token| token.text), token.and_then(|token| token.id))
        };
        // Reference: a separately named tokenizer keeps its own padding token.
        let padding = if self.parts.is_tokenizer_named {
            own("pad_token")
        } else {
            let (text, id) = tokenizer.padding();
            shown(Some(&text), Some(id))
        };
        facts.tokenizer.insert("tokenizer_pad_token", padding);
        facts.tokenizer.insert("tokenizer_eos_token", own("eos_token"));
        facts.tokenizer.insert("tokenizer_bos_token", own("bos_token"));
        let end = tokenizer.special_token("eos_token").and_then(|token| token.id);
        facts.tokenizer.insert("eot_token_id", end.map_or(Value::None, |id| Value::Int(id.into())));
        let length = self.parts.longest() + usize::from(self.parts.protocol.is_launched());
        facts.tokenizer.insert("max_length", length as i64);
        facts
    }

    fn wind_down(&self) {
        self.parts.client.wind_down();
    }

    fn stats(&self) -> Option<&ModelStats> {
        Some(self.parts.client.stats())
    }

    fn answer(&self, requests: Vec<ModelRequest>) -> ModelFuture<'_, Vec<Result<Answer, ModelError>>> {
        Box::pin(async move { self.answer_all(&requests).await })
    }

    fn distributions(
        &self,
        requests: Vec<ModelRequest>,
        kept: Kept,
        sink: DistributionSink,
    ) -> ModelFuture<'_, Result<(), ModelError>> {
        let model = self.this.upgrade().expect("the model is borrowed, so it is alive");
        Box::pin(model.pass_distributions(requests, kept, sink))
    }
}

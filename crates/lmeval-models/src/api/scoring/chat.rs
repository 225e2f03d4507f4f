//! Log-likelihoods on chat completions, with `scoring=next_token`.
//!
//! A chat API has no `echo`, so its numbers are compared with those of `/v1/completions` on the same server. The tokens
//! that the server makes of the messages come from its `/tokenize`. A server that lacks one of the two proves nothing, and
//! log-likelihood tasks are refused.

use lmeval_core::{Context, ModelError, ModelErrorKind};
use lmeval_pycompat::{Dict, Value, json};
use rustc_hash::FxHashSet;

use super::super::answer::{malformed, parse};
use super::super::model::{ApiModel, body_text};
use super::super::protocol::{Family, Scored};
use super::super::template::JsonTemplate;
use super::next_token::{self, Canary, NextToken, Trouble};
use super::probe::{ABOUT, Checked, MAX_PROBED_IDS, precision};
use super::{Choice, Precision, Proven, Tolerance};
use crate::http::{Call, Route};
use crate::tokenizer::Encoder;

/// Conversations of the probe; the first one is the canary.
const QUESTIONS: [&str; 3] =
    ["Hello!", "What is the capital of France?", "Count: one, two, three, four, five, six, seven."];

impl ApiModel {
    /// Whether log-likelihoods are scored by the chat API.
    pub(in super::super) fn scores_chat(&self) -> bool {
        self.parts.protocol.is_chat()
            && self.parts.protocol.family() == Family::Vllm
            && !self.parts.is_hosted
            && self.planner.choice == Choice::NextToken
    }

    /// Tokenizes conversations with their continuations.
    pub(in super::super) async fn chat_prompts(
        &self,
        pairs: &[(&Context, &str)],
        encoder: &Encoder,
    ) -> Vec<Result<Scored, ModelError>> {
        // Consecutive requests have the same context.
        let mut last: Option<(&Context, Result<Rendered, ModelError>)> = None;
        let mut prompts = Vec::with_capacity(pairs.len());
        for &(context, continuation) in pairs {
            let rendered = match last.take() {
                Some((known, rendered)) if known == context => rendered,
                _ => self.render(context, encoder).await,
            };
            prompts.push(match &rendered {
                Ok(rendered) => self.chat_prompt(rendered, continuation, encoder).await,
                Err(error) => Err(error.clone()),
            });
            last = Some((context, rendered));
        }
        prompts
    }

    async fn render(&self, context: &Context, encoder: &Encoder) -> Result<Rendered, ModelError> {
        let messages = match context {
            Context::Json(text) => json::loads(text).map_err(|error| {
                ModelError::new(ModelErrorKind::Request, format!("The chat messages are not JSON: {error}"))
            })?,
            Context::Messages(messages) => JsonTemplate::new(self.parts.rules.dialect).messages(messages),
            Context::Text(_) => {
                let message = "The model needs chat messages, but the prompt is a plain string";
                return Err(ModelError::new(ModelErrorKind::Configuration, message)
                    .hint("Add `--apply_chat_template`"));
            }
        };
        let tokens = self.chat_tokens(&messages, Route::default()).await?;
        let text = encoder.decode(&tokens).await?;
        Ok(Rendered { messages, tokens, text })
    }

    /// The prompt of one continuation. Context and continuation are tokenized as one string, as for completions.
    async fn chat_prompt(
        &self,
        Rendered { messages, tokens, text }: &Rendered,
        continuation: &str,
        encoder: &Encoder,
    ) -> Result<Scored, ModelError> {
        let joined = encoder.encode(&format!("{text}{continuation}")).await?;
        let context = tokens.len();
        if joined.get(..context) != Some(tokens.as_slice()) || joined.len() == context {
            let message = format!(
                "The tokens of the chat prompt change with the continuation {continuation:?}, so its \
                 log-likelihood is not defined"
            );
            return Err(ModelError::new(ModelErrorKind::Unsupported, message)
                .hint("The tokenizer must be that of the server; `lm-eval doctor` compares them")
                .hint("Or use `--model local-completions`, which applies the chat template locally"));
        }
        if joined.len() > self.parts.longest() {
            let message = format!(
                "The chat prompt has {} tokens with its continuation, but is limited to {}",
                joined.len(),
                self.parts.longest()
            );
            return Err(ModelError::new(ModelErrorKind::Request, message)
                .hint("Set `max_length` to the model's context length"));
        }
        Ok(Scored { messages: Some(messages.clone()), ..Scored::new(joined, context) })
    }

    /// The tokens that the server makes of messages.
    async fn chat_tokens(&self, messages: &Value, route: Route<'_>) -> Result<Vec<u32>, ModelError> {
        let mut body = Dict::new();
        body.insert("model", self.parts.rules.model_value());
        body.insert("messages", messages.clone());
        next_token::start_answer(&mut body, messages);
        body.insert("add_special_tokens", false);
        let body = body_text(body)?;
        let call = Call { path: "", body: body.into(), about: ABOUT, tokens: 0, scores: false };
        let read = |bytes: &[u8]| {
            let answer = parse(bytes)?;
            let tokens =
                answer.as_dict().and_then(|answer| answer.get_str("tokens")).and_then(Value::as_list);
            let id = |token: &Value| u32::try_from(token.as_i64()?).ok();
            let tokens: Option<Vec<u32>> = tokens.and_then(|tokens| tokens.iter().map(id).collect());
            tokens.filter(|tokens| !tokens.is_empty()).ok_or_else(|| malformed("No `tokens`"))
        };
        self.parts.client.post_to(Route { path: Some("/tokenize"), ..route }, call, read).await
    }

    /// Compares the numbers of the chat API with those of `echo`: for each conversation, those of the most likely
    /// token and of another one.
    pub(super) async fn check_chat(
        &self,
        index: usize,
        tokens: &[u32],
        mut evidence: Dict,
    ) -> Result<Checked, Trouble> {
        let route = self.route_to(index);
        let mut ids = Vec::new();
        let mut seen = FxHashSet::default();
        ids.extend(tokens.iter().copied().filter(|id| seen.insert(*id)).take(MAX_PROBED_IDS));
        let (mut found, mut scored) = (Vec::new(), Vec::new());
        let mut canary_messages = None;
        for question in QUESTIONS {
            let message = Value::dict([("role", Value::str("user")), ("content", Value::str(question))]);
            let messages = Value::list([message]);
            let context = self.chat_tokens(&messages, route).await.map_err(unverifiable)?;
            let next = self.next_tokens_of_chat(route, ABOUT, &messages, &ids).await?.0;
            let other = ids.iter().copied().find(|id| *id != next.sampled).unwrap_or(next.sampled);
            for id in [next.sampled, other] {
                scored.push(Scored::new([context.as_slice(), &[id]].concat(), context.len()));
            }
            found.push(next);
            canary_messages.get_or_insert(messages);
        }
        let echoed = self.echo_on(index, &scored).await.map_err(unverifiable)?;
        let precision = precision(&found);
        let largest = compare(&scored, &echoed, &found, precision)?;
        evidence.insert("compared", scored.len() as i64);
        evidence.insert("compared_with", "`echo` of `/v1/completions`, with the tokens of `/tokenize`");
        evidence.insert("largest_difference", largest);
        evidence.insert("logits", precision.name());
        let known = scored[..2].iter().zip(&echoed);
        let known = known.filter_map(|(prompt, echoed)| Some((*prompt.tokens.last()?, echoed.0))).collect();
        let canary = Canary { prompt: Vec::new(), messages: canary_messages, known };
        Ok(Checked { precision, canary, evidence })
    }

    /// The log-probabilities of tokens at the start of the answer to messages, and the number of cached tokens.
    pub(super) async fn next_tokens_of_chat(
        &self,
        route: Route<'_>,
        about: &str,
        messages: &Value,
        ids: &[u32],
    ) -> Result<(NextToken, Option<u64>), Trouble> {
        let body = next_token::chat_body(messages.clone(), ids, &self.parts.rules);
        let body = body_text(body).map_err(Trouble::Failed)?;
        let call = Call { path: "", body: body.into(), about, tokens: 2, scores: false };
        let read = |bytes: &[u8]| {
            let answer = parse(bytes)?;
            Ok((next_token::read_chat(&answer, ids), next_token::cached_tokens(&answer)))
        };
        let (found, cached) = self.parts.client.post_to(route, call, read).await.map_err(Trouble::of)?;
        Ok((found.map_err(Trouble::Surprise)?, cached))
    }

    pub(super) async fn prove_chat(
        &self,
        index: usize,
        tokens: &[u32],
        found: Dict,
    ) -> Result<Proven, Trouble> {
        let Checked { precision, canary, evidence } = self.check_chat(index, tokens, found).await?;
        let tolerance = Tolerance::of(precision);
        let evidence = vec![Value::from(evidence)];
        Ok(Proven { precision, tolerance, next_token: Some(canary), tail: None, evidence, reference: None })
    }
}

/// A conversation as the server's chat template renders it.
struct Rendered {
    messages: Value,
    tokens: Vec<u32>,
    text: String,
}

/// The largest difference between next-token numbers and those of `echo`: two prompts for each of `found`.
pub(super) fn compare(
    scored: &[Scored],
    echoed: &[(f64, bool)],
    found: &[NextToken],
    precision: Precision,
) -> Result<f64, Trouble> {
    let tolerance = Tolerance::of(precision);
    let mut largest = 0.0_f64;
    for (number, (prompt, echoed)) in scored.iter().zip(echoed).enumerate() {
        let id = prompt.tokens.last().copied().unwrap_or_default();
        let score = found.get(number / 2).and_then(|found| found.score(id));
        let (logprob, is_greedy) = score.unwrap_or((f64::NAN, false));
        largest = largest.max((logprob - echoed.0).abs());
        let agrees = is_greedy == echoed.1 || precision == Precision::Half;
        if !tolerance.holds(logprob, echoed.0) || !agrees {
            return Err(Trouble::Surprise(format!(
                "the next-token log-probability of token {id} is {logprob:.4}, but {:.4} with `echo`",
                echoed.0
            )));
        }
    }
    Ok(largest)
}

/// The error for a chat server whose numbers cannot be compared with others.
fn unverifiable(error: ModelError) -> Trouble {
    match Trouble::of(error) {
        Trouble::Failed(error) if error.is_fatal() => Trouble::Failed(error),
        trouble => Trouble::Surprise(format!(
            "chat log-probabilities are compared with `/v1/completions` and `/tokenize` of the same server, which fail: {}",
            trouble.reason()
        )),
    }
}

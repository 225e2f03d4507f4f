//! `gguf`: a llama.cpp model served by llama-cpp-python.

use std::sync::Arc;

use lmeval_core::{Arguments, Finish, ModelError, ModelErrorKind, RequestType, Response};
use lmeval_pycompat::{Dict, Value, float, strings};

use super::answer::{choices, finish, malformed, no_logprobs, text};
use super::text::{TextAnswer, TextBackend, TextProtocol, plain};
use crate::http::BadAnswer;

pub(crate) const GGUF: TextBackend = TextBackend {
    name: "gguf",
    base_url: None,
    credentials: None,
    is_hosted: false,
    make: |_| Ok(Box::new(Gguf)),
};

/// The completions protocol of llama-cpp-python.
#[derive(Debug)]
pub(super) struct Gguf;

impl TextProtocol for Gguf {
    fn model(&self) -> Option<&str> {
        None
    }

    fn supports(&self, kind: RequestType) -> Result<(), ModelError> {
        if matches!(kind, RequestType::Loglikelihood | RequestType::GenerateUntil) {
            return Ok(());
        }
        Err(ModelError::new(
            ModelErrorKind::Unsupported,
            format!("The model `gguf` cannot answer `{kind}` requests"),
        )
        .hint("Use `--model local-completions` with the model's tokenizer and `tokenized_requests=False`"))
    }

    fn call(&self, arguments: &Arguments) -> Result<(String, Dict), ModelError> {
        let mut body = Dict::new();
        match arguments {
            Arguments::Loglikelihood { context, continuation } => {
                body.insert("prompt", [plain(context)?, continuation].concat());
                body.insert("logprobs", 10);
                body.insert("temperature", 0.0);
                if !continuation.is_empty() {
                    body.insert("max_tokens", 1);
                    body.insert("echo", true);
                }
            }
            Arguments::Generate { context, kwargs } => {
                body.insert("prompt", plain(context)?);
                body.insert("logprobs", 10);
                body.insert("temperature", 0.0);
                let until = kwargs.get_str("until").cloned();
                let until = until.unwrap_or_else(|| Value::list([Value::str("</s>")]));
                if !until.is_none() {
                    body.insert("stop", until);
                }
            }
            Arguments::Rolling { .. } => self.supports(RequestType::LoglikelihoodRolling)?,
            Arguments::Letters { .. } => self.supports(RequestType::ChoiceLetters)?,
        }
        Ok(("/v1/completions".into(), body))
    }

    fn read(&self, answer: &Value, arguments: &Arguments) -> Result<TextAnswer, BadAnswer> {
        let object = answer.as_dict().ok_or_else(|| malformed("The answer is not a JSON object"))?;
        let choices = choices(object)?;
        let choice = choices.first().ok_or_else(|| malformed("The answer has no `choices`"))?;
        if let Arguments::Loglikelihood { context, continuation } = arguments {
            let context = plain(context).map_err(BadAnswer::Fatal)?;
            let (logprob, is_greedy) = score(choice, context.chars().count(), continuation)?;
            return Ok(TextAnswer {
                response: Response::Loglikelihood { logprob, is_greedy },
                finish: Finish::Complete,
            });
        }
        let text = text(choice, "text")?;
        let text: Arc<str> = strings::strip(&text).into();
        Ok(TextAnswer { response: Response::Text(text), finish: finish(choice, "finish_reason") })
    }
}

/// Sums the log-probabilities of the tokens after the context.
fn score(choice: &Dict, context: usize, continuation: &str) -> Result<(f64, bool), BadAnswer> {
    let Some(logprobs) = choice.get_str("logprobs").and_then(Value::as_dict) else {
        return Err(no_logprobs("`logprobs` is missing"));
    };
    let list = |name: &str| {
        let list = logprobs.get_str(name).and_then(Value::as_list).filter(|list| !list.is_empty());
        list.ok_or_else(|| no_logprobs(&format!("`{name}` is missing")))
    };
    let (numbers, tokens, offsets, top) =
        (list("token_logprobs")?, list("tokens")?, list("text_offset")?, list("top_logprobs")?);
    let echoed: usize = tokens.iter().filter_map(Value::as_str).map(|token| token.chars().count()).sum();
    if !continuation.is_empty() && echoed < context + continuation.chars().count() {
        return Err(no_logprobs("the prompt is not echoed"));
    }
    let start =
        offsets.iter().position(|offset| offset.as_i64().is_some_and(|offset| offset >= context as i64));
    let start = start.ok_or_else(|| malformed("No token starts at the end of the context"))?;
    let missing = || malformed("A log-probability of the continuation is missing");
    let scored = numbers.get(start..numbers.len() - 1).unwrap_or_default();
    let scored: Option<Vec<f64>> = scored.iter().map(Value::to_f64).collect();
    let mut is_greedy = true;
    // Reference: the generated token is included, and tokens are compared by their strings.
    for (token, top) in tokens.iter().zip(top).skip(start) {
        let top = top.as_dict().ok_or_else(missing)?;
        let mut best: Option<(&Value, f64)> = None;
        for (key, value) in top.iter() {
            let value = value.to_f64().ok_or_else(missing)?;
            if best.is_none_or(|(_, most)| value > most) {
                best = Some((key, value));
            }
        }
        if best.is_none_or(|(key, _)| key != token) {
            is_greedy = false;
            break;
        }
    }
    Ok((float::sum(scored.ok_or_else(missing)?), is_greedy))
}

//! `local-chat-completions`: OpenAI-compatible chat completions.

use std::sync::Arc;

use lmeval_core::{Finish, ModelError, ModelErrorKind, ModelSettings, OptionScoring, RequestType, stops};
use lmeval_pycompat::{Dict, Value};

use super::answer::{choices, finish, malformed, null_text, objects};
use super::arguments::{Backend, Credentials};
use super::completions::take_limit;
use super::protocol::{Family, Generation, Prompt, Protocol, Rules};
use crate::http::BadAnswer;

pub(crate) const LOCAL_CHAT_COMPLETIONS: Backend = Backend {
    name: "local-chat-completions",
    base_url: None,
    tokenizer: "none",
    credentials: Credentials::Bearer("OPENAI_API_KEY"),
    is_hosted: false,
    make: |settings| {
        Ok(Box::new(ChatCompletions {
            reasons: declared_reasoning(settings)?.unwrap_or(false),
            is_launched: false,
        }))
    },
};

/// The fields of a message for reasoning: of older servers, and of newer ones.
pub(super) const REASONING: [&str; 2] = ["reasoning_content", "reasoning"];

/// The protocol of `/v1/chat/completions`.
#[derive(Debug)]
pub(super) struct ChatCompletions {
    /// Whether the user declared that the model reasons before it answers.
    pub(super) reasons: bool,
    /// Whether the run starts the servers.
    pub(super) is_launched: bool,
}

/// The model argument `reasoning_model`, if given.
pub(super) fn declared_reasoning(settings: &ModelSettings) -> Result<Option<bool>, ModelError> {
    match settings.get("reasoning_model") {
        Some(_) => settings.flag("reasoning_model", false).map(Some),
        None => Ok(None),
    }
}

/// Rejects requests for log-probabilities to an API or model that returns none.
pub(super) fn generates_only(kind: RequestType) -> Result<(), ModelError> {
    let message = match kind {
        RequestType::GenerateUntil => return Ok(()),
        RequestType::ChoiceLetters => {
            "The letters of options can only be compared if the server lists likely tokens and the model answers \
             without reasoning first"
                .to_owned()
        }
        RequestType::Loglikelihood | RequestType::LoglikelihoodRolling => {
            format!("Chat APIs do not return prompt log-probabilities, which `{kind}` requests need")
        }
    };
    Err(ModelError::new(ModelErrorKind::Unsupported, message)
        .hint("Use the server's completions API with `--model local-completions`")
        .hint("Or use a generation variant of the task, such as `task@generate`"))
}

/// The messages of a chat prompt.
pub(super) fn messages(prompt: &Prompt) -> Result<Value, ModelError> {
    match prompt {
        Prompt::Messages(messages) => Ok(messages.clone()),
        _ => Err(ModelError::new(
            ModelErrorKind::Configuration,
            "The model needs chat messages, but the prompt is a plain string",
        )
        .hint("Add `--apply_chat_template`")),
    }
}

/// The body of a chat request. The caller chooses the name of the token limit and the stop strings.
pub(super) fn chat_body(
    prompt: &Prompt,
    mut settings: Dict,
    rules: &Rules,
    limit_name: &str,
    default_until: Option<Value>,
) -> Result<Dict, ModelError> {
    settings.remove_str("do_sample");
    let mut body = Dict::new();
    body.insert("messages", messages(prompt)?);
    body.insert("model", rules.model_value());
    body.insert(limit_name, take_limit(&mut settings, rules));
    body.insert("temperature", settings.remove_str("temperature").unwrap_or(Value::Int(0)));
    let until = settings.remove_str("until").or(default_until);
    let stops = stops(until.as_ref(), rules.end_of_text.as_deref())?;
    // OpenAI's API accepts at most four.
    body.insert("stop", Value::list(stops.into_iter().take(4)));
    body.insert("seed", rules.seed);
    body.update(&settings);
    Ok(body)
}

/// The body of a request for the probabilities of the first token.
pub(super) fn letters_body(
    prompt: &Prompt,
    top: u64,
    rules: &Rules,
    limit_name: &str,
) -> Result<Dict, ModelError> {
    let mut body = Dict::new();
    body.insert("messages", messages(prompt)?);
    body.insert("model", rules.model_value());
    body.insert(limit_name, 1);
    body.insert("temperature", 0);
    body.insert("seed", rules.seed);
    body.insert("logprobs", true);
    body.insert("top_logprobs", top as i64);
    Ok(body)
}

/// Whether a chat server can compare letters: not for a model that reasons first.
pub(super) fn letters_unless(reasons: bool) -> OptionScoring {
    if reasons { OptionScoring::Generations } else { OptionScoring::Letters }
}

/// Whether a chat server can answer requests of this kind.
pub(super) fn supports_chat(kind: RequestType, reasons: bool) -> Result<(), ModelError> {
    match (kind, letters_unless(reasons)) {
        (RequestType::ChoiceLetters, OptionScoring::Letters) => Ok(()),
        _ => generates_only(kind),
    }
}

/// The generations of a chat answer.
pub(super) fn chat_generations(answer: &Value, rules: &Rules) -> Result<Vec<Generation>, BadAnswer> {
    let mut found = Vec::new();
    for object in objects(answer)? {
        for choice in choices(object)? {
            let message = choice.get_str("message").and_then(Value::as_dict);
            let content = match message.and_then(|message| message.get_str("content")) {
                Some(Value::Str(text)) => Arc::clone(text),
                Some(Value::List(parts)) => parts_text(parts),
                Some(Value::None) if is_finished(choice, message) => null_text().unwrap_or_default(),
                // Reference: a choice without message or content, as content filters produce, is an empty
                // string.
                Some(_) | None if is_finished(choice, message) => Arc::from(""),
                _ => null_text().ok_or_else(|| {
                    malformed("The answer is empty without a reason: `content` and `finish_reason` are null")
                })?,
            };
            let refusal = message.and_then(|message| message.get_str("refusal"));
            let is_refusal = refusal.is_some_and(Value::is_truthy);
            let finish = if is_refusal { Finish::Refused } else { finish(choice, "finish_reason") };
            let generation = Generation::new(content, finish).reasoned(reasoning(message));
            found.push(generation.after(rules.think_end_token.as_deref()));
        }
    }
    Ok(found)
}

/// The reasoning that a server returns apart from the answer, under one of two names.
fn reasoning(message: Option<&Dict>) -> &str {
    let field = |name: &&str| message.and_then(|message| message.get_str(name)?.as_str());
    REASONING.iter().filter_map(field).find(|text| !text.is_empty()).unwrap_or("")
}

/// Whether a choice without text is a complete answer: it states how it finished, or has something else
/// instead.
fn is_finished(choice: &Dict, message: Option<&Dict>) -> bool {
    let has = |name: &str| message.and_then(|message| message.get_str(name)).is_some_and(Value::is_truthy);
    choice.get_str("finish_reason").is_some_and(|reason| reason.as_str().is_some())
        || ["tool_calls", "function_call", "refusal"].into_iter().chain(REASONING).any(has)
}

fn parts_text(parts: &[Value]) -> Arc<str> {
    let texts = parts.iter().filter_map(|part| part.as_dict()?.get_str("text")?.as_str());
    texts.collect::<String>().into()
}

impl Protocol for ChatCompletions {
    fn can_stream(&self) -> bool {
        true
    }

    fn is_launched(&self) -> bool {
        self.is_launched
    }

    fn is_chat(&self) -> bool {
        true
    }

    fn family(&self) -> Family {
        Family::Vllm
    }

    fn supports(&self, kind: RequestType, rules: &Rules, _: bool) -> Result<(), ModelError> {
        supports_chat(kind, self.reasons(rules))
    }

    fn option_scoring(&self, rules: &Rules) -> OptionScoring {
        letters_unless(self.reasons(rules))
    }

    fn reasons(&self, rules: &Rules) -> bool {
        self.reasons || rules.think_end_token.is_some()
    }

    fn letters(&self, prompt: &Prompt, top: u64, rules: &Rules) -> Result<Dict, ModelError> {
        letters_body(prompt, top, rules, "max_tokens")
    }

    fn generation(&self, prompt: &Prompt, settings: Dict, rules: &Rules) -> Result<Dict, ModelError> {
        let until = settings.get_str("until").cloned();
        let mut body = chat_body(prompt, settings, rules, "max_tokens", None)?;
        if self.is_launched {
            body.insert("stop", Value::list(rules.stops(until.as_ref(), true)?));
        }
        Ok(body)
    }

    fn read_generations(&self, answer: &Value, rules: &Rules) -> Result<Vec<Generation>, BadAnswer> {
        chat_generations(answer, rules)
    }
}

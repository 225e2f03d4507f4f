//! Anthropic's servers: `anthropic-chat` and the older `anthropic-completions`.

use std::sync::Arc;

use lmeval_core::{Arguments, ModelError, ModelSettings, OptionScoring, RequestType, Response, stops};
use lmeval_pycompat::{Dict, Value, strings};

use super::answer::{finish, malformed, objects, text};
use super::arguments::{Backend, Credentials};
use super::chat::{generates_only, messages};
use super::media::anthropic_part;
use super::protocol::{Generation, Prompt, Protocol, Rules};
use super::text::{TextAnswer, TextBackend, TextProtocol, plain};
use crate::http::BadAnswer;

/// Starts a user turn in the legacy API.
const HUMAN: &str = "\n\nHuman:";
/// Starts an assistant turn in the legacy API.
const ASSISTANT: &str = "\n\nAssistant:";

pub(crate) const ANTHROPIC_CHAT: Backend = Backend {
    name: "anthropic-chat",
    base_url: Some("https://api.anthropic.com/v1/messages"),
    tokenizer: "none",
    credentials: Credentials::Anthropic("ANTHROPIC_API_KEY"),
    is_hosted: true,
    make: |_| Ok(Box::new(AnthropicChat)),
};

pub(crate) const ANTHROPIC_COMPLETIONS: TextBackend = TextBackend {
    name: "anthropic-completions",
    base_url: Some("https://api.anthropic.com"),
    credentials: Some(Credentials::Anthropic("ANTHROPIC_API_KEY")),
    is_hosted: true,
    make: |settings| Ok(Box::new(AnthropicCompletions::new(settings)?)),
};

/// The protocol of `/v1/messages`.
#[derive(Debug)]
pub(super) struct AnthropicChat;

impl Protocol for AnthropicChat {
    fn is_chat(&self) -> bool {
        true
    }

    fn supports(&self, kind: RequestType, _: &Rules, _: bool) -> Result<(), ModelError> {
        generates_only(kind)
    }

    fn option_scoring(&self, _: &Rules) -> OptionScoring {
        OptionScoring::Generations
    }

    fn generation(&self, prompt: &Prompt, mut settings: Dict, rules: &Rules) -> Result<Dict, ModelError> {
        let all = messages(prompt)?;
        let all = all.as_list().unwrap_or_default();
        let field =
            |message: &Value, name: &str| message.as_dict().and_then(|dict| dict.get_str(name)).cloned();
        let is_system =
            |message: &&Value| field(message, "role").is_some_and(|role| role.as_str() == Some("system"));
        let system = all.first().filter(is_system).and_then(|message| field(message, "content"));
        let system = system.filter(Value::is_truthy);
        let mut turns = Vec::with_capacity(all.len());
        for message in &all[usize::from(system.is_some())..] {
            let kind = field(message, "type").unwrap_or_else(|| Value::str("text"));
            let content = field(message, "content").unwrap_or(Value::None);
            let parts = if let Some(parts) = content.as_list() {
                parts.iter().map(anthropic_part).collect::<Result<Vec<_>, _>>()?
            } else {
                let mut part = Dict::new();
                part.insert("type", kind.clone());
                part.insert(kind, content);
                vec![Value::Dict(Arc::new(part))]
            };
            let mut turn = Dict::new();
            turn.insert("role", field(message, "role").unwrap_or(Value::None));
            turn.insert("content", Value::list(parts));
            turns.push(Value::Dict(Arc::new(turn)));
        }
        settings.remove_str("do_sample");
        let limit = settings.remove_str("max_gen_toks").unwrap_or(Value::Int(rules.max_gen_toks));
        let temperature = settings.remove_str("temperature").unwrap_or(Value::Int(0));
        let until = settings.remove_str("until").unwrap_or_else(|| Value::list([Value::str(HUMAN)]));
        let mut stops = stops(Some(&until), rules.end_of_text.as_deref())?;
        stops.retain(|stop| stop.as_str().is_some_and(|stop| !strings::strip(stop).is_empty()));
        if stops.is_empty() && rules.is_v04() {
            stops.push(rules.end_of_text.as_deref().map_or(Value::None, Value::str));
        }
        let mut body = Dict::new();
        body.insert("messages", Value::list(turns));
        body.insert("model", rules.model_value());
        body.insert("max_tokens", limit);
        body.insert("temperature", temperature);
        body.insert("stop_sequences", Value::list(stops));
        body.update(&settings);
        if let Some(system) = system {
            body.insert("system", system);
        }
        Ok(body)
    }

    fn read_generations(&self, answer: &Value, rules: &Rules) -> Result<Vec<Generation>, BadAnswer> {
        objects(answer)?.into_iter().map(|object| read_message(object, rules)).collect()
    }
}

/// Concatenates the text blocks of a message.
fn read_message(object: &Dict, rules: &Rules) -> Result<Generation, BadAnswer> {
    let Some(blocks) = object.get_str("content").and_then(Value::as_list) else {
        return Err(malformed("The answer has no `content`"));
    };
    if blocks.is_empty() && object.get_str("stop_reason").and_then(Value::as_str).is_none() {
        return Err(malformed("The answer has no text and no `stop_reason`"));
    }
    let texts = blocks.iter().filter_map(|block| block.as_dict()?.get_str("text")?.as_str());
    // Reference: 0.4 uses the first block.
    let text: String = if rules.is_v04() { texts.take(1).collect() } else { texts.collect() };
    let thoughts = blocks.iter().filter_map(|block| block.as_dict()?.get_str("thinking")?.as_str());
    let generation = Generation::new(text.into(), finish(object, "stop_reason"));
    Ok(generation.reasoned(&thoughts.collect::<String>()).after(rules.think_end_token.as_deref()))
}

/// The protocol of `/v1/complete`.
#[derive(Debug)]
struct AnthropicCompletions {
    model: String,
    temperature: Value,
    /// Arguments passed through to the server.
    extra: Dict,
}

impl AnthropicCompletions {
    fn new(settings: &ModelSettings) -> Result<Self, ModelError> {
        const PASSED_THROUGH: [&str; 3] = ["metadata", "top_k", "top_p"];
        settings.number("temperature")?;
        let mut extra = Dict::new();
        for name in PASSED_THROUGH {
            if let Some(value) = settings.get(name) {
                extra.insert(name, value.clone());
            }
        }
        Ok(Self {
            model: settings.text("model").unwrap_or_else(|| "claude-2.0".into()),
            temperature: settings.get("temperature").cloned().unwrap_or(Value::Int(0)),
            extra,
        })
    }
}

impl TextProtocol for AnthropicCompletions {
    fn model(&self) -> Option<&str> {
        Some(&self.model)
    }

    fn supports(&self, kind: RequestType) -> Result<(), ModelError> {
        generates_only(kind)
    }

    fn call(&self, arguments: &Arguments) -> Result<(String, Dict), ModelError> {
        let Arguments::Generate { context, kwargs } = arguments else {
            generates_only(RequestType::Loglikelihood)?;
            return Ok((String::new(), Dict::new()));
        };
        let prompt = plain(context)?;
        let until = stops(kwargs.get_str("until"), None)?;
        let mut body = Dict::new();
        body.insert(
            "max_tokens_to_sample",
            kwargs.get_str("max_gen_toks").cloned().unwrap_or(Value::Int(2048)),
        );
        body.insert("model", self.model.as_str());
        body.insert("prompt", format!("{HUMAN} {prompt}{ASSISTANT}"));
        if let Some(metadata) = self.extra.get_str("metadata") {
            body.insert("metadata", metadata.clone());
        }
        body.insert("stop_sequences", Value::list([Value::str(HUMAN)].into_iter().chain(until)));
        body.insert("temperature", kwargs.get_str("temperature").unwrap_or(&self.temperature).clone());
        body.update(&self.extra);
        Ok(("/v1/complete".into(), body))
    }

    fn read(&self, answer: &Value, _: &Arguments) -> Result<TextAnswer, BadAnswer> {
        let object = answer.as_dict().ok_or_else(|| malformed("The answer is not a JSON object"))?;
        let text = text(object, "completion")?;
        Ok(TextAnswer { response: Response::Text(text), finish: finish(object, "stop_reason") })
    }
}

#[cfg(test)]
mod tests {
    use lmeval_core::{Context, Finish};
    use lmeval_pycompat::json;

    use super::*;

    #[test]
    fn legacy_bodies_and_answers() {
        let mut args = Dict::new();
        args.insert("top_k", 5);
        args.insert("num_concurrent", 4);
        let protocol = AnthropicCompletions::new(&ModelSettings::from_args(args)).unwrap();
        let mut kwargs = Dict::new();
        kwargs.insert("until", Value::list([Value::str("\n")]));
        let arguments = Arguments::Generate { context: Context::from("hi"), kwargs: Arc::new(kwargs) };
        let (path, body) = protocol.call(&arguments).unwrap();
        assert_eq!(path, "/v1/complete");
        assert_eq!(
            json::dumps(&Value::Dict(Arc::new(body)), &json::Options::default()).unwrap(),
            r#"{"max_tokens_to_sample": 2048, "model": "claude-2.0", "prompt": "\n\nHuman: hi\n\nAssistant:", "stop_sequences": ["\n\nHuman:", "\n"], "temperature": 0, "top_k": 5}"#
        );
        let answer = json::loads(r#"{"completion": " yes", "stop_reason": "max_tokens"}"#).unwrap();
        let answer = protocol.read(&answer, &arguments).unwrap();
        assert_eq!((answer.response, answer.finish), (Response::Text(" yes".into()), Finish::CutOff));
        assert!(protocol.call(&Arguments::Rolling { text: "x".into() }).is_err());
    }

    #[test]
    fn joins_text_blocks_of_a_message() {
        let rules = |dialect| Rules {
            model: None,
            max_gen_toks: 256,
            seed: 1234,
            end_of_text: None,
            think_end_token: None,
            truncation: super::super::truncation::Side::Left,
            dialect,
        };
        let answer = json::loads(
            r#"{"content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}"#,
        )
        .unwrap();
        let read =
            |dialect| AnthropicChat.read_generations(&answer, &rules(dialect)).unwrap()[0].text.clone();
        assert_eq!(&*read(lmeval_core::Dialect::V05), "ab");
        assert_eq!(&*read(lmeval_core::Dialect::V04), "a");
        let mut kwargs = Dict::new();
        kwargs.insert("until", Value::list([Value::str("\n\n")]));
        let prompt =
            Prompt::Messages(json::loads(r#"[{"role": "user", "content": "hi", "type": "text"}]"#).unwrap());
        let stops = |dialect| {
            let body = AnthropicChat.generation(&prompt, kwargs.clone(), &rules(dialect)).unwrap();
            lmeval_pycompat::repr::repr(body.get_str("stop_sequences").unwrap())
        };
        assert_eq!(stops(lmeval_core::Dialect::V05), "[]");
        assert_eq!(stops(lmeval_core::Dialect::V04), "[None]");
    }
}

//! The request bodies and answers of a family of servers.

use std::fmt::Debug;
use std::sync::Arc;

use lmeval_core::{
    Dialect, Finish, ModelError, ModelErrorKind, OptionScoring, RequestType, Separator, Trace, stops,
};
use lmeval_pycompat::{Dict, Value, strings};

use super::truncation::Side;
use crate::http::BadAnswer;
use crate::tokenizer::Encoder;

/// Model settings that bodies and answers depend on.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    pub(super) model: Option<String>,
    pub(super) max_gen_toks: i64,
    pub(super) seed: i64,
    /// The end-of-text string, always added to the stop strings.
    pub(super) end_of_text: Option<String>,
    /// Ends the thinking part of an answer.
    pub(super) think_end_token: Option<String>,
    /// Which part of a prompt that is too long is dropped.
    pub(super) truncation: Side,
    pub(super) dialect: Dialect,
}

impl Rules {
    /// The model name in bodies.
    pub(super) fn model_value(&self) -> Value {
        self.model.as_deref().map_or(Value::None, Value::str)
    }

    /// The stop strings of a request: those after thoughts are applied to the answer of a launched server instead.
    pub(super) fn stops(&self, until: Option<&Value>, is_launched: bool) -> Result<Vec<Value>, ModelError> {
        let has_thoughts = is_launched && self.thoughts_end().is_some();
        stops(until.filter(|_| !has_thoughts), self.end_of_text.as_deref())
    }

    /// A generation of a launched server without its thoughts, up to the first stop string.
    pub(super) fn answer(
        &self,
        generation: Generation,
        until: Option<&Value>,
    ) -> Result<Generation, ModelError> {
        if self.thoughts_end().is_none() {
            return Ok(generation);
        }
        let stops = stops(until, self.end_of_text.as_deref())?;
        let stops = stops.iter().filter_map(Value::as_str).filter(|stop| !stop.is_empty());
        Ok(generation.after(self.thoughts_end()).until(stops))
    }

    fn thoughts_end(&self) -> Option<&str> {
        self.think_end_token.as_deref().filter(|marker| !marker.is_empty())
    }

    /// Whether bodies follow the 0.4 line.
    pub(super) fn is_v04(&self) -> bool {
        self.dialect == Dialect::V04
    }
}

/// The prompts of one call.
#[derive(Clone, Debug)]
pub(super) enum Prompt {
    Tokens(Vec<Vec<u32>>),
    Text(Arc<str>),
    Texts(Vec<Arc<str>>),
    Messages(Value),
}

impl Prompt {
    /// The prompts in a body.
    pub(super) fn to_value(&self) -> Value {
        match self {
            Self::Tokens(prompts) => Value::list(
                prompts
                    .iter()
                    .map(|tokens| Value::list(tokens.iter().map(|&token| Value::Int(token.into())))),
            ),
            Self::Text(text) => Value::Str(Arc::clone(text)),
            Self::Texts(texts) => Value::list(texts.iter().map(|text| Value::Str(Arc::clone(text)))),
            Self::Messages(messages) => messages.clone(),
        }
    }
}

/// One generation.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Generation {
    /// The answer, without reasoning.
    pub(super) text: Arc<str>,
    /// How it ended.
    pub(super) finish: Finish,
    /// What was generated before and after the answer.
    pub(super) trace: Trace,
}

impl Generation {
    /// A generation that is all answer.
    pub(super) fn new(text: Arc<str>, finish: Finish) -> Self {
        Self { text, finish, trace: Trace::default() }
    }

    /// With the reasoning that the server returned apart.
    pub(super) fn reasoned(mut self, reasoning: &str) -> Self {
        if !reasoning.is_empty() {
            self.trace.reasoning = reasoning.into();
            self.trace.separator = Separator::Field;
        }
        self
    }

    /// Takes everything up to the last end-of-thinking marker, and the whitespace after it, for reasoning.
    pub(super) fn after(mut self, marker: Option<&str>) -> Self {
        let Some(marker) = marker.filter(|marker| !marker.is_empty()) else { return self };
        let end = self.text.rfind(marker).map_or(0, |offset| offset + marker.len());
        let answer = strings::lstrip(&self.text[end..]);
        let reasoning = &self.text[..self.text.len() - answer.len()];
        self.trace.reasoning = [&*self.trace.reasoning, reasoning].concat().into();
        if end > 0 {
            self.trace.separator = Separator::Marker;
        }
        self.text = answer.into();
        self
    }

    /// Adds where the tokens of the whole text end, if the text is that of the tokens.
    pub(super) fn add_tokens(&mut self, ids: &[u32], encoder: &Encoder) {
        let whole = [&*self.trace.reasoning, &*self.text, &*self.trace.rest].concat();
        if let Some(decoded) = encoder.decode_local(ids)
            && let Some(rest) = decoded.strip_prefix(whole.as_str())
            && let Some(ends) = encoder.ends(ids)
        {
            self.trace.rest = [&*self.trace.rest, rest].concat().into();
            self.trace.tokens = ends;
        }
    }

    /// Ends the answer before the first stop string.
    fn until<'a>(mut self, stops: impl Iterator<Item = &'a str>) -> Self {
        if let Some(end) = stops.filter_map(|stop| self.text.find(stop)).min() {
            self.trace.rest = self.text[end..].into();
            self.text = self.text[..end].into();
        }
        self
    }
}

/// A prompt to score.
#[derive(Clone, Debug)]
pub(super) struct Scored {
    /// The tokens by the local tokenizer.
    pub(super) tokens: Vec<u32>,
    /// How many of them belong to the context.
    pub(super) context: usize,
    /// The prompt, if sent as a string.
    pub(super) text: Option<Arc<str>>,
    /// The chat messages of the context, if the server applies its chat template to them.
    pub(super) messages: Option<Value>,
}

impl Scored {
    /// A prompt that is sent as tokens.
    pub(super) fn new(tokens: Vec<u32>, context: usize) -> Self {
        Self { tokens, context, text: None, messages: None }
    }
}

/// The log-likelihood of a continuation, and whether greedy decoding would produce it.
pub(super) type Score = (f64, bool);

/// The servers whose protocols besides `echo` are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    Vllm,
    Sglang,
    Other,
}

impl Family {
    /// The value of `owned_by` in the model list of such a server.
    pub(super) fn owner(self) -> &'static str {
        match self {
            Self::Vllm => "vllm",
            Self::Sglang => "sglang",
            Self::Other => "",
        }
    }

    /// The name of the server in messages.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Vllm => "vLLM",
            Self::Sglang => "SGLang",
            Self::Other => "a known server",
        }
    }
}

/// A family of servers with the same API.
pub(super) trait Protocol: Debug + Send + Sync {
    /// Whether prompts are chat messages, answered one at a time.
    fn is_chat(&self) -> bool {
        false
    }

    /// Whether requests name the model.
    fn needs_model_name(&self) -> bool {
        true
    }

    /// Whether the run starts the servers. Prompts and answers then follow the reference's classes for engines in the
    /// process: the context length is that of prompt and answer, and thoughts end before stop strings are applied.
    fn is_launched(&self) -> bool {
        false
    }

    /// Whether generations can be streamed as server-sent events of OpenAI's form.
    fn can_stream(&self) -> bool {
        false
    }

    /// The server that may offer cheaper protocols under this API.
    fn family(&self) -> Family {
        Family::Other
    }

    /// Whether the servers can answer requests of this kind. `tokenized` means that prompts are sent as
    /// tokens.
    fn supports(&self, kind: RequestType, rules: &Rules, tokenized: bool) -> Result<(), ModelError>;

    /// How options can be scored.
    fn option_scoring(&self, _: &Rules) -> OptionScoring {
        OptionScoring::Continuations
    }

    /// Whether the model is known to reason before it answers.
    fn reasons(&self, rules: &Rules) -> bool {
        rules.think_end_token.is_some()
    }

    /// The body of a request for the probabilities of this many first tokens.
    fn letters(&self, _: &Prompt, _top: u64, _: &Rules) -> Result<Dict, ModelError> {
        Err(no_scores())
    }

    /// The body of a generation request. `settings` are the task's and may be consumed.
    fn generation(&self, prompt: &Prompt, settings: Dict, rules: &Rules) -> Result<Dict, ModelError>;

    /// Parses the generations of an answer.
    fn read_generations(&self, answer: &Value, rules: &Rules) -> Result<Vec<Generation>, BadAnswer>;

    /// The body of a log-probability request.
    fn scoring(&self, _: &Prompt, _: &Rules) -> Result<Dict, ModelError> {
        Err(no_scores())
    }

    /// Parses the log-likelihoods of an answer.
    fn read_scores(&self, _: &Value, _: &[Scored], _: &Rules) -> Result<Vec<Score>, BadAnswer> {
        Err(BadAnswer::Fatal(no_scores()))
    }
}

fn no_scores() -> ModelError {
    ModelError::new(ModelErrorKind::Unsupported, "The server does not return log-probabilities")
}

#[cfg(test)]
mod tests {
    use lmeval_pycompat::repr;

    use super::*;

    #[test]
    fn thoughts_of_launched_servers_end_before_stop_strings_apply() {
        let rules = Rules {
            model: None,
            max_gen_toks: 256,
            seed: 1234,
            end_of_text: Some("<e>".to_owned()),
            think_end_token: Some("</t>".to_owned()),
            truncation: Side::Left,
            dialect: Dialect::V05,
        };
        let until = Value::list([Value::str("\n\n"), Value::str("")]);
        let sent = |is_launched| -> Vec<String> {
            rules.stops(Some(&until), is_launched).unwrap().iter().map(repr::str).collect()
        };
        assert_eq!(sent(true), ["<e>"]);
        assert_eq!(sent(false), ["\n\n", "", "<e>"]);
        let answer = |text: &str| {
            let generation = Generation::new(text.into(), Finish::Complete);
            let Generation { text, trace, .. } = rules.answer(generation, Some(&until)).unwrap();
            [&trace.reasoning, &text, &trace.rest].map(ToString::to_string)
        };
        assert_eq!(answer("a\n\nb</t>\n\n c\n\nd"), ["a\n\nb</t>\n\n ", "c", "\n\nd"]);
        assert_eq!(answer("a</t> c<e>d\n\n"), ["a</t> ", "c", "<e>d\n\n"]);
        assert_eq!(answer("no marker\n\nd"), ["", "no marker", "\n\nd"]);
    }

    #[test]
    fn reasoning_ends_with_the_last_marker() {
        let split = |text: &str, marker| {
            let Generation { text, trace, .. } = Generation::new(text.into(), Finish::Complete).after(marker);
            (trace.reasoning.to_string(), text.to_string())
        };
        let pair = |reasoning: &str, answer: &str| (reasoning.to_owned(), answer.to_owned());
        assert_eq!(split("zz</t>  C", Some("</t>")), pair("zz</t>  ", "C"));
        assert_eq!(split("a</t>b</t> c", Some("</t>")), pair("a</t>b</t> ", "c"));
        assert_eq!(split("  no marker", Some("</t>")), pair("  ", "no marker"));
        assert_eq!(split("  as it is", None), pair("", "  as it is"));
    }
}

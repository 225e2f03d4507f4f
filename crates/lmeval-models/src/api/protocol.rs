//! How a family of servers is asked, and how its answers are read.

use std::fmt::Debug;
use std::sync::Arc;

use lmeval_core::{Dialect, ModelError, ModelErrorKind, RequestType};
use lmeval_pycompat::{Dict, Value};

use crate::http::BadAnswer;

/// What the bodies and answers of a model depend on.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    pub(super) model: Option<String>,
    pub(super) max_gen_toks: i64,
    pub(super) seed: i64,
    /// The string that ends a text, which is always among the stop strings.
    pub(super) end_of_text: Option<String>,
    /// What ends the thoughts before an answer.
    pub(super) think_end_token: Option<String>,
    pub(super) dialect: Dialect,
}

impl Rules {
    /// The model as bodies name it.
    pub(super) fn model_value(&self) -> Value {
        self.model.as_deref().map_or(Value::None, Value::str)
    }

    /// Whether bodies are those of the 0.4 line.
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
    /// The prompts as they stand in a body.
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

/// A text that was generated.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Generation {
    /// The text.
    pub(super) text: Arc<str>,
    /// Whether it was cut off by the limit of tokens.
    pub(super) truncated: bool,
}

/// What is known of a prompt that is scored.
#[derive(Clone, Debug)]
pub(super) struct Scored {
    /// The tokens, as they are counted here.
    pub(super) tokens: Vec<u32>,
    /// How many of them are the context's.
    pub(super) context: usize,
    /// The prompt, where it is sent as text.
    pub(super) text: Option<Arc<str>>,
}

/// The log-likelihood of a continuation, and whether it is the most likely one.
pub(super) type Score = (f64, bool);

/// A family of servers.
pub(super) trait Protocol: Debug + Send + Sync {
    /// Whether prompts are conversations, and answered one at a time.
    fn is_chat(&self) -> bool {
        false
    }

    /// Whether the servers can do what a request of this kind asks. `tokenized` says that tokens are sent.
    fn supports(&self, kind: RequestType, rules: &Rules, tokenized: bool) -> Result<(), ModelError>;

    /// The body that asks for texts. `settings` are those of the task, and may be used up.
    fn generation(&self, prompt: &Prompt, settings: Dict, rules: &Rules) -> Result<Dict, ModelError>;

    /// The texts of an answer.
    fn read_generations(&self, answer: &Value, rules: &Rules) -> Result<Vec<Generation>, BadAnswer>;

    /// The body that asks for log-probabilities.
    fn scoring(&self, _: &Prompt, _: &Rules) -> Result<Dict, ModelError> {
        Err(no_scores())
    }

    /// The log-likelihoods of an answer.
    fn read_scores(&self, _: &Value, _: &[Scored], _: &Rules) -> Result<Vec<Score>, BadAnswer> {
        Err(BadAnswer::Fatal(no_scores()))
    }
}

fn no_scores() -> ModelError {
    ModelError::new(ModelErrorKind::Unsupported, "The server gives no log-probabilities")
}

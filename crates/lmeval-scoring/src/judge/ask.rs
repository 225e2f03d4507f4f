//! How scorers other than `judge` ask a judge.

use std::fmt::Debug;
use std::sync::Arc;

use lmeval_pycompat::Dict;

use super::call::conversation;
use lmeval_core::ChatMessage;
use lmeval_core::{ModelError, ModelErrorKind};

/// A question to a judge.
#[derive(Clone, Debug)]
pub struct JudgeQuestion {
    /// The role of the judge.
    pub role: Arc<str>,
    /// The system message.
    pub system: Option<Arc<str>>,
    /// The question itself, the user's message.
    pub prompt: Arc<str>,
    /// Generation settings, such as `max_gen_toks` and `temperature`.
    pub generation: Arc<Dict>,
    /// Tells repeated questions apart; the answer to the same question with the same number is asked for only once.
    pub repeat: usize,
    /// Whether the Python program that called the engine asks. It waits for the answer, so it cannot be the judge.
    pub from_caller: bool,
}

impl JudgeQuestion {
    /// The question as a conversation.
    pub fn messages(&self) -> Vec<ChatMessage> {
        conversation(self.system.as_ref(), &self.prompt)
    }
}

/// The judges of a run, for scorers that ask them themselves. Questions are saved, retried and counted like all others.
pub trait Judges: Debug + Send + Sync {
    /// Asks a judge and waits for its answer. Ask many questions at once: they are in flight together.
    fn ask(&self, questions: Vec<JudgeQuestion>) -> Vec<Result<Arc<str>, ModelError>>;
}

/// The judges of a run that has none.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoJudges;

impl Judges for NoJudges {
    fn ask(&self, questions: Vec<JudgeQuestion>) -> Vec<Result<Arc<str>, ModelError>> {
        questions.iter().map(|question| Err(unbound(&question.role))).collect()
    }
}

/// The error for a role that no model was bound to.
pub(crate) fn unbound(role: &str) -> ModelError {
    let message = format!("No judge is bound to the role `{role}`");
    ModelError::new(ModelErrorKind::Configuration, message)
        .hint(format!("Bind one with `--judge {role}=BACKEND,model=NAME,…`"))
}

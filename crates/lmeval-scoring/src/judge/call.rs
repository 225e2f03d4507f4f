//! Calls on judges and their outcomes.

use std::sync::Arc;

use lmeval_pycompat::{Dict, Value};

use super::spec::JudgeSpec;
use lmeval_core::{ChatMessage, Role};

/// One question to one judge about one answer.
#[derive(Clone, Debug)]
pub struct JudgeCall {
    /// The configuration that made the call and reads its answer.
    pub spec: Arc<JudgeSpec>,
    /// The pipeline that the answer was filtered by.
    pub pipeline: Arc<str>,
    /// The role of the judge.
    pub role: Arc<str>,
    /// The index of the judged answer among the repeats.
    pub prediction: usize,
    /// The index of the vote.
    pub sample: usize,
    /// Whether the judged answer is shown second.
    pub swapped: bool,
    /// The system message.
    pub system: Option<Arc<str>>,
    /// The rendered prompt, the user's message.
    pub prompt: Arc<str>,
    /// The string that a line with the verdict starts with; `None` if the prompt does not show one.
    pub marker: Option<Arc<str>>,
    /// The characters of the judged answer, and of the one that it is compared with.
    pub lengths: Option<(usize, usize)>,
}

impl JudgeCall {
    /// The call as a conversation.
    pub fn messages(&self) -> Vec<ChatMessage> {
        conversation(self.system.as_ref(), &self.prompt)
    }

    /// The generation settings of the request. A model that takes [`OPTIONAL_FIELDS`](lmeval_core::OPTIONAL_FIELDS) is asked
    /// to follow the schema of the task.
    pub fn generation(&self, takes_fields: bool) -> &Arc<Dict> {
        match &self.spec.guided {
            Some(guided) if takes_fields => &guided.generation,
            _ => &self.spec.generation,
        }
    }

    /// The number by which repeated questions are told apart: one for each vote and attempt.
    pub fn repeat(&self, attempts: usize) -> usize {
        self.sample + attempts * self.spec.samples
    }
}

/// A system message, if there is one, and a question.
pub(super) fn conversation(system: Option<&Arc<str>>, prompt: &Arc<str>) -> Vec<ChatMessage> {
    let system = system.map(|system| ChatMessage::new(Role::System, Arc::clone(system)));
    system.into_iter().chain([ChatMessage::new(Role::User, Arc::clone(prompt))]).collect()
}

/// The outcome of a call.
#[derive(Clone, Debug)]
pub struct Judgement {
    /// The pipeline that the judged answer was filtered by.
    pub pipeline: Arc<str>,
    /// The role of the judge.
    pub role: Arc<str>,
    /// The index of the judged answer among the repeats.
    pub prediction: usize,
    /// The index of the vote.
    pub sample: usize,
    /// Whether the judged answer was shown second; `None` if it was the only one.
    pub swapped: Option<bool>,
    /// The system message.
    pub system: Option<Arc<str>>,
    /// The rendered prompt, the user's message.
    pub prompt: Arc<str>,
    /// The judge's answer as received; `None` if the request failed.
    pub answer: Option<Arc<str>>,
    /// The label or number read from the answer.
    pub verdict: Option<String>,
    /// The value of the verdict on the scale of the task.
    pub value: Option<f64>,
    /// The reason that the judge gave.
    pub reason: Option<String>,
    /// How often the judge was asked.
    pub attempts: usize,
    /// The characters of the judged answer, and of the one that it was compared with.
    pub lengths: Option<(usize, usize)>,
}

impl Judgement {
    /// The outcome of a request that failed permanently.
    pub fn failed(call: &JudgeCall, attempts: usize) -> Self {
        Self {
            pipeline: Arc::clone(&call.pipeline),
            role: Arc::clone(&call.role),
            prediction: call.prediction,
            sample: call.sample,
            swapped: call.lengths.map(|_| call.swapped),
            system: call.system.clone(),
            prompt: Arc::clone(&call.prompt),
            answer: None,
            verdict: None,
            value: None,
            reason: None,
            attempts,
            lengths: call.lengths,
        }
    }

    /// Everything about the judgement, for [`Judgement::from_exact_value`].
    pub fn to_exact_value(&self) -> Value {
        let entry = self.to_value();
        let mut entry = entry.as_dict().cloned().unwrap_or_default();
        entry.insert("pipeline", Value::Str(Arc::clone(&self.pipeline)));
        if let Some((own, other)) = self.lengths {
            entry.insert("lengths", Value::list([Value::Int(own as i64), Value::Int(other as i64)]));
        }
        Value::from(entry)
    }

    /// Reads [`Judgement::to_exact_value`].
    pub fn from_exact_value(value: &Value) -> Option<Self> {
        let entry = value.as_dict()?;
        let text = |name: &str| match entry.get_str(name) {
            Some(Value::Str(text)) => Some(Arc::clone(text)),
            _ => None,
        };
        let size = |value: &Value| value.as_i64().and_then(|number| usize::try_from(number).ok());
        let count = |name: &str| entry.get_str(name).and_then(size);
        let lengths = match entry.get_str("lengths").and_then(Value::as_list) {
            Some([own, other]) => Some((size(own)?, size(other)?)),
            _ => None,
        };
        Some(Self {
            pipeline: text("pipeline")?,
            role: text("judge")?,
            prediction: count("prediction")?,
            sample: count("sample")?,
            swapped: entry.get_str("swapped").and_then(Value::as_bool),
            system: text("system"),
            prompt: text("prompt")?,
            answer: text("judgement"),
            verdict: text("verdict").map(|verdict| verdict.to_string()),
            value: entry.get_str("value").filter(|value| !value.is_none()).and_then(Value::to_f64),
            reason: text("reason").map(|reason| reason.to_string()),
            attempts: count("attempts")?,
            lengths,
        })
    }

    /// The entry of a sample record.
    pub fn to_value(&self) -> Value {
        let text = |text: Option<&str>| text.map_or(Value::None, Value::str);
        let mut entry = Dict::new();
        entry.insert("judge", Value::Str(Arc::clone(&self.role)));
        entry.insert("prediction", self.prediction as i64);
        entry.insert("sample", self.sample as i64);
        if let Some(swapped) = self.swapped {
            entry.insert("swapped", swapped);
        }
        entry.insert("system", text(self.system.as_deref()));
        entry.insert("prompt", Value::Str(Arc::clone(&self.prompt)));
        entry.insert("judgement", text(self.answer.as_deref()));
        entry.insert("verdict", text(self.verdict.as_deref()));
        entry.insert("value", self.value.map_or(Value::None, Value::Float));
        entry.insert("reason", text(self.reason.as_deref()));
        entry.insert("attempts", self.attempts as i64);
        Value::from(entry)
    }
}

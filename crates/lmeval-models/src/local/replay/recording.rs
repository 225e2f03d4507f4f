//! Recorded answers, looked up by request.

use std::sync::Arc;

use lmeval_core::recorded::RequestContent;
use lmeval_core::{ModelError, ModelErrorKind, ModelRequest, RequestType, Response};
use lmeval_pycompat::repr::repr;
use lmeval_pycompat::{Dict, Value};
use rustc_hash::{FxHashMap, FxHashSet};

use super::record::{Owner, OwnerTask, Recorded};

/// Characters of a prompt shown in an error.
const MAX_SHOWN_CHARS: usize = 200;

/// Answers by request.
#[derive(Debug, Default)]
pub(super) struct Recording {
    entries: FxHashMap<RequestContent, Vec<Recorded>>,
    /// Interned strings: the options of a question share its context.
    strings: FxHashSet<Arc<str>>,
    count: usize,
}

impl Recording {
    /// Appends an answer to those of the same request.
    pub(super) fn add(&mut self, key: RequestContent, mut recorded: Recorded) {
        let key = RequestContent {
            context: self.shared(key.context),
            continuation: self.shared(key.continuation),
            ..key
        };
        if let Some(Owner { task: OwnerTask::Named(task), .. }) = &mut recorded.owner {
            *task = self.shared(Arc::clone(task));
        }
        self.entries.entry(key).or_default().push(recorded);
        self.count += 1;
    }

    fn shared(&mut self, text: Arc<str>) -> Arc<str> {
        if let Some(known) = self.strings.get(&text) {
            return Arc::clone(known);
        }
        self.strings.insert(Arc::clone(&text));
        text
    }

    /// Drops data that is needed only while adding.
    pub(super) fn finish(&mut self) {
        self.strings = FxHashSet::default();
        self.entries.shrink_to_fit();
    }

    /// The number of answers.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Looks up the recorded answer to a request; `strict` compares generation settings too.
    pub(super) fn find(&self, request: &ModelRequest, strict: bool) -> Result<Response, ModelError> {
        let (key, kwargs) = RequestContent::of_request(request);
        let Some(recorded) = self.entries.get(&key) else {
            return Err(self.absent(request, &key));
        };
        let recorded: Vec<&Recorded> = match kwargs.filter(|_| strict) {
            None => recorded.iter().collect(),
            Some(kwargs) => recorded.iter().filter(|recorded| has_settings(recorded, kwargs)).collect(),
        };
        let recorded = preferred(recorded, request);
        match (recorded.get(request.repeat), recorded.first()) {
            (Some(found), _) => Ok(found.response.clone()),
            (None, Some(first)) if recorded.iter().all(|other| same(&other.response, &first.response)) => {
                Ok(first.response.clone())
            }
            (None, Some(_)) => {
                let message = format!(
                    "The recording has {} answers to {}, but repeat {} was requested: `{}`",
                    recorded.len(),
                    request.describe(),
                    request.repeat + 1,
                    shown_prompt(&key),
                );
                Err(ModelError::new(ModelErrorKind::Request, message))
            }
            (None, None) => Err(self.other_settings(request, &key, kwargs)),
        }
    }

    fn absent(&self, request: &ModelRequest, key: &RequestContent) -> ModelError {
        let message = format!("The recording has no {}: `{}`", request.describe(), shown_prompt(key));
        let error = ModelError::new(ModelErrorKind::Request, message);
        let is_chat = key.is_chat();
        let mut of_kind =
            self.entries.keys().filter(|other| other.kind == key.kind && !other.context.is_empty());
        let has_chats = of_kind.next().is_some_and(RequestContent::is_chat);
        match (is_chat, has_chats) {
            (false, true) => {
                return error
                    .hint("The recording holds chat prompts; add `--apply_chat_template` to replay it");
            }
            (true, false) if self.entries.keys().any(|other| other.kind == key.kind) => {
                return error.hint(
                    "The recording holds plain prompts; drop `--apply_chat_template`, or name the template that \
                     rendered them: `--model_args path=…,chat_template=FILE`",
                );
            }
            _ => {}
        }
        let owned = |recorded: &Recorded| recorded.owner.as_ref().is_some_and(|owner| is_of(owner, request));
        let requested = full_prompt(key);
        let near = self
            .entries
            .iter()
            .filter(|(other, recorded)| other.kind == key.kind && recorded.iter().any(owned))
            .map(|(other, _)| {
                let text = full_prompt(other);
                (requested.chars().zip(text.chars()).take_while(|(left, right)| left == right).count(), text)
            })
            .max_by(|left, right| left.0.cmp(&right.0).then_with(|| right.1.cmp(&left.1)));
        match near {
            None => error,
            Some((offset, text)) => error.hint(format!(
                "The recorded prompt of this document differs from character {offset} on: requested `{}`, recorded `{}`",
                around(&requested, offset),
                around(&text, offset),
            )),
        }
    }

    fn other_settings(
        &self,
        request: &ModelRequest,
        key: &RequestContent,
        kwargs: Option<&Arc<Dict>>,
    ) -> ModelError {
        let message = format!(
            "The recording has {} only with other generation settings: `{}`",
            request.describe(),
            shown_prompt(key),
        );
        let error = ModelError::new(ModelErrorKind::Request, message);
        let recorded = self.entries.get(key).and_then(|recorded| recorded.first()?.kwargs.as_ref());
        let show = |kwargs: Option<&Arc<Dict>>| {
            kwargs.map_or_else(String::new, |kwargs| repr(&Value::Dict(Arc::clone(kwargs))))
        };
        error
            .hint(format!("Requested `{}`, recorded `{}`", show(kwargs), show(recorded)))
            .hint("Drop `strict` to use the recorded answers anyway")
    }
}

fn has_settings(recorded: &Recorded, kwargs: &Arc<Dict>) -> bool {
    match &recorded.kwargs {
        Some(recorded) => Value::Dict(Arc::clone(recorded)) == Value::Dict(Arc::clone(kwargs)),
        None => kwargs.is_empty(),
    }
}

fn is_of(owner: &Owner, request: &ModelRequest) -> bool {
    owner.doc_id == request.doc_id.0 && owner.task.may_be(&request.task_name)
}

/// Among several answers, prefers those to the same document, then those to the same request of it. A samples
/// file `a--b` matches task `b` in group `a` only if no file matches `b` itself.
fn preferred<'book>(recorded: Vec<&'book Recorded>, request: &ModelRequest) -> Vec<&'book Recorded> {
    let narrow = |recorded: Vec<&'book Recorded>, keep: &dyn Fn(&Owner) -> bool| {
        let kept: Vec<&Recorded> =
            recorded.iter().copied().filter(|recorded| recorded.owner.as_ref().is_some_and(keep)).collect();
        if kept.is_empty() { recorded } else { kept }
    };
    if recorded.len() < 2 {
        return recorded;
    }
    let recorded = narrow(recorded, &|owner| is_of(owner, request));
    let recorded = narrow(recorded, &|owner| owner.task.is(&request.task_name) && is_of(owner, request));
    narrow(recorded, &|owner| is_of(owner, request) && owner.idx == Some(request.idx))
}

/// Bitwise equality of answers.
fn same(left: &Response, right: &Response) -> bool {
    match (left, right) {
        (
            Response::Loglikelihood { logprob, is_greedy },
            Response::Loglikelihood { logprob: other, is_greedy: also },
        ) => logprob.to_bits() == other.to_bits() && is_greedy == also,
        (Response::Rolling { logprob }, Response::Rolling { logprob: other }) => {
            logprob.to_bits() == other.to_bits()
        }
        (left, right) => left == right,
    }
}

fn full_prompt(key: &RequestContent) -> String {
    format!("{}{}", key.context, key.continuation)
}

fn shown_prompt(key: &RequestContent) -> String {
    let text = match key.kind {
        RequestType::Loglikelihood => format!("{}` + `{}", clip(&key.context), clip(&key.continuation)),
        RequestType::LoglikelihoodRolling => clip(&key.continuation),
        RequestType::GenerateUntil | RequestType::ChoiceLetters => clip(&key.context),
    };
    text.replace('\n', "\\n")
}

fn clip(text: &str) -> String {
    let mut clipped: String = text.chars().take(MAX_SHOWN_CHARS).collect();
    if clipped.len() < text.len() {
        clipped.push('…');
    }
    clipped
}

/// A few characters starting at an offset.
fn around(text: &str, offset: usize) -> String {
    text.chars().skip(offset).take(40).collect::<String>().replace('\n', "\\n")
}

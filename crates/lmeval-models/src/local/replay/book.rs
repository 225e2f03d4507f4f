//! The answers of a recording, looked up by what is asked.

use std::sync::Arc;

use lmeval_core::{Arguments, ModelError, ModelErrorKind, ModelRequest, RequestType, Response};
use lmeval_pycompat::repr::repr;
use lmeval_pycompat::{Dict, Value};
use rustc_hash::{FxHashMap, FxHashSet};

use super::record::{Key, Owner, OwnerTask, Recorded, context_of_request, is_conversation};

/// How much of a text an error shows.
const SHOWN: usize = 200;

/// Answers by request.
#[derive(Debug, Default)]
pub(super) struct Book {
    entries: FxHashMap<Key, Vec<Recorded>>,
    /// Texts that come in many requests, once: the options of a question share its context.
    texts: FxHashSet<Arc<str>>,
    count: usize,
}

impl Book {
    /// Adds an answer behind those to the same request.
    pub(super) fn add(&mut self, key: Key, mut recorded: Recorded) {
        let key =
            Key { context: self.shared(key.context), continuation: self.shared(key.continuation), ..key };
        if let Some(Owner { task: OwnerTask::Named(task), .. }) = &mut recorded.owner {
            *task = self.shared(Arc::clone(task));
        }
        self.entries.entry(key).or_default().push(recorded);
        self.count += 1;
    }

    fn shared(&mut self, text: Arc<str>) -> Arc<str> {
        if let Some(known) = self.texts.get(&text) {
            return Arc::clone(known);
        }
        self.texts.insert(Arc::clone(&text));
        text
    }

    /// Forgets what only adding needs.
    pub(super) fn finish(&mut self) {
        self.texts = FxHashSet::default();
        self.entries.shrink_to_fit();
    }

    /// How many answers there are.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// The recorded answer to a request; `strict` compares generation settings too.
    pub(super) fn find(&self, request: &ModelRequest, strict: bool) -> Result<Response, ModelError> {
        let (key, kwargs) = key_of(request);
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
                    "The recording has {} answers to {}, and repeat {} is asked for: `{}`",
                    recorded.len(),
                    request.describe(),
                    request.repeat + 1,
                    start(&key),
                );
                Err(ModelError::new(ModelErrorKind::Request, message))
            }
            (None, None) => Err(self.other_settings(request, &key, kwargs)),
        }
    }

    fn absent(&self, request: &ModelRequest, key: &Key) -> ModelError {
        let message = format!("The recording has no {}: `{}`", request.describe(), start(key));
        let error = ModelError::new(ModelErrorKind::Request, message);
        let is_chat = is_conversation(&key.context);
        let mut of_kind =
            self.entries.keys().filter(|other| other.kind == key.kind && !other.context.is_empty());
        let has_chats = of_kind.next().is_some_and(|other| is_conversation(&other.context));
        match (is_chat, has_chats) {
            (false, true) => {
                return error
                    .hint("The recording holds conversations; add `--apply_chat_template` to replay it");
            }
            (true, false) if self.entries.keys().any(|other| other.kind == key.kind) => {
                return error.hint(
                    "The recording holds prompts as text; leave out `--apply_chat_template`, or name the template that \
                     made them: `--model_args path=…,chat_template=FILE`",
                );
            }
            _ => {}
        }
        let owned = |recorded: &Recorded| recorded.owner.as_ref().is_some_and(|owner| is_of(owner, request));
        let asked = whole(key);
        let near = self
            .entries
            .iter()
            .filter(|(other, recorded)| other.kind == key.kind && recorded.iter().any(owned))
            .map(|(other, _)| {
                let text = whole(other);
                (asked.chars().zip(text.chars()).take_while(|(left, right)| left == right).count(), text)
            })
            .max_by(|left, right| left.0.cmp(&right.0).then_with(|| right.1.cmp(&left.1)));
        match near {
            None => error,
            Some((place, text)) => error.hint(format!(
                "What is recorded for this document differs from character {place} on: asked is `{}`, recorded `{}`",
                around(&asked, place),
                around(&text, place),
            )),
        }
    }

    fn other_settings(&self, request: &ModelRequest, key: &Key, kwargs: Option<&Arc<Dict>>) -> ModelError {
        let message = format!(
            "The recording has {} with other generation settings only: `{}`",
            request.describe(),
            start(key),
        );
        let error = ModelError::new(ModelErrorKind::Request, message);
        let recorded = self.entries.get(key).and_then(|recorded| recorded.first()?.kwargs.as_ref());
        let show = |kwargs: Option<&Arc<Dict>>| {
            kwargs.map_or_else(String::new, |kwargs| repr(&Value::Dict(Arc::clone(kwargs))))
        };
        error
            .hint(format!("Asked are `{}`, recorded `{}`", show(kwargs), show(recorded)))
            .hint("Leave `strict` out to use them all the same")
    }
}

fn key_of(request: &ModelRequest) -> (Key, Option<&Arc<Dict>>) {
    let kind = request.request_type();
    match &request.arguments {
        Arguments::Loglikelihood { context, continuation } => {
            (Key { kind, context: context_of_request(context), continuation: Arc::clone(continuation) }, None)
        }
        Arguments::Rolling { text } => {
            (Key { kind, context: "".into(), continuation: Arc::clone(text) }, None)
        }
        Arguments::Generate { context, kwargs } => {
            (Key { kind, context: context_of_request(context), continuation: "".into() }, Some(kwargs))
        }
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

/// Of several answers those that were given to the same document, and of these those to the same of its requests. A file
/// of `a--b` is that of `b` in the group `a` only where no file is that of `b` itself.
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

/// Whether two answers are the same to the last bit.
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

/// Context and continuation.
fn whole(key: &Key) -> String {
    format!("{}{}", key.context, key.continuation)
}

fn start(key: &Key) -> String {
    let text = match key.kind {
        RequestType::Loglikelihood => format!("{}` + `{}", clip(&key.context), clip(&key.continuation)),
        RequestType::LoglikelihoodRolling => clip(&key.continuation),
        RequestType::GenerateUntil => clip(&key.context),
    };
    text.replace('\n', "\\n")
}

fn clip(text: &str) -> String {
    let mut clipped: String = text.chars().take(SHOWN).collect();
    if clipped.len() < text.len() {
        clipped.push('…');
    }
    clipped
}

/// A few characters from a place on.
fn around(text: &str, place: usize) -> String {
    text.chars().skip(place).take(40).collect::<String>().replace('\n', "\\n")
}

//! Entries to fill journals with.

use std::path::Path;
use std::sync::Arc;

use lmeval_core::{Answer, Finish, Letter, ModelIdentity, RequestType, Response, Trace, Usage};
use lmeval_journal::{Entry, Fingerprint, Journal, Key, Outcome, request_hash};
use lmeval_pycompat::Value;

pub(crate) fn identity(name: &str) -> ModelIdentity {
    ModelIdentity { backend: "test".into(), facts: vec![("model", name.into()), ("revision", "main".into())] }
}

pub(crate) fn key(model: Fingerprint, index: usize) -> Key {
    let hash = request_hash("test", &[Value::Int(index as i64)]).unwrap();
    Key::new(model, &hash, 0, None)
}

pub(crate) fn kind(index: usize) -> RequestType {
    match index % 3 {
        _ if index % 16 == 15 => RequestType::ChoiceLetters,
        0 => RequestType::Loglikelihood,
        1 => RequestType::LoglikelihoodRolling,
        _ => RequestType::GenerateUntil,
    }
}

/// Answers of all types, some of them long.
pub(crate) fn answer(index: usize) -> Answer {
    let logprob = -(index as f64) / 3.0;
    let response = match kind(index) {
        RequestType::Loglikelihood => Response::Loglikelihood { logprob, is_greedy: index.is_multiple_of(2) },
        RequestType::LoglikelihoodRolling => Response::Rolling { logprob },
        RequestType::GenerateUntil => Response::Text(format!("Antwört {index} ").repeat(index % 7).into()),
        RequestType::ChoiceLetters => {
            let listed = Letter { logprob: Some(logprob), upper: logprob, is_greedy: true };
            let missing = Letter { logprob: None, upper: logprob / 2.0, is_greedy: false };
            Response::Letters(Arc::from([listed, missing]))
        }
    };
    let usage = Usage { prompt_tokens: index as u64 * 100, completion_tokens: index as u64 };
    let finish = if index.is_multiple_of(5) { Finish::CutOff } else { Finish::Complete };
    let trace = Trace { reasoning: "why ".repeat(index % 4).into(), ..Trace::default() };
    let trace = (kind(index) == RequestType::GenerateUntil).then(|| trace.into());
    Answer { response, finish, usage, trace }
}

pub(crate) fn entry(model: Fingerprint, index: usize) -> Entry {
    with_outcome(model, index, Outcome::Answered(answer(index)))
}

pub(crate) fn failure(model: Fingerprint, index: usize) -> Entry {
    with_outcome(model, index, Outcome::Failed { message: format!("Failure {index}") })
}

fn with_outcome(model: Fingerprint, index: usize, outcome: Outcome) -> Entry {
    let task = if index.is_multiple_of(2) { "even" } else { "odd" };
    let (key, kind) = (key(model, index), kind(index));
    Entry { key, task: task.into(), doc_id: index, idx: 0, repeat: 0, kind, outcome }
}

/// A journal with the answers to requests 0 to `entries`.
pub(crate) fn filled(path: &Path, entries: usize) -> (Journal, Fingerprint) {
    let (journal, _) = Journal::open(path).unwrap();
    let model = journal.register_model(&identity("a")).unwrap();
    (0..entries).for_each(|index| journal.append_blocking(entry(model, index)).unwrap());
    (journal, model)
}

/// Whether a request is answered. Fails the test on a wrong answer.
pub(crate) fn is_answered(journal: &Journal, model: Fingerprint, index: usize) -> bool {
    let found = journal.get(&key(model, index), kind(index)).unwrap();
    if let Some(found) = &found {
        assert_eq!(*found, answer(index));
    }
    found.is_some()
}

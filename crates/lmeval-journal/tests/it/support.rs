//! Entries to fill journals with.

use std::path::Path;

use lmeval_core::{Answer, ModelIdentity, RequestType, Response, Usage};
use lmeval_journal::{Entry, Fingerprint, Journal, Key, Outcome, request_hash};
use lmeval_pycompat::Value;

/// A model with a name.
pub(crate) fn identity(name: &str) -> ModelIdentity {
    ModelIdentity { backend: "test".into(), facts: vec![("model", name.into()), ("revision", "main".into())] }
}

/// The key of a numbered request.
pub(crate) fn key(model: Fingerprint, number: usize) -> Key {
    let hash = request_hash("test", &[Value::Int(number as i64)]).unwrap();
    Key::new(model, &hash, 0, None)
}

/// The kind of a numbered request.
pub(crate) fn kind(number: usize) -> RequestType {
    match number % 3 {
        0 => RequestType::Loglikelihood,
        1 => RequestType::LoglikelihoodRolling,
        _ => RequestType::GenerateUntil,
    }
}

/// The answer to a numbered request: of every kind, some of them long.
pub(crate) fn answer(number: usize) -> Answer {
    let logprob = -(number as f64) / 3.0;
    let response = match kind(number) {
        RequestType::Loglikelihood => {
            Response::Loglikelihood { logprob, is_greedy: number.is_multiple_of(2) }
        }
        RequestType::LoglikelihoodRolling => Response::Rolling { logprob },
        RequestType::GenerateUntil => Response::Text(format!("Antwört {number} ").repeat(number % 7).into()),
    };
    let usage = Usage { prompt_tokens: number as u64 * 100, completion_tokens: number as u64 };
    Answer { response, truncated: number.is_multiple_of(5), usage }
}

/// A numbered entry that is answered.
pub(crate) fn entry(model: Fingerprint, number: usize) -> Entry {
    with_outcome(model, number, Outcome::Answered(answer(number)))
}

/// A numbered entry that failed.
pub(crate) fn failure(model: Fingerprint, number: usize) -> Entry {
    with_outcome(model, number, Outcome::Failed { message: format!("Failure {number}") })
}

fn with_outcome(model: Fingerprint, number: usize, outcome: Outcome) -> Entry {
    let task = if number.is_multiple_of(2) { "even" } else { "odd" };
    let (key, kind) = (key(model, number), kind(number));
    Entry { key, task: task.into(), doc_id: number, idx: 0, repeat: 0, kind, outcome }
}

/// A journal with the answers to the first requests.
pub(crate) fn filled(path: &Path, entries: usize) -> (Journal, Fingerprint) {
    let (journal, _) = Journal::open(path).unwrap();
    let model = journal.register_model(&identity("a")).unwrap();
    (0..entries).for_each(|number| journal.append_blocking(entry(model, number)).unwrap());
    (journal, model)
}

/// Whether a numbered request is answered; a wrong answer is a failure of the test.
pub(crate) fn is_answered(journal: &Journal, model: Fingerprint, number: usize) -> bool {
    let found = journal.get(&key(model, number), kind(number)).unwrap();
    if let Some(found) = &found {
        assert_eq!(*found, answer(number));
    }
    found.is_some()
}

/// A small source of numbers that look random.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    /// A number below a limit.
    pub(crate) fn roll(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}

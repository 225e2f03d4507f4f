//! Append-only log of answers: response cache, resume state and source of exports in one file.
//!
//! Every finished request is one checksummed record. Its key combines the model's identity, the request with its
//! settings, and the repeat, so that an answer is never returned for another model. A killed process leaves at
//! most one incomplete record at the end, which the next open truncates.
//!
//! ```
//! use lmeval_core::{Answer, ModelIdentity, RequestType, Response};
//! use lmeval_journal::{Entry, Journal, Key, Outcome, request_hash};
//! use lmeval_pycompat::Value;
//!
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("answers.journal");
//! let (journal, opened) = Journal::open(&path).unwrap();
//! assert_eq!(opened.answers, 0);
//! let identity = ModelIdentity { backend: "dummy".into(), facts: vec![("seed", "1".into())] };
//! let model = journal.register_model(&identity).unwrap();
//! let request = request_hash("loglikelihood", &[Value::str("Q:"), Value::str(" A")]).unwrap();
//! let key = Key::new(model, &request, 0, None);
//! let response = Response::Loglikelihood { logprob: -1.5, is_greedy: true };
//! let kind = RequestType::Loglikelihood;
//! let outcome = Outcome::Answered(Answer::from(response));
//! let entry = Entry { key, task: "mine".into(), doc_id: 0, idx: 0, repeat: 0, kind, outcome };
//! journal.append_blocking(entry).unwrap();
//! assert!(journal.get(&key, kind).unwrap().is_some());
//! journal.close().unwrap();
//! ```

mod codec;
mod error;
mod header;
mod import;
mod index;
mod journal;
mod key;
mod lock;
mod medium;
mod reader;
mod record;
mod scan;
mod survey;
mod tools;
mod writer;

pub use error::{Error, ErrorKind};
pub use import::{Imported, old_caches};
pub use journal::{Journal, Opened};
pub use key::{Fingerprint, Key, request_hash};
pub use lock::Lock;
pub use reader::SavedAnswers;
pub use record::{Entry, Outcome, StoredModel};
pub use scan::Damage;
pub use tools::{
    Compacted, Conflict, Exported, Listing, Merged, ModelSummary, Problem, TaskSummary, Verification,
    compact, export, list, merge, verify,
};

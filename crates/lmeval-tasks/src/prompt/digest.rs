//! Digests of the data that requests are built from and of their conversations, for recognising those of other runs.

use std::sync::{Arc, Mutex, PoisonError};

use lmeval_core::{ChatMessage, DocId};
use lmeval_pycompat::{Dict, Value, repr};
use lmeval_scoring::results::{hash_of_hashes, hash_text, hash_values};
use rustc_hash::FxHashMap;

use super::example::Pool;
use super::plan::Plan;

/// The hash of a document's values.
pub(super) type DocumentHash = [u8; 32];

/// The digest of selected documents and of the examples drawn for them, in order.
///
/// It does not depend on the [part](super::Part) of the documents whose requests are built, so all parts of one run
/// have the same.
#[derive(Debug, Default)]
pub(super) struct DataDigest {
    state: DocumentHash,
    /// The hashes of examples, by their index in the pool.
    examples: FxHashMap<usize, DocumentHash>,
}

impl DataDigest {
    /// Adds the next document by its hash, with the indices of its examples in the pool.
    pub(super) fn add(&mut self, hash: &DocumentHash, examples: &[usize], pool: Option<&Pool>) {
        self.state = hash_of_hashes([&self.state, hash]);
        for index in examples {
            let example = self.examples.entry(*index).or_insert_with(|| {
                let document = pool.and_then(|pool| pool.document(*index).ok());
                document.map_or_else(DocumentHash::default, |document| hash_values(&document))
            });
            self.state = hash_of_hashes([&self.state, example]);
        }
    }

    /// The digest of all documents added so far, in hexadecimal.
    pub(super) fn value(&self) -> String {
        self.state.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat()
    }
}

/// The digest of conversations in any order: the sum of their hashes, so that those of parts add up to the whole.
#[derive(Debug, Default)]
pub(crate) struct Conversations(Mutex<u128>);

impl Conversations {
    /// Adds a conversation.
    pub(super) fn add(&self, messages: &[ChatMessage], add_generation_prompt: bool) {
        let messages = Value::list(messages.iter().map(ChatMessage::to_value));
        let hash = hash_text(&format!("{add_generation_prompt} {}", repr::repr(&messages)));
        let number = hash.get(..32).and_then(|digits| u128::from_str_radix(digits, 16).ok());
        let mut sum = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *sum = sum.wrapping_add(number.unwrap_or_default());
    }

    /// Forgets the conversations that were added since the sum was `before`.
    pub(super) fn reset(&self, before: u128) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = before;
    }

    /// The digest of all conversations so far.
    pub(super) fn sum(&self) -> u128 {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Plan {
    /// The hash of a document's requests, which leaves no trace in the digest of conversations.
    ///
    /// A document that cannot be rendered has the hash of one without requests; whoever evaluates it reports why.
    pub(super) fn hash_requests(&self, doc_id: DocId, document: &Arc<Dict>, examples: &[usize]) -> String {
        let before = self.conversations.sum();
        let built = self.requests(doc_id, document, examples, None);
        self.conversations.reset(before);
        let instances = built.ok().and_then(Result::ok).map(|(instances, _)| instances).unwrap_or_default();
        let arguments = instances.iter().map(|instance| Value::from(instance.args(&self.dialect)));
        hash_text(&repr::repr(&Value::list(arguments)))
    }
}

//! Model fingerprints and request keys.

use std::fmt;

use lmeval_core::ModelIdentity;
use lmeval_pycompat::Value;
use lmeval_pycompat::json::{self, EncodeError};
use sha2::{Digest, Sha256};

/// The hash of a model's identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint(pub(crate) [u8; 16]);

impl Fingerprint {
    /// Hashes an identity. Every part is prefixed with its length, so that different facts cannot hash alike by
    /// concatenation.
    pub fn of(identity: &ModelIdentity) -> Self {
        let facts = identity.facts.iter().map(|(name, fact)| (*name, fact.as_str()));
        Self::of_parts(&identity.backend, facts)
    }

    pub(crate) fn of_parts<'a>(
        backend: &str,
        facts: impl ExactSizeIterator<Item = (&'a str, &'a str)>,
    ) -> Self {
        let mut hash = Parts::new("lm-eval model 1");
        hash.string(backend);
        hash.integer(facts.len() as u64);
        for (name, fact) in facts {
            hash.string(name);
            hash.string(fact);
        }
        Self(hash.finish())
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hexadecimal(f, &self.0)
    }
}

/// The hash of a request in the reference's response cache: SHA-256 of `json.dumps([method, *args])`.
///
/// ```
/// use lmeval_journal::request_hash;
/// use lmeval_pycompat::Value;
///
/// let hash = request_hash("loglikelihood", &[Value::str("café"), Value::str(" x")]).unwrap();
/// assert_eq!(hash[..4], [0x1c, 0xfb, 0x57, 0x09]);
/// ```
pub fn request_hash(method: &str, args: &[Value]) -> Result<[u8; 32], EncodeError> {
    let request = std::iter::once(Value::str(method)).chain(args.iter().cloned());
    let text = json::dumps(&Value::list(request), &json::Options::default())?;
    Ok(Sha256::digest(text.as_bytes()).into())
}

/// The key of an answer: model, request and repeat.
///
/// Displayed as the hexadecimal digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    pub(crate) digest: [u8; 16],
    pub(crate) model: Fingerprint,
}

impl Key {
    /// The key of the `repeat`th answer (from 0) of `model` to a request. `document` (task and index) is part of
    /// the key for models whose answers depend on the document.
    ///
    /// Imported answers have repeat 0 and no document.
    pub fn new(
        model: Fingerprint,
        request_hash: &[u8; 32],
        repeat: usize,
        document: Option<(&str, usize)>,
    ) -> Self {
        let mut hash = Parts::new("lm-eval answer 1");
        hash.bytes(&model.0);
        hash.bytes(request_hash);
        hash.integer(repeat as u64);
        hash.integer(u64::from(document.is_some()));
        if let Some((task, doc_id)) = document {
            hash.string(task);
            hash.integer(doc_id as u64);
        }
        Self { digest: hash.finish(), model }
    }

    /// The model that gave the answer.
    pub fn model(&self) -> Fingerprint {
        self.model
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hexadecimal(f, &self.digest)
    }
}

fn write_hexadecimal(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

/// A hash over length-prefixed parts.
struct Parts(Sha256);

impl Parts {
    fn new(domain: &str) -> Self {
        let mut parts = Self(Sha256::new());
        parts.string(domain);
        parts
    }

    fn integer(&mut self, number: u64) {
        self.0.update(number.to_le_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.integer(bytes.len() as u64);
        self.0.update(bytes);
    }

    fn string(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    fn finish(self) -> [u8; 16] {
        let digest: [u8; 32] = self.0.finalize().into();
        let mut half = [0; 16];
        half.copy_from_slice(&digest[..16]);
        half
    }
}

#[cfg(test)]
mod tests {
    use lmeval_pycompat::Dict;

    use super::*;

    fn hexadecimal(method: &str, args: &[Value]) -> String {
        let hash = request_hash(method, args).unwrap();
        let (first, last) = hash.split_at(16);
        let halves = [first, last].map(|half| Fingerprint(half.try_into().unwrap()).to_string());
        halves.concat()
    }

    #[test]
    fn request_hashes_match_reference() {
        let prompt = Value::str("Q: What is 0+0?\nA:");
        let mut kwargs = Dict::new();
        kwargs.insert("until", Value::list([Value::str("\n")]));
        kwargs.insert("max_gen_toks", 16);
        let vectors = [
            (
                hexadecimal("loglikelihood", &[prompt.clone(), Value::str(" zero")]),
                "23ac338635f35d88981318ef1544ea2ba6e981cf7e0fd4bd0424a9e72989dfd3",
            ),
            (
                hexadecimal("generate_until", &[prompt, Value::from(kwargs)]),
                "4071458b28668474900ff5c33c00e87ce3f159269307de53e535ab21eedd9924",
            ),
            (
                hexadecimal(
                    "loglikelihood_rolling",
                    &[Value::str(""), Value::str("What is 0+0? some more words")],
                ),
                "2b1cff55851f676774cc57506ca82eec75e18a3c4ff9c222d56f570633969106",
            ),
            (
                hexadecimal("loglikelihood", &[Value::str("café"), Value::str(" x")]),
                "1cfb5709806ab6ae081d3f3eef0a2cbd74db66165c2385e1690beecdcd111349",
            ),
        ];
        for (hash, expected) in vectors {
            assert_eq!(hash, expected);
        }
    }

    #[test]
    fn rejects_values_json_cannot_hold() {
        request_hash("generate_until", &[Value::Bytes([1_u8].as_slice().into())]).unwrap_err();
    }

    fn identity(backend: &str, facts: &[(&'static str, &str)]) -> Fingerprint {
        let facts = facts.iter().map(|(name, fact)| (*name, (*fact).to_owned())).collect();
        Fingerprint::of(&ModelIdentity { backend: backend.into(), facts })
    }

    #[test]
    fn facts_are_delimited() {
        let fingerprints = [
            identity("hf", &[]),
            identity("hf", &[("model", "a")]),
            identity("hf", &[("model", "a"), ("revision", "")]),
            identity("hf", &[("model", "a, revision ")]),
            identity("hf", &[("model", ""), ("a", "")]),
            identity("hf, model a", &[]),
            identity("hfmodel", &[("a", "")]),
        ];
        for (at, one) in fingerprints.iter().enumerate() {
            assert!(!fingerprints[at + 1..].contains(one), "{at}");
        }
        assert_eq!(fingerprints[1], identity("hf", &[("model", "a")]));
    }

    #[test]
    fn key_depends_on_every_part() {
        let (one, other) = (identity("one", &[]), identity("other", &[]));
        let (question, answer) = ([1; 32], [2; 32]);
        let keys = [
            Key::new(one, &question, 0, None),
            Key::new(other, &question, 0, None),
            Key::new(one, &answer, 0, None),
            Key::new(one, &question, 1, None),
            Key::new(one, &question, 0, Some(("", 0))),
            Key::new(one, &question, 0, Some(("task", 0))),
            Key::new(one, &question, 0, Some(("task", 1))),
        ];
        for (at, key) in keys.iter().enumerate() {
            assert!(!keys[at + 1..].iter().any(|later| later.digest == key.digest), "{at}");
        }
        // Stored in files: must never change.
        assert_eq!(keys[0].to_string(), KEY);
        assert_eq!(one.to_string(), FINGERPRINT);
    }

    const KEY: &str = "8cda8d6b6c431f2f5cd865cd1818d00d";
    const FINGERPRINT: &str = "533866e450f7a4201468eb1c9b7518df";
}

//! Hashes for comparing samples across runs.

use std::fmt::Write as _;

use lmeval_pycompat::json::{self, EncodeError};
use lmeval_pycompat::{Dict, Value, repr};
use sha2::{Digest, Sha256};

use lmeval_core::Dialect;
use lmeval_core::{Arguments, Context, Instance};

/// The SHA-256 of a string, in lower-case hexadecimal.
///
/// ```
/// assert!(lmeval_scoring::results::hash_text("").starts_with("e3b0c442"));
/// ```
pub fn hash_text(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    digest.iter().fold(String::with_capacity(64), |mut hash, byte| {
        // Writing to a string cannot fail.
        let _ = write!(hash, "{byte:02x}");
        hash
    })
}

/// The SHA-256 of a document's values, by their types and contents: cheaper than that of its JSON.
///
/// ```
/// use lmeval_scoring::results::hash_values;
/// use lmeval_pycompat::Dict;
///
/// let document = |text: &str| Dict::from_iter([("a".into(), text.into())]);
/// assert_eq!(hash_values(&document("x")), hash_values(&document("x")));
/// assert_ne!(hash_values(&document("x")), hash_values(&document("y")));
/// ```
pub fn hash_values(document: &Dict) -> [u8; 32] {
    let mut hasher = Sha256::new();
    add_entries(&mut hasher, document);
    hasher.finalize().into()
}

/// The SHA-256 of several hashes in order.
pub fn hash_of_hashes<'a>(hashes: impl IntoIterator<Item = &'a [u8; 32]>) -> [u8; 32] {
    let hasher = hashes.into_iter().fold(Sha256::new(), Digest::chain_update);
    hasher.finalize().into()
}

fn add_entries(hasher: &mut Sha256, dict: &Dict) {
    add_tagged(hasher, b'd', (dict.len() as u64).to_le_bytes());
    for (key, value) in dict.iter() {
        add_value(hasher, key);
        add_value(hasher, value);
    }
}

fn add_value(hasher: &mut Sha256, value: &Value) {
    match value {
        Value::None => hasher.update(b"n"),
        Value::Bool(truth) => hasher.update([b'b', u8::from(*truth)]),
        Value::Int(number) => add_tagged(hasher, b'i', number.to_le_bytes()),
        Value::Float(number) => add_tagged(hasher, b'f', number.to_bits().to_le_bytes()),
        Value::Str(text) => {
            add_tagged(hasher, b's', (text.len() as u64).to_le_bytes());
            hasher.update(text.as_bytes());
        }
        Value::Bytes(bytes) => {
            add_tagged(hasher, b'y', (bytes.len() as u64).to_le_bytes());
            hasher.update(bytes);
        }
        Value::List(items) | Value::Tuple(items) | Value::Set(items) => {
            add_tagged(hasher, b'l', (items.len() as u64).to_le_bytes());
            items.iter().for_each(|item| add_value(hasher, item));
        }
        Value::Dict(dict) => add_entries(hasher, dict),
        Value::BigInt(_) | Value::Date(_) | Value::DateTime(_) | Value::Function(_) | Value::Media(_) => {
            let text = repr::repr(value);
            add_tagged(hasher, b'o', (text.len() as u64).to_le_bytes());
            hasher.update(text.as_bytes());
        }
    }
}

fn add_tagged(hasher: &mut Sha256, tag: u8, bytes: [u8; 8]) {
    hasher.update([tag]);
    hasher.update(bytes);
}

/// The hash of a document's JSON with an indent of two.
pub(crate) fn hash_document(document: &Dict) -> Result<String, EncodeError> {
    let options = json::Options {
        ensure_ascii: false,
        indent: Some(2),
        default: Some(&replace_foreign),
        ..json::Options::default()
    };
    Ok(hash_text(&json::dumps(&Value::from(document.clone()), &options)?))
}

/// The hash of a prompt: the first argument of the document's first request.
pub(crate) fn hash_prompt(first: &Instance, dialect: &Dialect) -> String {
    match &first.arguments {
        Arguments::Rolling { .. } if dialect.rolling_context => hash_text(""),
        Arguments::Rolling { text } => hash_text(text),
        Arguments::Loglikelihood { context, .. }
        | Arguments::Generate { context, .. }
        | Arguments::Letters { context, .. } => match context {
            Context::Json(text) if !dialect.json_prompts_are_records => hash_text(text),
            context => hash_text(&context.hash_text()),
        },
    }
}

/// The hash of a target's `str`.
pub(crate) fn hash_target(target: &Value) -> String {
    match target {
        Value::Str(text) => hash_text(text),
        other => hash_text(&repr::str(other)),
    }
}

/// The JSON replacement of a value that JSON does not support: a list for a set, otherwise the value's `str`.
pub fn replace_foreign(value: &Value) -> Option<Value> {
    Some(match value {
        Value::Set(items) => Value::List(items.clone()),
        Value::Media(media) => lmeval_media::summary(media),
        other => Value::from(repr::str(other)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use lmeval_core::Context;

    #[test]
    fn document_hashes_match_recording() {
        let document =
            json::loads(r#"{"q":"é \"x\"\n","n":1.0,"k":1e-05,"l":[1,[]],"e":{},"b":true,"z":null}"#);
        let Ok(Value::Dict(document)) = document else { panic!("not a document") };
        assert_eq!(
            hash_document(&document).unwrap(),
            "e7ddee618142234468e7781761234285f2e672fc09781592a656de2279110ed3"
        );
    }

    #[test]
    fn target_hashes_match_recording() {
        for (target, hash) in [
            (
                Value::list([Value::Int(0), Value::Int(2)]),
                "63cbaf561c188d36f4dbafe6d8dc1bcec36aca66073c6bfd5c9787663f4efd99",
            ),
            (
                Value::list([Value::str("a"), Value::str("it's")]),
                "00169b4825fdb6932e305e9b57af8fca11a4ebdae4a35059ab2bbf76ea62cfab",
            ),
            (Value::None, "dc937b59892604f5a86ac96936cd7ff09e25f18ae6b758e8014a24c7fa039e91"),
        ] {
            assert_eq!(hash_target(&target), hash);
        }
    }

    #[test]
    fn conversations_are_hashed_by_repr() {
        let message = lmeval_core::ChatMessage { role: lmeval_core::Role::User, content: "hi".into() };
        let context = Context::Messages(vec![message].into());
        assert_eq!(
            hash_text(&context.hash_text()),
            "8818f7594f1f97257a456cefc0f540c9cacabda23b8b468f95dca4aa817c249d"
        );
    }
}

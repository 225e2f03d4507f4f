//! Markers: strings that a judge writes before its verdict, and that no judged answer can contain.

use lmeval_pycompat::{Value, repr};
use sha2::{Digest as _, Sha256};

use crate::scorers::{ScoreError, ScoringInput};

/// The variable of templates with the marker.
pub(super) const MARKER: &str = "marker";

/// The digits of a marker, without letters that look like others.
const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// The length of a marker. Twelve digits have 60 bits.
const LENGTH: usize = 12;

/// The marker of the questions about a document.
///
/// It is a hash of the document and of everything that the judge sees of the evaluated model. An answer that contains its
/// own marker would have to contain its own hash, so a model cannot write it, even if it has seen the markers of other
/// runs. The same answers have the same marker, so that stored judgements are found again.
pub(super) fn marker(
    input: &ScoringInput<'_>,
    predictions: &[String],
    other: Option<&str>,
) -> Result<String, ScoreError> {
    let instance = &input.first()?.instance;
    let document = Value::Dict(input.document.document.clone());
    let (document, target) = (repr::repr(&document), repr::repr(&instance.target));
    let doc_id = input.doc_id().0.to_string();
    let facts = ["lm-eval judge marker", &instance.task_name, input.pipeline, &doc_id, &document, &target];
    let judged = predictions.iter().map(String::as_str).chain(other);
    let mut hash = Sha256::new();
    for part in facts.into_iter().chain(judged) {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    let digits = hash.finalize().iter().take(LENGTH).map(|byte| DIGITS[usize::from(byte % 32)]).collect();
    Ok(String::from_utf8(digits).expect("the digits are ASCII"))
}

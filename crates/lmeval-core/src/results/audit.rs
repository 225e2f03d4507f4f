//! Counts of answers that a score alone would hide.

use std::ops::Add;

use lmeval_pycompat::Dict;
use lmeval_pycompat::Value;
use lmeval_pycompat::strings::is_space;

use crate::OutputType;
use crate::instance::RequestType;
use crate::scorers::AnsweredDocument;

/// How many documents and answers of a pipeline are odd.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// Documents that were scored.
    pub documents: usize,
    /// Documents whose target is not among their options, which count as wrong.
    pub unresolved_targets: usize,
    /// Generated answers.
    pub answers: usize,
    /// Generated answers without any text.
    pub empty: usize,
    /// Generated answers of white space alone.
    pub whitespace_only: usize,
    /// Generated answers that were cut off.
    pub truncated: usize,
    /// Answers in which a filter did not find what it looks for.
    pub extraction_failed: usize,
    /// Documents that were left out because a request about them failed for good.
    pub errored: usize,
}

impl Audit {
    /// What can be counted without looking at what filters made of the answers.
    pub fn of_answers(documents: &[AnsweredDocument], output_type: OutputType) -> Self {
        let mut audit = Self { documents: documents.len(), ..Self::default() };
        for document in documents {
            let first = document.answers.first();
            if output_type == OutputType::MultipleChoice
                && first.is_some_and(|first| is_unresolved(&first.instance.gold))
            {
                audit.unresolved_targets += 1;
            }
            for answer in &document.answers {
                if answer.instance.request_type != RequestType::GenerateUntil {
                    continue;
                }
                audit.truncated += answer.truncated;
                audit.answers += answer.responses.len();
                for text in answer.responses.iter().filter_map(Value::as_str) {
                    if text.is_empty() {
                        audit.empty += 1;
                    } else if text.chars().all(is_space) {
                        audit.whitespace_only += 1;
                    }
                }
            }
        }
        audit
    }

    /// The counts by name.
    pub fn to_dict(&self) -> Dict {
        [
            ("documents", self.documents),
            ("unresolved_targets", self.unresolved_targets),
            ("answers", self.answers),
            ("empty", self.empty),
            ("whitespace_only", self.whitespace_only),
            ("truncated", self.truncated),
            ("extraction_failed", self.extraction_failed),
            ("errored", self.errored),
        ]
        .into_iter()
        .map(|(name, count)| (Value::str(name), Value::Int(count as i64)))
        .collect()
    }
}

impl Add for Audit {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            documents: self.documents + other.documents,
            unresolved_targets: self.unresolved_targets + other.unresolved_targets,
            answers: self.answers + other.answers,
            empty: self.empty + other.empty,
            whitespace_only: self.whitespace_only + other.whitespace_only,
            truncated: self.truncated + other.truncated,
            extraction_failed: self.extraction_failed + other.extraction_failed,
            errored: self.errored + other.errored,
        }
    }
}

/// Whether a gold answer among options is none of them: it is missing, or a list of which nothing is left.
fn is_unresolved(gold: &Value) -> bool {
    match gold {
        Value::None => true,
        Value::List(items) => items.iter().all(Value::is_none),
        _ => false,
    }
}

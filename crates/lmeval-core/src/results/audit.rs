//! Counts of suspicious answers that scores alone do not show.

use std::ops::Add;

use lmeval_pycompat::Dict;
use lmeval_pycompat::Value;
use lmeval_pycompat::strings::is_space;

use crate::OutputType;
use crate::instance::RequestType;
use crate::scorers::AnsweredDocument;

/// Counts of suspicious documents and answers in one pipeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// Scored documents.
    pub documents: usize,
    /// Documents whose target is not among their options; scored as wrong.
    pub unresolved_targets: usize,
    /// Generated answers.
    pub answers: usize,
    /// Generated answers that are empty.
    pub empty: usize,
    /// Generated answers that consist of whitespace.
    pub whitespace_only: usize,
    /// Generated answers that stopped at the token limit.
    pub truncated: usize,
    /// Answers in which a filter found no match.
    pub extraction_failed: usize,
    /// Judgements of a model, if it judges.
    pub judgements: usize,
    /// Judgements without a verdict.
    pub unparsed: usize,
    /// Documents skipped because one of their requests failed permanently.
    pub errored: usize,
}

impl Audit {
    /// Counts everything that does not depend on filters.
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
        let judged =
            (self.judgements > 0).then_some([("judgements", self.judgements), ("unparsed", self.unparsed)]);
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
        .chain(judged.into_iter().flatten())
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
            judgements: self.judgements + other.judgements,
            unparsed: self.unparsed + other.unparsed,
        }
    }
}

/// Whether the gold answer is not among the options: it is missing, or an empty list.
fn is_unresolved(gold: &Value) -> bool {
    match gold {
        Value::None => true,
        Value::List(items) => items.iter().all(Value::is_none),
        _ => false,
    }
}

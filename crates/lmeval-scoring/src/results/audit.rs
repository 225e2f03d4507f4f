//! Counts of suspicious answers that scores alone do not show.

use std::ops::Add;

use lmeval_pycompat::Dict;
use lmeval_pycompat::Value;
use lmeval_pycompat::strings::is_space;

use crate::scorers::AnsweredDocument;
use lmeval_core::{Finish, Letter, LetterOutcome, OutputType, RequestType};

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
    /// Generations that a content filter, or the model, refused.
    pub refused: usize,
    /// Answers in which a filter found no match.
    pub extraction_failed: usize,
    /// Documents with an answer that was cut off or refused, or in which a filter found no match.
    pub unfinished: usize,
    /// Judgements of a model, if it judges.
    pub judgements: usize,
    /// Judgements without a verdict.
    pub unparsed: usize,
    /// Documents skipped because one of their requests failed permanently.
    pub errored: usize,
    /// Documents answered by the probabilities of option labels.
    pub letters: LetterAudit,
}

/// Counts of documents answered by the probabilities of option labels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LetterAudit {
    /// All of them.
    pub documents: usize,
    /// Documents with a label that the server did not list.
    pub missing: usize,
    /// Documents with no listed label at all; scored as wrong.
    pub absent: usize,
    /// Documents that are right whatever the probabilities of unlisted tokens are.
    pub surely_right: usize,
    /// Documents that are right for some probabilities of unlisted tokens.
    pub possibly_right: usize,
}

impl LetterAudit {
    fn count(&mut self, letters: &[Letter], gold: &Value) {
        let outcome = LetterOutcome::new(letters, gold);
        self.documents += 1;
        self.missing += usize::from(outcome.missing > 0);
        self.absent += usize::from(outcome.is_absent);
        self.surely_right += usize::from(outcome.surely_right);
        self.possibly_right += usize::from(outcome.possibly_right);
    }

    /// The smallest and largest accuracy that the listed tokens allow.
    pub fn bounds(&self) -> Option<(f64, f64)> {
        let share = |count: usize| count as f64 / self.documents as f64;
        (self.documents > 0).then(|| (share(self.surely_right), share(self.possibly_right)))
    }
}

impl Add for LetterAudit {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            documents: self.documents + other.documents,
            missing: self.missing + other.missing,
            absent: self.absent + other.absent,
            surely_right: self.surely_right + other.surely_right,
            possibly_right: self.possibly_right + other.possibly_right,
        }
    }
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
                if answer.instance.request_type == RequestType::ChoiceLetters {
                    let letters = answer.responses.first().and_then(Letter::all_from_value);
                    audit.letters.count(&letters.unwrap_or_default(), &answer.instance.gold);
                }
                if answer.instance.request_type != RequestType::GenerateUntil {
                    continue;
                }
                audit.truncated += answer.count(Finish::CutOff);
                audit.refused += answer.count(Finish::Refused);
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

    /// The counts by name. Those of option labels, and the bounds of the accuracy, only if there are any.
    pub fn to_dict(&self) -> Dict {
        let judged =
            (self.judgements > 0).then_some([("judgements", self.judgements), ("unparsed", self.unparsed)]);
        let rare = [("refused", self.refused), ("unfinished", self.unfinished)].into_iter();
        let rare = rare.filter(|(_, count)| *count > 0);
        let mut counts: Dict = [
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
        .chain(rare)
        .chain(judged.into_iter().flatten())
        .map(|(name, count)| (Value::str(name), Value::Int(count as i64)))
        .collect();
        if let Some((low, high)) = self.letters.bounds() {
            counts.insert("letters_missing", self.letters.missing as i64);
            counts.insert("letters_absent", self.letters.absent as i64);
            counts.insert("acc_bounds", Value::list([Value::Float(low), Value::Float(high)]));
        }
        counts
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
            refused: self.refused + other.refused,
            extraction_failed: self.extraction_failed + other.extraction_failed,
            unfinished: self.unfinished + other.unfinished,
            errored: self.errored + other.errored,
            judgements: self.judgements + other.judgements,
            unparsed: self.unparsed + other.unparsed,
            letters: self.letters + other.letters,
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

//! The filter `majority_vote`.

use std::collections::HashMap;

use lmeval_pycompat::Value;

use super::parallel::try_each;
use super::sequence::is_hashable;
use super::{Filter, FilterDocs, FilterError, Filtered, Responses};
use crate::registry::{FilterEntry, OptionTable};

/// The entry in the registry.
pub(super) fn entry() -> FilterEntry {
    FilterEntry::new("majority_vote", |_, _| Ok(Box::new(MajorityVote)))
        .options(OptionTable::NONE)
        .summary("Keeps the most frequent answer")
        .strict_in_v04()
}

/// Keeps the most frequent answer of each request.
///
/// It has no arguments. Ties go to the answer that came first. Answers are compared as in Python: `1`, `1.0` and
/// `True` are equal. Answers that Python cannot hash, such as lists, are an error, and so is a request without
/// answers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MajorityVote;

/// Up to this many answers, comparing all pairs is faster than a hash table.
const FEW: usize = 8;

impl MajorityVote {
    /// The index of the winner's first occurrence.
    fn winner(answers: &[Value]) -> Option<usize> {
        let counts = if answers.len() > FEW {
            Self::count_texts(answers).unwrap_or_else(|| Self::count_pairs(answers))
        } else {
            Self::count_pairs(answers)
        };
        let most = counts.iter().copied().max()?;
        counts.iter().position(|&count| count == most)
    }

    /// The number of occurrences, at the index of each distinct answer's first one.
    fn count_pairs(answers: &[Value]) -> Vec<usize> {
        let mut counts = vec![0; answers.len()];
        for (index, answer) in answers.iter().enumerate() {
            let first = answers.iter().take(index).position(|earlier| earlier == answer);
            counts[first.unwrap_or(index)] += 1;
        }
        counts
    }

    /// The same with a hash table, if all answers are strings.
    fn count_texts(answers: &[Value]) -> Option<Vec<usize>> {
        let mut counts = vec![0; answers.len()];
        let mut firsts: HashMap<&str, usize> = HashMap::with_capacity(answers.len());
        for (index, answer) in answers.iter().enumerate() {
            counts[*firsts.entry(answer.as_str()?).or_insert(index)] += 1;
        }
        Some(counts)
    }
}

impl Filter for MajorityVote {
    fn apply(&self, mut responses: Responses, docs: &FilterDocs<'_>) -> Result<Filtered, FilterError> {
        try_each(&mut responses, |request, answers| {
            let (filter, document) = (|| "majority_vote".to_owned(), || docs.id(request));
            if let Some(odd) = answers.iter().find(|answer| !is_hashable(answer)) {
                let (expected, found) = ("hashable answers", odd.type_name());
                return Err(FilterError::WrongResponse {
                    filter: filter(),
                    document: document(),
                    expected,
                    found,
                });
            }
            let winner = Self::winner(answers)
                .ok_or_else(|| FilterError::NoResponse { filter: filter(), document: document() })?;
            answers.swap(0, winner);
            answers.truncate(1);
            Ok(())
        })?;
        Ok(responses.into())
    }

    fn needs_documents(&self) -> bool {
        false
    }

    fn is_per_request(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filters::testing::{apply, texts};

    #[test]
    fn first_answer_wins_ties() {
        let answers = texts(&[&["a", "b", "b", "a"], &["x", "y"], &["a", "b", "b"]]);
        let filtered = apply(&MajorityVote, answers).unwrap();
        assert_eq!(filtered.responses, texts(&[&["a"], &["x"], &["b"]]));
    }

    #[test]
    fn both_counting_methods_agree() {
        let many: Vec<Value> = "ccabbacacbba".chars().map(|c| Value::str(c.to_string())).collect();
        assert_eq!(MajorityVote::count_texts(&many), Some(MajorityVote::count_pairs(&many)));
        assert_eq!(apply(&MajorityVote, vec![many]).unwrap().responses, texts(&[&["c"]]));
    }

    #[test]
    fn equal_numbers_are_counted_together() {
        let mixed =
            vec![Value::str("1"), Value::Bool(true), Value::Float(1.0), Value::Int(1), Value::str("1")];
        let filtered = apply(&MajorityVote, vec![mixed]).unwrap();
        assert!(matches!(filtered.responses[0].as_slice(), [Value::Bool(true)]));
    }

    #[test]
    fn rejects_lists_and_empty_requests() {
        let error = apply(&MajorityVote, vec![vec![Value::tuple([Value::list([])])]]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "The filter `majority_vote` expects hashable answers, but an answer to document 0 is `tuple`"
        );
        assert!(matches!(apply(&MajorityVote, vec![Vec::new()]), Err(FilterError::NoResponse { .. })));
    }
}

//! `majority_vote`.

use std::collections::HashMap;

use lmeval_pycompat::Value;

use super::parallel::try_each;
use super::sequence::is_hashable;
use super::{Filter, FilterDocs, FilterError, Filtered, Responses};
use crate::registry::{FilterEntry, OptionTable};

/// The entry of the registry.
pub(super) fn entry() -> FilterEntry {
    FilterEntry::new("majority_vote", |_, _| Ok(Box::new(MajorityVote)))
        .options(OptionTable::NONE)
        .summary("Keeps the most frequent answer")
        .strict_before()
}

/// Keeps the most frequent answer of each request.
///
/// It has no arguments. Of equally frequent answers the one that came first wins. Answers are equal as in Python: `1`,
/// `1.0` and `True` are the same. Answers that Python cannot hash, such as lists, are an error, and so is a request
/// without answers.
#[derive(Clone, Copy, Debug, Default)]
pub struct MajorityVote;

/// Up to here comparing all pairs beats a table.
const FEW: usize = 8;

impl MajorityVote {
    /// The place of the winner, which is where it stands first.
    fn winner(answers: &[Value]) -> Option<usize> {
        let counts = if answers.len() > FEW {
            Self::count_texts(answers).unwrap_or_else(|| Self::count_pairs(answers))
        } else {
            Self::count_pairs(answers)
        };
        let most = counts.iter().copied().max()?;
        counts.iter().position(|&count| count == most)
    }

    /// For each answer that stands somewhere first, how often it is there.
    fn count_pairs(answers: &[Value]) -> Vec<usize> {
        let mut counts = vec![0; answers.len()];
        for (index, answer) in answers.iter().enumerate() {
            let first = answers.iter().take(index).position(|earlier| earlier == answer);
            counts[first.unwrap_or(index)] += 1;
        }
        counts
    }

    /// The same by a table, where all answers are texts.
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
                let (expected, found) = ("answers that can be counted", odd.type_name());
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

    fn works_apart(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filters::testing::{apply, texts};

    #[test]
    fn the_earliest_of_equals_wins() {
        let answers = texts(&[&["a", "b", "b", "a"], &["x", "y"], &["a", "b", "b"]]);
        let filtered = apply(&MajorityVote, answers).unwrap();
        assert_eq!(filtered.responses, texts(&[&["a"], &["x"], &["b"]]));
    }

    #[test]
    fn many_answers_are_counted_alike() {
        let many: Vec<Value> = "ccabbacacbba".chars().map(|c| Value::str(c.to_string())).collect();
        assert_eq!(MajorityVote::count_texts(&many), Some(MajorityVote::count_pairs(&many)));
        assert_eq!(apply(&MajorityVote, vec![many]).unwrap().responses, texts(&[&["c"]]));
    }

    #[test]
    fn numbers_share_a_bucket() {
        let mixed =
            vec![Value::str("1"), Value::Bool(true), Value::Float(1.0), Value::Int(1), Value::str("1")];
        let filtered = apply(&MajorityVote, vec![mixed]).unwrap();
        assert!(matches!(filtered.responses[0].as_slice(), [Value::Bool(true)]));
    }

    #[test]
    fn lists_and_empty_requests_are_errors() {
        let error = apply(&MajorityVote, vec![vec![Value::tuple([Value::list([])])]]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "The filter `majority_vote` needs answers that can be counted, and an answer to document 0 is `tuple`"
        );
        assert!(matches!(apply(&MajorityVote, vec![Vec::new()]), Err(FilterError::NoResponse { .. })));
    }
}

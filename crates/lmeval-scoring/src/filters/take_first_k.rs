//! The filter `take_first_k`.

use lmeval_pycompat::Value;

use super::sequence::items;
use super::{Arguments, Filter, FilterDocs, FilterError, Filtered, Responses};
use crate::registry::{FilterEntry, OptionEntry, OptionKind, OptionTable};

const OPTIONS: &[OptionEntry] = &[OptionEntry::required("k", OptionKind::Integer)];

/// The entry in the registry.
pub(super) fn entry() -> FilterEntry {
    FilterEntry::new("take_first_k", |arguments, _| Ok(Box::new(TakeFirstK::from_arguments(arguments)?)))
        .options(OptionTable::lenient(OPTIONS))
        .summary("Keeps the first k answers")
}

/// Keeps the first `k` answers of each request.
///
/// | argument | default | |
/// |---|---|---|
/// | `k` | required | an integer; a negative one drops answers at the end, like Python's slices |
///
/// Other arguments are ignored. The first request must have at least `k` answers; later ones may have fewer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TakeFirstK {
    k: i64,
}

impl TakeFirstK {
    /// Creates the filter from a step's arguments.
    pub(crate) fn from_arguments(arguments: &Arguments<'_>) -> Result<Self, FilterError> {
        arguments.required("k", OptionKind::Integer)?;
        Ok(Self { k: arguments.integer("k", 0)? })
    }
}

impl TakeFirstK {
    /// Rejects a first request with too few answers.
    fn check_first(self, found: usize, docs: &FilterDocs<'_>) -> Result<(), FilterError> {
        // Reference: only the first request is checked.
        if i64::try_from(found).is_ok_and(|count| count < self.k) {
            return Err(FilterError::TooFewResponses {
                filter: "take_first_k".to_owned(),
                document: docs.id(0),
                wanted: self.k,
                found,
            });
        }
        Ok(())
    }

    /// The number of answers to keep out of `count`.
    fn kept_count(self, count: usize) -> usize {
        let distance = usize::try_from(self.k.unsigned_abs()).unwrap_or(usize::MAX);
        if self.k < 0 { count.saturating_sub(distance) } else { count.min(distance) }
    }
}

impl Filter for TakeFirstK {
    fn apply(&self, mut responses: Responses, docs: &FilterDocs<'_>) -> Result<Filtered, FilterError> {
        if let Some(first) = responses.first() {
            self.check_first(first.len(), docs)?;
        }
        for answers in &mut responses {
            answers.truncate(self.kept_count(answers.len()));
        }
        Ok(responses.into())
    }

    fn apply_bare(&self, mut values: Vec<Value>, docs: &FilterDocs<'_>) -> Result<Filtered, FilterError> {
        for (request, value) in values.iter_mut().enumerate() {
            let slice = |parts: &[Value]| -> Result<Vec<Value>, FilterError> {
                if request == 0 {
                    self.check_first(parts.len(), docs)?;
                }
                Ok(parts.iter().take(self.kept_count(parts.len())).cloned().collect())
            };
            *value = match &*value {
                Value::Str(_) => {
                    let characters = slice(&items(value).unwrap_or_default())?;
                    Value::from(characters.iter().filter_map(Value::as_str).collect::<String>())
                }
                Value::List(parts) => Value::list(slice(parts)?),
                Value::Tuple(parts) => Value::tuple(slice(parts)?),
                other => {
                    return Err(FilterError::WrongResponse {
                        filter: "take_first_k".to_owned(),
                        document: docs.id(request),
                        expected: "something that can be sliced",
                        found: other.type_name(),
                    });
                }
            };
        }
        Ok(Filtered::from_bare(values))
    }

    fn needs_documents(&self) -> bool {
        false
    }

    // `check_first` must see the first request of all.
    fn is_per_request(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filters::testing::{apply, texts};
    use lmeval_core::Diagnose;

    #[test]
    fn slices_answers() {
        let answers = texts(&[&["a", "b", "c"], &["d"]]);
        for (k, kept) in [
            (2, texts(&[&["a", "b"], &["d"]])),
            (0, texts(&[&[], &[]])),
            (-1, texts(&[&["a", "b"], &[]])),
            (-9, texts(&[&[], &[]])),
            (i64::MIN, texts(&[&[], &[]])),
        ] {
            assert_eq!(apply(&TakeFirstK { k }, answers.clone()).unwrap().responses, kept, "{k}");
        }
    }

    #[test]
    fn checks_only_the_first_request() {
        let error = apply(&TakeFirstK { k: 2 }, texts(&[&["a"], &["d", "e"]])).unwrap_err();
        assert_eq!(
            error.to_string(),
            "The filter `take_first_k` needs 2 answers for each document, but document 0 has 1"
        );
        assert_eq!(error.hints(), ["Set `repeats: 2` in the task"]);
    }
}

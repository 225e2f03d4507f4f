//! Filters that extract something from each answer, one at a time.

use std::fmt;

use lmeval_pycompat::Value;

use super::parallel::try_each;
use super::{Filter, FilterDocs, FilterError, Filtered, Responses};
use lmeval_core::DocId;

/// A filter that replaces each answer by itself, or by a fallback, and reads no documents.
///
/// It is a [`Filter`] that notes the fallbacks of each request.
pub trait Extract: fmt::Debug + Send + Sync {
    /// Replaces an answer; returns whether the fallback was used.
    fn extract(&self, document: DocId, answer: &mut Value) -> Result<bool, FilterError>;
}

impl<T: Extract> Filter for T {
    fn apply(&self, mut responses: Responses, docs: &FilterDocs<'_>) -> Result<Filtered, FilterError> {
        let fallbacks = try_each(&mut responses, |request, answers| {
            let document = docs.id(request);
            let mut replaced = Vec::new();
            for (index, answer) in (0..).zip(answers) {
                if self.extract(document, answer)? {
                    replaced.push(index);
                }
            }
            Ok(replaced)
        })?;
        Ok(Filtered { responses, bare: false, fallbacks })
    }

    fn needs_documents(&self) -> bool {
        false
    }

    fn is_per_request(&self) -> bool {
        true
    }
}

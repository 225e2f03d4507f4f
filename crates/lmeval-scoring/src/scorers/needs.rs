//! Which parts of documents scoring reads.

use std::ops::BitOr;

/// The parts of documents and requests that must be retained until a task is scored.
///
/// Prompts and documents make up most of a run's memory, so the run drops what nothing reads. Everything involved in
/// scoring declares its needs; the default is [`Needs::EVERYTHING`].
///
/// ```
/// use lmeval_scoring::scorers::Needs;
///
/// let filters = Needs { documents: true, together: true, ..Needs::NOTHING };
/// assert_eq!(filters | Needs::NOTHING, filters);
/// assert_eq!(filters | Needs { prompts: true, ..Needs::NOTHING }, Needs::EVERYTHING);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// The documents themselves.
    pub documents: bool,
    /// The prompts of requests.
    pub prompts: bool,
    /// All documents at once: the values of one may depend on others, or task code is called in batches. Otherwise a
    /// run scores documents while others are still in flight, and drops them.
    pub together: bool,
}

impl Needs {
    /// Documents, prompts, and all of them at once.
    pub const EVERYTHING: Self = Self { documents: true, prompts: true, together: true };
    /// Only targets, options and answers.
    pub const NOTHING: Self = Self { documents: false, prompts: false, together: false };
}

impl BitOr for Needs {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self {
            documents: self.documents || other.documents,
            prompts: self.prompts || other.prompts,
            together: self.together || other.together,
        }
    }
}

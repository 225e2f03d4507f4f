//! What scoring looks at beside targets and answers.

use std::ops::BitOr;

/// What must be kept of documents and requests until a task is scored.
///
/// Prompts and documents are most of what a run holds, so it lets go of what nobody can see. Everything that scores
/// declares its needs, and says [`Needs::EVERYTHING`] unless it knows better.
///
/// ```
/// use lmeval_core::scorers::Needs;
///
/// let filters = Needs { documents: true, together: true, ..Needs::NOTHING };
/// assert_eq!(filters | Needs::NOTHING, filters);
/// assert_eq!(filters | Needs { prompts: true, ..Needs::NOTHING }, Needs::EVERYTHING);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// The documents themselves.
    pub documents: bool,
    /// The contexts of requests.
    pub prompts: bool,
    /// All documents at the same time: the values of one may depend on others, or code of the task is called for many
    /// at once. Without it a run scores documents while others still wait for their answers, and lets go of them.
    pub together: bool,
}

impl Needs {
    /// All there is.
    pub const EVERYTHING: Self = Self { documents: true, prompts: true, together: true };
    /// Targets, options and answers alone.
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

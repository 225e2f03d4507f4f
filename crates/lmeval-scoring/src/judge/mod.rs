//! Grading by a model: the scorer `judge`.
//!
//! [`JudgeSpec`] is the checked configuration. For each answered document it makes [`JudgeCall`]s, which a run sends to
//! the judges like any other request; it reads verdicts from their answers, and the resulting [`Judgement`]s travel with
//! the document to scoring. [`Judges`] is how other scorers ask a judge themselves.

mod ask;
mod call;
mod diagnostics;
mod extract;
mod guided;
mod marker;
mod neutral;
mod prompt;
mod read_answer;
mod read_spec;
mod reasoning;
mod reduce;
mod scale;
mod scorer;
mod spec;
mod templates;

pub use ask::{JudgeQuestion, Judges, NoJudges};
pub use call::{JudgeCall, Judgement};

pub(crate) use scorer::entry;
pub use spec::{JudgeSpec, SpecProblem};

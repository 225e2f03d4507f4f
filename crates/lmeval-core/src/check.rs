//! Checks of a model before a run.

/// The outcome of one check of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// The subject, such as `tokenizer`.
    pub subject: &'static str,
    /// Whether it is usable.
    pub verdict: Verdict,
    /// The outcome in words, such as the number of strings with equal tokens.
    pub detail: String,
    /// Recommended changes, as sentences.
    pub advice: Vec<String>,
}

/// Whether a check passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It works.
    Good,
    /// It works with restrictions, or was not checked.
    Note,
    /// Runs will fail, or give wrong results.
    Bad,
}

impl Verdict {
    /// The word for tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Good => "ok",
            Self::Note => "note",
            Self::Bad => "failed",
        }
    }
}

impl Check {
    /// A check that passed.
    pub fn good(subject: &'static str, detail: impl Into<String>) -> Self {
        Self { subject, verdict: Verdict::Good, detail: detail.into(), advice: Vec::new() }
    }

    /// A check with a restriction.
    pub fn note(subject: &'static str, detail: impl Into<String>) -> Self {
        Self { verdict: Verdict::Note, ..Self::good(subject, detail) }
    }

    /// A check that failed.
    pub fn bad(subject: &'static str, detail: impl Into<String>) -> Self {
        Self { verdict: Verdict::Bad, ..Self::good(subject, detail) }
    }

    /// Adds advice.
    pub fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice.push(advice.into());
        self
    }
}

/// Receives checks as they are made.
pub type CheckSink = Box<dyn FnMut(Check) + Send>;

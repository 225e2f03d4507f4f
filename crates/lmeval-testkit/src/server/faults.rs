//! What can go wrong between a request and its answer.

/// A way to misbehave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// 429.
    TooMany,
    /// 429 with a time to wait, in seconds.
    TooManyUntil(u64),
    /// A status of the server's own trouble.
    Status(u16),
    /// The body comes drop by drop, for so many milliseconds.
    SlowBody(u64),
    /// The body ends before its length.
    HalfBody,
    /// The body is no JSON.
    InvalidJson,
    /// The body is JSON of another shape.
    WrongShape,
    /// The connection closes without an answer.
    Closed,
    /// No choices.
    NoChoices,
    /// A choice without text and without log-probabilities.
    NullChoice,
    /// More choices than prompts.
    TwoChoices,
    /// A choice that the server broke off.
    Aborted,
    /// An error with the status of a success.
    ErrorObject,
    /// A page for a browser with the status of a success.
    Html,
    /// The answer, and behind it one that nobody has asked for.
    Stray,
}

/// When what goes wrong: decided by the body of a request and how often it came, so the same in every run.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// What may go wrong.
    pub kinds: Vec<Fault>,
    /// In how many of a hundred requests something goes wrong.
    pub percent: u64,
    /// How often a request fails at most; then it is answered.
    pub most_per_request: usize,
    /// Requests that contain one of these texts are refused with 400, always.
    pub refused: Vec<String>,
}

impl Faults {
    /// Everything, in so many of a hundred requests.
    pub fn all(percent: u64) -> Self {
        let kinds = vec![
            Fault::TooMany,
            Fault::TooManyUntil(0),
            Fault::Status(500),
            Fault::Status(502),
            Fault::Status(503),
            Fault::SlowBody(30),
            Fault::HalfBody,
            Fault::InvalidJson,
            Fault::WrongShape,
            Fault::Closed,
            Fault::NoChoices,
            Fault::NullChoice,
            Fault::TwoChoices,
            Fault::Aborted,
            Fault::ErrorObject,
            Fault::Html,
            Fault::Stray,
        ];
        Self { kinds, percent, most_per_request: 2, refused: Vec::new() }
    }

    /// What goes wrong with a request that came so often before.
    pub(super) fn pick(&self, body: u64, before: usize) -> Option<Fault> {
        if self.kinds.is_empty() || before >= self.most_per_request {
            return None;
        }
        let chance = super::mix(body ^ before as u64);
        (chance % 100 < self.percent).then(|| self.kinds[(chance / 100) as usize % self.kinds.len()])
    }
}

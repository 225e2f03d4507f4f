//! Faults between a request and its answer.

/// A fault to inject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Status 429.
    TooMany,
    /// Status 429 with a `Retry-After` in seconds.
    TooManyUntil(u64),
    /// A server error status.
    Status(u16),
    /// The body arrives slowly, over this many milliseconds.
    SlowBody(u64),
    /// The body is shorter than its declared length.
    HalfBody,
    /// The body is not JSON.
    InvalidJson,
    /// The body is JSON of an unexpected shape.
    WrongShape,
    /// The connection closes without an answer.
    Closed,
    /// An empty list of choices.
    NoChoices,
    /// A choice without text and log-probabilities.
    NullChoice,
    /// More choices than prompts.
    TwoChoices,
    /// A choice the server aborted.
    Aborted,
    /// An error object with status 200.
    ErrorObject,
    /// An HTML page with status 200.
    Html,
    /// The answer, followed by one for no request.
    Stray,
}

/// When to inject which fault: depends on the request body and how often it arrived, so it is deterministic.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// The faults to choose from.
    pub kinds: Vec<Fault>,
    /// The percentage of requests with a fault.
    pub percent: u64,
    /// The maximum number of faults per request; then it is answered.
    pub most_per_request: usize,
    /// Requests that contain one of these strings are always rejected with 400.
    pub refused: Vec<String>,
}

impl Faults {
    /// All faults, in this percentage of requests.
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

    /// The fault for a request that arrived this many times before.
    pub(super) fn pick(&self, body: u64, before: usize) -> Option<Fault> {
        if self.kinds.is_empty() || before >= self.most_per_request {
            return None;
        }
        let chance = super::mix(body ^ before as u64);
        (chance % 100 < self.percent).then(|| self.kinds[(chance / 100) as usize % self.kinds.len()])
    }
}

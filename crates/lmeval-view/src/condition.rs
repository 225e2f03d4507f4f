//! Expressions over samples, the language of `lm-eval samples --where`.

use lmeval_analysis::read::{Run, SamplesFile};
use lmeval_analysis::samples::{Expression, SampleReader};

use crate::Error;
use crate::query::Deadline;

/// Steps that an expression may take for a document: a hundred thousand times as many as any condition that makes sense.
const STEPS: u64 = 1_000_000;

/// Checks an expression without evaluating it.
pub(crate) fn check(condition: &str) -> Result<(), Error> {
    Expression::parse_limited(condition, "where", STEPS).map(drop)
}

/// The rows among neighbouring lines for which an expression is true. `places` has row, offset and length.
pub(crate) fn matching(
    run: &Run,
    file: &SamplesFile,
    metric: Option<&str>,
    places: &[(u32, u64, u32)],
    (condition, deadline): (&str, Deadline),
) -> Result<Vec<u32>, Error> {
    let expression = Expression::parse_limited(condition, "where", STEPS)?;
    let mut reader = SampleReader::open(run, file, metric)?;
    let mut rows = Vec::new();
    for (row, offset, _) in places {
        deadline.check()?;
        if expression.is_true(&reader.read_at(*offset)?)? {
            rows.push(*row);
        }
    }
    Ok(rows)
}

//! Expressions over samples, the language of `lm-eval samples --where`.

use lmeval_analysis::read::{Run, SamplesFile};
use lmeval_analysis::samples::{Expression, SampleReader};

use crate::Error;

/// Checks an expression without evaluating it.
pub(crate) fn check(condition: &str) -> Result<(), Error> {
    Expression::parse(condition, "where").map(drop)
}

/// The rows among neighbouring lines for which an expression is true. `places` has row, offset and length.
pub(crate) fn matching(
    run: &Run,
    file: &SamplesFile,
    metric: Option<&str>,
    places: &[(u32, u64, u32)],
    condition: &str,
) -> Result<Vec<u32>, Error> {
    let expression = Expression::parse(condition, "where")?;
    let mut reader = SampleReader::open(run, file, metric)?;
    let mut rows = Vec::new();
    for (row, offset, _) in places {
        if expression.is_true(&reader.read_at(*offset)?)? {
            rows.push(*row);
        }
    }
    Ok(rows)
}

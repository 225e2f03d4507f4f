//! The reduction `maj@k`.

use lmeval_pycompat::Value;

use super::{Reduced, Reduction, for_each_k};
use crate::error::MetricError;
use crate::number::Number;

/// The most frequent value of the first k repeats; ties go to the one that came first.
#[derive(Clone, Debug, Default)]
pub(crate) struct MajorityAtK {
    /// The values of k; empty for [`automatic_k`](super::automatic_k).
    pub k: Vec<usize>,
}

impl Reduction<Number, Number> for MajorityAtK {
    fn reduce(&self, _: &Value, values: &[Number]) -> Result<Reduced<Number>, MetricError> {
        for_each_k("maj@", &self.k, values.len(), |k| majority(&values[..k]))
    }
}

fn majority(values: &[Number]) -> Number {
    let mut counts: Vec<(Number, usize)> = Vec::new();
    for value in values {
        match counts.iter_mut().find(|(known, _)| known == value) {
            Some((_, count)) => *count += 1,
            None => counts.push((*value, 1)),
        }
    }
    // `max_by_key` returns the last of equal ones.
    let most = counts.iter().rev().max_by_key(|(_, count)| *count);
    most.map_or(Number::Float(f64::NAN), |(value, _)| *value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_go_to_the_first() {
        let values = [0, 1, 1, 0, 1].map(Number::Int);
        let reduced = MajorityAtK { k: vec![1, 3, 4, 5] }.reduce(&Value::None, &values).unwrap();
        let expected = [("maj@1", 0), ("maj@3", 1), ("maj@4", 0), ("maj@5", 1)];
        let expected = expected.map(|(name, value)| (name.to_owned(), Number::Int(value)));
        assert_eq!(reduced, Reduced::Named(expected.to_vec()));
    }
}

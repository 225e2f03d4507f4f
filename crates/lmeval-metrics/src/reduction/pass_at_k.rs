//! The reduction `pass@k`.

use lmeval_pycompat::Value;

use super::{Reduced, Reduction, is_truthy, wanted};
use crate::error::MetricError;
use crate::number::Number;

/// The unbiased estimate, from all n repeats, of the probability that at least one of k repeats is correct:
/// `1 − C(n−c, k) / C(n, k)` with c correct ones; 1 if `n − c < k`.
#[derive(Clone, Debug, Default)]
pub(crate) struct PassAtK {
    /// The values of k; empty for [`automatic_k`].
    pub k: Vec<usize>,
}

impl Reduction<Number, Number> for PassAtK {
    fn name(&self) -> Option<&'static str> {
        self.k.is_empty().then_some("pass@k")
    }

    fn reduce(&self, _: &Value, values: &[Number]) -> Result<Reduced<Number>, MetricError> {
        let count = values.len();
        let right = values.iter().filter(|value| is_truthy(**value)).count();
        let named = wanted(&self.k, count)
            .into_iter()
            .map(|k| (format!("pass@{k}"), Number::Float(estimate(count, right, k))));
        Ok(Reduced::Named(named.collect()))
    }
}

fn estimate(count: usize, right: usize, k: usize) -> f64 {
    if count - right < k {
        return 1.0;
    }
    let wrong = (count - right + 1..=count).fold(1.0, |product, i| product * (1.0 - k as f64 / i as f64));
    1.0 - wrong
}

/// The values of k reported for n repeats: 1, 3, 5, 10, 20, 50 and 100 up to n, n itself, and logarithmically spaced
/// ones between 100 and n.
pub(crate) fn automatic_k(count: usize) -> Vec<usize> {
    if count == 0 {
        return Vec::new();
    }
    let mut all: Vec<usize> = [1, 3, 5, 10, 20, 50, 100].into_iter().filter(|k| *k <= count).collect();
    all.push(count);
    if count > 100 {
        let decades = (count as f64).log10() - 2.0;
        let steps = (3.0 * decades.floor()).max(2.0);
        for step in 1..steps as usize {
            let exponent = 2.0 + step as f64 * decades / steps;
            all.push(10_f64.powf(exponent).floor() as usize);
        }
    }
    all.sort_unstable();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reduce(values: &[i64], k: &[usize]) -> Vec<(String, f64)> {
        let values: Vec<Number> = values.iter().copied().map(Number::Int).collect();
        match (PassAtK { k: k.to_vec() }).reduce(&Value::None, &values).unwrap() {
            Reduced::Named(named) => named.into_iter().map(|(name, value)| (name, value.to_f64())).collect(),
            Reduced::One(_) => Vec::new(),
        }
    }

    #[test]
    fn estimates_are_unbiased() {
        let named = |name: &str, value| (name.to_owned(), value);
        assert_eq!(
            reduce(&[1, 0, 0, 1], &[]),
            [named("pass@1", 0.5), named("pass@3", 1.0), named("pass@4", 1.0)]
        );
        assert_eq!(
            reduce(&[0, 1, 1, 0, 0], &[1, 2]),
            [named("pass@1", 0.3999999999999999), named("pass@2", 0.7)]
        );
        assert_eq!(reduce(&[0, 0], &[5]), [named("pass@5", 1.0)]);
        assert!(reduce(&[], &[]).is_empty());
    }

    #[test]
    fn automatic_k_depends_on_repeats() {
        assert_eq!(automatic_k(4), [1, 3, 4]);
        assert_eq!(automatic_k(16), [1, 3, 5, 10, 16]);
        assert_eq!(automatic_k(128)[6..], [100, 113, 128]);
        assert_eq!(automatic_k(200)[6..], [100, 141, 200]);
        assert_eq!(automatic_k(1000)[6..], [100, 215, 464, 1000]);
        assert_eq!(automatic_k(10000)[6..], [100, 215, 464, 1000, 2154, 4641, 10000]);
    }
}

//! Reductions, which combine the values of one document's repeats. One file each.

mod average_at_k;
mod majority_at_k;
mod mean;
mod pass_at_k;
mod pass_power_k;
mod take_first;

use std::sync::Arc;

use lmeval_pycompat::Value;

pub(crate) use self::average_at_k::AverageAtK;
pub(crate) use self::majority_at_k::MajorityAtK;
pub(crate) use self::mean::MeanOfRepeats;
pub(crate) use self::pass_at_k::{PassAtK, automatic_k};
pub(crate) use self::pass_power_k::PassPowerK;
pub use self::take_first::TakeFirst;
use crate::error::MetricError;
use crate::item::Item;
use crate::number::Number;

/// The result of a reduction.
#[derive(Clone, Debug, PartialEq)]
pub enum Reduced<K> {
    /// One value under the metric's own name.
    One(K),
    /// Values under names such as `pass@1`, which are prepended to the metric's name: `pass@1(exact_match)`.
    Named(Vec<(String, K)>),
}

impl<K> Reduced<K> {
    /// Converts each value.
    pub fn map<L>(self, change: impl Fn(K) -> L) -> Reduced<L> {
        match self {
            Self::One(value) => Reduced::One(change(value)),
            Self::Named(values) => {
                Reduced::Named(values.into_iter().map(|(name, value)| (name, change(value))).collect())
            }
        }
    }
}

/// Combines the values of one document's repeats into one value, or into several named ones.
///
/// Not called for a document with exactly one value.
pub trait Reduction<T, K>: Send + Sync {
    /// The registered name, if a rule depends on it.
    fn name(&self) -> Option<&'static str> {
        None
    }

    /// Reduces the values of one document.
    fn reduce(&self, reference: &Value, values: &[T]) -> Result<Reduced<K>, MetricError>;
}

/// A type-erased [`Reduction`].
pub trait AnyReduction: Send + Sync {
    /// The registered name, if a rule depends on it.
    fn name(&self) -> Option<&'static str> {
        None
    }

    /// Reduces the values of one document.
    fn reduce(&self, reference: &Value, values: &[Value]) -> Result<Reduced<Value>, MetricError>;
}

/// Erases the types of a reduction.
pub fn erase_reduction<T: Item, K: Item>(reduction: Arc<dyn Reduction<T, K>>) -> Arc<dyn AnyReduction> {
    Arc::new(Erased(reduction))
}

struct Erased<T, K>(Arc<dyn Reduction<T, K>>);

impl<T: Item, K: Item> AnyReduction for Erased<T, K> {
    fn name(&self) -> Option<&'static str> {
        self.0.name()
    }

    fn reduce(&self, reference: &Value, values: &[Value]) -> Result<Reduced<Value>, MetricError> {
        let values = T::from_values(values)?;
        Ok(self.0.reduce(reference, &values)?.map(|value| value.to_value()))
    }
}

/// The requested values of k: those given, or those that fit the number of repeats.
fn wanted(given: &[usize], count: usize) -> Vec<usize> {
    if given.is_empty() { automatic_k(count) } else { given.to_vec() }
}

/// One named value for each k, none of which may exceed the number of repeats.
fn for_each_k(
    name: &str,
    given: &[usize],
    count: usize,
    value: impl Fn(usize) -> Number,
) -> Result<Reduced<Number>, MetricError> {
    let mut values = Vec::new();
    for k in wanted(given, count) {
        if k == 0 || k > count {
            return Err(MetricError::TooFewRepeats { k, count });
        }
        values.push((format!("{name}{k}"), value(k)));
    }
    Ok(Reduced::Named(values))
}

/// Python's truth value of a number: NaN is true.
fn is_truthy(number: Number) -> bool {
    number.to_f64() != 0.0
}

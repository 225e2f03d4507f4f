//! Counting n-grams.

use std::collections::HashMap;
use std::hash::Hash;

/// The number of occurrences of each n-gram.
pub(super) type Counts<'a, T> = HashMap<&'a [T], u32>;

/// Counts the n-grams of one order.
pub(super) fn count_ngrams<T: Hash + Eq>(tokens: &[T], order: usize) -> Counts<'_, T> {
    let mut counts = Counts::with_capacity(tokens.len());
    for ngram in tokens.windows(order) {
        *counts.entry(ngram).or_default() += 1;
    }
    counts
}

/// The number of n-grams of one order.
pub(super) fn total_ngrams(tokens: usize, order: usize) -> u32 {
    (tokens + 1).saturating_sub(order) as u32
}

/// The number of n-grams that two counts share.
pub(super) fn shared<T: Hash + Eq>(left: &Counts<'_, T>, right: &Counts<'_, T>) -> u32 {
    left.iter().map(|(ngram, count)| right.get(ngram).map_or(0, |other| *count.min(other))).sum()
}

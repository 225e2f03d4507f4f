//! `random.Random`: the Mersenne Twister, seeded and sampled as in CPython.
//!
//! ```
//! use lmeval_pycompat::random::Random;
//!
//! let mut random = Random::from_seed(1234);
//! assert_eq!(random.random(), 0.9664535356921388);
//! assert_eq!(random.sample_indices(24, 3).unwrap(), [14, 3, 0]);
//! ```

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use num_bigint::{BigInt, BigUint};
use rand_mt::Mt;
use rustc_hash::FxHashSet;
use sha2::{Digest, Sha512};

use crate::value::Value;

/// A generator whose draws equal those of CPython 3.11's `random.Random` with the same seed.
#[derive(Clone, Debug)]
pub struct Random {
    twister: Mt,
}

/// Why nothing can be drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RandomError {
    /// `sample` of more items than the population has.
    #[error("Cannot draw {wanted} different items from {population}")]
    SampleTooLarge {
        /// The number of items requested.
        wanted: usize,
        /// The number of items available.
        population: usize,
    },
    /// A choice from an empty sequence or range.
    #[error("There is nothing to choose from")]
    Empty,
    /// `randrange` with a step of zero.
    #[error("The step of a range must not be zero")]
    ZeroStep,
    /// Weights whose total is not a positive finite number.
    #[error("The weights must add up to a positive, finite number")]
    WeightTotal,
}

impl Random {
    /// `Random(seed)` for an integer; the sign is ignored.
    pub fn from_seed(seed: i64) -> Self {
        Self::from_words(&[seed.unsigned_abs() as u32, (seed.unsigned_abs() >> 32) as u32])
    }

    /// `Random(seed)` for an integer of any size.
    pub fn from_seed_bigint(seed: &BigInt) -> Self {
        Self::from_words(&seed.magnitude().to_u32_digits())
    }

    /// `Random(seed)` for a string.
    pub fn from_seed_str(seed: &str) -> Self {
        Self::from_seed_bytes(seed.as_bytes())
    }

    /// `Random(seed)` for a byte string.
    pub fn from_seed_bytes(seed: &[u8]) -> Self {
        let mut bytes = seed.to_vec();
        bytes.extend_from_slice(&Sha512::digest(seed));
        Self::from_words(&BigUint::from_bytes_be(&bytes).to_u32_digits())
    }

    /// `Random(seed)` for a value; `None` if its type is not supported.
    ///
    /// Floats seed Python's generator by their hash and are not supported.
    pub fn from_seed_value(seed: &Value) -> Option<Self> {
        Some(match seed {
            Value::None => Self::from_entropy(),
            Value::Bool(_) | Value::Int(_) => Self::from_seed(seed.as_i64()?),
            Value::BigInt(number) => Self::from_seed_bigint(number),
            Value::Str(text) => Self::from_seed_str(text),
            Value::Bytes(bytes) => Self::from_seed_bytes(bytes),
            _ => return None,
        })
    }

    /// `Random(None)`: a generator that differs from run to run.
    pub fn from_entropy() -> Self {
        // Every `RandomState` hashes with fresh keys, the only entropy in the standard library.
        let words: Vec<u32> = (0..8_u32)
            .flat_map(|index| {
                let hash = RandomState::new().hash_one(index);
                [hash as u32, (hash >> 32) as u32]
            })
            .collect();
        Self::from_words(&words)
    }

    /// Seeds with an integer in 32-bit words, lowest first; leading zeros are not part of the key.
    fn from_words(words: &[u32]) -> Self {
        let length = words.iter().rposition(|&word| word != 0).map_or(1, |last| last + 1);
        let key: Vec<u32> = words.iter().copied().chain([0]).take(length).collect();
        Self { twister: Mt::new_with_key(key) }
    }

    /// `random()`: a float in `[0, 1)` with 53 bits.
    pub fn random(&mut self) -> f64 {
        let high = self.twister.next_u32() >> 5;
        let low = self.twister.next_u32() >> 6;
        (f64::from(high) * 67_108_864.0 + f64::from(low)) / 9_007_199_254_740_992.0
    }

    /// `uniform(low, high)`.
    pub fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.random()
    }

    /// `getrandbits(bits)` for up to 64 bits; more are clamped to 64.
    pub fn getrandbits(&mut self, bits: u32) -> u64 {
        self.bits(bits.min(64)) as u64
    }

    /// `getrandbits(bits)` for any number of bits.
    pub fn getrandbits_big(&mut self, bits: usize) -> Value {
        let mut words = Vec::with_capacity(bits.div_ceil(32));
        let mut left = bits;
        while left > 0 {
            let taken = left.min(32);
            words.push(self.twister.next_u32() >> (32 - taken));
            left -= taken;
        }
        Value::from_bigint(BigUint::new(words).into())
    }

    /// Up to 128 random bits, lowest word first.
    fn bits(&mut self, bits: u32) -> u128 {
        let mut result = 0;
        let mut done = 0;
        while done < bits {
            let taken = (bits - done).min(32);
            result |= u128::from(self.twister.next_u32() >> (32 - taken)) << done;
            done += taken;
        }
        result
    }

    /// `_randbelow(limit)`: an integer in `[0, limit)`, or 0 if the limit is 0.
    pub fn randbelow(&mut self, limit: u64) -> u64 {
        self.below(u128::from(limit)) as u64
    }

    fn below(&mut self, limit: u128) -> u128 {
        if limit == 0 {
            return 0;
        }
        let bits = u128::BITS - limit.leading_zeros();
        loop {
            let drawn = self.bits(bits);
            if drawn < limit {
                return drawn;
            }
        }
    }

    fn index_below(&mut self, limit: usize) -> usize {
        self.below(limit as u128) as usize
    }

    /// `randrange(start, stop, step)`.
    pub fn randrange(&mut self, start: i64, stop: i64, step: i64) -> Result<i64, RandomError> {
        let (start, width, step) =
            (i128::from(start), i128::from(stop) - i128::from(start), i128::from(step));
        let count = match step.signum() {
            0 => return Err(RandomError::ZeroStep),
            1 => (width + step - 1).div_euclid(step),
            _ => (-width - step - 1).div_euclid(-step),
        };
        if count <= 0 {
            return Err(RandomError::Empty);
        }
        Ok((start + step * self.below(count as u128) as i128) as i64)
    }

    /// `randint(low, high)`, both ends included.
    pub fn randint(&mut self, low: i64, high: i64) -> Result<i64, RandomError> {
        let count = i128::from(high) - i128::from(low) + 1;
        if count <= 0 {
            return Err(RandomError::Empty);
        }
        Ok((i128::from(low) + self.below(count as u128) as i128) as i64)
    }

    /// The index that `choice` draws from a sequence of `length`; `None` if it is empty.
    pub fn choice_index(&mut self, length: usize) -> Option<usize> {
        (length > 0).then(|| self.index_below(length))
    }

    /// `choice(items)`; `None` if there are none.
    pub fn choice<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        self.choice_index(items.len()).map(|index| &items[index])
    }

    /// The indices that `choices(…, k=count)` draws from a sequence of `length`, with replacement.
    pub fn choices_indices(&mut self, length: usize, count: usize) -> Result<Vec<usize>, RandomError> {
        if length == 0 && count > 0 {
            return Err(RandomError::Empty);
        }
        Ok((0..count).map(|_| (self.random() * length as f64) as usize).collect())
    }

    /// The indices that `choices(…, weights, k=count)` draws.
    pub fn weighted_indices(&mut self, weights: &[f64], count: usize) -> Result<Vec<usize>, RandomError> {
        let mut total = 0.0;
        let cumulative: Vec<f64> = weights
            .iter()
            .enumerate()
            .map(|(index, &weight)| {
                total = if index == 0 { weight } else { total + weight };
                total
            })
            .collect();
        self.cumulative_indices(&cumulative, count)
    }

    /// The indices that `choices(…, cum_weights=cumulative, k=count)` draws.
    pub fn cumulative_indices(
        &mut self,
        cumulative: &[f64],
        count: usize,
    ) -> Result<Vec<usize>, RandomError> {
        let Some((&total, but_last)) = cumulative.split_last() else {
            return Err(RandomError::Empty);
        };
        if !total.is_finite() || total <= 0.0 {
            return Err(RandomError::WeightTotal);
        }
        let draw = |_| {
            let drawn = self.random() * total;
            bisect(but_last, drawn)
        };
        Ok((0..count).map(draw).collect())
    }

    /// The indices that `sample(…, count)` draws from a sequence of `length`, without replacement.
    pub fn sample_indices(&mut self, length: usize, count: usize) -> Result<Vec<usize>, RandomError> {
        if count > length {
            return Err(RandomError::SampleTooLarge { wanted: count, population: length });
        }
        // Reference: this bound decides between the two algorithms, and therefore which indices are drawn.
        let table = if count > 5 { power_of_four_from(3 * count) } else { 0 };
        Ok(if length <= 21 + table { self.deal(length, count) } else { self.draw_distinct(length, count) })
    }

    /// Partial shuffle: each index is drawn from those left, and the last one takes its place.
    fn deal(&mut self, length: usize, count: usize) -> Vec<usize> {
        let mut deck: Vec<usize> = (0..length).collect();
        (0..count).map(|_| deck.swap_remove(self.index_below(deck.len()))).collect()
    }

    /// Rejection sampling: an index that came before is drawn again.
    fn draw_distinct(&mut self, length: usize, count: usize) -> Vec<usize> {
        let mut seen = FxHashSet::default();
        std::iter::repeat_with(|| self.index_below(length))
            .filter(|index| seen.insert(*index))
            .take(count)
            .collect()
    }

    /// `sample(items, count)`.
    pub fn sample<T: Clone>(&mut self, items: &[T], count: usize) -> Result<Vec<T>, RandomError> {
        let indices = self.sample_indices(items.len(), count)?;
        Ok(indices.into_iter().map(|index| items[index].clone()).collect())
    }

    /// `shuffle(items)`.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for index in (1..items.len()).rev() {
            let other = self.index_below(index + 1);
            items.swap(index, other);
        }
    }
}

/// The smallest power of four that is at least `number`.
fn power_of_four_from(number: usize) -> usize {
    let mut power = 1_usize;
    while power < number {
        power = power.saturating_mul(4);
    }
    power
}

/// `bisect.bisect_right`, written out because the weights need not be sorted.
fn bisect(sorted: &[f64], number: f64) -> usize {
    let (mut low, mut high) = (0, sorted.len());
    while low < high {
        let middle = low.midpoint(high);
        if number < sorted[middle] {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_from_the_full_range_of_integers() {
        let mut random = Random::from_seed(1);
        for _ in 0..100 {
            assert!(random.randint(i64::MIN, i64::MAX).is_ok());
            assert!(random.randrange(i64::MIN, i64::MAX, i64::MIN + 1).is_err());
            assert!(random.randrange(i64::MAX, i64::MIN, i64::MIN).is_ok());
        }
    }

    #[test]
    fn drawing_from_nothing_is_an_error() {
        let mut random = Random::from_seed(1);
        assert_eq!(random.choice_index(0), None);
        assert_eq!(random.choices_indices(0, 1), Err(RandomError::Empty));
        assert_eq!(random.choices_indices(0, 0), Ok(vec![]));
        assert_eq!(
            random.sample_indices(2, 3),
            Err(RandomError::SampleTooLarge { wanted: 3, population: 2 })
        );
        assert_eq!(random.randrange(0, 0, 1), Err(RandomError::Empty));
        assert_eq!(random.randrange(0, 5, 0), Err(RandomError::ZeroStep));
        assert_eq!(random.randint(1, 0), Err(RandomError::Empty));
        assert_eq!(random.weighted_indices(&[0.0, 0.0], 1), Err(RandomError::WeightTotal));
        assert_eq!(random.weighted_indices(&[], 1), Err(RandomError::Empty));
        assert_eq!(random.getrandbits(0), 0);
        assert_eq!(random.randbelow(0), 0);
    }

    #[test]
    fn entropy_seeds_differ() {
        assert_ne!(Random::from_entropy().random().to_bits(), Random::from_entropy().random().to_bits());
    }
}

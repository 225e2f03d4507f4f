//! Indices drawn with replacement, in bulk.
//!
//! ```
//! use lmeval_pycompat::draws::Draws;
//! use lmeval_pycompat::random::Random;
//!
//! let mut positions = [0; 5];
//! Draws::new(7, 1319).fill(&mut positions);
//! let one_by_one = Random::from_seed(7).choices_indices(1319, 5).unwrap();
//! assert!(positions.iter().map(|position| *position as usize).eq(one_by_one));
//! ```

use std::ops::RangeInclusive;

/// Words of the generator's state.
const SIZE: usize = 624;
/// The distance between a word and the one that it is mixed with.
const SHIFT: usize = 397;
/// Indices drawn per state: each takes two words.
const BLOCK: usize = SIZE / 2;

/// The endless sequence of indices that CPython's `random.Random(seed).choices(values, k=…)` draws.
///
/// They equal those of [`Random::choices_indices`](crate::random::Random::choices_indices), but are drawn a block at a
/// time: an index takes 0.95 ns for up to 65,536 values and 2.2 ns above, instead of 4.5 ns.
#[derive(Clone, Debug)]
pub struct Draws {
    state: [u32; SIZE],
    /// The last block drawn; indices from `used` on have not been returned yet.
    block: [u32; BLOCK],
    used: usize,
    count: u32,
}

impl Draws {
    /// The supported numbers of values.
    pub const COUNTS: RangeInclusive<usize> = 1..=i32::MAX as usize;

    /// Up to this many values, one of the two words almost always decides the index.
    const FEW: u32 = 1 << 16;

    /// Draws indices below `count`, which is clamped to [`Draws::COUNTS`].
    pub fn new(seed: u32, count: usize) -> Self {
        let mut state = [0; SIZE];
        state[0] = 19_650_218;
        for index in 1..SIZE {
            state[index] = scramble(state[index - 1]).wrapping_mul(1_812_433_253).wrapping_add(index as u32);
        }
        // The seed as a key of one word.
        let mut index = 1;
        for _ in 0..SIZE {
            let mixed = state[index] ^ scramble(state[index - 1]).wrapping_mul(1_664_525);
            state[index] = mixed.wrapping_add(seed);
            index = next(&mut state, index);
        }
        for _ in 1..SIZE {
            let mixed = state[index] ^ scramble(state[index - 1]).wrapping_mul(1_566_083_941);
            state[index] = mixed.wrapping_sub(index as u32);
            index = next(&mut state, index);
        }
        state[0] = 0x8000_0000;
        let count = count.clamp(*Self::COUNTS.start(), *Self::COUNTS.end()) as u32;
        Self { state, block: [0; BLOCK], used: BLOCK, count }
    }

    /// Fills a slice with indices.
    pub fn fill(&mut self, out: &mut [u32]) {
        let ready = &self.block[self.used..];
        let (now, out) = out.split_at_mut(ready.len().min(out.len()));
        now.copy_from_slice(&ready[..now.len()]);
        self.used += now.len();
        let (blocks, rest) = out.as_chunks_mut();
        for block in blocks {
            advance(&mut self.state);
            positions(&self.state, self.count, block);
        }
        if !rest.is_empty() {
            advance(&mut self.state);
            positions(&self.state, self.count, &mut self.block);
            rest.copy_from_slice(&self.block[..rest.len()]);
            self.used = rest.len();
        }
    }
}

fn scramble(word: u32) -> u32 {
    word ^ (word >> 30)
}

fn next(state: &mut [u32; SIZE], index: usize) -> usize {
    if index + 1 < SIZE {
        return index + 1;
    }
    state[0] = state[SIZE - 1];
    1
}

/// Generates all words of the next state. Loops that do not wrap around are vectorised.
fn advance(state: &mut [u32; SIZE]) {
    for index in 0..SIZE - SHIFT {
        state[index] = state[index + SHIFT] ^ twist(state[index], state[index + 1]);
    }
    for index in SIZE - SHIFT..SIZE - 1 {
        state[index] = state[index + SHIFT - SIZE] ^ twist(state[index], state[index + 1]);
    }
    state[SIZE - 1] = state[SHIFT - 1] ^ twist(state[SIZE - 1], state[0]);
}

fn twist(left: u32, right: u32) -> u32 {
    let joined = (left & 0x8000_0000) | (right & 0x7fff_ffff);
    (joined >> 1) ^ ((right & 1).wrapping_neg() & 0x9908_b0df)
}

fn temper(mut word: u32) -> u32 {
    word ^= word >> 11;
    word ^= (word << 7) & 0x9d2c_5680;
    word ^= (word << 15) & 0xefc6_0000;
    word ^ (word >> 18)
}

/// The indices that a state yields.
fn positions(state: &[u32; SIZE], count: u32, out: &mut [u32; BLOCK]) {
    if count > Draws::FEW || !positions_of_high_words(state, count, out) {
        positions_of_both_words(state, count, out);
    }
}

/// The indices `⌊random() · count⌋`, where `random()` is `(high · 2²⁶ + low) / 2⁵³`.
fn positions_of_both_words(state: &[u32; SIZE], count: u32, out: &mut [u32; BLOCK]) {
    let words = state.map(temper);
    for (position, [high, low]) in out.iter_mut().zip(words.as_chunks().0) {
        // 27 and 26 bits fit into an `i32`, which converts faster than a `u32`.
        let (high, low) = (f64::from((high >> 5) as i32), f64::from((low >> 6) as i32));
        let random = (high * 67_108_864.0 + low) / 9_007_199_254_740_992.0;
        *position = (random * f64::from(count)) as i32 as u32;
    }
}

/// The indices computed from the high words alone; `false` if a low word may matter, for about one index in
/// `2²⁷ / count`.
///
/// With `high · count = q · 2²⁷ + r`, the low word adds less than `count` to `r`. So the index is `q` as long as
/// `r + count < 2²⁷`: the distance to the next integer is at least `2⁻²⁷`, which survives rounding for counts up to `2²⁶`.
fn positions_of_high_words(state: &[u32; SIZE], count: u32, out: &mut [u32; BLOCK]) -> bool {
    // A full word instead of its upper 27 bits scales all of this by 32.
    let limit = (count * 32).wrapping_neg();
    let mut doubt = 0;
    for (position, [high, _]) in out.iter_mut().zip(state.as_chunks().0) {
        let product = u64::from(temper(*high) & !31) * u64::from(count);
        *position = (product >> 32) as u32;
        // A branch would prevent vectorisation.
        doubt |= u32::from(product as u32 >= limit);
    }
    doubt == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn draws_equal_python() {
        let few = Draws::FEW as usize;
        for seed in [0, 1, 2, 99, 123_456, u32::MAX] {
            for count in [1, 2, 5, 1319, few - 1, few, few + 1, 1_000_003, *Draws::COUNTS.end()] {
                let mut random = Random::from_seed(i64::from(seed));
                let mut draws = Draws::new(seed, count);
                for room in [0, 1, 7, 311, 312, 313, 1000, 624, 0, 20_000] {
                    let mut positions = vec![0; room];
                    draws.fill(&mut positions);
                    let expected = (0..room).map(|_| (random.random() * count as f64) as u32);
                    assert!(positions.into_iter().eq(expected), "seed {seed}, count {count}");
                }
            }
        }
    }

    #[test]
    fn uses_low_words_where_they_matter() {
        let (mut by_one, mut by_both) = ([0; BLOCK], [0; BLOCK]);
        let (mut doubts, mut differences) = (0, 0);
        for count in [1, 2, 3, 1000, 1319, 4096, 9973, 65_521, Draws::FEW] {
            let mut draws = Draws::new(count, count as usize);
            for _ in 0..200 {
                advance(&mut draws.state);
                let sure = positions_of_high_words(&draws.state, count, &mut by_one);
                positions_of_both_words(&draws.state, count, &mut by_both);
                doubts += u32::from(!sure);
                differences += u32::from(by_one != by_both);
                assert!(!sure || by_one == by_both, "count {count}");
            }
        }
        assert!(doubts > differences && differences > 0, "{doubts} doubts, {differences} differences");
    }
}

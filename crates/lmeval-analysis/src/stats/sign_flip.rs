//! The sign-flip permutation test for paired values that are not 0/1.

use rayon::prelude::*;

use super::special::normal_cdf;

/// Up to this many non-zero differences, all sign assignments are counted.
const EXACT: usize = 20;

/// Up to this many, assignments are drawn; above, their distribution is normal for every practical purpose.
const DRAWN: usize = 20_000;

/// Drawn assignments. With the observed one they make p-values multiples of 1/10,000.
const DRAWS: u64 = 9_999;

/// How a p-value was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// All sign assignments were counted.
    Exact,
    /// Random sign assignments were drawn.
    Drawn,
    /// The sum over random signs was taken as normal with variance `Σd²`.
    Normal,
}

/// The outcome of [`sign_flip`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SignFlip {
    /// The two-sided p-value.
    pub p_value: f64,
    /// How it was found.
    pub evidence: Evidence,
}

/// Tests whether differences are symmetric around 0.
///
/// Under the null hypothesis the sign of each difference is a coin flip. The p-value is the share of sign assignments
/// whose sum is at least as far from 0 as the observed one; equality allows for rounding. For clustered documents pass
/// the sums of the clusters.
pub fn sign_flip(differences: &[f64], seed: u64) -> SignFlip {
    if differences.iter().any(|difference| difference.is_nan()) {
        return SignFlip { p_value: f64::NAN, evidence: Evidence::Exact };
    }
    let sizes: Vec<f64> =
        differences.iter().map(|difference| difference.abs()).filter(|&size| size > 0.0).collect();
    let total: f64 = sizes.iter().sum();
    let observed = differences.iter().sum::<f64>().abs();
    // Sums in another order differ in their last digits; such ties count as equal.
    let threshold = observed - 1e-12 * total;
    if sizes.len() <= EXACT {
        return SignFlip { p_value: exact(&sizes, threshold), evidence: Evidence::Exact };
    }
    let squares: f64 = sizes.iter().map(|size| size * size).sum();
    let largest = sizes.iter().copied().fold(0.0, f64::max);
    if sizes.len() > DRAWN && largest * largest < 0.01 * squares {
        let p_value = 2.0 * normal_cdf(-observed / squares.sqrt());
        return SignFlip { p_value, evidence: Evidence::Normal };
    }
    let hits: u64 = (0..DRAWS)
        .into_par_iter()
        .filter(|&draw| random_sum(&sizes, draw_seed(seed, draw)).abs() >= threshold)
        .count() as u64;
    SignFlip { p_value: (hits + 1) as f64 / (DRAWS + 1) as f64, evidence: Evidence::Drawn }
}

/// Counts all sign assignments. The first sign is fixed: flipping all signs changes nothing.
fn exact(sizes: &[f64], threshold: f64) -> f64 {
    let Some((first, rest)) = sizes.split_first() else { return 1.0 };
    let assignments = 1u32 << rest.len();
    let hits = (0..assignments)
        .into_par_iter()
        .filter(|signs| {
            let sum = rest.iter().enumerate().fold(*first, |sum, (index, size)| {
                if signs >> index & 1 == 1 { sum - size } else { sum + size }
            });
            sum.abs() >= threshold
        })
        .count();
    hits as f64 / f64::from(assignments)
}

/// The sum of `sizes` under random signs, 64 signs a draw.
fn random_sum(sizes: &[f64], seed: u64) -> f64 {
    let mut state = seed;
    sizes
        .chunks(64)
        .map(|chunk| {
            let mut bits = split_mix(&mut state);
            chunk.iter().fold(0.0, |sum, size| {
                let signed = f64::from_bits(size.to_bits() | (bits & 1) << 63);
                bits >>= 1;
                sum + signed
            })
        })
        .sum()
}

/// The start of a draw's generator. It is hashed: counters that start a multiple of the increment apart would give the
/// draws overlapping signs.
fn draw_seed(seed: u64, draw: u64) -> u64 {
    let mut state = seed;
    let mut state = split_mix(&mut state) ^ draw;
    split_mix(&mut state)
}

/// SplitMix64: 64 random bits from a counter.
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut bits = *state;
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_do_not_share_signs() {
        // With overlapping generators, consecutive draws would repeat each other's words one step later.
        let words = |draw| {
            let mut state = draw_seed(0, draw);
            [(); 4].map(|()| split_mix(&mut state))
        };
        let mut all: Vec<u64> = (0..100).flat_map(words).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 400);
    }

    #[test]
    fn large_samples_agree_with_the_normal_limit() {
        let differences: Vec<f64> = (0..5_000).map(|index| f64::from(index % 7) - 2.9).collect();
        let shifted: Vec<f64> = differences.iter().map(|difference| difference * 0.1 - 0.005).collect();
        let drawn = sign_flip(&shifted, 3);
        assert_eq!(drawn.evidence, Evidence::Drawn);
        let observed: f64 = shifted.iter().sum();
        let total: f64 = shifted.iter().map(|difference| difference * difference).sum();
        let normal = 2.0 * normal_cdf(-observed.abs() / total.sqrt());
        assert!((drawn.p_value - normal).abs() < 0.02, "{} and {normal}", drawn.p_value);
    }
}

//! The difference of two distributions over the same token.

use lmeval_core::Distribution;

/// How two models differ in the place of one scored token.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measured {
    /// The Kullback-Leibler divergence of the new distribution from that of the base, in nats. A lower bound if the distributions
    /// are not complete.
    pub kl: f64,
    /// What it is at most if no unlisted token differs more than the listed ones do.
    pub kl_high: f64,
    /// The divergence in the other direction.
    pub reverse: f64,
    /// What that is at most, like `kl_high`.
    pub reverse_high: f64,
    /// Whether both models find the same token the most likely.
    pub agrees: bool,
    /// The log-probability of the scored token by the base model.
    pub base: f64,
    /// The log-probability of the scored token by the new model.
    pub new: f64,
}

/// Compares the distributions of two models, and the log-probabilities that they give the scored token.
///
/// Tokens that both distributions list are compared one by one, and all others together. Merging tokens never increases a
/// divergence, so the outcome is a lower bound; of complete distributions it is the divergence itself.
///
/// ```
/// use lmeval_analysis::fidelity::measure;
/// use lmeval_core::Distribution;
///
/// let base = Distribution { likely: vec![(0, 0.75_f64.ln()), (1, 0.25_f64.ln())], rest: 0.0 };
/// let new = Distribution { likely: vec![(0, 0.5_f64.ln()), (1, 0.5_f64.ln())], rest: 0.0 };
/// let found = measure(&base, &new, (0.75_f64.ln(), 0.5_f64.ln()));
/// let kl = 0.75 * 1.5_f64.ln() + 0.25 * 0.5_f64.ln();
/// assert!((found.kl - kl).abs() < 1e-12 && found.agrees);
/// ```
pub fn measure(base: &Distribution, new: &Distribution, (base_logprob, new_logprob): (f64, f64)) -> Measured {
    let mut sums = Sums { base_rest: base.rest, new_rest: new.rest, ..Sums::default() };
    let (mut left, mut right) = (base.likely.as_slice(), new.likely.as_slice());
    loop {
        match (left.split_first(), right.split_first()) {
            (Some(((a, p), after_a)), Some(((b, q), after_b))) if a == b => {
                sums.add(*p, *q);
                (left, right) = (after_a, after_b);
            }
            (Some(((a, p), after_a)), Some(((b, _), _))) if a < b => {
                sums.base_rest += p.exp();
                left = after_a;
            }
            (_, Some(((_, q), after_b))) => {
                sums.new_rest += q.exp();
                right = after_b;
            }
            (Some(((_, p), after_a)), None) => {
                sums.base_rest += p.exp();
                left = after_a;
            }
            (None, None) => break,
        }
    }
    let (kl, kl_high) = with_rest(sums.kl, sums.base_rest, sums.new_rest, sums.largest);
    let (reverse, reverse_high) = with_rest(sums.reverse, sums.new_rest, sums.base_rest, sums.largest);
    let agrees = base.best() == new.best();
    Measured { kl, kl_high, reverse, reverse_high, agrees, base: base_logprob, new: new_logprob }
}

#[derive(Default)]
struct Sums {
    kl: f64,
    reverse: f64,
    base_rest: f64,
    new_rest: f64,
    /// The largest difference of two log-probabilities of a token.
    largest: f64,
}

impl Sums {
    /// Adds a token that both distributions list.
    fn add(&mut self, p: f64, q: f64) {
        if p == f64::NEG_INFINITY && q == f64::NEG_INFINITY {
            return;
        }
        let ratio = p - q;
        if p > f64::NEG_INFINITY {
            self.kl += p.exp() * ratio;
        }
        if q > f64::NEG_INFINITY {
            self.reverse -= q.exp() * ratio;
        }
        if ratio.is_finite() {
            self.largest = self.largest.max(ratio.abs());
        }
    }
}

/// A rest below this is what rounding has left: servers send probabilities in single precision.
const ROUNDING: f64 = 1e-6;

/// The bounds of a divergence, given that of the listed tokens and the probabilities of all others.
fn with_rest(listed: f64, rest: f64, other_rest: f64, largest: f64) -> (f64, f64) {
    if rest <= 0.0 || rest.max(other_rest) < ROUNDING {
        let all = listed.max(0.0);
        return (all, all);
    }
    let ratio = (rest / other_rest).ln();
    let low = (listed + rest * ratio).max(0.0);
    (low, low.max(listed + rest * largest.max(ratio)))
}

#[cfg(test)]
mod tests {
    use lmeval_core::Kept;

    use super::*;

    fn logits(shift: f32) -> Vec<f32> {
        (0..400_u16)
            .map(|index| (f32::from(index) * 1.3).sin() * 6.0 + shift * f32::from(index % 7))
            .collect()
    }

    fn of(logits: &[f32], share: f64) -> Distribution {
        Distribution::of_logits(logits, Kept { share, most: usize::MAX, top: 0 })
    }

    #[test]
    fn incomplete_distributions_give_bounds() {
        let (p, q) = (logits(0.0), logits(0.05));
        let exact = measure(&of(&p, 1.0), &of(&q, 1.0), (0.0, 0.0));
        assert!(exact.kl > 1e-3 && exact.kl == exact.kl_high && exact.reverse == exact.reverse_high);
        for share in [0.5, 0.9, 0.999] {
            for new in [1.0, share] {
                // These models differ by the same amounts everywhere, as the upper estimate assumes.
                let found = measure(&of(&p, share), &of(&q, new), (0.0, 0.0));
                assert!(found.kl <= exact.kl + 1e-12 && exact.kl <= found.kl_high, "{share} {found:?}");
                assert!(found.reverse <= exact.reverse + 1e-12 && exact.reverse <= found.reverse_high);
            }
        }
        let near = measure(&of(&p, 1.0 - 1e-7), &of(&q, 1.0), (0.0, 0.0));
        assert!((near.kl - exact.kl).abs() < 1e-7, "{near:?} {exact:?}");
    }

    #[test]
    fn equal_distributions_do_not_differ() {
        let p = of(&logits(0.0), 0.99);
        let found = measure(&p, &p, (-1.0, -1.0));
        assert!(found.kl.abs() < 1e-15 && found.kl_high.abs() < 1e-15 && found.agrees, "{found:?}");
    }

    #[test]
    fn an_impossible_token_is_infinitely_far() {
        let p = Distribution { likely: vec![(0, 0.5_f64.ln()), (1, 0.5_f64.ln())], rest: 0.0 };
        let q = Distribution { likely: vec![(0, 0.0), (1, f64::NEG_INFINITY)], rest: 0.0 };
        let found = measure(&p, &q, (0.0, 0.0));
        assert_eq!((found.kl, found.agrees), (f64::INFINITY, true));
        assert!((found.reverse - 2.0_f64.ln()).abs() < 1e-12);
    }
}

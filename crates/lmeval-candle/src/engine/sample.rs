//! Choosing the next token.

/// How the next token is chosen.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sampling {
    /// What logits are divided by; 0 takes the most likely token.
    pub(crate) temperature: f64,
    /// How many of the most likely tokens are drawn from; 0 for all.
    pub(crate) top_k: usize,
    /// Tokens are drawn from the fewest whose probabilities reach this.
    pub(crate) top_p: f64,
    /// Tokens are drawn from those that are at least this likely, relative to the most likely one.
    pub(crate) min_p: f64,
    /// Logits of tokens that were there are divided by it where they are positive, and multiplied otherwise.
    pub(crate) repetition_penalty: f64,
    /// Of the draws of this request.
    pub(crate) seed: u64,
}

impl Default for Sampling {
    fn default() -> Self {
        Self { temperature: 0.0, top_k: 0, top_p: 1.0, min_p: 0.0, repetition_penalty: 1.0, seed: 0 }
    }
}

impl Sampling {
    /// Whether the most likely token is taken, and nothing changes what is likely.
    pub(crate) fn is_plain(&self) -> bool {
        self.temperature == 0.0 && self.repetition_penalty == 1.0
    }

    /// The next token; `seen` are the tokens of the text so far.
    pub(crate) fn choose(&self, logits: &mut [f32], seen: &[u32], random: &mut Random) -> u32 {
        if self.repetition_penalty != 1.0 {
            let mut seen = seen.to_vec();
            seen.sort_unstable();
            seen.dedup();
            let penalty = self.repetition_penalty as f32;
            for token in seen {
                if let Some(logit) = logits.get_mut(token as usize) {
                    *logit = if *logit < 0.0 { *logit * penalty } else { *logit / penalty };
                }
            }
        }
        let best = || {
            let best =
                logits.iter().enumerate().reduce(|best, next| if next.1 > best.1 { next } else { best });
            best.map_or(0, |(token, _)| token as u32)
        };
        if self.temperature == 0.0 {
            return best();
        }
        let mut order: Vec<(u32, f64)> = logits
            .iter()
            .enumerate()
            .map(|(token, logit)| (token as u32, f64::from(*logit) / self.temperature))
            .filter(|(_, logit)| !logit.is_nan())
            .collect();
        order.sort_by(|a, b| b.1.total_cmp(&a.1));
        if self.top_k > 0 {
            // Tokens that are as likely as the last one stay.
            if let Some((_, last)) = order.get(self.top_k - 1).copied() {
                order.truncate(order.partition_point(|(_, logit)| *logit >= last));
            }
        }
        let Some((_, largest)) = order.first().copied() else { return best() };
        for (_, logit) in &mut order {
            *logit = (*logit - largest).exp();
        }
        let total: f64 = order.iter().map(|(_, weight)| weight).sum();
        if self.top_p < 1.0 {
            // A token goes where it and all that are less likely have no more than the rest of the probability.
            let mut below = 0.0;
            let mut kept = order.len();
            while kept > 1 {
                below += order[kept - 1].1 / total;
                if below > 1.0 - self.top_p {
                    break;
                }
                kept -= 1;
            }
            order.truncate(kept);
        }
        if self.min_p > 0.0 {
            // The most likely token has the weight 1.
            order.truncate(order.partition_point(|(_, weight)| *weight >= self.min_p).max(1));
        }
        let total: f64 = order.iter().map(|(_, weight)| weight).sum();
        let mut drawn = random.next() * total;
        for (token, weight) in &order {
            drawn -= weight;
            if drawn < 0.0 {
                return *token;
            }
        }
        order.last().map_or_else(best, |(token, _)| *token)
    }
}

/// A small generator of random numbers: each request has one of its own.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// A generator with a seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number from 0 to below 1.
    pub(crate) fn next(&mut self) -> f64 {
        // SplitMix64: one addition and a scrambling of its bits.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^= bits >> 31;
        (bits >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw(sampling: &Sampling, logits: &[f32]) -> Vec<u32> {
        let mut random = Random::new(sampling.seed);
        let mut drawn: Vec<u32> =
            (0..2000).map(|_| sampling.choose(&mut logits.to_vec(), &[], &mut random)).collect();
        drawn.sort_unstable();
        drawn.dedup();
        drawn
    }

    #[test]
    fn tokens_are_drawn_from_the_likely_ones() {
        let logits = [0.0, 3.0, 2.0, 1.0, -20.0];
        let warm = Sampling { temperature: 1.0, ..Sampling::default() };
        assert_eq!(draw(&Sampling::default(), &logits), [1]);
        assert_eq!(draw(&warm, &logits), [0, 1, 2, 3]);
        assert_eq!(draw(&Sampling { top_k: 2, ..warm.clone() }, &logits), [1, 2]);
        // The probabilities are 0.64, 0.24, 0.09 and 0.03.
        assert_eq!(draw(&Sampling { top_p: 0.6, ..warm.clone() }, &logits), [1]);
        assert_eq!(draw(&Sampling { top_p: 0.7, ..warm.clone() }, &logits), [1, 2]);
        assert_eq!(draw(&Sampling { min_p: 0.3, ..warm.clone() }, &logits), [1, 2]);
        assert_eq!(draw(&Sampling { top_p: 0.0, ..warm }, &logits), [1]);
    }

    #[test]
    fn shares_follow_probabilities() {
        let sampling = Sampling { temperature: 1.0, ..Sampling::default() };
        let mut random = Random::new(1);
        let logits = [0.0, (3.0_f32).ln()];
        let ones =
            (0..20_000).filter(|_| sampling.choose(&mut logits.to_vec(), &[], &mut random) == 1).count();
        assert!((14_700..15_300).contains(&ones), "{ones}");
    }

    #[test]
    fn what_was_there_becomes_less_likely() {
        let sampling = Sampling { repetition_penalty: 2.0, ..Sampling::default() };
        let mut random = Random::new(0);
        assert_eq!(sampling.choose(&mut [3.0, 2.0], &[0, 0], &mut random), 1);
        assert_eq!(sampling.choose(&mut [-3.0, -2.0], &[1], &mut random), 0);
    }
}

//! Sampling of the next token.

mod rules;

use std::sync::Arc;

use crate::error::{Error, Result};
use rules::Position;
pub(crate) use rules::Rules;

/// Sampling settings of a request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sampling {
    /// Divides logits; 0 takes the most likely token.
    pub(crate) temperature: f64,
    /// Samples from this many of the most likely tokens; 0 for all.
    pub(crate) top_k: usize,
    /// Samples from the smallest set of most likely tokens whose total probability reaches this.
    pub(crate) top_p: f64,
    /// Samples from tokens at least this likely relative to the most likely one.
    pub(crate) min_p: f64,
    /// Samples from the smallest set of most typical tokens whose total probability reaches this.
    pub(crate) typical_p: f64,
    /// Samples from tokens at least this likely.
    pub(crate) epsilon_cutoff: f64,
    /// Like `epsilon_cutoff`, with a bound that shrinks with rising entropy.
    pub(crate) eta_cutoff: f64,
    /// Divides positive logits of seen tokens, and multiplies negative ones.
    pub(crate) repetition_penalty: f64,
    /// Further logit processors.
    pub(crate) rules: Arc<Rules>,
    /// The length of the prompt in tokens, without what an encoder reads, for the rules.
    pub(crate) prompt: usize,
    /// The maximum total length of prompt and answer, for the rules.
    pub(crate) total: usize,
    /// The seed of this request.
    pub(crate) seed: u64,
}

impl Default for Sampling {
    fn default() -> Self {
        Self {
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            typical_p: 1.0,
            epsilon_cutoff: 0.0,
            eta_cutoff: 0.0,
            repetition_penalty: 1.0,
            rules: Arc::default(),
            prompt: 0,
            total: usize::MAX,
            seed: 0,
        }
    }
}

impl Sampling {
    /// Whether this is plain greedy decoding.
    pub(crate) fn is_plain(&self) -> bool {
        self.temperature == 0.0 && self.repetition_penalty == 1.0 && self.rules.is_empty()
    }

    /// Chooses the next token, given all tokens so far in `seen`. An encoder reads the first `source` of them.
    pub(crate) fn choose(
        &self,
        logits: &mut [f32],
        seen: &[u32],
        source: usize,
        random: &mut Random,
    ) -> Result<u32> {
        let (source, seen) = seen.split_at(source);
        let read = if source.is_empty() { &seen[..self.prompt.min(seen.len())] } else { source };
        let position = Position { seen, prompt: self.prompt, read, total: self.total };
        self.rules.apply(logits, position, self.repetition_penalty);
        let best = || {
            let best =
                logits.iter().enumerate().reduce(|best, next| if next.1 > best.1 { next } else { best });
            best.map_or(0, |(token, _)| token as u32)
        };
        if self.temperature == 0.0 {
            return Ok(best());
        }
        if logits.iter().any(|logit| logit.is_nan() || *logit == f32::INFINITY) {
            return Err(Error::NotFinite);
        }
        let candidates = self.candidates(logits);
        let mut drawn = random.next() * sum(&candidates);
        for (token, weight) in &candidates {
            drawn -= weight;
            if drawn < 0.0 {
                return Ok(*token);
            }
        }
        Ok(candidates.last().map_or_else(best, |(token, _)| *token))
    }

    /// The tokens to sample from with their weights; the largest weight is 1.
    fn candidates(&self, logits: &[f32]) -> Vec<(u32, f64)> {
        let mut tokens: Vec<(u32, f64)> = logits
            .iter()
            .enumerate()
            .map(|(token, logit)| (token as u32, f64::from(*logit) / self.temperature))
            .filter(|(_, logit)| *logit > f64::NEG_INFINITY)
            .collect();
        if (1..tokens.len()).contains(&self.top_k) {
            // Selection instead of sorting, which would dominate the run time. Ties with the last token stay.
            let (_, last, _) = tokens.select_nth_unstable_by(self.top_k - 1, |a, b| b.1.total_cmp(&a.1));
            let last = last.1;
            tokens.retain(|(_, logit)| *logit >= last);
        }
        let largest = tokens.iter().fold(f64::NEG_INFINITY, |most, (_, logit)| most.max(*logit));
        for (_, logit) in &mut tokens {
            *logit = (*logit - largest).exp();
        }
        if self.top_p < 1.0 {
            self.keep_likely(&mut tokens);
        }
        tokens.retain(|(_, weight)| *weight >= self.min_p);
        self.keep_typical(&mut tokens);
        self.cut_off(&mut tokens);
        tokens
    }

    /// Applies `top_p`. A token is dropped if it and all less likely ones together have at most `1 - top_p`.
    fn keep_likely(&self, tokens: &mut Vec<(u32, f64)>) {
        let total = sum(tokens);
        let rest = 1.0 - self.top_p;
        // All tokens below this have at most `rest` together, however many there are. They are most tokens, and need no sorting.
        let least = (rest * total / tokens.len().max(1) as f64).min(1.0);
        tokens.retain(|(_, weight)| *weight >= least);
        tokens.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        let mut below = 1.0 - sum(tokens) / total;
        let mut kept = tokens.len();
        while kept > 1 {
            below += tokens[kept - 1].1 / total;
            if below > rest {
                break;
            }
            kept -= 1;
        }
        tokens.truncate(kept);
    }

    /// Applies `typical_p`: prefers tokens whose surprisal is close to the entropy.
    fn keep_typical(&self, order: &mut Vec<(u32, f64)>) {
        if self.typical_p >= 1.0 {
            return;
        }
        let total = sum(order);
        let expected = entropy(order);
        let distance = |weight: f64| (-(weight / total).ln() - expected).abs();
        let mut typical: Vec<(f64, f64)> =
            order.iter().map(|(_, weight)| (distance(*weight), weight / total)).collect();
        typical.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut reached = 0.0;
        let last = typical.iter().find(|(_, probability)| {
            reached += probability;
            reached >= self.typical_p
        });
        if let Some((furthest, _)) = last {
            order.retain(|(_, weight)| distance(*weight) <= *furthest);
        }
    }

    /// Applies `epsilon_cutoff` and `eta_cutoff`. The most likely tokens always stay.
    fn cut_off(&self, order: &mut Vec<(u32, f64)>) {
        let keep = |order: &mut Vec<(u32, f64)>, least: f64| {
            let total = sum(order);
            let most = order.iter().fold(0.0_f64, |most, (_, weight)| most.max(*weight));
            order.retain(|(_, weight)| *weight / total >= least || *weight >= most);
        };
        if self.epsilon_cutoff > 0.0 {
            keep(order, self.epsilon_cutoff);
        }
        if self.eta_cutoff > 0.0 {
            let least = self.eta_cutoff.min(self.eta_cutoff.sqrt() * (-entropy(order)).exp());
            keep(order, least);
        }
    }
}

fn sum(order: &[(u32, f64)]) -> f64 {
    order.iter().map(|(_, weight)| weight).sum()
}

/// The entropy of normalised weights.
fn entropy(order: &[(u32, f64)]) -> f64 {
    let total = sum(order);
    let each = order.iter().map(|(_, weight)| weight / total).filter(|probability| *probability > 0.0);
    -each.map(|probability| probability * probability.ln()).sum::<f64>()
}

/// A small random number generator, one per request.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// Seeds a generator.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number in `[0, 1)`.
    pub(crate) fn next(&mut self) -> f64 {
        // SplitMix64.
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
            (0..2000).map(|_| sampling.choose(&mut logits.to_vec(), &[], 0, &mut random).unwrap()).collect();
        drawn.sort_unstable();
        drawn.dedup();
        drawn
    }

    #[test]
    fn samples_from_likely_tokens() {
        let logits = [0.0, 3.0, 2.0, 1.0, -20.0];
        let warm = Sampling { temperature: 1.0, ..Sampling::default() };
        assert_eq!(draw(&Sampling::default(), &logits), [1]);
        assert_eq!(draw(&warm, &logits), [0, 1, 2, 3]);
        assert_eq!(draw(&Sampling { top_k: 2, ..warm.clone() }, &logits), [1, 2]);
        // The probabilities are 0.64, 0.24, 0.09 and 0.03.
        assert_eq!(draw(&Sampling { top_p: 0.6, ..warm.clone() }, &logits), [1]);
        assert_eq!(draw(&Sampling { top_p: 0.7, ..warm.clone() }, &logits), [1, 2]);
        assert_eq!(draw(&Sampling { min_p: 0.3, ..warm.clone() }, &logits), [1, 2]);
        assert_eq!(draw(&Sampling { top_p: 0.0, ..warm.clone() }, &logits), [1]);
        // The probabilities are 0.4 and three times 0.2, whose surprisal is closer to the entropy.
        let even = [2.0_f32.ln(), 0.0, 0.0, 0.0];
        assert_eq!(draw(&Sampling { typical_p: 0.5, ..warm.clone() }, &even), [1, 2, 3]);
        assert_eq!(draw(&Sampling { typical_p: 0.9, ..warm.clone() }, &even), [0, 1, 2, 3]);
        assert_eq!(draw(&Sampling { epsilon_cutoff: 0.05, ..warm.clone() }, &logits), [1, 2, 3]);
        assert_eq!(draw(&Sampling { epsilon_cutoff: 0.9, ..warm.clone() }, &logits), [1]);
        // The entropy is 0.95, so the second bound is 0.21.
        assert_eq!(draw(&Sampling { eta_cutoff: 0.07, ..warm.clone() }, &logits), [1, 2, 3]);
        assert_eq!(draw(&Sampling { eta_cutoff: 0.3, ..warm }, &logits), [1, 2]);
    }

    #[test]
    fn probabilities_match_transformers() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/draws.json");
        let recorded: serde_json::Value = serde_json::from_slice(&fs_err::read(path).unwrap()).unwrap();
        for case in recorded["cases"].as_array().unwrap() {
            let numbers = |name: &str| -> Vec<f64> {
                case[name].as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
            };
            let setting = |name: &str, default: f64| {
                case["settings"].get(name).map_or(default, |number| number.as_f64().unwrap())
            };
            let sampling = Sampling {
                temperature: setting("temperature", 1.0),
                top_k: setting("top_k", 0.0) as usize,
                top_p: setting("top_p", 1.0),
                min_p: setting("min_p", 0.0),
                typical_p: setting("typical_p", 1.0),
                epsilon_cutoff: setting("epsilon_cutoff", 0.0),
                eta_cutoff: setting("eta_cutoff", 0.0),
                ..Sampling::default()
            };
            let logits: Vec<f32> = numbers("logits").into_iter().map(|logit| logit as f32).collect();
            let candidates = sampling.candidates(&logits);
            let mut found = vec![0.0; logits.len()];
            for (token, weight) in &candidates {
                found[*token as usize] = weight / sum(&candidates);
            }
            let expected = numbers("probabilities");
            let is_close = found.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-5);
            assert!(is_close, "{case}: {found:?}");
        }
    }

    #[test]
    fn frequencies_follow_probabilities() {
        let sampling = Sampling { temperature: 1.0, ..Sampling::default() };
        let mut random = Random::new(1);
        let logits = [0.0, (3.0_f32).ln()];
        let ones = (0..20_000)
            .filter(|_| sampling.choose(&mut logits.to_vec(), &[], 0, &mut random).unwrap() == 1)
            .count();
        assert!((14_700..15_300).contains(&ones), "{ones}");
    }

    #[test]
    fn never_samples_suppressed_tokens() {
        let rules = Arc::new(Rules { suppressed: vec![1, 2], ..Rules::default() });
        let sampling = Sampling { temperature: 1.0, rules, ..Sampling::default() };
        assert!(!sampling.is_plain());
        assert_eq!(draw(&sampling, &[0.0, 3.0, 2.0, 1.0]), [0, 3]);
        let rules = Arc::new(Rules { suppressed: vec![0, 1], ..Rules::default() });
        assert_eq!(draw(&Sampling { rules, ..sampling }, &[0.0, 3.0]), [0]);
    }

    #[test]
    fn penalises_seen_tokens() {
        let sampling = Sampling { repetition_penalty: 2.0, ..Sampling::default() };
        let mut random = Random::new(0);
        assert_eq!(sampling.choose(&mut [3.0, 2.0], &[0, 0], 0, &mut random).unwrap(), 1);
        assert_eq!(sampling.choose(&mut [-3.0, -2.0], &[1], 0, &mut random).unwrap(), 0);
        let warm = Sampling { temperature: 1.0, ..Sampling::default() };
        for number in [f32::NAN, f32::INFINITY] {
            assert!(matches!(warm.choose(&mut [number, 1.0], &[], 0, &mut random), Err(Error::NotFinite)));
        }
    }
}

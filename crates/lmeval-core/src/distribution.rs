//! Distributions over the next token, by which two models are compared token by token.

use crate::model_error::ModelError;

/// How much of each distribution a model returns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Kept {
    /// The share of the probability that the returned tokens have together. At 1, all tokens are returned.
    pub share: f64,
    /// The maximum number of returned tokens of a model that computes here.
    pub most: usize,
    /// The number of most likely tokens to ask a server for.
    pub top: usize,
}

/// The probabilities of the next token.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Distribution {
    /// The likely tokens with the natural logarithms of their probabilities, in the order of their ids.
    pub likely: Vec<(u32, f64)>,
    /// The probability of all other tokens together.
    pub rest: f64,
}

/// The width of the classes by which [`Distribution::of_logits`] selects tokens, in nats.
const CLASS: f64 = 0.125;
/// The number of classes; tokens further from the most likely one belong to the last.
const CLASSES: usize = 1024;

impl Distribution {
    /// The distribution with these logits, without the unlikely tokens that `kept` does not ask for.
    ///
    /// ```
    /// use lmeval_core::{Distribution, Kept};
    ///
    /// let logits = [0.0, 3.0, -9.0, 2.5];
    /// let all = Distribution::of_logits(&logits, Kept { share: 1.0, most: 4, top: 0 });
    /// assert_eq!((all.likely.len(), all.rest), (4, 0.0));
    /// let some = Distribution::of_logits(&logits, Kept { share: 0.9, most: 4, top: 0 });
    /// assert_eq!(some.likely.iter().map(|(token, _)| *token).collect::<Vec<_>>(), [1, 3]);
    /// assert!((some.rest - 0.0303).abs() < 1e-3);
    /// ```
    pub fn of_logits(logits: &[f32], kept: Kept) -> Self {
        let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let distance = |logit: f32| f64::from(largest) - f64::from(logit);
        let total: f64 = logits.iter().map(|logit| (-distance(*logit)).exp()).sum();
        let normaliser = total.ln();
        let logprob = |logit: f32| -distance(logit) - normaliser;
        let all = || logits.iter().enumerate().map(|(token, logit)| (token as u32, *logit));
        if kept.share >= 1.0 && kept.most >= logits.len() {
            return Self { likely: all().map(|(token, logit)| (token, logprob(logit))).collect(), rest: 0.0 };
        }
        let class = |logit: f32| ((distance(logit) / CLASS) as usize).min(CLASSES - 1);
        let mut classes = vec![0.0_f64; CLASSES];
        for &logit in logits {
            classes[class(logit)] += (-distance(logit)).exp();
        }
        // Whole classes are kept, so that no sorting is needed.
        let (mut mass, mut last) = (0.0, 0);
        for (index, added) in classes.into_iter().enumerate() {
            if mass >= kept.share * total {
                break;
            }
            (mass, last) = (mass + added, index);
        }
        let likely = all().filter(|(_, logit)| class(*logit) <= last);
        let mut likely: Vec<(u32, f64)> = likely.map(|(token, logit)| (token, logprob(logit))).collect();
        let others = all().filter(|(_, logit)| class(*logit) > last);
        let mut rest: f64 = others.map(|(_, logit)| logprob(logit).exp()).sum();
        if likely.len() > kept.most {
            let order = |a: &(u32, f64), b: &(u32, f64)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
            likely.select_nth_unstable_by(kept.most, order);
            rest += likely.drain(kept.most..).map(|(_, logprob)| logprob.exp()).sum::<f64>();
            likely.sort_unstable_by_key(|(token, _)| *token);
        }
        Self { likely, rest }
    }

    /// The distribution with these likely tokens, in any order; the others have the rest of the probability.
    pub fn of_likely(mut likely: Vec<(u32, f64)>) -> Self {
        likely.sort_unstable_by_key(|(token, _)| *token);
        likely.dedup_by_key(|(token, _)| *token);
        let mass: f64 = likely.iter().map(|(_, logprob)| logprob.exp()).sum();
        Self { likely, rest: (1.0 - mass).max(0.0) }
    }

    /// The logarithm of a token's probability, if it is among the likely ones.
    pub fn logprob(&self, token: u32) -> Option<f64> {
        let found = self.likely.binary_search_by_key(&token, |(token, _)| *token);
        found.ok().map(|index| self.likely[index].1)
    }

    /// The most likely token; of several with the same probability, the one with the smallest id.
    pub fn best(&self) -> Option<u32> {
        let mut best: Option<(u32, f64)> = None;
        for &(token, logprob) in &self.likely {
            if best.is_none_or(|(_, most)| logprob > most) {
                best = Some((token, logprob));
            }
        }
        best.map(|(token, _)| token)
    }

    /// The `count` most likely tokens, the most likely first.
    pub fn top(&self, count: usize) -> Vec<(u32, f64)> {
        let mut all = self.likely.clone();
        all.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        all.truncate(count);
        all
    }
}

/// What a model returns about the tokens of a request.
#[derive(Clone, Debug)]
pub enum DistributionPart {
    /// The tokens of the request, before its distributions.
    Tokens {
        /// Those of the context, followed by those that are scored.
        tokens: Vec<u32>,
        /// The number of scored ones, at the end.
        scored: usize,
    },
    /// The distribution of one scored token. May come twice; both are equal then.
    Token {
        /// The index among the scored tokens.
        position: usize,
        /// The logarithm of the probability of the token itself.
        logprob: f64,
        /// The probabilities of all tokens in its place.
        distribution: Distribution,
    },
    /// The request cannot be answered.
    Failed(ModelError),
}

/// Receives the distributions of requests in any order: the index of the request, and a part of what is known about it. Returns whether
/// more is wanted.
pub type DistributionSink = Box<dyn FnMut(usize, DistributionPart) -> bool + Send>;

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(share: f64, most: usize) -> Kept {
        Kept { share, most, top: 0 }
    }

    #[test]
    fn keeps_the_likely_tokens_in_the_order_of_their_ids() {
        let logits: Vec<f32> = (0..500).map(|index: u16| (f32::from(index) * 1.7).sin() * 8.0).collect();
        let all = Distribution::of_logits(&logits, kept(1.0, 500));
        let total: f64 = all.likely.iter().map(|(_, logprob)| logprob.exp()).sum();
        assert!((total - 1.0).abs() < 1e-12 && all.rest == 0.0);
        for share in [0.5, 0.99, 0.9999] {
            let some = Distribution::of_logits(&logits, kept(share, 500));
            assert!(some.rest <= 1.0 - share && some.likely.len() < 500, "{share}");
            assert!(some.likely.windows(2).all(|pair| pair[0].0 < pair[1].0));
            assert!(some.likely.iter().all(|(token, logprob)| all.logprob(*token) == Some(*logprob)));
            let mass: f64 = some.likely.iter().map(|(_, logprob)| logprob.exp()).sum();
            assert!((mass + some.rest - 1.0).abs() < 1e-12);
            assert_eq!(some.best(), all.best());
        }
        let few = Distribution::of_logits(&logits, kept(0.9999, 20));
        let mut most = all.top(20);
        most.sort_unstable_by_key(|(token, _)| *token);
        assert_eq!(few.likely, most);
        assert_eq!(all.top(2)[0].0, all.best().unwrap());
    }

    #[test]
    fn tokens_that_are_impossible_have_no_share() {
        let logits = [1.0, f32::NEG_INFINITY, 1.0];
        let all = Distribution::of_logits(&logits, kept(1.0, 3));
        assert_eq!((all.logprob(1), all.best()), (Some(f64::NEG_INFINITY), Some(0)));
        let some = Distribution::of_logits(&logits, kept(0.999, 3));
        assert_eq!((some.likely.len(), some.rest), (2, 0.0));
    }

    #[test]
    fn servers_list_tokens_in_any_order() {
        let found = Distribution::of_likely(vec![(7, 0.25_f64.ln()), (3, 0.5_f64.ln()), (7, 0.25_f64.ln())]);
        assert_eq!(found.likely.len(), 2);
        assert!((found.rest - 0.25).abs() < 1e-12);
        assert_eq!((found.best(), found.logprob(4)), (Some(3), None));
    }
}

//! Figures over many tokens.

use super::Measured;

/// The mean of numbers that come in clusters, with its standard error.
///
/// Tokens of one document are alike, so the error is that of the documents' sums.
pub fn mean_and_error(clusters: &[(f64, usize)]) -> (f64, f64) {
    let count: usize = clusters.iter().map(|(_, count)| count).sum();
    let mean = clusters.iter().map(|(sum, _)| sum).sum::<f64>() / count as f64;
    let documents = clusters.len() as f64;
    let squares: f64 = clusters.iter().map(|(sum, count)| (sum - mean * *count as f64).powi(2)).sum();
    let error = (squares * documents / (documents - 1.0)).sqrt() / count as f64;
    (mean, error)
}

/// The figures of one quantity over many tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TokenFigures {
    /// The mean over all tokens.
    pub mean: f64,
    /// The standard error of the mean, clustered by document.
    pub stderr: f64,
    /// The median.
    pub median: f64,
    /// The value that 99 % of the tokens do not exceed.
    pub most: f64,
    /// The largest value.
    pub largest: f64,
}

impl TokenFigures {
    /// The figures of a quantity of each token, document by document.
    fn of(documents: &[&[Measured]], quantity: impl Fn(&Measured) -> f64) -> Self {
        let mut values: Vec<f64> = documents.iter().flat_map(|tokens| tokens.iter().map(&quantity)).collect();
        let sums = documents.iter().map(|tokens| (tokens.iter().map(&quantity).sum::<f64>(), tokens.len()));
        let (mean, stderr) = mean_and_error(&sums.collect::<Vec<_>>());
        values.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let rank = ((values.len() as f64 * share).ceil() as usize).clamp(1, values.len().max(1));
            values.get(rank - 1).copied().unwrap_or(f64::NAN)
        };
        Self { mean, stderr, median: at(0.5), most: at(0.99), largest: at(1.0) }
    }
}

/// How two models differ over the tokens of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// Documents with scored tokens.
    pub documents: usize,
    /// Scored tokens.
    pub tokens: usize,
    /// The divergence of the new model's distributions, in nats.
    pub kl: TokenFigures,
    /// The mean of its upper estimates.
    pub kl_high: f64,
    /// The divergence in the other direction.
    pub reverse: TokenFigures,
    /// The mean of its upper estimates.
    pub reverse_high: f64,
    /// The share of the tokens in whose place both models find the same token the most likely.
    pub agreement: f64,
    /// The mean difference of the scored token's log-probability, new minus base.
    pub logprob: TokenFigures,
    /// The root of the mean squared difference of the scored token's probability.
    pub probability_rms: f64,
    /// The perplexity of the scored tokens by the base model.
    pub base_perplexity: f64,
    /// The perplexity of the scored tokens by the new model.
    pub new_perplexity: f64,
}

impl Figures {
    /// The figures over the tokens of documents; `None` without any token.
    ///
    /// ```
    /// use lmeval_analysis::fidelity::{Figures, Measured};
    ///
    /// let token = Measured { kl: 0.5, agrees: true, base: -1.0, new: -1.5, ..Measured::default() };
    /// let figures = Figures::of(&[&[token, token], &[Measured { kl: 0.2, ..token }]]).unwrap();
    /// assert_eq!((figures.tokens, figures.agreement, figures.kl.median), (3, 1.0, 0.5));
    /// assert!((figures.kl.mean - 0.4).abs() < 1e-12);
    /// assert!((figures.new_perplexity / figures.base_perplexity - 0.5_f64.exp()).abs() < 1e-12);
    /// assert!(Figures::of(&[]).is_none());
    /// ```
    pub fn of(documents: &[&[Measured]]) -> Option<Self> {
        let documents: Vec<&[Measured]> =
            documents.iter().copied().filter(|tokens| !tokens.is_empty()).collect();
        let all = || documents.iter().flat_map(|tokens| tokens.iter());
        let tokens = all().count();
        if tokens == 0 {
            return None;
        }
        let mean = |quantity: &dyn Fn(&Measured) -> f64| all().map(quantity).sum::<f64>() / tokens as f64;
        Some(Self {
            documents: documents.len(),
            tokens,
            kl: TokenFigures::of(&documents, |token| token.kl),
            kl_high: mean(&|token| token.kl_high),
            reverse: TokenFigures::of(&documents, |token| token.reverse),
            reverse_high: mean(&|token| token.reverse_high),
            agreement: mean(&|token| f64::from(u8::from(token.agrees))),
            logprob: TokenFigures::of(&documents, |token| token.new - token.base),
            probability_rms: mean(&|token| (token.new.exp() - token.base.exp()).powi(2)).sqrt(),
            base_perplexity: (-mean(&|token| token.base)).exp(),
            new_perplexity: (-mean(&|token| token.new)).exp(),
        })
    }
}

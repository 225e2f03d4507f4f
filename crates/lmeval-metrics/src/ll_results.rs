//! Log-likelihoods of the options of one document.

use lmeval_pycompat::strings::is_space;
use lmeval_pycompat::{Dict, Value};

use crate::error::MetricError;

/// The log-likelihoods of one document: the predictions that metrics of `loglikelihood`, `loglikelihood_rolling` and
/// `multiple_choice` tasks receive.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LLResults {
    /// The log-likelihood of each option.
    pub lls: Vec<f64>,
    /// Whether greedy decoding would produce the option.
    pub is_greedy: Vec<bool>,
    /// The target: an index, a list of indices, or a string.
    pub targets: Value,
    /// The context of the first option.
    pub ctx: String,
    /// The text of each option as sent, including the delimiter.
    pub choices: Vec<String>,
    /// Log-likelihood with the context minus log-likelihood without it; empty if it was not requested.
    pub lls_mutual_info: Vec<f64>,
    /// Additional data for custom metrics.
    pub metadata: Dict,
    /// The strings whose length normalises `acc_norm` and `acc_bytes`: each option without its delimiter, or its
    /// context if the contexts are the options. If empty, [`LLResults::choices`] is used.
    pub option_texts: Vec<String>,
}

impl LLResults {
    /// Builds the results from the answers to one document: `(log-likelihood, is greedy)` of each option with the
    /// context and, for mutual information, without it.
    ///
    /// ```
    /// use lmeval_metrics::LLResults;
    ///
    /// let results = LLResults::from_answers(
    ///     &[(-1.0, false), (-2.0, false)],
    ///     &[(-5.0, false), (-1.0, false)],
    ///     vec![" A".to_owned(), " B".to_owned()],
    /// )
    /// .unwrap();
    /// assert_eq!(results.lls_mutual_info, [4.0, -1.0]);
    /// ```
    pub fn from_answers(
        conditional: &[(f64, bool)],
        unconditional: &[(f64, bool)],
        choices: Vec<String>,
    ) -> Result<Self, MetricError> {
        if !unconditional.is_empty() && unconditional.len() != conditional.len() {
            return Err(MetricError::UnpairedAnswers {
                conditional: conditional.len(),
                unconditional: unconditional.len(),
            });
        }
        Ok(Self {
            lls: conditional.iter().map(|answer| answer.0).collect(),
            is_greedy: conditional.iter().map(|answer| answer.1).collect(),
            choices,
            lls_mutual_info: conditional
                .iter()
                .zip(unconditional)
                .map(|(with, without)| with.0 - without.0)
                .collect(),
            ..Self::default()
        })
    }

    /// Sets the target.
    pub fn with_target(mut self, target: impl Into<Value>) -> Self {
        self.targets = target.into();
        self
    }

    /// Sets the context.
    pub fn with_context(mut self, context: impl Into<String>) -> Self {
        self.ctx = context.into();
        self
    }

    /// Sets the strings whose length normalises `acc_norm` and `acc_bytes`.
    pub fn with_option_texts(mut self, texts: Vec<String>) -> Self {
        self.option_texts = texts;
        self
    }

    /// The length of each option in characters.
    pub fn char_len(&self) -> Vec<f64> {
        self.lengths(&self.choices, |text| text.chars().count())
    }

    /// The length of each option in bytes.
    pub fn byte_len(&self) -> Vec<f64> {
        self.lengths(&self.choices, str::len)
    }

    /// The number of whitespace-separated pieces of each option, including empty ones at the ends.
    pub fn word_len(&self) -> Vec<f64> {
        self.lengths(&self.choices, words)
    }

    /// The length of each option in characters, without its delimiter.
    pub fn option_char_len(&self) -> Vec<f64> {
        self.lengths(self.option_texts(), |text| text.chars().count())
    }

    /// The length of each option in bytes, without its delimiter.
    pub fn option_byte_len(&self) -> Vec<f64> {
        self.lengths(self.option_texts(), str::len)
    }

    fn option_texts(&self) -> &[String] {
        if self.option_texts.is_empty() { &self.choices } else { &self.option_texts }
    }

    fn lengths(&self, texts: &[String], length: impl Fn(&str) -> usize) -> Vec<f64> {
        if texts.is_empty() {
            return vec![1.0; self.lls.len()];
        }
        texts.iter().map(|text| length(text) as f64).collect()
    }
}

/// The number of pieces after splitting at `\s+`.
fn words(text: &str) -> usize {
    let mut pieces = 1;
    let mut in_space = false;
    for character in text.chars() {
        // Python's `\s` in `str` patterns is `str.isspace`.
        let space = is_space(character);
        pieces += usize::from(space && !in_space);
        in_space = space;
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_characters_bytes_and_words() {
        let results = LLResults {
            lls: vec![-1.0, -2.0],
            choices: vec![" é".to_owned(), "a b  c\n".to_owned()],
            ..LLResults::default()
        };
        assert_eq!(results.char_len(), [2.0, 7.0]);
        assert_eq!(results.byte_len(), [3.0, 7.0]);
        assert_eq!(results.word_len(), [2.0, 4.0]);
        let bare = results.clone().with_option_texts(vec!["é".to_owned(), "x".to_owned()]);
        assert_eq!(bare.option_char_len(), [1.0, 1.0]);
        assert_eq!(bare.option_byte_len(), [2.0, 1.0]);
        assert_eq!(words(""), 1);
        let without = LLResults { choices: Vec::new(), ..results };
        assert_eq!(without.word_len(), [1.0, 1.0]);
    }

    #[test]
    fn rejects_unpaired_answers() {
        let error = LLResults::from_answers(&[(-1.0, true)], &[(0.0, true); 2], Vec::new()).unwrap_err();
        assert_eq!(error.to_string(), "1 answers with the context, but 2 without it");
    }
}

//! Stop strings, and extraction of the answer.

use lmeval_core::ModelError;
use lmeval_tokenizers::HuggingFaceTokenizer;

use crate::arguments::ThinkEnd;

/// Finds stop strings at the end of the generated tokens.
#[derive(Debug)]
pub(crate) struct StopCheck {
    stops: Vec<String>,
    /// The number of trailing tokens that can contain a stop string.
    lookback: usize,
}

impl StopCheck {
    /// Prepares the check for some stop strings.
    pub(crate) fn new(stops: &[String], tokenizer: &HuggingFaceTokenizer) -> Result<Self, ModelError> {
        let mut longest = 0;
        for stop in stops {
            longest = longest.max(tokenizer.encode(stop, false)?.len());
        }
        Ok(Self { stops: stops.to_vec(), lookback: longest + 2 })
    }

    /// Whether the last tokens contain a stop string.
    pub(crate) fn is_found(&self, tokens: &[u32], tokenizer: &HuggingFaceTokenizer) -> bool {
        if self.stops.is_empty() {
            return false;
        }
        let tail = &tokens[tokens.len().saturating_sub(self.lookback)..];
        let text = tokenizer.decode(tail).unwrap_or_default();
        self.stops.iter().any(|stop| text.contains(stop.as_str()))
    }
}

/// Decodes an answer, without thinking and up to the first stop string.
pub(crate) fn answer_text(
    tokens: &[u32],
    stops: &[String],
    think_end: Option<&ThinkEnd>,
    thinks_first: bool,
    tokenizer: &HuggingFaceTokenizer,
) -> Result<String, ModelError> {
    let mut tokens = tokens;
    if let Some(ThinkEnd::Token(end)) = think_end
        && let Some(index) = tokens.iter().rposition(|token| token == end)
    {
        tokens = &tokens[index + 1..];
    }
    let mut text = tokenizer.decode_plain(tokens)?;
    if matches!(think_end, Some(ThinkEnd::Token(_))) {
        text.drain(..text.len() - text.trim_start().len());
    }
    let marker = match think_end {
        Some(ThinkEnd::Text(marker)) if !marker.is_empty() => Some(marker.as_str()),
        _ => None,
    };
    let without_thinking = |text: String| match marker {
        Some(marker) => {
            let rest = text.rsplit(marker).next().unwrap_or_default();
            rest.trim_start().to_owned()
        }
        None => text,
    };
    if thinks_first {
        text = without_thinking(text);
    }
    for stop in stops {
        if let Some(offset) = text.find(stop.as_str()) {
            text.truncate(offset);
        }
    }
    Ok(if thinks_first { text } else { without_thinking(text) })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn tokenizer() -> HuggingFaceTokenizer {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/llama");
        HuggingFaceTokenizer::from_folder(&folder).unwrap()
    }

    #[test]
    fn finds_stop_strings_across_tokens() {
        let tokenizer = tokenizer();
        let stops = ["swer is t".to_owned(), "é!".to_owned()];
        let check = StopCheck::new(&stops, &tokenizer).unwrap();
        let until_stop = |text: &str| {
            let tokens = tokenizer.encode(text, false).unwrap();
            let found = (0..=tokens.len()).find(|count| check.is_found(&tokens[..*count], &tokenizer));
            found.map(|count| tokenizer.decode(&tokens[..count]).unwrap())
        };
        // Stops at the first token that completes the stop string.
        let found = until_stop("What the answer is that it is the answer").unwrap();
        assert!(
            found.starts_with("What the answer is t") && found.len() < "What the answer is that it".len()
        );
        // A character of several tokens.
        assert_eq!(until_stop("caf\u{e9}! now").as_deref(), Some("café!"));
        assert_eq!(until_stop("the answer was that"), None);
        assert!(!StopCheck::new(&[], &tokenizer).unwrap().is_found(&[1, 2], &tokenizer));
    }

    #[test]
    fn removes_thinking_before_or_after_stop_strings() {
        let tokenizer = tokenizer();
        let stops = ["\n\n".to_owned()];
        let text = |text: &str, end: &ThinkEnd, thinks_first: bool| {
            let tokens = tokenizer.encode(text, false).unwrap();
            answer_text(&tokens, &stops, Some(end), thinks_first, &tokenizer).unwrap()
        };
        let marker = ThinkEnd::Text("</t>".into());
        for thinks_first in [true, false] {
            assert_eq!(text("think</t> ans\n\nx", &marker, thinks_first), "ans");
            assert_eq!(text("no marker\n\nx", &marker, thinks_first), "no marker");
            assert_eq!(text("a</t>b</t> c", &marker, thinks_first), "c");
        }
        assert_eq!(text("a\n\nb</t>  c", &marker, true), "c");
        assert_eq!(text("a\n\nb</t>  c", &marker, false), "a");
        // An end token is always applied before the stop strings.
        let token = tokenizer.encode("#", false).unwrap()[0];
        assert_eq!(text("a\n\nb#  c\n\nd", &ThinkEnd::Token(token), false), "c");
        assert_eq!(text("  a", &ThinkEnd::Token(token), false), "a");
        assert_eq!(text("a#", &ThinkEnd::Token(token), true), "");
    }
}

//! What ends a text, and what of it is the answer.

use lmeval_core::ModelError;
use lmeval_tokenizers::HuggingFaceTokenizer;

use crate::arguments::ThinkEnd;

/// Looks for stop strings at the end of what was generated.
#[derive(Debug)]
pub(crate) struct StopCheck {
    stops: Vec<String>,
    /// How many tokens a stop string may span, and some around it.
    lookback: usize,
}

impl StopCheck {
    /// A check for some stop strings.
    pub(crate) fn new(stops: &[String], tokenizer: &HuggingFaceTokenizer) -> Result<Self, ModelError> {
        let mut longest = 0;
        for stop in stops {
            longest = longest.max(tokenizer.encode(stop, false)?.len());
        }
        Ok(Self { stops: stops.to_vec(), lookback: longest + 2 })
    }

    /// Whether a stop string stands in the last tokens.
    pub(crate) fn is_found(&self, tokens: &[u32], tokenizer: &HuggingFaceTokenizer) -> bool {
        if self.stops.is_empty() {
            return false;
        }
        let tail = &tokens[tokens.len().saturating_sub(self.lookback)..];
        let text = tokenizer.decode(tail).unwrap_or_default();
        self.stops.iter().any(|stop| text.contains(stop.as_str()))
    }
}

/// The text of an answer: without what was thought, up to the first stop string.
pub(crate) fn answer_text(
    tokens: &[u32],
    stops: &[String],
    think_end: Option<&ThinkEnd>,
    thinks_first: bool,
    tokenizer: &HuggingFaceTokenizer,
) -> Result<String, ModelError> {
    let mut tokens = tokens;
    if let Some(ThinkEnd::Token(end)) = think_end
        && let Some(place) = tokens.iter().rposition(|token| token == end)
    {
        tokens = &tokens[place + 1..];
    }
    let mut text = tokenizer.decode_plain(tokens)?;
    if matches!(think_end, Some(ThinkEnd::Token(_))) {
        text.drain(..text.len() - text.trim_start().len());
    }
    let marker = match think_end {
        Some(ThinkEnd::Text(marker)) if !marker.is_empty() => Some(marker.as_str()),
        _ => None,
    };
    let without_thoughts = |text: String| match marker {
        Some(marker) => {
            let rest = text.rsplit(marker).next().unwrap_or_default();
            rest.trim_start().to_owned()
        }
        None => text,
    };
    if thinks_first {
        text = without_thoughts(text);
    }
    for stop in stops {
        if let Some(place) = text.find(stop.as_str()) {
            text.truncate(place);
        }
    }
    Ok(if thinks_first { text } else { without_thoughts(text) })
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
    fn stop_strings_are_found_across_tokens() {
        let tokenizer = tokenizer();
        let stops = ["swer is t".to_owned(), "é!".to_owned()];
        let check = StopCheck::new(&stops, &tokenizer).unwrap();
        let place = |text: &str| {
            let tokens = tokenizer.encode(text, false).unwrap();
            let found = (0..=tokens.len()).find(|count| check.is_found(&tokens[..*count], &tokenizer));
            found.map(|count| tokenizer.decode(&tokens[..count]).unwrap())
        };
        // As soon as it is there, with what the last token has beyond it.
        let found = place("What the answer is that it is the answer").unwrap();
        assert!(
            found.starts_with("What the answer is t") && found.len() < "What the answer is that it".len()
        );
        // A letter of several tokens.
        assert_eq!(place("caf\u{e9}! now").as_deref(), Some("café!"));
        assert_eq!(place("the answer was that"), None);
        assert!(!StopCheck::new(&[], &tokenizer).unwrap().is_found(&[1, 2], &tokenizer));
    }

    #[test]
    fn thoughts_and_stop_strings_in_both_orders() {
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
        // A token comes before the stop strings in any case.
        let token = tokenizer.encode("#", false).unwrap()[0];
        assert_eq!(text("a\n\nb#  c\n\nd", &ThinkEnd::Token(token), false), "c");
        assert_eq!(text("  a", &ThinkEnd::Token(token), false), "a");
        assert_eq!(text("a#", &ThinkEnd::Token(token), true), "");
    }
}

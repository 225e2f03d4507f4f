//! Stop strings, and extraction of the answer.

use std::sync::Arc;

use lmeval_core::{ModelError, Separator, Trace};
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

/// A decoded generation.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Decoded {
    /// The answer, without thinking and up to the first stop string.
    pub(crate) answer: String,
    /// Everything that was generated before and after it.
    pub(crate) trace: Trace,
}

/// Decodes a generation. With `thinks_first`, stop strings apply only after thinking.
pub(crate) fn decode(
    tokens: &[u32],
    stops: &[String],
    think_end: Option<&ThinkEnd>,
    thinks_first: bool,
    tokenizer: &HuggingFaceTokenizer,
) -> Result<Decoded, ModelError> {
    let (mut before, mut text) = (String::new(), tokenizer.decode_plain(tokens)?);
    if let Some(ThinkEnd::Token(end)) = think_end {
        if let Some(index) = tokens.iter().rposition(|token| token == end) {
            let (thoughts, answer) = tokens.split_at(index + 1);
            (before, text) = (tokenizer.decode_plain(thoughts)?, tokenizer.decode_plain(answer)?);
        }
        let spaces = text.len() - text.trim_start().len();
        before.extend(text.drain(..spaces));
    }
    let marker = match think_end {
        Some(ThinkEnd::Text(marker)) if !marker.is_empty() => Some(marker.as_str()),
        _ => None,
    };
    let start_of = |text: &str| {
        let Some(marker) = marker else { return 0 };
        let end = text.rfind(marker).map_or(0, |offset| offset + marker.len());
        text.len() - text[end..].trim_start().len()
    };
    let first = if thinks_first { start_of(&text) } else { 0 };
    let end = stops.iter().filter_map(|stop| text[first..].find(stop.as_str())).min();
    let end = end.map_or(text.len(), |end| first + end);
    let start = if thinks_first { first } else { start_of(&text[..end]) };
    let trace = Trace {
        reasoning: (before + &text[..start]).into(),
        separator: Separator::Marker,
        rest: text[end..].into(),
        tokens: tokenizer.ends(tokens)?,
        ids: Arc::default(),
    };
    Ok(Decoded { answer: text[start..end].to_owned(), trace })
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
            decode(&tokens, &stops, Some(end), thinks_first, &tokenizer).unwrap().answer
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

    #[test]
    fn cuts_like_a_lower_limit() {
        let tokenizer = tokenizer();
        let tokens = tokenizer.encode("caf\u{e9}\u{20ac} hm</t> it is\n\n", false).unwrap();
        let stops = ["\n\n".to_owned()];
        let marker = ThinkEnd::Text("</t>".into());
        for (end, thinks_first) in [(None, false), (Some(&marker), false), (Some(&marker), true)] {
            let read =
                |count: usize| decode(&tokens[..count], &stops, end, thinks_first, &tokenizer).unwrap();
            let whole = read(tokens.len());
            let stops: Vec<Arc<str>> = stops.iter().map(|stop| stop.as_str().into()).collect();
            for count in 0..tokens.len() {
                let cut = whole.trace.cut(&whole.answer, count, &stops);
                assert_eq!(cut, Some(read(count).answer), "{count} {end:?} {thinks_first}");
            }
            assert_eq!(whole.trace.cut(&whole.answer, tokens.len(), &stops), None);
        }
    }
}

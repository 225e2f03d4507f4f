//! What ends a text, and what of it is the answer.

use lmeval_core::ModelError;
use lmeval_models::HuggingFaceTokenizer;

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

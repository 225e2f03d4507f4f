//! What a generation consists of besides its answer.

use std::sync::Arc;

use lmeval_pycompat::Value;

/// How the answer was told apart from the reasoning before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Separator {
    /// By a marker in the text. Without the marker, all of the text is the answer.
    #[default]
    Marker,
    /// By the server, which returns both apart. Unfinished reasoning has an empty answer.
    Field,
}

impl Separator {
    const ALL: [Self; 2] = [Self::Marker, Self::Field];

    /// The code in journals and messages between processes.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The one with a code.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|separator| separator.code() == code)
    }
}

/// Everything that was generated besides the answer, and where each token ended.
///
/// The reasoning, the answer and the rest make up the whole text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// Everything before the answer: reasoning with its marker, and whitespace.
    pub reasoning: Arc<str>,
    /// How the reasoning ended.
    pub separator: Separator,
    /// What was generated after the answer: a stop string.
    pub rest: Arc<str>,
    /// The tokens of the whole text; empty if only their number is known.
    pub tokens: TokenEnds,
    /// The ids of the tokens of a generation that is not complete, so that it can be continued; else empty.
    pub ids: Arc<[u32]>,
}

impl Trace {
    /// Whether nothing is known besides the answer.
    pub fn is_empty(&self) -> bool {
        self.reasoning.trim().is_empty() && self.tokens.is_empty()
    }

    /// The parts as a list, for messages between processes.
    pub fn to_value(&self) -> Value {
        Value::list([
            Value::Str(Arc::clone(&self.reasoning)),
            Value::Int(self.separator.code().into()),
            Value::Str(Arc::clone(&self.rest)),
            Value::list(self.tokens.as_bytes().iter().map(|byte| Value::Int((*byte).into()))),
        ])
    }

    /// Reads [`to_value`](Self::to_value); `None` if it is something else.
    pub fn from_value(value: &Value) -> Option<Self> {
        let [Value::Str(reasoning), separator, Value::Str(rest), Value::List(tokens)] = value.as_list()?
        else {
            return None;
        };
        let byte = |value: &Value| u8::try_from(value.as_i64()?).ok();
        let tokens: Vec<u8> = tokens.iter().map(byte).collect::<Option<_>>()?;
        Some(Self {
            reasoning: Arc::clone(reasoning),
            separator: Separator::from_code(byte(separator)?)?,
            rest: Arc::clone(rest),
            tokens: TokenEnds::from_bytes(&tokens)?,
            ids: Arc::default(),
        })
    }

    /// The answer if generation had ended after `count` tokens; `None` if there are not more of them, so that the answer is
    /// complete. `stops` are the request's stop strings, which may occur in reasoning.
    pub fn cut(&self, answer: &str, count: usize, stops: &[Arc<str>]) -> Option<String> {
        let (length, broken) = self.tokens.nth(count)?;
        let whole = [&*self.reasoning, answer, &*self.rest].concat();
        // A character of several tokens shows as replacement characters until it is complete.
        let text = |from: usize, to: usize| {
            let mut text = whole.get(from..to).unwrap_or_default().to_owned();
            text.extend(std::iter::repeat_n(char::REPLACEMENT_CHARACTER, broken));
            text
        };
        let length = whole.floor_char_boundary(length);
        let start = self.reasoning.len();
        if length >= start {
            return Some(text(start, length));
        }
        let is_marked = || whole[..length].trim_end() == self.reasoning.trim_end();
        if self.separator == Separator::Field || is_marked() {
            return Some(String::new());
        }
        let mut text = text(0, length);
        if let Some(end) = stops.iter().filter_map(|stop| text.find(&**stop)).min() {
            text.truncate(end);
        }
        Some(text)
    }
}

/// Where the text ends after each token of a generation, in about a byte per token.
///
/// After some of the tokens, decoding gives the first bytes of the whole text, and possibly replacement characters for a
/// character whose last token is still missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenEnds(Arc<[u8]>);

/// The number of replacement characters that can follow: the other bytes of a character.
const MOST_BROKEN: usize = 3;

impl TokenEnds {
    /// Collects, for each token, by how many bytes it extends the text, and how many replacement characters decoding appends.
    pub fn new(tokens: impl IntoIterator<Item = (usize, usize)>) -> Self {
        let mut bytes = Vec::new();
        for (added, broken) in tokens {
            let mut number = added as u64 * (MOST_BROKEN as u64 + 1) + broken.min(MOST_BROKEN) as u64;
            while number >= 0x80 {
                bytes.push(number as u8 | 0x80);
                number >>= 7;
            }
            bytes.push(number as u8);
        }
        Self(bytes.into())
    }

    /// The bytes in a journal.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Reads [`as_bytes`](Self::as_bytes); `None` if they are damaged.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let ends = Self(bytes.into());
        let mut rest = bytes;
        while !rest.is_empty() {
            (_, rest) = number(rest)?;
        }
        Some(ends)
    }

    /// Whether the tokens are unknown.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of tokens.
    pub fn len(&self) -> usize {
        self.0.iter().filter(|byte| **byte < 0x80).count()
    }

    /// The length of the text after `count` tokens and the number of replacement characters after it; `None` if there are not
    /// more tokens than that.
    fn nth(&self, count: usize) -> Option<(usize, usize)> {
        let mut rest = &*self.0;
        let (mut length, mut broken) = (0_usize, 0);
        for _ in 0..count {
            let (value, after) = number(rest)?;
            rest = after;
            length = length.saturating_add(usize::try_from(value / (MOST_BROKEN as u64 + 1)).ok()?);
            broken = (value % (MOST_BROKEN as u64 + 1)) as usize;
        }
        (!rest.is_empty()).then_some((length, broken))
    }
}

/// Reads a number in little-endian base 128 (LEB128); returns it with the bytes after it.
fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut number = 0_u64;
    for (index, byte) in bytes.iter().enumerate().take(9) {
        number |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Some((number, &bytes[index + 1..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tokens of these lengths, none of which ends within a character.
    fn ends(lengths: &[usize]) -> TokenEnds {
        TokenEnds::new(lengths.iter().map(|length| (*length, 0)))
    }

    fn cut(trace: &Trace, answer: &str, stops: &[&str]) -> Vec<Option<String>> {
        let stops: Vec<Arc<str>> = stops.iter().map(|stop| Arc::from(*stop)).collect();
        (0..=trace.tokens.len()).map(|count| trace.cut(answer, count, &stops)).collect()
    }

    fn shown(texts: &[&str]) -> Vec<Option<String>> {
        texts.iter().map(|text| Some((*text).to_owned())).chain([None]).collect()
    }

    #[test]
    fn cuts_between_tokens() {
        let trace = Trace { rest: "\n\n".into(), tokens: ends(&[2, 1, 2]), ..Trace::default() };
        // The first half of a stop string is part of the answer until the string is complete.
        assert_eq!(cut(&trace, "abc", &["\n\n"]), shown(&["", "ab", "abc"]));
        let trace = Trace { tokens: ends(&[2, 2, 1]), ..trace };
        assert_eq!(cut(&trace, "abc", &["\n\n"]), shown(&["", "ab", "abc\n"]));
    }

    #[test]
    fn incomplete_characters_show_as_decoded() {
        let tokens = TokenEnds::new([(1, 0), (0, 1), (0, 2), (3, 0)]);
        let trace = Trace { tokens, ..Trace::default() };
        assert_eq!(cut(&trace, "a€", &[]), shown(&["", "a", "a\u{fffd}", "a\u{fffd}\u{fffd}"]));
    }

    #[test]
    fn reasoning_ends_at_its_marker() {
        let tokens = ends(&[3, 4, 1, 1]);
        let trace = Trace { reasoning: "hm.</t> ".into(), tokens, ..Trace::default() };
        assert_eq!(cut(&trace, "B", &[]), shown(&["", "hm.", "", ""]));
        // A stop string within the reasoning applies if the marker does not follow.
        assert_eq!(cut(&trace, "B", &["m"])[1], Some("h".to_owned()));
        let trace = Trace { reasoning: "hm".into(), separator: Separator::Field, ..trace };
        let trace = Trace { tokens: ends(&[1, 1, 1, 1]), ..trace };
        assert_eq!(cut(&trace, "Bs", &[]), shown(&["", "", "", "B"]));
    }

    #[test]
    fn traces_round_trip() {
        let trace = Trace {
            reasoning: "hm</t>\n".into(),
            separator: Separator::Field,
            rest: "é".into(),
            tokens: TokenEnds::new([(1, 0), (200, 2)]),
            ids: Arc::default(),
        };
        assert_eq!(Trace::from_value(&trace.to_value()), Some(trace));
        assert_eq!(Trace::from_value(&Value::list([])), None);
    }

    #[test]
    fn ends_round_trip() {
        let ends = TokenEnds::new([(0, 3), (31, 3), (32, 0), (1 << 40, 1), (5, 0)]);
        assert_eq!(ends.len(), 5);
        assert_eq!(TokenEnds::from_bytes(ends.as_bytes()), Some(ends.clone()));
        assert_eq!(ends.nth(2), Some((31, 3)));
        assert_eq!(ends.nth(4), Some((63 + (1 << 40), 1)));
        assert_eq!(ends.nth(5), None);
        for bytes in [&[0x80][..], &[0xff; 12], &[1, 0x80]] {
            assert_eq!(TokenEnds::from_bytes(bytes), None);
        }
    }

    #[test]
    fn damaged_ends_cut_somewhere() {
        let tokens = TokenEnds::new([(1, 0), (usize::MAX / 8, 0), (1, 0)]);
        let trace = Trace { tokens, ..Trace::default() };
        assert_eq!(trace.cut("é", 1, &[]), Some(String::new()));
        assert_eq!(trace.cut("é", 2, &[]), Some("é".to_owned()));
    }
}

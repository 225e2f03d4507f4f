//! Texts that the model writes.

use lmeval_pycompat::random::Random;
use sha2::{Digest, Sha256};

use super::counts::{Counts, END, History, SYMBOLS};
use super::maths;
use super::utf8::Utf8State;
use crate::local::generation::GenerationSettings;

/// The longest text that is written, whatever is asked for: a model this simple may go in circles without end.
const MOST_BYTES: usize = 1 << 14;

/// A text and how it ended.
#[derive(Debug)]
pub(super) struct Generated {
    /// The text, without the stop text that ended it.
    pub(super) text: String,
    /// Bytes that were written, those of the stop text with them.
    pub(super) bytes: usize,
    /// Whether the limit of bytes ended it.
    pub(super) truncated: bool,
}

/// Writes on from a context: byte by byte until a stop text, the end of the text or the limit.
///
/// What is drawn depends on seed, context and repeat alone, so that the order of requests does not matter.
pub(super) fn generate(
    counts: &Counts,
    context: &str,
    settings: &GenerationSettings,
    seed: i64,
    repeat: usize,
) -> Generated {
    let mut draws = (settings.temperature > 0.0).then(|| draws(context, seed, repeat));
    let limit = settings.limit.min(MOST_BYTES);
    let mut history = History::after(context);
    let mut state = Utf8State::BOUNDARY;
    let mut bytes: Vec<u8> = Vec::new();
    let mut complete = 0;
    let mut truncated = true;
    while bytes.len() < limit {
        let probabilities = counts.probabilities(history);
        let symbol = match &mut draws {
            None => greedy_symbol(&probabilities, state),
            Some(draws) => drawn_symbol(&probabilities, state, settings.temperature, draws.random()),
        };
        if symbol == END {
            truncated = false;
            break;
        }
        bytes.push(symbol);
        history = history.then(symbol);
        state = state.after(symbol);
        if state.is_boundary() {
            complete = bytes.len();
        }
        if let Some(stop) = settings.stops.iter().find(|stop| bytes.ends_with(stop.as_bytes())) {
            complete = bytes.len() - stop.len();
            truncated = false;
            break;
        }
    }
    let written = bytes.len();
    bytes.truncate(complete);
    let text = String::from_utf8(bytes).expect("only bytes that UTF-8 allows are written");
    // Two stop texts may end at the same byte, of which one begins earlier.
    let text = settings.cut(&text).to_owned();
    Generated { text, bytes: written, truncated }
}

fn draws(context: &str, seed: i64, repeat: usize) -> Random {
    let mut key = seed.to_le_bytes().to_vec();
    key.extend_from_slice(&(repeat as u64).to_le_bytes());
    key.extend_from_slice(&Sha256::digest(context));
    Random::from_seed_bytes(&key)
}

/// Whether a symbol may come next: a byte of UTF-8, or the end between two characters.
fn is_allowed(symbol: u8, state: Utf8State) -> bool {
    if symbol == END { state.is_boundary() } else { state.allows(symbol) }
}

/// The most likely symbol that may come next; of equally likely ones the lowest.
pub(super) fn greedy_symbol(probabilities: &[f64; SYMBOLS], state: Utf8State) -> u8 {
    let mut best = (END, -1.0);
    for (symbol, &probability) in (0..=END).zip(probabilities) {
        if probability > best.1 && is_allowed(symbol, state) {
            best = (symbol, probability);
        }
    }
    best.0
}

/// The symbol at a place between 0 and 1 among those that may come next, each as wide as its probability to the power of
/// 1 / temperature.
fn drawn_symbol(probabilities: &[f64; SYMBOLS], state: Utf8State, temperature: f64, place: f64) -> u8 {
    let best = greedy_symbol(probabilities, state);
    let highest = maths::ln(probabilities[usize::from(best)]);
    let weights: Vec<(u8, f64)> = (0..=END)
        .zip(probabilities)
        .filter(|(symbol, _)| is_allowed(*symbol, state))
        .map(|(symbol, probability)| (symbol, maths::exp((maths::ln(*probability) - highest) / temperature)))
        .collect();
    let mut left = place * weights.iter().map(|(_, weight)| weight).sum::<f64>();
    for (symbol, weight) in weights {
        left -= weight;
        if left < 0.0 {
            return symbol;
        }
    }
    // Only rounding leads here.
    best
}

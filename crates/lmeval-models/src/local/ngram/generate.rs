//! Generation.

use lmeval_core::Finish;
use lmeval_pycompat::random::Random;
use sha2::{Digest, Sha256};

use super::counts::{Counts, END, History, SYMBOLS};
use super::maths;
use super::utf8::Utf8State;
use crate::local::generation::GenerationSettings;

/// Upper bound on a generation, whatever the settings: so simple a model may loop forever.
const MAX_BYTES: usize = 1 << 14;

#[derive(Debug)]
pub(super) struct Generated {
    /// The generation, without its stop string.
    pub(super) text: String,
    /// Bytes generated, including the stop string.
    pub(super) bytes: usize,
    /// Whether the limit ended it.
    pub(super) finish: Finish,
}

/// Continues a context byte by byte until a stop string, the end-of-document symbol or the limit.
///
/// Sampling depends only on seed, context and repeat, so the order of requests does not matter.
pub(super) fn generate(
    counts: &Counts,
    context: &str,
    settings: &GenerationSettings,
    seed: i64,
    repeat: usize,
) -> Generated {
    let mut draws = (settings.temperature > 0.0).then(|| draws(context, seed, repeat));
    let limit = settings.limit.min(MAX_BYTES);
    let mut history = History::after(context);
    let mut state = Utf8State::BOUNDARY;
    let mut bytes: Vec<u8> = Vec::new();
    let mut complete = 0;
    let mut finish = Finish::CutOff;
    while bytes.len() < limit {
        let probabilities = counts.probabilities(history);
        let symbol = match &mut draws {
            None => greedy_symbol(&probabilities, state),
            Some(draws) => drawn_symbol(&probabilities, state, settings.temperature, draws.random()),
        };
        if symbol == END {
            finish = Finish::Complete;
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
            finish = Finish::Complete;
            break;
        }
    }
    let written = bytes.len();
    bytes.truncate(complete);
    let text = String::from_utf8(bytes).expect("only valid UTF-8 is generated");
    // Two stop strings may end at the same byte; the earlier start wins.
    let text = settings.cut(&text).to_owned();
    Generated { text, bytes: written, finish }
}

fn draws(context: &str, seed: i64, repeat: usize) -> Random {
    let mut key = seed.to_le_bytes().to_vec();
    key.extend_from_slice(&(repeat as u64).to_le_bytes());
    key.extend_from_slice(&Sha256::digest(context));
    Random::from_seed_bytes(&key)
}

/// Whether a symbol may come next: a valid UTF-8 byte, or the end between two characters.
fn is_allowed(symbol: u8, state: Utf8State) -> bool {
    if symbol == END { state.is_boundary() } else { state.allows(symbol) }
}

/// The most likely allowed symbol; the lowest one of a tie.
pub(super) fn greedy_symbol(probabilities: &[f64; SYMBOLS], state: Utf8State) -> u8 {
    let mut best = (END, -1.0);
    for (symbol, &probability) in (0..=END).zip(probabilities) {
        if probability > best.1 && is_allowed(symbol, state) {
            best = (symbol, probability);
        }
    }
    best.0
}

/// The allowed symbol at a quantile between 0 and 1, each weighted by its probability to the power of 1 /
/// temperature.
fn drawn_symbol(probabilities: &[f64; SYMBOLS], state: Utf8State, temperature: f64, quantile: f64) -> u8 {
    let best = greedy_symbol(probabilities, state);
    let highest = maths::ln(probabilities[usize::from(best)]);
    let weights: Vec<(u8, f64)> = (0..=END)
        .zip(probabilities)
        .filter(|(symbol, _)| is_allowed(*symbol, state))
        .map(|(symbol, probability)| (symbol, maths::exp((maths::ln(*probability) - highest) / temperature)))
        .collect();
    let mut left = quantile * weights.iter().map(|(_, weight)| weight).sum::<f64>();
    for (symbol, weight) in weights {
        left -= weight;
        if left < 0.0 {
            return symbol;
        }
    }
    // Reached only through rounding.
    best
}

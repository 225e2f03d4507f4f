//! Tiny checkpoints, and what `transformers` makes of them in 32 bits.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use candle_core::{DType, Device, Tensor};
use lmeval_candle::arch::{self, Architecture};
use lmeval_candle::{Batch, Cache, Config, Safetensors, Segment, Weights};
use serde_json::Value;

/// How far log-probabilities may be from those of `transformers`.
const TOLERANCE: f64 = 1e-4;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

fn load(folder: &Path) -> Box<dyn Architecture> {
    let config = Config::read(&folder.join("config.json")).unwrap();
    let source = Arc::new(Safetensors::from_folder(folder).unwrap());
    let weights = Weights::new(source, DType::F32, &Device::Cpu);
    (arch::find(&config).unwrap().build)(&config, &weights).unwrap()
}

/// The log-probabilities of all tokens behind each token of a text.
fn log_probabilities(model: &dyn Architecture, tokens: &[u32]) -> Vec<Vec<f32>> {
    let mut cache = Cache::new(&model.shape(), tokens.len(), DType::F32, &Device::Cpu).unwrap();
    let spans = cache.take(tokens.len()).unwrap();
    let segment = Segment { first: 0, len: tokens.len(), offset: 0, spans };
    let batch = Batch::new(tokens, vec![segment], tokens.len(), &Device::Cpu).unwrap();
    let logits = model.head(&model.forward(&batch, &cache).unwrap()).unwrap();
    logits_to_log_probabilities(&logits)
}

fn logits_to_log_probabilities(logits: &Tensor) -> Vec<Vec<f32>> {
    candle_nn::ops::log_softmax(logits, 1).unwrap().to_vec2().unwrap()
}

fn most_likely(row: &[f32]) -> u32 {
    let best = row.iter().enumerate().reduce(|best, next| if next.1 > best.1 { next } else { best });
    best.unwrap().0 as u32
}

fn tokens(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|token| token.as_u64().unwrap() as u32).collect()
}

fn close(found: f32, expected: &Value, what: &str) {
    let difference = (f64::from(found) - expected.as_f64().unwrap()).abs();
    assert!(difference < TOLERANCE, "{what}: {found} instead of {expected}");
}

/// Checks a checkpoint: log-probabilities, most likely tokens, and a greedy continuation.
fn check(name: &str) {
    let folder = folder(name);
    let model = load(&folder);
    let expected = fs_err::read(folder.join("expected.json")).unwrap();
    let expected: Value = serde_json::from_slice(&expected).unwrap();
    for sequence in expected["sequences"].as_array().unwrap() {
        let text = tokens(&sequence["tokens"]);
        let found = log_probabilities(model.as_ref(), &text);
        let next = sequence["next_log_probabilities"].as_array().unwrap();
        assert_eq!(next.len() + 1, text.len());
        for (index, expected) in next.iter().enumerate() {
            close(found[index][text[index + 1] as usize], expected, &format!("{name}, token {index}"));
        }
        let likely: Vec<u32> = found.iter().map(|row| most_likely(row)).collect();
        assert_eq!(likely, tokens(&sequence["most_likely"]), "{name}");
        let last = sequence["last_distribution"].as_array().unwrap();
        for (token, expected) in last.iter().enumerate() {
            close(found[text.len() - 1][token], expected, &format!("{name}, last distribution, {token}"));
        }
    }
    let mut text = tokens(&expected["greedy"]["prompt"]);
    let continuation = tokens(&expected["greedy"]["continuation"]);
    for expected in continuation {
        let found = log_probabilities(model.as_ref(), &text);
        assert_eq!(most_likely(&found[text.len() - 1]), expected, "{name}, after {} tokens", text.len());
        text.push(expected);
    }
}

#[test]
fn llama() {
    check("llama");
}

#[test]
fn llama_variants() {
    for name in [
        "llama_bias",
        "llama_float32",
        "llama_minimal_config",
        "llama_rope_linear",
        "llama_rope_llama3",
        "llama_rope_yarn",
        "llama_tied",
        "mistral",
        "mistral_full",
    ] {
        check(name);
    }
}

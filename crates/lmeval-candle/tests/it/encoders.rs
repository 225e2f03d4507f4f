//! Models with an encoder against `transformers`, on tiny checkpoints in float32.

use candle_core::DType;
use lmeval_candle::arch::Architecture;
use lmeval_candle::{Batch, Cache, Segment, Span};
use lmeval_core::{Arguments, ModelErrorKind, Response};
use serde_json::Value;

use crate::architectures::{
    Rows, TOLERANCE, device, difference, fixtures, largest, load_as, log_probabilities, most_likely, numbers,
    tokens,
};
use crate::model::{answer, create, pair, request, text};
use crate::tokens::recorded;

/// The names of the checkpoints.
pub(crate) const NAMES: [&str; 2] = ["encoders/t5", "encoders/t5_gated"];

/// A model with a cache of which rows are taken one after the other.
struct Run {
    model: Box<dyn Architecture>,
    cache: Cache,
    used: usize,
}

impl Run {
    fn new(name: &str) -> (Self, Value) {
        let (model, expected) = load_as(name, DType::F32);
        let cache = Cache::new(model.shape(), 500, 0, DType::F32, device()).unwrap();
        (Self { model, cache, used: 0 }, expected)
    }

    /// Log-probabilities after each token of several targets, which continue cached rows or sources of this batch. Returns
    /// the spans of all rows of each.
    fn forward(&mut self, parts: &[(&[u32], &[u32], &[Span])]) -> (Rows, Vec<Vec<Span>>) {
        let (mut all, mut segments, mut rows, mut spans) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (source, target, before) in parts {
            let mut known = before.to_vec();
            for part in [source, target] {
                if part.is_empty() {
                    continue;
                }
                let offset = known.iter().map(|span| span.len).sum();
                known.push(Span { start: self.used, len: part.len() });
                self.used += part.len();
                let source = if before.is_empty() { source.len() } else { before[0].len };
                let (first, len) = (all.len(), part.len());
                segments.push(Segment {
                    first,
                    len,
                    offset,
                    spans: known.clone(),
                    source,
                    ..Segment::default()
                });
                if offset >= source {
                    rows.extend((first..first + len).map(|row| row as u32));
                }
                all.extend_from_slice(part);
            }
            spans.push(known);
        }
        let batch = Batch::new(&all, segments, device()).unwrap();
        let made = self.model.forward(&batch, &self.cache).unwrap();
        let rows = candle_core::Tensor::new(rows, device()).unwrap();
        (log_probabilities(&self.model.head(&made.index_select(&rows, 0).unwrap()).unwrap()), spans)
    }
}

/// The answers to all requests of a recorded case.
fn answers_of(case: &Value, recorded: &Value) {
    let folder = fixtures().join(NAMES[0]);
    let arguments = case["arguments"].as_object().unwrap();
    let arguments: Vec<(&str, lmeval_pycompat::Value)> = arguments
        .iter()
        .map(|(name, value)| (name.as_str(), lmeval_pycompat::json::loads(&value.to_string()).unwrap()))
        .collect();
    let model = create(&folder, &arguments).unwrap();
    let list = |name: &str| recorded[name].as_array().unwrap().iter();
    let pairs = list("pairs").map(|two| pair(two[0].as_str().unwrap(), two[1].as_str().unwrap()));
    let rolling =
        list("rolling").map(|text| request(Arguments::Rolling { text: text.as_str().unwrap().into() }));
    for (asked, name) in [(pairs.collect::<Vec<_>>(), "pairs"), (rolling.collect(), "rolling")] {
        let found = answer(model.as_ref(), asked);
        for (index, (found, expected)) in found.iter().zip(case[name].as_array().unwrap()).enumerate() {
            let what = format!("{arguments:?}, {name}, {index}");
            match (&found.as_ref().map(|found| &found.response), expected) {
                (Ok(Response::Loglikelihood { logprob, is_greedy }), Value::Array(two)) => {
                    assert!((logprob - two[0].as_f64().unwrap()).abs() < 1e-4, "{what}: {logprob} {two:?}");
                    assert_eq!(Some(*is_greedy), two[1].as_bool(), "{what}");
                }
                (Ok(Response::Rolling { logprob }), Value::Number(number)) => {
                    assert!((logprob - number.as_f64().unwrap()).abs() < 1e-4, "{what}: {logprob} {number}");
                }
                // The reference fails the whole run.
                (Err(_), Value::Object(_)) => {}
                other => panic!("{what}: {other:?}"),
            }
        }
    }
    for (settings, expected) in list("settings").zip(case["texts"].as_array().unwrap()) {
        let asked = list("prompts").map(|prompt| text(prompt.as_str().unwrap(), &settings.to_string()));
        let found = answer(model.as_ref(), asked.collect());
        for (found, expected) in found.iter().zip(expected.as_array().unwrap()) {
            match (&found.as_ref().map(|found| &found.response), expected) {
                (Ok(Response::Text(found)), Value::String(expected)) => {
                    assert_eq!(found.as_ref(), expected, "{arguments:?}, {settings}");
                }
                other => panic!("{arguments:?}, {settings}: {other:?}"),
            }
        }
    }
}

#[test]
fn answers_match_the_reference() {
    let recorded = recorded("encoder.json");
    for case in recorded["cases"].as_array().unwrap() {
        answers_of(case, &recorded);
    }
}

#[test]
fn backends_must_fit_the_model() {
    let backend = |name: &str| [("backend", lmeval_pycompat::Value::str(name))];
    let error = create(&fixtures().join(NAMES[0]), &backend("causal")).unwrap_err();
    assert_eq!(error.kind(), ModelErrorKind::Unsupported);
    assert!(error.to_string().contains("which has an encoder"), "{error}");
    let error = create(&fixtures().join("llama"), &backend("seq2seq")).unwrap_err();
    assert_eq!(error.kind(), ModelErrorKind::Unsupported);
    assert!(error.to_string().contains("which has none"), "{error}");
}

/// The decoder's input for a target.
fn shifted(start: u32, target: &[u32]) -> Vec<u32> {
    [&[start], &target[..target.len() - 1]].concat()
}

#[test]
fn targets_match_transformers() {
    for name in NAMES {
        let (mut run, expected) = Run::new(name);
        let start = run.model.decoder_start().unwrap();
        assert_eq!(u64::from(start), expected["start"].as_u64().unwrap());
        let pairs = expected["pairs"].as_array().unwrap();
        let sources: Vec<Vec<u32>> = pairs.iter().map(|pair| tokens(&pair["source"])).collect();
        let targets: Vec<Vec<u32>> = pairs.iter().map(|pair| tokens(&pair["tokens"])).collect();
        let inputs: Vec<Vec<u32>> = targets.iter().map(|target| shifted(start, target)).collect();
        let parts = sources.iter().zip(&inputs).map(|(source, input)| (&source[..], &input[..], &[][..]));
        // All in one batch, and each alone.
        let (together, _) = run.forward(&parts.clone().collect::<Vec<_>>());
        let mut rest = together.as_slice();
        for ((pair, part), target) in pairs.iter().zip(parts).zip(&targets) {
            let (own, others) = rest.split_at(target.len());
            rest = others;
            let (alone, _) = run.forward(&[part]);
            if device().is_cpu() {
                assert_eq!(own, alone, "{name}");
            }
            let found: Vec<f32> = own.iter().zip(target).map(|(row, token)| row[*token as usize]).collect();
            let apart = difference(&found, &numbers(&pair["log_probabilities"]));
            let last = difference(own.last().unwrap(), &numbers(&pair["last_distribution"]));
            assert!(largest([apart, last]) < TOLERANCE, "{name}: {apart} {last}");
            let likely: Vec<u32> = own.iter().map(|row| most_likely(row)).collect();
            assert_eq!(likely, tokens(&pair["most_likely"]), "{name}");
        }
    }
}

#[test]
fn greedy_continuations_match_transformers() {
    for name in NAMES {
        let (mut run, expected) = Run::new(name);
        let source = tokens(&expected["greedy"]["source"]);
        let continuation = tokens(&expected["greedy"]["continuation"]);
        let mut next = run.model.decoder_start().unwrap();
        let mut spans = Vec::new();
        let mut found = Vec::new();
        while found.len() < continuation.len() {
            let source = if found.is_empty() { source.as_slice() } else { &[] };
            let (rows, all) = run.forward(&[(source, &[next], &spans)]);
            spans.clone_from(&all[0]);
            next = most_likely(&rows[0]);
            found.push(next);
        }
        assert_eq!(found, continuation, "{name}");
    }
}

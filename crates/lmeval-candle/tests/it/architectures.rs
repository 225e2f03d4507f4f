//! Compares every architecture with `transformers` on a tiny checkpoint, in float32.
//!
//! `LM_EVAL_TEST_DEVICE=cuda:0` runs the tests on a GPU if the crate is built with the feature `cuda`. Matrix products use
//! full float32 precision there too, so tolerances are the same.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use candle_core::{D, DType, Device, Tensor};
use candle_nn::ops;
use lmeval_candle::arch::{self, ARCHITECTURES, Architecture};
use lmeval_candle::{Batch, Cache, Config, Error, Safetensors, Segment, Span, StateUse, Weights};
use serde_json::{Value, json};

/// Tolerance against log-probabilities of `transformers`.
pub(crate) const TOLERANCE: f32 = 1e-4;
/// Tolerance between different batchings of the same sequences.
const SHARED_TOLERANCE: f32 = 5e-5;
/// Mean tolerance of 16-bit computation against float32.
const HALF_TOLERANCE: f32 = 0.06;

/// All activation functions.
const ACTIVATIONS: &str = "one of `silu`, `swish`, `gelu`, `gelu_python`, `gelu_new`, `gelu_fast`, `gelu_accurate`, \
                           `gelu_pytorch_tanh`, `gelu_python_tanh`, `gelu_10`, `quick_gelu`, `relu`, `relu2`, `relu6`, \
                           `leaky_relu`, `hardswish`, `mish`, `sigmoid`, `tanh`, `linear`";

/// Rows of log-probabilities.
pub(crate) type Rows = Vec<Vec<f32>>;

/// The device of `LM_EVAL_TEST_DEVICE`, by default the CPU.
pub(crate) fn device() -> &'static Device {
    static DEVICE: OnceLock<Device> = OnceLock::new();
    DEVICE.get_or_init(|| {
        let name = std::env::var("LM_EVAL_TEST_DEVICE").unwrap_or_else(|_| "cpu".into());
        match name.strip_prefix("cuda") {
            None if name == "cpu" => Device::Cpu,
            Some("") => Device::new_cuda(0).unwrap(),
            Some(number) if number.starts_with(':') => {
                Device::new_cuda(number[1..].parse().expect("the index of a GPU")).unwrap()
            }
            _ => panic!("`LM_EVAL_TEST_DEVICE` must be `cpu`, `cuda` or `cuda:<index>`, not `{name}`"),
        }
    })
}

pub(crate) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

/// The names of all fixture checkpoints.
pub(crate) fn names() -> Vec<String> {
    let entries = fs_err::read_dir(fixtures()).unwrap().map(|entry| entry.unwrap());
    let folders = entries.filter(|entry| entry.path().join("expected.json").exists());
    let mut names: Vec<String> = folders.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort_unstable();
    assert!(names.len() > ARCHITECTURES.len(), "{names:?}");
    names
}

fn build(folder: &Path, config: &Config, dtype: DType) -> Result<Box<dyn Architecture>, Error> {
    let source = Arc::new(Safetensors::from_folder(folder)?);
    let weights = Weights::new(source, dtype, device());
    (arch::find(config)?.build)(config, &weights)
}

pub(crate) fn load(name: &str) -> (Box<dyn Architecture>, Value) {
    load_as(name, DType::F32)
}

pub(crate) fn load_as(name: &str, dtype: DType) -> (Box<dyn Architecture>, Value) {
    let folder = fixtures().join(name);
    let config = Config::read(&folder.join("config.json")).unwrap();
    let model = build(&folder, &config, dtype).unwrap_or_else(|error| panic!("{name}: {error}"));
    let expected = fs_err::read(folder.join("expected.json")).unwrap();
    (model, serde_json::from_slice(&expected).unwrap())
}

pub(crate) fn tokens(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|token| token.as_u64().unwrap() as u32).collect()
}

pub(crate) fn numbers(value: &Value) -> Vec<f32> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap() as f32).collect()
}

pub(crate) fn most_likely(row: &[f32]) -> u32 {
    let best = row.iter().enumerate().reduce(|best, next| if next.1 > best.1 { next } else { best });
    best.unwrap().0 as u32
}

/// A model with a cache.
struct Run<'model> {
    model: &'model dyn Architecture,
    cache: Cache,
    used: usize,
    /// The last row of each segment, by its state.
    ends: Vec<usize>,
}

/// States of a test's cache.
const STATES: usize = 64;

impl<'model> Run<'model> {
    fn new(model: &'model dyn Architecture, capacity: usize) -> Self {
        Self::new_as(model, capacity, DType::F32)
    }

    fn new_as(model: &'model dyn Architecture, capacity: usize, dtype: DType) -> Self {
        let cache = Cache::new(model.shape(), capacity, STATES, dtype, device()).unwrap();
        Self { model, cache, used: 0, ends: Vec::new() }
    }

    /// The log-probabilities after each token of several sequences, each of which continues cached rows. Also returns the
    /// spans of the new rows.
    fn forward(&mut self, texts: &[(&[u32], &[Span])], length: usize) -> (Rows, Vec<Span>) {
        self.forward_each(texts, &vec![length; texts.len()])
    }

    /// The same with a total length per sequence.
    fn forward_each(&mut self, texts: &[(&[u32], &[Span])], lengths: &[usize]) -> (Rows, Vec<Span>) {
        let mut all = Vec::new();
        let (mut segments, mut own) = (Vec::new(), Vec::new());
        for ((text, before), &length) in texts.iter().zip(lengths) {
            let span = Span { start: self.used, len: text.len() };
            self.used += text.len();
            let offset = before.iter().map(|span| span.len).sum();
            let spans = before.iter().copied().chain([span]).collect();
            let last = before.last().map(|span| span.start + span.len);
            let known = |last: usize| self.ends.iter().position(|end| *end == last);
            let state = StateUse { before: last.and_then(known), after: Some(self.ends.len()) };
            self.ends.push(self.used);
            let (first, len) = (all.len(), text.len());
            segments.push(Segment { first, len, offset, spans, length, state, source: 0 });
            all.extend_from_slice(text);
            own.push(span);
        }
        let batch = Batch::new(&all, segments, device()).unwrap();
        let rows = self.model.forward(&batch, &self.cache).unwrap();
        (log_probabilities(&self.model.head(&rows).unwrap()), own)
    }
}

pub(crate) fn log_probabilities(logits: &Tensor) -> Rows {
    ops::log_softmax(logits, D::Minus1).unwrap().to_vec2().unwrap()
}

/// A single sequence.
pub(crate) fn alone(model: &dyn Architecture, text: &[u32]) -> Rows {
    Run::new(model, text.len()).forward(&[(text, &[])], text.len()).0
}

/// The maximum, or NaN if there is one, which `f32::max` would drop.
pub(crate) fn largest(numbers: impl IntoIterator<Item = f32>) -> f32 {
    numbers.into_iter().fold(0.0, |most, next| if next > most || next.is_nan() { next } else { most })
}

/// Whether a difference is small. NaN is not.
fn below(apart: f32, tolerance: f32) -> bool {
    apart < tolerance
}

pub(crate) fn difference(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    largest(a.iter().zip(b).map(|(a, b)| (a - b).abs()))
}

fn rows_difference(a: &[Vec<f32>], b: &[Vec<f32>]) -> f32 {
    assert_eq!(a.len(), b.len());
    largest(a.iter().zip(b).map(|(a, b)| difference(a, b)))
}

#[test]
fn log_probabilities_match_transformers() {
    let mut failed = Vec::new();
    for name in names() {
        let (model, expected) = load(&name);
        let mut most: f32 = 0.0;
        let mut same = true;
        for sequence in expected["sequences"].as_array().unwrap() {
            let text = tokens(&sequence["tokens"]);
            let found = alone(model.as_ref(), &text);
            let next: Vec<f32> =
                found.iter().zip(&text[1..]).map(|(row, token)| row[*token as usize]).collect();
            let apart = difference(&next, &numbers(&sequence["next_log_probabilities"]));
            let last_apart = difference(found.last().unwrap(), &numbers(&sequence["last_distribution"]));
            most = largest([most, apart, last_apart]);
            let likely: Vec<u32> = found.iter().map(|row| most_likely(row)).collect();
            same &= likely == tokens(&sequence["most_likely"]);
        }
        if !same || !below(most, TOLERANCE) {
            failed.push(format!("{name}: {most:e} apart, most likely tokens the same: {same}"));
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

#[test]
fn greedy_continuations_match_transformers() {
    let mut failed = Vec::new();
    for name in names() {
        let (model, expected) = load(&name);
        let prompt = tokens(&expected["greedy"]["prompt"]);
        let continuation = tokens(&expected["greedy"]["continuation"]);
        assert_eq!(continuation.len(), 32);
        let mut run = Run::new(model.as_ref(), prompt.len() + continuation.len());
        let (rows, mut spans) = run.forward(&[(&prompt, &[])], prompt.len());
        let mut found = vec![most_likely(rows.last().unwrap())];
        while found.len() < continuation.len() {
            let length = prompt.len() + found.len();
            let (rows, own) = run.forward(&[(&found[found.len() - 1..], &spans)], length);
            spans.extend(own);
            found.push(most_likely(&rows[0]));
        }
        if found != continuation {
            failed.push(format!("{name}: {found:?} instead of {continuation:?}"));
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

#[test]
fn shared_prefixes_do_not_change_results() {
    let mut failed = Vec::new();
    for name in names() {
        let (model, expected) = load(&name);
        let sequence = expected["sequences"].as_array().unwrap().last().unwrap();
        let text = tokens(&sequence["tokens"]);
        let mut other = text.clone();
        for shared in [1, 17] {
            // Two continuations of the same prefix, and a continuation of the first of them.
            other[shared..].reverse();
            let middle = usize::midpoint(shared, text.len());
            let mut run = Run::new(model.as_ref(), 3 * text.len());
            let (prefix, spans) = run.forward(&[(&text[..shared], &[])], text.len());
            let (rows, own) =
                run.forward(&[(&text[shared..middle], &spans), (&other[shared..], &spans)], text.len());
            let first = [spans[0], own[0]];
            let (rest, _) = run.forward(&[(&text[middle..], &first)], text.len());
            let (rows, others) = rows.split_at(middle - shared);
            let found: Rows = prefix.iter().chain(rows).chain(&rest).cloned().collect();
            let apart = rows_difference(&found, &alone(model.as_ref(), &text));
            let other_apart = rows_difference(others, &alone(model.as_ref(), &other)[shared..]);
            if !below(largest([apart, other_apart]), SHARED_TOLERANCE) {
                failed.push(format!("{name}, {shared} tokens shared: {apart:e}, {other_apart:e} apart"));
            }
            other.clone_from(&text);
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

#[test]
fn batching_different_lengths_does_not_change_results() {
    let mut failed = Vec::new();
    for name in names() {
        let (model, expected) = load(&name);
        let texts: Vec<Vec<u32>> = expected["sequences"]
            .as_array()
            .unwrap()
            .iter()
            .map(|sequence| tokens(&sequence["tokens"]))
            .collect();
        let rows = texts.iter().map(Vec::len).sum();
        let lengths: Vec<usize> = texts.iter().map(Vec::len).collect();
        let batch: Vec<(&[u32], &[Span])> =
            texts.iter().map(|text| (text.as_slice(), [].as_slice())).collect();
        let (found, _) = Run::new(model.as_ref(), rows).forward_each(&batch, &lengths);
        let expected: Rows = texts.iter().flat_map(|text| alone(model.as_ref(), text)).collect();
        let apart = rows_difference(&found, &expected);
        if !below(apart, SHARED_TOLERANCE) {
            failed.push(format!("{name}: {apart:e} apart"));
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

#[test]
fn sixteen_bit_results_are_close() {
    let mut failed = Vec::new();
    for name in names() {
        let (model, expected) = load_as(&name, DType::BF16);
        let mut apart = Vec::new();
        for sequence in expected["sequences"].as_array().unwrap() {
            let text = tokens(&sequence["tokens"]);
            let mut run = Run::new_as(model.as_ref(), text.len(), DType::BF16);
            let (found, _) = run.forward(&[(&text, &[])], text.len());
            let expected = numbers(&sequence["next_log_probabilities"]);
            let next = found.iter().zip(&text[1..]).map(|(row, token)| row[*token as usize]);
            apart.extend(next.zip(&expected).map(|(found, expected)| (found - expected).abs()));
        }
        let mean = apart.iter().sum::<f32>() / apart.len() as f32;
        let own = expected["half_difference"].as_f64().unwrap_or(0.0) as f32;
        // A row for which other experts are chosen is far apart.
        apart.sort_by(f32::total_cmp);
        let median = apart[apart.len() / 2];
        if !below(mean, HALF_TOLERANCE.max(3.0 * own)) || !below(median, HALF_TOLERANCE) {
            failed.push(format!("{name}: {mean} apart on average, {median} in the median"));
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

#[test]
fn every_architecture_has_a_checkpoint() {
    let encoders = crate::encoders::NAMES.map(str::to_owned);
    let classes: Vec<String> = names()
        .iter()
        .chain(&encoders)
        .map(|name| {
            let config = fs_err::read(fixtures().join(name).join("config.json")).unwrap();
            let config: Value = serde_json::from_slice(&config).unwrap();
            config["architectures"][0].as_str().unwrap().to_owned()
        })
        .collect();
    for entry in ARCHITECTURES {
        assert!(
            entry.classes.iter().any(|class| classes.iter().any(|found| found == class)),
            "{:?}",
            entry.classes
        );
    }
}

/// The error for a checkpoint with changed configuration fields. `null` removes a field.
fn refusal(name: &str, changes: &Value) -> String {
    let folder = fixtures().join(name);
    let text = fs_err::read(folder.join("config.json")).unwrap();
    let mut config: Value = serde_json::from_slice(&text).unwrap();
    for (field, value) in changes.as_object().unwrap() {
        match value {
            Value::Null => drop(config.as_object_mut().unwrap().remove(field)),
            value => config[field] = value.clone(),
        }
    }
    let changed = tempfile::tempdir().unwrap();
    let path = changed.path().join("config.json");
    fs_err::write(&path, config.to_string()).unwrap();
    match build(&folder, &Config::read(&path).unwrap(), DType::F32) {
        Ok(_) => panic!("{name} is not refused with {changes}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn refuses_unsupported_configurations() {
    let must = |field: &str, expected: &str, found: &str| {
        format!("The field `{field}` of the model's configuration must be {expected}, not `{found}`")
    };
    let missing = |field: &str| format!("The model's configuration has no field `{field}`");
    let rope = "`default`, `linear`, `dynamic`, `llama3`, `yarn` or `longrope`";
    let cases = [
        (
            "llama",
            json!({"rope_parameters": {"rope_type": "spiral", "rope_theta": 10000.0}}),
            must("rope_parameters.rope_type", rope, "'spiral'"),
        ),
        ("llama_tied", json!({"rope_scaling": {"type": "spiral"}}), must("rope_scaling.type", rope, "'spiral'")),
        ("llama_tied", json!({"rope_scaling": {"type": "linear"}}), missing("rope_scaling.factor")),
        (
            "mistral",
            json!({"hidden_act": "cosine"}),
            must("hidden_act", ACTIVATIONS, "'cosine'"),
        ),
        (
            "qwen3",
            json!({"layer_types": ["full_attention", "sliding_attention"]}),
            must(
                "layer_types",
                "without sliding windows, because `use_sliding_window` is not set",
                "['full_attention', 'sliding_attention']",
            ),
        ),
        (
            "llama",
            json!({"rope_parameters": {"full_attention": {"rope_type": "default"}}}),
            must(
                "rope_parameters.full_attention",
                "missing, because all layers use the same rotary embedding",
                "{'rope_type': 'default'}",
            ),
        ),
        ("mistral", json!({"sliding_window": 0}), must("sliding_window", "a number above zero or `null`", "0")),
        (
            "falcon_new_decoder",
            json!({"num_ln_in_parallel_attn": 3}),
            must("num_ln_in_parallel_attn", "1 or 2", "3"),
        ),
        ("falcon_new_decoder", json!({"parallel_attn": false}), must("parallel_attn", "`true`", "False")),
        (
            "gemma3_nested_rope",
            json!({"use_bidirectional_attention": true}),
            must("use_bidirectional_attention", "`false`", "True"),
        ),
        (
            "qwen2_sliding",
            json!({"layer_types": ["sliding_attention", "spiral"]}),
            must(
                "layer_types",
                "a list of `full_attention` and `sliding_attention`",
                "['sliding_attention', 'spiral']",
            ),
        ),
        (
            "qwen2_sliding",
            json!({"layer_types": ["sliding_attention"]}),
            must("layer_types", "a list with an entry for each layer", "['sliding_attention']"),
        ),
        (
            "phi3",
            json!({"rope_scaling": {"type": "linear", "factor": 2.0}}),
            must("rope_scaling.type", "`default` or `longrope`", "'linear'"),
        ),
        ("gptj", json!({"rotary_dim": 16}), must("rotary_dim", "at most the width of a head", "16")),
        ("phi", json!({"partial_rotary_factor": 1.5}), must("partial_rotary_factor", "a number from zero to one", "1.5")),
        ("qwen3_moe", json!({"decoder_sparse_step": 0}), must("decoder_sparse_step", "a number above zero", "0")),
        (
            "gpt_neo",
            json!({"attention_layers": ["global", "spiral"]}),
            must("attention_layers", "the kinds of 2 layers, each `global` or `local`", "['global', 'spiral']"),
        ),
        (
            "gpt_neo",
            json!({"attention_layers": null, "attention_types": [[["global", "local"], 2]]}),
            must(
                "attention_types",
                "the kinds of 2 layers, each `global` or `local`",
                "[[['global', 'local'], 2]]",
            ),
        ),
        (
            "smollm3",
            json!({"no_rope_layers": [1, 0]}),
            must("no_rope_layers", "a list with an entry for each layer", "[1, 0]"),
        ),
        ("granite", json!({"logits_scaling": 0.0}), must("logits_scaling", "non-zero", "0.0")),
        ("deepseek_v2", json!({"norm_topk_prob": true}), must("norm_topk_prob", "`false`", "True")),
        (
            "deepseek_v2",
            json!({"topk_method": "noaux_tc"}),
            must("topk_method", "`greedy` or `group_limited_greedy`", "'noaux_tc'"),
        ),
        ("deepseek_v3", json!({"scoring_func": "softmax"}), must("scoring_func", "`sigmoid`", "'softmax'")),
        ("deepseek_v3", json!({"n_group": 3}), must("n_group", "a divisor of 8 experts", "3")),
        ("deepseek_v3", json!({"moe_layer_freq": 2}), must("moe_layer_freq", "`1`", "2")),
        (
            "deepseek_v3",
            json!({"num_key_value_heads": 2}),
            must("num_key_value_heads", "the number of heads, 4", "2"),
        ),
        (
            "llama4",
            json!({"layer_types": ["spiral"]}),
            must(
                "layer_types",
                "a list of `chunked_attention` and `full_attention`, one for each layer",
                "['spiral']",
            ),
        ),
        (
            "qwen3_next",
            json!({"layer_types": ["linear_attention"]}),
            must(
                "layer_types",
                "a list of `linear_attention` and `full_attention`, one for each layer",
                "['linear_attention']",
            ),
        ),
        (
            "mamba2",
            json!({"time_step_limit": [0.5, 0.1]}),
            must("time_step_limit", "two numbers, the smaller one first", "[0.5, 0.1]"),
        ),
        ("mamba2", json!({"rms_norm": false}), must("rms_norm", "`true`", "False")),
        (
            "mamba2",
            json!({"head_dim": 8}),
            must("head_dim", "such that heads of this width have 32 numbers together", "8"),
        ),
        (
            "granite_hybrid",
            json!({"position_embedding_type": "spiral"}),
            must("position_embedding_type", "`rope` or `nope`", "'spiral'"),
        ),
        (
            "granite_hybrid",
            json!({"normalization_function": "layernorm"}),
            must("normalization_function", "`rmsnorm`", "'layernorm'"),
        ),
        (
            "falcon_h1",
            json!({"ssm_multipliers": [1.0]}),
            must("ssm_multipliers", "a list of 5 numbers", "[1.0]"),
        ),
        (
            "nemotron_h_latent",
            json!({"hybrid_override_pattern": "M*X"}),
            must("hybrid_override_pattern", "a string of `M`, `*`, `-` and `E`", "'M*X'"),
        ),
        ("nemotron_h", json!({"sliding_window": 8}), must("sliding_window", "`null`", "8")),
        ("jamba", json!({"attn_layer_offset": 3}), must("attn_layer_offset", "less than `attn_layer_period`", "3")),
        ("lfm2", json!({"conv_dim": 8}), must("conv_dim", "`16`", "8")),
        ("hunyuan", json!({"use_cla": true}), must("use_cla", "`false`", "True")),
        (
            "hunyuan_moe",
            json!({"num_shared_expert": 2}),
            must("num_shared_expert", "`1` for each layer", "2"),
        ),
        (
            "phimoe",
            json!({"rope_scaling": {"type": "longrope", "short_factor": [1.0, 1.0], "short_mscale": 1.0, "long_mscale": 2.0}}),
            must("rope_scaling.long_mscale", "the same as `short_mscale`", "2.0"),
        ),
        ("phimoe", json!({"num_experts_per_tok": 1}), must("num_experts_per_tok", "`2`", "1")),
        (
            "minicpm",
            json!({"sparse_config": {"kernel_size": 32}}),
            must("sparse_config", "missing, because attention is not sparse here", "{'kernel_size': 32}"),
        ),
        (
            "encoders/t5",
            json!({"feed_forward_proj": "swish-gelu"}),
            must("feed_forward_proj", "a function, or `gated-` before one", "'swish-gelu'"),
        ),
        (
            "gemma3n",
            json!({"activation_sparsity_pattern": [0.5, 0.0, 0.0, 1.0]}),
            must(
                "activation_sparsity_pattern",
                "numbers from zero to below one",
                "[0.5, 0.0, 0.0, 1.0]",
            ),
        ),
        ("mpt", json!({"attn_config": {"qk_ln": true}}), must("attn_config.qk_ln", "`false`", "True")),
        (
            "bloom",
            json!({"apply_residual_connection_post_layernorm": true}),
            must("apply_residual_connection_post_layernorm", "`false`", "True"),
        ),
        ("gpt2", json!({"add_cross_attention": true}), must("add_cross_attention", "`false`", "True")),
        ("gpt2", json!({"n_embd": "many"}), must("n_embd", "a non-negative integer", "'many'")),
        (
            "gpt_neox",
            json!({"num_attention_heads": 5}),
            "The hidden size 32 is not divisible by 5 heads".to_owned(),
        ),
        (
            "qwen3",
            json!({"num_key_value_heads": 3}),
            "4 heads of width 16 are not a multiple of 3 key/value heads".to_owned(),
        ),
        (
            "qwen2",
            json!({"vocab_size": 129}),
            "The weight `model.embed_tokens.weight` has shape [128, 32], but the configuration requires [129, 32]"
                .to_owned(),
        ),
        (
            "mixtral",
            json!({"num_local_experts": 5}),
            "The weight `model.layers.0.block_sparse_moe.gate.weight` has shape [4, 32], but the configuration \
             requires [5, 32]"
                .to_owned(),
        ),
    ];
    for (name, changes, expected) in cases {
        let found = refusal(name, &changes);
        assert!(
            found == expected || (expected.is_empty() && !found.is_empty()),
            "{name}, {changes}: {found}"
        );
    }
}

#[test]
fn names_missing_fields() {
    let cases = [
        ("llama", "hidden_size"),
        ("llama", "intermediate_size"),
        ("llama", "vocab_size"),
        ("mistral", "num_hidden_layers"),
        ("mixtral", "num_local_experts"),
        ("mixtral", "num_experts_per_tok"),
        ("qwen2", "num_attention_heads"),
        ("qwen2_moe", "moe_intermediate_size"),
        ("qwen2_moe", "shared_expert_intermediate_size"),
        ("qwen3", "hidden_size"),
        ("gemma", "num_key_value_heads"),
        ("gemma2", "intermediate_size"),
        ("gemma3", "num_hidden_layers"),
        ("gpt2", "n_embd"),
        ("gpt2", "n_positions"),
        ("gpt_neox", "intermediate_size"),
        ("gptj", "n_head"),
        ("opt", "ffn_dim"),
        ("opt", "max_position_embeddings"),
        ("phi", "vocab_size"),
        ("phi3", "intermediate_size"),
        ("olmo2", "hidden_size"),
        ("stablelm", "num_attention_heads"),
        ("falcon", "hidden_size"),
        ("falcon_alibi", "num_attention_heads"),
        ("bloom", "hidden_size"),
        ("glm4", "intermediate_size"),
        ("gpt_neo", "max_position_embeddings"),
        ("mpt", "d_model"),
        ("olmoe", "num_experts"),
        ("starcoder2", "intermediate_size"),
        ("deepseek_v3", "kv_lora_rank"),
        ("gpt_oss", "num_local_experts"),
        ("qwen3_next", "linear_num_key_heads"),
        ("mamba", "num_hidden_layers"),
        ("nemotron_h", "layers_block_type"),
        ("encoders/t5", "decoder_start_token_id"),
    ];
    for (name, field) in cases {
        let found = refusal(name, &json!({field: null}));
        assert_eq!(found, format!("The model's configuration has no field `{field}`"), "{name}");
    }
    // This checkpoint uses another name for the field.
    let found = refusal("qwen3_moe", &json!({"num_local_experts": null}));
    assert_eq!(found, "The model's configuration has no field `num_experts`");
}

#[test]
fn documentation_lists_every_architecture() {
    let quoted = |names: &[&str]| names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let rows = ARCHITECTURES.iter().map(|entry| {
        format!("| {} | {} | {} |\n", entry.models, quoted(entry.classes), quoted(entry.model_types))
    });
    let header = "| models | class | `model_type` |\n|---|---|---|\n".to_owned();
    let table: String = [header].into_iter().chain(rows).collect();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/hf-models.md");
    let page = fs_err::read_to_string(page).unwrap();
    assert!(page.contains(&table), "docs/hf-models.md has to contain\n{table}");
}

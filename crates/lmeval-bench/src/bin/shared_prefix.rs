//! Times shared-prefix scoring on a model with random weights, and compares it with scoring each sequence alone.
//!
//! `cargo run --release -p lmeval-bench --features cuda --bin shared-prefix -- cuda bf16` uses a LLaMA with 1.24 billion
//! parameters and 64 sequences of 640 tokens that share their first 560; `-- cpu f32 small` uses a small one.

#![allow(clippy::print_stdout, reason = "prints measurements")]

use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use candle_core::{DType, Device, Tensor};
use lmeval_candle::arch::{Architecture, find};
use lmeval_candle::{Batch, Cache, Config, Segment, Source, Weights};
use lmeval_pycompat::{Dict, Value};

/// The sizes of a model and of the scored sequences.
#[derive(Clone, Copy)]
struct Sizes {
    hidden: usize,
    layers: usize,
    heads: usize,
    kv_heads: usize,
    inner: usize,
    vocabulary: usize,
    sequences: usize,
    prefix: usize,
    rest: usize,
    scored: usize,
}

const LARGE: Sizes = Sizes {
    hidden: 2048,
    layers: 16,
    heads: 32,
    kv_heads: 8,
    inner: 8192,
    vocabulary: 128_256,
    sequences: 64,
    prefix: 560,
    rest: 80,
    scored: 4,
};

const SMALL: Sizes = Sizes {
    hidden: 256,
    layers: 2,
    heads: 8,
    kv_heads: 2,
    inner: 512,
    vocabulary: 1000,
    sequences: 7,
    prefix: 75,
    rest: 21,
    scored: 4,
};

/// Random weights, generated on demand and the same each time.
struct Random(Sizes);

impl Source for Random {
    fn shape(&self, name: &str) -> Option<Vec<usize>> {
        let Sizes { hidden, heads, kv_heads, inner, vocabulary, .. } = self.0;
        let width = hidden / heads;
        let part = name.trim_end_matches(".weight").rsplit('.').next()?;
        Some(match part {
            "embed_tokens" => vec![vocabulary, hidden],
            "q_proj" => vec![heads * width, hidden],
            "k_proj" | "v_proj" => vec![kv_heads * width, hidden],
            "o_proj" => vec![hidden, heads * width],
            "gate_proj" | "up_proj" => vec![inner, hidden],
            "down_proj" => vec![hidden, inner],
            "input_layernorm" | "post_attention_layernorm" | "norm" => vec![hidden],
            _ => return None,
        })
    }

    fn load(&self, name: &str, device: &Device) -> lmeval_candle::Result<Tensor> {
        let shape = self.shape(name).unwrap_or_default();
        if shape.len() == 1 {
            return Ok(Tensor::ones(shape, DType::F32, device)?);
        }
        let count = shape.iter().product();
        let mut state = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |state, byte| {
            (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        // Between -0.06 and 0.06: about the spread of an untrained model.
        let numbers: Vec<f32> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 40) as f32 / (1 << 23) as f32 - 1.0) * 0.06
        })
        .take(count)
        .collect();
        Ok(Tensor::from_vec(numbers, shape, device)?)
    }

    fn names(&self) -> Vec<String> {
        Vec::new()
    }

    fn stored(&self) -> DType {
        DType::F32
    }
}

fn model(sizes: Sizes, dtype: DType, device: &Device) -> Result<Box<dyn Architecture>, Box<dyn Error>> {
    let number = |value: usize| Value::Int(value as i64);
    let mut fields = Dict::new();
    fields.insert("architectures", Value::list([Value::str("LlamaForCausalLM")]));
    fields.insert("hidden_size", number(sizes.hidden));
    fields.insert("num_hidden_layers", number(sizes.layers));
    fields.insert("num_attention_heads", number(sizes.heads));
    fields.insert("num_key_value_heads", number(sizes.kv_heads));
    fields.insert("intermediate_size", number(sizes.inner));
    fields.insert("vocab_size", number(sizes.vocabulary));
    fields.insert("rms_norm_eps", Value::Float(1e-5));
    fields.insert("rope_theta", Value::Float(500_000.0));
    fields.insert("tie_word_embeddings", Value::Bool(true));
    let config = Config::from_fields(fields);
    let weights = Weights::new(Arc::new(Random(sizes)), dtype, device);
    Ok((find(&config)?.build)(&config, &weights)?)
}

fn tokens(sizes: Sizes, sequence: usize) -> Vec<u32> {
    let token =
        |position: usize, salt: usize| ((position * 7919 + salt * 104_729 + 17) % sizes.vocabulary) as u32;
    let prefix = (0..sizes.prefix).map(|position| token(position, 0));
    prefix.chain((0..sizes.rest).map(|position| token(position, sequence + 1))).collect()
}

/// All sequences in one batch: the prefix is the first segment, and every sequence attends to it.
fn shared(sizes: Sizes, cache: &mut Cache, device: &Device) -> Result<Batch, Box<dyn Error>> {
    let take = |cache: &mut Cache, rows| cache.take(rows).ok_or("the cache is too small");
    let prefix = take(cache, sizes.prefix)?;
    let mut all = tokens(sizes, 0)[..sizes.prefix].to_vec();
    let mut segments = vec![Segment {
        first: 0,
        len: sizes.prefix,
        offset: 0,
        length: sizes.prefix,
        spans: prefix.clone(),
        ..Segment::default()
    }];
    for sequence in 0..sizes.sequences {
        let mut spans = prefix.clone();
        spans.extend(take(cache, sizes.rest)?);
        let length = sizes.prefix + sizes.rest;
        segments.push(Segment {
            first: all.len(),
            len: sizes.rest,
            offset: sizes.prefix,
            length,
            spans,
            ..Segment::default()
        });
        all.extend(&tokens(sizes, sequence)[sizes.prefix..]);
    }
    Ok(Batch::new(&all, segments, device)?)
}

/// The scored rows of all sequences.
fn scored(sizes: Sizes, rows: &Tensor, device: &Device) -> Result<Tensor, Box<dyn Error>> {
    let wanted = (0..sizes.sequences).flat_map(|sequence| {
        let end = sizes.prefix + (sequence + 1) * sizes.rest;
        (end - sizes.scored..end).map(|row| row as u32)
    });
    let wanted = Tensor::new(wanted.collect::<Vec<_>>(), device)?;
    Ok(rows.index_select(&wanted, 0)?)
}

/// The largest difference between two matrices of log-probabilities, and the fraction of rows with the same top token.
fn compare(one: &Tensor, other: &Tensor) -> Result<(f32, f32), Box<dyn Error>> {
    let logs = |logits: &Tensor| candle_nn::ops::log_softmax(&logits.to_device(&Device::Cpu)?, 1);
    let (one, other) = (logs(one)?, logs(other)?);
    let largest = (&one - &other)?.abs()?.max_all()?.to_scalar::<f32>()?;
    let tops = |logs: &Tensor| logs.argmax(1)?.to_vec1::<u32>();
    let (first, second) = (tops(&one)?, tops(&other)?);
    let same = first.iter().zip(&second).filter(|(a, b)| a == b).count();
    Ok((largest, same as f32 / first.len() as f32))
}

fn main() -> Result<(), Box<dyn Error>> {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let device = match given.first().map(String::as_str) {
        Some("cuda") => Device::new_cuda(0)?,
        _ => Device::Cpu,
    };
    let dtype = match given.get(1).map(String::as_str) {
        Some("bf16") => DType::BF16,
        Some("f16") => DType::F16,
        _ => DType::F32,
    };
    let sizes = if given.iter().any(|word| word == "small") { SMALL } else { LARGE };
    let build = |dtype| -> Result<_, Box<dyn Error>> {
        let model = model(sizes, dtype, &device)?;
        let rows = sizes.prefix + sizes.sequences * sizes.rest;
        let cache = Cache::new(model.shape(), rows + sizes.prefix + sizes.rest, 0, dtype, &device)?;
        Ok((model, cache))
    };
    let (model, mut cache) = build(dtype)?;
    let batch = shared(sizes, &mut cache, &device)?;
    let spans = cache.take(sizes.prefix + sizes.rest).ok_or("the cache is too small")?;
    let forward = || -> Result<Tensor, Box<dyn Error>> {
        Ok(model.head(&scored(sizes, &model.forward(&batch, &cache)?, &device)?)?)
    };
    let together = forward()?;

    // A few sequences alone, with the same dtype.
    let mut worst = (0.0f32, 1.0f32);
    for sequence in [0, sizes.sequences / 2, sizes.sequences - 1] {
        let all = tokens(sizes, sequence);
        let segment = Segment {
            first: 0,
            len: all.len(),
            offset: 0,
            length: all.len(),
            spans: spans.clone(),
            ..Segment::default()
        };
        let alone = Batch::new(&all, vec![segment], &device)?;
        let rows = model.forward(&alone, &cache)?;
        let alone = model.head(&rows.narrow(0, all.len() - sizes.scored, sizes.scored)?)?;
        let (difference, same) =
            compare(&together.narrow(0, sequence * sizes.scored, sizes.scored)?, &alone)?;
        worst = (worst.0.max(difference), worst.1.min(same));
    }
    println!("against single sequences: largest difference {:.2e}, same top token {:.2}", worst.0, worst.1);

    let mut times = Vec::new();
    for round in 0..13 {
        let start = Instant::now();
        forward()?;
        device.synchronize()?;
        if round > 2 {
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
    }
    times.sort_by(f64::total_cmp);
    let median = times[times.len() / 2];
    let computed = sizes.prefix + sizes.sequences * sizes.rest;
    let all = sizes.sequences * (sizes.prefix + sizes.rest);
    let width = sizes.hidden / sizes.heads;
    let per_layer =
        sizes.hidden * width * (2 * sizes.heads + 2 * sizes.kv_heads) + 3 * sizes.hidden * sizes.inner;
    let products = 2.0 * (per_layer * sizes.layers * computed) as f64
        + 2.0 * (sizes.hidden * sizes.vocabulary * sizes.sequences * sizes.scored) as f64;
    println!("one pass:             {median:.2} ms (from {:.2} to {:.2})", times[0], times[times.len() - 1]);
    println!(
        "tokens:               {computed} computed for {all}, {:.0} per second",
        all as f64 / median * 1e3
    );
    println!("matrix products:      {:.0} TFLOP/s", products / median / 1e9);

    let (exact, mut cache) = build(DType::F32)?;
    let batch = shared(sizes, &mut cache, &device)?;
    let exact = exact.head(&scored(sizes, &exact.forward(&batch, &cache)?, &device)?)?;
    let (difference, same) = compare(&together, &exact)?;
    println!("against 32 bits:      largest difference {difference:.2e}, same top token {same:.2}");
    Ok(())
}

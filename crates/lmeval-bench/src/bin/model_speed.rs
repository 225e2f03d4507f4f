//! Times prompts and generation of a checkpoint on the CPU, with its peak of resident memory and a checksum of all logits.
//!
//! `cargo run --release -p lmeval-bench --bin model-speed -- FOLDER_OR_GGUF [PROMPT [STEPS]]`. Two builds whose checksums are equal compute
//! the same bits.

#![allow(clippy::print_stdout, reason = "prints measurements")]

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use candle_core::{DType, Device, Tensor};
use lmeval_candle::arch::{Architecture, find};
use lmeval_candle::{
    Batch, Cache, Config, Gguf, Quantised, Safetensors, Segment, Source, Span, StateUse, Weights,
};

/// The numbers of sequences that are generated at once.
const SEQUENCES: [usize; 3] = [1, 4, 16];

fn open(path: &Path) -> Result<(Config, Arc<dyn Source>), Box<dyn Error>> {
    if path.is_dir() {
        let config = Config::read(&path.join("config.json"))?;
        let source: Arc<dyn Source> = Arc::new(Safetensors::from_folder(path)?);
        return Ok(match config.object("quantization_config")? {
            Some(own) => (config, Arc::new(Quantised::open(source, &own)?)),
            None => (config, source),
        });
    }
    let file = Gguf::open(path)?;
    Ok((file.config()?, Arc::new(file)))
}

/// A fingerprint of the bits of logits.
fn checksum(logits: &Tensor, state: &mut u64) -> Result<(), Box<dyn Error>> {
    for number in logits.flatten_all()?.to_vec1::<f32>()? {
        *state = (*state ^ u64::from(number.to_bits())).wrapping_mul(0x0100_0000_01b3);
    }
    Ok(())
}

/// The peak of resident memory in megabytes.
fn peak() -> Result<usize, Box<dyn Error>> {
    let status = fs_err::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no VmHWM")?;
    // The kernel's unit is 1024 bytes.
    Ok(line.trim().trim_end_matches(" kB").parse::<usize>()? * 1024 / 1_000_000)
}

/// A model and its cache, in which sequence after sequence takes the next rows.
struct Run {
    model: Box<dyn Architecture>,
    cache: Cache,
    vocabulary: u32,
}

impl Run {
    fn token(&self, position: usize, sequence: usize) -> u32 {
        ((position * 7919 + sequence * 104_729 + 17) % self.vocabulary as usize) as u32
    }

    /// The seconds of a prompt, and its last row of logits.
    fn prompt(&self, tokens: usize) -> Result<(f64, Tensor), Box<dyn Error>> {
        let all: Vec<u32> = (0..tokens).map(|position| self.token(position, 0)).collect();
        let spans = vec![Span { start: 0, len: tokens }];
        let state = StateUse { before: None, after: Some(0) };
        let segment = Segment { first: 0, len: tokens, spans, length: tokens, state, ..Segment::default() };
        let start = Instant::now();
        let rows = self.model.forward(&Batch::new(&all, vec![segment], &Device::Cpu)?, &self.cache)?;
        let logits = self.model.head(&rows.narrow(0, tokens - 1, 1)?)?;
        Ok((start.elapsed().as_secs_f64(), logits))
    }

    /// The seconds of a step of several sequences that continue the same prompt, and its logits.
    fn step(&self, prompt: usize, sequences: usize, step: usize) -> Result<(f64, Tensor), Box<dyn Error>> {
        let all: Vec<u32> = (0..sequences).map(|sequence| self.token(prompt + step, sequence)).collect();
        let segment = |first: usize| Segment {
            first,
            len: 1,
            offset: prompt,
            spans: vec![Span { start: 0, len: prompt }, Span { start: prompt + first, len: 1 }],
            length: prompt + 1,
            state: StateUse { before: Some(0), after: Some(1 + first) },
            source: 0,
        };
        let batch = Batch::new(&all, (0..sequences).map(segment).collect(), &Device::Cpu)?;
        let start = Instant::now();
        let rows = self.model.forward(&batch, &self.cache)?;
        let logits = self.model.head(&rows)?;
        Ok((start.elapsed().as_secs_f64(), logits))
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let path = given.first().ok_or("a folder or a GGUF file")?;
    let number = |index: usize, default| given.get(index).map_or(Ok(default), |text| text.parse::<usize>());
    let (tokens, steps) = (number(1, 512)?, number(2, 8)?);
    let start = Instant::now();
    let (config, source) = open(Path::new(path))?;
    let model = (find(&config)?.build)(&config, &Weights::new(source, DType::F32, &Device::Cpu))?;
    println!("{path}: loaded in {:.2} s", start.elapsed().as_secs_f64());
    let shape = model.shape();
    let (vocabulary, most) = (shape.vocabulary as u32, SEQUENCES[SEQUENCES.len() - 1]);
    let cache = Cache::new(shape, tokens + most, 1 + most, DType::F32, &Device::Cpu)?;
    let run = Run { model, cache, vocabulary };
    let mut sum = 0xcbf2_9ce4_8422_2325_u64;
    let mut best = f64::INFINITY;
    for _ in 0..if steps > 1 { 3 } else { 1 } {
        let (seconds, logits) = run.prompt(tokens)?;
        checksum(&logits, &mut sum)?;
        best = best.min(seconds);
    }
    println!("prompt of {tokens}: {:.3} ms per token", best * 1e3 / tokens as f64);
    for sequences in SEQUENCES {
        let mut best = f64::INFINITY;
        for step in 0..steps {
            let (seconds, logits) = run.step(tokens, sequences, step)?;
            checksum(&logits, &mut sum)?;
            best = best.min(seconds);
        }
        println!("{sequences} sequences: {:.2} ms per step", best * 1e3);
    }
    println!("peak {} MB, checksum {sum:016x}", peak()?);
    Ok(())
}

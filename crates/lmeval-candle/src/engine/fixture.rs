//! Engines with tiny models, for tests.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use candle_core::{DType, Device, Tensor};

use super::Engine;
use crate::arch::{self, Architecture, Shape};
use crate::batch::Batch;
use crate::cache::Cache;
use crate::config::Config;
use crate::error::Result;
use crate::weights::{Safetensors, Weights};

/// The device of `LM_EVAL_TEST_DEVICE`, by default the CPU.
pub(crate) fn device() -> Device {
    let name = std::env::var("LM_EVAL_TEST_DEVICE").unwrap_or_else(|_| "cpu".into());
    match name.strip_prefix("cuda:") {
        Some(index) => Device::new_cuda(index.parse().unwrap()).unwrap(),
        None => Device::Cpu,
    }
}

/// An engine for a fixture checkpoint with this many rows per pass.
pub(crate) fn engine(name: &str, rows: usize, sequences: Option<usize>) -> Engine {
    let device = device();
    let mut engine = Engine::new(model(name, &device), &device, DType::F32, sequences);
    engine.rows.store(rows, Ordering::Relaxed);
    engine.full.0 = rows;
    engine
}

/// An engine whose device runs out of memory in passes of more rows.
pub(crate) fn scarce(name: &str, rows: usize) -> Engine {
    let device = device();
    Engine::new(Box::new(Scarce { model: model(name, &device), rows }), &device, DType::F32, None)
}

impl Engine {
    /// Fails if rows or states of the cache are still taken.
    pub(crate) fn check_free(&self) {
        let cache = self.cache.lock().unwrap();
        let cache = cache.as_ref().unwrap();
        assert_eq!(cache.available(), cache.capacity());
        assert_eq!(cache.available_states(), cache.states());
    }
}

fn model(name: &str, device: &Device) -> Box<dyn Architecture> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    let config = Config::read(&folder.join("config.json")).unwrap();
    let source = Arc::new(Safetensors::from_folder(&folder).unwrap());
    let weights = Weights::new(source, DType::F32, device);
    (arch::find(&config).unwrap().build)(&config, &weights).unwrap()
}

/// Fails with an out-of-memory error on large batches.
#[derive(Debug)]
struct Scarce {
    model: Box<dyn Architecture>,
    rows: usize,
}

impl Architecture for Scarce {
    fn shape(&self) -> &Shape {
        self.model.shape()
    }

    fn forward(&self, batch: &Batch, cache: &Cache) -> Result<Tensor> {
        if batch.rows() > self.rows {
            return Err(candle_core::Error::Msg("CUDA_ERROR_OUT_OF_MEMORY".into()).into());
        }
        self.model.forward(batch, cache)
    }

    fn head(&self, rows: &Tensor) -> Result<Tensor> {
        self.model.head(rows)
    }
}

/// A linear congruential generator.
pub(crate) struct Draws(pub(crate) u64);

impl Draws {
    /// A number in `0..limit`.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % limit
    }

    /// Random tokens.
    pub(crate) fn tokens(&mut self, count: usize, vocabulary: usize) -> Vec<u32> {
        (0..count).map(|_| self.below(vocabulary) as u32).collect()
    }
}

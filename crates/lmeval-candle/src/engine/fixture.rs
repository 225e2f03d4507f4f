//! A tiny model for tests.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use candle_core::{DType, Device};

use super::Engine;
use crate::arch;
use crate::config::Config;
use crate::weights::{Safetensors, Weights};

/// An engine for a checkpoint of the tests, with as many rows in a pass.
pub(crate) fn engine(name: &str, rows: usize, texts: Option<usize>) -> Engine {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    let config = Config::read(&folder.join("config.json")).unwrap();
    let source = Arc::new(Safetensors::from_folder(&folder).unwrap());
    let weights = Weights::new(source, DType::F32, &Device::Cpu);
    let model = (arch::find(&config).unwrap().build)(&config, &weights).unwrap();
    let engine = Engine::new(model, &Device::Cpu, DType::F32, texts);
    engine.rows.store(rows, Ordering::Relaxed);
    engine
}

/// Numbers that look random.
pub(crate) struct Draws(pub(crate) u64);

impl Draws {
    /// A number from 0 to below a limit.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % limit
    }

    /// Tokens.
    pub(crate) fn tokens(&mut self, count: usize, vocabulary: usize) -> Vec<u32> {
        (0..count).map(|_| self.below(vocabulary) as u32).collect()
    }
}

//! In-process models on candle: architectures, shared-prefix scoring and generation.

pub mod arch;
mod arguments;
mod batch;
mod cache;
mod config;
#[cfg(feature = "cuda")]
mod cuda;
mod device;
mod encoder;
mod engine;
mod error;
mod generation;
mod hub;
mod layers;
mod load;
mod matrix;
mod memory;
mod model;
mod registry;
mod weights;

pub use batch::{Batch, Segment, Span, StateUse};
pub use cache::{Cache, LayerCache, LayerShape, RowCache, RowShape, StateShape};
pub use config::Config;
pub use error::{Error, Result};
pub use hub::locate_model;
#[cfg(feature = "cuda")]
pub use matrix::DeviceMatrix;
pub use matrix::{Matrix, StoredMatrix};
pub use model::serve;
pub use registry::models;
pub use weights::{Adapted, Gguf, Quantised, Raw, Safetensors, Source, Stacking, TorchFiles, Weights};

//! Model weights by name.

mod folder;
mod gguf;
mod mapped;
mod safetensors;
mod torch;

use std::fmt;
use std::sync::Arc;

use candle_core::{DType, Device, Tensor};

pub(crate) use self::folder::{files_of_folder, open_folder};
pub use self::gguf::Gguf;
pub use self::safetensors::Safetensors;
pub use self::torch::TorchFiles;
use crate::error::{Error, Result};
use crate::layers::{Linear, Norm};

/// A checkpoint.
pub trait Source: Send + Sync {
    /// The shape of a tensor, if it exists.
    fn shape(&self, name: &str) -> Option<Vec<usize>>;

    /// Loads a tensor onto a device, in its stored data type.
    fn load(&self, name: &str, device: &Device) -> Result<Tensor>;

    /// The names of all tensors.
    fn names(&self) -> Vec<String>;

    /// The data type of most weights.
    fn stored(&self) -> DType;

    /// Called after a model is built. Refuses weights it did not load, for formats without extra tensors.
    fn check_loaded(&self) -> Result<()> {
        Ok(())
    }
}

/// Weights below a prefix such as `model.layers.3`.
#[derive(Clone)]
pub struct Weights {
    source: Arc<dyn Source>,
    device: Device,
    dtype: DType,
    /// The data type to round to before converting to `dtype`.
    rounded: Option<DType>,
    prefix: String,
}

impl fmt::Debug for Weights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Weights")
            .field("prefix", &self.prefix)
            .field("dtype", &self.dtype)
            .finish_non_exhaustive()
    }
}

impl Weights {
    /// All weights of a checkpoint, converted to a data type on a device.
    pub fn new(source: Arc<dyn Source>, dtype: DType, device: &Device) -> Self {
        Self { source, device: device.clone(), dtype, rounded: None, prefix: String::new() }
    }

    /// Rounds weights to a data type first.
    pub fn rounded_to(mut self, dtype: DType) -> Self {
        self.rounded = Some(dtype);
        self
    }

    /// Descends into a name: `at("model.layers").at(3)`.
    pub fn at(&self, name: impl fmt::Display) -> Self {
        Self { prefix: self.full(name), ..self.clone() }
    }

    /// Whether a tensor exists.
    pub fn has(&self, name: &str) -> bool {
        self.source.shape(&self.full(name)).is_some()
    }

    /// Descends into the first of several prefixes under which the tensor `name` exists.
    ///
    /// Checkpoints of the same model are saved with and without a prefix such as `transformer.`.
    pub fn find(&self, prefixes: &[&str], name: &str) -> Result<Self> {
        let below = |prefix: &&str| if prefix.is_empty() { self.clone() } else { self.at(prefix) };
        let found = prefixes.iter().map(below).find(|weights| weights.has(name));
        found.ok_or_else(|| {
            let expected = prefixes.first().map_or_else(|| self.clone(), below);
            Error::MissingWeight(expected.full(name))
        })
    }

    /// Loads a tensor and checks its shape.
    pub fn tensor(&self, name: &str, shape: &[usize]) -> Result<Tensor> {
        let full = self.full(name);
        let found = self.source.shape(&full).ok_or_else(|| Error::MissingWeight(full.clone()))?;
        if found != shape {
            return Err(Error::WrongShape { name: full, found, expected: shape.to_vec() });
        }
        let tensor = self.source.load(&full, &self.device)?;
        if !matches!(tensor.dtype(), DType::F64 | DType::F32 | DType::BF16 | DType::F16) {
            // Integer weights are quantised and need their scales.
            let message =
                format!("The weight `{full}` has data type {:?}, which is not supported", tensor.dtype());
            let hint = Some("`--model lm_eval:hf` runs the model through Python".into());
            return Err(Error::Unsupported { message, hint });
        }
        let tensor = match self.rounded {
            Some(dtype) => tensor.to_dtype(dtype)?,
            None => tensor,
        };
        Ok(tensor.to_dtype(self.dtype)?)
    }

    /// Loads a linear layer: `name.weight` of shape `[output, input]`, and `name.bias` if `bias` is set.
    pub fn linear(&self, name: &str, input: usize, output: usize, bias: bool) -> Result<Linear> {
        let below = self.at(name);
        let weight = below.tensor("weight", &[output, input])?;
        let bias = if bias { Some(below.tensor("bias", &[output])?) } else { None };
        Ok(Linear::new(weight, bias)?)
    }

    /// Loads a linear layer, with a bias if the checkpoint has one.
    pub fn linear_as_stored(&self, name: &str, input: usize, output: usize) -> Result<Linear> {
        self.linear(name, input, output, self.at(name).has("bias"))
    }

    /// Loads an RMS norm `name.weight` and adds `offset` to its weights.
    pub fn rms_norm(&self, name: &str, width: usize, epsilon: f64, offset: f64) -> Result<Norm> {
        let weight = self.at(name).tensor("weight", &[width])?;
        // The sum would lose most digits in 16 bits.
        let weight = if offset == 0.0 { weight } else { (weight.to_dtype(DType::F32)? + offset)? };
        Ok(Norm::Rms { weight, epsilon: epsilon as f32 })
    }

    /// Loads a layer norm `name.weight` and `name.bias`. A missing bias is zero.
    pub fn layer_norm(&self, name: &str, width: usize, epsilon: f64) -> Result<Norm> {
        let below = self.at(name);
        let weight = below.tensor("weight", &[width])?;
        let bias = if below.has("bias") { below.tensor("bias", &[width])? } else { weight.zeros_like()? };
        Ok(Norm::Layer { weight, bias, epsilon: epsilon as f32 })
    }

    /// Loads the output head `name.weight`, or reuses the embedding if the two are tied.
    pub fn head(&self, name: &str, embedding: &Tensor, tied: bool) -> Result<Linear> {
        if tied {
            return Ok(Linear::new(embedding.clone(), None)?);
        }
        let (vocabulary, width) = embedding.dims2()?;
        self.linear_as_stored(name, width, vocabulary)
    }

    /// The device that weights are loaded onto.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The data type that weights are converted to.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    fn full(&self, name: impl fmt::Display) -> String {
        if self.prefix.is_empty() { name.to_string() } else { format!("{}.{name}", self.prefix) }
    }
}

//! The weights of a model, by name.

mod folder;
mod gguf;
mod mapped;
mod safetensors;
mod torch;

use std::fmt;
use std::sync::Arc;

use candle_core::{DType, Device, Tensor};

pub(crate) use self::folder::{files_of_folder, of_folder};
pub use self::gguf::Gguf;
pub use self::safetensors::Safetensors;
pub use self::torch::TorchFiles;
use crate::error::{Error, Result};
use crate::layers::{Linear, Norm};

/// Where weights come from.
pub trait Source: Send + Sync {
    /// The shape of a tensor, where there is one of that name.
    fn shape(&self, name: &str) -> Option<Vec<usize>>;

    /// A tensor, as it is stored, on a device.
    fn load(&self, name: &str, device: &Device) -> Result<Tensor>;

    /// The names of all tensors.
    fn names(&self) -> Vec<String>;

    /// The type that most of the numbers are stored in.
    fn stored(&self) -> DType;

    /// Refuses, after a model was built, weights that it did not load, where a source has no others.
    fn check_loaded(&self) -> Result<()> {
        Ok(())
    }
}

/// Weights by name, below a place such as `model.layers.3`.
#[derive(Clone)]
pub struct Weights {
    source: Arc<dyn Source>,
    device: Device,
    dtype: DType,
    /// What numbers are rounded to first, where they are computed in more bits.
    rounded: Option<DType>,
    place: String,
}

impl fmt::Debug for Weights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Weights")
            .field("place", &self.place)
            .field("dtype", &self.dtype)
            .finish_non_exhaustive()
    }
}

impl Weights {
    /// All weights of a source, as numbers of one type on one device.
    pub fn new(source: Arc<dyn Source>, dtype: DType, device: &Device) -> Self {
        Self { source, device: device.clone(), dtype, rounded: None, place: String::new() }
    }

    /// The same weights, rounded to numbers of a type before they are used.
    pub fn rounded_to(mut self, dtype: DType) -> Self {
        self.rounded = Some(dtype);
        self
    }

    /// The weights below a name: `at("model.layers").at(3)`.
    pub fn at(&self, name: impl fmt::Display) -> Self {
        Self { place: self.full(name), ..self.clone() }
    }

    /// Whether there is a tensor of that name.
    pub fn has(&self, name: &str) -> bool {
        self.source.shape(&self.full(name)).is_some()
    }

    /// Where the model stands among the weights: below the first of the places that has the tensor `name`.
    ///
    /// Checkpoints of the same model are saved with and without the name of the whole, such as `transformer.`.
    pub fn find(&self, places: &[&str], name: &str) -> Result<Self> {
        let below = |place: &&str| if place.is_empty() { self.clone() } else { self.at(place) };
        let found = places.iter().map(below).find(|weights| weights.has(name));
        found.ok_or_else(|| {
            let place = places.first().map_or_else(|| self.clone(), below);
            Error::MissingWeight(place.full(name))
        })
    }

    /// A tensor of a known shape.
    pub fn tensor(&self, name: &str, shape: &[usize]) -> Result<Tensor> {
        let full = self.full(name);
        let found = self.source.shape(&full).ok_or_else(|| Error::MissingWeight(full.clone()))?;
        if found != shape {
            return Err(Error::WrongShape { name: full, found, expected: shape.to_vec() });
        }
        let tensor = self.source.load(&full, &self.device)?;
        if !matches!(tensor.dtype(), DType::F64 | DType::F32 | DType::BF16 | DType::F16) {
            // Such numbers mean something together with others alone, their scales.
            let message =
                format!("The weight `{full}` is stored as {:?}, which is not known here", tensor.dtype());
            let hint = Some("`--model lm_eval:hf` runs the model through Python".into());
            return Err(Error::Unsupported { message, hint });
        }
        let tensor = match self.rounded {
            Some(dtype) => tensor.to_dtype(dtype)?,
            None => tensor,
        };
        Ok(tensor.to_dtype(self.dtype)?)
    }

    /// A linear layer `name.weight` of the shape `[output, input]`, with `name.bias` where `bias` says so.
    pub fn linear(&self, name: &str, input: usize, output: usize, bias: bool) -> Result<Linear> {
        let below = self.at(name);
        let weight = below.tensor("weight", &[output, input])?;
        let bias = if bias { Some(below.tensor("bias", &[output])?) } else { None };
        Ok(Linear::new(weight, bias)?)
    }

    /// A linear layer that has a bias where there is one among the weights.
    pub fn linear_as_stored(&self, name: &str, input: usize, output: usize) -> Result<Linear> {
        self.linear(name, input, output, self.at(name).has("bias"))
    }

    /// A root-mean-square norm `name.weight`; `offset` is added to its weights.
    pub fn rms_norm(&self, name: &str, width: usize, epsilon: f64, offset: f64) -> Result<Norm> {
        let weight = self.at(name).tensor("weight", &[width])?;
        // A sum in 16 bits would lose most of what is stored.
        let weight = if offset == 0.0 { weight } else { (weight.to_dtype(DType::F32)? + offset)? };
        Ok(Norm::Rms { weight, epsilon: epsilon as f32 })
    }

    /// A layer norm `name.weight` and `name.bias`; without a bias among the weights it is zero.
    pub fn layer_norm(&self, name: &str, width: usize, epsilon: f64) -> Result<Norm> {
        let below = self.at(name);
        let weight = below.tensor("weight", &[width])?;
        let bias = if below.has("bias") { below.tensor("bias", &[width])? } else { weight.zeros_like()? };
        Ok(Norm::Layer { weight, bias, epsilon: epsilon as f32 })
    }

    /// The output head `name.weight`, or the embedding's matrix where the two are tied.
    pub fn head(&self, name: &str, embedding: &Tensor, tied: bool) -> Result<Linear> {
        if tied {
            return Ok(Linear::new(embedding.clone(), None)?);
        }
        let (vocabulary, width) = embedding.dims2()?;
        self.linear_as_stored(name, width, vocabulary)
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The type of the numbers.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    fn full(&self, name: impl fmt::Display) -> String {
        if self.place.is_empty() { name.to_string() } else { format!("{}.{name}", self.place) }
    }
}

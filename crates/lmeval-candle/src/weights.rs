//! Model weights by name.

mod folder;
mod gguf;
mod mapped;
mod safetensors;
mod torch;

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use candle_core::{DType, Device, Tensor};
use rustc_hash::FxHashSet;

pub(crate) use self::folder::{files_of_folder, open_folder};
pub use self::gguf::Gguf;
pub use self::safetensors::Safetensors;
pub use self::torch::TorchFiles;
use crate::config::Config;
use crate::error::{Error, Result, TORCH};
use crate::layers::{Linear, Norm};

/// Suffixes of checkpoint tensors that are not parameters.
const BUFFERS: [&str; 5] =
    ["rotary_emb.inv_freq", ".attn.bias", ".attn.masked_bias", ".attention.bias", ".attention.masked_bias"];

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
    /// The names of the tensors loaded so far, below any prefix.
    loaded: Arc<Mutex<FxHashSet<String>>>,
}

/// Parts of the names of parameters that only images need.
const IMAGES: [&str; 2] = ["vision_tower.", "multi_modal_projector."];

/// Tensors next to a quantised weight, in place of the weight itself.
const QUANTISED: [&str; 5] = ["qweight", "weight_packed", "weight_scale", "weight.absmax", "SCB"];

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
        let loaded = Arc::default();
        Self { source, device: device.clone(), dtype, rounded: None, prefix: String::new(), loaded }
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
        let found = self.source.shape(&full).ok_or_else(|| self.missing(name, &full))?;
        if found != shape {
            return Err(Error::WrongShape { name: full, found, expected: shape.to_vec() });
        }
        let tensor = self.source.load(&full, &self.device)?;
        if !matches!(tensor.dtype(), DType::F64 | DType::F32 | DType::BF16 | DType::F16) {
            return Err(quantised(&full, Some(&format!("{:?}", tensor.dtype()))));
        }
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner).insert(full);
        let tensor = match self.rounded {
            Some(dtype) => tensor.to_dtype(dtype)?,
            None => tensor,
        };
        Ok(tensor.to_dtype(self.dtype)?)
    }

    /// The error of a weight that does not exist, or only in another form.
    fn missing(&self, name: &str, full: &str) -> Error {
        if name == "weight"
            && let Some(other) = QUANTISED.iter().find(|other| self.has(other))
        {
            return quantised(&self.full(other), None);
        }
        Error::MissingWeight(full.to_owned())
    }

    /// The parameters of the checkpoint that have not been loaded, sorted by name. Those for images are never needed.
    pub fn unused(&self, config: &Config) -> Result<Vec<String>> {
        let is_parameter = parameter_names(config)?;
        let loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let mut names = self.source.names();
        let is_of_images = |name: &str| IMAGES.iter().any(|part| name.contains(part));
        names.retain(|name| is_parameter(name) && !is_of_images(name) && !loaded.contains(name));
        names.sort_unstable();
        Ok(names)
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
        Ok(Norm::Rms { weight, epsilon: checked_epsilon(epsilon)? })
    }

    /// Loads a layer norm `name.weight` and `name.bias`. A missing bias is zero.
    pub fn layer_norm(&self, name: &str, width: usize, epsilon: f64) -> Result<Norm> {
        let below = self.at(name);
        let weight = below.tensor("weight", &[width])?;
        let bias = if below.has("bias") { below.tensor("bias", &[width])? } else { weight.zeros_like()? };
        Ok(Norm::Layer { weight, bias, epsilon: checked_epsilon(epsilon)? })
    }

    /// Loads the output head `name.weight`, or reuses the embedding if the two are tied.
    pub fn head(&self, name: &str, embedding: &Tensor, tied: bool) -> Result<Linear> {
        if tied {
            return Ok(Linear::new(embedding.clone(), None)?);
        }
        let (vocabulary, width) = embedding.dims2()?;
        self.linear_as_stored(name, width, vocabulary)
    }

    /// The tensor of this name and those below it are known and not needed, such as layers for predicting several tokens at
    /// once.
    pub fn skip(&self, name: impl fmt::Display) {
        let full = self.full(name);
        let is_below = |name: &String| {
            name.strip_prefix(&full).is_some_and(|rest| matches!(rest.as_bytes(), [] | [b'.', ..]))
        };
        let names = self.source.names().into_iter().filter(is_below);
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner).extend(names);
    }

    /// The same weights in float32, without rounding them first: for numbers that models keep in 32 bits whatever they compute
    /// in.
    pub fn exact(&self) -> Self {
        Self { dtype: DType::F32, rounded: None, ..self.clone() }
    }

    /// The same weights, rounded as usual but computed with in float32.
    pub fn widened(&self) -> Self {
        Self { dtype: DType::F32, rounded: Some(self.rounded.unwrap_or(self.dtype)), ..self.clone() }
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

/// The epsilon of a norm, which float32 must be able to hold.
pub(crate) fn checked_epsilon(epsilon: f64) -> Result<f32> {
    let single = epsilon as f32;
    if single >= 0.0 && single.is_finite() {
        return Ok(single);
    }
    Err(Error::unsupported(format!(
        "The epsilon of a norm must be zero or a positive number, not {epsilon:e}"
    )))
}

/// Whether a tensor is a parameter: neither a buffer nor the second copy of a tied embedding.
pub(crate) fn parameter_names(config: &Config) -> Result<impl Fn(&str) -> bool> {
    let tied = config.flag_or("tie_word_embeddings", false)?;
    Ok(move |name: &str| {
        let is_second = tied && name == "lm_head.weight";
        !is_second && !BUFFERS.iter().any(|buffer| name.ends_with(buffer))
    })
}

/// The problem of a tensor that two shards have: which of them counted would depend on their order.
fn in_two_shards(name: &str, other: &Path) -> String {
    format!("the tensor `{name}` is also in `{}`, with other numbers", other.display())
}

/// The error of a weight that is stored as integers or in another form that needs scales.
fn quantised(name: &str, dtype: Option<&str>) -> Error {
    let dtype = dtype.map(|dtype| format!(" of the data type {dtype}")).unwrap_or_default();
    Error::Unsupported {
        message: format!(
            "The native engine does not read quantised weights, such as the tensor `{name}`{dtype}"
        ),
        hint: Some(TORCH.into()),
    }
}

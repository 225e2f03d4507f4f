//! Model weights by name.

mod adapter;
mod folder;
mod gguf;
mod mapped;
mod quantised;
mod safetensors;
mod torch;

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use ::safetensors::Dtype;
use candle_core::{DType, Device, Tensor};
use rustc_hash::FxHashSet;

pub use self::adapter::Adapted;
pub(crate) use self::adapter::{CONFIG as ADAPTER, WEIGHTS as ADAPTER_WEIGHTS, adapter_files};
pub(crate) use self::folder::{files_of_folder, open_checkpoint};
pub use self::gguf::Gguf;
use self::mapped::MappedBytes;
pub(crate) use self::mapped::mapped_bytes;
pub use self::quantised::Quantised;
use self::quantised::check_method;
pub use self::safetensors::Safetensors;
pub use self::torch::TorchFiles;
use crate::config::Config;
use crate::error::{Error, Result, TORCH};
use crate::layers::{Linear, Norm};
use crate::matrix::{Bytes, FloatType, Matrix, StoredMatrix};

/// Suffixes of checkpoint tensors that are not parameters.
const BUFFERS: [&str; 5] =
    ["rotary_emb.inv_freq", ".attn.bias", ".attn.masked_bias", ".attention.bias", ".attention.masked_bias"];

/// A checkpoint.
pub trait Source: Send + Sync {
    /// The shape of a tensor, if it exists.
    fn shape(&self, name: &str) -> Option<Vec<usize>>;

    /// Loads a tensor onto a device, in its stored data type.
    fn load(&self, name: &str, device: &Device) -> Result<Tensor>;

    /// A matrix in its stored form, for computing on the CPU without expanding it; `None` if it must be loaded.
    fn stored_matrix(&self, name: &str) -> Result<Option<Arc<dyn StoredMatrix>>> {
        let _ = name;
        Ok(None)
    }

    /// The matrices of a tensor of three dimensions, or of one, in their stored form: `[rows, columns]` each; `None` if they must be
    /// loaded.
    fn stacked(&self, name: &str, stacking: Stacking) -> Result<Option<Vec<Arc<dyn StoredMatrix>>>> {
        let _ = (name, stacking);
        Ok(None)
    }

    /// The bytes of a tensor, for formats that give them a meaning of their own.
    fn raw(&self, name: &str) -> Option<Raw> {
        let _ = name;
        None
    }

    /// The names of all tensors.
    fn names(&self) -> Vec<String>;

    /// The data type of most weights.
    fn stored(&self) -> DType;

    /// Called after a model is built. Refuses weights it did not load, for formats without extra tensors.
    fn check_loaded(&self) -> Result<()> {
        Ok(())
    }
}

/// How a tensor stores several matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stacking {
    /// `[matrices, rows, columns]`.
    Matrices,
    /// `[matrices, columns, rows]`.
    Transposes,
}

/// The bytes of a tensor as they are stored.
#[derive(Clone)]
pub struct Raw {
    bytes: MappedBytes,
    dtype: Dtype,
    shape: Vec<usize>,
}

impl Raw {
    /// The bytes, for several owners.
    fn shared(&self) -> Bytes {
        Arc::new(self.bytes.clone())
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

    /// The full name of a tensor, which must have this shape.
    fn checked(&self, name: &str, shape: &[usize]) -> Result<String> {
        let full = self.full(name);
        let found = self.source.shape(&full).ok_or_else(|| self.missing(name, &full))?;
        if found != shape {
            return Err(Error::WrongShape { name: full, found, expected: shape.to_vec() });
        }
        Ok(full)
    }

    /// Loads a matrix and checks its shape. On the CPU it stays in its stored form, if the format allows.
    pub fn matrix(&self, name: &str, shape: [usize; 2]) -> Result<Matrix> {
        if !self.device.is_cpu() || self.dtype != DType::F32 {
            return Ok(self.tensor(name, &shape)?.into());
        }
        let full = self.checked(name, &shape)?;
        let Some(stored) = self.source.stored_matrix(&full)? else {
            return Ok(self.tensor(name, &shape)?.into());
        };
        self.mark(full);
        self.rounded(stored)
    }

    /// Loads the matrix of a linear layer. On a GPU, too, quantised ones stay in their stored form, if the format allows.
    pub fn layer(&self, name: &str, shape: [usize; 2]) -> Result<Matrix> {
        if self.device.is_cuda() {
            let full = self.checked(name, &shape)?;
            if let Some(stored) = self.source.stored_matrix(&full)?
                && let Some(matrix) = self.on_device(stored.as_ref())?
            {
                self.mark(full);
                return Ok(matrix);
            }
        }
        self.matrix(name, shape)
    }

    /// Loads the matrices of linear layers that a tensor holds, `[matrices, output, input]`, and checks its shape, which is another one if
    /// it holds their transposes. Like those of single layers, quantised ones stay in their stored form.
    pub fn stacked(&self, name: &str, shape: [usize; 3], stacking: Stacking) -> Result<Vec<Matrix>> {
        let [count, output, input] = shape;
        let shape = match stacking {
            Stacking::Matrices => shape,
            Stacking::Transposes => [count, input, output],
        };
        if let Some(matrices) = self.stored_stack(name, &shape, stacking)? {
            return Ok(matrices);
        }
        let all = self.tensor(name, &shape)?;
        let matrix = |matrix: Tensor| match stacking {
            Stacking::Matrices => matrix.into(),
            Stacking::Transposes => Matrix::from_transposed(matrix),
        };
        (0..count).map(|index| Ok(matrix(all.get(index)?))).collect()
    }

    /// Loads a matrix that is stored as `[input, output]`, and checks its shape.
    pub fn transposed(&self, name: &str, shape: [usize; 2]) -> Result<Matrix> {
        let stored = self.stored_stack(name, &shape, Stacking::Transposes)?;
        match stored.and_then(|mut matrices| matrices.pop()) {
            Some(matrix) => Ok(matrix),
            None => Ok(Matrix::from_transposed(self.tensor(name, &shape)?)),
        }
    }

    /// The matrices of a tensor in their stored form, if the format allows.
    fn stored_stack(&self, name: &str, shape: &[usize], stacking: Stacking) -> Result<Option<Vec<Matrix>>> {
        let is_on_host = self.device.is_cpu() && self.dtype == DType::F32;
        if !is_on_host && !self.device.is_cuda() {
            return Ok(None);
        }
        let full = self.checked(name, shape)?;
        let Some(matrices) = self.source.stacked(&full, stacking)? else { return Ok(None) };
        let made: Option<Vec<Matrix>> = if is_on_host {
            matrices.into_iter().map(|matrix| self.rounded(matrix).map(Some)).collect::<Result<_>>()?
        } else {
            matrices.iter().map(|matrix| self.on_device(matrix.as_ref())).collect::<Result<_>>()?
        };
        if made.is_some() {
            self.mark(full);
        }
        Ok(made)
    }

    /// A copy of a stored matrix on the GPU, if its format allows.
    #[cfg_attr(
        not(feature = "cuda"),
        expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "without CUDA there is no GPU")
    )]
    fn on_device(&self, matrix: &dyn StoredMatrix) -> Result<Option<Matrix>> {
        #[cfg(feature = "cuda")]
        {
            // What is rounded first is rounded when it is loaded.
            if self.rounded.is_some_and(|rounded| rounded != self.dtype) {
                return Ok(None);
            }
            Ok(Matrix::on_device(matrix, self.dtype, &self.device)?)
        }
        #[cfg(not(feature = "cuda"))]
        {
            let _ = matrix;
            Ok(None)
        }
    }

    /// A stored matrix with the rounding of these weights.
    fn rounded(&self, matrix: Arc<dyn StoredMatrix>) -> Result<Matrix> {
        let matrix = Matrix::from(matrix);
        Ok(match self.rounded {
            Some(dtype) => matrix.rounded_to(dtype)?,
            None => matrix,
        })
    }

    fn mark(&self, name: String) {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner).insert(name);
    }

    /// Loads a tensor and checks its shape.
    pub fn tensor(&self, name: &str, shape: &[usize]) -> Result<Tensor> {
        let full = self.checked(name, shape)?;
        let tensor = self.source.load(&full, &self.device)?;
        if !matches!(tensor.dtype(), DType::F64 | DType::F32 | DType::BF16 | DType::F16 | DType::F8E4M3) {
            return Err(quantised_weight(&full, Some(&format!("{:?}", tensor.dtype()))));
        }
        self.mark(full);
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
            return quantised_weight(&self.full(other), None);
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
        let weight = below.layer("weight", [output, input])?;
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
    pub fn head(&self, name: &str, embedding: impl Into<Matrix>, tied: bool) -> Result<Linear> {
        let embedding = embedding.into();
        if tied {
            return Ok(Linear::new(embedding, None)?);
        }
        let (vocabulary, width) = embedding.shape()?;
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

/// The type of floats that are computed with as they are.
fn float_type(dtype: DType) -> Option<FloatType> {
    match dtype {
        DType::F32 => Some(FloatType::F32),
        DType::BF16 => Some(FloatType::BF16),
        DType::F16 => Some(FloatType::F16),
        DType::F8E4M3 => Some(FloatType::F8E4M3),
        _ => None,
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
fn quantised_weight(name: &str, dtype: Option<&str>) -> Error {
    let dtype = dtype.map(|dtype| format!(" of the data type {dtype}")).unwrap_or_default();
    Error::Unsupported {
        message: format!(
            "The native engine does not read quantised weights, such as the tensor `{name}`{dtype}"
        ),
        hint: Some(TORCH.into()),
    }
}

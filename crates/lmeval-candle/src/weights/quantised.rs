//! Checkpoints with quantised weights, whose tensors it shows as the weights that they stand for.
//!
//! To add a format, add a file in this folder with a function that collects its layers, and a line to [`collect`]; and a checkpoint that
//! its library writes to `tests/fixtures/quantised`.

mod bitsandbytes;
mod compressed;
mod float8;
mod gptq;
mod mxfp4;
mod torchao;

use std::ops::Range;
use std::sync::Arc;

use candle_core::{DType, Device, Tensor};
use rustc_hash::{FxHashMap, FxHashSet};
use safetensors::Dtype;

use super::{Raw, Source, Stacking};
use crate::config::Config;
use crate::error::{Error, Result, TORCH};
use crate::matrix::{Bytes, FloatType, Groups, Scales, StoredMatrix, expand_all};

/// Tensors of activations and caches, which do not matter for weights.
const OF_ACTIVATIONS: [&str; 8] = [
    "input_scale",
    "input_zero_point",
    "input_global_scale",
    "output_scale",
    "activation_scale",
    "k_scale",
    "v_scale",
    "q_scale",
];

/// A checkpoint with quantised weights.
pub struct Quantised {
    base: Arc<dyn Source>,
    /// Weights by the names that they have without quantisation.
    layers: FxHashMap<String, Layer>,
    /// The stored tensors that they consist of.
    parts: FxHashSet<String>,
    note: Option<String>,
}

/// A quantised weight.
enum Layer {
    Matrix(Arc<dyn StoredMatrix>),
    /// The transposes of several matrices, `[matrices, columns, rows]`.
    Stacked(Vec<Arc<dyn StoredMatrix>>),
}

impl Quantised {
    /// Shows the weights of a checkpoint with this `quantization_config`.
    pub fn open(base: Arc<dyn Source>, config: &Config) -> Result<Self> {
        let mut found = Found {
            base: base.as_ref(),
            layers: FxHashMap::default(),
            parts: FxHashSet::default(),
            note: None,
        };
        collect(&mut found, config)?;
        found.check()?;
        let Found { layers, parts, note, .. } = found;
        Ok(Self { base, layers, parts, note })
    }

    /// What a user should know about its numbers.
    pub fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }
}

/// The method of a `quantization_config`.
fn method(config: &Config) -> Result<&str> {
    Ok(config.string("quant_method")?.unwrap_or("unknown"))
}

/// Refuses a `quantization_config` of a method that is not supported, before anything is opened.
pub(crate) fn check_method(config: &Config) -> Result<()> {
    let known = [
        "awq",
        "auto-round",
        "bitsandbytes",
        "compressed-tensors",
        "fbgemm_fp8",
        "fp8",
        "gptq",
        "mxfp4",
        "torchao",
    ];
    let method = method(config)?;
    if known.contains(&method) {
        return Ok(());
    }
    Err(unsupported(&format!("`quant_method` `{method}`")))
}

/// Collects all layers.
fn collect(found: &mut Found<'_>, config: &Config) -> Result<()> {
    check_method(config)?;
    match method(config)? {
        "awq" => gptq::collect_awq(found, config),
        "auto-round" => gptq::collect_auto_round(found, config),
        "bitsandbytes" => bitsandbytes::collect(found),
        "compressed-tensors" => compressed::collect(found, config),
        "fp8" => float8::collect_blocks(found, config),
        "fbgemm_fp8" => float8::collect_rows(found),
        "mxfp4" => mxfp4::collect(found),
        "torchao" => torchao::collect(found, config),
        _ => gptq::collect(found, config),
    }
}

/// The error of a format that torch may run.
fn unsupported(what: &str) -> Error {
    Error::Unsupported {
        message: format!("The native engine does not read quantised weights with {what}"),
        hint: Some(TORCH.into()),
    }
}

/// What has been found of a checkpoint.
struct Found<'a> {
    base: &'a dyn Source,
    layers: FxHashMap<String, Layer>,
    parts: FxHashSet<String>,
    note: Option<String>,
}

impl Found<'_> {
    /// The modules that have a tensor of this name, sorted.
    fn modules(&self, part: &str) -> Vec<String> {
        let end = format!(".{part}");
        let mut modules: Vec<String> =
            self.base.names().iter().filter_map(|name| name.strip_suffix(&end)).map(str::to_owned).collect();
        modules.sort_unstable();
        modules
    }

    /// A part of a module, if it has it.
    fn optional(&mut self, module: &str, part: &str) -> Option<Raw> {
        let name = format!("{module}.{part}");
        let raw = self.base.raw(&name)?;
        self.parts.insert(name);
        Some(raw)
    }

    /// A part of a module.
    fn part(&mut self, module: &str, part: &str) -> Result<Raw> {
        self.optional(module, part).ok_or_else(|| Error::MissingWeight(format!("{module}.{part}")))
    }

    /// Adds a module's weight; `None` is one whose parts do not fit together.
    fn add(&mut self, module: &str, matrix: Option<impl StoredMatrix + 'static>) -> Result<()> {
        let Some(matrix) = matrix else { return Err(misfit(module)) };
        for part in OF_ACTIVATIONS {
            let _ = self.optional(module, part);
        }
        self.layers.insert(format!("{module}.weight"), Layer::Matrix(Arc::new(matrix)));
        Ok(())
    }

    /// Notes that the original computes with quantised activations.
    fn note_activations(&mut self) {
        self.note.get_or_insert_with(|| {
            "The checkpoint was made for quantised activations. Here they are not quantised, so scores differ a little from those of \
             engines that quantise them"
                .to_owned()
        });
    }

    /// Refuses a quantised layer with a tensor that nothing has used, which may change its numbers.
    fn check(&self) -> Result<()> {
        if self.layers.is_empty() {
            return Err(unsupported("no tensor of the format that `quantization_config` names"));
        }
        let mut names = self.base.names();
        names.sort_unstable();
        let is_known = |name: &str| {
            self.parts.contains(name) || name.rsplit('.').next().is_some_and(|part| part == "bias")
        };
        let is_of_layer = |name: &str| {
            let modules = name.match_indices('.').map(|(end, _)| &name[..end]);
            modules.into_iter().any(|module| self.layers.contains_key(&format!("{module}.weight")))
        };
        let unknown = names.iter().find(|name| is_of_layer(name) && !is_known(name));
        unknown.map_or(Ok(()), |name| Err(unsupported(&format!("the tensor `{name}`"))))
    }
}

/// The error of a layer whose tensors do not fit together.
fn misfit(module: &str) -> Error {
    unsupported(&format!("shapes like those of the tensors of `{module}`"))
}

/// The type of floats, or of powers of two that are stored as integers.
fn float_type(dtype: Dtype) -> Option<FloatType> {
    match dtype {
        Dtype::F32 => Some(FloatType::F32),
        Dtype::F16 => Some(FloatType::F16),
        Dtype::BF16 => Some(FloatType::BF16),
        Dtype::F8_E4M3 => Some(FloatType::F8E4M3),
        Dtype::F8_E8M0 | Dtype::U8 => Some(FloatType::E8M0),
        _ => None,
    }
}

/// Scales in these groups.
fn scales(raw: &Raw, groups: Groups) -> Option<Scales> {
    Some(Scales { dtype: float_type(raw.dtype)?, bytes: raw.shared(), factor: 1.0, zeros: None, groups })
}

/// One scale for a matrix, one per row, or one per group of a row, as the shape of the scales says.
fn by_shape(shape: &[usize], (rows, columns): (usize, usize)) -> Option<Groups> {
    match *shape {
        [] | [1] | [1, 1] => Some(Groups::Blocks { rows, columns }),
        [count] if count == rows => Some(Groups::Blocks { rows: 1, columns }),
        [count, groups] if count == rows && groups > 0 && columns.is_multiple_of(groups) => {
            Some(Groups::Blocks { rows: 1, columns: columns / groups })
        }
        _ => None,
    }
}

/// The two sizes of a matrix.
fn sizes(raw: &Raw) -> Option<(usize, usize)> {
    match *raw.shape.as_slice() {
        [rows, columns] => Some((rows, columns)),
        _ => None,
    }
}

/// 32-bit integers of a tensor.
fn integers(raw: &Raw) -> Option<Vec<i32>> {
    let bytes = raw.bytes.as_ref();
    match raw.dtype {
        Dtype::I32 => Some(bytes.as_chunks().0.iter().map(|bytes| i32::from_le_bytes(*bytes)).collect()),
        Dtype::I64 => {
            bytes.as_chunks().0.iter().map(|bytes| i32::try_from(i64::from_le_bytes(*bytes)).ok()).collect()
        }
        _ => None,
    }
}

/// A part of shared bytes.
#[derive(Clone)]
struct Part {
    bytes: Bytes,
    range: Range<usize>,
}

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        &self.bytes.as_ref().as_ref()[self.range.clone()]
    }
}

impl Source for Quantised {
    fn shape(&self, name: &str) -> Option<Vec<usize>> {
        match self.layers.get(name) {
            Some(Layer::Matrix(matrix)) => Some(vec![matrix.shape().0, matrix.shape().1]),
            Some(Layer::Stacked(matrices)) => {
                let (rows, columns) = matrices.first()?.shape();
                Some(vec![matrices.len(), columns, rows])
            }
            None if self.parts.contains(name) => None,
            None => self.base.shape(name),
        }
    }

    fn load(&self, name: &str, device: &Device) -> Result<Tensor> {
        match self.layers.get(name) {
            Some(Layer::Matrix(matrix)) => Ok(expand_all(matrix.as_ref())?.to_device(device)?),
            Some(Layer::Stacked(matrices)) => {
                let all = matrices.iter().map(|matrix| expand_all(matrix.as_ref())?.t()?.contiguous());
                let all = all.collect::<candle_core::Result<Vec<_>>>()?;
                Ok(Tensor::stack(&all, 0)?.to_device(device)?)
            }
            None => self.base.load(name, device),
        }
    }

    fn stored_matrix(&self, name: &str) -> Result<Option<Arc<dyn StoredMatrix>>> {
        match self.layers.get(name) {
            Some(Layer::Matrix(matrix)) => Ok(Some(Arc::clone(matrix))),
            Some(Layer::Stacked(_)) => Ok(None),
            None => self.base.stored_matrix(name),
        }
    }

    fn stacked(&self, name: &str, stacking: Stacking) -> Result<Option<Vec<Arc<dyn StoredMatrix>>>> {
        match self.layers.get(name) {
            Some(Layer::Stacked(matrices)) if stacking == Stacking::Transposes => Ok(Some(matrices.clone())),
            Some(_) => Ok(None),
            None => self.base.stacked(name, stacking),
        }
    }

    fn names(&self) -> Vec<String> {
        let plain = self.base.names().into_iter().filter(|name| !self.parts.contains(name));
        plain.chain(self.layers.keys().cloned()).collect()
    }

    fn stored(&self) -> DType {
        // Most bytes are of codes: the type of the computation is that of the other tensors.
        let mut sizes: FxHashMap<DType, usize> = FxHashMap::default();
        for name in self.base.names().iter().filter(|name| !self.parts.contains(*name)) {
            let Some(raw) = self.base.raw(name) else { continue };
            if let Ok(dtype @ (DType::F32 | DType::BF16 | DType::F16)) = DType::try_from(raw.dtype) {
                *sizes.entry(dtype).or_default() += raw.bytes.as_ref().len();
            }
        }
        let largest = sizes.into_iter().max_by_key(|(dtype, size)| (*size, dtype.as_str()));
        largest.map_or(DType::F32, |(dtype, _)| dtype)
    }
}

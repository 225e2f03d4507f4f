//! Weights in safetensors files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use candle_core::{DType, Device, Tensor};
use rustc_hash::FxHashMap;
use safetensors::tensor::{Dtype, Metadata};

use super::folder::SAFETENSORS;
use super::mapped::{Mapped, MappedBytes};
use super::{Raw, Source, Stacking, float_type, in_two_shards, quantised_weight};
use crate::error::{Error, Result};
use crate::matrix::{Floats, StoredMatrix, TransposedFloats};

/// Weights in one or several memory-mapped safetensors files.
pub struct Safetensors {
    files: Vec<Arc<Mapped>>,
    /// Tensor locations by name.
    tensors: FxHashMap<String, TensorLocation>,
}

struct TensorLocation {
    file: usize,
    /// The stored data type; tensors of some can only be used as bytes.
    dtype: Result<DType, Dtype>,
    stored: Dtype,
    shape: Vec<usize>,
    start: usize,
    end: usize,
}

impl Safetensors {
    /// Opens `model.safetensors` of a folder, or the shards of its index.
    pub fn from_folder(folder: &Path) -> Result<Self> {
        let opened = Self::open(&Self::files_of(folder)?)?;
        SAFETENSORS.check_index(folder, |name| opened.tensors.contains_key(name))?;
        Ok(opened)
    }

    /// The weight files of a folder.
    pub fn files_of(folder: &Path) -> Result<Vec<PathBuf>> {
        SAFETENSORS.files(folder)
    }

    /// Opens files and validates their headers and lengths.
    pub fn open(paths: &[PathBuf]) -> Result<Self> {
        let mut files = Vec::new();
        let mut tensors: FxHashMap<String, TensorLocation> = FxHashMap::default();
        for path in paths {
            let file = Mapped::open(path)?;
            let bytes = &file.bytes;
            let broken = |problem: String| Error::file(path, problem);
            let (header, metadata) = safetensors::SafeTensors::read_metadata(bytes).map_err(|error| {
                broken(format!("it is not a complete safetensors file ({error}; {} bytes)", bytes.len()))
            })?;
            let described = describe(&metadata, files.len(), header + 8, bytes.len()).map_err(broken)?;
            for (name, location) in described {
                if let Some(other) =
                    tensors.get(&name).filter(|other| !is_same(other, &files, &location, bytes))
                {
                    return Err(broken(in_two_shards(&name, &files[other.file].path)));
                }
                tensors.insert(name, location);
            }
            files.push(Arc::new(file));
        }
        Ok(Self { files, tensors })
    }
}

/// Whether a tensor of an earlier file equals one of this file.
fn is_same(earlier: &TensorLocation, files: &[Arc<Mapped>], own: &TensorLocation, bytes: &[u8]) -> bool {
    let same_kind = earlier.dtype == own.dtype && earlier.shape == own.shape;
    same_kind && files[earlier.file].bytes.get(earlier.start..earlier.end) == bytes.get(own.start..own.end)
}

/// The tensors of a file.
fn describe(
    metadata: &Metadata,
    file: usize,
    data: usize,
    length: usize,
) -> Result<Vec<(String, TensorLocation)>, String> {
    let mut tensors = Vec::new();
    for (name, info) in metadata.tensors() {
        let dtype = DType::try_from(info.dtype).map_err(|_| info.dtype);
        let (start, end) = (data + info.data_offsets.0, data + info.data_offsets.1);
        let bits = info.shape.iter().fold(info.dtype.bitsize(), |bits, size| bits.saturating_mul(*size));
        let size = bits.div_ceil(8);
        if end > length || end - start != size {
            return Err(format!("the tensor `{name}` does not have {size} bytes, as its shape requires"));
        }
        tensors.push((
            name,
            TensorLocation { file, dtype, stored: info.dtype, shape: info.shape.clone(), start, end },
        ));
    }
    Ok(tensors)
}

impl Source for Safetensors {
    fn shape(&self, name: &str) -> Option<Vec<usize>> {
        self.tensors.get(name).map(|location| location.shape.clone())
    }

    fn load(&self, name: &str, device: &Device) -> Result<Tensor> {
        let location = self.tensors.get(name).ok_or_else(|| Error::MissingWeight(name.to_owned()))?;
        let file = &self.files[location.file];
        let bytes = file.bytes.get(location.start..location.end);
        let bytes =
            bytes.ok_or_else(|| Error::file(&file.path, format!("the tensor `{name}` is truncated")))?;
        let dtype = location.dtype.map_err(|stored| quantised_weight(name, Some(&format!("{stored:?}"))))?;
        #[cfg(feature = "cuda")]
        if let Some(tensor) = crate::cuda::upload(bytes, dtype, &location.shape, device)? {
            return Ok(tensor);
        }
        Ok(Tensor::from_raw_buffer(bytes, dtype, &location.shape, device)?)
    }

    fn stored_matrix(&self, name: &str) -> Result<Option<Arc<dyn StoredMatrix>>> {
        let Some(location) = self.tensors.get(name) else { return Ok(None) };
        let (&[rows, columns], Ok(dtype)) = (location.shape.as_slice(), location.dtype) else {
            return Ok(None);
        };
        let Some(dtype) = float_type(dtype) else { return Ok(None) };
        let bytes = MappedBytes::new(&self.files[location.file], location.start..location.end);
        Ok(Some(Arc::new(Floats::new(bytes, dtype, (rows, columns)))))
    }

    fn stacked(&self, name: &str, stacking: Stacking) -> Result<Option<Vec<Arc<dyn StoredMatrix>>>> {
        let Some(location) = self.tensors.get(name) else { return Ok(None) };
        let (count, height, width) = match *location.shape.as_slice() {
            [height, width] => (1, height, width),
            [count, height, width] => (count, height, width),
            _ => return Ok(None),
        };
        let Some(dtype) = location.dtype.ok().and_then(float_type) else { return Ok(None) };
        let length = height * width * dtype.size();
        let matrix = |index: usize| -> Arc<dyn StoredMatrix> {
            let start = location.start + index * length;
            let bytes = MappedBytes::new(&self.files[location.file], start..start + length);
            match stacking {
                Stacking::Matrices => Arc::new(Floats::new(bytes, dtype, (height, width))),
                Stacking::Transposes => Arc::new(TransposedFloats::new(bytes, dtype, (width, height))),
            }
        };
        Ok(Some((0..count).map(matrix).collect()))
    }

    fn raw(&self, name: &str) -> Option<Raw> {
        let location = self.tensors.get(name)?;
        let bytes = MappedBytes::new(&self.files[location.file], location.start..location.end);
        Some(Raw { bytes, dtype: location.stored, shape: location.shape.clone() })
    }

    fn names(&self) -> Vec<String> {
        self.tensors.keys().cloned().collect()
    }

    fn stored(&self) -> DType {
        let mut sizes: Vec<(DType, usize)> = Vec::new();
        for location in self.tensors.values() {
            let Ok(stored) = location.dtype else { continue };
            let bytes = location.end - location.start;
            match sizes.iter_mut().find(|(dtype, _)| *dtype == stored) {
                Some((_, size)) => *size += bytes,
                None => sizes.push((stored, bytes)),
            }
        }
        sizes.into_iter().max_by_key(|(_, size)| *size).map_or(DType::F32, |(dtype, _)| dtype)
    }
}

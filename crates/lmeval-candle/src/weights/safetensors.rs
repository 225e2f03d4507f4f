//! Weights in safetensors files.

use std::path::{Path, PathBuf};

use candle_core::{DType, Device, Tensor};
use rustc_hash::FxHashMap;
use safetensors::tensor::Metadata;

use super::Source;
use super::folder::SAFETENSORS;
use super::mapped::Mapped;
use crate::error::{Error, Result};

/// Weights in one or several memory-mapped safetensors files.
pub struct Safetensors {
    files: Vec<Mapped>,
    /// Tensor locations by name.
    tensors: FxHashMap<String, TensorLocation>,
}

struct TensorLocation {
    file: usize,
    dtype: DType,
    shape: Vec<usize>,
    start: usize,
    end: usize,
}

impl Safetensors {
    /// Opens `model.safetensors` of a folder, or the shards of its index.
    pub fn from_folder(folder: &Path) -> Result<Self> {
        Self::open(&Self::files_of(folder)?)
    }

    /// The weight files of a folder.
    pub fn files_of(folder: &Path) -> Result<Vec<PathBuf>> {
        SAFETENSORS.files(folder)
    }

    /// Opens files and validates their headers and lengths.
    pub fn open(paths: &[PathBuf]) -> Result<Self> {
        let mut files = Vec::new();
        let mut tensors = FxHashMap::default();
        for path in paths {
            let Mapped { path, bytes } = Mapped::open(path)?;
            let broken = |problem: String| Error::file(&path, problem);
            let (header, metadata) = safetensors::SafeTensors::read_metadata(&bytes).map_err(|error| {
                broken(format!("it is not a complete safetensors file ({error}; {} bytes)", bytes.len()))
            })?;
            describe(&metadata, files.len(), header + 8, bytes.len(), &mut tensors).map_err(broken)?;
            files.push(Mapped { path, bytes });
        }
        Ok(Self { files, tensors })
    }
}

/// Collects the tensors of a file.
fn describe(
    metadata: &Metadata,
    file: usize,
    data: usize,
    length: usize,
    tensors: &mut FxHashMap<String, TensorLocation>,
) -> Result<(), String> {
    for (name, info) in metadata.tensors() {
        let dtype = DType::try_from(info.dtype).map_err(|_| {
            format!("the tensor `{name}` has data type {:?}, which is not supported", info.dtype)
        })?;
        let (start, end) = (data + info.data_offsets.0, data + info.data_offsets.1);
        let size = info.shape.iter().product::<usize>() * dtype.size_in_bytes();
        if end > length || end - start != size {
            return Err(format!("the tensor `{name}` does not have {size} bytes, as its shape requires"));
        }
        tensors.insert(name, TensorLocation { file, dtype, shape: info.shape.clone(), start, end });
    }
    Ok(())
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
        Ok(Tensor::from_raw_buffer(bytes, location.dtype, &location.shape, device)?)
    }

    fn names(&self) -> Vec<String> {
        self.tensors.keys().cloned().collect()
    }

    fn stored(&self) -> DType {
        let mut sizes: Vec<(DType, usize)> = Vec::new();
        for location in self.tensors.values() {
            let bytes = location.end - location.start;
            match sizes.iter_mut().find(|(dtype, _)| *dtype == location.dtype) {
                Some((_, size)) => *size += bytes,
                None => sizes.push((location.dtype, bytes)),
            }
        }
        sizes.into_iter().max_by_key(|(_, size)| *size).map_or(DType::F32, |(dtype, _)| dtype)
    }
}

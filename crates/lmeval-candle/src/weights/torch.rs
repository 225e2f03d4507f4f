//! Weights in files of torch (`pytorch_model.bin`), which are read without running anything in them.

mod pickle;

use std::io::Cursor;
use std::ops::Range;
use std::path::PathBuf;

use candle_core::{DType, Device, Tensor};
use rustc_hash::FxHashMap;
use zip::{CompressionMethod, ZipArchive};

use self::pickle::Described;
use super::Source;
use super::mapped::Mapped;
use crate::error::{Error, Result};

/// Weights in one or several files of torch, mapped into memory.
pub struct TorchFiles {
    files: Vec<Mapped>,
    tensors: FxHashMap<String, Place>,
}

struct Place {
    file: usize,
    dtype: DType,
    shape: Vec<usize>,
    /// How many numbers are between neighbours, for each dimension.
    strides: Vec<usize>,
    /// The bytes from the first number on.
    bytes: Range<usize>,
}

impl TorchFiles {
    /// The weights of files, whose contents are described by pickles.
    pub fn open(paths: &[PathBuf]) -> Result<Self> {
        let mut files = Vec::new();
        let mut tensors = FxHashMap::default();
        for path in paths {
            let file = Mapped::open(path)?;
            describe(&file.bytes, files.len(), &mut tensors).map_err(|problem| Error::file(path, problem))?;
            files.push(file);
        }
        Ok(Self { files, tensors })
    }
}

/// Adds the tensors of a file.
fn describe(bytes: &[u8], file: usize, tensors: &mut FxHashMap<String, Place>) -> Result<(), String> {
    let entries = entries(bytes)?;
    let (place, described) = entries
        .iter()
        .find_map(|(name, range)| Some((name.strip_suffix("data.pkl")?, range)))
        .ok_or("it has no description of tensors (`data.pkl`)")?;
    if let Some(order) = entries.get(&format!("{place}byteorder"))
        && bytes.get(order.clone()) != Some(b"little")
    {
        return Err("its numbers are stored with the highest byte first".into());
    }
    for (name, tensor) in pickle::read(bytes.get(described.clone()).unwrap_or_default())? {
        let Described { dtype, storage, offset, shape, strides } = tensor;
        let range = entries.get(&format!("{place}data/{storage}"));
        let range = range.ok_or_else(|| format!("the numbers of the tensor `{name}` are missing"))?;
        let size = dtype.size_in_bytes();
        let held = (range.end - range.start) / size;
        let count = shape.iter().try_fold(1_usize, |all, size| all.checked_mul(*size));
        // One behind the last number.
        let needed = shape.iter().zip(&strides).try_fold(offset, |end, (size, stride)| {
            end.checked_add(size.saturating_sub(1).checked_mul(*stride)?)
        });
        let needed = match count {
            Some(0) => Some(offset),
            _ => needed.and_then(|last| last.checked_add(1)),
        };
        // A tensor that repeats numbers could be of any size.
        if count.is_none_or(|count| count > held) || needed.is_none_or(|needed| needed > held) {
            return Err(format!(
                "the tensor `{name}` is cut off: its shape is {shape:?}, and {held} numbers are there"
            ));
        }
        let bytes = range.start + offset * size..range.end;
        tensors.insert(name, Place { file, dtype, shape, strides, bytes });
    }
    Ok(())
}

/// Where the files are in an archive. Those of torch are never compressed.
fn entries(bytes: &[u8]) -> Result<FxHashMap<String, Range<usize>>, String> {
    // The first bytes of a pickle of the second version.
    if bytes.starts_with(&[0x80, 2]) {
        return Err(
            "it was written by a torch older than 1.6; `torch.load` and `torch.save` write it anew".into()
        );
    }
    let broken = |error: zip::result::ZipError| format!("it is no complete file of torch ({error})");
    let mut archive = ZipArchive::new(Cursor::new(bytes)).map_err(broken)?;
    let mut entries = FxHashMap::default();
    for index in 0..archive.len() {
        let entry = archive.by_index_raw(index).map_err(broken)?;
        let name = entry.name().map_err(broken)?.into_owned();
        let start = entry.data_start().and_then(|start| usize::try_from(start).ok());
        let end = start.and_then(|start| start.checked_add(usize::try_from(entry.size()).ok()?));
        let (Some(start), Some(end)) = (start, end.filter(|end| *end <= bytes.len())) else {
            return Err(format!("its part `{name}` is cut off"));
        };
        if entry.compression() != CompressionMethod::Stored || entry.encrypted() {
            return Err(format!("its part `{name}` is compressed, which torch does not do"));
        }
        entries.insert(name, start..end);
    }
    Ok(entries)
}

impl Source for TorchFiles {
    fn shape(&self, name: &str) -> Option<Vec<usize>> {
        self.tensors.get(name).map(|place| place.shape.clone())
    }

    fn load(&self, name: &str, device: &Device) -> Result<Tensor> {
        let place = self.tensors.get(name).ok_or_else(|| Error::MissingWeight(name.to_owned()))?;
        let file = &self.files[place.file];
        let cut_off = || Error::file(&file.path, format!("the tensor `{name}` is cut off"));
        let bytes = file.bytes.get(place.bytes.clone()).ok_or_else(cut_off)?;
        let size = place.dtype.size_in_bytes();
        let length = place.shape.iter().product::<usize>() * size;
        if place.strides == contiguous(&place.shape) || length == 0 {
            let bytes = bytes.get(..length).ok_or_else(cut_off)?;
            return Ok(Tensor::from_raw_buffer(bytes, place.dtype, &place.shape, device)?);
        }
        let mut gathered = Vec::with_capacity(length);
        let mut position = vec![0; place.shape.len()];
        while gathered.len() < length {
            let first: usize =
                position.iter().zip(&place.strides).map(|(place, stride)| place * stride * size).sum();
            gathered.extend_from_slice(bytes.get(first..first + size).ok_or_else(cut_off)?);
            for (place, size) in position.iter_mut().zip(&place.shape).rev() {
                *place += 1;
                if *place < *size {
                    break;
                }
                *place = 0;
            }
        }
        Ok(Tensor::from_raw_buffer(&gathered, place.dtype, &place.shape, device)?)
    }

    fn names(&self) -> Vec<String> {
        self.tensors.keys().cloned().collect()
    }

    fn stored(&self) -> DType {
        let mut sizes: FxHashMap<DType, usize> = FxHashMap::default();
        for place in self.tensors.values() {
            *sizes.entry(place.dtype).or_default() +=
                place.shape.iter().product::<usize>() * place.dtype.size_in_bytes();
        }
        let largest = sizes.into_iter().max_by_key(|(dtype, size)| (*size, dtype.as_str()));
        largest.map_or(DType::F32, |(dtype, _)| dtype)
    }
}

/// The strides of a tensor without gaps, whose last numbers are neighbours.
fn contiguous(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; shape.len()];
    for index in (1..shape.len()).rev() {
        strides[index - 1] = strides[index] * shape[index];
    }
    strides
}

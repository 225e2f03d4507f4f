//! Weights in PyTorch files (`pytorch_model.bin`), read without executing their pickles.

mod pickle;

use std::io::Cursor;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use candle_core::{DType, Device, Tensor};
use rustc_hash::FxHashMap;
use safetensors::Dtype;
use zip::{CompressionMethod, ZipArchive};

use self::pickle::Described;
use super::mapped::{Mapped, MappedBytes};
use super::{Raw, Source, float_type, in_two_shards};
use crate::error::{Error, Result};
use crate::matrix::{Floats, StoredMatrix};

/// Weights in one or several memory-mapped PyTorch files.
pub struct TorchFiles {
    files: Vec<Arc<Mapped>>,
    tensors: FxHashMap<String, TensorLocation>,
}

struct TensorLocation {
    file: usize,
    dtype: DType,
    shape: Vec<usize>,
    /// Strides in elements.
    strides: Vec<usize>,
    /// The byte range from the first element.
    bytes: Range<usize>,
}

impl TensorLocation {
    /// Whether a tensor has the numbers of another one in another file. Only contiguous ones are compared.
    fn is_copy_of(&self, other: &Self, own_file: &[u8], other_file: &[u8]) -> bool {
        let length = self.shape.iter().product::<usize>() * self.dtype.size_in_bytes();
        self.dtype == other.dtype
            && self.shape == other.shape
            && [self, other].iter().all(|location| location.strides == contiguous(&location.shape))
            && self.first_bytes(own_file, length) == other.first_bytes(other_file, length)
    }

    fn first_bytes<'f>(&self, file: &'f [u8], length: usize) -> Option<&'f [u8]> {
        file.get(self.bytes.clone())?.get(..length)
    }
}

impl TorchFiles {
    /// Opens files and validates their pickles.
    pub fn open(paths: &[PathBuf]) -> Result<Self> {
        let mut files: Vec<Arc<Mapped>> = Vec::new();
        let mut tensors: FxHashMap<String, TensorLocation> = FxHashMap::default();
        for path in paths {
            let file = Mapped::open(path)?;
            let broken = |problem: String| Error::file(path, problem);
            let mut own = FxHashMap::default();
            describe(&file.bytes, files.len(), &mut own).map_err(broken)?;
            for (name, location) in own {
                if let Some(other) = tensors.get(&name)
                    && !location.is_copy_of(other, &file.bytes, &files[other.file].bytes)
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

/// Collects the tensors of a file.
fn describe(
    bytes: &[u8],
    file: usize,
    tensors: &mut FxHashMap<String, TensorLocation>,
) -> Result<(), String> {
    let entries = entries(bytes)?;
    let mut descriptions = entries.iter().filter_map(|(name, range)| {
        let root = name.strip_suffix("/data.pkl").filter(|root| !root.contains('/'))?;
        Some((root, range))
    });
    let (root, described) = descriptions.next().ok_or("it has no `data.pkl`")?;
    if descriptions.next().is_some() {
        return Err("it has several `data.pkl`".into());
    }
    if let Some(order) = entries.get(&format!("{root}/byteorder"))
        && bytes.get(order.clone()) != Some(b"little")
    {
        return Err("it is big-endian".into());
    }
    for (name, tensor) in pickle::read(bytes.get(described.clone()).unwrap_or_default())? {
        let Described { dtype, storage, offset, shape, strides } = tensor.as_ref();
        let (dtype, offset) = (*dtype, *offset);
        let range = entries.get(&format!("{root}/data/{storage}"));
        let range = range.ok_or_else(|| format!("the data of the tensor `{name}` is missing"))?;
        let size = dtype.size_in_bytes();
        let held = (range.end - range.start) / size;
        let count = shape.iter().try_fold(1_usize, |all, size| all.checked_mul(*size));
        // The offset after the last element.
        let needed = shape.iter().zip(strides).try_fold(offset, |end, (size, stride)| {
            end.checked_add(size.saturating_sub(1).checked_mul(*stride)?)
        });
        let needed = match count {
            Some(0) => Some(offset),
            _ => needed.and_then(|last| last.checked_add(1)),
        };
        // A tensor that repeats elements could have any size.
        if needed.is_some_and(|needed| needed <= held) && count.is_none_or(|count| count > held) {
            return Err(format!(
                "the tensor `{name}` of shape {shape:?} repeats its {held} stored elements; \
                 `.contiguous()` before `torch.save` writes them all"
            ));
        }
        if count.is_none_or(|count| count > held) || needed.is_none_or(|needed| needed > held) {
            return Err(format!(
                "the tensor `{name}` is truncated: its shape is {shape:?}, but only {held} elements are stored"
            ));
        }
        let bytes = range.start + offset * size..range.end;
        let location = TensorLocation { file, dtype, shape: shape.clone(), strides: strides.clone(), bytes };
        tensors.insert(name.as_ref().to_owned(), location);
    }
    Ok(())
}

/// The byte ranges of an archive's files, which PyTorch never compresses.
fn entries(bytes: &[u8]) -> Result<FxHashMap<String, Range<usize>>, String> {
    // The first bytes of a protocol 2 pickle.
    if bytes.starts_with(&[0x80, 2]) {
        return Err(
            "it was written by a PyTorch older than 1.6; convert it with `torch.load` and `torch.save`"
                .into(),
        );
    }
    let broken = |error: zip::result::ZipError| format!("it is not a complete PyTorch file ({error})");
    let mut archive = ZipArchive::new(Cursor::new(bytes)).map_err(broken)?;
    let mut entries = FxHashMap::default();
    for index in 0..archive.len() {
        let entry = archive.by_index_raw(index).map_err(broken)?;
        let name = entry.name().map_err(broken)?.into_owned();
        if entry.compression() != CompressionMethod::Stored || entry.encrypted() {
            return Err(format!("its file `{name}` is compressed, which PyTorch never does"));
        }
        let start = entry.data_start().and_then(|start| usize::try_from(start).ok());
        let end = start.and_then(|start| start.checked_add(usize::try_from(entry.size()).ok()?));
        let (Some(start), Some(end)) = (start, end.filter(|end| *end <= bytes.len())) else {
            return Err(format!("its file `{name}` is truncated"));
        };
        entries.insert(name, start..end);
    }
    Ok(entries)
}

impl Source for TorchFiles {
    fn shape(&self, name: &str) -> Option<Vec<usize>> {
        self.tensors.get(name).map(|location| location.shape.clone())
    }

    fn load(&self, name: &str, device: &Device) -> Result<Tensor> {
        let location = self.tensors.get(name).ok_or_else(|| Error::MissingWeight(name.to_owned()))?;
        let file = &self.files[location.file];
        let cut_off = || Error::file(&file.path, format!("the tensor `{name}` is truncated"));
        let bytes = file.bytes.get(location.bytes.clone()).ok_or_else(cut_off)?;
        let size = location.dtype.size_in_bytes();
        let length = location.shape.iter().product::<usize>() * size;
        if location.strides == contiguous(&location.shape) || length == 0 {
            let bytes = bytes.get(..length).ok_or_else(cut_off)?;
            return Ok(Tensor::from_raw_buffer(bytes, location.dtype, &location.shape, device)?);
        }
        let mut gathered = Vec::with_capacity(length);
        let mut position = vec![0; location.shape.len()];
        while gathered.len() < length {
            let first: usize =
                position.iter().zip(&location.strides).map(|(index, stride)| index * stride * size).sum();
            gathered.extend_from_slice(bytes.get(first..first + size).ok_or_else(cut_off)?);
            for (index, size) in position.iter_mut().zip(&location.shape).rev() {
                *index += 1;
                if *index < *size {
                    break;
                }
                *index = 0;
            }
        }
        Ok(Tensor::from_raw_buffer(&gathered, location.dtype, &location.shape, device)?)
    }

    fn stored_matrix(&self, name: &str) -> Result<Option<Arc<dyn StoredMatrix>>> {
        let Some(location) = self.tensors.get(name) else { return Ok(None) };
        let (&[rows, columns], Some(dtype)) = (location.shape.as_slice(), float_type(location.dtype)) else {
            return Ok(None);
        };
        if location.strides != contiguous(&location.shape) {
            return Ok(None);
        }
        let start = location.bytes.start;
        let bytes = start..start + rows * columns * dtype.size();
        let bytes = MappedBytes::new(&self.files[location.file], bytes);
        Ok(Some(Arc::new(Floats::new(bytes, dtype, (rows, columns)))))
    }

    fn raw(&self, name: &str) -> Option<Raw> {
        let location = self.tensors.get(name)?;
        if location.strides != contiguous(&location.shape) {
            return None;
        }
        let dtype = match location.dtype {
            DType::U8 => Dtype::U8,
            DType::I32 => Dtype::I32,
            DType::I64 => Dtype::I64,
            DType::F16 => Dtype::F16,
            DType::BF16 => Dtype::BF16,
            DType::F32 => Dtype::F32,
            _ => return None,
        };
        let length = location.shape.iter().product::<usize>() * location.dtype.size_in_bytes();
        let bytes =
            MappedBytes::new(&self.files[location.file], location.bytes.start..location.bytes.start + length);
        Some(Raw { bytes, dtype, shape: location.shape.clone() })
    }

    fn names(&self) -> Vec<String> {
        self.tensors.keys().cloned().collect()
    }

    fn stored(&self) -> DType {
        let mut sizes: FxHashMap<DType, usize> = FxHashMap::default();
        for location in self.tensors.values() {
            *sizes.entry(location.dtype).or_default() +=
                location.shape.iter().product::<usize>() * location.dtype.size_in_bytes();
        }
        let largest = sizes.into_iter().max_by_key(|(dtype, size)| (*size, dtype.as_str()));
        largest.map_or(DType::F32, |(dtype, _)| dtype)
    }
}

/// The strides of a contiguous tensor in row-major order.
fn contiguous(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1_usize; shape.len()];
    for index in (1..shape.len()).rev() {
        // The sizes of an empty tensor are arbitrary.
        strides[index - 1] = strides[index].saturating_mul(shape[index]);
    }
    strides
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use zip::ZipWriter;
    use zip::write::SimpleFileOptions;

    use super::*;

    /// A zip archive of these files.
    fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
        let options = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
        for (name, content) in files {
            writer.start_file(*name, options).unwrap();
            writer.write_all(content).unwrap();
        }
        writer.finish().unwrap().into_inner()
    }

    /// A pickled dictionary with the two-dimensional tensor `w` over four 32-bit elements.
    fn pickle(shape: [u8; 2], strides: [u8; 2]) -> Vec<u8> {
        let [(rows, columns), (row, column)] = [shape, strides].map(|[first, second]| (first, second));
        [
            b"\x80\x02}(X\x01\0\0\0wctorch._utils\n_rebuild_tensor_v2\n((K\x00ctorch\nFloatStorage\n"
                .as_slice(),
            b"X\x01\0\0\x000K\x00K\x04tQK\x00",
            &[b'K', rows, b'K', columns, 0x86, b'K', row, b'K', column, 0x86],
            b"\x89NtRu.",
        ]
        .concat()
    }

    fn described(archive: &[u8]) -> Result<FxHashMap<String, TensorLocation>, String> {
        let mut tensors = FxHashMap::default();
        describe(archive, 0, &mut tensors).map(|()| tensors)
    }

    #[test]
    fn validates_archives() {
        let numbers = [0; 16];
        let with = |pickle: &[u8]| archive(&[("m/data.pkl", pickle), ("m/data/0", &numbers)]);
        let usual = pickle([2, 2], [2, 1]);
        assert_eq!(described(&with(&usual)).unwrap()["w"].shape, [2, 2]);
        let other = archive(&[("m/data.pkl", &usual), ("m/data/0", &numbers), ("m/x/data.pkl", b"x")]);
        assert!(described(&other).is_ok());
        let two = archive(&[("m/data.pkl", &usual), ("n/data.pkl", &usual), ("m/data/0", &numbers)]);
        let mut compressed = with(&usual);
        for (mark, offset) in [(b"PK\x03\x04", 8), (b"PK\x01\x02", 10)] {
            let first = compressed.windows(4).position(|bytes| bytes == mark).unwrap();
            compressed[first + offset] = 8;
        }
        for (archive, expected) in [
            (two, "several `data.pkl`"),
            (archive(&[("data.pkl", &usual)]), "no `data.pkl`"),
            (archive(&[("m/data.pkl", &usual)]), "data of the tensor `w` is missing"),
            (with(&pickle([8, 8], [0, 0])), "repeats its 4 stored elements"),
            (with(&pickle([8, 8], [8, 1])), "is truncated"),
            (compressed, "`m/data.pkl` is compressed"),
        ] {
            let found = described(&archive).err().unwrap();
            assert!(found.contains(expected), "{found}");
        }
        assert_eq!(contiguous(&[0, usize::MAX, usize::MAX]), [usize::MAX, usize::MAX, 1]);
    }
}

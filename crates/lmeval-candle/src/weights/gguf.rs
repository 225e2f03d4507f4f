//! Weights in a GGUF file, dequantised when loaded.

mod config;
mod entries;
mod header;
mod layout;
mod vocabulary;

use std::io::{BufReader, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use candle_core::quantized::ggml_file::qtensor_from_ggml;
use candle_core::{DType, Device, Tensor};
use rustc_hash::{FxHashMap, FxHashSet};

use self::header::{Entry, Header, Stored};
use self::layout::{Change, Layout};
use super::Source;
use crate::error::{Error, Result};

/// Tensors that are not weights: factors of rotary embeddings.
const ROTARY: [&str; 3] = ["rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"];

/// The maximum number of weights in a file, counting each expert's matrix.
const MAX_WEIGHTS: usize = 1 << 20;
/// The alignment of quantised blocks in memory.
const ALIGNMENT: usize = 16;

/// An open GGUF file.
pub struct Gguf {
    path: PathBuf,
    header: Header,
    file: Mutex<std::fs::File>,
    architecture: String,
    layout: &'static Layout,
    /// Weights by checkpoint name.
    parts: FxHashMap<String, StoredWeight>,
    /// The names of loaded weights.
    loaded: Mutex<FxHashSet<String>>,
}

/// A weight: a stored tensor, or one expert's matrix in it.
struct StoredWeight {
    stored: String,
    change: Change,
    /// The index of the expert and the number of experts.
    expert: Option<(usize, usize)>,
    shape: Vec<usize>,
}

impl Gguf {
    /// Opens a file and validates its metadata and tensors.
    pub fn open(path: &Path) -> Result<Self> {
        let broken = |problem: String| Error::file(path, problem);
        let file = fs_err::File::open(path).map_err(|error| broken(error.to_string()))?;
        let length = file.metadata().map_err(|error| broken(error.to_string()))?.len();
        let mut file = file.into_parts().0;
        let header = Header::read(BufReader::new(&mut file), length).map_err(broken)?;
        let Some(Entry::String(architecture)) = header.entries.get("general.architecture") else {
            return Err(broken("it has no `general.architecture`".into()));
        };
        let architecture = architecture.clone();
        if let Some(Entry::Whole(count)) = header.entries.get("split.count")
            && *count > 1
        {
            return Err(broken(format!(
                "it is one of {count} shards; merge them with `llama-gguf-split --merge`"
            )));
        }
        let Some(layout) = Layout::find(&architecture, |name| header.tensors.contains_key(name)) else {
            return Err(Error::Unsupported {
                message: format!("GGUF files of the architecture `{architecture}` are not supported"),
                hint: Some(format!(
                    "Supported architectures: `{}`; others load from safetensors",
                    layout::architectures().join("`, `")
                )),
            });
        };
        let experts = match header.entries.get(&format!("{architecture}.expert_count")) {
            Some(Entry::Whole(count)) => usize::try_from(*count).unwrap_or_default(),
            _ => 0,
        };
        let parts = parts(&header, layout, experts).map_err(broken)?;
        Ok(Self {
            path: path.to_owned(),
            header,
            file: Mutex::new(file),
            architecture,
            layout,
            parts,
            loaded: Mutex::default(),
        })
    }

    /// A metadata entry of the architecture.
    fn entry(&self, key: &str) -> Option<&Entry> {
        self.header.entries.get(&format!("{}.{key}", self.architecture))
    }

    fn whole(&self, key: &str) -> Option<i64> {
        match self.entry(key)? {
            Entry::Whole(number) => Some(*number),
            _ => None,
        }
    }

    fn number(&self, key: &str) -> Option<f64> {
        match self.entry(key)? {
            Entry::Number(number) => Some(*number),
            Entry::Whole(number) => Some(*number as f64),
            _ => None,
        }
    }

    fn has(&self, stored: &str) -> bool {
        self.header.tensors.contains_key(stored)
    }

    /// Reads a stored tensor, or one of `count` matrices in it.
    fn read(&self, name: &str, part: Option<(usize, usize)>) -> Result<Tensor> {
        let broken =
            |problem: String| Error::file(&self.path, format!("cannot read the tensor `{name}` ({problem})"));
        let stored = self.header.tensors.get(name).ok_or_else(|| Error::MissingWeight(name.to_owned()))?;
        let Stored { dtype, shape, start, bytes } = stored;
        let (start, bytes, shape) = match part {
            Some((index, count)) => {
                let own = bytes / count;
                (start + (index * own) as u64, own, shape[1..].to_vec())
            }
            None => (*start, *bytes, shape.clone()),
        };
        // Blocks are read in place and must be aligned.
        let mut room = vec![0_u8; bytes.saturating_add(ALIGNMENT)];
        let first = room.as_ptr().align_offset(ALIGNMENT);
        let raw = first.checked_add(bytes).and_then(|end| room.get_mut(first..end));
        let raw = raw.ok_or_else(|| broken("not enough memory".into()))?;
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.seek(SeekFrom::Start(start)).map_err(|error| broken(error.to_string()))?;
        file.read_exact(raw).map_err(|error| broken(error.to_string()))?;
        drop(file);
        let tensor = qtensor_from_ggml(*dtype, raw, shape, &Device::Cpu);
        let tensor = tensor.and_then(|tensor| tensor.dequantize(&Device::Cpu));
        tensor.map_err(|error| broken(error.to_string()))
    }

    fn heads(&self, key: &str) -> Result<usize> {
        let heads = self.whole(key).and_then(|heads| usize::try_from(heads).ok()).filter(|heads| *heads > 0);
        heads.ok_or_else(|| {
            Error::file(
                &self.path,
                format!("its metadata entry `{}.{key}` is not a positive integer", self.architecture),
            )
        })
    }

    /// The number of query heads and of key/value heads.
    fn all_heads(&self) -> Result<(usize, usize)> {
        let count = self.heads("attention.head_count")?;
        let kv = if self.entry("attention.head_count_kv").is_some() {
            self.heads("attention.head_count_kv")?
        } else {
            count
        };
        Ok((count, kv))
    }
}

/// The weights of a file.
fn parts(
    header: &Header,
    layout: &Layout,
    experts: usize,
) -> Result<FxHashMap<String, StoredWeight>, String> {
    let mut parts = FxHashMap::default();
    for (stored, tensor) in &header.tensors {
        if ROTARY.contains(&stored.as_str()) {
            continue;
        }
        // Omitting a tensor would change answers.
        let Some((own, change)) = layout.own(stored) else {
            return Err(format!(
                "its tensor `{stored}` is not supported for the architecture `{}`",
                layout.architecture
            ));
        };
        let mut add = |own: String, expert, shape| {
            if parts.len() == MAX_WEIGHTS {
                return Err(format!("it has more than {MAX_WEIGHTS} weights"));
            }
            let part = StoredWeight { stored: stored.clone(), change, expert, shape };
            if parts.insert(own, part).is_some() {
                return Err(format!("its tensor `{stored}` also exists under another name"));
            }
            Ok(())
        };
        let shape = &tensor.shape;
        match change {
            Change::Experts => {
                if shape.len() != 3 || shape[0] != experts {
                    return Err(format!(
                        "its tensor `{stored}` has shape {shape:?}, but `{}.expert_count` is {experts}",
                        layout.architecture
                    ));
                }
                for expert in 0..experts {
                    let own = own.replacen('E', &expert.to_string(), 1);
                    add(own, Some((expert, experts)), shape[1..].to_vec())?;
                }
            }
            Change::Transposed => add(own, None, shape.iter().rev().copied().collect())?,
            Change::Row => add(own, None, vec![1, shape.iter().product()])?,
            _ => add(own, None, shape.clone())?,
        }
    }
    Ok(parts)
}

impl Source for Gguf {
    fn shape(&self, name: &str) -> Option<Vec<usize>> {
        self.parts.get(name).map(|part| part.shape.clone())
    }

    fn load(&self, name: &str, device: &Device) -> Result<Tensor> {
        let part = self.parts.get(name).ok_or_else(|| Error::MissingWeight(name.to_owned()))?;
        let tensor = self.read(&part.stored, part.expert)?;
        let tensor = match part.change {
            Change::None | Change::Experts => tensor,
            Change::QueryHalves => halves(&tensor, self.all_heads()?.0)?,
            Change::KeyHalves => halves(&tensor, self.all_heads()?.1)?,
            Change::Transposed => tensor.t()?.contiguous()?,
            Change::Grouped => {
                let (count, kv) = self.all_heads()?;
                grouped(&tensor, count, kv)?
            }
            Change::LessOne => (tensor - 1.0)?,
            Change::Row => tensor.reshape(part.shape.as_slice())?,
        };
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned());
        Ok(tensor.to_device(device)?)
    }

    fn check_loaded(&self) -> Result<()> {
        let loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let left =
            self.parts.iter().filter(|(name, _)| !loaded.contains(*name)).map(|(_, part)| &part.stored);
        // Sorted, so that the same tensor is reported every time.
        left.min().map_or(Ok(()), |stored| {
            let problem = format!(
                "the model described by its metadata does not use the tensor `{stored}`; ignoring it would change answers"
            );
            Err(Error::file(&self.path, problem))
        })
    }

    fn names(&self) -> Vec<String> {
        self.parts.keys().cloned().collect()
    }

    fn stored(&self) -> DType {
        DType::F32
    }
}

/// Reorders rows of queries and keys from adjacent pairs to halves.
fn halves(weight: &Tensor, heads: usize) -> Result<Tensor> {
    let dims = weight.dims().to_vec();
    let width = rows_of(&dims, heads)?;
    if !width.is_multiple_of(2) {
        return Err(wrong_rows(&dims, heads));
    }
    let rest: usize = dims[1..].iter().product();
    let split = weight.reshape((heads, width / 2, 2, rest))?;
    Ok(split.transpose(1, 2)?.contiguous()?.reshape(dims)?)
}

/// Reorders queries, keys and values to be interleaved per group of heads. GGUF files store all queries, then all keys, then all
/// values.
fn grouped(weight: &Tensor, count: usize, kv: usize) -> Result<Tensor> {
    let dims = weight.dims().to_vec();
    let all = kv.checked_mul(2).and_then(|both| both.checked_add(count));
    let width = rows_of(&dims, all.unwrap_or_default())?;
    if !count.is_multiple_of(kv) {
        return Err(wrong_rows(&dims, count));
    }
    let rest: usize = dims[1..].iter().product();
    let part = |first: usize, heads: usize| {
        weight.narrow(0, first * width, heads * width)?.reshape((kv, heads / kv * width, rest))
    };
    let all = Tensor::cat(&[part(0, count)?, part(count, kv)?, part(count + kv, kv)?], 1)?;
    Ok(all.reshape(dims)?)
}

/// The number of rows per head.
fn rows_of(dims: &[usize], heads: usize) -> Result<usize> {
    let rows = dims.first().copied().unwrap_or_default();
    if heads == 0 || rows == 0 || !rows.is_multiple_of(heads) {
        return Err(wrong_rows(dims, heads));
    }
    Ok(rows / heads)
}

fn wrong_rows(dims: &[usize], heads: usize) -> Error {
    Error::unsupported(format!("A tensor of shape {dims:?} does not fit {heads} heads"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(weight: &Tensor) -> Vec<u32> {
        weight.to_vec2::<u32>().unwrap().iter().map(|row| row[0] / 2).collect()
    }

    #[test]
    fn rows_are_put_in_order() {
        let weight = Tensor::arange(0_u32, 16, &Device::Cpu).unwrap().reshape((8, 2)).unwrap();
        assert_eq!(rows(&halves(&weight, 2).unwrap()), [0, 2, 1, 3, 4, 6, 5, 7]);
        // Four query heads in two groups.
        assert_eq!(rows(&grouped(&weight, 4, 2).unwrap()), [0, 1, 4, 6, 2, 3, 5, 7]);
        assert!(
            halves(&weight, 3).is_err() && halves(&weight, 8).is_err() && grouped(&weight, 3, 2).is_err()
        );
        assert!(grouped(&weight, 1, usize::MAX).is_err() && grouped(&weight, 4, usize::MAX / 2).is_err());
    }
}

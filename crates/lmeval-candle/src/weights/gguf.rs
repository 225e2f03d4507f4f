//! Weights in GGUF files. Quantised blocks stay mapped and are converted when they are used.

mod blocks;
mod config;
mod entries;
mod header;
mod layout;
mod shards;
mod vocabulary;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use candle_core::{DType, Device, Tensor};
use rustc_hash::{FxHashMap, FxHashSet};

use self::blocks::Blocks;
use self::header::{Entry, Header, Stored};
use self::layout::{Change, Layout};
use super::mapped::{Mapped, MappedBytes};
use super::{Source, Stacking};
use crate::error::{Error, Result};
use crate::matrix::{Matrix, StoredMatrix};

/// Tensors that are not weights: factors of rotary embeddings.
const ROTARY: [&str; 3] = ["rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"];

/// The maximum number of weights in a file, counting each expert's matrix.
const MAX_WEIGHTS: usize = 1 << 20;

/// An open GGUF file, with its further shards.
pub struct Gguf {
    path: PathBuf,
    shards: Vec<Arc<Mapped>>,
    header: Header,
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
    /// Opens a file, or the first of several shards, and validates metadata and tensors.
    pub fn open(path: &Path) -> Result<Self> {
        let broken = |problem: String| Error::file(path, problem);
        let (shards, header) = shards::open(path)?;
        let Some(Entry::String(architecture)) = header.entries.get("general.architecture") else {
            return Err(broken("it has no `general.architecture`".into()));
        };
        let architecture = architecture.clone();
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
        let path = path.to_owned();
        Ok(Self { path, shards, header, architecture, layout, parts, loaded: Mutex::default() })
    }

    /// The files of all shards.
    pub fn files(&self) -> Vec<PathBuf> {
        self.shards.iter().map(|shard| shard.path.clone()).collect()
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

    /// The weight with a name, which is loaded from now on, and its stored tensor.
    fn part(&self, name: &str) -> Result<(&StoredWeight, &Stored)> {
        let missing = || Error::MissingWeight(name.to_owned());
        let part = self.parts.get(name).ok_or_else(missing)?;
        let stored = self.header.tensors.get(&part.stored).ok_or_else(missing)?;
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned());
        Ok((part, stored))
    }

    /// The numbers of a stored tensor.
    fn numbers(&self, stored: &str) -> Result<Vec<f32>> {
        let missing = || Error::MissingWeight(stored.to_owned());
        let stored = self.header.tensors.get(stored).ok_or_else(missing)?;
        Ok(stored.numbers(self.bytes(stored, None).as_ref()))
    }

    /// The bytes of a stored tensor, or of one of `count` matrices in it.
    fn bytes(&self, stored: &Stored, part: Option<(usize, usize)>) -> MappedBytes {
        let (index, count) = part.unwrap_or((0, 1));
        let own = stored.bytes / count;
        let start = stored.start as usize + index * own;
        MappedBytes::new(&self.shards[stored.shard], start..start + own)
    }

    /// The order in which a change puts stored rows, if it moves any.
    fn order(&self, change: Change, rows: usize) -> Result<Option<Vec<u32>>> {
        Ok(match change {
            Change::QueryHalves => Some(halves(rows, self.all_heads()?.0)?),
            Change::KeyHalves => Some(halves(rows, self.all_heads()?.1)?),
            Change::Grouped => {
                let (count, kv) = self.all_heads()?;
                Some(grouped(rows, count, kv)?)
            }
            Change::None | Change::Experts | Change::Transposed | Change::LessOne | Change::Row => None,
        })
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
        let (part, stored) = self.part(name)?;
        let numbers = stored.numbers(self.bytes(stored, part.expert).as_ref());
        let shape = if part.expert.is_some() { &stored.shape[1..] } else { &stored.shape[..] };
        let tensor = Tensor::from_vec(numbers, shape, &Device::Cpu)?;
        let tensor = match part.change {
            Change::Transposed => tensor.t()?.contiguous()?,
            Change::LessOne => (tensor - 1.0)?,
            Change::Row => tensor.reshape(part.shape.as_slice())?,
            change => match self.order(change, shape.first().copied().unwrap_or_default())? {
                Some(order) => tensor.index_select(&Tensor::new(order, &Device::Cpu)?, 0)?,
                None => tensor,
            },
        };
        Ok(tensor.to_device(device)?)
    }

    fn stored_matrix(&self, name: &str) -> Result<Option<Arc<dyn StoredMatrix>>> {
        let Some(part) = self.parts.get(name) else { return Ok(None) };
        let &[rows, columns] = part.shape.as_slice() else { return Ok(None) };
        if matches!(part.change, Change::Transposed | Change::LessOne | Change::Row) {
            return Ok(None);
        }
        let (part, stored) = self.part(name)?;
        let blocks = Blocks::new(self.bytes(stored, part.expert), stored.dtype, (rows, columns));
        let matrix: Arc<dyn StoredMatrix> = Arc::new(blocks);
        Ok(Some(match self.order(part.change, rows)? {
            Some(order) => Matrix::reordered(matrix, order),
            None => matrix,
        }))
    }

    fn stacked(&self, name: &str, stacking: Stacking) -> Result<Option<Vec<Arc<dyn StoredMatrix>>>> {
        let Some(part) = self.parts.get(name).filter(|part| part.change == Change::Transposed) else {
            return Ok(None);
        };
        if stacking != Stacking::Transposes {
            return Ok(None);
        }
        let &[columns, rows] = part.shape.as_slice() else { return Ok(None) };
        // The file has what checkpoints store transposed the other way round.
        let (part, stored) = self.part(name)?;
        Ok(Some(vec![Arc::new(Blocks::new(self.bytes(stored, part.expert), stored.dtype, (rows, columns)))]))
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

/// The order that puts rows of queries and keys from adjacent pairs into halves.
fn halves(rows: usize, heads: usize) -> Result<Vec<u32>> {
    let width = rows_of(rows, heads)?;
    if !width.is_multiple_of(2) {
        return Err(wrong_rows(rows, heads));
    }
    let within = (0..width).map(|row| 2 * (row % (width / 2)) + row / (width / 2));
    let within: Vec<usize> = within.collect();
    Ok((0..heads).flat_map(|head| within.iter().map(move |row| (head * width + row) as u32)).collect())
}

/// The order that interleaves queries, keys and values per group of heads. GGUF files store all queries, then all keys, then all
/// values.
fn grouped(rows: usize, count: usize, kv: usize) -> Result<Vec<u32>> {
    let all = kv.checked_mul(2).and_then(|both| both.checked_add(count));
    let width = rows_of(rows, all.unwrap_or_default())?;
    if !count.is_multiple_of(kv) {
        return Err(wrong_rows(rows, count));
    }
    let heads = (0..kv).flat_map(|group| {
        let queries = group * (count / kv)..(group + 1) * (count / kv);
        queries.chain([count + group, count + kv + group])
    });
    Ok(heads.flat_map(|head| (head * width..(head + 1) * width).map(|row| row as u32)).collect())
}

/// The number of rows per head.
fn rows_of(rows: usize, heads: usize) -> Result<usize> {
    if heads == 0 || rows == 0 || !rows.is_multiple_of(heads) {
        return Err(wrong_rows(rows, heads));
    }
    Ok(rows / heads)
}

fn wrong_rows(rows: usize, heads: usize) -> Error {
    Error::unsupported(format!("A tensor with {rows} rows does not fit {heads} heads"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_put_in_order() {
        assert_eq!(halves(8, 2).unwrap(), [0, 2, 1, 3, 4, 6, 5, 7]);
        // Four query heads in two groups.
        assert_eq!(grouped(8, 4, 2).unwrap(), [0, 1, 4, 6, 2, 3, 5, 7]);
        assert!(halves(8, 3).is_err() && halves(8, 8).is_err() && grouped(8, 3, 2).is_err());
        assert!(grouped(8, 1, usize::MAX).is_err() && grouped(8, 4, usize::MAX / 2).is_err());
    }
}

//! Weights with an adapter: changes of low rank, replaced tensors and trained tokens.

mod config;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use candle_core::{DType, Device, Tensor};
use rustc_hash::{FxHashMap, FxHashSet};

use self::config::{AdapterConfig, unsupported};
use super::{Safetensors, Source, Stacking, TorchFiles};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::matrix::{LowRank, Owned, Patched, StoredMatrix, expand_all};

/// The configuration of an adapter.
pub(crate) const CONFIG: &str = "adapter_config.json";
/// The weights of an adapter, the preferred format first.
pub(crate) const WEIGHTS: [&str; 2] = ["adapter_model.safetensors", "adapter_model.bin"];
/// What peft puts before the names of a model's tensors.
const PREFIX: &str = "base_model.model.";
/// Wrappers that peft puts around layers, which are part of the names of their tensors.
const WRAPPERS: [&str; 4] = [".token_adapter", ".base_layer", ".modules_to_save", ".default"];
/// Above this rank a sum costs more than the memory for its result.
const RANKS: usize = 64;
/// The names of output heads, which a model whose head is tied to its embedding does not have.
const HEADS: [&str; 3] = ["lm_head.weight", "embed_out.weight", "output.weight"];
/// The ends of the names of input embeddings.
const EMBEDDINGS: [&str; 6] = [
    "embed_tokens.weight",
    "embeddings.weight",
    "wte.weight",
    "embed_in.weight",
    "word_embeddings.weight",
    "tok_embeddings.weight",
];
/// Layers of GPT-2 whose weights are stored as `[input, output]`.
const TRANSPOSED: [&str; 4] = ["c_attn.weight", "c_proj.weight", "c_fc.weight", "q_attn.weight"];

/// The weights of a model with an adapter.
pub struct Adapted {
    base: Arc<dyn Source>,
    adapter: Box<dyn Source>,
    /// The folder of the adapter, for messages.
    folder: PathBuf,
    /// Changes by the name of the model's tensor.
    changes: FxHashMap<String, Change>,
    /// A tied head, and the embedding whose numbers it keeps.
    head: Option<(String, String)>,
    loaded: Mutex<FxHashSet<String>>,
}

/// What an adapter does to a tensor. The names are of its own tensors.
#[derive(Debug, Default)]
struct Change {
    replaced: Option<String>,
    up: Option<String>,
    down: Option<String>,
    /// Both factors are those of an embedding, which are stored transposed.
    is_embedding: bool,
    scale: f32,
    rank: usize,
    /// The lengths of rows.
    lengths: Option<String>,
    /// A vector to add, scaled.
    added: Option<String>,
    /// Replaced rows, and their indices.
    tokens: Option<(String, Vec<u32>)>,
    /// The tensor is stored as `[input, output]`.
    is_transposed: bool,
}

/// The files of an adapter, the configuration first.
pub(crate) fn adapter_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let weights = WEIGHTS.iter().map(|name| folder.join(name)).find(|path| path.is_file());
    let missing = || {
        Error::file(
            folder,
            format!("the adapter has no weights: neither `{}` nor `{}`", WEIGHTS[0], WEIGHTS[1]),
        )
    };
    Ok(vec![folder.join(CONFIG), weights.ok_or_else(missing)?])
}

impl Adapted {
    /// Opens the adapter of a folder for a model, whose class tells how it stores weights.
    pub fn open(folder: &Path, base: Arc<dyn Source>, model: &Config) -> Result<Self> {
        let config = AdapterConfig::read(&Config::read(&folder.join(CONFIG))?)?;
        let files = adapter_files(folder)?;
        let adapter: Box<dyn Source> = if files[1].extension().is_some_and(|extension| extension == "bin") {
            Box::new(TorchFiles::open(&files[1..])?)
        } else {
            Box::new(Safetensors::open(&files[1..])?)
        };
        let is_gpt2 = model.strings("architectures")?.iter().any(|class| class.starts_with("GPT2"));
        let mut opened = Self {
            base,
            adapter,
            folder: folder.to_owned(),
            changes: FxHashMap::default(),
            head: None,
            loaded: Mutex::default(),
        };
        let mut names = opened.adapter.names();
        names.sort_unstable();
        for name in names {
            opened.add(&name, &config)?;
        }
        for (name, change) in &mut opened.changes {
            change.is_transposed = is_gpt2 && TRANSPOSED.iter().any(|end| name.ends_with(end));
        }
        opened.tie();
        opened.check()?;
        Ok(opened)
    }

    fn broken(&self, problem: String) -> Error {
        Error::file(&self.folder, problem)
    }

    /// Finds what a tensor of the adapter does.
    fn add(&mut self, name: &str, config: &AdapterConfig) -> Result<()> {
        let mut own = name.strip_prefix(PREFIX).unwrap_or(name).to_owned();
        // Old versions wrote the name of the adapter.
        for wrapper in WRAPPERS {
            own = own.replace(&format!("{wrapper}."), ".");
        }
        let own = own.strip_suffix(".default").unwrap_or(&own);
        let part = |ends: &[&str]| ends.iter().find_map(|end| own.strip_suffix(end)).map(str::to_owned);
        let named = || Some(name.to_owned());
        if let Some(module) = part(&[".lora_A.weight", ".lora_embedding_A"]) {
            let (rank, scale) = config.scale(&module)?;
            let change = self.change(&module, "weight");
            (change.rank, change.scale, change.down) = (rank, scale, named());
            change.is_embedding = own.ends_with("lora_embedding_A");
        } else if let Some(module) = part(&[".lora_B.weight", ".lora_embedding_B"]) {
            self.change(&module, "weight").up = named();
        } else if let Some(module) = part(&[".lora_magnitude_vector", ".lora_magnitude_vector.weight"]) {
            self.change(&module, "weight").lengths = named();
        } else if let Some(module) = part(&[".lora_B.bias"]) {
            let (_, scale) = config.scale(&module)?;
            let change = self.change(&module, "bias");
            (change.added, change.scale) = (named(), scale);
        } else if let Some(module) = part(&[".trainable_tokens_delta"]) {
            let ends_with =
                |end: &str| end.is_empty() || module == end || module.ends_with(&format!(".{end}"));
            let Some((_, tokens)) = config.tokens.iter().find(|(end, _)| ends_with(end)) else {
                return Err(
                    self.broken(format!("`trainable_token_indices` has no tokens for the tensor `{name}`"))
                );
            };
            self.change(&module, "weight").tokens = Some((name.to_owned(), tokens.clone()));
        } else if let Some((module, kind @ ("weight" | "bias"))) = own.rsplit_once('.')
            && !own.contains(".lora_")
        {
            self.change(module, kind).replaced = named();
        } else {
            return Err(unsupported(&format!("the tensor `{name}` of an adapter")));
        }
        Ok(())
    }

    /// The change of a module's tensor. Its name may lack a prefix that the model has, or the other way round.
    fn change(&mut self, module: &str, kind: &str) -> &mut Change {
        let mut own = format!("{module}.{kind}");
        if self.base.shape(&own).is_none() {
            let is_other = |name: &String| {
                let (long, short) = if name.len() > own.len() { (name, &own) } else { (&own, name) };
                long.strip_suffix(short.as_str()).is_some_and(|rest| rest.ends_with('.'))
            };
            let mut others = self.base.names().into_iter().filter(is_other);
            if let (Some(other), None) = (others.next(), others.next()) {
                own = other;
            }
        }
        self.changes.entry(own).or_default()
    }

    /// A tied head keeps the numbers of the model, unless tokens are trained, which are of both.
    fn tie(&mut self) {
        let is_head = |name: &String| HEADS.contains(&name.as_str()) || name.ends_with(".lm_head.weight");
        if self.names().iter().any(is_head) {
            return;
        }
        let is_embedding = |name: &str| EMBEDDINGS.iter().any(|end| name.ends_with(end));
        let changed = self.changes.iter().find(|(name, change)| {
            is_embedding(name) && (change.replaced.is_some() || change.down.is_some())
        });
        let head = |embedding: &str| {
            if embedding.ends_with("tok_embeddings.weight") { "output.weight" } else { HEADS[0] }
        };
        self.head = changed.map(|(name, _)| (head(name).to_owned(), name.clone()));
    }

    /// Checks the shapes of all changes.
    fn check(&self) -> Result<()> {
        let mut names: Vec<&String> = self.changes.keys().collect();
        names.sort_unstable();
        for name in names {
            let change = &self.changes[name];
            let own = |name: &Option<String>| name.as_ref().and_then(|name| self.adapter.shape(name));
            let base = self.base.shape(name);
            let wrong = |what: &str| self.broken(format!("its {what} for `{name}` does not fit the model"));
            if let (Some(replaced), Some(base)) = (own(&change.replaced), &base)
                && replaced != *base
            {
                // Vocabularies grow with an adapter.
                return Err(unsupported(&format!(
                    "an adapter whose `{name}` has shape {replaced:?} instead of {base:?}"
                )));
            }
            let Some(base) = base.or_else(|| own(&change.replaced)) else {
                return Err(unsupported(&format!(
                    "an adapter for the tensor `{name}`, which the model does not have"
                )));
            };
            // Which of the stacks would read the changed embedding depends on how the model was wrapped.
            if name == "shared.weight" {
                return Err(unsupported("an adapter that changes the embedding of an encoder and a decoder"));
            }
            let (up, down) = (own(&change.up), own(&change.down));
            if up.is_some() || down.is_some() {
                let &[rows, columns] = base.as_slice() else {
                    return Err(unsupported(&format!(
                        "changes of low rank of tensors with {} dimensions, such as `{name}`",
                        base.len()
                    )));
                };
                let (outputs, inputs) = if change.is_transposed { (columns, rows) } else { (rows, columns) };
                let rank = change.rank;
                let expected = if change.is_embedding {
                    [[inputs, rank], [rank, outputs]]
                } else {
                    [[outputs, rank], [rank, inputs]]
                };
                let fits = |shape: Option<Vec<usize>>, expected: [usize; 2]| {
                    shape.is_some_and(|shape| shape == expected)
                };
                if !fits(up, expected[0]) || !fits(down, expected[1]) {
                    return Err(wrong(&format!("change of rank {rank}")));
                }
                if own(&change.lengths).is_some_and(|shape| shape.iter().product::<usize>() != outputs) {
                    return Err(wrong("vector of lengths"));
                }
                if change.lengths.is_some() && change.is_embedding {
                    return Err(unsupported("embeddings with trained lengths (DoRA)"));
                }
            } else if change.lengths.is_some() {
                return Err(wrong("vector of lengths"));
            }
            if own(&change.added).is_some_and(|shape| shape != base) {
                return Err(wrong("vector to add"));
            }
            let of_weight =
                name.strip_suffix("bias").and_then(|name| self.changes.get(&format!("{name}weight")));
            if change.added.is_some() && of_weight.is_some_and(|weight| weight.lengths.is_some()) {
                return Err(unsupported("adapters with both biases and trained lengths (DoRA)"));
            }
            if let Some((tokens, rows)) = &change.tokens {
                if self.head.as_ref().is_some_and(|(_, embedding)| embedding == name) {
                    return Err(unsupported("an adapter that changes a tied embedding in two ways"));
                }
                let fits = matches!(base.as_slice(), &[count, width]
                    if self.adapter.shape(tokens).is_some_and(|shape| shape == [rows.len(), width])
                        && rows.iter().all(|row| (*row as usize) < count));
                if !fits {
                    return Err(wrong("list of trained tokens"));
                }
            }
        }
        Ok(())
    }

    /// The name of the model's tensor, and its change.
    fn find<'a>(&'a self, name: &'a str) -> (&'a str, Option<&'a Change>) {
        match &self.head {
            // Trained tokens are of the embedding alone here, because a change that replaces it comes before.
            Some((head, embedding)) if head == name => (embedding, None),
            _ => (name, self.changes.get(name)),
        }
    }

    /// A tensor of the adapter in 32 bits.
    fn own(&self, name: &str) -> Result<Tensor> {
        Ok(self.adapter.load(name, &Device::Cpu)?.to_dtype(DType::F32)?)
    }

    fn numbers(&self, name: &str) -> Result<Vec<f32>> {
        Ok(self.own(name)?.flatten_all()?.to_vec1()?)
    }

    /// The changed matrix, `[output, input]`.
    fn changed(&self, matrix: Arc<dyn StoredMatrix>, change: &Change) -> Result<Arc<dyn StoredMatrix>> {
        let mut matrix = matrix;
        if let (Some(up), Some(down)) = (&change.up, &change.down) {
            let [mut up, mut down] = [self.own(up)?, self.own(down)?];
            if change.is_embedding {
                (up, down) = (down.t()?, up.t()?);
            }
            let up = (up * f64::from(change.scale))?.contiguous()?.flatten_all()?.to_vec1()?;
            let down = down.contiguous()?.flatten_all()?.to_vec1()?;
            let mut low = LowRank::new(matrix, up, down, change.rank);
            if let Some(lengths) = &change.lengths {
                low = low.with_lengths(&self.numbers(lengths)?);
            }
            matrix = Arc::new(low);
            if change.rank > RANKS {
                let shape = matrix.shape();
                let numbers = expand_all(matrix.as_ref())?.flatten_all()?.to_vec1()?;
                matrix = Arc::new(Owned { numbers, shape });
            }
        }
        if let Some((tokens, rows)) = &change.tokens {
            let width = matrix.shape().1;
            let numbers = self.numbers(tokens)?;
            let mut order: Vec<(u32, usize)> = rows.iter().copied().zip(0..).collect();
            order.sort_unstable();
            let numbers =
                order.iter().flat_map(|(_, index)| &numbers[index * width..][..width]).copied().collect();
            matrix = Arc::new(Patched { matrix, rows: order.iter().map(|(row, _)| *row).collect(), numbers });
        }
        Ok(matrix)
    }

    /// The stored form of a tensor before its low-rank change, expanded if need be.
    fn matrix(&self, name: &str, change: &Change) -> Result<Arc<dyn StoredMatrix>> {
        let (source, name) = self.origin(name, change);
        if !change.is_transposed
            && let Some(stored) = source.stored_matrix(name)?
        {
            return Ok(stored);
        }
        let tensor = source.load(name, &Device::Cpu)?.to_dtype(DType::F32)?;
        let tensor = if change.is_transposed { tensor.t()?.contiguous()? } else { tensor };
        Ok(Arc::new(Owned { shape: tensor.dims2()?, numbers: tensor.flatten_all()?.to_vec1()? }))
    }

    /// Where the numbers of a tensor come from before further changes.
    fn origin<'a>(&'a self, name: &'a str, change: &'a Change) -> (&'a dyn Source, &'a str) {
        match &change.replaced {
            Some(own) => (self.adapter.as_ref(), own),
            None => (self.base.as_ref(), name),
        }
    }

    fn mark(&self, name: &str) {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned());
    }
}

impl Source for Adapted {
    fn shape(&self, name: &str) -> Option<Vec<usize>> {
        let (name, change) = self.find(name);
        let replaced = change.and_then(|change| change.replaced.as_ref());
        replaced.map_or_else(|| self.base.shape(name), |own| self.adapter.shape(own))
    }

    fn load(&self, name: &str, device: &Device) -> Result<Tensor> {
        self.mark(name);
        let (name, change) = self.find(name);
        let Some(change) = change else { return self.base.load(name, device) };
        if change.up.is_some() || change.tokens.is_some() {
            let matrix = self.changed(self.matrix(name, change)?, change)?;
            let tensor = expand_all(matrix.as_ref())?;
            let tensor = if change.is_transposed { tensor.t()?.contiguous()? } else { tensor };
            return Ok(tensor.to_device(device)?);
        }
        let (source, name) = self.origin(name, change);
        let mut tensor = source.load(name, &Device::Cpu)?;
        if let Some(added) = &change.added {
            let added = (self.own(added)? * f64::from(change.scale))?;
            tensor = (tensor.to_dtype(DType::F32)? + added)?;
        }
        Ok(tensor.to_device(device)?)
    }

    fn stored_matrix(&self, name: &str) -> Result<Option<Arc<dyn StoredMatrix>>> {
        let (own, change) = self.find(name);
        let Some(change) = change else {
            self.mark(name);
            return self.base.stored_matrix(own);
        };
        if change.is_transposed {
            return Ok(None);
        }
        self.mark(name);
        Ok(Some(self.changed(self.matrix(own, change)?, change)?))
    }

    fn stacked(&self, name: &str, stacking: Stacking) -> Result<Option<Vec<Arc<dyn StoredMatrix>>>> {
        match self.find(name) {
            (own, None) => self.base.stacked(own, stacking),
            _ => Ok(None),
        }
    }

    fn check_loaded(&self) -> Result<()> {
        self.base.check_loaded()?;
        let loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        // Sorted, so that the same tensor is reported every time.
        match self.changes.keys().filter(|name| !loaded.contains(*name)).min() {
            None => Ok(()),
            Some(name) => Err(unsupported(&format!("a use for the adapter's `{name}` in this model"))),
        }
    }

    fn names(&self) -> Vec<String> {
        let mut names = self.base.names();
        let new = self.changes.keys().filter(|name| self.base.shape(name).is_none());
        names.extend(new.cloned());
        names.extend(self.head.as_ref().map(|(head, _)| head.clone()));
        names
    }

    fn stored(&self) -> DType {
        self.base.stored()
    }
}

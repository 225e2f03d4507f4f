//! The weight files of a folder.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lmeval_pycompat::{Value, json, repr};

use super::{BUFFERS, Quantised, Safetensors, Source, TorchFiles, check_method};
use crate::config::Config;
use crate::error::{Error, Result, TORCH as TORCH_ENGINE};

/// A checkpoint format: the name of a single file, and of the index of a sharded checkpoint.
pub(super) struct Format {
    pub(super) single: &'static str,
    pub(super) index: &'static str,
}

/// The preferred format.
pub(super) const SAFETENSORS: Format =
    Format { single: "model.safetensors", index: "model.safetensors.index.json" };
/// The older format.
pub(super) const TORCH: Format =
    Format { single: "pytorch_model.bin", index: "pytorch_model.bin.index.json" };

/// Opens the weights of a folder, quantised ones as what they stand for, and says what a user should know about their numbers.
pub(crate) fn open_checkpoint(folder: &Path, config: &Config) -> Result<(Arc<dyn Source>, Option<String>)> {
    let Some(quantised) = config.object("quantization_config")? else {
        return Ok((open_folder(folder)?, None));
    };
    check_quantised(folder, &quantised)?;
    let opened = Quantised::open(open_folder(folder)?, &quantised)?;
    let note = opened.note().map(str::to_owned);
    Ok((Arc::new(opened), note))
}

/// Refuses what cannot be read before it is opened.
fn check_quantised(folder: &Path, config: &Config) -> Result<()> {
    check_method(config)?;
    // Their pickles have classes of torchao.
    if config.string("quant_method")? == Some("torchao") && !SAFETENSORS.is_in(folder) {
        return Err(Error::Unsupported {
            message: "The native engine reads torchao's weights from safetensors only".into(),
            hint: Some(TORCH_ENGINE.into()),
        });
    }
    Ok(())
}

/// Opens the weights of a folder: safetensors if present, else PyTorch files.
fn open_folder(folder: &Path) -> Result<Arc<dyn Source>> {
    if !SAFETENSORS.is_in(folder) && TORCH.is_in(folder) {
        let opened = TorchFiles::open(&TORCH.files(folder)?)?;
        TORCH.check_index(folder, |name| opened.shape(name).is_some())?;
        return Ok(Arc::new(opened));
    }
    Ok(Arc::new(Safetensors::from_folder(folder)?))
}

/// The weight files of a folder.
pub(crate) fn files_of_folder(folder: &Path) -> Result<Vec<PathBuf>> {
    let is_older = !SAFETENSORS.is_in(folder) && TORCH.is_in(folder);
    if is_older { TORCH.files(folder) } else { SAFETENSORS.files(folder) }
}

impl Format {
    fn is_in(&self, folder: &Path) -> bool {
        folder.join(self.single).is_file() || folder.join(self.index).is_file()
    }

    /// The weight files of this format.
    pub(super) fn files(&self, folder: &Path) -> Result<Vec<PathBuf>> {
        // Reference: a single file takes precedence over an index.
        let (single, index) = (folder.join(self.single), folder.join(self.index));
        if single.is_file() {
            return Ok(vec![single]);
        }
        if !index.is_file() {
            let problem = format!(
                "the folder has no weights: neither `{}` nor `{}`, nor an index of either",
                SAFETENSORS.single, TORCH.single
            );
            return Err(Error::file(folder, problem));
        }
        let names: BTreeSet<String> = weight_map(&index)?.into_iter().map(|(_, file)| file).collect();
        let files: Vec<PathBuf> = names.into_iter().map(|name| folder.join(name)).collect();
        if let Some(missing) = files.iter().find(|file| !file.is_file()) {
            return Err(Error::file(missing, format!("it is missing, but `{}` lists it", self.index)));
        }
        Ok(files)
    }

    /// Refuses a parameter that the index lists and no shard has. A missing bias would otherwise pass for a layer without one. An output
    /// head that is tied to the embedding may be missing; another one is reported when it is loaded.
    pub(super) fn check_index(&self, folder: &Path, has: impl Fn(&str) -> bool) -> Result<()> {
        let index = folder.join(self.index);
        if folder.join(self.single).is_file() {
            return Ok(());
        }
        let may_be_missing = |name: &str| {
            BUFFERS.iter().any(|buffer| name.ends_with(buffer)) || name.ends_with("lm_head.weight")
        };
        let listed = weight_map(&index)?.into_iter();
        match listed.map(|(tensor, _)| tensor).find(|tensor| !has(tensor) && !may_be_missing(tensor)) {
            None => Ok(()),
            Some(tensor) => {
                Err(Error::file(&index, format!("it lists the tensor `{tensor}`, which no shard has")))
            }
        }
    }
}

/// The tensors that an index lists, with their shards.
fn weight_map(index: &Path) -> Result<Vec<(String, String)>> {
    let text = fs_err::read_to_string(index).map_err(|error| Error::file(index, error))?;
    let value = json::loads(&text).map_err(|error| Error::file(index, error))?;
    let map = value.as_dict().and_then(|index| index.get_str("weight_map")).and_then(Value::as_dict);
    let map = map.ok_or_else(|| Error::file(index, "it has no object `weight_map`"))?;
    let mut listed = Vec::new();
    for (tensor, file) in map.iter() {
        let is_plain = |name: &&str| {
            !name.is_empty() && !name.contains(['/', '\\', ':']) && *name != "." && *name != ".."
        };
        let name = file.as_str().filter(is_plain).ok_or_else(|| {
            Error::file(index, format!("the shard of `{}` is not a file name", repr::str(tensor)))
        })?;
        listed.push((repr::str(tensor), name.to_owned()));
    }
    Ok(listed)
}

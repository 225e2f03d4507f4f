//! Loading a model from a folder, the hub, or a GGUF file.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use candle_core::{DType, Device};
use lmeval_core::ModelError;
use lmeval_hub::{Settings, hash_portable_weights, hash_weights};
use lmeval_pycompat::{Value, repr};
use lmeval_tokenizers::HuggingFaceTokenizer;

use crate::arch::{self, Architecture, Entry};
use crate::arguments::{Arguments, Precision, configuration, unsupported};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::hub::locate_model;
use crate::weights::{Gguf, Source, Weights, files_of_folder, open_folder, parameter_names};

/// A model whose files are open, but whose weights are not loaded yet.
pub(crate) struct Opened {
    pub(crate) config: Config,
    source: Arc<dyn Source>,
    pub(crate) entry: &'static Entry,
    /// The data type of the computation.
    pub(crate) dtype: DType,
    /// The data type that weights are rounded to first.
    rounded: Option<DType>,
    /// The number of parameters.
    pub(crate) parameters: u64,
    /// The class's default maximum length, for configurations without one.
    pub(crate) positions: Option<usize>,
    /// The folder of the model's files.
    pub(crate) folder: PathBuf,
    /// The GGUF file, if the weights are in one.
    pub(crate) file: Option<PathBuf>,
    /// The tokenizer of the GGUF file, unless another one is given or in the same folder.
    pub(crate) tokenizer: Option<HuggingFaceTokenizer>,
    /// The hub commit, if the files come from the hub's cache.
    pub(crate) commit: Option<String>,
    /// Identifies the weights.
    pub(crate) fingerprint: String,
    /// Identifies the weights on every machine that has a copy of them.
    pub(crate) portable_fingerprint: String,
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened")
            .field("folder", &self.folder)
            .field("file", &self.file)
            .finish_non_exhaustive()
    }
}

/// Refuses a checkpoint whose own model code the caller asked to run: the built-in architecture of the same name may
/// compute something else.
fn refuse_own_code(config: &Config, arguments: &Arguments) -> Result<(), ModelError> {
    let own = config
        .get("auto_map")
        .and_then(Value::as_dict)
        .and_then(|classes| classes.get_str("AutoModelForCausalLM"));
    let Some(own) = own.filter(|_| arguments.trust_remote_code) else { return Ok(()) };
    let message = format!(
        "`{}` brings its own model code (`{}`), which the native engine never runs",
        arguments.pretrained,
        repr::str(own)
    );
    Err(unsupported(message)
        .hint("Without `trust_remote_code`, the built-in implementation of its architecture is used, if there is one"))
}

impl Opened {
    /// Opens the model that the arguments name.
    pub(crate) fn new(arguments: &Arguments, hub: &Settings) -> Result<Self, ModelError> {
        let (folder, file) = locate(arguments, hub)?;
        Self::at(arguments, folder, file)
    }

    fn at(arguments: &Arguments, folder: PathBuf, file: Option<PathBuf>) -> Result<Self, ModelError> {
        let mut tokenizer = None;
        let (config, source): (Config, Arc<dyn Source>) = match &file {
            Some(file) => {
                let gguf = Gguf::open(file)?;
                if arguments.tokenizer.is_none() && !folder.join("tokenizer.json").is_file() {
                    tokenizer = Some(HuggingFaceTokenizer::from_gguf(gguf.vocabulary()?)?);
                }
                (gguf.config()?, Arc::new(gguf))
            }
            None => {
                let config = Config::read(&folder.join("config.json"))?;
                refuse_own_code(&config, arguments)?;
                // Refuse unsupported classes before opening the weights.
                arch::find(&config)?;
                (config, open_folder(&folder)?)
            }
        };
        let entry = arch::find(&config)?;
        let dtype = compute_dtype(arguments, source.stored());
        let rounded = match arguments.precision {
            Precision::Given(given) if given != dtype => Some(given),
            _ => None,
        };
        let commit = commit(&folder);
        let files = match &file {
            Some(file) => vec![file.clone()],
            None => files_of_folder(&folder)?,
        };
        let (fingerprint, portable_fingerprint) = match &commit {
            Some(commit) => (commit.clone(), commit.clone()),
            None => {
                let failed = |error: std::io::Error| Error::file(&folder, error);
                (hash_weights(&files).map_err(failed)?, hash_portable_weights(&files).map_err(failed)?)
            }
        };
        let parameters = parameters(&config, source.as_ref())?;
        let positions = entry.positions;
        Ok(Self {
            config,
            source,
            entry,
            dtype,
            rounded,
            parameters,
            positions,
            folder,
            file,
            tokenizer,
            commit,
            fingerprint,
            portable_fingerprint,
        })
    }

    /// Loads the weights to a device. Returns the names of tensors that the model does not use, too.
    pub(crate) fn build(&self, device: &Device) -> Result<(Box<dyn Architecture>, Vec<String>)> {
        let mut weights = Weights::new(Arc::clone(&self.source), self.dtype, device);
        if let Some(rounded) = self.rounded {
            weights = weights.rounded_to(rounded);
        }
        let model = (self.entry.build)(&self.config, &weights)?;
        self.source.check_loaded()?;
        Ok((model, weights.unused(&self.config)?))
    }
}

/// Counts the model's parameters.
fn parameters(config: &Config, source: &dyn Source) -> Result<u64> {
    let is_parameter = parameter_names(config)?;
    let names = source.names().into_iter().filter(|name| is_parameter(name));
    let sizes = names.filter_map(|name| source.shape(&name)).map(|shape| {
        // The product of a malformed shape may overflow if one size is zero.
        shape.into_iter().fold(1_u64, |all, size| all.saturating_mul(size as u64))
    });
    Ok(sizes.fold(0, u64::saturating_add))
}

/// Finds the model's folder, and its GGUF file if it is one.
fn locate(arguments: &Arguments, hub: &Settings) -> Result<(PathBuf, Option<PathBuf>), ModelError> {
    let name = Path::new(&arguments.pretrained);
    if name.extension().is_some_and(|extension| extension == "gguf") && name.is_file() {
        let folder = name.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        return Ok((folder.to_owned(), Some(name.to_owned())));
    }
    if let Some(file) = &arguments.gguf_file {
        let path = name.join(file);
        if !name.is_dir() {
            return Err(unsupported(format!(
                "`gguf_file` needs a local folder here, and `{}` is a name on the hub",
                arguments.pretrained
            ))
            .hint("Or download the file and set `pretrained` to its path"));
        }
        if !path.is_file() {
            return Err(configuration(format!("The file `{}` does not exist", path.display()))
                .hint("`gguf_file` is a file in the folder `pretrained`"));
        }
        return Ok((name.to_owned(), Some(path)));
    }
    Ok((locate_model(hub, &arguments.pretrained, &arguments.revision)?, None))
}

/// The data type of the computation. It is always float32 on the CPU; `dtype` then only rounds the weights.
fn compute_dtype(arguments: &Arguments, stored: DType) -> DType {
    if arguments.is_cpu() {
        return DType::F32;
    }
    match arguments.precision {
        Precision::Given(dtype) => dtype,
        Precision::Auto if matches!(stored, DType::F16 | DType::BF16 | DType::F32) => stored,
        Precision::Auto => DType::F32,
    }
}

/// The commit of a snapshot folder in the hub's cache.
fn commit(folder: &Path) -> Option<String> {
    let is_snapshot = folder.parent()?.file_name()? == "snapshots";
    let name = folder.file_name()?.to_str()?;
    (is_snapshot && name.len() == 40).then(|| name.to_owned())
}

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
use crate::hub::{Located, locate_adapter, locate_either, locate_model};
use crate::weights::{
    ADAPTER, Adapted, Gguf, Source, Weights, adapter_files, files_of_folder, open_checkpoint, parameter_names,
};

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
    /// What a user should know about the numbers of a quantised checkpoint.
    pub(crate) note: Option<String>,
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
        let Place { folder, file, adapter } = locate(arguments, hub)?;
        let mut tokenizer = None;
        let mut note = None;
        let (config, mut source, files): (Config, Arc<dyn Source>, Vec<PathBuf>) = match &file {
            Some(file) => {
                let gguf = Gguf::open(file)?;
                if arguments.tokenizer.is_none() && !folder.join("tokenizer.json").is_file() {
                    tokenizer = Some(HuggingFaceTokenizer::from_gguf(gguf.vocabulary()?)?);
                }
                let files = gguf.files();
                (gguf.config()?, Arc::new(gguf), files)
            }
            None => {
                let config = Config::read(&folder.join("config.json"))?;
                refuse_own_code(&config, arguments)?;
                // Refuse unsupported classes before opening the weights.
                arch::find(&config)?;
                let source;
                (source, note) = open_checkpoint(&folder, &config)?;
                (config, source, files_of_folder(&folder)?)
            }
        };
        let entry = arch::find(&config)?;
        let dtype = compute_dtype(arguments, source.stored());
        let rounded = match arguments.precision {
            Precision::Given(given) if given != dtype => Some(given),
            _ => None,
        };
        let commit = commit(&folder);
        let mut fingerprints = fingerprints(&folder, &files)?;
        if let Some(adapter) = &adapter {
            let own = self::fingerprints(adapter, &adapter_files(adapter)?)?;
            fingerprints = [0, 1].map(|index| format!("{} with {}", fingerprints[index], own[index]));
            source = Arc::new(Adapted::open(adapter, source, &config)?);
        }
        let [fingerprint, portable_fingerprint] = fingerprints;
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
            note,
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
        let model = (self.entry.build)(&self.config, &weights);
        #[cfg(feature = "cuda")]
        crate::cuda::finish_upload();
        let model = model?;
        // Another thread computes with the weights, in an order of its own.
        device.synchronize()?;
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

/// What identifies weights: here, and on every machine that has a copy of them.
fn fingerprints(folder: &Path, files: &[PathBuf]) -> Result<[String; 2], ModelError> {
    if let Some(commit) = commit(folder) {
        return Ok([commit.clone(), commit]);
    }
    let failed = |error: std::io::Error| Error::file(folder, error);
    Ok([hash_weights(files).map_err(failed)?, hash_portable_weights(files).map_err(failed)?])
}

/// Where the files of a model are.
struct Place {
    folder: PathBuf,
    /// The GGUF file.
    file: Option<PathBuf>,
    /// The folder of the adapter.
    adapter: Option<PathBuf>,
}

/// Finds the model's folder, its GGUF file if it is one, and its adapter.
fn locate(arguments: &Arguments, hub: &Settings) -> Result<Place, ModelError> {
    let adapter = arguments.peft.as_ref().map(|name| locate_adapter(hub, name)).transpose()?;
    let name = Path::new(&arguments.pretrained);
    if name.extension().is_some_and(|extension| extension == "gguf") && name.is_file() {
        let folder = name.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        return Ok(Place { folder: folder.to_owned(), file: Some(name.to_owned()), adapter });
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
        return Ok(Place { folder: name.to_owned(), file: Some(path), adapter });
    }
    match locate_either(hub, &arguments.pretrained, &arguments.revision)? {
        Located::Model(folder) => Ok(Place { folder, file: None, adapter }),
        Located::Adapter(own) if adapter.is_none() => {
            let folder = locate_base(hub, &arguments.pretrained, &own)?;
            Ok(Place { folder, file: None, adapter: Some(own) })
        }
        Located::Adapter(_) => Err(configuration(format!(
            "`{}` is an adapter, but `peft` names another one",
            arguments.pretrained
        ))
        .hint("Set `pretrained` to the model of the adapter")),
    }
}

/// Finds the model that an adapter names.
fn locate_base(hub: &Settings, name: &str, adapter: &Path) -> Result<PathBuf, ModelError> {
    let config = Config::read(&adapter.join(ADAPTER))?;
    let Some(base) = config.string("base_model_name_or_path")?.filter(|base| !base.is_empty()) else {
        return Err(configuration(format!(
            "`{name}` is an adapter, and its `{ADAPTER}` has no `base_model_name_or_path`"
        ))
        .hint(format!("Set `pretrained` to the model and `peft={name}`")));
    };
    let revision = config.string("revision")?.unwrap_or("main");
    locate_model(hub, base, revision)
        .map_err(|error| error.hint(format!("`{name}` is an adapter for the model `{base}`")))
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

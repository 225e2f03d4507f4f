//! Loading a model: from a folder, the hub, or a GGUF file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use candle_core::DType;
use lmeval_core::ModelError;
use lmeval_models::{HubSettings, HuggingFaceTokenizer, wait};

use crate::arch::{self, Architecture};
use crate::arguments::{Arguments, Precision, configuration};
use crate::config::Config;
use crate::error::Result;
use crate::fingerprint;
use crate::weights::{Gguf, Source, Weights, files_of_folder, of_folder};

/// Tensors of checkpoints that are no parameters.
const BUFFERS: [&str; 5] =
    ["rotary_emb.inv_freq", ".attn.bias", ".attn.masked_bias", ".attention.bias", ".attention.masked_bias"];

/// A model that is ready to compute.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) architecture: Box<dyn Architecture>,
    pub(crate) config: Config,
    /// What numbers are computed in.
    pub(crate) dtype: DType,
    pub(crate) parameters: u64,
    /// How many tokens models of the class take where the configuration does not say so.
    pub(crate) positions: usize,
    /// Where the files are.
    pub(crate) folder: PathBuf,
    /// The tokenizer of a GGUF file, where no other one is named or beside it.
    pub(crate) tokenizer: Option<HuggingFaceTokenizer>,
    /// The commit on the hub, where the files are from there.
    pub(crate) commit: Option<String>,
    /// What tells these weights from others.
    pub(crate) fingerprint: String,
}

/// Loads the model that the arguments name.
pub(crate) fn load(arguments: &Arguments) -> Result<Loaded, ModelError> {
    let (folder, file) = locate(arguments)?;
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
            // The class comes first: an unknown one needs no weights.
            arch::find(&config)?;
            (config, of_folder(&folder)?)
        }
    };
    let dtype = computed(arguments, source.stored());
    let rounded = match arguments.precision {
        Precision::Given(given) if given != dtype => Some(given),
        _ => None,
    };
    let loaded = build(config, &source, dtype, rounded, arguments, folder, file.as_deref())?;
    Ok(Loaded { tokenizer, ..loaded })
}

fn build(
    config: Config,
    source: &Arc<dyn Source>,
    dtype: DType,
    rounded: Option<DType>,
    arguments: &Arguments,
    folder: PathBuf,
    file: Option<&Path>,
) -> Result<Loaded> {
    let entry = arch::find(&config)?;
    let mut weights = Weights::new(Arc::clone(source), dtype, &arguments.device);
    if let Some(rounded) = rounded {
        weights = weights.rounded_to(rounded);
    }
    let architecture = (entry.build)(&config, &weights)?;
    let tied = config.flag_or("tie_word_embeddings", false)?;
    let is_parameter = |name: &String| {
        let is_second = tied && name == "lm_head.weight";
        !is_second && !BUFFERS.iter().any(|buffer| name.ends_with(buffer))
    };
    let names = source.names().into_iter().filter(is_parameter);
    let parameters =
        names.filter_map(|name| source.shape(&name)).map(|shape| shape.iter().product::<usize>() as u64);
    let parameters = parameters.sum();
    let commit = commit(&folder);
    let files = match file {
        Some(file) => vec![file.to_owned()],
        None => files_of_folder(&folder)?,
    };
    let fingerprint = match &commit {
        Some(commit) => commit.clone(),
        None => fingerprint::of_weights(&files)?,
    };
    let positions = entry.positions;
    Ok(Loaded {
        architecture,
        config,
        dtype,
        parameters,
        positions,
        folder,
        tokenizer: None,
        commit,
        fingerprint,
    })
}

/// The folder of a model, and its file where the weights are GGUF.
fn locate(arguments: &Arguments) -> Result<(PathBuf, Option<PathBuf>), ModelError> {
    let name = Path::new(&arguments.pretrained);
    if name.extension().is_some_and(|extension| extension == "gguf") && name.is_file() {
        let folder = name.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        return Ok((folder.to_owned(), Some(name.to_owned())));
    }
    if let Some(file) = &arguments.gguf_file {
        let path = name.join(file);
        if !path.is_file() {
            return Err(configuration(format!("There is no file `{}`", path.display())).hint(
                "`gguf_file` names a file in the folder `pretrained`, which is no name on the hub then",
            ));
        }
        return Ok((name.to_owned(), Some(path)));
    }
    let revision = &arguments.revision;
    let folder =
        wait(async { HubSettings::from_environment().locate_model(&arguments.pretrained, revision).await })?;
    Ok((folder, None))
}

/// What numbers are computed in: on a processor always 32 bits, of which 16 are rounded to where the arguments say so.
fn computed(arguments: &Arguments, stored: DType) -> DType {
    if arguments.device.is_cpu() {
        return DType::F32;
    }
    match arguments.precision {
        Precision::Given(dtype) => dtype,
        Precision::Auto if matches!(stored, DType::F16 | DType::BF16 | DType::F32) => stored,
        Precision::Auto => DType::F32,
    }
}

/// The commit that a folder of the hub's cache holds.
fn commit(folder: &Path) -> Option<String> {
    let is_snapshot = folder.parent()?.file_name()? == "snapshots";
    let name = folder.file_name()?.to_str()?;
    (is_snapshot && name.len() == 40).then(|| name.to_owned())
}

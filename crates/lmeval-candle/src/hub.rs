//! Finding a model or an adapter by name: in a local folder, in the hub's cache, or on the hub.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use lmeval_core::ModelError;
use lmeval_hub::{Repository, Settings, Wanted, is_safe};
use lmeval_pycompat::{Value, json};
use lmeval_tokenizers::fetch_tokenizer;

use crate::arguments::{configuration, unsupported};
use crate::weights::{ADAPTER, ADAPTER_WEIGHTS};

const CONFIG: &str = "config.json";
/// Weights in a single file, or the index of a sharded checkpoint. The first format present is used, as when loading.
const WEIGHTS: [(&str, &str); 2] = [
    ("model.safetensors", "model.safetensors.index.json"),
    ("pytorch_model.bin", "pytorch_model.bin.index.json"),
];
/// The model's generation defaults, which are optional.
const GENERATION: &str = "generation_config.json";

/// The files of a model, or of an adapter that names its model.
#[derive(Debug)]
pub(crate) enum Located {
    Model(PathBuf),
    Adapter(PathBuf),
}

/// Returns the folder with a model's files: a local folder, the hub's cache, or a download.
pub fn locate_model(hub: &Settings, name: &str, revision: &str) -> Result<PathBuf, ModelError> {
    match locate_either(hub, name, revision)? {
        Located::Model(folder) => Ok(folder),
        Located::Adapter(_) => {
            Err(unsupported(format!("`{name}` is an adapter, not a model: it has `{ADAPTER}`")))
        }
    }
}

/// Returns the folder of a model or an adapter.
pub(crate) fn locate_either(hub: &Settings, name: &str, revision: &str) -> Result<Located, ModelError> {
    let wanted = Wanted {
        noun: "model",
        is_complete: &|folder| is_complete(folder) || is_complete_adapter(folder),
        fetch: &fetch,
    };
    let folder = Path::new(name);
    let located = match folder.is_dir() {
        true if folder.join(CONFIG).is_file() || is_adapter(folder) => Ok(folder.to_owned()),
        true => Err(configuration(format!("The folder `{name}` has no `{CONFIG}`"))),
        false => lmeval_hub::locate(hub, name, revision, &wanted),
    };
    let folder =
        located.map_err(|error| error.hint("Set the model with `pretrained=<folder or name on the hub>`"))?;
    Ok(if is_adapter(&folder) { Located::Adapter(folder) } else { Located::Model(folder) })
}

/// Returns the folder of an adapter.
pub(crate) fn locate_adapter(hub: &Settings, name: &str) -> Result<PathBuf, ModelError> {
    let wanted = Wanted { noun: "adapter", is_complete: &is_complete_adapter, fetch: &fetch_adapter };
    let folder = Path::new(name);
    let located = match folder.is_dir() {
        true if folder.join(ADAPTER).is_file() => Ok(folder.to_owned()),
        true => Err(configuration(format!("The folder `{name}` has no `{ADAPTER}`"))),
        false => lmeval_hub::locate(hub, name, "main", &wanted),
    };
    located.map_err(|error| error.hint("Set the adapter with `peft=<folder or name on the hub>`"))
}

/// Whether a folder has an adapter and no weights of its own.
fn is_adapter(folder: &Path) -> bool {
    let has = |file: &str| folder.join(file).is_file();
    has(ADAPTER) && !WEIGHTS.iter().any(|(single, index)| has(single) || has(index))
}

fn is_complete_adapter(folder: &Path) -> bool {
    is_adapter(folder) && ADAPTER_WEIGHTS.iter().any(|name| folder.join(name).is_file())
}

fn fetch_adapter(repository: &Repository) -> Result<(), ModelError> {
    let name = repository.id();
    if !repository.has(ADAPTER) {
        return Err(configuration(format!("`{name}` on the hub has no `{ADAPTER}`")));
    }
    let Some(weights) = ADAPTER_WEIGHTS.iter().find(|name| repository.has(name)) else {
        let [first, second] = ADAPTER_WEIGHTS;
        return Err(unsupported(format!("`{name}` on the hub has neither `{first}` nor `{second}`")));
    };
    repository.fetch(ADAPTER)?;
    repository.fetch(weights)?;
    Ok(())
}

fn is_complete(folder: &Path) -> bool {
    let has = |file: &str| folder.join(file).is_file();
    let weights = WEIGHTS.iter().find(|(single, index)| has(single) || has(index));
    has(CONFIG)
        && weights.is_some_and(|(single, index)| {
            has(single) || parts(&folder.join(index)).is_ok_and(|parts| parts.iter().all(|part| has(part)))
        })
}

/// Downloads a model. The weights come last, so that an interrupted download does not look complete.
fn fetch(repository: &Repository) -> Result<(), ModelError> {
    let name = repository.id();
    if repository.has(ADAPTER)
        && !WEIGHTS.iter().any(|(single, index)| repository.has(single) || repository.has(index))
    {
        return fetch_adapter(repository);
    }
    if !repository.has(CONFIG) {
        return Err(configuration(format!("`{name}` on the hub has no `{CONFIG}`")));
    }
    let weights = WEIGHTS.iter().find(|(single, index)| repository.has(single) || repository.has(index));
    let Some((single, index)) = weights else {
        let [(first, _), (second, _)] = WEIGHTS;
        return Err(unsupported(format!("`{name}` on the hub has neither `{first}` nor `{second}`")));
    };
    fetch_tokenizer(repository)?;
    for file in [GENERATION, CONFIG].into_iter().filter(|file| repository.has(file)) {
        repository.fetch(file)?;
    }
    if repository.has(single) {
        repository.fetch(single)?;
        return Ok(());
    }
    for part in parts(&repository.fetch(index)?)? {
        if !repository.has(&part) {
            return Err(configuration(format!("`{name}` on the hub has no `{part}`, which `{index}` names")));
        }
        repository.fetch(&part)?;
    }
    Ok(())
}

/// The shards an index lists, which are in the same folder.
fn parts(index: &Path) -> Result<BTreeSet<String>, ModelError> {
    let broken = || configuration(format!("The weight index `{}` is malformed", index.display()));
    let text = fs_err::read_to_string(index).map_err(|_| broken())?;
    let value = json::loads(&text).map_err(|_| broken())?;
    let map = value.as_dict().and_then(|index| index.get_str("weight_map")).and_then(Value::as_dict);
    let mut parts = BTreeSet::new();
    for file in map.ok_or_else(broken)?.values() {
        let is_plain = |file: &&str| is_safe(file) && !file.contains('/');
        let file = file.as_str().filter(is_plain).ok_or_else(broken)?;
        if !parts.contains(file) {
            parts.insert(file.to_owned());
        }
    }
    Ok(parts)
}

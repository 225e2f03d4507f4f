//! Finding a model by name: in a local folder, in the hub's cache, or on the hub.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use lmeval_core::ModelError;
use lmeval_hub::{Repository, Settings, Wanted, is_safe};
use lmeval_pycompat::{Value, json};
use lmeval_tokenizers::fetch_tokenizer;

use crate::arguments::{configuration, unsupported};

const CONFIG: &str = "config.json";
/// The configuration of an adapter.
const ADAPTER: &str = "adapter_config.json";
/// Weights in a single file, or the index of a sharded checkpoint. The first format present is used, as when loading.
const WEIGHTS: [(&str, &str); 2] = [
    ("model.safetensors", "model.safetensors.index.json"),
    ("pytorch_model.bin", "pytorch_model.bin.index.json"),
];
/// The model's generation defaults, which are optional.
const GENERATION: &str = "generation_config.json";

/// Returns the folder with a model's files: a local folder, the hub's cache, or a download.
pub fn locate_model(hub: &Settings, name: &str, revision: &str) -> Result<PathBuf, ModelError> {
    let wanted = Wanted { noun: "model", is_complete: &is_complete, fetch: &fetch };
    let folder = Path::new(name);
    let located = match folder.is_dir() {
        true if folder.join(CONFIG).is_file() && !is_adapter(folder) => Ok(folder.to_owned()),
        true if folder.join(ADAPTER).is_file() => Err(adapter(name, &folder.join(ADAPTER))),
        true => Err(configuration(format!("The folder `{name}` has no `{CONFIG}`"))),
        false => lmeval_hub::locate(hub, name, revision, &wanted),
    };
    located.map_err(|error| error.hint("Set the model with `pretrained=<folder or name on the hub>`"))
}

/// Whether a folder has an adapter and no weights of its own.
fn is_adapter(folder: &Path) -> bool {
    let has = |file: &str| folder.join(file).is_file();
    has(ADAPTER) && !WEIGHTS.iter().any(|(single, index)| has(single) || has(index))
}

/// The error for an adapter in place of a model.
fn adapter(name: &str, config: &Path) -> ModelError {
    let text = fs_err::read_to_string(config).ok();
    let config = text.and_then(|text| json::loads(&text).ok());
    let base =
        config.as_ref().and_then(Value::as_dict).and_then(|config| config.get_str("base_model_name_or_path"));
    let base = base.and_then(Value::as_str).unwrap_or("BASE");
    let of = if base == "BASE" { String::new() } else { format!(" for `{base}`") };
    unsupported(format!("`{name}` is an adapter{of}, not a model: it has `{ADAPTER}`"))
        .hint("Or merge it into its base model: `merge_and_unload().save_pretrained(FOLDER)` of `peft`")
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
        return Err(adapter(name, &repository.fetch(ADAPTER)?));
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

//! Where the files of a model are: in a folder, in the hub's cache, or on the hub.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lmeval_core::{ModelError, ModelErrorKind};
use lmeval_hub::{Client, Kind, Repository, Settings, cached_snapshot, is_repository, is_safe};
use lmeval_pycompat::{Value, json};

/// The file without which there is no model.
const CONFIG: &str = "config.json";
/// The weights in one file, and the file that names their parts; the first of all four that there is counts, as where they are
/// loaded.
const WEIGHTS: [(&str, &str); 2] = [
    ("model.safetensors", "model.safetensors.index.json"),
    ("pytorch_model.bin", "pytorch_model.bin.index.json"),
];
/// What may stand beside them.
const OTHERS: [&str; 7] = [
    "generation_config.json",
    "tokenizer.json",
    "vocab.json",
    "merges.txt",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
];

/// The folder with a model's files: the folder of that name, else what the cache has, else a download.
pub fn locate_model(hub: &Settings, name: &str, revision: &str) -> Result<PathBuf, ModelError> {
    let folder = Path::new(name);
    if folder.is_dir() {
        return if folder.join(CONFIG).is_file() {
            Ok(folder.to_owned())
        } else {
            Err(missing(format!("The folder `{name}` has no `{CONFIG}`")))
        };
    }
    if !is_repository(name) || !is_safe(revision) {
        let absolute = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        return Err(missing(format!("`{name}` is neither a folder with a model nor a name on the hub"))
            .hint(format!("There is no folder `{}`", absolute.display())));
    }
    let cached = cached_snapshot(hub, Kind::Model, name, revision);
    if let Some(snapshot) = cached.filter(|folder| is_complete(folder)) {
        return Ok(snapshot);
    }
    if hub.offline {
        let message = format!(
            "The model `{name}` is not in the cache `{}`, and nothing may be downloaded",
            hub.cache.display()
        );
        return Err(missing(message).hint("Run once without `HF_HUB_OFFLINE`, or copy the cache folder"));
    }
    download(hub, name, revision)
}

/// Whether a folder has a configuration and all of the weights.
fn is_complete(folder: &Path) -> bool {
    let has = |file: &str| folder.join(file).is_file();
    let weights = WEIGHTS.iter().find(|(single, index)| has(single) || has(index));
    has(CONFIG)
        && weights.is_some_and(|(single, index)| {
            has(single) || parts(&folder.join(index)).is_ok_and(|parts| parts.iter().all(|part| has(part)))
        })
}

fn download(hub: &Settings, name: &str, revision: &str) -> Result<PathBuf, ModelError> {
    let repository = Repository::open(&Arc::new(Client::new(hub)?), Kind::Model, name, revision)?;
    if !repository.has(CONFIG) {
        let message = format!("There is no `{CONFIG}` of `{name}` at revision `{revision}` on the hub");
        return Err(missing(message));
    }
    let weights = WEIGHTS.iter().find(|(single, index)| repository.has(single) || repository.has(index));
    let Some((single, index)) = weights else {
        let [(first, _), (second, _)] = WEIGHTS;
        return Err(missing(format!("`{name}` has no weights as `{first}` or `{second}` on the hub"))
            .hint("`--model lm_eval:hf` loads other weights through Python"));
    };
    // Weights come last: they make a model count as complete.
    for file in OTHERS.iter().filter(|file| repository.has(file)).chain([&CONFIG]) {
        repository.fetch(file)?;
    }
    if repository.has(single) {
        repository.fetch(single)?;
        return Ok(repository.snapshot());
    }
    for part in parts(&repository.fetch(index)?)? {
        if !repository.has(&part) {
            return Err(missing(format!("The part `{part}` of `{name}` is not on the hub")));
        }
        repository.fetch(&part)?;
    }
    Ok(repository.snapshot())
}

/// The files that an index names, each once. They stand beside it.
fn parts(index: &Path) -> Result<BTreeSet<String>, ModelError> {
    let broken = || missing(format!("`{}` cannot be used", index.display()));
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

fn missing(message: String) -> ModelError {
    ModelError::new(ModelErrorKind::Configuration, message)
        .hint("Give the model as `pretrained=<folder or name on the hub>`")
}

//! Where the files of a tokenizer are: in a folder, in the hub's cache, or on the hub.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use lmeval_core::{Diagnose as _, ModelError, ModelErrorKind};
use lmeval_hub::{Client, Kind, Repository, Settings, cached_snapshot, is_repository, is_safe};

use crate::huggingface::{FILE, PARTS};

/// The files that may stand beside a tokenizer.
const OTHERS: [&str; 4] =
    ["tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja", "config.json"];

/// The folder with a tokenizer's files: the folder of that name, else what the cache has, else a download.
pub fn locate(hub: &Settings, name: &str, revision: &str) -> Result<PathBuf, ModelError> {
    find(hub, name, revision).map_err(|error| {
        error.hint("Give the model's tokenizer as `tokenizer=<name on the hub or folder>`").hint(
            "Or use the server's: `tokenizer_backend=remote`; generation works with `tokenizer_backend=none`",
        )
    })
}

fn find(hub: &Settings, name: &str, revision: &str) -> Result<PathBuf, ModelError> {
    let folder = Path::new(name);
    let absolute = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    if folder.is_dir() {
        return if is_complete(folder) {
            Ok(folder.to_owned())
        } else {
            Err(missing(format!("The folder `{name}` has {}", lacking()))
                .hint("`AutoTokenizer.from_pretrained(…).save_pretrained(…)` writes one from older files"))
        };
    }
    if !is_repository(name) || !is_safe(revision) {
        let message = format!("`{name}` is neither a folder with a tokenizer nor a name on the hub");
        return Err(missing(message).hint(format!("There is no folder `{}`", absolute.display())));
    }
    let cached = cached_snapshot(hub, Kind::Model, name, revision);
    if let Some(snapshot) = cached.filter(|folder| is_complete(folder)) {
        return Ok(snapshot);
    }
    if hub.offline {
        let message = format!(
            "The tokenizer of `{name}` is not in the cache `{}`, and nothing may be downloaded",
            hub.cache.display()
        );
        return Err(missing(message).hint("Run once without `HF_HUB_OFFLINE`, or copy the cache folder"));
    }
    download(hub, name, revision).map_err(|error| {
        let message = "There is no local copy of the tokenizer of";
        let told = missing(format!("{message} `{name}`, and it cannot be downloaded: {error}"));
        let told = error.hints().iter().fold(told, |told, hint| told.hint(hint.as_str()));
        told.hint(format!(
            "Looked for the folder `{}`, and in the cache `{}`",
            absolute.display(),
            hub.cache.display()
        ))
    })
}

fn download(hub: &Settings, name: &str, revision: &str) -> Result<PathBuf, ModelError> {
    let repository = Repository::open(&Arc::new(Client::new(hub)?), Kind::Model, name, revision)?;
    let needed = if repository.has(FILE) { &[FILE][..] } else { &PARTS };
    if !needed.iter().all(|file| repository.has(file)) {
        return Err(missing(format!("`{name}` at revision `{revision}` on the hub has {}", lacking())));
    }
    // What makes a tokenizer count as complete comes last: one without the other files gives other tokens.
    for file in OTHERS.iter().filter(|file| repository.has(file)).chain(needed) {
        repository.fetch(file)?;
    }
    Ok(repository.snapshot())
}

fn missing(message: String) -> ModelError {
    ModelError::new(ModelErrorKind::Configuration, message)
}

/// Whether a folder has what a tokenizer is made of.
fn is_complete(folder: &Path) -> bool {
    let has = |name: &str| folder.join(name).is_file();
    has(FILE) || PARTS.into_iter().all(has)
}

fn lacking() -> String {
    format!("neither the tokenizer `{FILE}` nor both of `{}` and `{}`", PARTS[0], PARTS[1])
}

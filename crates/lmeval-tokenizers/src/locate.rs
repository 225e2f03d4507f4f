//! Finding a tokenizer by name: in a local folder, in the hub's cache, or on the hub.

use std::path::{Path, PathBuf};

use lmeval_core::{ModelError, ModelErrorKind};
use lmeval_hub::{Repository, Settings, Wanted};

use crate::formats::{Format, OTHER_TOKENIZER};
use crate::parts::{self, ADDED_TOKENS};
use crate::whole;

/// Optional files next to the tokenizer.
const OTHERS: [&str; 5] =
    ["tokenizer_config.json", "special_tokens_map.json", ADDED_TOKENS, "chat_template.jinja", "config.json"];
/// The folder of named chat templates.
pub(crate) const TEMPLATES: &str = "additional_chat_templates";

/// Returns the folder with a tokenizer's files: a local folder, the hub's cache, or a download.
pub fn locate(hub: &Settings, name: &str, revision: &str) -> Result<PathBuf, ModelError> {
    let wanted = Wanted { noun: "tokenizer", is_complete: &is_complete, fetch: &fetch_required };
    let folder = Path::new(name);
    let located = match folder.is_dir() {
        true if is_complete(folder) => Ok(folder.to_owned()),
        true => Err(missing(format!("The folder `{name}` has {}", Format::lacking()))
            .hint("`AutoTokenizer.from_pretrained(…).save_pretrained(…)` writes one from older files")),
        false => lmeval_hub::locate(hub, name, revision, &wanted),
    };
    located.map_err(|error| {
        error.hint(OTHER_TOKENIZER).hint(
            "Or use the server's: `tokenizer_backend=remote`; generation works with `tokenizer_backend=none`",
        )
    })
}

/// Downloads the tokenizer files of a model, if it has any.
pub fn fetch_tokenizer(repository: &Repository) -> Result<(), ModelError> {
    match Format::find(|file| repository.has(file)) {
        Some(format) if format.is_complete() => {
            fetch_files(repository, &[whole::FILE, parts::FILES[0], parts::FILES[1]])
        }
        Some(format) => fetch_files(repository, format.files),
        None => fetch_files(repository, &[]),
    }
}

/// Downloads the smallest set of files that makes a tokenizer.
fn fetch_required(repository: &Repository) -> Result<(), ModelError> {
    match Format::find(|file| repository.has(file)) {
        Some(format) => fetch_files(repository, format.files),
        None => Err(missing(format!("`{}` on the hub has {}", repository.id(), Format::lacking()))),
    }
}

/// Downloads chat templates, configuration and tokenizer, as far as the repository has them.
///
/// The tokenizer comes last: without its configuration it would produce other tokens, so an interrupted download must not
/// look complete.
fn fetch_files(repository: &Repository, tokenizer: &[&str]) -> Result<(), ModelError> {
    for file in repository.files() {
        if file.strip_prefix(TEMPLATES).and_then(|name| name.strip_suffix(".jinja")).is_some() {
            repository.fetch(file)?;
        }
    }
    for file in OTHERS.iter().chain(tokenizer).filter(|file| repository.has(file)) {
        repository.fetch(file)?;
    }
    Ok(())
}

fn missing(message: String) -> ModelError {
    ModelError::new(ModelErrorKind::Configuration, message)
}

fn is_complete(folder: &Path) -> bool {
    Format::find(|file| folder.join(file).is_file()).is_some()
}

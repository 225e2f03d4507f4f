//! The identity of a checkpoint, without its server.

use std::path::{Path, PathBuf};

use fs_err as fs;
use lmeval_core::ModelError;
use lmeval_hub::{Repository, Settings, Wanted, hash_small_files, hash_weights, hexadecimal, locate};
use sha2::{Digest as _, Sha256};

use super::interpreter::configuration;

/// The configuration of a model: in the format of transformers, or Mistral's own.
const CONFIGS: [&str; 2] = ["config.json", "params.json"];

/// The configuration of an adapter.
const ADAPTER: &str = "adapter_config.json";

/// The extensions of files with weights.
const WEIGHTS: [&str; 5] = ["safetensors", "bin", "pt", "pth", "gguf"];

/// The files of a checkpoint.
#[derive(Clone, Debug)]
pub(super) struct Checkpoint {
    /// The folder with at least its configuration.
    pub(super) folder: PathBuf,
    /// The commit of the hub, or a hash of the weights.
    pub(super) weights: String,
    /// A hash of configuration and tokenizer; none for a commit, which determines them.
    pub(super) files: Option<String>,
    /// The commit of a checkpoint on the hub.
    pub(super) commit: Option<String>,
}

impl Checkpoint {
    /// Finds a checkpoint by its folder, its file or its name on the hub. Weights are not downloaded.
    pub(super) fn find(name: &str, revision: &str, hub: &Settings) -> Result<Self, ModelError> {
        let path = Path::new(name);
        if path.is_file() {
            let folder = path.parent().unwrap_or(Path::new(".")).to_owned();
            return Self::of_files(folder, &[path.to_owned()]);
        }
        if path.is_dir() {
            let files = weights(path).map_err(|error| unreadable(path, &error))?;
            return Self::of_files(path.to_owned(), &files);
        }
        let folder = on_hub(name, revision, &CONFIGS, hub)?;
        let commit = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        Ok(Self { folder, weights: commit.clone(), files: None, commit: Some(commit) })
    }

    fn of_files(folder: PathBuf, files: &[PathBuf]) -> Result<Self, ModelError> {
        let failed = |error: std::io::Error| unreadable(&folder, &error);
        let weights = hash_weights(files).map_err(failed)?;
        let files = hash_small_files(&folder, &folder).map_err(failed)?;
        Ok(Self { folder, weights, files: Some(files), commit: None })
    }
}

/// The identity of an adapter: a hash of its weights and its configuration, or its commit on the hub.
pub(super) fn adapter(name: &str, hub: &Settings) -> Result<String, ModelError> {
    let folder = Path::new(name);
    if !folder.is_dir() {
        let folder = on_hub(name, "main", &[ADAPTER], hub)?;
        return Ok(folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default());
    }
    let read = || {
        let weights = hash_weights(&weights(folder)?).map_err(std::io::Error::other)?;
        let config = match fs::read(folder.join(ADAPTER)) {
            // The server itself reports an adapter without a configuration.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            config => config?,
        };
        std::io::Result::Ok(format!("{weights} {}", hexadecimal(&Sha256::digest(config))))
    };
    read().map_err(|error| unreadable(folder, &error))
}

/// The snapshot of a repository on the hub with one of these files.
fn on_hub(name: &str, revision: &str, configs: &[&str], hub: &Settings) -> Result<PathBuf, ModelError> {
    let has = |folder: &Path| configs.iter().any(|config| folder.join(config).is_file());
    let fetch = |repository: &Repository| {
        let Some(config) = configs.iter().find(|config| repository.has(config)) else {
            return Err(configuration(format!("`{name}` on the hub has no `{}`", configs[0])));
        };
        repository.fetch(config).map(drop).map_err(ModelError::from)
    };
    let wanted = Wanted { noun: "model", is_complete: &has, fetch: &fetch };
    locate(hub, name, revision, &wanted)
        .map_err(|error| error.hint("Set the model with `pretrained=<folder or name on the hub>`"))
}

/// The files with weights in a folder, by name.
pub(super) fn weights(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let extension = path.extension().and_then(|extension| extension.to_str());
        if extension.is_some_and(|extension| WEIGHTS.contains(&extension)) && path.is_file() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn unreadable(path: &Path, error: &std::io::Error) -> ModelError {
    configuration(format!("The model `{}` cannot be read: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use lmeval_hub::Kind;

    use super::*;

    #[test]
    fn adapters_differ_by_configuration() {
        let folder = tempfile::tempdir().unwrap();
        let hub = Settings::from_environment(Kind::Model);
        let find = || adapter(&folder.path().display().to_string(), &hub).unwrap();
        fs::write(folder.path().join("adapter_model.safetensors"), "weights").unwrap();
        fs::write(folder.path().join(ADAPTER), r#"{"lora_alpha": 16}"#).unwrap();
        let before = find();
        assert_eq!(find(), before);
        fs::write(folder.path().join(ADAPTER), r#"{"lora_alpha": 32}"#).unwrap();
        assert_ne!(find(), before);
    }
}

//! Where the files of a model are: in a folder, in the hub's cache, or on the hub.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use lmeval_core::{ModelError, ModelErrorKind};
use lmeval_pycompat::{Value, json};

use super::hub::{Clients, HubSettings, absolute, is_repository, is_safe};

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

impl HubSettings {
    /// The folder with a model's files: the folder of that name, else what the cache has, else a download.
    pub async fn locate_model(&self, name: &str, revision: &str) -> Result<PathBuf, ModelError> {
        let folder = Path::new(name);
        if folder.is_dir() {
            return if folder.join(CONFIG).is_file() {
                Ok(folder.to_owned())
            } else {
                Err(missing(format!("The folder `{name}` has no `{CONFIG}`")))
            };
        }
        if !is_repository(name) || !is_safe(revision) {
            return Err(missing(format!("`{name}` is neither a folder with a model nor a name on the hub"))
                .hint(format!("There is no folder `{}`", absolute(folder).display())));
        }
        if let Some(folder) = self.cached_model(name, revision) {
            return Ok(folder);
        }
        if self.offline {
            let message = format!(
                "The model `{name}` is not in the cache `{}`, and nothing may be downloaded",
                self.cache.display()
            );
            return Err(missing(message).hint("Run once without `HF_HUB_OFFLINE`, or copy the cache folder"));
        }
        self.download_model(name, revision).await
    }

    /// What the cache has of a model, if it is complete.
    fn cached_model(&self, name: &str, revision: &str) -> Option<PathBuf> {
        let repository = self.repository(name);
        let commit = fs_err::read_to_string(repository.join("refs").join(revision));
        let commit = commit.map_or_else(|_| revision.to_owned(), |commit| commit.trim().to_owned());
        let snapshot = repository.join("snapshots").join(commit);
        let has = |file: &str| snapshot.join(file).is_file();
        let (single, index) = WEIGHTS.iter().find(|(single, index)| has(single) || has(index))?;
        let is_complete =
            has(single) || parts(&snapshot.join(index)).is_ok_and(|parts| parts.iter().all(|part| has(part)));
        (has(CONFIG) && is_complete).then_some(snapshot)
    }

    async fn download_model(&self, name: &str, revision: &str) -> Result<PathBuf, ModelError> {
        let clients = Clients::new()?;
        let Some(folder) = self.fetch(&clients, name, revision, CONFIG).await? else {
            return Err(missing(format!(
                "There is no `{CONFIG}` of `{name}` at revision `{revision}` on the hub"
            )));
        };
        for file in OTHERS {
            self.fetch(&clients, name, revision, file).await?;
        }
        for (single, index) in WEIGHTS {
            if self.fetch(&clients, name, revision, single).await?.is_some() {
                return Ok(folder);
            }
            if self.fetch(&clients, name, revision, index).await?.is_some() {
                for part in parts(&folder.join(index))? {
                    if self.fetch(&clients, name, revision, &part).await?.is_none() {
                        return Err(missing(format!("The part `{part}` of `{name}` is not on the hub")));
                    }
                }
                return Ok(folder);
            }
        }
        let [(first, _), (second, _)] = WEIGHTS;
        Err(missing(format!("`{name}` has no weights as `{first}` or `{second}` on the hub"))
            .hint("`--model lm_eval:hf` loads other weights through Python"))
    }
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

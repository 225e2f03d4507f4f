//! Finding the files of a model or tokenizer by name: in the cache, else on the hub.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use lmeval_core::{Diagnose as _, ModelError, ModelErrorKind};

use crate::cache::{is_repository, is_safe};
use crate::client::Client;
use crate::repository::{Kind, Repository, cached_snapshot};
use crate::settings::Settings;

/// The files to find in a model repository.
pub struct Wanted<'a> {
    /// For messages: `model` or `tokenizer`.
    pub noun: &'static str,
    /// Whether a snapshot folder has all files.
    pub is_complete: &'a dyn Fn(&Path) -> bool,
    /// Fetches the files. The files that [`is_complete`](Self::is_complete) looks for come last, so that an interrupted
    /// download does not look complete.
    pub fetch: &'a dyn Fn(&Repository) -> Result<(), ModelError>,
}

impl std::fmt::Debug for Wanted<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wanted").field("noun", &self.noun).finish_non_exhaustive()
    }
}

/// Returns the folder with the wanted files of a repository: its cached snapshot if complete, else a download.
pub fn locate(
    settings: &Settings,
    name: &str,
    revision: &str,
    wanted: &Wanted<'_>,
) -> Result<PathBuf, ModelError> {
    let noun = wanted.noun;
    let missing = |message: String| ModelError::new(ModelErrorKind::Missing, message);
    let folder = std::path::absolute(name).unwrap_or_else(|_| name.into());
    if !is_repository(name) || !is_safe(revision) {
        return Err(missing(format!("`{name}` is neither a folder with a {noun} nor a name on the hub"))
            .hint(format!("The folder `{}` does not exist", folder.display())));
    }
    let cached = cached_snapshot(settings, Kind::Model, name, revision);
    if let Some(snapshot) = cached.filter(|folder| (wanted.is_complete)(folder)) {
        return Ok(snapshot);
    }
    if settings.offline {
        let cache = settings.cache.display();
        let message = format!("The {noun} `{name}` is not in the cache `{cache}`, and offline mode is on");
        return Err(missing(message).hint("Run once without `HF_HUB_OFFLINE`, or copy the cache folder"));
    }
    let opened = Client::new(settings)
        .and_then(|client| Repository::open(&Arc::new(client), Kind::Model, name, revision))
        .map_err(ModelError::from);
    let repository = opened.map_err(|error| {
        let message = format!("The {noun} `{name}` is not cached and cannot be downloaded: {error}");
        let wrapped = error.hints().into_iter().fold(missing(message), ModelError::hint);
        let (folder, cache) = (folder.display(), settings.cache.display());
        wrapped.hint(format!("Looked for the folder `{folder}` and in the cache `{cache}`"))
    })?;
    (wanted.fetch)(&repository)?;
    Ok(repository.snapshot())
}

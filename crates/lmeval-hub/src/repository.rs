//! A repository at one commit: its files, and fetching them.

use std::path::PathBuf;
use std::sync::Arc;

use lmeval_pycompat::{Value, json};

use crate::cache::{RepositoryCache, is_commit, is_safe};
use crate::client::{Client, encode, encode_path, public};
use crate::download;
use crate::error::Error;
use crate::settings::Settings;

/// What a repository holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A data set.
    Dataset,
    /// A model: weights, a tokenizer, or both.
    Model,
}

impl Kind {
    /// The word of the hub's API and of the cache's folders.
    pub(crate) fn plural(self) -> &'static str {
        match self {
            Self::Dataset => "datasets",
            Self::Model => "models",
        }
    }

    /// What stands before the name in the address of a file.
    fn prefix(self) -> &'static str {
        match self {
            Self::Dataset => "/datasets",
            Self::Model => "",
        }
    }
}

/// A repository at one commit.
#[derive(Debug)]
pub struct Repository {
    client: Arc<Client>,
    cache: RepositoryCache,
    kind: Kind,
    id: String,
    commit: String,
    files: Vec<String>,
    /// Whether only the cache is used, by choice or because the hub does not answer.
    offline: bool,
}

/// The folder of a revision in the cache, if the cache knows the revision. Some files may be missing from it.
pub fn cached_snapshot(settings: &Settings, kind: Kind, id: &str, revision: &str) -> Option<PathBuf> {
    let cache = RepositoryCache::new(&settings.cache, kind, id);
    Some(cache.snapshot(&cache.commit(revision)?))
}

impl Repository {
    /// Resolves a revision to its commit and lists its files.
    pub fn open(client: &Arc<Client>, kind: Kind, id: &str, revision: &str) -> Result<Self, Error> {
        if client.settings().offline {
            return Err(offline(client, format!("{id} ({revision})")));
        }
        let cache = RepositoryCache::new(&client.settings().cache, kind, id);
        let api = format!("{}/api/{}/{}", client.settings().endpoint, kind.plural(), encode_path(id));
        let commit = commit_of(client, &format!("{api}/revision/{}", encode(revision)))?;
        cache.remember(revision, &commit)?;
        let files = list(client, format!("{api}/tree/{commit}?recursive=true&expand=false"))?;
        cache.remember_files(&commit, &files)?;
        Ok(Self { client: client.clone(), cache, kind, id: id.into(), commit, files, offline: false })
    }

    /// As [`Repository::open`]; offline, or if the hub cannot be reached, with what the cache has of the revision.
    pub fn open_or_cached(client: &Arc<Client>, kind: Kind, id: &str, revision: &str) -> Result<Self, Error> {
        let error = match Self::open(client, kind, id, revision) {
            Err(error @ (Error::Offline { .. } | Error::Connection { .. })) => error,
            opened => return opened,
        };
        let cache = RepositoryCache::new(&client.settings().cache, kind, id);
        let Some(commit) = cache.commit(revision) else { return Err(error) };
        let files = cache.files(&commit)?;
        Ok(Self { client: client.clone(), cache, kind, id: id.into(), commit, files, offline: true })
    }

    /// The name on the hub.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The files as relative paths, in name order.
    pub fn files(&self) -> &[String] {
        &self.files
    }

    /// Whether there is a file of that path.
    pub fn has(&self, path: &str) -> bool {
        self.files.binary_search_by(|known| known.as_str().cmp(path)).is_ok()
    }

    /// The folder of this commit in the cache, with the files that were fetched so far.
    pub fn snapshot(&self) -> PathBuf {
        self.cache.snapshot(&self.commit)
    }

    /// The place of a file in the cache, after a download if it is not there yet.
    pub fn fetch(&self, path: &str) -> Result<PathBuf, Error> {
        let kept = self.snapshot().join(path);
        if kept.is_file() {
            return Ok(kept);
        }
        if self.offline {
            return Err(offline(&self.client, format!("{}/{path}", self.id)));
        }
        let settings = self.client.settings();
        let Self { kind, id, commit, .. } = self;
        let (id, file) = (encode_path(id), encode_path(path));
        let url = format!("{}{}/{id}/resolve/{commit}/{file}", settings.endpoint, kind.prefix());
        download::fetch(&self.client, &self.cache, &url, commit, path)?;
        Ok(kept)
    }
}

fn offline(client: &Client, what: String) -> Error {
    Error::Offline { what, cache: client.settings().cache.clone() }
}

fn unreadable(url: &str, message: &str) -> Error {
    let message = format!("the answer cannot be used: {message}");
    Error::Status { url: public(url), status: 200, message }
}

fn commit_of(client: &Client, url: &str) -> Result<String, Error> {
    let (info, _) = client.json(url)?;
    let commit = info.as_dict().and_then(|info| info.get_str("sha")?.as_str().map(str::to_owned));
    commit.filter(|commit| is_commit(commit)).ok_or_else(|| unreadable(url, "it names no commit"))
}

/// The files of a commit, over as many pages as there are.
fn list(client: &Client, mut url: String) -> Result<Vec<String>, Error> {
    let mut files = Vec::new();
    loop {
        let (page, next) = client.json(&url)?;
        let Some(entries) = page.as_list() else {
            return Err(unreadable(&url, "expected a list of files"));
        };
        for entry in entries {
            let text = |key: &str| entry.as_dict().and_then(|entry| entry.get_str(key)?.as_str());
            if let (Some("file"), Some(path)) = (text("type"), text("path"))
                && is_safe(path)
            {
                files.push(path.to_owned());
            }
        }
        match next {
            Some(next) => url = next,
            None => break,
        }
    }
    files.sort_unstable();
    Ok(files)
}

/// Parses an answer of the hub.
pub(crate) fn parse(url: &str, body: &[u8]) -> Result<Value, Error> {
    std::str::from_utf8(body)
        .ok()
        .and_then(|text| json::loads(text).ok())
        .ok_or_else(|| unreadable(url, "it is not JSON"))
}

//! A repository at one commit: its file list and downloads.

use std::path::PathBuf;
use std::sync::Arc;

use lmeval_pycompat::{Value, json};

use crate::cache::{RepositoryCache, is_commit, is_safe};
use crate::client::{Client, encode, encode_path, public};
use crate::download;
use crate::error::Error;
use crate::settings::Settings;

/// The type of a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A dataset.
    Dataset,
    /// A model: weights, a tokenizer, or both.
    Model,
}

impl Kind {
    /// The name used in API paths and cache folder names.
    pub(crate) fn plural(self) -> &'static str {
        match self {
            Self::Dataset => "datasets",
            Self::Model => "models",
        }
    }

    /// The URL path before the repository name in file URLs.
    pub(crate) fn prefix(self) -> &'static str {
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
    /// Use only the cache: offline mode is on, or the hub is unreachable.
    offline: bool,
}

/// The snapshot folder of a revision in the cache, if the cache knows the revision. It may lack some files.
pub fn cached_snapshot(settings: &Settings, kind: Kind, id: &str, revision: &str) -> Option<PathBuf> {
    let cache = RepositoryCache::new(&settings.cache, kind, id);
    Some(cache.snapshot(&cache.commit(revision)?))
}

/// A branch or tag of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revision {
    /// Its name.
    pub name: String,
    /// The commit that it stands for now.
    pub commit: String,
}

/// Lists the branches and tags of a repository.
pub fn revisions(client: &Client, kind: Kind, id: &str) -> Result<Vec<Revision>, Error> {
    if client.settings().offline {
        return Err(offline(client, format!("the revisions of {id}")));
    }
    let url = format!("{}/api/{}/{}/refs", client.settings().endpoint, kind.plural(), encode_path(id));
    let (answer, _) = client.json(&url)?;
    let Some(refs) = answer.as_dict() else { return Err(unreadable(&url, "expected branches and tags")) };
    let lists = ["branches", "tags"].into_iter().filter_map(|list| refs.get_str(list)?.as_list());
    let text = |entry: &Value, key: &str| entry.as_dict()?.get_str(key)?.as_str().map(str::to_owned);
    let found = lists.flatten().filter_map(|entry| {
        let commit = text(entry, "targetCommit").filter(|commit| is_commit(commit))?;
        Some(Revision { name: text(entry, "name")?, commit })
    });
    Ok(found.collect())
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
        cache.save_commit(revision, &commit)?;
        let files = list(client, format!("{api}/tree/{commit}?recursive=true&expand=false"))?;
        cache.save_files(&commit, &files)?;
        Ok(Self { client: client.clone(), cache, kind, id: id.into(), commit, files, offline: false })
    }

    /// Like [`Repository::open`], but falls back to the cache if offline mode is on or the hub is unreachable.
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

    /// The repository name: `name` or `owner/name`.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The sorted relative paths of all files.
    pub fn files(&self) -> &[String] {
        &self.files
    }

    /// Whether the repository has a file at this path.
    pub fn has(&self, path: &str) -> bool {
        self.files.binary_search_by(|known| known.as_str().cmp(path)).is_ok()
    }

    /// The snapshot folder of this commit, with the files fetched so far.
    pub fn snapshot(&self) -> PathBuf {
        self.cache.snapshot(&self.commit)
    }

    /// Returns the path of a file in the cache, downloading it first if needed.
    pub fn fetch(&self, path: &str) -> Result<PathBuf, Error> {
        let cached = self.snapshot().join(path);
        if cached.is_file() {
            return Ok(cached);
        }
        if self.offline {
            return Err(offline(&self.client, format!("{}/{path}", self.id)));
        }
        let settings = self.client.settings();
        let Self { kind, id, commit, .. } = self;
        let (id, file) = (encode_path(id), encode_path(path));
        let url = format!("{}{}/{id}/resolve/{commit}/{file}", settings.endpoint, kind.prefix());
        download::fetch(&self.client, &self.cache, &url, commit, path)?;
        Ok(cached)
    }
}

fn offline(client: &Client, what: String) -> Error {
    Error::Offline { what, cache: client.settings().cache.clone() }
}

fn unreadable(url: &str, message: &str) -> Error {
    let message = format!("unexpected response: {message}");
    Error::Status { url: public(url), status: 200, message }
}

fn commit_of(client: &Client, url: &str) -> Result<String, Error> {
    let (info, _) = client.json(url)?;
    let commit = info.as_dict().and_then(|info| info.get_str("sha")?.as_str().map(str::to_owned));
    commit.filter(|commit| is_commit(commit)).ok_or_else(|| unreadable(url, "it has no commit hash"))
}

/// Lists the files of a commit, following pagination.
fn list(client: &Client, mut url: String) -> Result<Vec<String>, Error> {
    let mut files = Vec::new();
    loop {
        let (page, next) = client.json(&url)?;
        let Some(entries) = page.as_list() else {
            return Err(unreadable(&url, "expected a list of files"));
        };
        for entry in entries {
            let field = |key: &str| entry.as_dict().and_then(|entry| entry.get_str(key)?.as_str());
            if let (Some("file"), Some(path)) = (field("type"), field("path"))
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

/// Parses a JSON response.
pub(crate) fn parse(url: &str, body: &[u8]) -> Result<Value, Error> {
    std::str::from_utf8(body)
        .ok()
        .and_then(|body| json::loads(body).ok())
        .ok_or_else(|| unreadable(url, "it is not JSON"))
}

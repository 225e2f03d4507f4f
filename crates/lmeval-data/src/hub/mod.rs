//! The hub: repositories of data sets, asked for over HTTP and kept in a cache on disk.

mod cache;
mod client;
mod download;

use std::sync::Arc;

use lmeval_pycompat::{Value, json};

use crate::error::{Error, ErrorKind};
use crate::file::DataFile;
use crate::glob;
use crate::settings::Settings;
use crate::tree::Tree;

use cache::RepositoryCache;
pub(crate) use client::Client;
pub(crate) use download::fetch_address;

/// The branch with the copy of every data set that the hub has converted.
pub(crate) const CONVERTED: &str = "refs/convert/parquet";

/// A repository at one commit.
pub(crate) struct Repository {
    client: Arc<Client>,
    cache: RepositoryCache,
    id: String,
    commit: String,
    files: Vec<String>,
    /// Whether only the cache is used, be it by choice or because the hub does not answer.
    offline: bool,
}

impl Repository {
    /// Finds the commit of a revision and lists its files. Where the hub cannot be reached, what the cache
    /// has of the revision is used.
    pub(crate) fn open(client: &Arc<Client>, id: &str, revision: &str) -> Result<Self, Error> {
        let cache = RepositoryCache::new(&client.settings().cache, id);
        let open_cached = |error: Option<Error>| {
            let Some(commit) = cache.commit(revision) else {
                let what = format!("{id} ({revision})");
                return Err(error.unwrap_or_else(|| {
                    ErrorKind::Offline { what, cache: client.settings().cache.clone() }.into()
                }));
            };
            let files = glob::list_folder(&cache.snapshot(&commit))?;
            let cache = cache.clone();
            Ok(Self { client: client.clone(), cache, id: id.into(), commit, files, offline: true })
        };
        if client.settings().offline {
            return open_cached(None);
        }
        let commit = match commit_of(client, id, revision) {
            Ok(commit) => commit,
            Err(error) if matches!(error.kind(), ErrorKind::Connection { .. }) => {
                return open_cached(Some(error));
            }
            Err(error) => return Err(error),
        };
        cache.remember(revision, &commit)?;
        let files = list(client, id, &commit)?;
        Ok(Self { client: client.clone(), cache, id: id.into(), commit, files, offline: false })
    }
}

fn api(settings: &Settings, id: &str) -> String {
    format!("{}/api/datasets/{}", settings.endpoint, client::encode_path(id))
}

fn commit_of(client: &Client, id: &str, revision: &str) -> Result<String, Error> {
    let url = format!("{}/revision/{}", api(client.settings(), id), client::encode(revision));
    let (info, _) = client.json(&url)?;
    let commit = info.as_dict().and_then(|info| info.get_str("sha")?.as_str().map(str::to_owned));
    commit.filter(|commit| cache::is_commit(commit)).ok_or_else(|| unreadable(&url, "it names no commit"))
}

fn unreadable(url: &str, message: &str) -> Error {
    ErrorKind::Status {
        url: url.into(),
        status: 200,
        message: format!("the answer cannot be used: {message}"),
    }
    .into()
}

/// The files of a commit, over as many pages as there are.
fn list(client: &Client, id: &str, commit: &str) -> Result<Vec<String>, Error> {
    let mut url = format!("{}/tree/{commit}?recursive=true&expand=false", api(client.settings(), id));
    let mut files = Vec::new();
    loop {
        let (page, next) = client.json(&url)?;
        let Some(entries) = page.as_list() else {
            return Err(unreadable(&url, "expected a list of files"));
        };
        for entry in entries {
            let text = |key: &str| entry.as_dict().and_then(|entry| entry.get_str(key)?.as_str());
            if let (Some("file"), Some(path)) = (text("type"), text("path"))
                && cache::is_safe(path)
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

impl Tree for Repository {
    fn place(&self) -> &str {
        &self.id
    }

    fn files(&self) -> &[String] {
        &self.files
    }

    fn open(&self, path: &str) -> Result<DataFile, Error> {
        let kept = self.cache.snapshot(&self.commit).join(path);
        if !kept.is_file() {
            if self.offline {
                let what = format!("{}/{path}", self.id);
                return Err(ErrorKind::Offline { what, cache: self.client.settings().cache.clone() }.into());
            }
            download::fetch(&self.client, &self.cache, &self.id, &self.commit, path)?;
        }
        DataFile::open(&kept)
    }
}

/// Parses an answer of the hub.
fn parse(url: &str, body: &[u8]) -> Result<Value, Error> {
    std::str::from_utf8(body)
        .ok()
        .and_then(|text| json::loads(text).ok())
        .ok_or_else(|| unreadable(url, "it is not JSON"))
}

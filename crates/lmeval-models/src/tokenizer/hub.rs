//! Where the files of a tokenizer are: in a folder, in the hub's cache, or on the hub.

use std::env;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lmeval_core::{ModelError, ModelErrorKind};
use reqwest::{Client, Response, StatusCode, redirect};
use secrecy::{ExposeSecret, SecretString};

use super::huggingface::{FILE, PARTS};

/// The files that may stand beside a tokenizer.
const OTHERS: [&str; 4] =
    ["tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja", "config.json"];

/// How the hub is reached and where its files are kept.
#[derive(Clone, Debug)]
pub struct HubSettings {
    /// The address.
    pub endpoint: String,
    /// The folder with one folder for each repository.
    pub cache: PathBuf,
    /// The token, for private repositories.
    pub token: Option<SecretString>,
    /// Whether nothing may be downloaded.
    pub offline: bool,
}

/// What asks the hub: without following redirections, and following them.
pub(super) struct Clients {
    heads: Client,
    bodies: Client,
}

impl Clients {
    pub(super) fn new() -> Result<Self, ModelError> {
        let client = |redirects| {
            Client::builder()
                .redirect(redirects)
                .connect_timeout(Duration::from_mins(1))
                .read_timeout(Duration::from_mins(1))
                .build()
                .map_err(|error| missing(format!("The hub cannot be asked: {error}")))
        };
        Ok(Self { heads: client(redirect::Policy::none())?, bodies: client(redirect::Policy::default())? })
    }
}

impl HubSettings {
    /// What environment variables and the token file say, as `huggingface_hub` reads them.
    pub fn from_environment() -> Self {
        let set = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
        let is_true = |name: &str| {
            set(name)
                .is_some_and(|value| matches!(value.to_uppercase().as_str(), "1" | "ON" | "YES" | "TRUE"))
        };
        let user =
            set("HOME").or_else(|| set("USERPROFILE")).map_or_else(|| PathBuf::from("."), PathBuf::from);
        let path = |value: String| match value.strip_prefix("~/") {
            Some(below) => user.join(below),
            None => PathBuf::from(value),
        };
        let home = set("HF_HOME").map_or_else(
            || set("XDG_CACHE_HOME").map_or_else(|| user.join(".cache"), &path).join("huggingface"),
            &path,
        );
        let cache = ["HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "TRANSFORMERS_CACHE"]
            .into_iter()
            .find_map(set)
            .map(&path);
        let token_file = set("HF_TOKEN_PATH").map_or_else(|| home.join("token"), &path);
        let stored = || fs_err::read_to_string(&token_file).ok();
        let token = set("HF_TOKEN").or_else(|| set("HUGGING_FACE_HUB_TOKEN")).or_else(stored);
        let token = token.map(|token| token.trim().to_owned()).filter(|token| !token.is_empty());
        Self {
            endpoint: set("HF_ENDPOINT").map_or_else(
                || "https://huggingface.co".into(),
                |text| text.trim_end_matches('/').to_owned(),
            ),
            cache: cache.unwrap_or_else(|| home.join("hub")),
            token: token.map(SecretString::from),
            offline: ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"].into_iter().any(is_true),
        }
    }

    /// The folder with a tokenizer's files: the folder of that name, else what the cache has, else a download.
    pub async fn locate(&self, name: &str, revision: &str) -> Result<PathBuf, ModelError> {
        self.locate_tokenizer(name, revision).await.map_err(|error| {
            error.hint("Give the model's tokenizer as `tokenizer=<name on the hub or folder>`").hint(
                "Or use the server's: `tokenizer_backend=remote`; generation works with `tokenizer_backend=none`",
            )
        })
    }

    async fn locate_tokenizer(&self, name: &str, revision: &str) -> Result<PathBuf, ModelError> {
        let folder = Path::new(name);
        if folder.is_dir() {
            return if is_complete(folder) {
                Ok(folder.to_owned())
            } else {
                Err(missing(format!("The folder `{name}` has {}", lacking())).hint(
                    "`AutoTokenizer.from_pretrained(…).save_pretrained(…)` writes one from older files",
                ))
            };
        }
        if !is_repository(name) || !is_safe(revision) {
            return Err(missing(format!(
                "`{name}` is neither a folder with a tokenizer nor a name on the hub"
            ))
            .hint(format!("There is no folder `{}`", absolute(folder).display())));
        }
        if let Some(snapshot) = self.cached(name, revision) {
            return Ok(snapshot);
        }
        if self.offline {
            let message = format!(
                "The tokenizer of `{name}` is not in the cache `{}`, and nothing may be downloaded",
                self.cache.display()
            );
            return Err(missing(message).hint("Run once without `HF_HUB_OFFLINE`, or copy the cache folder"));
        }
        self.download(name, revision).await.map_err(|error| {
            let told = missing(format!("There is no local copy of the tokenizer of `{name}`: {error}"));
            let told = error.hints().iter().fold(told, |told, hint| told.hint(hint.as_str()));
            told.hint(format!(
                "Looked for the folder `{}`, and in the cache `{}`",
                absolute(folder).display(),
                self.cache.display()
            ))
        })
    }

    pub(super) fn repository(&self, name: &str) -> PathBuf {
        self.cache.join(format!("models--{}", name.replace('/', "--")))
    }

    fn cached(&self, name: &str, revision: &str) -> Option<PathBuf> {
        let repository = self.repository(name);
        let commit = match fs_err::read_to_string(repository.join("refs").join(revision)) {
            Ok(commit) => commit.trim().to_owned(),
            Err(_) => revision.to_owned(),
        };
        let snapshot = repository.join("snapshots").join(commit);
        is_complete(&snapshot).then_some(snapshot)
    }

    async fn download(&self, name: &str, revision: &str) -> Result<PathBuf, ModelError> {
        let clients = Clients::new()?;
        let mut found = self.fetch(&clients, name, revision, FILE).await?;
        if found.is_none() {
            for file in PARTS {
                found = self.fetch(&clients, name, revision, file).await?.or(found);
            }
        }
        let Some(snapshot) = found.filter(|folder| is_complete(folder)) else {
            let message = format!("`{name}` at revision `{revision}` on the hub has {}", lacking());
            return Err(missing(message));
        };
        for file in OTHERS {
            self.fetch(&clients, name, revision, file).await?;
        }
        Ok(snapshot)
    }

    /// Downloads a file of a repository into the cache, if it is there; the folder that it is in.
    pub(super) async fn fetch(
        &self,
        clients: &Clients,
        name: &str,
        revision: &str,
        file: &str,
    ) -> Result<Option<PathBuf>, ModelError> {
        let repository = self.repository(name);
        let url = format!("{}/{name}/resolve/{revision}/{file}", self.endpoint);
        // The commit and the hash of the content stand before the redirection to where large files are.
        let head = self.send(clients.heads.head(&url), name).await?;
        if head.status() == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        refuse(&head, name, revision)?;
        let header = |key: &str| head.headers().get(key)?.to_str().ok().map(str::to_owned);
        let commit = header("x-repo-commit").filter(|commit| is_safe(commit));
        let etag = header("x-linked-etag").or_else(|| header("etag"));
        let etag = etag.map(|etag| etag.trim_start_matches("W/").trim_matches('"').to_owned());
        let (Some(commit), Some(etag)) = (commit, etag.filter(|etag| is_safe(etag))) else {
            return Err(missing(format!("`{url}` does not answer as the hub does"))
                .hint("Check `HF_ENDPOINT`, or give a folder instead of a name"));
        };
        let not_stored =
            |error: std::io::Error| missing(format!("`{file}` of `{name}` cannot be stored: {error}"));
        let folder = repository.join("snapshots").join(&commit);
        let blob = repository.join("blobs").join(&etag);
        if !blob.is_file() {
            let body = self.send(clients.bodies.get(&url), name).await?;
            refuse(&body, name, revision)?;
            self.store(body, &blob, name, not_stored).await?;
        }
        keep(&folder, file, &etag, &blob)
            .and_then(|()| remember(&repository, revision, &commit))
            .map_err(not_stored)?;
        Ok(Some(folder))
    }

    /// Writes a body piece by piece, such that no reader ever sees a part of it.
    async fn store(
        &self,
        mut body: Response,
        blob: &Path,
        name: &str,
        not_stored: impl Fn(std::io::Error) -> ModelError,
    ) -> Result<(), ModelError> {
        let mut unfinished = blob.as_os_str().to_owned();
        unfinished.push(format!(".{}.incomplete", std::process::id()));
        let unfinished = PathBuf::from(unfinished);
        let expected = body.content_length();
        let create = || {
            fs_err::create_dir_all(blob.parent().unwrap_or(blob))?;
            fs_err::File::create(&unfinished)
        };
        let mut file = create().map_err(&not_stored)?;
        let mut written = 0;
        while let Some(piece) = body.chunk().await.map_err(|error| not_downloaded(name, &error))? {
            file.write_all(&piece).map_err(&not_stored)?;
            written += piece.len() as u64;
        }
        if expected.is_some_and(|expected| expected != written) {
            return Err(missing(format!("The download of `{name}` ended after {written} bytes")));
        }
        file.sync_all().and_then(|()| fs_err::rename(&unfinished, blob)).map_err(not_stored)
    }

    async fn send(&self, request: reqwest::RequestBuilder, name: &str) -> Result<Response, ModelError> {
        let request = match &self.token {
            Some(token) => request.bearer_auth(token.expose_secret()),
            None => request,
        };
        request.send().await.map_err(|error| not_downloaded(name, &error))
    }
}

/// A path as it is on this machine.
pub(super) fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

fn missing(message: String) -> ModelError {
    ModelError::new(ModelErrorKind::Configuration, message)
}

fn not_downloaded(name: &str, error: &reqwest::Error) -> ModelError {
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    missing(format!("`{name}` cannot be downloaded: {cause}"))
}

/// Turns an answer that is no file into an error.
fn refuse(answer: &Response, name: &str, revision: &str) -> Result<(), ModelError> {
    let status = answer.status();
    if status.is_success() || status.is_redirection() {
        return Ok(());
    }
    let error = match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            missing(format!("The hub does not give out `{name}` ({status})"))
                .hint("Check the spelling; for a private or gated model set `HF_TOKEN` and accept its terms")
        }
        StatusCode::NOT_FOUND => {
            missing(format!("There is no such file of `{name}` at revision `{revision}` on the hub"))
        }
        status => missing(format!("The hub answers {status} for `{name}`")),
    };
    Err(error)
}

/// Whether a text can be the name of a repository: `name` or `owner/name`.
pub(super) fn is_repository(name: &str) -> bool {
    is_safe(name)
        && name.split('/').count() <= 2
        && !name.contains(['\\', ' '])
        && !name.starts_with(['~', '-'])
}

/// Whether a path stays below the folder that it is joined to.
pub(super) fn is_safe(path: &str) -> bool {
    !path.is_empty()
        && !path.contains([':', '\\'])
        && path.split('/').all(|part| !part.is_empty() && part != "." && part != "..")
}

/// Makes a file known as the hub's own client does: the content lies by its hash, a link to it by its name.
fn keep(snapshot: &Path, file: &str, etag: &str, blob: &Path) -> std::io::Result<()> {
    fs_err::create_dir_all(snapshot)?;
    let pointer = snapshot.join(file);
    if pointer.is_symlink() || pointer.is_file() {
        fs_err::remove_file(&pointer)?;
    }
    link(&format!("../../blobs/{etag}"), &pointer).or_else(|_| fs_err::copy(blob, &pointer).map(|_| ()))
}

fn remember(repository: &Path, revision: &str, commit: &str) -> std::io::Result<()> {
    if revision == commit {
        return Ok(());
    }
    let path = repository.join("refs").join(revision);
    fs_err::create_dir_all(path.parent().unwrap_or(repository))?;
    replace(&path, commit.as_bytes())
}

/// Writes a file such that no reader ever sees a part of it.
fn replace(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(format!(".{}.incomplete", std::process::id()));
    fs_err::write(&unfinished, content)?;
    fs_err::rename(&unfinished, path)
}

#[cfg(unix)]
fn link(target: &str, pointer: &Path) -> std::io::Result<()> {
    fs_err::os::unix::fs::symlink(target, pointer)
}

#[cfg(not(unix))]
fn link(_target: &str, _pointer: &Path) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}
/// Whether a folder has what a tokenizer is made of.
fn is_complete(folder: &Path) -> bool {
    let has = |name: &str| folder.join(name).is_file();
    has(FILE) || PARTS.into_iter().all(has)
}

fn lacking() -> String {
    format!("neither the tokenizer `{FILE}` nor both of `{}` and `{}`", PARTS[0], PARTS[1])
}

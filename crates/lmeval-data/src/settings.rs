//! What the environment says about data: where the hub and the cache are, and who asks.

use std::env;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;

/// Reads a file that is part of the program; its path starts with `builtin:`.
pub type VirtualFiles = fn(&Path) -> Option<&'static [u8]>;

/// Everything outside a [`Request`](crate::Request) that decides on how data is found.
#[derive(Clone)]
pub struct Settings {
    /// The address of the hub, without a slash at the end.
    pub endpoint: String,
    /// The folder of the hub's cache, which is shared with Python processes.
    pub cache: PathBuf,
    /// The token that is sent to the hub, and nowhere else.
    pub token: Option<SecretString>,
    /// Whether only the cache is used.
    pub offline: bool,
    /// The folder that relative paths are looked up in first.
    pub working_directory: PathBuf,
    /// Files that are part of the program.
    pub virtual_files: Option<VirtualFiles>,
    /// Who is told about downloads.
    pub progress: Arc<dyn Progress>,
    /// The number of times that a request without an answer is sent.
    pub attempts: u32,
    /// The wait before the second attempt; it doubles from then on.
    pub first_wait: Duration,
}

/// Is told about downloads. Nothing is printed by this crate.
pub trait Progress: Send + Sync {
    /// A download begins; `done` bytes are there from an earlier run.
    fn start(&self, _file: &str, _done: u64, _total: Option<u64>) {}

    /// More bytes have come.
    fn advance(&self, _file: &str, _bytes: u64) {}

    /// A download is complete.
    fn finish(&self, _file: &str) {}

    /// There is no local copy of a data set in these folders, so the hub is asked.
    fn no_local_copy(&self, _dataset: &str, _looked_in: &[PathBuf]) {}

    /// A request failed and is sent again after a wait.
    fn retry(&self, _what: &str, _reason: &str, _wait: Duration) {}
}

/// Is told about downloads and does nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoProgress;

impl Progress for NoProgress {}

impl Settings {
    /// The settings that environment variables and the token file give.
    ///
    /// `HF_ENDPOINT`, `HF_HOME`, `HF_HUB_CACHE`, `HF_TOKEN`, `HF_TOKEN_PATH`, `HF_HUB_OFFLINE` and their older
    /// spellings mean what they mean to `huggingface_hub`.
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
        let cache = set("HF_HUB_CACHE").or_else(|| set("HUGGINGFACE_HUB_CACHE"));
        let token_file = set("HF_TOKEN_PATH").map_or_else(|| home.join("token"), &path);
        let stored = || {
            let implicit = !is_true("HF_HUB_DISABLE_IMPLICIT_TOKEN");
            implicit.then(|| fs_err::read_to_string(&token_file).ok()).flatten()
        };
        let token = set("HF_TOKEN").or_else(|| set("HUGGING_FACE_HUB_TOKEN")).or_else(stored);
        let token = token.map(|token| token.trim().to_owned()).filter(|token| !token.is_empty());
        Self {
            endpoint: set("HF_ENDPOINT").map_or_else(
                || "https://huggingface.co".into(),
                |text| text.trim_end_matches('/').to_owned(),
            ),
            cache: cache.map_or_else(|| home.join("hub"), &path),
            token: token.map(SecretString::from),
            offline: ["HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE"]
                .into_iter()
                .any(is_true),
            working_directory: env::current_dir().unwrap_or_else(|_| PathBuf::from(".")),
            virtual_files: None,
            progress: Arc::new(NoProgress),
            attempts: 5,
            first_wait: Duration::from_secs(1),
        }
    }

    /// Settings that use nothing of the environment: no token, and a cache and working directory as given.
    pub fn isolated(endpoint: &str, cache: &Path, working_directory: &Path) -> Self {
        Self {
            endpoint: endpoint.trim_end_matches('/').into(),
            cache: cache.into(),
            token: None,
            offline: false,
            working_directory: working_directory.into(),
            virtual_files: None,
            progress: Arc::new(NoProgress),
            attempts: 5,
            first_wait: Duration::from_secs(1),
        }
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("endpoint", &self.endpoint)
            .field("cache", &self.cache)
            .field("token", &self.token)
            .field("offline", &self.offline)
            .field("working_directory", &self.working_directory)
            .finish_non_exhaustive()
    }
}

//! Endpoint, cache and credentials of the hub.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lmeval_core::{DownloadProgress, NoProgress};
use secrecy::SecretString;

use crate::client::public;
use crate::repository::Kind;

/// Endpoint, cache, credentials and retry policy of a [`Client`](crate::Client).
#[derive(Clone)]
pub struct Settings {
    /// The URL of the hub or a mirror, without a trailing slash.
    pub endpoint: String,
    /// The cache folder, shared with Python's `huggingface_hub`.
    pub cache: PathBuf,
    /// The access token. It is sent to the hub's origin only.
    pub token: Option<SecretString>,
    /// Use only the cache.
    pub offline: bool,
    /// Receives download progress.
    pub progress: Arc<dyn DownloadProgress>,
    /// How often a failing request is sent in total.
    pub attempts: u32,
    /// The delay before the second attempt. It doubles with each further attempt.
    pub first_wait: Duration,
}

impl Settings {
    /// Reads environment variables and the token file, like `huggingface_hub`.
    ///
    /// `HF_DATASETS_OFFLINE` applies to datasets only, and `TRANSFORMERS_CACHE` to models only.
    pub fn from_environment(kind: Kind) -> Self {
        Self::from_variables(kind, |name| std::env::var(name).ok())
    }

    fn from_variables(kind: Kind, get: impl Fn(&str) -> Option<String>) -> Self {
        let set = |name: &str| get(name).filter(|value| !value.is_empty());
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
        let (own_cache, own_offline) = match kind {
            Kind::Dataset => (None, is_true("HF_DATASETS_OFFLINE")),
            Kind::Model => (set("TRANSFORMERS_CACHE"), false),
        };
        let cache = set("HF_HUB_CACHE").or_else(|| set("HUGGINGFACE_HUB_CACHE")).or(own_cache);
        let endpoint = set("HF_ENDPOINT").unwrap_or_else(|| "https://huggingface.co".into());
        let mut settings = Self::isolated(&endpoint, &cache.map_or_else(|| home.join("hub"), &path));
        // Reference: the opt-out covers every token not passed with the call, including `HF_TOKEN`.
        if !is_true("HF_HUB_DISABLE_IMPLICIT_TOKEN") {
            let file = set("HF_TOKEN_PATH").map_or_else(|| home.join("token"), &path);
            let token = set("HF_TOKEN")
                .or_else(|| set("HUGGING_FACE_HUB_TOKEN"))
                .or_else(|| fs_err::read_to_string(&file).ok());
            let token = token.map(|token| token.trim().to_owned()).filter(|token| !token.is_empty());
            settings.token = token.map(SecretString::from);
        }
        settings.offline = own_offline || is_true("HF_HUB_OFFLINE") || is_true("TRANSFORMERS_OFFLINE");
        settings
    }

    /// Sets the receiver of download progress, if there is one.
    pub fn reporting_to(mut self, progress: Option<&Arc<dyn DownloadProgress>>) -> Self {
        if let Some(progress) = progress {
            self.progress = Arc::clone(progress);
        }
        self
    }

    /// Settings independent of the environment: no token, online, default retries.
    pub fn isolated(endpoint: &str, cache: &Path) -> Self {
        Self {
            endpoint: endpoint.trim_end_matches('/').into(),
            cache: cache.into(),
            token: None,
            offline: false,
            progress: Arc::new(NoProgress),
            attempts: 5,
            first_wait: Duration::from_secs(1),
        }
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("endpoint", &public(&self.endpoint))
            .field("cache", &self.cache)
            .field("token", &self.token)
            .field("offline", &self.offline)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use secrecy::ExposeSecret;

    fn read(kind: Kind, variables: &[(&str, &str)]) -> Settings {
        let find = |name: &str| variables.iter().find(|(known, _)| *known == name);
        Settings::from_variables(kind, |name| find(name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn endpoint_and_cache_follow_variables() {
        let settings = read(Kind::Model, &[("HOME", "/h")]);
        assert_eq!(settings.endpoint, "https://huggingface.co");
        assert_eq!(settings.cache, Path::new("/h/.cache/huggingface/hub"));
        assert!(!settings.offline && settings.token.is_none());
        let mirror =
            read(Kind::Dataset, &[("HF_ENDPOINT", "http://mirror/hub/"), ("HF_HOME", "~/x"), ("HOME", "/h")]);
        assert_eq!(mirror.endpoint, "http://mirror/hub");
        assert_eq!(mirror.cache, Path::new("/h/x/hub"));
        let old = [("TRANSFORMERS_CACHE", "/old"), ("XDG_CACHE_HOME", "/c")];
        assert_eq!(read(Kind::Model, &old).cache, Path::new("/old"));
        assert_eq!(read(Kind::Dataset, &old).cache, Path::new("/c/huggingface/hub"));
        let both = [("TRANSFORMERS_CACHE", "/old"), ("HF_HUB_CACHE", "/new")];
        assert_eq!(read(Kind::Model, &both).cache, Path::new("/new"));
    }

    #[test]
    fn offline_variables_apply_per_kind() {
        let offline = |kind, name: &str| read(kind, &[(name, "true")]).offline;
        for kind in [Kind::Dataset, Kind::Model] {
            assert!(offline(kind, "HF_HUB_OFFLINE") && offline(kind, "TRANSFORMERS_OFFLINE"));
            assert!(!read(kind, &[("HF_HUB_OFFLINE", "0")]).offline);
        }
        assert!(offline(Kind::Dataset, "HF_DATASETS_OFFLINE"));
        assert!(!offline(Kind::Model, "HF_DATASETS_OFFLINE"));
    }

    #[test]
    fn tokens_and_the_opt_out() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        fs_err::write(&file, "stored\n").unwrap();
        let home = ("HF_HOME", folder.path().to_str().unwrap());
        let token = |variables: &[(&str, &str)]| {
            let settings = read(Kind::Model, &[variables, &[home]].concat());
            settings.token.map(|token| token.expose_secret().to_owned())
        };
        assert_eq!(token(&[]).as_deref(), Some("stored"));
        assert_eq!(token(&[("HF_TOKEN", " given ")]).as_deref(), Some("given"));
        assert_eq!(token(&[("HF_TOKEN_PATH", "/missing")]), None);
        let mirror = read(Kind::Model, &[("HF_ENDPOINT", "http://user:pass@mirror"), ("HF_TOKEN", "given")]);
        let shown = format!("{mirror:?}");
        assert!(!shown.contains("pass") && !shown.contains("given"), "{shown}");
        let opt_out = ("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1");
        assert_eq!(token(&[opt_out]), None);
        assert_eq!(token(&[opt_out, ("HF_TOKEN", "given")]), None);
    }
}

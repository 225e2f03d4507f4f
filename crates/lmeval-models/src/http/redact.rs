//! Masks secrets in messages.

use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use bytes::Bytes;
use lmeval_core::secrets::{self, MASK};
use lmeval_core::{Diagnose as _, ModelError};
use reqwest::Url;
use secrecy::{ExposeSecret, SecretString};

use super::connect::encoded_credentials;

/// Strings that must not appear in messages.
pub(super) struct Secrets(RwLock<Vec<Secret>>);

struct Secret {
    text: SecretString,
    /// Whether it is masked in model answers as well.
    is_key: bool,
}

impl Secrets {
    /// Collects the secrets of headers and URLs, and registers the keys process-wide.
    pub(super) fn new(headers: &[(String, SecretString)], urls: &[String]) -> Self {
        Self(RwLock::new(collect(headers, urls)))
    }

    /// Adds the secrets of more URLs.
    pub(super) fn add(&self, urls: &[String]) {
        let more = collect(&[], urls);
        if more.is_empty() {
            return;
        }
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        for secret in more {
            if !all.iter().any(|known| known.text.expose_secret() == secret.text.expose_secret()) {
                all.push(secret);
            }
        }
        all.sort_by_key(|secret| std::cmp::Reverse(secret.text.expose_secret().len()));
    }

    fn all(&self) -> RwLockReadGuard<'_, Vec<Secret>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Masks every secret in a string.
    pub(super) fn mask(&self, mut text: String) -> String {
        for Secret { text: secret, .. } in self.all().iter() {
            if text.contains(secret.expose_secret()) {
                text = text.replace(secret.expose_secret(), MASK);
            }
        }
        text
    }

    /// Length in bytes of the longest secret.
    pub(super) fn longest(&self) -> usize {
        self.all().first().map_or(0, |secret| secret.text.expose_secret().len())
    }

    /// Masks keys that a server echoes in an answer, because answers are stored.
    pub(super) fn mask_answer(&self, body: Bytes) -> Bytes {
        let all = self.all();
        let holds_key =
            |text: &str| all.iter().any(|secret| secret.is_key && text.contains(secret.text.expose_secret()));
        match std::str::from_utf8(&body) {
            Ok(text) if holds_key(text) => {
                let keys = all.iter().filter(|secret| secret.is_key);
                let masked =
                    keys.fold(text.to_owned(), |text, key| text.replace(key.text.expose_secret(), MASK));
                masked.into()
            }
            _ => body,
        }
    }

    /// Masks every secret in an error and its hints.
    pub(super) fn mask_error(&self, error: &ModelError) -> ModelError {
        let masked = ModelError::new(error.kind(), self.mask(error.to_string()));
        error.hints().into_iter().fold(masked, |masked, hint| masked.hint(self.mask(hint)))
    }
}

/// The secrets of headers and URLs; keys are registered process-wide.
fn collect(headers: &[(String, SecretString)], urls: &[String]) -> Vec<Secret> {
    let mut found: Vec<(String, bool)> = Vec::new();
    for (name, value) in headers.iter().filter(|(name, _)| !secrets::is_public_header(name)) {
        let value = value.expose_secret().trim();
        found.push((value.to_owned(), secrets::is_secret(name)));
        // The scheme, such as `Bearer`, is public; the rest is the secret.
        found.extend(value.split_once(' ').map(|(_, key)| (key.trim().to_owned(), secrets::is_secret(name))));
    }
    for url in urls.iter().filter_map(|url| Url::parse(url).ok()) {
        if let Some(password) = url.password() {
            found.extend([(password.to_owned(), true), (encoded_credentials(&url), true)]);
        }
        let is_key = |name: &str| !name.ends_with("version");
        found.extend(url.query_pairs().map(|(name, value)| (value.into_owned(), is_key(&name))));
    }
    found.retain(|(secret, _)| secrets::is_hidden_in_responses(secret));
    // Longest first, so that masking a shorter secret does not leave part of a longer one.
    found.sort_by_key(|(secret, _)| std::cmp::Reverse(secret.len()));
    found.dedup();
    for (secret, _) in found.iter().filter(|(_, is_key)| *is_key) {
        secrets::remember(secret);
    }
    let secret = |(text, is_key): (String, bool)| Secret {
        is_key: is_key && secrets::is_credential(&text),
        text: SecretString::from(text),
    };
    found.into_iter().map(secret).collect()
}

/// A URL for messages, without credentials and query values.
pub fn public_url(url: &str) -> String {
    let Ok(mut parsed) = Url::parse(url) else {
        return "an invalid URL".into();
    };
    // These fail only for URLs that cannot have credentials.
    let _ = parsed.set_password(None);
    let _ = parsed.set_username("");
    parsed.set_fragment(None);
    if parsed.query().is_some() {
        let names: Vec<String> = parsed.query_pairs().map(|(name, _)| format!("{name}={MASK}")).collect();
        parsed.set_query(Some(&names.join("&")));
    }
    parsed.into()
}

#[cfg(test)]
mod tests {
    use lmeval_core::ModelErrorKind;

    use super::*;

    #[test]
    fn public_urls_hide_secrets() {
        assert_eq!(
            public_url("https://me:pass@host/v1?key=abc&api-version=2#x"),
            "https://host/v1?key=***&api-version=***"
        );
        assert_eq!(public_url("http://host:8000/v1/completions"), "http://host:8000/v1/completions");
        assert_eq!(public_url("sk-not-an-address"), "an invalid URL");
    }

    #[test]
    fn masks_every_form_of_a_secret() {
        let headers = [
            ("Authorization".to_owned(), SecretString::from("Bearer sk-12345")),
            ("x-api-key".to_owned(), SecretString::from("sk-12345-longer")),
            ("Content-Type".to_owned(), SecretString::from("application/json")),
        ];
        let secrets = Secrets::new(&headers, &["http://u:hunter2@host/?key=querykey".to_owned()]);
        let text = "sk-12345 Bearer sk-12345 sk-12345-longer hunter2 querykey application/json";
        assert_eq!(secrets.mask(text.to_owned()), "*** *** *** *** *** application/json");
        let answer = Bytes::from("{\"text\": \"sk-12345 sk-12345-longer-key\"}");
        let keys = [("x-api-key".to_owned(), SecretString::from("sk-12345-longer-key"))];
        let masked = Secrets::new(&keys, &[]).mask_answer(answer);
        assert_eq!(masked, "{\"text\": \"sk-12345 ***\"}");
        let error = ModelError::new(ModelErrorKind::Answer, "got sk-12345").hint("not sk-12345");
        let masked = secrets.mask_error(&error);
        assert_eq!((masked.to_string().as_str(), masked.hints()[0].as_str()), ("got ***", "not ***"));
    }
}

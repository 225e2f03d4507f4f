//! Tokenizers from the hub and its cache.

use std::path::Path;
use std::time::Duration;

use lmeval_core::{Diagnose as _, ModelErrorKind};
use lmeval_hub::Settings;
use lmeval_testkit::{HubFault, StandInHub};
use lmeval_tokenizers::{HuggingFaceTokenizer, TokenizerTemplate, locate};

use crate::TOKENIZER;
use crate::vocabularies::vocabulary;

fn settings(endpoint: &str, cache: &Path, offline: bool) -> Settings {
    let mut settings = Settings::isolated(endpoint, cache);
    settings.first_wait = Duration::from_millis(1);
    settings.offline = offline;
    settings
}

/// A hub that serves the fixture tokenizer.
fn hub() -> (StandInHub, String) {
    let hub = StandInHub::new();
    let commit = hub.add_model_folder("org/name", "main", TOKENIZER.as_ref());
    (hub, commit)
}

#[test]
fn downloads_a_tokenizer_once() {
    let (hub, commit) = hub();
    let cache = tempfile::tempdir().unwrap();
    let (online, offline) =
        (settings(&hub.endpoint(), cache.path(), false), settings(&hub.endpoint(), cache.path(), true));
    let error = locate(&offline, "org/name", "main").unwrap_err();
    let expected = format!("The tokenizer `org/name` is not in the cache `{}`", cache.path().display());
    assert!(error.to_string().starts_with(&expected), "{error}");
    assert!(hub.requests("").is_empty());
    let folder = locate(&online, "org/name", "main").unwrap();
    assert_eq!(folder, cache.path().join("models--org--name/snapshots").join(&commit));
    HuggingFaceTokenizer::from_folder(&folder).unwrap().chat_template(None).unwrap();
    let sent = hub.requests("").len();
    assert_eq!(locate(&offline, "org/name", "main").unwrap(), folder);
    assert_eq!(locate(&offline, "org/name", &commit).unwrap(), folder);
    assert_eq!(locate(&online, "org/name", "main").unwrap(), folder);
    assert_eq!(hub.requests("").len(), sent);
    for name in ["org/other", "../name", "a/b/c", ""] {
        let error = locate(&online, name, "main").unwrap_err();
        assert_eq!(error.kind(), ModelErrorKind::Missing, "{name}");
        assert!(error.hints().iter().any(|hint| hint.contains("tokenizer=")), "{name}");
    }
    let error =
        locate(&settings("http://127.0.0.1:9", cache.path(), false), "org/third", "main").unwrap_err();
    assert!(
        error.to_string().starts_with("The tokenizer `org/third` is not cached and cannot be downloaded"),
        "{error}"
    );
    let looked = format!("in the cache `{}`", cache.path().display());
    assert!(
        error.hints().iter().any(|hint| hint.contains(&looked) && hint.contains("/org/third`")),
        "{error:?}"
    );
}

/// Like the published OPT models, which have no `tokenizer.json`.
#[test]
fn downloads_a_vocabulary_and_merges() {
    let hub = StandInHub::new();
    let vocabulary: (&str, &[u8]) =
        ("vocab.json", r#"{"a": 0, "b": 1, "ab": 2, "</s>": 3, "Ġ": 4}"#.as_bytes());
    let others: [(&str, &[u8]); 3] = [
        ("merges.txt", b"#version: 0.2\na b\n"),
        ("config.json", br#"{"model_type": "opt"}"#),
        ("tokenizer_config.json", br#"{"add_bos_token": true, "bos_token": "</s>"}"#),
    ];
    hub.add_model("org/name", "main", &[&[vocabulary][..], &others].concat());
    hub.add_model("org/half", "main", &[vocabulary, others[1]]);
    let cache = tempfile::tempdir().unwrap();
    let online = settings(&hub.endpoint(), cache.path(), false);
    let folder = locate(&online, "org/name", "main").unwrap();
    let tokenizer = HuggingFaceTokenizer::from_folder(&folder).unwrap();
    assert_eq!(tokenizer.encode("ab b", true).unwrap(), [3, 2, 4, 1]);
    assert_eq!(locate(&settings("", cache.path(), true), "org/name", "main").unwrap(), folder);
    let error = locate(&online, "org/half", "main").unwrap_err();
    assert!(
        error
            .to_string()
            .contains("none of the tokenizer files `tokenizer.json`, `vocab.json` with `merges.txt`"),
        "{error}"
    );
}

/// Without larger files in other formats.
#[test]
fn downloads_one_format() {
    let hub = StandInHub::new();
    let merges = fs_err::read(vocabulary("merges.model")).unwrap();
    let tekken = fs_err::read(vocabulary("tekken.json")).unwrap();
    let config: (&str, &[u8]) = ("config.json", br#"{"model_type": "mistral"}"#);
    hub.add_model("org/pieces", "main", &[("tokenizer.model", &merges), config]);
    hub.add_model("org/both", "main", &[("tokenizer.model", &merges), ("tekken.json", &tekken), config]);
    let cache = tempfile::tempdir().unwrap();
    let online = settings(&hub.endpoint(), cache.path(), false);
    for (name, file, size) in [("org/pieces", "tokenizer.model", 420), ("org/both", "tekken.json", 370)] {
        let folder = locate(&online, name, "main").unwrap();
        assert!(folder.join(file).is_file());
        assert_eq!(HuggingFaceTokenizer::from_folder(&folder).unwrap().vocabulary_size(), size);
        assert_eq!(locate(&settings("", cache.path(), true), name, "main").unwrap(), folder);
    }
    assert!(!locate(&online, "org/both", "main").unwrap().join("tokenizer.model").exists());
}

#[test]
fn downloads_named_chat_templates() {
    let hub = StandInHub::new();
    let files: [(&str, &[u8]); 3] = [
        ("tokenizer.json", b"{}"),
        ("chat_template.jinja", b"default"),
        ("additional_chat_templates/tools.jinja", b"tools"),
    ];
    hub.add_model("org/name", "main", &files);
    let cache = tempfile::tempdir().unwrap();
    let folder = locate(&settings(&hub.endpoint(), cache.path(), false), "org/name", "main").unwrap();
    assert_eq!(TokenizerTemplate::read(&folder, Some("tools")).unwrap().source(), "tools");
}

/// Without its configuration, a tokenizer has other special tokens.
#[test]
fn interrupted_download_is_not_complete() {
    let (hub, commit) = hub();
    let cache = tempfile::tempdir().unwrap();
    let online = settings(&hub.endpoint(), cache.path(), false);
    for file in ["tokenizer_config.json", "tokenizer.json"] {
        hub.fail(file, &[HubFault::Status(403, vec![])]);
        assert!(locate(&online, "org/name", "main").is_err(), "{file}");
        assert!(locate(&settings("", cache.path(), true), "org/name", "main").is_err(), "{file}");
    }
    let folder = locate(&online, "org/name", "main").unwrap();
    assert!(folder.ends_with(commit) && folder.join("tokenizer_config.json").is_file());
}

//! Models from the hub: downloads, and offline use of the cache.

use std::path::{Path, PathBuf};

use lmeval_candle::locate_model;
use lmeval_hub::Settings;
use lmeval_testkit::{HubFault, StandInHub};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

/// A hub that serves fixture folders as `org/<folder>`.
fn hub(folders: &[&str]) -> StandInHub {
    let hub = StandInHub::new();
    for folder in folders {
        hub.add_model_folder(&format!("org/{folder}"), "main", &fixtures().join(folder));
    }
    hub
}

#[test]
fn downloads_a_model_once() {
    let hub = hub(&["llama", "llama_bias", "torch"]);
    hub.add_model("org/empty", "main", &[("README.md", b"")]);
    let hits = || hub.requests("").len();
    let cache = tempfile::tempdir().unwrap();
    let mut settings = Settings::isolated(&hub.endpoint(), cache.path());
    let mut locate = |name: &str, offline: bool| {
        settings.offline = offline;
        locate_model(&settings, name, "main")
    };
    let error = locate("org/llama", true).unwrap_err();
    assert!(error.to_string().contains("not in the cache"), "{error}");
    assert_eq!(hits(), 0);
    // A single file, and a sharded checkpoint.
    for name in ["llama", "llama_bias"] {
        let folder = locate(&format!("org/{name}"), false).unwrap();
        for entry in fs_err::read_dir(fixtures().join(name)).unwrap() {
            let entry = entry.unwrap();
            if entry.file_name() != "expected.json" {
                let found = fs_err::read(folder.join(entry.file_name())).unwrap();
                assert_eq!(found, fs_err::read(entry.path()).unwrap(), "{}", entry.path().display());
            }
        }
        let sent = hits();
        assert_eq!(locate(&format!("org/{name}"), true).unwrap(), folder);
        assert_eq!(locate(&format!("org/{name}"), false).unwrap(), folder);
        assert_eq!(hits(), sent);
    }
    // PyTorch files are used if there are no safetensors.
    let folder = locate("org/torch", false).unwrap();
    assert!(folder.join("pytorch_model-00002-of-00002.bin").is_file());
    assert!(!locate("org/llama", true).unwrap().join("pytorch_model.bin").exists());
    assert_eq!(locate("org/torch", true).unwrap(), folder);
    fs_err::remove_file(folder.join("pytorch_model-00002-of-00002.bin")).unwrap();
    assert!(locate("org/torch", true).is_err());
    let error = locate("org/empty", false).unwrap_err();
    assert!(error.to_string().contains("has no `config.json`"), "{error}");
    let error = locate("org/nothing", false).unwrap_err();
    assert!(error.to_string().contains("returned status 404"), "{error}");
    // A missing shard is fetched again.
    let folder = locate("org/llama_bias", true).unwrap();
    fs_err::remove_file(folder.join("model-00002-of-00003.safetensors")).unwrap();
    assert!(locate("org/llama_bias", true).is_err());
    assert_eq!(locate("org/llama_bias", false).unwrap(), folder);
    assert!(folder.join("model-00002-of-00003.safetensors").is_file());
}

/// Without its configuration, a tokenizer has other special tokens.
#[test]
fn interrupted_download_leaves_no_complete_tokenizer() {
    let hub = hub(&["llama"]);
    let cache = tempfile::tempdir().unwrap();
    let mut settings = Settings::isolated(&hub.endpoint(), cache.path());
    hub.fail("tokenizer_config.json", &[HubFault::Status(403, vec![])]);
    locate_model(&settings, "org/llama", "main").unwrap_err();
    settings.offline = true;
    lmeval_tokenizers::locate(&settings, "org/llama", "main").unwrap_err();
}

#[test]
fn cached_model_is_complete_if_it_can_be_loaded() {
    let cache = tempfile::tempdir().unwrap();
    let repository = cache.path().join("models--org--model");
    let snapshot = repository.join("snapshots").join("c".repeat(40));
    fs_err::create_dir_all(snapshot.join("sub")).unwrap();
    fs_err::create_dir_all(repository.join("refs")).unwrap();
    fs_err::write(repository.join("refs/main"), "c".repeat(40)).unwrap();
    let mut settings = Settings::isolated("http://127.0.0.1:1", cache.path());
    settings.offline = true;
    let is_complete = || locate_model(&settings, "org/model", "main").is_ok();
    let write = |name: &str, content: &str| fs_err::write(snapshot.join(name), content).unwrap();
    let index = "model.safetensors.index.json";
    write("config.json", "{}");
    assert!(!is_complete());
    write("pytorch_model.bin", "");
    assert!(is_complete());
    // Loading would look for the shards of the index.
    write(index, r#"{"weight_map": {"a": "part.safetensors"}}"#);
    assert!(!is_complete());
    write("part.safetensors", "");
    assert!(is_complete());
    write("sub/part.safetensors", "");
    write(index, r#"{"weight_map": {"a": "sub/part.safetensors"}}"#);
    assert!(!is_complete());
    // A single file takes precedence over an index.
    write("model.safetensors", "");
    assert!(is_complete());
}

//! Our client and Python's `huggingface_hub` read each other's cache.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use lmeval_hub::{Client, Kind, Repository};
use lmeval_testkit::{StandInHub, test_environment};

use crate::{ID, large, open, settings};

const FILES: [&str; 3] = ["README.md", "data/part.bin", "config.json"];

/// Downloads the files of `org/name`, or reads them from the cache only, and validates the cache.
const SCRIPT: &str = r#"
import sys
from huggingface_hub import hf_hub_download, scan_cache_dir, snapshot_download

endpoint, cache, repo_type, *files = sys.argv[1:]
given = {"repo_type": repo_type, "cache_dir": cache}
if endpoint == "offline":
    given["local_files_only"] = True
else:
    given["endpoint"] = endpoint
for file in files:
    print(hf_hub_download("org/name", file, **given))
if endpoint == "offline":
    print(snapshot_download("org/name", **given))
info = scan_cache_dir(cache)
assert not info.warnings, info.warnings
[repository] = info.repos
[revision] = repository.revisions
assert revision.refs == {"main"}, revision.refs
assert {str(file.file_name) for file in revision.files} == {file.split("/")[-1] for file in files}
"#;

fn python(interpreter: &Path, arguments: &[&str]) -> Vec<String> {
    let output = Command::new(interpreter)
        .args(["-c", SCRIPT])
        .args(arguments)
        .args(FILES)
        .env_remove("HF_HUB_OFFLINE")
        .env_remove("HF_TOKEN")
        .env("HF_HUB_DISABLE_TELEMETRY", "1")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// Every file under a folder with its content, or its target if it is a link.
fn tree(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs_err::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
            if let Ok(target) = fs_err::read_link(&path) {
                found.insert(name, target.into_os_string().into_encoded_bytes());
            } else if path.is_dir() {
                folders.push(path);
            } else {
                found.insert(name, fs_err::read(&path).unwrap());
            }
        }
    }
    found
}

#[test]
fn python_and_rust_share_the_cache() {
    let Some(interpreter) = test_environment() else { return };
    for (kind, name) in [(Kind::Model, "model"), (Kind::Dataset, "dataset")] {
        let hub = StandInHub::new();
        let content = large();
        let files: [(&str, &[u8]); 3] = [(FILES[0], b"# Name"), (FILES[1], &content), (FILES[2], b"{}")];
        match kind {
            Kind::Model => hub.add_model(ID, "main", &files),
            Kind::Dataset => hub.add(ID, "main", &files),
        };
        let (ours, theirs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let repository = open(&settings(&hub, ours.path()), kind).unwrap();
        let fetched: Vec<String> = FILES
            .iter()
            .map(|file| repository.fetch(file).unwrap().to_str().unwrap().to_owned())
            .chain([repository.snapshot().to_str().unwrap().to_owned()])
            .collect();
        assert_eq!(python(&interpreter, &["offline", ours.path().to_str().unwrap(), name]), fetched);

        python(&interpreter, &[&hub.endpoint(), theirs.path().to_str().unwrap(), name]);
        let mut offline = settings(&hub, theirs.path());
        offline.offline = true;
        let client = Arc::new(Client::new(&offline).unwrap());
        let repository = Repository::open_or_cached(&client, kind, ID, "main").unwrap();
        for (path, content) in files {
            assert_eq!(fs_err::read(repository.fetch(path).unwrap()).unwrap(), content, "{path}");
        }

        // File lists and version markers are specific to each implementation.
        let same = |folder: &Path| {
            let mut tree = tree(folder);
            tree.retain(|path, _| {
                !path.contains("/.files/") && !path.contains("CACHEDIR") && !path.contains("CHECK")
            });
            tree
        };
        assert_eq!(same(ours.path()), same(theirs.path()));
    }
}

//! Datasets from the hub, and failures on the way.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lmeval_core::{DatasetRequest, Diagnose as _, DownloadProgress};
use lmeval_data::{ErrorKind, Settings, load};
use lmeval_hub::Error as HubError;
use lmeval_pycompat::Value;
use lmeval_testkit::{HubFault, StandInHub};

use crate::support::{message, printed, request};

const ID: &str = "org/name";
const LINES: &[u8] = b"{\"a\": 1}\n{\"a\": 2}\n";

fn settings(hub: &StandInHub, folder: &Path) -> Settings {
    let mut settings = Settings::isolated(&hub.endpoint(), &folder.join("hub"), folder);
    settings.hub.first_wait = Duration::from_millis(1);
    settings.hub.attempts = 3;
    settings
}

/// A file large enough to be stored separately.
fn large() -> Vec<u8> {
    (0..2000).flat_map(|number| format!("{{\"a\": {number}}}\n").into_bytes()).collect()
}

fn rows(request: &DatasetRequest, settings: &Settings, split: &str) -> Result<u64, lmeval_data::Error> {
    let data = load(request, settings)?;
    let split = data.get(split).unwrap();
    printed(split)?;
    Ok(split.len())
}

#[test]
fn downloads_once_and_caches() {
    let (hub, folder) = (StandInHub::new(), tempfile::tempdir().unwrap());
    let commit =
        hub.add(ID, "main", &[("train.jsonl", LINES), ("sub/test.jsonl", &large()), ("README.md", b"# x")]);
    let mut settings = settings(&hub, folder.path());
    let request = request(ID, &["test", "train[:1]"], &[]);
    let data = load(&request, &settings).unwrap();
    assert_eq!(printed(data.get("train[:1]").unwrap()).unwrap(), "[{'a': 1}]");
    assert_eq!(data.get("test").unwrap().len(), 2000);

    let root = folder.path().join("hub/datasets--org--name");
    assert_eq!(fs_err::read_to_string(root.join("refs/main")).unwrap(), commit);
    let link = fs_err::read_link(root.join("snapshots").join(&commit).join("sub/test.jsonl")).unwrap();
    let etag = link.file_name().unwrap().to_str().unwrap();
    assert_eq!((etag.len(), link.parent().unwrap().to_str()), (64, Some("../../../blobs")));
    assert_eq!(fs_err::read(root.join("blobs").join(etag)).unwrap(), large());
    assert!(folder.path().join("hub/.locks/datasets--org--name").join(format!("{etag}.lock")).is_file());
    assert!(hub.requests("tree").len() > 1, "the file list is paginated");

    let before = hub.requests("resolve").len();
    load(&request, &settings).unwrap();
    assert_eq!(hub.requests("resolve").len(), before);
    let all = hub.requests("").len();
    settings.hub.offline = true;
    assert_eq!(rows(&request, &settings, "test").unwrap(), 2000);
    assert_eq!(hub.requests("").len(), all);
}

#[test]
fn uses_cache_without_hub() {
    let (hub, folder) = (StandInHub::new(), tempfile::tempdir().unwrap());
    hub.add(ID, "main", &[("train.jsonl", LINES)]);
    let mut settings = settings(&hub, folder.path());
    let request = request(ID, &["train"], &[]);
    load(&request, &settings).unwrap();
    settings.hub.endpoint = "http://127.0.0.1:1".into();
    assert_eq!(rows(&request, &settings, "train").unwrap(), 2);

    let empty = tempfile::tempdir().unwrap();
    settings.hub.cache = empty.path().into();
    let error = load(&request, &settings).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Hub(HubError::Connection { .. })), "{error:?}");
    assert!(!error.hints().is_empty());
    settings.hub.offline = true;
    let error = load(&request, &settings).unwrap_err();
    let cache = empty.path().display();
    assert_eq!(
        error.to_string(),
        format!("`org/name (main)` is not in the cache `{cache}`, and offline mode is on")
    );
    let hints = error.hints().join("\n");
    assert!(hints.contains("There is no local copy in `") && hints.contains("org/name`"), "{hints}");
}

/// Some files of a split must not pass for the split.
#[test]
fn incomplete_data_set_is_an_error() {
    let (hub, folder) = (StandInHub::new(), tempfile::tempdir().unwrap());
    let parts = [("train-00000-of-00002.jsonl", LINES), ("train-00001-of-00002.jsonl", LINES)];
    hub.add(ID, "main", &parts);
    let mut settings = settings(&hub, folder.path());
    let request = request(ID, &["train"], &[]);
    hub.fail("train-00001", &[HubFault::Status(403, vec![])]);
    load(&request, &settings).unwrap_err();
    settings.hub.offline = true;
    let error = load(&request, &settings).unwrap_err();
    assert!(
        error.to_string().starts_with("`org/name/train-00001-of-00002.jsonl` is not in the cache"),
        "{error}"
    );
    settings.hub.offline = false;
    assert_eq!(rows(&request, &settings, "train").unwrap(), 4);
    settings.hub.offline = true;
    assert_eq!(rows(&request, &settings, "train").unwrap(), 4);
}

#[test]
fn resolves_configurations_revisions_and_addresses() {
    let (hub, folder) = (StandInHub::new(), tempfile::tempdir().unwrap());
    let readme = b"---\nconfigs:\n- config_name: a\n  data_files: x.jsonl\n- config_name: b\n  data_files:\n  - split: test\n    path: data/*.jsonl\n---\n";
    let files: [(&str, &[u8]); 4] =
        [("README.md", readme), ("x.jsonl", LINES), ("data/1.jsonl", LINES), ("data/2.jsonl", LINES)];
    let commit = hub.add(ID, "main", &files);
    hub.add(ID, "v1", &[("x.jsonl", b"{\"old\": true}\n")]);
    let settings = settings(&hub, folder.path());
    let mut named = request(ID, &["test"], &[]);
    let error = load(&named, &settings).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::MissingConfig { .. }), "{error}");
    named.name = Some("b".into());
    assert_eq!(rows(&named, &settings, "test").unwrap(), 4);
    named.splits = vec!["dev".into()];
    assert_eq!(
        load(&named, &settings).unwrap_err().to_string(),
        "Unknown split `dev`. Should be one of `test`"
    );

    let old = request(ID, &["train"], &[("revision", "v1".into())]);
    let data = load(&old, &settings).unwrap();
    assert_eq!(printed(data.get("train").unwrap()).unwrap(), "[{'old': True}]");
    let by_commit =
        request(ID, &[], &[("revision", commit.as_str().into()), ("data_files", "x.jsonl".into())]);
    assert_eq!(rows(&by_commit, &settings, "train").unwrap(), 2);
    let files = Value::dict([("validation", "hf://datasets/org/name/data/*.jsonl".into())]);
    assert_eq!(
        rows(&request("json", &["validation"], &[("data_files", files)]), &settings, "validation").unwrap(),
        4
    );
    let files = Value::str("hf://datasets/org/name@v1/x.jsonl");
    assert_eq!(rows(&request("json", &[], &[("data_files", files)]), &settings, "train").unwrap(), 1);
    let address = format!("{}/datasets/org/name/resolve/{commit}/x.jsonl", hub.endpoint());
    let direct = request("json", &[], &[("data_files", address.into())]);
    assert_eq!(rows(&direct, &settings, "train").unwrap(), 2);
}

#[test]
fn http_errors_have_hints() {
    let (hub, folder) = (StandInHub::new(), tempfile::tempdir().unwrap());
    hub.add(ID, "main", &[("train.jsonl", LINES)]);
    let mut settings = settings(&hub, folder.path());
    let status = |settings: &Settings, id: &str, revision: Option<&str>| {
        let kwargs: Vec<_> =
            revision.map(|revision| ("revision", Value::str(revision))).into_iter().collect();
        let error = load(&request(id, &["train"], &kwargs), settings).unwrap_err();
        match error.kind() {
            ErrorKind::Hub(HubError::Status { status, .. }) => {
                (*status, error.hints().len(), error.to_string())
            }
            kind => panic!("{kind:?}"),
        }
    };
    let missing = status(&settings, "org/other", None);
    assert_eq!((missing.0, missing.1), (404, 2));
    assert!(missing.2.ends_with("/api/datasets/org/other/revision/main: not found"), "{}", missing.2);
    assert_eq!(status(&settings, ID, Some("v9")).0, 404);
    hub.fail(
        "revision",
        &[HubFault::Status(500, vec![]), HubFault::Status(502, vec![]), HubFault::Status(503, vec![])],
    );
    assert_eq!(status(&settings, ID, None).0, 503);
    hub.fail("revision", &[HubFault::Status(403, vec![("X-Error-Message", "Ask for access")])]);
    assert!(status(&settings, ID, None).2.ends_with("Ask for access"));

    hub.require_token("secret-token");
    assert_eq!(status(&settings, ID, None).0, 401);
    settings.hub.token = Some("wrong-token".to_owned().into());
    let refused = status(&settings, ID, None);
    assert_eq!((refused.0, refused.1), (401, 2));
    assert!(!refused.2.contains("wrong-token") && !format!("{settings:?}").contains("wrong-token"));
    settings.hub.token = Some("secret-token".to_owned().into());
    assert_eq!(rows(&request(ID, &["train"], &[]), &settings, "train").unwrap(), 2);
}

#[test]
fn token_is_sent_only_to_the_hub() {
    let (hub, folder) = (StandInHub::new(), tempfile::tempdir().unwrap());
    hub.add(ID, "main", &[("train.jsonl", &large())]);
    hub.require_token("secret-token");
    let mut settings = settings(&hub, folder.path());
    settings.hub.token = Some("secret-token".to_owned().into());
    hub.fail("GET /storage", &[HubFault::Status(403, vec![])]);
    let error = load(&request(ID, &["train"], &[]), &settings).unwrap_err();
    let shown = format!("{}{error:?}", message(&error));
    assert!(!shown.contains("secret-token") && !shown.contains("hidden"), "{shown}");
    assert_eq!(rows(&request(ID, &["train"], &[]), &settings, "train").unwrap(), 2000);
    assert!(hub.requests("/storage").iter().all(|seen| seen.token.is_none()));
    assert!(hub.requests("/api").iter().all(|seen| seen.token.is_some()));
}

#[derive(Default)]
struct Notes(Mutex<Vec<String>>);

impl DownloadProgress for Notes {
    fn start(&self, file: &str, done: u64, total: Option<u64>) {
        self.0.lock().unwrap().push(format!("start {file} {done} of {total:?}"));
    }

    fn finish(&self, file: &str) {
        self.0.lock().unwrap().push(format!("finish {file}"));
    }

    fn retry(&self, _what: &str, reason: &str, wait: Duration) {
        self.0.lock().unwrap().push(format!("retry {reason} {wait:?}"));
    }
}

#[test]
fn retries_temporary_failures() {
    let (hub, folder) = (StandInHub::new(), tempfile::tempdir().unwrap());
    hub.add(ID, "main", &[("train.jsonl", LINES)]);
    let mut settings = settings(&hub, folder.path());
    let notes = Arc::new(Notes::default());
    settings.hub.progress = notes.clone();
    hub.fail("revision", &[HubFault::Status(429, vec![("Retry-After", "0")]), HubFault::Close]);
    hub.fail("tree", &[HubFault::Status(504, vec![]), HubFault::Cut(3)]);
    hub.fail("HEAD", &[HubFault::Status(503, vec![]), HubFault::Close]);
    hub.fail("GET /datasets", &[HubFault::Close, HubFault::Status(500, vec![])]);
    assert_eq!(rows(&request(ID, &["train"], &[]), &settings, "train").unwrap(), 2);
    let notes = notes.0.lock().unwrap();
    assert_eq!(notes[0], "retry 429 Too Many Requests 0ns");
    assert_eq!(notes.iter().filter(|note| note.starts_with("retry")).count(), 8, "{notes:?}");
    assert_eq!(notes.last().unwrap(), "finish train.jsonl");
}

#[test]
fn resumes_downloads() {
    let (hub, folder) = (StandInHub::new(), tempfile::tempdir().unwrap());
    hub.add(ID, "main", &[("train.jsonl", &large())]);
    let settings = settings(&hub, folder.path());
    let faults = [HubFault::Cut(500), HubFault::Cut(300), HubFault::Cut(0), HubFault::Close];
    hub.fail("GET /storage", &faults);
    assert_eq!(rows(&request(ID, &["train"], &[]), &settings, "train").unwrap(), 2000);
    let ranges: Vec<_> = hub.requests("GET /storage").into_iter().map(|seen| seen.range).collect();
    let range = |start: u64| Some(format!("bytes={start}-"));
    assert_eq!(ranges, [None, range(500), range(800), range(800), range(800)]);

    // The same with a partial file of an earlier run, and with a hub that ignores ranges.
    for fault in [None, Some(HubFault::IgnoreRange), Some(HubFault::Status(416, vec![]))] {
        let again = tempfile::tempdir().unwrap();
        let blobs = again.path().join("hub/datasets--org--name/blobs");
        fs_err::create_dir_all(&blobs).unwrap();
        let etag = fs_err::read_dir(folder.path().join("hub/datasets--org--name/blobs"))
            .unwrap()
            .next()
            .unwrap()
            .unwrap();
        let part = blobs.join(format!("{}.incomplete", etag.file_name().to_str().unwrap()));
        fs_err::write(&part, &large()[..1234]).unwrap();
        hub.fail("GET /storage", &fault.into_iter().collect::<Vec<_>>());
        let mut settings = settings.clone();
        settings.hub.cache = again.path().join("hub");
        assert_eq!(rows(&request(ID, &["train"], &[]), &settings, "train").unwrap(), 2000);
        assert!(!part.exists());
    }
}

#[test]
fn discards_damaged_downloads() {
    let (hub, folder) = (StandInHub::new(), tempfile::tempdir().unwrap());
    hub.add(ID, "main", &[("train.jsonl", &large()), ("test.jsonl", LINES)]);
    let settings = settings(&hub, folder.path());
    let train = request(ID, &["train"], &[]);
    let long: &'static [u8] = large().leak();
    let mut wrong = large();
    wrong[5] = b'7';
    let wrong: &'static [u8] = wrong.leak();
    let too_long: &'static [u8] = [long, b"more"].concat().leak();
    for body in [wrong, too_long] {
        hub.fail("GET /storage", &[HubFault::Body(body), HubFault::Body(body)]);
        let error = load(&train, &settings).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Hub(HubError::Damaged { .. })), "{error:?}");
    }
    // A body shorter than declared never becomes a file.
    hub.fail("GET /storage", &vec![HubFault::Body(b"short"); 20]);
    let error = load(&train, &settings).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Hub(HubError::Connection { .. })), "{error:?}");
    assert!(message(&error).contains("5 of"), "{}", message(&error));
    // Damaged once, intact the second time.
    hub.fail("GET /storage", &[HubFault::Body(wrong)]);
    assert_eq!(rows(&train, &settings, "train").unwrap(), 2000);
    let blobs = folder.path().join("hub/datasets--org--name/blobs");
    let left =
        fs_err::read_dir(blobs).unwrap().filter(|entry| entry.as_ref().unwrap().path().extension().is_some());
    assert_eq!(left.count(), 0);
}

#[test]
fn reads_converted_copy_instead_of_script() {
    let (hub, folder) = (StandInHub::new(), tempfile::tempdir().unwrap());
    hub.add(ID, "main", &[("name.py", b"import os"), ("README.md", b"")]);
    let settings = settings(&hub, folder.path());
    let error = load(&request(ID, &["train"], &[]), &settings).unwrap_err();
    assert_eq!(error.to_string(), "Dataset `org/name` needs the script `name.py`, but scripts are not run");
    assert!(error.hints()[0].contains("refs/convert/parquet") && error.hints()[1].contains("save_to_disk"));

    let parquet = include_bytes!("numbers.parquet");
    let files: [(&str, &[u8]); 3] = [
        ("a/train/0000.parquet", parquet),
        ("a/partial-test/0000.parquet", parquet),
        ("b/train/0000.parquet", parquet),
    ];
    hub.add(ID, "refs/convert/parquet", &files);
    let mut request = request(ID, &["test"], &[]);
    let error = load(&request, &settings).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::MissingConfig { .. }), "{error}");
    request.name = Some("a".into());
    let data = load(&request, &settings).unwrap();
    assert_eq!(printed(data.get("test").unwrap()).unwrap(), "[{'x': 1}, {'x': 2}]");
}

#[test]
fn concurrent_loads_download_once() {
    let (hub, folder) = (StandInHub::new(), tempfile::tempdir().unwrap());
    hub.add(ID, "main", &[("train.jsonl", &large())]);
    let settings = settings(&hub, folder.path());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                assert_eq!(rows(&request(ID, &["train"], &[]), &settings, "train").unwrap(), 2000);
            });
        }
    });
    assert_eq!(hub.requests("GET /storage").len(), 1);
}

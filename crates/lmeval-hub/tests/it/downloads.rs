//! Retries, resumed downloads, locks, offline mode and mirrors.

use std::process::{Command, Stdio};
use std::sync::Arc;

use lmeval_hub::{Client, Error, Kind, Repository, Settings, cached_snapshot};
use lmeval_testkit::{HubFault, StandInHub};

use crate::{ID, Notes, large, open, read, settings};

/// A hub with one large file.
fn hub() -> StandInHub {
    let hub = StandInHub::new();
    hub.add_model(ID, "main", &[("config.json", b"{}"), ("model.safetensors", &large())]);
    hub
}

#[test]
fn resumes_after_a_lost_connection() {
    let (hub, cache) = (hub(), tempfile::tempdir().unwrap());
    let notes = Arc::new(Notes::default());
    let mut settings = settings(&hub, cache.path());
    settings.progress = notes.clone();
    hub.fail("GET /storage", &[HubFault::Cut(500), HubFault::Cut(300), HubFault::Close]);
    assert_eq!(read(&settings, "model.safetensors").unwrap(), large());
    let ranges: Vec<_> = hub.requests("GET /storage").into_iter().map(|seen| seen.range).collect();
    let range = |start: u64| Some(format!("bytes={start}-"));
    assert_eq!(ranges, [None, range(500), range(800), range(800)]);
    let notes = notes.all();
    let total = large().len();
    assert!(notes.contains(&format!("start model.safetensors 500 of Some({total})")), "{notes:?}");
    assert_eq!(notes.last().unwrap(), "finish model.safetensors");
}

#[test]
fn resumes_the_download_of_an_earlier_run() {
    let (hub, cache) = (hub(), tempfile::tempdir().unwrap());
    let mut settings = settings(&hub, cache.path());
    settings.attempts = 1;
    hub.fail("GET /storage", &[HubFault::Cut(700), HubFault::Close, HubFault::Close]);
    assert!(matches!(read(&settings, "model.safetensors").unwrap_err(), Error::Connection { .. }));
    hub.fail("GET /storage", &[]);
    assert_eq!(read(&settings, "model.safetensors").unwrap(), large());
    let last = hub.requests("GET /storage").pop().unwrap();
    assert_eq!(last.range.as_deref(), Some("bytes=700-"));
}

#[test]
fn honours_retry_after() {
    for status in [429, 503] {
        let (hub, cache) = (hub(), tempfile::tempdir().unwrap());
        let notes = Arc::new(Notes::default());
        let mut settings = settings(&hub, cache.path());
        settings.progress = notes.clone();
        // The client's own delays are 1 and 2 milliseconds.
        let one_second = HubFault::Status(status, vec![("Retry-After", "1")]);
        hub.fail("GET /storage", &[one_second, HubFault::Status(status, vec![("Retry-After", "0")])]);
        assert_eq!(read(&settings, "model.safetensors").unwrap(), large());
        let waits: Vec<_> = notes.all().into_iter().filter(|note| note.starts_with("retry")).collect();
        assert!(waits[0].ends_with(" 1s") && waits[1].ends_with(" 0ns"), "{waits:?}");
        hub.fail("revision", &vec![HubFault::Status(status, vec![("Retry-After", "0")]); 3]);
        let error = open(&settings, Kind::Model).unwrap_err();
        assert!(matches!(error, Error::Status { status: found, .. } if found == status), "{error}");
    }
}

#[test]
fn never_stores_wrong_content() {
    let (hub, cache) = (hub(), tempfile::tempdir().unwrap());
    let settings = settings(&hub, cache.path());
    let mut wrong = large();
    wrong[7] ^= 1;
    let too_long = [large(), b"more".to_vec()].concat();
    for body in [wrong, too_long] {
        let body: &'static [u8] = body.leak();
        hub.fail("GET /storage", &[HubFault::Body(body), HubFault::Body(body)]);
        let error = read(&settings, "model.safetensors").unwrap_err();
        assert!(matches!(error, Error::Damaged { .. }), "{error:?}");
    }
    hub.fail("GET /storage", &vec![HubFault::Body(b"short"); 20]);
    let error = read(&settings, "model.safetensors").unwrap_err();
    assert!(matches!(error, Error::Connection { .. }), "{error:?}");
    hub.fail("GET /storage", &[]);
    assert!(!cached_snapshot(&settings, Kind::Model, ID, "main").unwrap().join("model.safetensors").exists());
    assert_eq!(read(&settings, "model.safetensors").unwrap(), large());
}

/// Without a length and a checksum, a lost connection looks like the end of the file.
#[test]
fn refuses_downloads_of_unknown_length() {
    let (hub, cache) = (hub(), tempfile::tempdir().unwrap());
    let settings = settings(&hub, cache.path());
    // The HEAD request that describes the file, then the download itself.
    hub.fail("config.json", &[HubFault::Unframed(0), HubFault::Unframed(1)]);
    let error = read(&settings, "config.json").unwrap_err();
    assert!(error.to_string().contains("the response has no length"), "{error}");
    assert_eq!(read(&settings, "config.json").unwrap(), b"{}");
    // The hub describes large files with their length and checksum.
    hub.fail("GET /storage", &[HubFault::Unframed(usize::MAX)]);
    assert_eq!(read(&settings, "model.safetensors").unwrap(), large());
}

#[test]
fn offline_mode_uses_only_the_cache() {
    let (hub, cache) = (hub(), tempfile::tempdir().unwrap());
    let mut settings = settings(&hub, cache.path());
    settings.offline = true;
    let client = |settings: &Settings| Arc::new(Client::new(settings).unwrap());
    let cached = |settings: &Settings| Repository::open_or_cached(&client(settings), Kind::Model, ID, "main");
    assert!(matches!(cached(&settings).unwrap_err(), Error::Offline { .. }));
    assert!(matches!(open(&settings, Kind::Model).unwrap_err(), Error::Offline { .. }));
    settings.offline = false;
    assert_eq!(read(&settings, "config.json").unwrap(), b"{}");
    let sent = hub.requests("").len();
    settings.offline = true;
    let repository = cached(&settings).unwrap();
    assert_eq!(fs_err::read(repository.fetch("config.json").unwrap()).unwrap(), b"{}");
    // Files that were not fetched are listed too, so that a partial repository does not look complete.
    assert_eq!(repository.files(), ["config.json", "model.safetensors"]);
    let error = repository.fetch("model.safetensors").unwrap_err();
    assert!(matches!(error, Error::Offline { .. }), "{error:?}");
    assert_eq!(hub.requests("").len(), sent);
    // The same applies if the hub is unreachable.
    settings.offline = false;
    settings.endpoint = "http://127.0.0.1:1".into();
    assert!(cached(&settings).unwrap().fetch("config.json").is_ok());
    assert!(matches!(open(&settings, Kind::Model).unwrap_err(), Error::Connection { .. }));
}

#[test]
fn supports_mirrors_with_a_path() {
    let (hub, cache) = (hub(), tempfile::tempdir().unwrap());
    let mut settings = settings(&hub, cache.path());
    settings.endpoint = format!("{}/mirror/of/hub", hub.endpoint());
    hub.serve_below("/mirror/of/hub");
    assert_eq!(read(&settings, "model.safetensors").unwrap(), large());
    assert!(
        hub.requests("")
            .iter()
            .all(|seen| seen.path.starts_with("/mirror/") || seen.path.starts_with("/storage/"))
    );
}

#[test]
fn client_works_inside_a_runtime() {
    let (hub, cache) = (hub(), tempfile::tempdir().unwrap());
    let settings = settings(&hub, cache.path());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    assert_eq!(runtime.block_on(async { read(&settings, "config.json").unwrap() }), b"{}");
}

const CHILD: &str = "LM_EVAL_HUB_TEST_CHILD";

/// The body of the processes started by the next test.
#[test]
fn child_process() {
    let Ok(given) = std::env::var(CHILD) else { return };
    let (endpoint, cache) = given.split_once(' ').unwrap();
    let settings = Settings::isolated(endpoint, cache.as_ref());
    assert_eq!(read(&settings, "model.safetensors").unwrap(), large());
}

#[test]
fn concurrent_processes_download_a_file_once() {
    let (hub, cache) = (hub(), tempfile::tempdir().unwrap());
    let start = || {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "downloads::child_process"])
            .env(CHILD, format!("{} {}", hub.endpoint(), cache.path().display()))
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    };
    let children: Vec<_> = (0..4).map(|_| start()).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(hub.requests("GET /storage").len(), 1);
}

#[test]
fn reports_waiting_for_a_lock() {
    let (hub, cache) = (hub(), tempfile::tempdir().unwrap());
    let notes = Arc::new(Notes::default());
    let mut settings = settings(&hub, cache.path());
    assert_eq!(read(&settings, "model.safetensors").unwrap(), large());
    let locks = cache.path().join(".locks/models--org--name");
    let lock = fs_err::read_dir(locks).unwrap().next().unwrap().unwrap().path();
    let held = std::fs::File::options().write(true).open(lock).unwrap();
    held.lock().unwrap();
    fs_err::remove_dir_all(cache.path().join("models--org--name")).unwrap();
    settings.progress = notes.clone();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| read(&settings, "model.safetensors").unwrap());
        while notes.all().is_empty() {
            std::thread::yield_now();
        }
        drop(held);
        assert_eq!(reader.join().unwrap(), large());
    });
    assert_eq!(notes.all()[0], "waiting model.safetensors");
}

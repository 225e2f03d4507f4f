//! Models of the hub: downloads, and the cache without a connection.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lmeval_models::HubSettings;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

/// Answers one request as the hub does: `org/<folder>` is a folder of the fixtures.
fn serve_one(stream: &TcpStream) {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let Some(first) = lines.next() else { return };
    lines.take_while(|line| !line.is_empty()).for_each(drop);
    let (method, path) = first.split_once(' ').unwrap();
    let path = path.split(' ').next().unwrap();
    let content = path
        .strip_prefix("/org/")
        .and_then(|path| path.split_once("/resolve/main/"))
        .and_then(|(folder, file)| fs_err::read(fixtures().join(folder).join(file)).ok());
    let mut stream = stream;
    let _ = match content {
        None => stream.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"),
        Some(content) => {
            let etag = path.replace('/', "-");
            let commit = "c".repeat(40);
            let head = format!(
                "HTTP/1.1 200 OK\r\nx-repo-commit: {commit}\r\netag: \"{etag}\"\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                content.len()
            );
            let sent = stream.write_all(head.as_bytes());
            if method == "GET" { sent.and_then(|()| stream.write_all(&content)) } else { sent }
        }
    };
}

/// A server, and how many requests it got.
fn server() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let hits = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&hits);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            counted.fetch_add(1, Ordering::Relaxed);
            serve_one(&stream);
        }
    });
    (address, hits)
}

#[test]
fn models_are_downloaded_once() {
    let (endpoint, hits) = server();
    let cache = tempfile::tempdir().unwrap();
    let hub = |offline| HubSettings {
        endpoint: endpoint.clone(),
        cache: cache.path().to_owned(),
        token: None,
        offline,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let locate = |name: &str, offline: bool| runtime.block_on(hub(offline).locate_model(name, "main"));
    let error = locate("org/llama", true).unwrap_err();
    assert!(error.to_string().contains("not in the cache"), "{error}");
    assert_eq!(hits.load(Ordering::Relaxed), 0);
    // One file, and parts with their index.
    for name in ["llama", "llama_bias"] {
        let folder = locate(&format!("org/{name}"), false).unwrap();
        for entry in fs_err::read_dir(fixtures().join(name)).unwrap() {
            let entry = entry.unwrap();
            if entry.file_name() != "expected.json" {
                let found = fs_err::read(folder.join(entry.file_name())).unwrap();
                assert_eq!(found, fs_err::read(entry.path()).unwrap(), "{}", entry.path().display());
            }
        }
        let asked = hits.load(Ordering::Relaxed);
        assert_eq!(locate(&format!("org/{name}"), true).unwrap(), folder);
        assert_eq!(locate(&format!("org/{name}"), false).unwrap(), folder);
        assert_eq!(hits.load(Ordering::Relaxed), asked);
    }
    // Files of torch count where there are no safetensors.
    let folder = locate("org/torch", false).unwrap();
    assert!(folder.join("pytorch_model-00002-of-00002.bin").is_file());
    assert!(!locate("org/llama", true).unwrap().join("pytorch_model.bin").exists());
    assert_eq!(locate("org/torch", true).unwrap(), folder);
    fs_err::remove_file(folder.join("pytorch_model-00002-of-00002.bin")).unwrap();
    assert!(locate("org/torch", true).is_err());
    let error = locate("org/nothing", false).unwrap_err();
    assert!(error.to_string().contains("There is no `config.json`"), "{error}");
    // A part that is gone is fetched again.
    let folder = locate("org/llama_bias", true).unwrap();
    fs_err::remove_file(folder.join("model-00002-of-00003.safetensors")).unwrap();
    assert!(locate("org/llama_bias", true).is_err());
    assert_eq!(locate("org/llama_bias", false).unwrap(), folder);
    assert!(folder.join("model-00002-of-00003.safetensors").is_file());
}

#[test]
fn the_cache_counts_as_weights_are_loaded() {
    let cache = tempfile::tempdir().unwrap();
    let repository = cache.path().join("models--org--model");
    let snapshot = repository.join("snapshots").join("c".repeat(40));
    fs_err::create_dir_all(snapshot.join("sub")).unwrap();
    fs_err::create_dir_all(repository.join("refs")).unwrap();
    fs_err::write(repository.join("refs/main"), "c".repeat(40)).unwrap();
    let hub = HubSettings {
        endpoint: "http://127.0.0.1:1".into(),
        cache: cache.path().to_owned(),
        token: None,
        offline: true,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let is_there = || runtime.block_on(hub.locate_model("org/model", "main")).is_ok();
    let write = |name: &str, content: &str| fs_err::write(snapshot.join(name), content).unwrap();
    let index = "model.safetensors.index.json";
    write("config.json", "{}");
    assert!(!is_there());
    write("pytorch_model.bin", "");
    assert!(is_there());
    // Loading would look for the parts of the index.
    write(index, r#"{"weight_map": {"a": "part.safetensors"}}"#);
    assert!(!is_there());
    write("part.safetensors", "");
    assert!(is_there());
    write("sub/part.safetensors", "");
    write(index, r#"{"weight_map": {"a": "sub/part.safetensors"}}"#);
    assert!(!is_there());
    // One file counts before an index.
    write("model.safetensors", "");
    assert!(is_there());
}

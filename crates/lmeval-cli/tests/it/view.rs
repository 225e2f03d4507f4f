//! `lm-eval view`, `lm-eval report` and `lm-eval run --view`.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::Child;
use std::time::Duration;

use lmeval_testkit::{ServerOptions, StandInServer, TestContext};
use serde_json::Value as Json;

use crate::context;

/// A run of a built-in task, in `out`.
fn run(context: &TestContext, model: &str, folder: &str) {
    let output = context.run(&[
        "run",
        "--model",
        model,
        "--tasks",
        "demo_capitals",
        "--output_path",
        folder,
        "--log_samples",
    ]);
    assert_eq!(output.status, 0, "{output}");
}

/// Kills the server at the end of a test.
pub(crate) struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a viewer and reads its address.
pub(crate) fn view(context: &TestContext, words: &[&str]) -> (Running, String) {
    let mut child = context.command(&[&["view", "--port", "0", "--no-open"], words].concat()).spawn_piped();
    let stdout = child.stdout.take().unwrap();
    let running = Running(child);
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("http://").unwrap().trim_end_matches('/').to_owned();
    (running, address)
}

/// The status and body at an address.
fn get(address: &str, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

pub(crate) fn json(address: &str, path: &str) -> Json {
    let (status, body) = get(address, path);
    assert_eq!(status, 200, "{path}: {body}");
    serde_json::from_str(&body).unwrap()
}

#[test]
fn shows_a_real_run() {
    let context = context();
    run(&context, "ngram", "out");
    let (_running, address) = view(&context, &["out"]);
    let list = json(&address, "/api/runs");
    let listed = &list["runs"][0];
    assert_eq!(listed["name"], "ngram");
    assert_eq!(listed["tasks"][0]["main"]["value"], 0.3);
    let id = listed["id"].as_str().unwrap();
    let page = json(&address, &format!("/api/samples?run={id}&task=demo_capitals&outcome=right"));
    assert_eq!((page["total"].as_u64(), page["matched"].as_u64()), (Some(40), Some(12)));
    let row = page["rows"][0]["row"].as_u64().unwrap();
    let sample = json(&address, &format!("/api/sample?run={id}&task=demo_capitals&row={row}"));
    let choices = sample["choices"].as_array().unwrap();
    let right = choices.iter().find(|choice| choice["is_gold"] == true).unwrap();
    assert_eq!(right["is_best"], true);
    let (status, page) = get(&address, "/");
    assert_eq!(status, 200);
    assert!(page.contains("<div id=\"app\">"), "{page}");
}

#[test]
fn compares_real_runs() {
    let context = context();
    run(&context, "ngram", "base");
    run(&context, "uniform", "new");
    let (_running, address) = view(&context, &[]);
    let list = json(&address, "/api/runs");
    let id = |name: &str| {
        let runs = list["runs"].as_array().unwrap();
        runs.iter().find(|run| run["name"] == name).unwrap()["id"].as_str().unwrap().to_owned()
    };
    let compared = json(&address, &format!("/api/compare?base={}&new={}", id("ngram"), id("uniform")));
    let output = context.run(&["compare", "base", "new", "--format", "json"]);
    let printed: Json = serde_json::from_str(&output.stdout).unwrap();
    let (shown, printed) = (&compared["comparisons"][0]["scores"], &printed["comparisons"][0]["scores"]);
    for (shown, printed) in shown.as_array().unwrap().iter().zip(printed.as_array().unwrap()) {
        assert_eq!(shown["difference"], printed["difference"]);
        assert_eq!((&shown["low"], &shown["high"]), (&printed["low"], &printed["high"]));
    }
}

#[test]
fn a_missing_folder_is_an_error() {
    let output = context().run(&["view", "nowhere", "--no-open"]);
    assert_eq!(output.status, 1, "{output}");
    assert!(output.stderr.contains("nowhere"), "{output}");
}

#[test]
fn writes_a_report_that_stands_alone() {
    let context = context();
    run(&context, "ngram", "base");
    run(&context, "uniform", "new");
    let output = context.run(&["report", "base", "new", "-o", "report.html", "--samples", "5"]);
    assert_eq!(output.status, 0, "{output}");
    assert!(output.stdout.starts_with("report.html: 10 of 80 samples"), "{output}");
    let html = fs_err::read_to_string(context.work().join("report.html")).unwrap();
    assert!(html.contains("Content-Security-Policy") && html.contains("<script id=\"data\""));
    for remote in ["src=\"http", "href=\"http", "url(http", "@import", "fetch(\"http"] {
        assert!(!html.contains(remote), "{remote}");
    }
    let output = context.run(&["report", "nowhere"]);
    assert_eq!(output.status, 1, "{output}");
    assert!(output.stderr.contains("nowhere"), "{output}");
    let entries: Vec<_> =
        fs_err::read_dir(context.work()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!entries.iter().any(|name| name.to_string_lossy().ends_with(".part")), "{entries:?}");
}

/// A run against a slow server is followed in progress; its scores are those of a run without the page.
#[test]
fn follows_a_run() {
    let server =
        StandInServer::start(ServerOptions { delay: Duration::from_millis(20), ..ServerOptions::default() });
    let context = context();
    let arguments =
        format!("model=m,base_url={},num_concurrent=2,tokenizer_backend=none", server.url("/v1/completions"));
    let words = |folder: &'static str| {
        vec![
            "run",
            "--model",
            "local-completions",
            "--tasks",
            "demo_arithmetic",
            "--output_path",
            folder,
            "--log_samples",
            "--model_args",
        ]
    };
    let mut watched = words("watched");
    watched.extend([arguments.as_str(), "--view"]);
    let mut child = context.command(&watched).spawn_piped();
    let mut notes = BufReader::new(child.stderr.take().unwrap());
    let address = loop {
        let mut line = String::new();
        assert_ne!(notes.read_line(&mut line).unwrap(), 0, "No address was printed");
        if let Some((_, url)) = line.split_once("Follow the run at http://") {
            break url.trim().trim_end_matches("/#/live").to_owned();
        }
    };
    let rest = std::thread::spawn(move || {
        let mut text = String::new();
        let _ = notes.read_to_string(&mut text);
        text
    });
    let mut stream = TcpStream::connect(&address).unwrap();
    stream.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
    write!(stream, "GET /api/live HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
    let mut last = Json::Null;
    for line in BufReader::new(stream).lines() {
        if let Some(data) = line.unwrap().strip_prefix("data: ") {
            last = serde_json::from_str(data).unwrap();
            if last["finished"] == true {
                break;
            }
        }
    }
    let status = child.wait().unwrap();
    assert!(status.success(), "{}", rest.join().unwrap());
    assert_eq!(last["finished"], true, "{last}");
    assert_eq!(last["tasks"][0]["done"], last["tasks"][0]["total"], "{last}");
    assert!(!last["answers"].as_array().unwrap().is_empty(), "{last}");
    assert!(last["run"].is_string(), "{last}");
    let mut plain = words("plain");
    plain.push(&arguments);
    assert_eq!(context.run(&plain).status, 0);
    assert_eq!(scores(&context, "watched"), scores(&context, "plain"));
}

fn scores(context: &TestContext, folder: &str) -> Json {
    let model = fs_err::read_dir(context.work().join(folder)).unwrap().next().unwrap().unwrap().path();
    let mut files = fs_err::read_dir(model).unwrap().map(|entry| entry.unwrap().path());
    let path = files.find(|path| path.extension().is_some_and(|extension| extension == "json")).unwrap();
    let results: Json = serde_json::from_str(&fs_err::read_to_string(path).unwrap()).unwrap();
    results["results"].clone()
}

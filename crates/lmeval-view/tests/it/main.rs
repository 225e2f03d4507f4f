//! The viewer through its socket, and reports as files.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod compare;
mod curves;
mod hostile;
mod journal;
mod live;
mod report;
mod runs;
mod samples;
mod security;

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lmeval_view::{Listen, Server, Viewer};
use serde_json::{Value as Json, json};

/// The time in the names of test files.
const STAMP: &str = "2026-11-15T02-46-50.151442";

/// An answer of the server.
struct Reply {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Reply {
    fn json(&self) -> Json {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&self.body)))
    }

    fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

/// A server over a folder of its own.
struct Fixture {
    folder: tempfile::TempDir,
    server: Server,
}

impl Fixture {
    /// Starts a server over what `fill` writes.
    fn new(fill: impl FnOnce(&Path)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fill(folder.path());
        let viewer = Viewer::new(&[folder.path().to_owned()]).unwrap();
        let server = serve(viewer);
        Self { folder, server }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The JSON at an address that has to work.
    fn get(&self, path: &str) -> Json {
        let reply = request(self.server.address(), "GET", path, &[]);
        assert_eq!(reply.status, 200, "{path}: {}", String::from_utf8_lossy(&reply.body));
        reply.json()
    }

    /// The status and the error at an address that has to fail.
    fn refused(&self, path: &str) -> (u16, String) {
        let reply = request(self.server.address(), "GET", path, &[]);
        assert_ne!(reply.status, 200, "{path}");
        (reply.status, reply.json()["error"].as_str().unwrap().to_owned())
    }

    /// The id of the only run.
    fn run(&self) -> String {
        let list = self.get("/api/runs");
        assert_eq!(list["runs"].as_array().unwrap().len(), 1, "{list}");
        list["runs"][0]["id"].as_str().unwrap().to_owned()
    }

    /// A page of samples, once the whole file is indexed.
    fn samples(&self, query: &str) -> Json {
        let path = format!("/api/samples?run={}&task=quiz{query}", self.run());
        for _ in 0..500 {
            let page = self.get(&path);
            if page["index"]["complete"] == true {
                return page;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("The index is never complete");
    }
}

fn serve(viewer: Viewer) -> Server {
    Server::start(Arc::new(viewer), &Listen { host: None, port: Some(0) }).unwrap()
}

/// Sends a request over a connection of its own.
fn request(address: SocketAddr, method: &str, path: &str, headers: &[(&str, &str)]) -> Reply {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
    let mut text = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
        let _ = write!(text, "Host: {address}\r\n");
    }
    for (name, value) in headers {
        let _ = write!(text, "{name}: {value}\r\n");
    }
    text.push_str("\r\n");
    stream.write_all(text.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").expect("a head");
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Reply { status, head, body: bytes[end + 4..].to_vec() }
}

/// A sample of a generation task.
fn generated(doc_id: i64, prompt: &str, answer: &str, target: &str, score: f64) -> Json {
    json!({
        "doc_id": doc_id,
        "doc": { "question": prompt, "subject": if doc_id % 2 == 0 { "even" } else { "odd" } },
        "target": target,
        "arguments": { "gen_args_0": { "arg_0": prompt, "arg_1": { "until": ["\n"], "max_gen_toks": 8 } } },
        "resps": [[answer]],
        "filtered_resps": [answer],
        "filter": "none",
        "metrics": ["exact_match"],
        "doc_hash": format!("{:x<64}", format!("{:016x}", doc_id + 1)).replace('x', "0"),
        "prompt_hash": format!("{:x<64}", "7").replace('x', "0"),
        "target_hash": format!("{:x<64}", "8").replace('x', "0"),
        "exact_match": score,
    })
}

/// A sample of a multiple-choice task.
fn chosen(doc_id: i64, logprobs: [f64; 3], gold: usize, acc: f64) -> Json {
    let arguments: serde_json::Map<String, Json> = ["red", "green", "blue"]
        .iter()
        .enumerate()
        .map(|(at, text)| {
            (format!("gen_args_{at}"), json!({ "arg_0": "Which?\nA:", "arg_1": format!(" {text}") }))
        })
        .collect();
    let answers: Vec<Json> = logprobs.iter().map(|logprob| json!([[logprob.to_string(), "False"]])).collect();
    json!({
        "doc_id": doc_id, "doc": { "q": "Which?" }, "target": gold.to_string(), "arguments": arguments,
        "resps": answers, "filtered_resps": answers, "filter": "none", "metrics": ["acc"], "acc": acc,
    })
}

fn lines(samples: &[Json]) -> String {
    samples.iter().fold(String::new(), |mut text, sample| {
        let _ = writeln!(text, "{sample}");
        text
    })
}

fn samples_path(folder: &Path, model: &str, task: &str) -> PathBuf {
    folder.join(model).join(format!("samples_{task}_{STAMP}.jsonl"))
}

/// Writes a run with one task, `quiz`.
fn write_run(folder: &Path, model: &str, samples: &str) {
    let folder = folder.join(model);
    fs_err::create_dir_all(&folder).unwrap();
    let count = samples.lines().count();
    let results = json!({
        "results": { "quiz": {
            "alias": "quiz", "exact_match,none": 0.5, "exact_match_stderr,none": 0.5, "sample_len": count,
        } },
        "group_subtasks": {},
        "configs": { "quiz": {
            "task": "quiz", "num_fewshot": 1, "fewshot_delimiter": "\n\n", "description": "",
            "metadata": { "version": 1, "api_key": "sk-very-secret-0123456789" },
            "filter_list": [{ "name": "none", "filter": [{ "function": "take_first" }] }],
        } },
        "versions": { "quiz": 1 }, "n-shot": { "quiz": 1 },
        "higher_is_better": { "quiz": { "exact_match": true } },
        "n-samples": { "quiz": { "original": count, "effective": count } },
        "config": {
            "model": "local-completions",
            "model_args": "model=m,api_key=sk-very-secret-0123456789", "limit": null, "batch_size": 1,
        },
        "date": 1763174810.5, "lm_eval_version": "0.5.0", "model_name": model,
        "total_evaluation_time_seconds": "12.5",
        "audit": { "quiz": { "none": { "documents": count, "answers": count, "empty": 1, "truncated": 0 } } },
    });
    fs_err::write(folder.join(format!("results_{STAMP}.json")), results.to_string()).unwrap();
    fs_err::write(folder.join(format!("samples_quiz_{STAMP}.jsonl")), samples).unwrap();
}

/// Four samples: right, wrong, partial, NaN.
fn four() -> String {
    let nan = generated(3, "Ex 1\n\nWhat is 4?", "", "4", 0.0)
        .to_string()
        .replace("\"exact_match\":0.0", "\"exact_match\":NaN");
    let mut text = lines(&[
        generated(0, "Ex 1\n\nWhat is 1?", "one", "one", 1.0),
        generated(1, "Ex 1\n\nWhat is 2?", "Three <b>", "two", 0.0),
        generated(2, "Ex 1\n\nWhat is 3?", "thr", "three", 0.5),
    ]);
    text.push_str(&nan);
    text.push('\n');
    text
}

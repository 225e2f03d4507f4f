//! The hub from the command line: tokens, and downloads of models.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;

use lmeval_testkit::StandInHub;

use crate::context;

const TASK: &str = "task: local\noutput_type: generate_until\ntest_split: test\ndoc_to_text: '{{q}}'\n\
     doc_to_target: '{{a}}'\ndataset_path: json\ndataset_kwargs: {data_files: {test: rows.jsonl}}\n\
     generation_kwargs: {until: [], max_gen_toks: 2}\n";

/// A server that answers 404 and records every request.
fn recorder() -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let heads = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&heads);
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let lines = BufReader::new(&stream).lines().map_while(Result::ok);
            let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
            seen.lock().unwrap().push(head.join("\n").to_lowercase());
            let _ =
                stream.write_all(b"HTTP/1.1 404 Not Found\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
        }
    });
    (endpoint, heads)
}

#[test]
fn sends_no_token_after_opting_out() {
    let context = context();
    context.write("rows.jsonl", "{\"q\": \"a\", \"a\": \"b\"}\n");
    let task =
        "output_type: generate_until\ntest_split: test\ndoc_to_text: '{{q}}'\ndoc_to_target: '{{a}}'\n";
    let local = "dataset_path: json\ndataset_kwargs: {data_files: {test: rows.jsonl}}\n";
    context.write("local.yaml", format!("task: local\n{local}{task}"));
    context.write("remote.yaml", format!("task: remote\ndataset_path: org/data\n{task}"));
    context.write("home/token", "hf_stored-secret\n");
    let (endpoint, heads) = recorder();
    let server = format!("model=org/model,base_url={endpoint}/v1/completions");
    let weights =
        ["--model", "hf", "--model_args", "pretrained=org/model,device=cpu", "--tasks", "local.yaml"];
    let tokenizer = ["--model", "local-completions", "--model_args", &server, "--tasks", "local.yaml"];
    let data = ["--model", "dummy", "--tasks", "remote.yaml"];
    for (kind, words) in [("weights", &weights[..]), ("tokenizer", &tokenizer), ("data", &data)] {
        for (opted_out, variable) in [(false, false), (true, false), (false, true), (true, true)] {
            heads.lock().unwrap().clear();
            let mut command = context.command(&["run"]).env("HF_ENDPOINT", &endpoint);
            for word in words {
                command = command.arg(word);
            }
            command = command.env("HF_HOME", context.work().join("home"));
            if variable {
                command = command.env("HF_TOKEN", "hf_variable-secret");
            }
            if opted_out {
                command = command.env("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1");
            }
            let output = command.run();
            assert_ne!(output.status, 0, "{output}");
            assert!(!output.stderr.contains("-secret") && !output.stdout.contains("-secret"), "{output}");
            let heads = heads.lock().unwrap();
            let asked: Vec<_> = heads.iter().filter(|head| head.contains("org/")).collect();
            assert!(!asked.is_empty(), "{kind}: {output}");
            let expected = match (opted_out, variable) {
                (true, _) => None,
                (false, false) => Some("authorization: bearer hf_stored-secret"),
                (false, true) => Some("authorization: bearer hf_variable-secret"),
            };
            for head in asked {
                let sent = head.lines().find(|line| line.starts_with("authorization:"));
                assert_eq!(sent, expected, "{kind}, opted out: {opted_out}\n{head}");
            }
        }
    }
}

/// Weights are downloaded once, with notes, by one process for all; afterwards no connection is needed.
#[test]
fn downloads_a_hub_model_once() {
    let context = context();
    context.write("rows.jsonl", "{\"q\": \"a\", \"a\": \"b\"}\n");
    context.write("local.yaml", TASK);
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../lmeval-candle/tests/fixtures/llama");
    let hub = StandInHub::new();
    hub.add_model_folder("org/llama", "main", &fixture);
    let run = |offline: &str| {
        let words = ["run", "--model", "hf", "--model_args", "pretrained=org/llama,device=cpu", "--tasks"];
        let command = context.command(&[&words[..], &["local.yaml", "--library", "none"]].concat());
        command.env("HF_ENDPOINT", hub.endpoint()).env("HF_HUB_OFFLINE", offline).run()
    };
    let first = run("0");
    assert_eq!(first.status, 0, "{first}");
    assert!(first.stderr.contains("Downloading model.safetensors"), "{first}");
    let asked = hub.requests("").len();
    for offline in ["1", "0"] {
        let again = run(offline);
        assert_eq!((again.status, &again.stdout), (0, &first.stdout), "{again}");
        assert!(!again.stderr.contains("Downloading"), "{again}");
    }
    assert_eq!(hub.requests("").len(), asked);
}

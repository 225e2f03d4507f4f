//! The first contact with a server: waiting for it, mistakes in its address, and `lm-eval doctor`.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::process::Child;
use std::time::{Duration, Instant};

use lmeval_testkit::{
    ScoringBehavior, ScoringModel, ServerOptions, StandInServer, TailRoute, TestContext, TokenIds,
};
use serde_json::Value;

use crate::context;
use crate::server::{TASK, documents};

fn prepared() -> TestContext {
    let context = context();
    context.write("numbers.jsonl", documents());
    context.write("numbers.yaml", TASK);
    context
}

/// An address at which nothing listens.
fn closed_port() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}/v1/completions", listener.local_addr().unwrap())
}

fn arguments<'a>(model_args: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let words =
        ["run", "--model", "local-completions", "--model_args", model_args, "--tasks", "numbers.yaml"];
    [&words[..], more].concat()
}

/// Reads standard error until a line contains a string.
fn read_until(child: &mut Child, wanted: &str) -> String {
    let mut read = String::new();
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    while !read.contains(wanted) {
        let count = lines.read_line(&mut read).unwrap();
        assert!(count > 0, "the run ended without {wanted:?}:\n{read}");
    }
    // Keeps the pipe open for the rest.
    std::thread::spawn(move || lines.lines().count());
    read
}

#[cfg(unix)]
#[test]
fn says_what_it_waits_for_and_ctrl_c_ends_it() {
    let url = closed_port();
    let model_args = format!("model=m,base_url={url},tokenizer_backend=none");
    for mode in ["auto", "plain", "json", "none"] {
        for output in [&["--output_path", "out"][..], &[]] {
            let context = prepared();
            let words = arguments(&model_args, &[&["--progress", mode], output].concat());
            let begun = Instant::now();
            let mut child = context.command(&words).spawn_piped();
            let stderr = read_until(&mut child, "Waiting for the server: No connection to");
            let address = url.trim_end_matches("/v1/completions");
            assert!(stderr.contains("retrying for up to 5:00") && stderr.contains(address), "{stderr}");
            // The handler of the signal is set up on another thread.
            std::thread::sleep(Duration::from_millis(500));
            let status = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
            assert!(status.unwrap().success());
            assert_eq!(child.wait().unwrap().code(), Some(130));
            // The limit is five minutes; this only shows that it did not wait for it.
            assert!(begun.elapsed() < Duration::from_mins(2), "{mode}");
        }
    }
}

#[cfg(unix)]
#[test]
fn ctrl_c_does_not_mention_requests_before_the_first() {
    let context = prepared();
    let model_args = format!("model=m,base_url={},tokenizer_backend=none", closed_port());
    let words = arguments(&model_args, &["--output_path", "out"]);
    let child = context.command(&words).spawn_piped();
    std::thread::sleep(Duration::from_millis(1500));
    std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{stderr}");
    assert!(stderr.contains("Stopping: the server has not answered yet."), "{stderr}");
    assert!(!stderr.contains("requests in flight"), "{stderr}");
}

#[test]
fn waits_for_a_server_that_is_loading() {
    let context = prepared();
    let server = StandInServer::start(ServerOptions::default());
    server.set_models(Some((503, r#"{"error": {"message": "Loading model"}}"#)));
    let model_args = format!("model=m,base_url={},tokenizer_backend=none", server.url("/v1/completions"));
    let words = arguments(&model_args, &[]);
    let mut child = context.command(&words).spawn_piped();
    let stderr = read_until(&mut child, "Waiting for the server");
    assert!(stderr.contains("Loading model"), "{stderr}");
    assert_eq!(server.total(), 0);
    server.set_models(None);
    assert!(child.wait().unwrap().success());
    assert_eq!(server.total(), 10);
}

#[test]
fn wrong_paths_fail_before_the_first_task() {
    let context = prepared();
    let server = StandInServer::start(ServerOptions::default());
    for path in ["", "/v1", "/v2/complete"] {
        let model_args = format!("model=m,base_url={},tokenizer_backend=none", server.url(path));
        let output = context.run(&arguments(&model_args, &[]));
        assert_eq!(output.status, 1, "{output}");
        assert!(output.stderr.contains("refused a test request: 404"), "{output}");
        assert!(output.stderr.contains("ending in `/v1/completions`"), "{output}");
        assert!(server.total() <= 1, "{path}");
        server.reset();
    }
}

#[test]
fn models_that_the_server_lacks_fail_before_the_first_task() {
    let context = prepared();
    let server = StandInServer::start(ServerOptions {
        faults: lmeval_testkit::Faults { refused: vec!["\"model\": \"typo\"".into()], ..Default::default() },
        ..ServerOptions::default()
    });
    let list = r#"{"data": [{"id": "right", "owned_by": "vllm"}]}"#;
    server.set_models(Some((200, list)));
    let model_args = format!("model=typo,base_url={},tokenizer_backend=none", server.url("/v1/completions"));
    let output = context.run(&arguments(&model_args, &[]));
    assert_eq!(output.status, 1, "{output}");
    assert!(output.stderr.contains("refused a test request: 400"), "{output}");
    assert!(output.stderr.contains("The server lists `right`: set `model` to one of them"), "{output}");
    assert_eq!(server.total(), 1);
    // A name that is not listed but accepted, such as an alias.
    let model_args = format!("model=alias,base_url={},tokenizer_backend=none", server.url("/v1/completions"));
    let output = context.run(&arguments(&model_args, &[]));
    assert_eq!(output.status, 0, "{output}");
}

#[test]
fn missing_model_name_fails_before_the_first_task() {
    let context = prepared();
    let server = StandInServer::start(ServerOptions {
        faults: lmeval_testkit::Faults { refused: vec!["\"model\": null".into()], ..Default::default() },
        ..ServerOptions::default()
    });
    let model_args = format!("base_url={},tokenizer_backend=none", server.url("/v1/completions"));
    let single = r#"{"data": [{"id": "right", "owned_by": "me"}]}"#;
    for (list, hint) in [
        ((200, single), "The server lists `right`: set `model` to one of them"),
        ((404, "{}"), "The model argument `model` is missing"),
    ] {
        server.set_models(Some(list));
        let output = context.run(&arguments(&model_args, &[]));
        assert_eq!(output.status, 1, "{output}");
        assert!(output.stderr.contains("refused a test request: 400"), "{output}");
        assert!(output.stderr.contains(hint), "{output}");
        assert_eq!(server.total(), 1);
        server.reset();
    }
}

fn doctor(context: &TestContext, model_args: &str) -> (i32, Vec<Value>) {
    let words = ["doctor", "--model", "local-completions", "--model_args", model_args, "--json"];
    let output = context.run(&words);
    let checks = output.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (output.status, checks)
}

/// Verdict and text of a check.
fn check<'a>(checks: &'a [Value], name: &str) -> (&'a str, String) {
    let check = checks.iter().find(|check| check["check"] == name);
    let check = check.unwrap_or_else(|| panic!("no {name} in {checks:?}"));
    (check["verdict"].as_str().unwrap(), check.to_string())
}

#[test]
fn doctor_checks_a_server() {
    let behavior = ScoringBehavior { tail: TailRoute::ComputedOnly, ..Default::default() };
    let model = ScoringModel::new(behavior);
    let scoring = Some(model.clone());
    let server = StandInServer::start(ServerOptions { scoring, tokenizer: true, ..ServerOptions::default() });
    let model_args = format!("model=m,base_url={}", server.url("/v1/completions"));
    let (status, checks) = doctor(&context(), &model_args);
    assert_eq!(status, 0, "{checks:?}");
    for name in ["contact", "model", "tokenizer", "log-probabilities", "latency", "throughput"] {
        assert_eq!(check(&checks, name).0, "ok", "{checks:?}");
    }
    let (verdict, text) = check(&checks, "scoring");
    assert!(verdict == "ok" && text.contains("next_token+tail"), "{text}");
    model.restart(ScoringBehavior { token_ids: TokenIds::Ignored, ..behavior });
    let (status, checks) = doctor(&context(), &model_args);
    assert_eq!(status, 0, "{checks:?}");
    let (verdict, text) = check(&checks, "scoring");
    assert!(verdict == "note" && text.contains("is missing from the answer"), "{text}");
    // As text.
    let output = context().run(&["doctor", "--model", "local-completions", "--model_args", &model_args]);
    assert!(output.stdout.contains("log-probabilities  ok      returned for prompts"), "{output}");
}

#[test]
fn doctor_names_problems() {
    let model_args = format!("model=m,base_url={},tokenizer_backend=none,patience=1", closed_port());
    let (status, checks) = doctor(&context(), &model_args);
    assert_eq!((status, check(&checks, "contact").0), (1, "failed"), "{checks:?}");
    let server = StandInServer::start(ServerOptions { tokenizer: true, ..ServerOptions::default() });
    server.set_models(Some((200, r#"{"data": [{"id": "m", "max_model_len": 512}]}"#)));
    let model_args = format!("model=m,base_url={}", server.url("/v1/completions"));
    let (status, checks) = doctor(&context(), &model_args);
    let (verdict, text) = check(&checks, "model");
    assert_eq!((status, verdict), (1, "failed"), "{checks:?}");
    assert!(text.contains("Set `max_length=512`"), "{text}");
    let silent = ServerOptions { tokenizer: true, ignores_echo: true, ..ServerOptions::default() };
    let server = StandInServer::start(silent);
    let model_args =
        format!("model=m,base_url={},max_retries=2,retry_wait=0.01", server.url("/v1/completions"));
    let (status, checks) = doctor(&context(), &model_args);
    assert_eq!((status, check(&checks, "log-probabilities").0), (1, "failed"), "{checks:?}");
    let output = context().run(&["doctor", "--model", "uniform"]);
    assert!(output.status == 0 && output.stdout.contains("nothing else to check"), "{output}");
}

//! The first contact with a server: waiting for it, mistakes in its address, and `lm-eval doctor`.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
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

/// An address at which nothing listens: the port stays taken by a socket that does not listen.
fn closed_port() -> String {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    std::mem::forget(socket);
    format!("http://{address}/v1/completions")
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
    let output = context().run(&["doctor", "--model", "gguf", "--model_args", "base_url=http://localhost:9"]);
    assert!(output.status == 0 && output.stdout.contains("`gguf` has no checks"), "{output}");
}

/// A server that answers every request in the same way, whatever the path.
fn uniform_server(status: &'static str, body: &'static str) -> String {
    answering(move |_| (status, body))
}

/// A server that answers by the request line.
fn answering(answer: impl Fn(&str) -> (&'static str, &'static str) + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut first, mut length) = (String::new(), 0);
            reader.read_line(&mut first).unwrap();
            loop {
                let mut line = String::new();
                reader.read_line(&mut line).unwrap();
                if let Some(number) = line.to_lowercase().strip_prefix("content-length:") {
                    length = number.trim().parse().unwrap();
                }
                if line.trim().is_empty() {
                    break;
                }
            }
            std::io::copy(&mut reader.take(length), &mut std::io::sink()).unwrap();
            let (status, body) = answer(&first);
            let size = body.len();
            // The client may be gone.
            let _ = write!(
                stream,
                "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {size}\r\n\r\n{body}"
            );
        }
    });
    format!("http://{address}")
}

#[test]
fn doctor_recognises_what_is_not_a_model_server() {
    for (status, body, said) in [
        ("200 OK", "<!doctype html><html>Welcome</html>", "an HTML page"),
        ("404 Not Found", "<html>Not Found</html>", "404"),
        ("200 OK", r#"{"status": "up"}"#, "`choices`"),
    ] {
        let root = uniform_server(status, body);
        for more in ["", ",tokenizer_backend=none"] {
            let begun = Instant::now();
            let (status, checks) =
                doctor(&context(), &format!("model=m,base_url={root}/v1/completions{more}"));
            let (verdict, text) = check(&checks, "contact");
            assert_eq!((status, verdict, checks.len()), (1, "failed", 1), "{checks:?}");
            assert!(text.contains("not a model server") && text.contains(said), "{text}");
            // Retries take minutes; this only shows that there are none.
            assert!(begun.elapsed() < Duration::from_mins(1));
        }
    }
}

#[test]
fn doctor_reports_a_rejected_key_once() {
    let root = uniform_server("401 Unauthorized", r#"{"error": {"message": "Who are you?"}}"#);
    let (status, checks) = doctor(&context(), &format!("model=m,base_url={root}/v1/completions"));
    assert_eq!((status, checks.len()), (1, 1), "{checks:?}");
    let (verdict, text) = check(&checks, "contact");
    assert!(
        verdict == "failed" && text.contains("Who are you?") && text.contains("OPENAI_API_KEY"),
        "{text}"
    );
}

const COMPLETION: &str =
    r#"{"choices": [{"index": 0, "text": "x", "message": {"content": "x"}, "finish_reason": "stop"}]}"#;

#[test]
fn doctor_names_the_other_api_of_a_server() {
    for (served, used, back_end) in [
        ("/v1/chat/completions", "/v1/completions", "local-chat-completions"),
        ("/v1/completions", "/v1/chat/completions", "local-completions"),
        ("/v1/completions", "/v1", "local-completions"),
    ] {
        let line = format!("POST {served} ");
        let root = answering(move |first| {
            if first.starts_with(&line) { ("200 OK", COMPLETION) } else { ("404 Not Found", "{}") }
        });
        let model = if used.contains("chat") { "local-chat-completions" } else { "local-completions" };
        let args = format!("model=m,base_url={root}{used},tokenizer_backend=none");
        let output = context().run(&["doctor", "--model", model, "--model_args", &args]);
        assert_eq!(output.status, 1, "{output}");
        let advice = format!("Use `--model {back_end} --model_args base_url={root}{served}`");
        assert!(output.stdout.contains(&advice), "{output}");
    }
}

#[test]
fn doctor_mentions_choices_on_chat_servers() {
    let server = StandInServer::start(ServerOptions::default());
    let args = format!("model=stand-in,base_url={}", server.url("/v1/chat/completions"));
    let output = context().run(&["doctor", "--model", "local-chat-completions", "--model_args", &args]);
    assert_eq!(output.status, 0, "{output}");
    assert!(output.stdout.contains("`--choices letters` or `--choices generate`"), "{output}");
    assert!(output.stdout.contains("server             ok      "), "{output}");
    assert!(output.stdout.contains("answers chat completions"), "{output}");
}

#[test]
fn unknown_model_arguments_are_named_at_the_start_and_below_the_table() {
    let context = prepared();
    let server = StandInServer::start(ServerOptions::default());
    let url = server.url("/v1/completions");
    let model_args = format!(
        "model=m,base_url={url},tokenizer_backend=none,num_concurent=4,timeout=100,trust_remote_code=True,frobnicate=1"
    );
    let output = context.run(&arguments(&model_args, &[]));
    assert_eq!(output.status, 0, "{output}");
    let warning = "warning: The model argument `num_concurent` is unknown to `local-completions` and has no effect; \
                   did you mean `num_concurrent`?";
    assert_eq!(output.stderr.matches(warning).count(), 2, "{output}");
    assert_eq!(output.stderr.matches("The model argument `frobnicate` is unknown").count(), 2, "{output}");
    assert!(!output.stderr.contains("trust_remote_code") && !output.stderr.contains("`timeout`"), "{output}");
    // The second time is after the results, so that a long run does not hide it.
    let (_, end) = output.stderr.rsplit_once("num_concurent").unwrap();
    assert!(!end.contains("request"), "{output}");
    let chat = format!("model=m,base_url={},num_concurent=4", server.url("/v1/chat/completions"));
    let words =
        ["run", "--model", "local-chat-completions", "--model_args", &chat, "--tasks", "numbers.yaml"];
    let output = context.run(&[&words[..], &["--apply_chat_template"]].concat());
    assert!(output.stderr.contains("did you mean `num_concurrent`?"), "{output}");
}

//! Two servers whose models have the same name.

use std::time::Duration;

use lmeval_testkit::{ServerOptions, StandInServer, TestContext};

use crate::context;
use crate::server::{Server, TASK, documents};

/// Runs the task against servers; returns standard error.
fn run(context: &TestContext, addresses: &str) -> String {
    let model_args = format!("model=m,base_url={addresses},tokenizer_backend=None,tokenized_requests=False");
    let words = ["run", "--model", "local-completions", "--model_args", &model_args];
    let output = context.run(&[&words[..], &["--tasks", "numbers.yaml", "--use_cache", "kept"]].concat());
    assert_eq!(output.status, 0, "{output}");
    output.stderr
}

#[test]
fn answers_are_not_shared_between_addresses() {
    let context = context();
    context.write("numbers.jsonl", documents());
    context.write("numbers.yaml", TASK);
    let [one, other] = [(); 2].map(|()| StandInServer::start(ServerOptions::default()));
    let path = "/v1/completions";
    run(&context, &one.url(path));
    let asked = one.counts().total();
    assert_eq!(asked, 10);
    let stderr = run(&context, &other.url(path));
    assert_eq!(other.counts().total(), 10, "the other server must answer itself");
    assert!(
        stderr.contains("The journal has 10 answers of other models or servers but none of this one"),
        "{stderr}"
    );
    let stderr = run(&context, &one.url(path));
    assert_eq!(one.counts().total(), asked, "answers of the first server are reused");
    assert!(stderr.contains("The journal has 10 answers of this model"), "{stderr}");
    // Several addresses are one model, in any order.
    let (left, right) = (one.url(path), other.url(path));
    run(&context, &format!("{left};{right}"));
    let total = one.counts().total() + other.counts().total();
    assert_eq!(total, 30);
    run(&context, &format!("{right};{left}"));
    assert_eq!(one.counts().total() + other.counts().total(), total);
}

#[test]
fn journal_shows_the_address_without_secrets() {
    let context = context();
    context.write("numbers.jsonl", documents());
    context.write("numbers.yaml", TASK);
    let server = Server::start(Duration::ZERO, None);
    run(
        &context,
        &format!("{}?sig=opensesame&deployment=left", server.url.replace("http://", "http://me:hunter2@")),
    );
    let output = context.run(&["journal", "ls", "kept.journal"]);
    let address = server.url.replace("http://", "").replace("/v1/completions", "");
    assert!(output.stdout.contains(&format!("server {address}?")), "{output}");
    let bytes = fs_err::read(context.work().join("kept.journal")).unwrap();
    let text = String::from_utf8_lossy(&bytes);
    assert!(!text.contains("hunter2") && !text.contains("opensesame"), "{text}");
}

/// A model list with one entry.
fn listing(details: &str) -> String {
    format!(r#"{{"data": [{{"id": "m", "root": "m"{details}}}]}}"#)
}

fn numbers() -> TestContext {
    let context = context();
    context.write("numbers.jsonl", documents());
    context.write("numbers.yaml", TASK);
    context
}

/// Runs with more arguments; returns standard error.
fn run_with(context: &TestContext, model_args: &str, more: &[&str]) -> String {
    let words = ["run", "--model", "local-completions", "--model_args", model_args, "--use_cache", "kept"];
    let output = context.run(&[&words[..], more].concat());
    assert_eq!(output.status, 0, "{output}");
    output.stderr
}

#[test]
fn complete_journal_needs_no_server() {
    let context = numbers();
    let server = StandInServer::start(ServerOptions { tokenizer: true, ..ServerOptions::default() });
    server.set_models(Some((200, &listing(", \"max_model_len\": 4096, \"created\": 1700000000"))));
    // The default tokenizer is the server's, which is not asked for it either.
    let model_args = format!("model=m,base_url={}", server.url("/v1/completions"));
    let tasks = ["--tasks", "numbers.yaml", "--output_path", "out", "--log_samples"];
    run_with(&context, &model_args, &tasks);
    let (sent, connections) = (server.total(), server.connections());
    assert!(sent == 10 && connections > 0);
    let first = crate::long_run::outcome(&context.work().join("out"));
    let stderr = run_with(&context, &model_args, &tasks);
    assert_eq!((server.total(), server.connections()), (sent, connections), "{stderr}");
    assert!(stderr.contains("The journal has 10 answers of this model, `m` at 127.0.0.1:"), "{stderr}");
    assert!(stderr.contains("(max_model_len 4096, created 1700000000)"), "{stderr}");
    assert!(stderr.contains("All 10 answers were reused"), "{stderr}");
    assert!(crate::long_run::outcome(&context.work().join("out")) == first);
    // Nor does it have to exist.
    drop(server);
    run_with(&context, &model_args, &tasks);
}

#[test]
fn restarted_server_with_other_weights_answers_itself() {
    for change in [", \"created\": 1700000001", ", \"root\": \"/new\"", ", \"max_model_len\": 8"] {
        let context = numbers();
        let server = StandInServer::start(ServerOptions::default());
        server.set_models(Some((200, &listing(", \"created\": 1700000000"))));
        let model_args = format!(
            "model=m,base_url={},tokenizer_backend=None,tokenized_requests=False",
            server.url("/v1/completions")
        );
        let other = TASK.replace("task: numbers", "task: words").replace("Number", "Word");
        context.write("words.yaml", other);
        run_with(&context, &model_args, &["--tasks", "numbers.yaml"]);
        server.set_models(Some((200, &listing(change))));
        server.reset();
        let tasks = ["--tasks", "numbers.yaml,words.yaml", "--output_path", "out", "--log_samples"];
        let stderr = run_with(&context, &model_args, &tasks);
        assert_eq!(server.total(), 20, "{stderr}");
        assert!(stderr.contains("another model than when the saved answers were given"), "{stderr}");
        let files =
            fs_err::read_dir(context.work().join("out/m")).unwrap().map(|entry| entry.unwrap().path());
        let files: Vec<_> =
            files.filter(|path| path.extension().is_some_and(|name| name == "jsonl")).collect();
        assert_eq!(files.len(), 2, "{files:?}");
        let results = crate::long_run::results(&context.work().join("out"));
        assert_eq!(results["n-samples"]["numbers"]["effective"], 10);
        assert_eq!(results["task_hashes"].as_object().unwrap().len(), 2);
        // The answers of the new model are complete now.
        let connections = server.connections();
        let stderr = run_with(&context, &model_args, &tasks);
        assert!(stderr.contains("All 20 answers were reused"), "{stderr}");
        assert_eq!(server.connections(), connections);
    }
}

#[test]
fn clock_in_the_model_list_is_no_identity() {
    let context = numbers();
    let server = StandInServer::start(ServerOptions::default());
    let model_args = format!(
        "model=m,base_url={},tokenizer_backend=None,tokenized_requests=False",
        server.url("/v1/completions")
    );
    for limit in ["3", "6", "10"] {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
        server.set_models(Some((200, &listing(&format!(", \"created\": {now}")))));
        run_with(&context, &model_args, &["--tasks", "numbers.yaml", "--limit", limit]);
    }
    assert_eq!(server.total(), 10, "each request is sent once");
}

#[test]
fn model_id_shares_answers_between_addresses() {
    let context = numbers();
    let [one, other] = [(); 2].map(|()| StandInServer::start(ServerOptions::default()));
    let model_args = |server: &StandInServer, id: &str| {
        let url = server.url("/v1/completions");
        format!("model=m,base_url={url},tokenizer_backend=None,tokenized_requests=False,model_id={id}")
    };
    run_with(&context, &model_args(&one, "mine"), &["--tasks", "numbers.yaml"]);
    other.set_models(Some((200, &listing(", \"created\": 1700000000"))));
    let stderr = run_with(&context, &model_args(&other, "mine"), &["--tasks", "numbers.yaml"]);
    assert_eq!((one.total(), other.connections()), (10, 0), "{stderr}");
    assert!(stderr.contains("10 answers of this model, `mine` (`model_id`) at any address"), "{stderr}");
    run_with(&context, &model_args(&other, "another"), &["--tasks", "numbers.yaml"]);
    assert_eq!(other.total(), 10);
}

#[test]
fn incomplete_journal_is_completed_after_a_kill() {
    let context = numbers();
    let options = ServerOptions { delay: Duration::from_millis(30), ..ServerOptions::default() };
    let server = StandInServer::start(options);
    let details = ", \"created\": 1700000000, \"owned_by\": \"vllm\"";
    server.set_models(Some((200, &listing(details))));
    let model_args = format!(
        "model=m,base_url={},tokenizer_backend=None,tokenized_requests=False,num_concurrent=1",
        server.url("/v1/completions")
    );
    let words = ["run", "--model", "local-completions", "--model_args", &model_args, "--use_cache", "kept"];
    let words = [&words[..], &["--tasks", "numbers.yaml"]].concat();
    let mut child = context.command(&words).spawn();
    while server.total() < 4 {
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let output = context.run(&words);
    assert_eq!(output.status, 0, "{output}");
    assert!(server.total() <= 11, "at most the request in flight is repeated");
    let connections = server.connections();
    let output = context.run(&words);
    assert!(output.stderr.contains("All 10 answers were reused"), "{output}");
    assert_eq!(server.connections(), connections);
}

/// Journals of older versions lack what the server reports besides its model's name.
#[test]
fn journal_of_an_older_version_is_resumed() {
    let context = numbers();
    let server = StandInServer::start(ServerOptions::default());
    server.set_models(Some((200, &listing(""))));
    let model_args = format!(
        "model=m,base_url={},tokenizer_backend=None,tokenized_requests=False",
        server.url("/v1/completions")
    );
    run_with(&context, &model_args, &["--tasks", "numbers.yaml", "--limit", "6"]);
    server.set_models(Some((200, &listing(", \"max_model_len\": 4096"))));
    run_with(&context, &model_args, &["--tasks", "numbers.yaml"]);
    assert_eq!(server.total(), 10);
}

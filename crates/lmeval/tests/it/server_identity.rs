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

//! Faulty servers do not change results.

use std::time::Duration;

use lmeval_testkit::{Fault, Faults, ServerOptions, StandInServer};

use crate::long_run::{arguments, outcome, undisturbed, write_task};

const DOCUMENTS: usize = 600;

#[test]
fn faults_do_not_change_results() {
    let context = crate::context();
    write_task(&context, DOCUMENTS);
    let server = StandInServer::start(ServerOptions { faults: Faults::all(60), ..ServerOptions::default() });
    let arguments = arguments(&server, ",retry_wait=0.005,num_concurrent=16");
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let output = context.run(&arguments);
    assert_eq!(output.status, 0, "{output}");
    let counts = server.counts();
    assert_eq!(counts.received.len(), DOCUMENTS);
    assert!(counts.total() > DOCUMENTS * 3 / 2, "{} requests", counts.total());
    assert!(outcome(&context.work().join("out")) == undisturbed(DOCUMENTS), "the results differ");
}

#[test]
fn discards_stray_answers() {
    let context = crate::context();
    write_task(&context, DOCUMENTS);
    let faults = Faults { kinds: vec![Fault::Stray], percent: 10, most_per_request: 1, ..Faults::default() };
    let delay = Duration::from_millis(2);
    let server = StandInServer::start(ServerOptions { faults, delay, ..ServerOptions::default() });
    let arguments = arguments(&server, ",retry_wait=0.005,num_concurrent=4");
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let output = context.run(&arguments);
    assert_eq!(output.status, 0, "{output}");
    assert!(output.stderr.contains("warning: `http://127.0.0.1:"), "{output}");
    // When it first happens, because the run may be killed, and at the end.
    assert_eq!(output.stderr.matches("sends unsolicited answers").count(), 2, "{output}");
    assert!(output.stderr.contains("`--fresh`"), "{output}");
    assert!(outcome(&context.work().join("out")) == undisturbed(DOCUMENTS), "the results differ");
}

#[test]
fn waits_for_a_server_that_restarts() {
    let context = crate::context();
    write_task(&context, DOCUMENTS);
    let delay = Duration::from_millis(5);
    let server = StandInServer::start(ServerOptions { delay, ..ServerOptions::default() });
    let arguments = arguments(&server, "");
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut child = context.command(&arguments).spawn();
    while server.counts().total() < DOCUMENTS / 4 {
        assert!(child.try_wait().unwrap().is_none(), "the run ended early");
        std::thread::sleep(Duration::from_millis(2));
    }
    server.die_for(Duration::from_secs(10));
    assert!(child.wait().unwrap().success());
    assert!(outcome(&context.work().join("out")) == undisturbed(DOCUMENTS), "the results differ");
}

#[test]
fn retries_only_rejected_requests() {
    let context = crate::context();
    write_task(&context, 40);
    let faults =
        Faults { refused: vec!["Question 7:".to_owned(), "Question 31:".to_owned()], ..Faults::default() };
    let server =
        StandInServer::start(ServerOptions { faults, keep_bodies: true, ..ServerOptions::default() });
    let arguments = arguments(&server, ",retry_wait=0.005");
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    for run in 0..2 {
        server.reset();
        let output = context.run(&arguments);
        assert_eq!(output.status, 1, "{output}");
        assert!(output.stderr.contains("must not contain Question 31:"), "{output}");
        assert!(output.stderr.contains("document 7"), "{output}");
        let sent = server.counts().total();
        assert_eq!(sent, if run == 0 { 40 } else { 2 });
        let (results, _) = outcome(&context.work().join("out"));
        assert_eq!(results["audit"]["long"]["word"]["errored"], 2);
        assert_eq!(results["n-samples"]["long"]["effective"], 38);
    }
    let stopped: Vec<&str> = arguments.iter().copied().chain(["--max_failures", "0", "--fresh"]).collect();
    let output = context.run(&stopped);
    assert_eq!(output.status, 1, "{output}");
    assert!(output.stderr.contains("failed permanently"), "{output}");
}

#[test]
fn server_without_log_probabilities_is_an_error() {
    let context = crate::context();
    let server = StandInServer::start(ServerOptions {
        ignores_echo: true,
        tokenizer: true,
        ..ServerOptions::default()
    });
    let model = format!("model=m,base_url={}", server.url("/v1/completions"));
    let output = context.run(&[
        "run",
        "--model",
        "local-completions",
        "--model_args",
        &model,
        "--tasks",
        "demo_capitals",
    ]);
    assert_eq!(output.status, 1, "{output}");
    assert!(output.stderr.contains("log-probabilities"), "{output}");
    assert!(output.stderr.contains("hint:"), "{output}");
}

#[test]
fn interrupt_ends_waiting_for_a_dead_server() {
    let context = crate::context();
    write_task(&context, DOCUMENTS);
    let delay = Duration::from_millis(5);
    let server = StandInServer::start(ServerOptions { delay, ..ServerOptions::default() });
    let mut arguments = arguments(&server, ",num_concurrent=4");
    arguments.extend(["--progress", "json"].map(str::to_owned));
    let mut run = crate::pools::Run::start(&context, &arguments);
    run.wait_until("20 requests", |_| server.counts().total() >= 20);
    drop(server);
    // Every request has failed and waits for its next attempt.
    run.wait_until("four retries", |stderr| {
        let mut lines =
            stderr.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        lines.next_back().is_some_and(|line| line["retries"].as_u64().is_some_and(|retries| retries >= 4))
    });
    let kill =
        std::process::Command::new("kill").args(["-INT", &run.child.id().to_string()]).status().unwrap();
    assert!(kill.success());
    let start = std::time::Instant::now();
    assert_eq!(run.child.wait().unwrap().code(), Some(130));
    assert!(start.elapsed() < Duration::from_secs(30), "it took {:?}", start.elapsed());
}

#[test]
fn resumed_run_waits_for_its_server() {
    let context = crate::context();
    write_task(&context, 50);
    let server = StandInServer::start(ServerOptions::default());
    let arguments = arguments(&server, ",retry_wait=0.05");
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    assert_eq!(context.run(&arguments).status, 0);
    server.reset();
    let mut child = context.command(&arguments).spawn();
    // The server is down when the run requests the model's identity.
    server.die_for(Duration::from_secs(2));
    assert!(child.wait().unwrap().success());
    assert_eq!(server.counts().total(), 0);
}

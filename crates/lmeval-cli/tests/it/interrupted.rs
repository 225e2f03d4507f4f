//! Interrupted runs and how they resume.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use lmeval_testkit::TestContext;

use crate::context;
use crate::server::{Server, TASK, documents};

fn prepared() -> TestContext {
    let context = context();
    context.write("numbers.jsonl", documents());
    context.write("numbers.yaml", TASK);
    context
}

fn words(server: &Server) -> Vec<String> {
    let model_args =
        format!("model=m,base_url={},num_concurrent=1,max_retries=1,tokenizer_backend=None", server.url);
    [
        "run",
        "--model",
        "local-completions",
        "--model_args",
        &model_args,
        "--tasks",
        "numbers.yaml",
        "--output_path",
        "out",
    ]
    .map(str::to_owned)
    .to_vec()
}

fn run(context: &TestContext, words: &[String], more: &[&str]) -> lmeval_testkit::Output {
    let mut all: Vec<&str> = words.iter().map(String::as_str).collect();
    all.extend(more);
    context.run(&all)
}

fn has_results(folder: &Path) -> bool {
    fs_err::read_dir(folder)
        .unwrap()
        .any(|entry| entry.unwrap().file_name().to_string_lossy().starts_with("results_"))
}

/// A run that has sent some requests.
#[cfg(unix)]
fn begun(context: &TestContext, words: &[String], server: &Server, requests: usize) -> Child {
    let mut child = Command::new(env!("CARGO_BIN_EXE_lm-eval"))
        .args(words)
        .current_dir(context.work())
        .env("LM_EVAL_HOME", context.lm_eval_home())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while server.requests() < requests {
        assert!(begun.elapsed() < Duration::from_mins(1), "nothing was sent");
        assert!(child.try_wait().unwrap().is_none(), "the run ended: {:?}", child.wait_with_output());
        thread::sleep(Duration::from_millis(5));
    }
    child
}

#[cfg(unix)]
fn press_ctrl_c(child: &Child) {
    let pressed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(pressed.success());
}

#[cfg(unix)]
#[test]
fn ctrl_c_saves_answers_and_the_next_run_resumes() {
    let context = prepared();
    let server = Server::start(Duration::from_millis(150), None);
    let words = words(&server);
    let child = begun(&context, &words, &server, 3);
    press_ctrl_c(&child);
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{stderr}");
    assert!(stderr.contains("Press Ctrl-C again to quit now"), "{stderr}");
    assert!(stderr.contains("hint: Run the same command again"), "{stderr}");
    let sent = server.requests();
    assert!(sent < 10, "{sent}");
    assert!(!has_results(&context.work().join("out/m")));
    let output = run(&context, &words, &[]);
    assert_eq!(output.status, 0, "{output}");
    assert_eq!(server.requests(), 10, "{output}");
    assert!(output.stdout.contains("|numbers|"), "{output}");
    let output = run(&context, &words, &[]);
    assert_eq!(server.requests(), 10);
    assert!(
        output.stderr.contains("All 10 answers were reused from") && output.stderr.contains("--fresh"),
        "{output}"
    );
    let output = run(&context, &words, &["--fresh"]);
    assert_eq!(output.status, 0, "{output}");
    assert_eq!(server.requests(), 20);
}

#[cfg(unix)]
#[test]
fn second_ctrl_c_quits_immediately() {
    let context = prepared();
    let server = Server::start(Duration::from_mins(2), None);
    let mut child = begun(&context, &words(&server), &server, 1);
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() {
        assert!(begun.elapsed() < Duration::from_mins(1), "it waits");
        press_ctrl_c(&child);
        thread::sleep(Duration::from_millis(200));
    }
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{stderr}");
    assert!(stderr.contains("Quit. Run the same command again to resume"), "{stderr}");
}

#[test]
fn failures_of_a_batch_name_their_own_requests() {
    let context = prepared();
    let refusing = Server::start(Duration::ZERO, Some("Number 3:"));
    let output = run(&context, &words(&refusing), &["--batch_size", "5"]);
    let listed: Vec<&str> = output.stderr.lines().filter(|line| line.starts_with("  `numbers`")).collect();
    assert!(!listed.is_empty(), "{output}");
    for line in &listed {
        assert_eq!(line.matches("document ").count(), 1, "{output}");
    }
    assert!(listed.iter().any(|line| line.contains("document 3,")), "{output}");
}

#[test]
fn lists_failed_requests_and_resends_only_those() {
    let context = prepared();
    let refusing = Server::start(Duration::ZERO, Some("Number 3:"));
    let output = run(&context, &words(&refusing), &["--use_cache", "kept/answers"]);
    assert_eq!(output.status, 1, "{output}");
    assert_eq!(refusing.requests(), 10);
    assert!(output.stderr.contains("error: 1 request failed permanently"), "{output}");
    assert_eq!(output.stderr.matches("document 3").count(), 1, "{output}");
    assert!(output.stderr.contains("`numbers`, document 3, generate_until 0: `http"), "{output}");
    assert!(output.stderr.contains(" refused the request: 400"), "{output}");
    assert!(output.stdout.contains("|numbers (9 of 10 documents)|"), "{output}");
    let file = fs_err::read_dir(context.work().join("out/m"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.to_string_lossy().contains("results_"))
        .unwrap();
    let results: serde_json::Value = serde_json::from_str(&fs_err::read_to_string(file).unwrap()).unwrap();
    assert_eq!(results["failed_requests"], 1);
    assert_eq!(results["audit"]["numbers"]["none"]["errored"], 1);
    assert_eq!(results["n-samples"]["numbers"]["effective"], 9);
    assert_eq!(results["n-samples"]["numbers"]["failed"], 1);
    let output = run(&context, &words(&refusing), &["--use_cache", "kept/answers"]);
    assert_eq!((output.status, refusing.requests()), (1, 11), "{output}");
    let output = context.run(&["journal", "ls", "kept"]);
    assert!(output.stdout.contains("numbers: 9 answered, 1 failed"), "{output}");
    let output = run(&context, &words(&refusing), &["--max_failures", "0", "--fresh"]);
    assert_eq!(output.status, 1, "{output}");
    assert!(output.stderr.contains("failed permanently"), "{output}");
}

//! Killed runs lose no answer.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use lmeval_testkit::{ServerOptions, StandInServer, TestContext};

use crate::long_run::{arguments, outcome, question, undisturbed, write_task};

const DOCUMENTS: usize = 1200;
const KILLS: usize = 50;
const CONCURRENCY: usize = 8;

/// The documents whose answers are in the journal.
fn journaled(context: &TestContext) -> HashSet<usize> {
    let path = "out/m/answers.journal";
    if !context.work().join(path).exists() {
        return HashSet::new();
    }
    let verified = context.run(&["journal", "verify", path]);
    assert_eq!(verified.status, 0, "{verified}");
    let exported = context.run(&["journal", "export", path]);
    assert_eq!(exported.status, 0, "{exported}");
    let documents = exported.stdout.lines().map(|line| {
        let entry: serde_json::Value = serde_json::from_str(line).unwrap();
        usize::try_from(entry["doc_id"].as_u64().unwrap()).unwrap()
    });
    documents.collect()
}

#[test]
fn resumes_after_kills_without_repeating_requests() {
    let context = context_with_task();
    let options =
        ServerOptions { delay: Duration::from_millis(2), keep_bodies: true, ..ServerOptions::default() };
    let server = StandInServer::start(options);
    let arguments = arguments(&server, &format!(",num_concurrent={CONCURRENCY}"));
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    // A fixed seed, although the timing varies anyway.
    let mut random: u64 = 7;
    let mut sent = 0;
    for kill in 0..KILLS {
        let known = journaled(&context);
        server.reset();
        let mut child = context.command(&arguments).spawn();
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let wanted = (random >> 33) as usize % (DOCUMENTS / KILLS);
        // Every fourth kill comes immediately, during startup.
        let patience =
            if kill % 4 == 0 { Duration::from_millis(random % 60) } else { Duration::from_mins(1) };
        let start = Instant::now();
        while server.counts().total() < wanted + 1 && start.elapsed() < patience {
            assert!(child.try_wait().unwrap().is_none(), "the run ended before it was killed");
            std::thread::sleep(Duration::from_millis(1));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        check_run(&server, &known, &mut sent);
        let answered: usize = server.counts().answered.values().sum();
        let kept = journaled(&context).len() - known.len();
        // An answer frees its slot at the model only after it is written.
        assert!(kept + CONCURRENCY >= answered, "{answered} were answered, {kept} kept");
    }
    let known = journaled(&context);
    server.reset();
    let output = context.run(&arguments);
    assert_eq!(output.status, 0, "{output}");
    check_run(&server, &known, &mut sent);
    assert_eq!(journaled(&context).len(), DOCUMENTS);
    assert!(sent <= DOCUMENTS + KILLS * CONCURRENCY, "{sent} requests for {DOCUMENTS} documents");
    assert!(outcome(&context.work().join("out")) == undisturbed(DOCUMENTS), "the results differ");
}

fn context_with_task() -> TestContext {
    let context = crate::context();
    write_task(&context, DOCUMENTS);
    context
}

/// Checks that no journaled request was sent.
fn check_run(server: &StandInServer, known: &HashSet<usize>, sent: &mut usize) {
    for (_, body) in server.counts().bodies {
        let number = question(&body);
        assert!(!known.contains(&number), "document {number} was answered before");
        *sent += 1;
    }
}

#[test]
fn full_disk_loses_no_answer() {
    let context = crate::context();
    write_task(&context, 400);
    let options = ServerOptions { keep_bodies: true, ..ServerOptions::default() };
    let server = StandInServer::start(options);
    let arguments = arguments(&server, ",num_concurrent=4");
    // Files may not grow above 8 KiB; without the trap, the signal rather than the failed write would end the run.
    let limited = std::process::Command::new("bash")
        .args(["-c", "trap '' XFSZ; ulimit -f 8; exec \"$@\"", "bash", env!("CARGO_BIN_EXE_lm-eval")])
        .args(&arguments)
        .current_dir(context.work())
        .env("LM_EVAL_HOME", context.lm_eval_home())
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&limited.stderr);
    assert_eq!(limited.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("answers.journal"), "{stderr}");
    let known = journaled(&context);
    assert!(known.len() > 20 && known.len() < 400, "{}", known.len());
    server.reset();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let output = context.run(&arguments);
    assert_eq!(output.status, 0, "{output}");
    check_run(&server, &known, &mut 0);
    assert!(outcome(&context.work().join("out")) == undisturbed(400), "the results differ");
}

#[test]
fn unwritable_folder_fails_before_sending() {
    let context = crate::context();
    write_task(&context, 5);
    // Permissions would not stop root; a file instead of the folder stops everybody.
    context.write("out", "a file");
    let server = StandInServer::start(ServerOptions::default());
    let arguments = arguments(&server, "");
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let output = context.run(&arguments);
    assert_eq!(output.status, 1, "{output}");
    assert!(output.stderr.contains("out"), "{output}");
    assert_eq!(server.counts().total(), 0);
}

//! A model on workers whose answers a judge grades.

use lmeval_testkit::{Scripted, ServerOptions, StandInServer};
use serde_json::Value;

use crate::hf::{arguments, prepared, run};
use crate::judge::{GRADED, asked, questions, results, write_task};
use crate::workers::{Run, ended};

/// Grades an answer by its first bytes.
fn grade(body: &Value, _: usize) -> Scripted {
    let text = asked(body);
    let answer = text.split("<answer>").nth(1).unwrap_or_default();
    let sum: usize = answer.bytes().take(8).map(usize::from).sum();
    Scripted::Text(format!("GRADE: {}", ["C", "P", "I"][sum % 3]))
}

#[test]
fn judge_is_an_ordinary_model_beside_workers() {
    let context = prepared();
    write_task(&context, 12, GRADED);
    let options = ServerOptions { chat: Some(grade), keep_bodies: true, ..ServerOptions::default() };
    let server = StandInServer::start(options);
    let judge = format!(
        "grader=local-chat-completions,model=grader-model,base_url={}",
        server.url("/v1/chat/completions")
    );
    let words = |out: &str| {
        let mut words = arguments("judged.yaml", "", out);
        words.extend(["--judge".to_owned(), judge.clone()]);
        words
    };
    let output = run(&context, &words("one"));
    assert_eq!(output.status, 0, "{output}");
    assert_eq!(questions(&server, "grader-model"), 12);
    server.reset();
    let mut pool = Run::start(&context, words("pool"), "");
    let workers = [pool.join(&context), pool.join(&context)];
    pool.wait_for("workers: 2");
    let text = pool.finish();
    assert!(!text.contains("warning"), "{text}");
    for worker in workers {
        let (status, text) = ended(worker);
        assert_eq!(status, 0, "{text}");
    }
    assert_eq!(questions(&server, "grader-model"), 12);
    let [one, pool] = ["one", "pool"].map(|out| results(&context, out));
    let score = &pool["results"]["judged"]["judge_score,none"];
    assert!(score.as_f64().is_some_and(|score| score > 0.0 && score < 1.0), "{pool}");
    assert_eq!(pool["results"], one["results"]);
    assert_eq!(pool["judging"], one["judging"]);
}

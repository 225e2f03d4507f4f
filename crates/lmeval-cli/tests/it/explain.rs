//! `reproduce --explain`: what the files of runs tell, what servers refuse, and claims of the reference.

use std::process::Command;

use lmeval_testkit::{Output, Scripted, ServerOptions, StandInServer, TestContext, test_environment};
use serde_json::{Value, json};

use crate::context;
use crate::judge::number_after;

/// A model that reasons in two paragraphs about every third question. It is right about three of four questions.
fn reasoning(body: &Value, _: usize) -> Scripted {
    let Some(prompt) = body["prompt"].as_str().or_else(|| body["prompt"][0].as_str()) else {
        return Scripted::Status(400);
    };
    if prompt.contains("You are") {
        // An error that may pass.
        return Scripted::Status(500);
    }
    let question = number_after(&prompt[prompt.rfind("Question ").unwrap_or(0)..], "Question ");
    let result = if question.is_multiple_of(4) && question > 40 { "wrong" } else { "right" };
    let between = if question.is_multiple_of(3) { "\n\n" } else { " " };
    let last = if question.is_multiple_of(5) { format!("It is {result}.") } else { format!("#### {result}") };
    let mut text = format!("We think.{between}{last}");
    for stop in body["stop"].as_array().into_iter().flatten() {
        text = text.split(stop.as_str().unwrap()).next().unwrap().to_owned();
    }
    Scripted::Body(200, json!({"choices": [{"index": 0, "text": text, "finish_reason": "stop"}]}))
}

const FILTERS: &str = "filter_list:\n\
    - {name: strict, filter: [{function: regex, regex_pattern: '#### (.*)'}, {function: take_first}]}\n\
    - {name: flexible, filter: [{function: regex, regex_pattern: '(right|wrong)'}, {function: take_first}]}\n";

/// A quiz with two filters, and one about the same documents that has a filter of its own.
fn write_tasks(context: &TestContext) {
    crate::traps::write_task(context, 400);
    let quiz = fs_err::read_to_string(context.work().join("tasks/quiz.yaml")).unwrap();
    let quiz = quiz.replace("until: [\"\\n\"], max_gen_toks: 4", "until: [\"<end>\"], max_gen_toks: 64");
    context.write("tasks/quiz.yaml", format!("{quiz}{FILTERS}"));
    let other = quiz.replace("task: quiz", "task: quiz_hard");
    context.write(
        "tasks/quiz_hard.yaml",
        format!(
            "{other}{}",
            FILTERS.replace("#### (.*)", "It is (right)").replace("(right|wrong)", "nothing (.*)")
        ),
    );
}

fn arguments(server: &StandInServer) -> String {
    format!(
        "model=m,base_url={},tokenizer_backend=None,tokenized_requests=False,num_concurrent=8",
        server.url("/v1/completions")
    )
}

fn run(context: &TestContext, server: &StandInServer, out: &str, more: &[&str]) {
    let args = arguments(server);
    let words = [
        "run",
        "--model",
        "local-completions",
        "--model_args",
        &args,
        "--tasks",
        "quiz",
        "--include_path",
        "tasks",
    ];
    let output = context.run(&[&words[..], &["--output_path", out, "--log_samples"], more].concat());
    assert_eq!(output.status, 0, "{output}");
}

fn explained(context: &TestContext, claim: &str, run: &str) -> Output {
    let output = context.run(&["reproduce", claim, run, "--include_path", "tasks", "--explain"]);
    assert_eq!(output.status, 3, "{output}");
    output
}

fn start() -> StandInServer {
    StandInServer::start(ServerOptions { completions: Some(reasoning), ..ServerOptions::default() })
}

#[test]
fn stored_answers_tell_of_limits_stop_strings_filters_and_tasks() {
    let context = context();
    write_tasks(&context);
    let server = start();
    run(&context, &server, "out", &[]);
    let asked = server.total();
    // All are right up to question 40, three of four after it; every fifth has the answer in another form, every third in a second paragraph.
    for (claim, cause) in [
        (
            "quiz=exact_match,flexible=1.0@40",
            "the first 40 documents of this run score 1.0000: the claim may be of `--limit 40`",
        ),
        ("quiz=exact_match,flexible=0.5163", "cut at an empty line"),
        ("quiz=exact_match,strict=0.7725", "`exact_match,flexible` of this run is 0.77"),
        (
            "quiz=exact_match,strict=0.155±0.01",
            "with the filters and metrics of the task `quiz_hard`, the stored answers score 0.15",
        ),
    ] {
        let output = explained(&context, claim, "out");
        let lines: Vec<&str> = output.stdout.lines().filter(|line| line.starts_with('→')).collect();
        assert!(lines.first().is_some_and(|line| line.contains(cause)), "{claim}: {output}");
        assert!(output.stdout.contains("Only the model can tell about the chat template"), "{output}");
        assert!(output.stdout.contains("--model local-completions --model_args model=m,"), "{output}");
        assert!(output.stdout.contains("--tasks quiz:0") && output.stdout.contains("--explain"), "{output}");
    }
    let output = explained(&context, "quiz=exact_match,flexible=0.1±0.01", "out");
    assert!(output.stdout.contains("Nothing in the stored answers closes the gap."), "{output}");
    assert_eq!(server.total(), asked, "No model is asked");
}

#[test]
fn two_runs_tell_where_their_scores_part() {
    let context = context();
    write_tasks(&context);
    let server = start();
    run(&context, &server, "mine", &[]);
    run(&context, &server, "shots", &["--num_fewshot", "2", "--gen_kwargs", "{\"until\": [\"\\n\\n\"]}"]);
    let output = explained(&context, "shots", "mine");
    for part in [
        "|Settings that differ",
        "|examples",
        "|gen_kwargs",
        "400 of 400 documents have another prompt, such as document 0:",
        "claim: Question ",
        "`until` was ['\\n\\n'] for the claim and ['<end>'] in the run",
    ] {
        assert!(output.stdout.contains(part), "{part}: {output}");
    }
    // The same prompts and answers, scored by another filter.
    let quiz = fs_err::read_to_string(context.work().join("tasks/quiz.yaml")).unwrap();
    context.write("tasks/quiz.yaml", quiz.replace("#### (.*)", "It is (.*)\\\\."));
    run(&context, &server, "other", &[]);
    let output = explained(&context, "mine", "other");
    assert!(output.stdout.contains("|filter_list"), "{output}");
    assert!(
        output.stdout.contains(
            " documents with the same prompt and answer have another score: filters or metrics differ"
        ),
        "{output}"
    );
}

#[test]
fn a_refused_setting_is_asked_about_one_document() {
    let context = context();
    write_tasks(&context);
    let server = StandInServer::start(ServerOptions {
        completions: Some(reasoning),
        keep_bodies: true,
        ..ServerOptions::default()
    });
    let args = arguments(&server);
    let words = [
        "reproduce",
        "quiz=exact_match,flexible=0.1±0.01",
        "--model",
        "local-completions",
        "--model_args",
        &args,
    ];
    let output =
        context.run(&[&words[..], &["--include_path", "tasks", "--library", "none", "--explain"]].concat());
    assert_eq!(output.status, 3, "{output}");
    assert!(output.stdout.contains("; with a system prompt ("), "{output}");
    let bodies = server.counts().bodies;
    let refused = bodies.iter().filter(|(_, body)| body.contains("You are")).count();
    assert!((1..=3).contains(&refused), "{refused} requests with a system prompt");
}

/// `bench/claims.py` with one claim for each cause, two without a cause, and two of another model.
#[test]
fn claims_of_the_reference_are_explained() {
    let Some(python) = test_environment() else { return };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/claims.py");
    let context = context();
    let output = Command::new(python)
        .args([
            script,
            "--binary",
            env!("CARGO_BIN_EXE_lm-eval"),
            "--causes",
            "11",
            "--noise",
            "2",
            "--models",
            "2",
        ])
        .current_dir(context.work())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for line in ["causes: 11 of 11 right", "noise: 2 of 2 right", "models: 2 of 2 right"] {
        assert!(text.contains(line), "{text}{}", String::from_utf8_lossy(&output.stderr));
    }
}

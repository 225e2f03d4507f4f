//! Models written in Python.

use std::collections::HashSet;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use lmeval_testkit::{Output, TestContext};

use crate::context;
use crate::long_run::write_task;

const DOCUMENTS: usize = 300;

/// Logs each question it gets, and its process id.
const PLUGIN: &str = r#"
import os, time
from lm_eval.api.model import LM
from lm_eval.api.registry import register_model

@register_model("slow")
class Slow(LM):
    def __init__(self, delay=0.002, **kwargs):
        super().__init__()
        self.delay = delay
        with open("process.txt", "w") as file:
            file.write(str(os.getpid()))

    def generate_until(self, requests):
        answers = []
        # As models do: the longest first.
        for request in sorted(requests, key=lambda request: -len(request.args[0])):
            number = int(request.args[0].split()[1].rstrip(":"))
            with open(os.environ["SENT"], "a") as file:
                file.write(f"{number}\n")
            time.sleep(self.delay)
            if os.environ.get("RAISE") == str(number):
                raise RuntimeError(f"question {number} is too hard")
            if os.environ.get("HANG") == str(number):
                time.sleep(1000)
            answer = "yes" if number % 3 else "no"
            answers.append((request, answer))
            self.cache_hook.add_partial("generate_until", request.args, answer)
        known = {id(request): answer for request, answer in answers}
        return [known[id(request)] for request in requests]

    def loglikelihood(self, requests):
        raise NotImplementedError

    loglikelihood_rolling = loglikelihood

    def chat_template(self, chat_template=False):
        return "the template"

    def apply_chat_template(self, chat_history, add_generation_prompt=True):
        return " ".join(message["content"] for message in chat_history) + "<ANSWER>"

@register_model("counting", "counting-too")
class Counting(LM):
    def loglikelihood(self, requests):
        return [(-float(len(continuation)), True) for _, continuation in (request.args for request in requests)]

    def loglikelihood_rolling(self, requests):
        return [(-1.0, False) for _ in requests]

    def generate_until(self, requests):
        return ["yes"] * len(requests)
"#;

fn prepared() -> TestContext {
    let context = context();
    write_task(&context, DOCUMENTS);
    context.write("plugin.py", PLUGIN);
    context
}

const RUN: [&str; 14] = [
    "run",
    "--model",
    "slow",
    "--plugins",
    "plugin.py",
    "--tasks",
    "long",
    "--include_path",
    "tasks",
    "--library",
    "none",
    "--output_path",
    "out.json",
    "--log_samples",
];

/// The questions the model got.
fn sent(context: &TestContext, name: &str) -> Vec<usize> {
    let path = context.work().join(name);
    if !path.exists() {
        return Vec::new();
    }
    fs_err::read_to_string(path).unwrap().lines().map(|line| line.parse().unwrap()).collect()
}

/// The documents whose answers are in the journal.
fn journaled(context: &TestContext) -> HashSet<usize> {
    if !context.work().join("out.journal").exists() {
        return HashSet::new();
    }
    let exported = context.run(&["journal", "export", "out.journal"]);
    assert_eq!(exported.status, 0, "{exported}");
    let answered = exported.stdout.lines().filter_map(|line| {
        let entry: serde_json::Value = serde_json::from_str(line).unwrap();
        let is_answered = entry.get("error").is_none_or(serde_json::Value::is_null);
        is_answered.then(|| usize::try_from(entry["doc_id"].as_u64().unwrap()).unwrap())
    });
    answered.collect()
}

fn score(output: &Output, context: &TestContext) -> f64 {
    assert_eq!(output.status, 0, "{output}");
    let work = context.work();
    let entries = fs_err::read_dir(&work).unwrap().map(|entry| entry.unwrap().path());
    let mut results: Vec<_> = entries
        .filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("out_"))
        .filter(|path| path.extension().is_some_and(|end| end == "json"))
        .collect();
    results.push(work.join("out.json"));
    let path = results.iter().find(|path| path.is_file()).unwrap_or_else(|| panic!("{output}"));
    let results: serde_json::Value = serde_json::from_str(&fs_err::read_to_string(path).unwrap()).unwrap();
    results["results"]["long"]["exact_match,word"].as_f64().unwrap_or_else(|| panic!("{results}"))
}

/// Whether the Python process of the last model is running.
fn is_alive(context: &TestContext) -> bool {
    let process = fs_err::read_to_string(context.work().join("process.txt")).unwrap();
    let state = fs_err::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    !state.is_empty() && !state.contains(") Z ")
}

fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn interrupt(child: &Child) {
    let status = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(status.success());
}

#[test]
fn resumes_without_repeating_answered_requests() {
    let context = prepared();
    for kill in 0..4 {
        let known = journaled(&context);
        let name = format!("sent-{kill}.txt");
        let mut child = context.command(&RUN).env("SENT", &name).spawn();
        wait_for("the model is asked", || sent(&context, &name).len() > 20 + kill * 7);
        child.kill().unwrap();
        child.wait().unwrap();
        wait_for("the process of the model ends", || !is_alive(&context));
        let asked = sent(&context, &name);
        assert!(asked.iter().all(|number| !known.contains(number)), "{known:?} {asked:?}");
        // All but the last one were answered, and answers are written as they arrive.
        let kept = journaled(&context).len() - known.len();
        assert!(kept + 5 > asked.len().min(20 + kill * 7), "{kept} of {}", asked.len());
    }
    let known = journaled(&context);
    let output = context.command(&RUN).env("SENT", "last.txt").run();
    let asked = sent(&context, "last.txt");
    assert!(asked.iter().all(|number| !known.contains(number)));
    assert_eq!(asked.len() + known.len(), DOCUMENTS);
    assert!((score(&output, &context) - 2.0 / 3.0).abs() < 1e-9);
    assert!(!is_alive(&context));
    let output = context.command(&RUN).env("SENT", "none.txt").run();
    assert_eq!((output.status, sent(&context, "none.txt").len()), (0, 0), "{output}");
}

#[test]
fn changed_code_or_arguments_are_another_model() {
    let context = prepared();
    let run = |more: &[&str]| {
        let arguments = [&RUN[..], &["--limit", "10"], more].concat();
        let output = context.command(&arguments).env("SENT", "sent.txt").run();
        assert_eq!(output.status, 0, "{output}");
        let asked = sent(&context, "sent.txt").len();
        let _ = fs_err::remove_file(context.work().join("sent.txt"));
        asked
    };
    assert_eq!(run(&[]), 10);
    assert_eq!(run(&["--batch_size", "8"]), 0);
    assert_eq!(run(&["--model_args", "delay=0.001"]), 10);
    assert_eq!(run(&["--model_args", "delay=0.001,api_key=x"]), 0);
    context.write("plugin.py", PLUGIN.replace("else \"no\"", "else \"yes\""));
    assert_eq!(run(&[]), 10);
}

#[test]
fn exception_ends_the_run_and_saves_answers() {
    let context = prepared();
    let output = context.command(&RUN).env("SENT", "sent.txt").env("RAISE", "50").run();
    assert_eq!(output.status, 1, "{output}");
    assert!(output.stderr.contains("RuntimeError: question 50 is too hard"), "{output}");
    assert!(output.stderr.contains("The model `Slow` failed in `generate_until`"), "{output}");
    assert!(output.stderr.contains("in generate_until"), "{output}");
    let asked = sent(&context, "sent.txt").len();
    assert_eq!(journaled(&context).len(), asked - 1);
    let output = context.command(&RUN).env("SENT", "again.txt").run();
    assert_eq!(sent(&context, "again.txt").len(), DOCUMENTS - asked + 1);
    assert!((score(&output, &context) - 2.0 / 3.0).abs() < 1e-9);
}

#[test]
fn interrupt_ends_a_hanging_model() {
    let context = prepared();
    let child = context.command(&RUN).env("SENT", "sent.txt").env("HANG", "150").spawn();
    wait_for("the model hangs", || sent(&context, "sent.txt").contains(&150));
    let start = Instant::now();
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert!(start.elapsed() < Duration::from_secs(8));
    assert!(!is_alive(&context));
    assert_eq!(journaled(&context).len(), sent(&context, "sent.txt").len() - 1);
}

#[test]
fn uses_the_models_chat_template() {
    let context = prepared();
    let more = ["--apply_chat_template", "--limit", "3", "--system_instruction", "Be brief."];
    let output = context.command(&[&RUN[..], &more].concat()).env("SENT", "sent.txt").run();
    // The number is the second word of the prompt, after the instruction.
    assert_eq!(output.status, 1, "{output}");
    assert!(output.stderr.contains("ValueError: invalid literal for int()"), "{output}");
    let output = context.command(&[&RUN[..], &more[..3]].concat()).env("SENT", "sent.txt").run();
    assert_eq!(output.status, 0, "{output}");
    let samples: String = fs_err::read_dir(context.work())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.file_name().unwrap().to_string_lossy().contains("samples_long"))
        .map(|path| fs_err::read_to_string(path).unwrap())
        .collect();
    assert!(samples.contains("Question 0: why?<ANSWER>"), "{samples}");
}

#[test]
fn finds_models_in_plug_ins() {
    let context = prepared();
    let run = |model: &str, more: &[&str]| {
        let arguments = ["run", "--model", model, "--tasks", "demo_capitals", "--limit", "2"];
        context.run(&[&arguments[..], more].concat())
    };
    let output = run("counting-too", &["--plugins", "plugin.py", "--batch_size", "4"]);
    assert_eq!(output.status, 0, "{output}");
    assert!(
        output.stderr.contains("`--batch_size` has no effect: `Counting` does not take this argument"),
        "{output}"
    );
    let output = run("countin", &["--plugins", "plugin.py"]);
    assert!(
        output.stderr.contains("There is no model `countin`") && output.stderr.contains("`counting`"),
        "{output}"
    );
    context.write("other.py", PLUGIN.replace("\"counting\"", "\"uniform\""));
    let output = run("uniform", &["--plugins", "other.py"]);
    assert!(
        output.stderr.contains("Using the plug-in's model `uniform` instead of the built-in one"),
        "{output}"
    );
    let output = run("counting", &[]);
    assert_eq!(output.status, 1, "{output}");
    assert!(output.stderr.contains("There is no model `counting`"), "{output}");
    let output = run("counting", &["--python", "no-such-python"]);
    assert!(output.stderr.contains("There is no model `counting`"), "{output}");
    let output = run("counting", &["--plugins", "plugin.py", "--python", "no-such-python"]);
    assert!(output.stderr.contains("Cannot start Python `no-such-python`"), "{output}");
}

#[test]
fn runs_models_of_the_original_package() {
    let Some(python) = lmeval_testkit::test_environment() else { return };
    let context = prepared();
    let python = python.to_str().unwrap();
    let arguments =
        ["run", "--model", "lm_eval:dummy", "--python", python, "--tasks", "demo_capitals", "--limit", "3"];
    let output = context.run(&[&arguments[..], &["--format", "json"]].concat());
    assert_eq!(output.status, 0, "{output}");
    let results: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(results["config"]["model"], "lm_eval:dummy");
    assert!(output.stderr.contains("Importing the Python package `lm_eval`"), "{output}");
    let output =
        context.run(&["run", "--model", "lm_eval:nothing", "--python", python, "--tasks", "demo_capitals"]);
    assert_eq!(output.status, 1, "{output}");
    assert!(output.stderr.contains("nothing"), "{output}");
}

//! Error messages and their hints.

use lmeval_testkit::{ServerOptions, StandInServer, TestContext};

use crate::context;
use crate::server::{Server, TASK, documents};

const DATA: &str =
    "dataset_path: json\ndataset_kwargs: {data_files: {test: d.jsonl}}\ntest_split: test\ndoc_to_target: a\n";

fn prepared(definition: &str) -> TestContext {
    let context = context();
    context.write("d.jsonl", "{\"question\": \"Why?\", \"a\": \"So\"}\n");
    context.write("t.yaml", format!("task: t\n{DATA}{definition}"));
    context
}

#[test]
fn suggests_metrics_for_common_names() {
    for (definition, name) in [
        (
            "output_type: multiple_choice\ndoc_to_text: q\ndoc_to_choice: [So, Not]\nmetric_list: [{metric: accuracy}]\n",
            "acc",
        ),
        ("doc_to_text: question\nmetric_list: [{metric: em}]\n", "exact_match"),
        ("doc_to_text: question\nmetric_list: [{metric: exat_match}]\n", "exact_match"),
    ] {
        let context = prepared(definition);
        for words in
            [&["validate", "--tasks", "t.yaml"][..], &["run", "--model", "dummy", "--tasks", "t.yaml"]]
        {
            let output = context.run(words);
            assert_eq!(output.status, 1, "{output}");
            assert!(output.stderr.contains(&format!("Did you mean `{name}`")), "{words:?}: {output}");
        }
    }
}

#[test]
fn misspelled_metric_keys_are_reported() {
    let context = prepared(
        "output_type: multiple_choice\ndoc_to_text: question\ndoc_to_choice: [So, Not]\n\
         metric_list:\n  - metric: acc\n    agregation: median\n    higher_is_beter: false\n",
    );
    for words in [&["validate", "--tasks", "t.yaml"][..], &["run", "--model", "uniform", "--tasks", "t.yaml"]]
    {
        let output = context.run(words);
        assert_eq!(output.status, 0, "{output}");
        for (key, line) in [("aggregation", 11), ("higher_is_better", 12)] {
            assert!(output.stderr.contains(&format!("did you mean `{key}`?")), "{output}");
            assert!(output.stderr.contains(&format!("t.yaml:{line}:")), "{output}");
        }
    }
}

#[test]
fn template_errors_show_the_task_file_line() {
    let context = prepared("doc_to_text: \"Q: {{ question.nothing.more }}\"\n");
    let output = context.run(&["preview", "t.yaml"]);
    assert_eq!(output.status, 1, "{output}");
    assert!(output.stderr.contains("t.yaml:6:"), "{output}");
    assert!(output.stderr.contains("6 | doc_to_text: \"Q: {{ question.nothing.more }}\""), "{output}");
    // If YAML changes the string, the line of the field and the template are both shown.
    let context = prepared("doc_to_text: \"Q:\\n{{ question.nothing.more }}\"\n");
    let output = context.run(&["preview", "t.yaml"]);
    assert!(output.stderr.contains("t.yaml:6:") && output.stderr.contains("2 | {{ question"), "{output}");
}

#[test]
fn names_the_unclosed_json_line() {
    let context = prepared("doc_to_text: question\n");
    context.write("d.jsonl", "{\"question\": 1}\n{\"question\": 2\n{\"question\": 3}\n");
    let output = context.run(&["preview", "t.yaml"]);
    assert_eq!(output.status, 1, "{output}");
    assert!(output.stderr.contains("d.jsonl:2: "), "{output}");
}

#[test]
fn missing_local_copy_names_the_folders() {
    let context = context();
    context.write(
        "t.yaml",
        "task: t\ndataset_path: org/toy\ntest_split: test\ndoc_to_text: q\ndoc_to_target: a\n",
    );
    let command = context.command(&["preview", "t.yaml"]).env("LM_EVAL_DATASET_DIR", "copies");
    let output = command.env("HF_HUB_OFFLINE", "1").env("HF_HOME", "hf").run();
    assert_eq!(output.status, 1, "{output}");
    for text in ["not in the cache `hf/hub`", "`[TEMP]/work/copies/org/toy`", "`[TEMP]/work/org/toy`"] {
        assert!(output.stderr.contains(text), "{text}: {output}");
    }
    // Retries against an unreachable hub first report where no local copy was found.
    let command = context.command(&["preview", "t.yaml"]).env("LM_EVAL_DATASET_DIR", "copies");
    let output = command.env("HF_ENDPOINT", "http://127.0.0.1:1").env("HF_HOME", "hf").run();
    assert_eq!(output.status, 1, "{output}");
    let reported = output.stderr.find("No local copy of `org/toy` in `[TEMP]/work/copies/org/toy`");
    assert!(reported.unwrap() < output.stderr.find("Retrying ").unwrap(), "{output}");
}

#[test]
fn messages_hide_internal_python_names() {
    let Some(python) = lmeval_testkit::test_environment() else { return };
    let python = python.to_str().unwrap();
    let metric = "doc_to_text: !function utils.question\nmetric_list: [{metric: near, aggregation: mean}]\n";
    let context = prepared(metric);
    let utils = "from lm_eval.api.registry import register_metric\n\
        class Odd(Exception): pass\n\
        def question(doc): return doc['question']\n\
        @register_metric(metric='near', higher_is_better=True, output_type='generate_until', aggregation='mean')\n\
        def near(references, predictions, **kwargs): raise Odd('it is odd')\n";
    context.write("utils.py", utils);
    let run = || context.run(&["run", "--model", "dummy", "--tasks", "t.yaml", "--python", python]);
    let output = run();
    assert_eq!(output.status, 1, "{output}");
    assert!(output.stderr.contains("`near`") && output.stderr.contains("it is odd"), "{output}");
    context.write("utils.py", utils.replace("def question", "def questions"));
    let missing = run();
    assert_eq!(missing.status, 1, "{missing}");
    for output in [output, missing] {
        assert!(
            !output.stderr.contains("registry:") && !output.stderr.contains("_lm_eval_folder"),
            "{output}"
        );
    }
}

#[test]
fn chat_recordings_explain_how_to_replay_them() {
    let context = context();
    context.write("numbers.jsonl", documents());
    context.write("numbers.yaml", TASK);
    let line = |number: usize| {
        format!(
            "{{\"type\": \"generate_until\", \"args\": [[{{\"role\": \"user\", \"content\": \"Number {number}:\"}}], {{}}], \
             \"response\": \" 7\"}}\n"
        )
    };
    context.write("chat.jsonl", (0..10).map(line).collect::<String>());
    let words = ["run", "--model", "replay", "--model_args", "path=chat.jsonl", "--tasks", "numbers.yaml"];
    let output = context.run(&words);
    assert_eq!(output.status, 1, "{output}");
    assert!(output.stderr.contains("add `--apply_chat_template`"), "{output}");
    let output = context.run(&[&words[..], &["--apply_chat_template"]].concat());
    assert_eq!(output.status, 0, "{output}");
    context.write(
        "text.jsonl",
        (0..10)
            .map(|n| {
                line(n).replace(
                    &format!("[{{\"role\": \"user\", \"content\": \"Number {n}:\"}}]"),
                    &format!("\"<|user|>Number {n}:\""),
                )
            })
            .collect::<String>(),
    );
    let words = ["run", "--model", "replay", "--model_args", "path=text.jsonl", "--tasks", "numbers.yaml"];
    let output = context.run(&[&words[..], &["--apply_chat_template"]].concat());
    assert_eq!(output.status, 1, "{output}");
    assert!(output.stderr.contains("chat_template=FILE"), "{output}");
}

#[test]
fn uses_singular_and_plural() {
    let context = context();
    context.write("numbers.jsonl", "{\"n\": \"1\"}\n");
    context.write("numbers.yaml", TASK);
    let server = Server::start(std::time::Duration::ZERO, None);
    let model_args = format!("model=m,base_url={},tokenizer_backend=None", server.url);
    let words =
        ["run", "--model", "local-completions", "--model_args", &model_args, "--tasks", "numbers.yaml"];
    let words = [&words[..], &["--output_path", "out", "-w"]].concat();
    let output = context.run(&words);
    assert!(output.stderr.contains("--- first of 1 request\n"), "{output}");
    let output = context.run(&words);
    assert!(output.stderr.contains("The only answer was reused from out/m/answers.journal"), "{output}");
    context.write("group.yaml", "group: g\ntask: [demo_capitals]\naggregate_metric_list: [{metric: acc}]\n");
    assert!(context.run(&["show", "group.yaml"]).stdout.contains("# 1 member: "));
}

#[test]
fn debug_verbosity_logs_every_request_without_secrets() {
    let context = context();
    context.write("numbers.jsonl", documents());
    context.write("numbers.yaml", TASK);
    let faults = lmeval_testkit::Faults {
        kinds: vec![lmeval_testkit::Fault::Status(500)],
        percent: 50,
        most_per_request: 1,
        ..Default::default()
    };
    let server = StandInServer::start(ServerOptions { faults, ..ServerOptions::default() });
    let url = server.url("/v1/completions").replace("http://", "http://me:sk-log-password@");
    let args = format!("model=m,base_url={url},tokenizer_backend=none,retry_wait=0.01");
    let words = ["run", "--model", "local-completions", "--model_args", &args, "--tasks", "numbers.yaml"];
    let is_logged = |text: &str| {
        let answered =
            text.lines().filter(|line| line.contains(": Answered about=\"`numbers`, document ")).count();
        assert_eq!(answered, 10, "{text}");
        for part in
            [" bytes=", " ms=", " attempt=2", ": Failed ", ": Retrying ", " waited_ms=", ": Batch requests="]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("sk-log-password"), "{text}");
    };
    let output = context.run(&[&words[..], &["--verbosity", "debug"]].concat());
    assert_eq!(output.status, 0, "{output}");
    is_logged(&output.stderr);
    let output = context.run(&words);
    assert!(!output.stderr.contains("Answered about"), "{output}");
    server.reset();
    let file = context.work().join("run.log");
    let output = context.command(&words).env("LM_EVAL_LOG_FILE", &file).run();
    assert!(output.status == 0 && !output.stderr.contains("Answered about"), "{output}");
    is_logged(&fs_err::read_to_string(file).unwrap());
    let output = context.run(&[&words[..], &["--verbosity", "DEBUG", "--progress", "json"]].concat());
    assert!(output.stderr.lines().all(|line| line.starts_with("{\"event\"")), "{output}");
    assert!(output.stderr.contains("{\"event\": \"log\", "), "{output}");
}

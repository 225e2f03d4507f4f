//! `lm-eval publish`.

use lmeval_testkit::{StandInHub, TestContext, publish_environment};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::context;

/// A run of a model on a choice task, a generation task and their group.
pub(crate) fn finished() -> TestContext {
    let context = context();
    let results = json!({
        "results": {
            "g::quiz": {"alias": "quiz", "sample_len": 2, "acc,none": 0.5, "acc_stderr,none": 0.5,
                        "acc_norm,none": 1.0, "acc_norm_stderr,none": 0.0, "perplexity,none": 12.5},
            "sums": {"alias": "sums", "sample_len": 2, "exact_match,strict": 0.0, "exact_match_stderr,strict": 0.0,
                     "exact_match,loose": 0.5, "exact_match_stderr,loose": 0.5},
            "g": {"alias": "g", "sample_len": 2, "acc,none": 0.5, "acc_stderr,none": 0.5},
        },
        "groups": {"g": {"alias": "g"}},
        "group_subtasks": {"g": ["g::quiz"]},
        "configs": {
            "g::quiz": {"task": "quiz", "dataset_path": "org/quiz", "dataset_name": "main", "test_split": "test",
                        "output_type": "multiple_choice", "generation_kwargs": {}},
            "sums": {"task": "sums", "dataset_path": "json", "dataset_kwargs": {"data_files": {"test": "d.jsonl"}},
                     "output_type": "generate_until", "generation_kwargs": {"until": ["|"], "max_gen_toks": 64, "temperature": 0.0}},
        },
        "versions": {"g::quiz": 1.0, "sums": 2.0, "g": "1.0"},
        "n-shot": {"g::quiz": 5, "sums": 0, "g": 5},
        "higher_is_better": {"g::quiz": {"acc": true, "acc_norm": true, "perplexity": false}, "sums": {"exact_match": true}, "g": {"acc": true}},
        "n-samples": {"g::quiz": {"original": 2, "effective": 2}, "sums": {"original": 2, "effective": 2}},
        "config": {"model": "hf", "model_args": {"pretrained": "org/model", "token": "hf_published0123456789abcdef"}, "limit": null},
        "date": 1_795_113_543.5, "total_evaluation_time_seconds": "2.5",
        "model_name": "org/model", "lm_eval_version": "0.5.0", "system_instruction": "Be | brief\n<b>",
    });
    context.write("out/results_2026-11-19T18-39-03.5.json", results.to_string());
    let lines = |samples: &[Value]| {
        let lines: Vec<String> = samples.iter().map(|sample| format!("{sample}\n")).collect();
        lines.concat()
    };
    let quiz = |id: usize, acc: f64| {
        json!({"doc_id": id, "doc": {"q": format!("Q{id}"), "secret": "hf_published0123456789abcdef"}, "target": "1",
               "arguments": {"gen_args_0": {"arg_0": format!("Q{id}\nA:"), "arg_1": " no"}, "gen_args_1": {"arg_0": format!("Q{id}\nA:"), "arg_1": " yes"}},
               "resps": [[["-3.5", "False"]], [["-2.5", "False"]]], "filtered_resps": [["-3.5", "False"], ["-2.5", "False"]],
               "filter": "none", "metrics": ["acc", "acc_norm", "perplexity"], "acc": acc, "acc_norm": 1.0, "perplexity": -2.5})
    };
    context.write("out/samples_g--quiz_2026-11-19T18-39-03.5.jsonl", lines(&[quiz(0, 1.0), quiz(1, 0.0)]));
    let sum = |id: usize, filter: &str, score: f64| {
        json!({"doc_id": id, "doc": {"q": format!("{id}+1?")}, "target": (id + 1).to_string(),
               "arguments": {"gen_args_0": {"arg_0": format!("{id}+1?"), "arg_1": {"until": ["|"]}}},
               "resps": [["It is 1 {{|}} hf_published0123456789abcdef"]], "filtered_resps": ["1"],
               "filter": filter, "metrics": ["exact_match"], "exact_match": score})
    };
    let sums = [sum(0, "strict", 0.0), sum(1, "strict", 0.0), sum(0, "loose", 1.0), sum(1, "loose", 0.0)];
    context.write("out/samples_sums_2026-11-19T18-39-03.5.jsonl", lines(&sums));
    context
}

/// Publishes the run; returns what standard output and standard error say.
fn publish(context: &TestContext, words: &[&str]) -> (String, String) {
    let output = context.run(&[&["publish", "out"], words].concat());
    assert_eq!(output.status, 0, "{output}");
    (output.stdout, output.stderr)
}

fn read(context: &TestContext, path: &str) -> String {
    fs_err::read_to_string(context.work().join(path)).expect("the file is there")
}

fn fails(context: &TestContext, words: &[&str], parts: &[&str]) {
    let output = context.run(&[&["publish"], words].concat());
    assert_ne!(output.status, 0, "{output}");
    for part in parts {
        assert!(output.stderr.contains(part), "{part}: {output}");
    }
}

#[test]
fn card_has_scores_and_settings() {
    let context = finished();
    let (stdout, _) = publish(&context, &["--to", "card"]);
    assert_eq!(stdout, "published/card.md\n");
    let card = read(&context, "published/card.md");
    for line in [
        "| g::quiz | 1.0 | 5 | none | acc | ↑ | 0.5000 ± 0.5000 | 0.0945 to 0.9055 | 2 |",
        "| g::quiz | 1.0 | 5 | none | perplexity | ↓ | 12.5000 |  | 2 |",
        "| sums | 2.0 | 0 | loose | exact_match | ↑ | 0.5000 ± 0.5000 | 0.0945 to 0.9055 | 2 |",
        r"| System instruction | Be \| brief &lt;b> |",
        r#"| Generation options of sums | {"until": ["\|"], "max_gen_toks": 64, "temperature": 0.0} |"#,
        "| Date | 2026-11-19T18:39:03.5Z |",
        r#"| Model arguments | {"pretrained": "org/model", "token": "***"} |"#,
    ] {
        assert!(card.lines().any(|found| found == line), "{line}\n{card}");
    }
    assert!(!card.contains("hf_published"), "{card}");
}

#[test]
fn only_chosen_tasks_and_metrics_are_published() {
    let context = finished();
    publish(&context, &["--to", "card", "--tasks", "quiz", "--metrics", "acc_norm", "--output", "deep/er"]);
    let card = read(&context, "deep/er/card.md");
    assert_eq!(card.lines().filter(|line| line.contains("| none |")).count(), 1, "{card}");
    fails(&context, &["out", "--to", "card", "--tasks", "quizz"], &["no task `quizz`", "g::quiz"]);
    fails(&context, &["out", "--to", "card", "--metrics", "f1"], &["no score of `f1`"]);
    fails(&context, &["out", "--to", "post"], &["card"]);
    fails(
        &context,
        &["out/samples_sums_2026-11-19T18-39-03.5.jsonl", "--to", "card"],
        &["no scores", "results file"],
    );
}

#[test]
fn limited_runs_are_remarked() {
    let context = finished();
    let path = "out/results_2026-11-19T18-39-03.5.json";
    let limited = read(&context, path).replace("\"limit\":null", "\"limit\":2.0");
    context.write(path, limited);
    let (_, stderr) = publish(&context, &["--to", "card"]);
    assert!(stderr.contains("`--limit 2`"), "{stderr}");
}

/// Runs a program of Python in the folder of the files.
fn validate(context: &TestContext, program: &str) {
    let Some(python) = publish_environment() else { return };
    let mut command = std::process::Command::new(python);
    command.args(["-c", program]).current_dir(context.work().join("published")).env("HOME", context.work());
    let output = command.output().expect("Python runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
}

#[test]
fn hub_entries_name_benchmark_and_percentage() {
    let context = finished();
    let (stdout, stderr) = publish(&context, &["--to", "hub"]);
    assert_eq!(stdout, "published/.eval_results/lm-eval.yaml\n");
    let left_out = "`acc,none` of `g::quiz`, without acc_norm,none, perplexity,none";
    for part in [left_out, "Without a dataset of the hub: g, sums"] {
        assert!(stderr.contains(part), "{part}: {stderr}");
    }
    let entries = read(&context, "published/.eval_results/lm-eval.yaml");
    for line in ["id: org/quiz", "task_id: quiz", "value: 50.0", "acc, filter none, in percent"] {
        assert!(entries.contains(line), "{line}: {entries}");
    }
    validate(
        &context,
        "import yaml, huggingface_hub as hub; entries = hub.parse_eval_result_entries(yaml.safe_load(open('.eval_results/lm-eval.yaml')))\n\
         assert [(entry.dataset_id, entry.task_id, entry.value) for entry in entries] == [('org/quiz', 'quiz', 50.0)], entries",
    );
}

#[test]
fn hub_benchmarks_can_be_named() {
    let context = finished();
    publish(&context, &["--to", "hub", "--tasks", "sums", "--benchmark", "sums=org/sums:main"]);
    let entries = read(&context, "published/.eval_results/lm-eval.yaml");
    assert!(entries.contains("id: org/sums") && entries.contains("task_id: main"), "{entries}");
    fails(&context, &["out", "--to", "hub", "--tasks", "sums"], &["No task", "--benchmark"]);
    fails(&context, &["out", "--to", "hub", "--benchmark", "sums=sums"], &["`sums=sums`", "ORG/DATASET:ID"]);
    let path = "out/results_2026-11-19T18-39-03.5.json";
    let limited = read(&context, path).replace("\"limit\":null", "\"limit\":2.0");
    context.write(path, limited);
    fails(&context, &["out", "--to", "hub"], &["limit of 2 documents"]);
}

/// The only file of the data store whose name ends like this.
fn stored(context: &TestContext, end: &str) -> String {
    let folder = "published/data/lm-eval/org/model";
    let entries = fs_err::read_dir(context.work().join(folder)).expect("the folder is there");
    let names = entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("text"));
    let found: Vec<String> = names.filter(|name| name.ends_with(end)).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    format!("{folder}/{}", found[0])
}

#[test]
fn eee_files_refer_to_each_other() {
    let context = finished();
    publish(&context, &["--to", "eee", "--organization", "My lab", "--relationship", "third_party"]);
    let (scores, documents) = (stored(&context, ".json"), stored(&context, "_samples.jsonl"));
    let text = read(&context, &documents);
    let whole: Value = serde_json::from_str(&read(&context, &scores)).expect("JSON");
    let detailed = &whole["detailed_evaluation_results"];
    let checksum: Vec<String> = Sha256::digest(&text).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(detailed["checksum"], json!(checksum.concat()));
    assert_eq!(format!("published/{}", detailed["file_path"].as_str().expect("a path")), documents);
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    // Two documents with `acc` and `acc_norm`, and two with `exact_match` of two filters.
    assert_eq!((lines.len(), &detailed["total_rows"]), (8, &json!(8)));
    let results = whole["evaluation_results"].as_array().expect("a list");
    assert_eq!(results.len(), 6);
    for line in &lines {
        assert_eq!(line["evaluation_id"], whole["evaluation_id"]);
        assert!(results.iter().any(|result| result["evaluation_result_id"] == line["evaluation_result_id"]));
    }
    let quiz = lines.iter().find(|line| line["evaluation_name"] == "g::quiz").expect("a document");
    assert_eq!(quiz["input"], json!({"raw": "Q0\nA:", "reference": [" yes"], "choices": [" no", " yes"]}));
    assert_eq!(quiz["output"]["raw"], json!(["-3.5:  no", "-2.5:  yes"]));
    assert_eq!(quiz["evaluation"], json!({"score": 1.0, "is_correct": true}));
    let mean = |filter: &str| {
        let id = format!("sums/exact_match,{filter}");
        let scores = lines.iter().filter(|line| line["evaluation_result_id"] == id.as_str());
        scores.map(|line| line["evaluation"]["score"].as_f64().expect("a number")).sum::<f64>() / 2.0
    };
    assert!((mean("strict") - 0.0).abs() < 1e-12 && (mean("loose") - 0.5).abs() < 1e-12);
    let secret = "hf_published0123456789abcdef";
    assert!(!text.contains(secret) && !read(&context, &scores).contains(secret), "{text}");
    validate(
        &context,
        "import glob, sys; from every_eval_ever.validate import main\n\
         sys.exit(main(['--format', 'json', *glob.glob('data/**/*.json*', recursive=True)]))",
    );
}

#[test]
fn publishing_twice_writes_the_same_bytes() {
    let context = finished();
    publish(&context, &["--to", "eee"]);
    let first =
        (read(&context, &stored(&context, ".json")), read(&context, &stored(&context, "_samples.jsonl")));
    publish(&context, &["--to", "eee"]);
    assert!(
        first
            == (
                read(&context, &stored(&context, ".json")),
                read(&context, &stored(&context, "_samples.jsonl"))
            )
    );
    fails(
        &context,
        &["out", "--to", "eee", "--model-id", "model"],
        &["`model` is not ORG/NAME", "--model-id"],
    );
}

#[test]
fn inspect_logs_have_one_sample_per_document() {
    let context = finished();
    let (stdout, _) = publish(&context, &["--to", "inspect", "--tasks", "sums,quiz"]);
    let logs: Vec<(String, Value)> = stdout
        .lines()
        .map(|path| (path.to_owned(), serde_json::from_str(&read(&context, path)).expect("JSON")))
        .collect();
    assert_eq!(logs.len(), 2, "{stdout}");
    for (path, log) in &logs {
        assert!(path.starts_with("published/2026-11-19T18-39-03+00-00_"), "{path}");
        assert_eq!(
            (&log["version"], &log["status"], &log["eval"]["model"]),
            (&json!(2), &json!("success"), &json!("org/model"))
        );
        assert_eq!(log["samples"].as_array().map(Vec::len), Some(2), "{path}");
        assert!(!log.to_string().contains("hf_published"), "{log}");
    }
    let log = |name: &str| &logs.iter().find(|(_, log)| log["eval"]["task"] == name).expect("a log").1;
    let sums = &log("sums")["samples"][0];
    assert_eq!(sums["scores"]["exact_match,strict"]["value"], json!(0.0));
    assert_eq!(sums["scores"]["exact_match,loose"], json!({"value": 1.0, "answer": "1"}));
    assert_eq!(log("sums")["results"]["scores"][1]["metrics"]["exact_match"]["value"], json!(0.5));
    let quiz = &log("quiz")["samples"][1];
    assert_eq!(
        (&quiz["input"], &quiz["target"], &quiz["choices"]),
        (&json!("Q1\nA:"), &json!([" yes"]), &json!([" no", " yes"]))
    );
    assert_eq!(quiz["messages"][1], json!({"role": "assistant", "content": "-3.5:  no\n-2.5:  yes"}));
    validate(
        &context,
        "import glob; from inspect_ai.log import read_eval_log; logs = [read_eval_log(path) for path in glob.glob('*.json')]\n\
         assert len(logs) == 2 and all(len(log.samples) == 2 and log.status == 'success' for log in logs)\n\
         assert {score.name for log in logs for sample in log.samples for score in log.results.scores} >= {'acc', 'exact_match,loose'}\n\
         from inspect_ai.log import write_eval_log; [write_eval_log(log, f'{log.eval.task.replace(\"::\", \"-\")}.eval') for log in logs]",
    );
    // Its own compressed form has the same scores.
    let logs = fs_err::read_dir(context.work().join("published")).expect("a folder");
    let paths = logs.map(|entry| entry.expect("an entry").path().display().to_string());
    let (compressed, plain): (Vec<String>, Vec<String>) = paths.partition(|path| {
        std::path::Path::new(path).extension().is_some_and(|extension| extension == "eval")
    });
    if publish_environment().is_some() {
        assert_eq!(compressed.len(), 2);
        let table = |paths: &[String]| {
            let words: Vec<&str> = ["table", "--format", "markdown"]
                .into_iter()
                .chain(paths.iter().map(String::as_str))
                .collect();
            let output = context.run(&words);
            assert_eq!(output.status, 0, "{output}");
            let mut lines: Vec<String> = output.stdout.lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        assert_eq!(table(&compressed), table(&plain));
    }
}

#[test]
fn targets_of_log_likelihoods_are_continuations() {
    let context = context();
    let run = context.run(&[
        "run",
        "--model",
        "ngram",
        "--tasks",
        "demo_last_word",
        "--log_samples",
        "--output_path",
        "out",
        "--quiet",
    ]);
    assert_eq!(run.status, 0, "{run}");
    let (stdout, _) = publish(&context, &["--to", "inspect"]);
    let log: Value = serde_json::from_str(&read(&context, stdout.trim_end())).expect("JSON");
    let first = &log["samples"][0];
    let target = first["target"][0].as_str().expect("a target");
    let said = first["messages"][1]["content"].as_str().expect("an answer");
    assert!(target.starts_with(' ') && said.ends_with(&format!(": {target}")), "{first}");
}

/// Publishes with these words, to a hub.
fn push(context: &TestContext, hub: &StandInHub, words: &[&str]) -> lmeval_testkit::Output {
    let mut command = context.command(&["publish", "out", "--push"]).env("HF_ENDPOINT", hub.endpoint());
    for word in words {
        command = command.arg(word);
    }
    command.env("HF_TOKEN", "hf_push0123456789abcdef").run()
}

#[test]
fn nothing_is_pushed_without_yes() {
    let (context, hub) = (finished(), StandInHub::new());
    let output = push(&context, &hub, &["--to", "hub", "--tasks", "quiz"]);
    assert_eq!(output.status, 2, "{output}");
    assert!(output.stderr.contains("1 file to the model `org/model` at http://127.0.0.1"), "{output}");
    assert!(hub.requests("").is_empty());
    read(&context, "published/.eval_results/lm-eval.yaml");
}

#[test]
fn results_are_pushed_to_their_model_in_one_commit() {
    let (context, hub) = (finished(), StandInHub::new());
    hub.require_token("hf_push0123456789abcdef");
    let words = ["--to", "hub", "--tasks", "quiz", "--yes", "--pull-request"];
    let output = push(&context, &hub, &words);
    assert_eq!(output.status, 0, "{output}");
    assert!(output.stdout.ends_with("https://hub.example/models/org/model/discussions/1\n"), "{output}");
    let pushed = hub.pushed("models/org/model");
    let written = read(&context, "published/.eval_results/lm-eval.yaml");
    assert_eq!(pushed.get(".eval_results/lm-eval.yaml").map(Vec::as_slice), Some(written.as_bytes()));
    assert_eq!(hub.requests("/commit/main?create_pr=1").len(), 1);
    let without = push(&context, &hub, &words[..5]);
    assert!(without.stdout.ends_with("/commit/pushed\n"), "{without}");
}

#[test]
fn large_files_are_stored_once() {
    let (context, hub) = (finished(), StandInHub::new());
    let words = ["--to", "eee", "--repo", "org/store", "--yes"];
    for _ in 0..2 {
        let output = push(&context, &hub, &words);
        assert_eq!(output.status, 0, "{output}");
    }
    let documents = stored(&context, "_samples.jsonl");
    let name = documents.strip_prefix("published/").expect("a path in the folder");
    let pushed = hub.pushed("datasets/org/store");
    assert_eq!(pushed.get(name).map(Vec::as_slice), Some(read(&context, &documents).as_bytes()));
    // Two large files, whose digests the store knew the second time.
    let puts = hub.requests("PUT /storage/");
    assert_eq!(puts.len(), 2);
    assert!(puts.iter().all(|put| put.token.is_none()), "the token goes to the hub alone");
}

#[test]
fn what_cannot_be_pushed_is_refused_before_files_are_written() {
    let (context, hub) = (finished(), StandInHub::new());
    for (words, part) in [
        (&["--to", "card", "--yes"][..], "part of a model card"),
        (&["--to", "eee", "--yes"], "--repo ORG/NAME"),
        (&["--to", "eee", "--repo", "store"], "`store` is not the name of a repository"),
    ] {
        let output = push(&context, &hub, words);
        assert_ne!(output.status, 0, "{output}");
        assert!(output.stderr.contains(part), "{part}: {output}");
    }
    assert!(!context.work().join("published").exists());
    hub.require_token("hf_other");
    let output = push(&context, &hub, &["--to", "hub", "--yes"]);
    assert_eq!(output.status, 1, "{output}");
    for part in ["403", "You have no write access", "write access to push"] {
        assert!(output.stderr.contains(part), "{part}: {output}");
    }
    assert!(!output.to_string().contains("hf_push0123456789abcdef"), "{output}");
}

//! `lm-eval rescore`.

use std::path::PathBuf;

use lmeval_testkit::{ServerOptions, StandInServer, TestContext};
use serde_json::Value;

use crate::context;
use crate::long_run::{newest, results};
use crate::server::documents;

/// A task of ten generations; the stand-in server answers with words and digits.
fn task(filter: &str, prompt: &str) -> String {
    format!(
        "task: numbers\ndataset_path: json\ndataset_kwargs: {{data_files: {{test: numbers.jsonl}}}}\n\
         test_split: test\noutput_type: generate_until\ndoc_to_text: \"{prompt}\"\ndoc_to_target: \"a\"\n\
         generation_kwargs: {{until: [\"\\n\"], max_gen_toks: 4}}\n\
         filter_list:\n- {{name: picked, filter: [{{function: regex, regex_pattern: '{filter}'}}, {{function: take_first}}]}}\n\
         - {{name: whole, filter: [{{function: take_first}}]}}\n"
    )
}

fn numbers(filter: &str) -> TestContext {
    let context = context();
    context.write("numbers.jsonl", documents());
    context.write("numbers.yaml", task(filter, "Number {{n}}:"));
    context
}

/// Runs the task on a server with more arguments.
fn run(context: &TestContext, server: &StandInServer, more: &[&str]) {
    let model_args = format!(
        "model=m,base_url={},tokenizer_backend=None,tokenized_requests=False",
        server.url("/v1/completions")
    );
    let words =
        ["run", "--model", "local-completions", "--model_args", &model_args, "--tasks", "numbers.yaml"];
    let output = context.run(&[&words[..], &["--output_path", "out"], more].concat());
    assert_eq!(output.status, 0, "{output}");
}

/// Results without what a rescoring run may change.
fn comparable(context: &TestContext, folder: &str) -> Value {
    let mut results = results(&context.work().join(folder));
    for key in ["rescored", "pretty_env_info", "receipt"] {
        results.as_object_mut().unwrap().remove(key);
    }
    results
}

fn file(context: &TestContext, folder: &str, prefix: &str) -> PathBuf {
    newest(&context.work().join(folder), prefix)
}

fn read(context: &TestContext, folder: &str) -> Value {
    serde_json::from_str(&fs_err::read_to_string(file(context, folder, "results_")).unwrap()).unwrap()
}

#[test]
fn unchanged_tasks_get_the_same_scores() {
    let context = context();
    let words = [
        "run",
        "--model",
        "ngram",
        "--tasks",
        "demo_choice,demo_arithmetic,demo_prose",
        "--output_path",
        "out",
        "--log_samples",
    ];
    let output = context
        .run(&[&words[..], &["--num_fewshot", "2", "--seed", "1,2,3,4", "--bootstrap_iters", "10"]].concat());
    assert_eq!(output.status, 0, "{output}");
    let output = context.run(&["rescore", "out", "--output_path", "again", "--log_samples"]);
    assert_eq!(output.status, 0, "{output}");
    assert_eq!(comparable(&context, "again"), comparable(&context, "out"));
    let (before, after) = (read(&context, "out"), read(&context, "again"));
    assert_eq!(before["config"], after["config"]);
    assert_eq!(after["model_name"], "ngram");
    assert_eq!(after["rescored"]["from"], "out");
    assert_eq!(after["rescored"]["answers"], "samples");
    let changes = after["rescored"]["changes"].as_array().unwrap();
    assert!(!changes.is_empty() && changes.iter().all(|change| change["up"] == 0 && change["down"] == 0));
    for prefix in ["samples_demo_choice--demo_capitals", "samples_demo_arithmetic"] {
        let [one, other] =
            ["out", "again"].map(|folder| fs_err::read_to_string(file(&context, folder, prefix)).unwrap());
        assert_eq!(one, other);
    }
}

#[test]
fn changed_filter_is_scored_offline() {
    let context = numbers("(b)");
    let server = StandInServer::start(ServerOptions::default());
    run(&context, &server, &["--log_samples"]);
    drop(server);
    context.write("numbers.yaml", task("([a-z])", "Number {{n}}:"));
    for source in ["out", "out/m/answers.journal"] {
        let words = ["rescore", source, "--tasks", "numbers.yaml", "--output_path", "again"];
        let output = context.run(&words);
        assert_eq!(output.status, 0, "{output}");
        let (before, after) = (read(&context, "out"), read(&context, "again"));
        assert_eq!(
            after["results"]["numbers"]["exact_match,whole"],
            before["results"]["numbers"]["exact_match,whole"]
        );
        let kind = if source == "out" { "samples" } else { "journal" };
        assert_eq!(
            (&after["rescored"]["answers"], &after["config"]),
            (&Value::from(kind), &before["config"])
        );
        assert!(output.stdout.contains("|Before|After"), "{output}");
        let changed = after["rescored"]["changes"][0].clone();
        assert_eq!(
            (&changed["filter"], &changed["metric"]),
            (&Value::from("picked"), &Value::from("exact_match"))
        );
        let flips = changed["up"].as_u64().unwrap() + changed["down"].as_u64().unwrap();
        let shown = output.stdout.matches("filtered before: ").count();
        assert_eq!(shown as u64, flips.min(3), "{output}");
        assert_eq!(output.stdout.matches("filtered after: ").count(), shown, "{output}");
    }
}

#[test]
fn changed_prompt_is_an_error_unless_partial() {
    let context = numbers("(b)");
    let server = StandInServer::start(ServerOptions::default());
    run(&context, &server, &["--log_samples"]);
    drop(server);
    let prompt = "{% if n|int < 8 %}Number {{n}}:{% else %}No. {{n}}:{% endif %}";
    context.write("numbers.yaml", task("(b)", prompt));
    for source in ["out", "out/m/answers.journal"] {
        let words = ["rescore", source, "--tasks", "numbers.yaml", "--output_path", "again", "--log_samples"];
        let output = context.run(&words);
        assert_eq!(output.status, 1, "{output}");
        assert!(output.stderr.contains("No scores: 2 documents have no stored answer"), "{output}");
        assert!(output.stderr.contains("`numbers`: 2 documents: 8, 9"), "{output}");
        if source == "out" {
            let reason =
                "document 8: its prompt differs from character 1 on: `No. 8:` now, `Number 8:` stored";
            assert!(output.stderr.contains(reason), "{output}");
        }
        assert!(output.stderr.contains("--partial") && output.stdout.is_empty(), "{output}");
        let files = fs_err::read_dir(context.work().join("again/m")).unwrap().count();
        assert_eq!(files, 0, "nothing is written");
        let output = context.run(&[
            "rescore",
            source,
            "--tasks",
            "numbers.yaml",
            "--partial",
            "--output_path",
            "part",
        ]);
        assert_eq!(output.status, 0, "{output}");
        assert!(
            output.stderr.contains("warning: 2 documents left out for lack of a stored answer"),
            "{output}"
        );
        let part = read(&context, "part");
        assert_eq!(part["n-samples"]["numbers"]["effective"], 8);
        assert_eq!(part["rescored"]["missing_documents"]["numbers"], 2);
    }
    // Generation settings are part of a request.
    context.write("numbers.yaml", task("(b)", "Number {{n}}:").replace("max_gen_toks: 4", "max_gen_toks: 5"));
    let output = context.run(&["rescore", "out", "--tasks", "numbers.yaml"]);
    assert!(output.status == 1 && output.stderr.contains("its generation settings differ"), "{output}");
    let output = context.run(&["rescore", "out", "--tasks", "numbers.yaml", "--partial"]);
    assert!(output.status == 1 && output.stderr.contains("10 documents have no stored answer"), "{output}");
}

#[test]
fn samples_file_alone_is_enough() {
    let context = numbers("(b)");
    let server = StandInServer::start(ServerOptions::default());
    run(&context, &server, &["--log_samples", "--samples", r#"{"numbers": [1, 4, 7]}"#]);
    let samples = file(&context, "out", "samples_");
    let path = samples.to_str().unwrap();
    let output = context.run(&["rescore", path, "--include_path", ".", "--output_path", "again"]);
    assert_eq!(output.status, 0, "{output}");
    assert_eq!(read(&context, "again")["results"], read(&context, "out")["results"]);
    // Without the results file, under any name.
    for name in ["mine.jsonl", "samples_numbers_2026-01-01T00-00-00.jsonl"] {
        fs_err::copy(&samples, context.work().join(name)).unwrap();
        let output =
            context.run(&["rescore", name, "--tasks", "numbers.yaml", "--output_path", "other.json"]);
        assert_eq!(output.status, 0, "{output}");
        assert!(output.stderr.contains("has no results file beside it"), "{output}");
        assert!(output.stdout.contains("|numbers|"), "{output}");
    }
}

#[test]
fn unusable_runs_are_explained() {
    let context = numbers("(b)");
    let server = StandInServer::start(ServerOptions::default());
    run(&context, &server, &["--log_samples"]);
    let samples = file(&context, "out", "samples_");
    let whole = fs_err::read_to_string(&samples).unwrap();
    let error = |words: &[&str], text: &str| {
        let output = context.run(&[&["rescore"], words].concat());
        assert_eq!(output.status, 1, "{output}");
        assert!(output.stderr.contains(text), "{output}");
    };
    let tasks = ["out", "--tasks", "numbers.yaml"];
    error(&["out"], "--include_path DIR");
    error(&["nowhere"], "`nowhere` does not exist");
    fs_err::write(&samples, &whole[..whole.len() / 3]).unwrap();
    error(&tasks, "still being written");
    fs_err::write(&samples, "{\"doc_id\": 1}\n").unwrap();
    error(&tasks, "it has no `resps`");
    fs_err::write(&samples, whole.replacen("{\"gen_args_0\"", "{\"gen_args_1\"", 1)).unwrap();
    error(&tasks, "Line 1 of");
    fs_err::remove_file(&samples).unwrap();
    let output = context.run(&[&["rescore"], &tasks[..]].concat());
    assert_eq!(output.status, 0, "the journal has the answers: {output}");
    fs_err::remove_file(context.work().join("out/m/answers.journal")).unwrap();
    error(&tasks, "neither samples files nor a journal");
}

#[test]
fn journal_with_several_models_asks_for_one() {
    let context = numbers("(b)");
    let [one, other] = [(); 2].map(|()| StandInServer::start(ServerOptions::default()));
    run(&context, &one, &[]);
    run(&context, &other, &[]);
    let words = ["rescore", "out/m/answers.journal", "--tasks", "numbers.yaml"];
    let output = context.run(&words);
    assert_eq!(output.status, 1, "{output}");
    assert!(
        output.stderr.contains("answers of several models") && output.stderr.contains("10 answers of"),
        "{output}"
    );
    let address = one.url("").replace("http://", "");
    let output = context.run(&[&words[..], &["--model", &format!("server {address}")]].concat());
    assert_eq!(output.status, 0, "{output}");
    // A journal without results: the settings come from a file.
    fs_err::copy(context.work().join("out/m/answers.journal"), context.work().join("alone.journal")).unwrap();
    let output = context.run(&["rescore", "alone.journal"]);
    assert!(output.status == 1 && output.stderr.contains("--config FILE"), "{output}");
    context.write("run.yaml", "tasks: numbers.yaml\nlimit: 4\n");
    let words =
        ["rescore", "alone.journal", "--config", "run.yaml", "--model", &address, "--output_path", "again"];
    let output = context.run(&words);
    assert_eq!(output.status, 0, "{output}");
    assert_eq!(read(&context, "again")["n-samples"]["numbers"]["effective"], 4);
}

#[test]
fn chat_runs_and_repeats_are_scored_again() {
    let context = numbers("(b)");
    let sampled = task("(b)", "Number {{n}}:")
        .replace("max_gen_toks: 4", "max_gen_toks: 4, do_sample: true, temperature: 0.7")
        + "repeats: 3\n";
    context.write("numbers.yaml", sampled);
    let server = StandInServer::start(ServerOptions::default());
    let model_args = format!("model=m,base_url={}", server.url("/v1/chat/completions"));
    let words =
        ["run", "--model", "local-chat-completions", "--model_args", &model_args, "--tasks", "numbers.yaml"];
    let more = [
        "--output_path",
        "out",
        "--log_samples",
        "--apply_chat_template",
        "--system_instruction",
        "Be brief.",
    ];
    let output = context.run(&[&words[..], &more].concat());
    assert_eq!(output.status, 0, "{output}");
    drop(server);
    for source in ["out", "out/m/answers.journal"] {
        let words = ["rescore", source, "--tasks", "numbers.yaml", "--output_path", "again", "--log_samples"];
        let output = context.run(&words);
        assert_eq!(output.status, 0, "{output}");
        assert_eq!(comparable(&context, "again"), comparable(&context, "out"));
    }
}

#[test]
fn merged_journals_serve_a_run() {
    let context = numbers("(b)");
    let server = StandInServer::start(ServerOptions::default());
    run(&context, &server, &["--use_cache", "first", "--limit", "4"]);
    run(&context, &server, &["--use_cache", "second"]);
    let output = context.run(&["journal", "merge", "first.journal", "second.journal", "-o", "both.journal"]);
    assert_eq!(output.status, 0, "{output}");
    assert!(output.stdout.contains("both.journal: 10 answered of 2 journals, 4 duplicates"), "{output}");
    let connections = server.connections();
    run(&context, &server, &["--use_cache", "both"]);
    assert_eq!(server.connections(), connections);
    let output = context.run(&["journal", "merge", "first.journal", "-o", "second.journal"]);
    assert!(output.status == 1 && output.stderr.contains("exists already"), "{output}");
    let output = context.run(&["journal", "merge", "first.journal", "numbers.jsonl", "-o", "none.journal"]);
    assert!(output.status == 1 && output.stderr.contains("not an answer journal"), "{output}");
    assert!(!context.work().join("none.journal").exists());
}

/// A run whose samples file a test changes, and the lines of the file.
fn stored_run() -> (TestContext, PathBuf, Vec<String>) {
    let context = numbers("(b)");
    let server = StandInServer::start(ServerOptions::default());
    run(&context, &server, &["--log_samples"]);
    let samples = file(&context, "out", "samples_");
    let lines = fs_err::read_to_string(&samples).unwrap().lines().map(|line| format!("{line}\n")).collect();
    (context, samples, lines)
}

#[test]
fn order_and_duplicates_of_samples_do_not_matter() {
    let (context, samples, lines) = stored_run();
    context.write("numbers.yaml", task("([a-z])", "Number {{n}}:"));
    let rescored = || {
        let words = ["rescore", "out", "--tasks", "numbers.yaml", "--output_path", "again", "--flips", "20"];
        let output = context.run(&words);
        assert_eq!(output.status, 0, "{output}");
        let mut results = read(&context, "again");
        (results["results"].take(), results["rescored"]["changes"].take(), output.stdout)
    };
    let expected = rescored();
    assert!(expected.2.contains("numbers document "), "{}", expected.2);
    assert_eq!(lines.len(), 20);
    let shuffled: String = (0..20).map(|index| lines[index * 7 % 20].as_str()).collect();
    let reversed: String = lines.iter().rev().map(String::as_str).collect();
    let doubled = [lines.concat(), shuffled.clone()].concat();
    let blank = format!("\n{}", lines.concat().replace("}\n", "}\n\n"));
    let unended = lines.concat().trim_end().to_owned();
    for content in [shuffled, reversed, doubled, blank, unended] {
        fs_err::write(&samples, &content).unwrap();
        assert_eq!(rescored(), expected, "{content}");
    }
}

#[test]
fn documents_that_the_samples_lack_are_listed() {
    let (context, samples, lines) = stored_run();
    let is_kept = |line: &&String| {
        let sample: Value = serde_json::from_str(line).unwrap();
        sample["doc_id"] != 3 && sample["doc_id"] != 4
    };
    let kept: Vec<&String> = lines.iter().filter(is_kept).collect();
    fs_err::write(&samples, kept.into_iter().map(String::as_str).collect::<String>()).unwrap();
    let words = ["rescore", "out", "--tasks", "numbers.yaml", "--output_path", "again"];
    let output = context.run(&words);
    assert_eq!(output.status, 1, "{output}");
    assert!(output.stderr.contains("`numbers`: 2 documents: 3, 4\n"), "{output}");
    assert!(output.stderr.contains("document 3: the run has no such document"), "{output}");
    let output = context.run(&[&words[..], &["--partial"]].concat());
    assert_eq!(output.status, 0, "{output}");
    let part = read(&context, "again");
    assert_eq!(part["n-samples"]["numbers"]["effective"], 8);
    assert!(part["rescored"]["changes"].as_array().unwrap().iter().all(|change| change["up"] == 0), "{part}");
}

#[test]
fn moved_documents_are_found_unless_their_answers_differ() {
    let (context, samples, lines) = stored_run();
    let documents = documents();
    let moved: Vec<&str> = documents.lines().rev().collect();
    context.write("numbers.jsonl", moved.join("\n"));
    let words = ["rescore", "out", "--tasks", "numbers.yaml", "--output_path", "again"];
    let output = context.run(&words);
    assert_eq!(output.status, 0, "{output}");
    assert_eq!(read(&context, "again")["results"], read(&context, "out")["results"]);
    // Two answers to one prompt: nothing is guessed.
    let changed = lines.iter().map(|line| {
        let mut sample: Value = serde_json::from_str(line).unwrap();
        if sample["doc_id"] == 8 {
            sample["arguments"]["gen_args_0"]["arg_0"] = "Number 9:".into();
            sample["resps"] = serde_json::json!([["unlike the other"]]);
        }
        format!("{sample}\n")
    });
    fs_err::write(&samples, changed.collect::<String>()).unwrap();
    let output = context.run(&words);
    assert_eq!(output.status, 1, "{output}");
    assert!(output.stderr.contains("`numbers`: 2 documents: 0, 1\n"), "{output}");
}

//! Files of finished runs that are not as the run wrote them.

use std::path::PathBuf;

use lmeval_testkit::{Output, TestContext};
use serde_json::{Value, json};

use crate::context;

/// The words of every warning about a changed file.
const WARNING: &str = "was changed after the run wrote it";

/// A change of the content of a file.
type Edit<'a> = &'a dyn Fn(&str) -> String;

fn demo(words: &[&str]) -> TestContext {
    let context = context();
    let run =
        ["run", "--tasks", "demo_capitals,demo_last_word", "--output_path", "out", "--log_samples", "-q"];
    let output = context.run(&[&run[..], words].concat());
    assert_eq!(output.status, 0, "{output}");
    context
}

/// The file of the run whose name starts like this.
fn file(context: &TestContext, start: &str) -> PathBuf {
    let model = fs_err::read_dir(context.work().join("out")).unwrap().next().unwrap().unwrap().path();
    let mut files = fs_err::read_dir(model).unwrap().map(|entry| entry.unwrap().path());
    files.find(|path| path.file_name().unwrap().to_string_lossy().starts_with(start)).unwrap()
}

fn edit(context: &TestContext, start: &str, change: impl FnOnce(&str) -> String) {
    let path = file(context, start);
    let before = fs_err::read_to_string(&path).unwrap();
    let after = change(&before);
    assert_ne!(before, after, "the edit changes the file");
    fs_err::write(path, after).unwrap();
}

fn edit_results(context: &TestContext, change: impl FnOnce(&mut Value)) {
    edit(context, "results_", |text| {
        let mut results: Value = serde_json::from_str(text).unwrap();
        change(&mut results);
        results.to_string()
    });
}

fn readers(context: &TestContext) -> Vec<(&'static str, Output)> {
    let commands: [&[&'static str]; 6] = [
        &["table", "out"],
        &["compare", "out", "out"],
        &["rescore", "out"],
        &["samples", "out", "--format", "csv"],
        &["samples", "out", "--sort", "doc_id", "-n", "2", "--format", "csv"],
        &["report", "out", "-o", "report.html"],
    ];
    commands.into_iter().map(|words| (words[0], context.run(words))).collect()
}

#[test]
fn unchanged_files_lead_to_no_warning() {
    let context = demo(&[]);
    // As people handle files: renamed, moved, and written again by other programs.
    edit_results(&context, |results| {
        assert!(results["checksums"]["samples"]["demo_capitals"]["lines"].as_u64() > Some(0), "{results}");
        results["model_name"] = json!("mine");
        results["notes"] = json!("of another program");
    });
    edit(&context, "samples_demo_capitals", |text| text.replace('\n', "\r\n"));
    edit(&context, "samples_demo_last_word", |text| text.split_inclusive('\n').rev().collect());
    let model = file(&context, "results_").parent().unwrap().to_owned();
    fs_err::rename(&model, model.with_file_name("other")).unwrap();
    for (command, output) in readers(&context) {
        assert_eq!(output.status, 0, "{command}: {output}");
        assert!(!output.stderr.contains(WARNING), "{command}: {output}");
    }
}

#[test]
fn changed_scores_are_named() {
    let context = demo(&[]);
    edit_results(&context, |results| results["results"]["demo_capitals"]["acc,none"] = json!(0.123));
    for (command, output) in readers(&context).into_iter().filter(|(command, _)| *command != "samples") {
        assert_eq!(output.status, 0, "{command}: {output}");
        let is_named =
            output.stderr.contains("`results` is not as it was") && output.stderr.contains("results_2");
        assert!(output.stderr.contains(WARNING) && is_named, "{command}: {output}");
    }
}

#[test]
fn changed_samples_are_named() {
    let swap = |text: &str| {
        let right = text.find("\"acc\": 1").unwrap() + 7;
        let wrong = text.find("\"acc\": 0").unwrap() + 7;
        let mut bytes = text.as_bytes().to_vec();
        bytes.swap(right, wrong);
        String::from_utf8(bytes).unwrap()
    };
    let changes: [(&str, Edit<'_>); 3] = [
        ("its samples do not belong to the run", &swap),
        ("samples instead of", &|text| text.split_inclusive('\n').skip(1).collect()),
        ("samples instead of", &|text| format!("{text}{}\n", text.lines().next().unwrap())),
    ];
    for (message, change) in changes {
        let context = demo(&[]);
        edit(&context, "samples_demo_capitals", change);
        for (command, output) in readers(&context).into_iter().filter(|(command, _)| *command != "table") {
            // Documents without an answer are an error already.
            let is_refused = command == "rescore" && output.status == 1;
            let is_named = output.stderr.contains(WARNING) && output.stderr.contains(message);
            assert!(is_refused || is_named, "{command}, {message}: {output}");
        }
    }
}

#[test]
fn files_of_the_old_line_have_no_checksums() {
    let context = demo(&["--compat", "0.4"]);
    let results = fs_err::read_to_string(file(&context, "results_")).unwrap();
    assert!(!results.contains("checksums"), "{results}");
    // So nothing is known about an edit, and nothing is said.
    edit_results(&context, |results| results["results"]["demo_capitals"]["acc,none"] = json!(0.123));
    let output = context.run(&["table", "out"]);
    assert_eq!(output.status, 0, "{output}");
    assert!(!output.stderr.contains(WARNING), "{output}");
}

#[test]
fn lost_samples_files_are_named() {
    let context = demo(&[]);
    fs_err::remove_file(file(&context, "samples_demo_last_word")).unwrap();
    let output = context.run(&["samples", "out", "--format", "csv"]);
    assert_eq!(output.status, 0, "{output}");
    assert!(output.stderr.contains("The samples file of `demo_last_word`"), "{output}");
    let output = context.run(&["samples", "out", "--tasks", "demo_capitals", "--format", "csv"]);
    assert!(!output.stderr.contains("demo_last_word"), "{output}");
}

#[test]
fn changed_files_of_shards_are_not_merged() {
    let context = context();
    for shard in ["1/2", "2/2"] {
        let words =
            ["run", "--tasks", "demo_capitals", "--shard", shard, "-o", "parts", "--log_samples", "-q"];
        let output = context.run(&words);
        assert_eq!(output.status, 0, "{output}");
    }
    let folder =
        fs_err::read_dir(context.work().join("parts/shard-1-of-2")).unwrap().next().unwrap().unwrap().path();
    let files: Vec<PathBuf> = fs_err::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    let named = |start: &str| {
        files.iter().find(|path| path.file_name().unwrap().to_string_lossy().starts_with(start)).unwrap()
    };
    for (start, from, to) in [
        ("shard.json", "\"failed_requests\": 0", "\"failed_requests\": 1"),
        ("results_", "\"acc,none\": ", "\"acc,none\": 1"),
        ("samples_", "\"acc\": ", "\"acc\": 3"),
    ] {
        let path = named(start);
        let whole = fs_err::read_to_string(path).unwrap();
        assert!(whole.contains(from), "{whole}");
        fs_err::write(path, whole.replacen(from, to, 1)).unwrap();
        let output = context.run(&["merge", "parts", "-o", "merged"]);
        assert_eq!(output.status, 1, "{start}: {output}");
        assert!(
            output.stderr.contains(start) && output.stderr.contains("Run the command of the shard again"),
            "{output}"
        );
        fs_err::write(path, whole).unwrap();
    }
    let output = context.run(&["merge", "parts", "-o", "merged"]);
    assert_eq!(output.status, 0, "{output}");
}

#[test]
fn a_task_with_a_colon_keeps_its_name() {
    let context = context();
    context.write("rows.jsonl", "{\"q\": \"1+1?\", \"g\": 0}\n{\"q\": \"2+2?\", \"g\": 1}\n");
    context.write(
        "colon.yaml",
        "task: \"a:b\"\ndataset_path: json\ndataset_kwargs: {data_files: {test: rows.jsonl}}\ntest_split: test\n\
         output_type: multiple_choice\ndoc_to_text: \"{{q}}\"\ndoc_to_target: g\ndoc_to_choice: ['2', '4']\n",
    );
    let run = ["run", "--model", "ngram", "--tasks", "colon.yaml", "-o", "out", "--log_samples", "-q"];
    let output = context.run(&run);
    assert_eq!(output.status, 0, "{output}");
    let output =
        context.run(&["samples", "out", "--tasks", "a:b", "--fields", "task,doc_id", "--format", "csv"]);
    assert_eq!((output.status, output.stdout.as_str()), (0, "task,doc_id\na:b,0\na:b,1\n"), "{output}");
    let output = context.run(&["compare", "out", "out", "--format", "csv"]);
    assert!(output.stdout.contains(",a:b,none,acc,"), "{output}");
}

//! Everyday spellings and mistakes: what people type is understood, and what they mistype is explained.

use lmeval_testkit::{Output, TestContext};

use crate::context;

const QUIZ: &str = "task: quiz
dataset_path: json
dataset_kwargs: {data_files: {test: quiz.jsonl}}
test_split: test
output_type: multiple_choice
doc_to_text: '{{q}}'
doc_to_choice: o
doc_to_target: a
";

fn quiz() -> TestContext {
    let context = context();
    context.write("quiz.yaml", QUIZ);
    context.write("quiz.jsonl", "{\"q\": \"2+2\", \"o\": [\"4\", \"5\"], \"a\": 0}\n".repeat(5));
    context
}

fn fails(context: &TestContext, status: i32, words: &[&str], parts: &[&str]) {
    let output = context.run(words);
    assert_eq!(output.status, status, "{words:?}: {output}");
    for part in parts {
        assert!(output.stderr.contains(part), "{part}: {output}");
    }
    assert!(!output.stderr.contains("os error"), "{output}");
}

fn passes(context: &TestContext, words: &[&str]) -> Output {
    let output = context.run(words);
    assert_eq!(output.status, 0, "{words:?}: {output}");
    output
}

#[test]
fn global_options_may_precede_the_command() {
    let context = context();
    let plain = passes(&context, &["ls", "groups"]);
    assert_eq!(passes(&context, &["--color", "never", "ls", "groups"]).stdout, plain.stdout);
    assert_eq!(passes(&context, &["--color=never", "ls", "groups"]).stdout, plain.stdout);
}

#[test]
fn the_older_name_of_the_command_runs_it() {
    let context = TestContext::new(env!("CARGO_BIN_EXE_lm_eval"));
    let output = passes(&context, &["--model", "uniform", "--tasks", "demo_capitals", "--limit", "2"]);
    assert!(output.stdout.contains("|demo_capitals|"), "{output}");
    assert_eq!(context.run(&["run", "--model", "nonesuch"]).status, 1);
}

#[test]
fn metadata_takes_pairs_and_json() {
    let context = quiz();
    let read = |words: &[&str]| {
        let run = ["run", "--model", "dummy", "--tasks", "quiz.yaml", "--json", "--metadata"];
        let output = passes(&context, &[&run[..], words].concat());
        let results: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
        results["configs"]["quiz"]["metadata"].clone()
    };
    let pairs = read(&["tokenizer=gpt2", "max_seq_lengths=[4096,8192]"]);
    assert_eq!(pairs["tokenizer"], "gpt2");
    assert_eq!(pairs["max_seq_lengths"], serde_json::json!([4096, 8192]));
    assert_eq!(read(&["{\"tokenizer\": \"gpt2\", \"max_seq_lengths\": [4096, 8192]}"]), pairs);
}

#[test]
fn a_batch_of_nothing_is_refused() {
    let context = quiz();
    let run = ["run", "--model", "dummy", "--tasks", "quiz.yaml", "--batch_size"];
    fails(&context, 2, &[&run[..], &["0"]].concat(), &["must be at least 1, or `auto`"]);
    passes(&context, &[&run[..], &["auto"]].concat());
    context.write("run.yaml", "batch_size: 0\ntasks: quiz.yaml\nmodel: dummy\n");
    fails(&context, 1, &["run", "--config", "run.yaml"], &["batch_size", "at least 1"]);
}

#[test]
fn write_out_shows_the_first_documents() {
    let context = quiz();
    let output =
        passes(&context, &["run", "--model", "dummy", "--tasks", "quiz.yaml,demo_prose", "--write_out"]);
    for (task, document, is_shown) in
        [("quiz", 0, true), ("quiz", 2, true), ("quiz", 3, false), ("demo_prose", 2, true)]
    {
        let title = format!("Task `{task}`, document {document}:");
        assert_eq!(output.stderr.contains(&title), is_shown, "{title} {output}");
    }
}

#[test]
fn repeated_keys_are_findings() {
    let context = quiz();
    context.write("base.yaml", format!("{QUIZ}doc_to_text: 'Q: {{{{q}}}}'\n"));
    context.write(
        "twice.yaml",
        "include: base.yaml\ntask: twice\nmetric_list:\n  - {metric: acc, metric: acc_norm}\n",
    );
    let output = context.run(&["validate", "--tasks", "twice.yaml"]);
    for part in [
        "The key `doc_to_text` appears twice",
        "base.yaml:9:1",
        "The key `metric` appears twice",
        "twice.yaml:4:",
    ] {
        assert!(format!("{output}").contains(part), "{part}: {output}");
    }
    assert_eq!(output.status, 0, "{output}");
    assert_eq!(context.run(&["validate", "--strict", "--tasks", "twice.yaml"]).status, 1);
    let run = passes(&context, &["run", "--model", "dummy", "--tasks", "twice.yaml"]);
    assert!(run.stderr.contains("The key `doc_to_text` appears twice"), "{run}");
    context
        .write("merged.yaml", format!("base: &b {{doc_to_text: x}}\n{QUIZ}").replace("base:", "metadata:"));
    let merged = context.run(&["validate", "--tasks", "merged.yaml"]);
    assert!(!format!("{merged}").contains("appears twice"), "{merged}");
}

#[test]
fn empty_data_is_explained() {
    let context = quiz();
    context.write("quiz.jsonl", "");
    fails(
        &context,
        1,
        &["run", "--model", "dummy", "--tasks", "quiz.yaml"],
        &["has no rows", "files are empty"],
    );
}

#[test]
fn missing_files_are_named_without_system_errors() {
    let context = quiz();
    let run = ["run", "--model", "dummy", "--tasks", "quiz.yaml"];
    for words in [
        &[&run[..], &["--samples", "none.json"]].concat()[..],
        &["run", "--config", "none.json"],
        &["compare", "none.json", "none.json"],
        &["table", "none.json"],
        &["samples", "none.json"],
        &["rescore", "none.json"],
        &["report", "none.json"],
        &["view", "none.json"],
    ] {
        fails(&context, 1, words, &["`none.json` does not exist", "hint:"]);
    }
}

#[test]
fn runs_are_found_below_a_folder() {
    let context = quiz();
    for name in ["deep/er/a", "deep/b"] {
        passes(
            &context,
            &["run", "--model", "uniform", "--tasks", "quiz.yaml", "--output", &format!("out/{name}"), "-s"],
        );
    }
    for folder in [".", "out", "out/deep"] {
        let output = passes(&context, &["table", folder, "--duplicates", "separate"]);
        assert_eq!(output.stdout.matches("uniform").count(), 2, "{output}");
    }
    fails(&context, 1, &["compare", ".", "out/deep/b"], &["holds 2 series of runs", "name one"]);
    passes(&context, &["compare", "out/deep/er", "out/deep/b"]);
    let tasks = passes(&context, &["samples", "out/deep/b", "--task", "quiz", "--metric", "acc"]);
    assert_eq!(
        passes(&context, &["samples", "out/deep/b", "--tasks", "quiz", "--metrics", "acc"]).stdout,
        tasks.stdout
    );
}

#[test]
fn samples_and_flips_name_the_right_option() {
    let context = quiz();
    for (model, folder) in [("ngram", "base"), ("uniform", "new")] {
        passes(
            &context,
            &["run", "--model", model, "--tasks", "demo_capitals", "-s", "--output_path", folder],
        );
    }
    let samples = passes(&context, &["samples", "base", "-n", "1"]);
    for part in ["target: ' Paris' (option 2)", "*✓ ", "' Lyon'"] {
        assert!(samples.stdout.contains(part), "{part}: {samples}");
    }
    let flips = passes(&context, &["compare", "base", "new", "--flips", "1", "--metrics", "acc"]);
    for part in ["target: ' Paris' (option 2)", "base answer:\n", "new answer:\n", "✓ "] {
        assert!(flips.stdout.contains(part), "{part}: {flips}");
    }
    assert!(!flips.stdout.contains("[["), "{flips}");
}

#[test]
fn comparisons_fit_the_metric() {
    let context = quiz();
    for folder in ["base", "new"] {
        let model = if folder == "base" { "ngram" } else { "uniform" };
        let tasks = "demo_prose,demo_capitals,demo_arithmetic";
        passes(&context, &["run", "--model", model, "--tasks", tasks, "-s", "-o", folder]);
    }
    let output = passes(&context, &["compare", "base", "new", "--margin", "0.01"]);
    let row = |metric: &str| output.stdout.lines().find(|line| line.contains(metric)).unwrap().to_owned();
    assert!(row("|word_perplexity|").trim_end_matches(['|', ' ']).ends_with('–'), "{output}");
    let needed = row("Documents needed");
    assert!(needed.contains("acc ") && !needed.contains("perplexity"), "{needed}");
    let filtered = passes(&context, &["compare", "base", "new", "--filter", "strict-match"]);
    assert!(filtered.stdout.contains("strict-match") && !filtered.stdout.contains("acc_norm"), "{filtered}");
    fails(
        &context,
        1,
        &["compare", "base", "new", "--filter", "strict"],
        &["filter `strict`", "`strict-match`"],
    );
    fails(&context, 2, &["compare", "base", "new", "--gate", "acc > 1"], &["TASK:METRIC >= MARGIN"]);
}

#[test]
fn json_has_one_name_everywhere() {
    let context = quiz();
    assert_eq!(
        passes(&context, &["ls", "groups", "--format", "json"]).stdout,
        passes(&context, &["ls", "groups", "--json"]).stdout
    );
    let run = ["run", "--model", "dummy", "--tasks", "quiz.yaml", "-o", "out", "-s"];
    passes(&context, &run);
    for command in ["table", "samples"] {
        let output = passes(&context, &[command, "out", "--json"]);
        assert!(output.stdout.starts_with('{'), "{output}");
    }
}

#[test]
fn help_groups_the_options_of_run() {
    let output = passes(&context(), &["run", "-h"]);
    for heading in
        ["Model:", "Tasks and documents:", "Prompts:", "Scoring:", "Output:", "Resuming and caching:"]
    {
        assert!(output.stdout.contains(&format!("\n{heading}\n")), "{heading}: {output}");
    }
    let options = output.stdout.split("\nOptions:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    assert!(options.lines().count() < 8, "{options}");
}

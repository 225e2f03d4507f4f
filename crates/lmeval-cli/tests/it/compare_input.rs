//! `lm-eval compare` on runs that cannot be compared, or only in part.

use std::fmt::Write as _;

use lmeval_testkit::{Output, TestContext};

use crate::context;

const STAMP: &str = "2026-11-15T02-46-50.151442";

/// A run of one task whose documents have an accuracy and a passage.
struct Written<'a> {
    task: &'a str,
    /// Scores by document id, as JSON.
    scores: Vec<(usize, &'a str)>,
    /// Whether samples have hashes.
    hashes: bool,
    /// The task's entry in `configs`, and the rest of the results file.
    config: &'a str,
    rest: &'a str,
}

impl Default for Written<'_> {
    fn default() -> Self {
        Self { task: "quiz", scores: Vec::new(), hashes: true, config: "{}", rest: "" }
    }
}

fn documents(count: usize, is_right: impl Fn(usize) -> bool) -> Vec<(usize, &'static str)> {
    (0..count).map(|id| (id, if is_right(id) { "1.0" } else { "0.0" })).collect()
}

/// Writes results and samples below a folder.
fn write(context: &TestContext, folder: &str, run: &Written<'_>) {
    let Written { task, scores, hashes, config, rest } = run;
    let mut samples = String::new();
    for (id, score) in scores {
        let digits = format!("{:016x}", id + 1).repeat(4);
        let hash = if *hashes {
            format!(r#""doc_hash": "{digits}", "prompt_hash": "{digits}", "#)
        } else {
            String::new()
        };
        writeln!(
            samples,
            r#"{{"doc_id": {id}, "doc": {{"passage": "p{}"}}, "target": "x", "arguments": {{"gen_args_0": {{"arg_0": "Q"}}}}, "resps": [["a"]], "filtered_resps": ["a"], "filter": "none", "metrics": ["acc"], {hash}"acc": {score}}}"#,
            id / 4
        )
        .unwrap();
    }
    context.write(format!("{folder}/samples_{task}_{STAMP}.jsonl"), samples);
    let results = format!(
        r#"{{"results": {{"{task}": {{"acc,none": 0.5}}}}, "configs": {{"{task}": {config}}}, "model_name": "{folder}"{rest}}}"#
    );
    context.write(format!("{folder}/results_{STAMP}.json"), results);
}

/// Two runs, compared.
fn compared(base: &Written<'_>, new: &Written<'_>, words: &[&str]) -> Output {
    let context = context();
    write(&context, "base", base);
    write(&context, "new", new);
    context.run(&[&["compare", "base", "new"], words].concat())
}

fn fails(output: &Output, messages: &[&str]) {
    assert_eq!((output.status, output.stdout.as_str()), (1, ""), "{output}");
    for message in messages {
        assert!(output.stderr.contains(message), "{message} is not in {output}");
    }
}

#[test]
fn runs_without_common_documents_are_refused() {
    let base = Written { scores: documents(4, |_| true), ..Written::default() };
    let new = Written { scores: vec![(7, "1.0"), (8, "0.0")], ..Written::default() };
    fails(&compared(&base, &new, &[]), &["no document of `quiz` in common", "--limit"]);
}

#[test]
fn samples_without_hashes_are_paired_by_id_and_say_so() {
    let base = Written { scores: documents(6, |_| true), hashes: false, ..Written::default() };
    let new = Written { scores: documents(6, |id| id > 1), ..Written::default() };
    let output = compared(&base, &new, &[]);
    assert_eq!(output.status, 0, "{output}");
    assert!(output.stderr.contains("paired by their ids"), "{output}");
    assert!(output.stdout.contains("+0 −2"), "{output}");
}

#[test]
fn half_written_files_are_named() {
    let context = context();
    let run = Written { scores: documents(3, |_| true), ..Written::default() };
    for folder in ["base", "new"] {
        write(&context, folder, &run);
    }
    let path = format!("new/samples_quiz_{STAMP}.jsonl");
    let samples = fs_err::read_to_string(context.work().join(&path)).unwrap();
    let compare = || context.run(&["compare", "base", "new"]);
    for cut in [1, 40, samples.len() / 2, samples.len() - 3] {
        context.write(&path, &samples[..cut]);
        fails(&compare(), &["ends in the middle of a sample", &path, "finished run"]);
    }
    context.write(&path, "");
    fails(&compare(), &["has no samples", &path]);
    context.write(&path, [b'{', 0xff, b'}', b'\n']);
    fails(&compare(), &["is not UTF-8", "line 1"]);
    context.write(&path, &samples);
    let path = format!("new/results_{STAMP}.json");
    let results = fs_err::read_to_string(context.work().join(&path)).unwrap();
    for cut in [0, 10, results.len() - 1] {
        context.write(&path, &results[..cut]);
        fails(&compare(), &["is not a results file", &path]);
    }
    context.write(&path, "[1]");
    fails(&compare(), &["is not a results file"]);
}

#[test]
fn nan_scores_are_left_out_and_reported() {
    let run = |scores| Written { scores, ..Written::default() };
    let base = run(vec![(0, "1.0"), (1, "NaN"), (2, "0.0"), (3, "1.0")]);
    let new = run(vec![(0, "NaN"), (1, "1.0"), (2, "1.0"), (3, "1.0")]);
    let output = compared(&base, &new, &[]);
    assert_eq!(output.status, 0, "{output}");
    assert!(output.stderr.contains("2 documents of `quiz` have NaN as `acc`"), "{output}");
    assert!(output.stdout.contains("|2  |+1 −0"), "{output}");
    let all = run((0..4).map(|id| (id, "NaN")).collect());
    fails(
        &compared(&base, &all, &[]),
        &["share no score that can be compared", "4 documents of `quiz` have NaN"],
    );
    // No gate passes on a score that does not exist.
    fails(&compared(&base, &all, &["--gate", "quiz:acc >= -1"]), &["share no score"]);
    let infinite = run(vec![(0, "Infinity"), (1, "0.0"), (2, "0.0"), (3, "0.0")]);
    let output = compared(&infinite, &infinite, &["--gate", "quiz:acc >= -1"]);
    assert_eq!(output.status, 4, "{output}");
}

#[test]
fn different_limits_are_noted() {
    let limit = |limit: &'static str, count| Written {
        scores: documents(count, |id| id % 2 == 0),
        rest: limit,
        ..Written::default()
    };
    let output = compared(
        &limit(r#", "config": {"limit": 10.0}"#, 10),
        &limit(r#", "config": {"limit": null}"#, 25),
        &[],
    );
    assert_eq!(output.status, 0, "{output}");
    assert!(output.stderr.contains("`base` ran with --limit 10"), "{output}");
    assert!(output.stderr.contains("0 documents of `quiz` are only in `base`, 15 only in `new`"), "{output}");
    assert!(output.stdout.contains("|10 |"), "{output}");
}

#[test]
fn journals_stand_for_the_results_beside_them() {
    let context = context();
    write(&context, "base", &Written { scores: documents(3, |_| true), ..Written::default() });
    context.write("base/answers.journal", "");
    let output = context.run(&["compare", "base/answers.journal", "base"]);
    assert_eq!(output.status, 0, "{output}");
    context.write("alone/answers.journal", "");
    fails(&context.run(&["compare", "base", "alone/answers.journal"]), &["holds answers", "lm-eval rescore"]);
    context.write("notes.txt", "hello");
    fails(&context.run(&["compare", "base", "notes.txt"]), &["`notes.txt` is not a results file"]);
    fs_err::create_dir(context.work().join("empty")).unwrap();
    fails(&context.run(&["compare", "base", "empty"]), &["There are no results in `empty`"]);
}

#[test]
fn what_only_one_run_has_is_noted() {
    let context = context();
    let versioned = |version| Written { scores: documents(3, |_| true), rest: version, ..Written::default() };
    write(&context, "base", &versioned(r#", "versions": {"quiz": 1}"#));
    write(&context, "new", &versioned(r#", "versions": {"quiz": 2}"#));
    let path = format!("new/samples_quiz_{STAMP}.jsonl");
    let samples = fs_err::read_to_string(context.work().join(&path)).unwrap();
    let more = samples.replace("\"filter\": \"none\"", "\"filter\": \"other\"");
    let with_metric = samples
        .replace(r#""metrics": ["acc"]"#, r#""metrics": ["acc", "f1"]"#)
        .replace("\"acc\": 1.0}", "\"acc\": 1.0, \"f1\": 1.0}");
    context.write(&path, with_metric + &more);
    let output = context.run(&["compare", "base", "new"]);
    assert_eq!(output.status, 0, "{output}");
    for note in [
        "`quiz` has version 1 in `base` and 2 in `new`",
        "Only `new` has the filter `other` of `quiz`",
        "Only `new` has `f1` of `quiz`",
    ] {
        assert!(output.stderr.contains(note), "{note} is not in {output}");
    }
}

#[test]
fn names_that_the_runs_do_not_share_are_errors() {
    let run = Written { scores: documents(3, |_| true), ..Written::default() };
    let with = |words: &[&str]| compared(&run, &run, words);
    fails(&with(&["--tasks", "arc"]), &["share no samples of `arc`", "`quiz`"]);
    fails(&with(&["--metrics", "bleu"]), &["no scores of the metric `bleu`", "`acc`"]);
    fails(&with(&["--gate", "quiz:bleu >= 0"]), &["that the runs do not share", "quiz:acc"]);
    fails(&with(&["--by", "topic"]), &["no field `topic`", "line 1"]);
    fails(&with(&["--flips", "some"]), &["a number or `all`"]);
    fails(&with(&["--flips", "1", "--format", "csv"]), &["no csv or junit format"]);
    fails(&with(&["--format", "junit"]), &["there is none"]);
}

#[test]
fn margins_and_power_are_checked() {
    let base = Written { scores: documents(40, |id| id % 3 == 0), ..Written::default() };
    let new = Written { scores: documents(40, |id| id % 2 == 0), ..Written::default() };
    for margin in ["0", "-0.1", "nan", "inf"] {
        fails(
            &compared(&base, &new, &[&format!("--margin={margin}")]),
            &["--margin has to be a number above 0"],
        );
    }
    for power in ["0", "1", "1.5"] {
        fails(&compared(&base, &new, &["--power", power]), &["--power has to be between 0 and 1"]);
    }
    let output = compared(&base, &new, &["--margin", "0.05"]);
    assert_eq!(output.status, 0, "{output}");
    let (_, line) = output.stdout.split_once("power: acc ").unwrap();
    let detectable: f64 = line.lines().next().unwrap().parse().unwrap();
    let (_, line) = output.stdout.split_once("a difference of 0.05: acc ").unwrap();
    let needed: f64 = line.lines().next().unwrap().parse().unwrap();
    let expected = 40.0 * (detectable / 0.05).powi(2);
    assert!((needed - expected).abs() < 0.01 * expected, "{needed} and {expected}");
    // Equal runs say nothing about how much documents vary.
    let output = compared(&base, &base, &["--margin", "0.05"]);
    assert!(output.stdout.contains("the power of this comparison is unknown"), "{output}");
    assert!(!output.stdout.contains("Documents needed"), "{output}");
}

#[test]
fn several_runs_are_a_matrix() {
    let context = context();
    type IsRight = fn(usize) -> bool;
    let models: [(&str, IsRight); 4] = [
        ("base", |id| id % 2 == 0),
        ("same", |id| id % 2 == 0),
        ("better", |_| true),
        ("part", |id| id % 2 == 0),
    ];
    for (folder, is_right) in models {
        let count = if folder == "part" { 9 } else { 40 };
        write(&context, folder, &Written { scores: documents(count, is_right), ..Written::default() });
    }
    let output = context.run(&["compare", "base", "same", "better", "part"]);
    assert_eq!(output.status, 0, "{output}");
    let lines: Vec<&str> = output.stdout.lines().collect();
    assert_eq!(lines[0], "Differences from base (p after Holm; * below 0.05)");
    let cells: Vec<&str> = lines[1].split('|').map(str::trim).collect();
    assert_eq!(cells[5..9], ["base", "same", "better", "part"], "{output}");
    let cells: Vec<&str> = lines[3].split('|').map(str::trim).collect();
    assert_eq!(cells[1..4], ["quiz", "none", "acc"], "{output}");
    assert_eq!(cells[5], "0.5†", "{output}");
    assert_eq!(cells[6], "+0.0000 (1)", "{output}");
    assert!(cells[7].starts_with("+0.5000* (<0.0001"), "{output}");
    assert!(output.stdout.contains("† The runs share other documents"), "{output}");
    // Equal names are told apart by their paths.
    let output = context.run(&["compare", "base", "same", "same"]);
    assert!(
        output.stdout.contains("|same|same (same)|") || output.stdout.contains("same (same)"),
        "{output}"
    );
    let json = context.run(&["compare", "base", "same", "better", "--format", "json"]);
    let found: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(found["comparisons"].as_array().unwrap().len(), 2);
}

#[test]
fn metadata_of_a_task_names_its_clusters() {
    let config = r#"{"metadata": {"version": 1.0, "cluster": "passage"}}"#;
    let run = |config, is_right: fn(usize) -> bool| Written {
        scores: documents(40, is_right),
        config,
        ..Written::default()
    };
    let json = |base: &Written<'_>, new: &Written<'_>, words: &[&str]| {
        let output = compared(base, new, &[words, &["--format", "json"]].concat());
        assert_eq!(output.status, 0, "{output}");
        let found: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
        (found["comparisons"][0]["scores"][0].clone(), output.stderr)
    };
    let right: [fn(usize) -> bool; 2] = [|id| id % 3 == 0, |id| id % 8 < 4];
    let (plain, _) = json(&run("{}", right[0]), &run("{}", right[1]), &[]);
    let (flagged, _) = json(&run("{}", right[0]), &run("{}", right[1]), &["--cluster", "passage"]);
    let (by_metadata, notes) = json(&run(config, right[0]), &run(config, right[1]), &[]);
    assert_eq!((plain["clusters"].as_u64(), by_metadata["clusters"].as_u64()), (None, Some(10)));
    assert_eq!(by_metadata, flagged);
    assert!(
        notes.contains("Documents of `quiz` are clustered by `passage`, as its metadata says"),
        "{notes}"
    );
    // A flag wins.
    let (other, _) = json(
        &run(config, right[0]),
        &run(config, right[1]),
        &["--cluster", "passage", "--no-cluster-correction"],
    );
    assert!(other["stderr"].as_f64() < by_metadata["stderr"].as_f64(), "{other}");
    let wrong = r#"{"metadata": {"cluster": "chapter"}}"#;
    fails(&compared(&run(wrong, right[0]), &run(wrong, right[1]), &[]), &["no field `chapter`"]);
}

//! Runs of other programs: Every Eval Ever and Inspect.

use std::io::Write as _;

use lmeval_testkit::TestContext;
use serde_json::{Value, json};

use crate::context;
use crate::publish::finished;

fn succeed(context: &TestContext, words: &[&str]) -> String {
    let output = context.run(words);
    assert_eq!(output.status, 0, "{output}");
    output.stdout
}

/// The tasks of a comparison with what was published, each with its pairs of documents and the difference.
fn compared(context: &TestContext, with: &str) -> Vec<(String, String, i64, f64)> {
    let text = succeed(context, &["compare", "out", with, "--format", "json"]);
    let whole: Value = serde_json::from_str(&text).expect("JSON");
    assert!(!text.contains("its definition may have changed"), "{text}");
    let rows = whole["comparisons"][0]["scores"].as_array().unwrap_or_else(|| panic!("{text}"));
    let row = |row: &Value| {
        let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
        let number = |key: &str| row[key].as_f64().unwrap_or(f64::NAN);
        (text("task"), text("metric"), number("n") as i64, number("difference"))
    };
    rows.iter().map(row).collect()
}

#[test]
fn published_runs_are_read_back_with_the_same_scores() {
    for (format, words) in [("eee", &["--to", "eee"][..]), ("inspect", &["--to", "inspect"])] {
        let context = finished();
        succeed(&context, &[&["publish", "out"], words].concat());
        let rows = compared(&context, "published");
        let scored: Vec<_> = rows.iter().filter(|(_, _, pairs, _)| *pairs == 2).collect();
        assert!(scored.len() >= 4, "{format}: {rows:?}");
        assert!(scored.iter().all(|(_, _, _, difference)| *difference == 0.0), "{format}: {rows:?}");
        let table =
            succeed(&context, &["table", "out", "published", "--duplicates", "separate", "--format", "csv"]);
        assert!(table.lines().next().is_some_and(|head| head.matches("org/model").count() == 4), "{table}");
        let samples =
            succeed(&context, &["samples", "published", "--wrong", "--format", "jsonl", "--no-pager"]);
        assert!(samples.contains("Q1"), "{format}: {samples}");
        let report = succeed(&context, &["report", "published", "-o", "report.html"]);
        assert!(report.starts_with("report.html: "), "{format}: {report}");
        // The second time the converted files are there.
        assert_eq!(compared(&context, "published").len(), rows.len());
    }
}

/// A log as Inspect itself writes it: names of samples, letters as grades, epochs.
fn inspect_log(grades: &[&str]) -> Value {
    let sample = |(index, grade): (usize, &&str)| {
        json!({"id": format!("row-{index}"), "epoch": 1, "input": [{"role": "user", "content": format!("Q{index}?")}],
               "target": "yes", "output": {"choices": [{"message": {"role": "assistant", "content": "I think yes"}}]},
               "scores": {"match": {"value": grade, "answer": "yes"}}})
    };
    let mut samples: Vec<Value> = grades.iter().enumerate().map(sample).collect();
    let mut second = samples[0].clone();
    second["epoch"] = json!(2);
    samples.push(second);
    let right = grades.iter().filter(|grade| **grade == "C").count() as f64;
    json!({"version": 2, "status": "success",
           "eval": {"task": "pkg/quiz", "task_id": "a1b2", "run_id": "r1", "created": "2026-11-19T18:39:03+00:00",
                    "model": "openai/gpt", "packages": {"inspect_ai": "0.3.285"}},
           "results": {"completed_samples": grades.len(), "scores": [{"name": "match", "scorer": "match",
               "metrics": {"accuracy": {"name": "accuracy", "value": right / grades.len() as f64}, "stderr": {"name": "stderr", "value": 0.25}}}]},
           "samples": samples})
}

#[test]
fn logs_of_inspect_compare_by_the_names_of_their_samples() {
    let context = context();
    context.write("a.json", inspect_log(&["C", "I", "I", "P"]).to_string());
    let mut other = inspect_log(&["C", "C", "I", "C"]);
    // Another order of the same samples.
    other["samples"].as_array_mut().expect("a list")[..4].reverse();
    context.write("b.json", other.to_string());
    let text = succeed(&context, &["compare", "a.json", "b.json", "--format", "json"]);
    let whole: Value = serde_json::from_str(&text).expect("JSON");
    let row = &whole["comparisons"][0]["scores"][0];
    assert_eq!(
        (&row["task"], &row["metric"], &row["filter"], &row["n"]),
        (&json!("pkg/quiz"), &json!("accuracy"), &json!("match"), &json!(4))
    );
    assert_eq!(row["difference"], json!(0.375));
    let table = succeed(&context, &["table", "a.json"]);
    assert!(table.contains("openai/gpt") && table.contains("0.2500"), "{table}");
}

#[test]
fn compressed_logs_of_inspect_are_read() {
    let context = context();
    let log = inspect_log(&["C", "I", "C", "P"]);
    context.write("a.json", log.to_string());
    let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let mut add = |name: &str, content: &Value| {
        let options =
            zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Deflated);
        archive.start_file(name, options).expect("a file in memory");
        archive.write_all(content.to_string().as_bytes()).expect("a file in memory");
    };
    for (index, sample) in log["samples"].as_array().expect("a list").iter().enumerate() {
        add(&format!("samples/{index}_epoch_1.json"), sample);
    }
    let mut header = log.clone();
    header.as_object_mut().expect("an object").remove("samples");
    add("header.json", &header);
    context.write("a.eval", archive.finish().expect("a file in memory").into_inner());
    let text = succeed(&context, &["compare", "a.json", "a.eval", "--format", "json"]);
    let whole: Value = serde_json::from_str(&text).expect("JSON");
    let row = &whole["comparisons"][0]["scores"][0];
    assert_eq!((&row["n"], &row["difference"]), (&json!(4), &json!(0.0)), "{text}");
    // A run that was cut off has no header yet.
    let mut cut = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    cut.start_file("_journal/start.json", zip::write::SimpleFileOptions::default())
        .expect("a file in memory");
    context.write("cut.eval", cut.finish().expect("a file in memory").into_inner());
    let output = context.run(&["table", "cut.eval"]);
    assert!(output.status == 1 && output.stderr.contains("so the run has not ended"), "{output}");
}

#[test]
fn wrong_logs_are_named() {
    let context = context();
    let mut stopped = inspect_log(&["C", "I"]);
    stopped["status"] = json!("cancelled");
    context.write("stopped.json", stopped.to_string());
    let mut bare = inspect_log(&["C", "I"]);
    bare["results"]["scores"] = json!([]);
    context.write("bare.json", bare.to_string());
    context.write("log.eval", "PK");
    context.write("other.json", "{}");
    let scores = json!({"schema_version": "0.3.0", "evaluation_id": "e", "model_info": {"id": "org/m"},
        "evaluation_results": [{"evaluation_name": "quiz", "evaluation_result_id": "quiz/acc", "metric_config": {"metric_id": "acc"}, "score_details": {"score": 0.5}}]});
    context.write("eee.json", scores.to_string());
    context.write("eee_samples.jsonl", "{\"evaluation_result_id\": \"sums/acc\", \"sample_id\": \"1\"}\n");
    let mut nameless = scores;
    nameless["model_info"] = json!({});
    context.write("nameless.json", nameless.to_string());
    for (file, part) in [
        ("stopped.json", "the status of the run is `cancelled`"),
        ("bare.json", "the log has no scores"),
        ("log.eval", "not an archive of Inspect"),
        ("other.json", "is not a results file"),
        ("eee.json", "line 1 belongs to no score"),
        ("nameless.json", "`model_info` has no `id`"),
    ] {
        let output = context.run(&["table", file]);
        assert_ne!(output.status, 0, "{output}");
        assert!(output.stderr.contains(part) && output.stderr.contains(&file[..3]), "{part}: {output}");
    }
}

//! `lm-eval compare`.

use lmeval_testkit::TestContext;

use crate::context;

/// Two runs of the built-in tasks: an n-gram model and chance level.
fn runs() -> TestContext {
    let context = context();
    for (model, folder) in [("ngram", "base"), ("uniform", "new")] {
        let output = context.run(&[
            "run",
            "--model",
            model,
            "--tasks",
            "demo_capitals",
            "--output_path",
            folder,
            "--log_samples",
        ]);
        assert_eq!(output.status, 0, "{output}");
    }
    context
}

/// The results file of a run.
fn results(context: &TestContext, folder: &str) -> serde_json::Value {
    let model = fs_err::read_dir(context.work().join(folder)).unwrap().next().unwrap().unwrap().path();
    let mut files = fs_err::read_dir(model).unwrap().map(|entry| entry.unwrap().path());
    let path = files.find(|path| path.extension().is_some_and(|extension| extension == "json")).unwrap();
    serde_json::from_str(&fs_err::read_to_string(path).unwrap()).unwrap()
}

fn scores(context: &TestContext, words: &[&str]) -> serde_json::Value {
    let output = context.run(&[&["compare", "base", "new", "--format", "json"], words].concat());
    assert_eq!(output.status, 0, "{output}");
    serde_json::from_str(&output.stdout).unwrap()
}

#[test]
fn scores_equal_those_of_the_runs() {
    let context = runs();
    let found = scores(&context, &[]);
    let rows = found["comparisons"][0]["scores"].as_array().unwrap();
    assert_eq!(rows.len(), 2, "{found}");
    for (side, folder) in [("base", "base"), ("new", "new")] {
        let results = results(&context, folder);
        for row in rows {
            let key = format!("{},none", row["metric"].as_str().unwrap());
            assert_eq!(row[side], results["results"]["demo_capitals"][&key], "{key}");
        }
    }
    let row = &rows[0];
    assert_eq!(row["n"], 40);
    assert_eq!(row["test"], "McNemar exact");
    assert!(
        row["low"].as_f64() <= row["difference"].as_f64()
            && row["difference"].as_f64() <= row["high"].as_f64()
    );
    assert_eq!(found["base"]["name"], "ngram");
}

#[test]
fn run_compared_with_itself_shows_no_difference() {
    let context = runs();
    let output = context.run(&["compare", "base", "base"]);
    assert_eq!(output.status, 0, "{output}");
    assert!(output.stdout.contains("+0 −0") && output.stdout.contains("+0.0000"), "{output}");
}

#[test]
fn gates_set_the_exit_status() {
    let context = runs();
    let gate = |condition: &str| context.run(&["compare", "base", "new", "--gate", condition]);
    for (condition, status, verdict) in [
        ("demo_capitals:acc >= -0.9", 0, "PASS"),
        ("demo_capitals:acc >= 0.9", 3, "FAIL"),
        ("demo_capitals:acc >= 0.01", 4, "INCONCLUSIVE"),
    ] {
        let output = gate(condition);
        assert_eq!(output.status, status, "{condition}: {output}");
        assert!(output.stdout.contains(verdict), "{output}");
    }
    let output = gate("demo_capitals:bleu >= 0");
    assert_eq!(output.status, 1, "{output}");
    assert!(output.stderr.contains("demo_capitals:acc"), "{output}");
    let output = gate("acc");
    assert!(output.status == 2 && output.stderr.contains("TASK:METRIC >= MARGIN"), "{output}");
    let words = ["compare", "base", "new", "--gate", "demo_capitals:acc >= 0.9", "--format", "junit"];
    let output = context.run(&words);
    assert_eq!(output.status, 3, "{output}");
    assert!(output.stdout.contains("failures=\"1\"") && output.stdout.contains("&gt;= 0.9"), "{output}");
}

#[test]
fn changed_documents_are_listed_with_both_answers() {
    let context = runs();
    let found = scores(&context, &["--metrics", "acc"]);
    let row = &found["comparisons"][0]["scores"][0];
    let changed = row["up"].as_u64().unwrap() + row["down"].as_u64().unwrap();
    let output =
        context.run(&["compare", "base", "new", "--metrics", "acc", "--flips", "all", "--format", "jsonl"]);
    assert_eq!(output.status, 0, "{output}");
    let lines: Vec<serde_json::Value> =
        output.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len() as u64, changed);
    for line in &lines {
        assert_ne!(line["base"], line["new"]);
        assert!(line["doc"].is_object(), "{line}");
        assert!(line["base_resps"].is_array() && line["new_resps"].is_array(), "{line}");
    }
    let output = context.run(&["compare", "base", "new", "--metrics", "acc", "--flips", "1"]);
    assert!(output.stdout.contains("base answer:") && output.stdout.contains("prompt:"), "{output}");
    let output = context.run(&["compare", "base", "new", "--format", "jsonl"]);
    assert!(output.status == 1 && output.stderr.contains("--flips"), "{output}");
}

#[test]
fn different_tasks_and_missing_samples_are_errors() {
    let context = runs();
    let output = context.run(&[
        "run",
        "--model",
        "uniform",
        "--tasks",
        "demo_facts",
        "--output_path",
        "other",
        "--log_samples",
    ]);
    assert_eq!(output.status, 0, "{output}");
    let output = context.run(&["compare", "base", "other"]);
    assert_eq!(output.status, 1, "{output}");
    assert!(output.stderr.contains("no task in common") && output.stderr.contains("demo_facts"), "{output}");
    let output =
        context.run(&["run", "--model", "uniform", "--tasks", "demo_capitals", "--output_path", "bare"]);
    assert_eq!(output.status, 0, "{output}");
    let output = context.run(&["compare", "base", "bare"]);
    assert!(output.status == 1 && output.stderr.contains("--log_samples"), "{output}");
    let output = context.run(&["compare", "base", "nowhere"]);
    assert!(output.status == 1 && output.stderr.contains("`nowhere` does not exist"), "{output}");
}

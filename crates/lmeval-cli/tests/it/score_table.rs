//! `lm-eval table`, and `lm-eval run --format csv`.

use lmeval_testkit::TestContext;
use serde_json::{Value, json};

use crate::context;

/// Writes a results file.
fn write(context: &TestContext, path: &str, results: &Value) {
    context.write(path, results.to_string());
}

/// The results of a model: scores of tasks with their standard errors.
fn results(model: &str, date: f64, scores: &[(&str, f64, f64)]) -> Value {
    let mut entries = serde_json::Map::new();
    let mut of_tasks = [serde_json::Map::new(), serde_json::Map::new(), serde_json::Map::new()];
    for (task, value, stderr) in scores {
        entries.insert(
            (*task).to_owned(),
            json!({"alias": task, "acc,none": value, "acc_stderr,none": stderr, "sample_len": 40}),
        );
        of_tasks[0].insert((*task).to_owned(), json!(1.0));
        of_tasks[1].insert((*task).to_owned(), json!(0));
        of_tasks[2].insert((*task).to_owned(), json!({"acc": true}));
    }
    let [versions, shots, directions] = of_tasks;
    json!({
        "results": entries, "versions": versions, "n-shot": shots, "higher_is_better": directions,
        "config": {"model": "hf", "model_args": {"pretrained": model}, "limit": null},
        "date": date, "model_name": model,
    })
}

fn two_models() -> TestContext {
    let context = context();
    write(
        &context,
        "out/a/results_2026-11-15T02-46-50.1.json",
        &results("a", 1.0, &[("arc", 0.5, 0.05), ("quiz_1", 0.25, 0.01)]),
    );
    write(
        &context,
        "out/b/results_2026-11-15T02-46-51.1.json",
        &results("org/b", 2.0, &[("arc", 0.75, 0.04)]),
    );
    context
}

fn output(context: &TestContext, words: &[&str]) -> String {
    let output = context.run(&[&["table"], words].concat());
    assert_eq!(output.status, 0, "{output}");
    output.stdout
}

fn fails(context: &TestContext, words: &[&str], parts: &[&str]) {
    let output = context.run(&[&["table"], words].concat());
    assert_eq!(output.status, 1, "{output}");
    for part in parts {
        assert!(output.stderr.contains(part), "{part}: {output}");
    }
}

#[test]
fn models_are_columns_or_rows() {
    let context = two_models();
    let by_task = "\
| Task |Filter|Metric|   |       a       |     org/b     |
|------|------|------|---|--------------:|--------------:|
|arc   |none  |acc   |↑  |0.5000 ± 0.0500|0.7500 ± 0.0400|
|quiz_1|none  |acc   |↑  |0.2500 ± 0.0100|              —|
";
    assert_eq!(output(&context, &["out"]), by_task);
    assert_eq!(output(&context, &["out/a", "out/b", "out", "--format", "markdown"]), by_task);
    assert_eq!(
        output(&context, &["out", "--by", "model"]),
        "|Model|    arc acc    |  quiz_1 acc   |\n|-----|--------------:|--------------:|\n\
         |a    |0.5000 ± 0.0500|0.2500 ± 0.0100|\n|org/b|0.7500 ± 0.0400|              —|\n"
    );
}

#[test]
fn machine_formats_have_all_digits_and_visible_gaps() {
    let context = two_models();
    assert_eq!(
        output(&context, &["out", "--format", "csv"]),
        "task,filter,metric,higher_is_better,a,a stderr,org/b,org/b stderr\narc,none,acc,true,0.5,0.05,0.75,0.04\nquiz_1,none,acc,true,0.25,0.01,,\n"
    );
    assert_eq!(
        output(&context, &["out", "--format", "csv", "--by", "model"]),
        "model,arc acc,arc acc stderr,quiz_1 acc,quiz_1 acc stderr\na,0.5,0.05,0.25,0.01\norg/b,0.75,0.04,,\n"
    );
    let value: Value = serde_json::from_str(&output(&context, &["out", "--format", "json"])).unwrap();
    assert_eq!(value["models"], json!(["a", "org/b"]));
    assert_eq!(value["scores"][0]["models"]["org/b"]["value"], 0.75);
    assert_eq!(value["scores"][1]["models"]["org/b"], Value::Null);
    assert_eq!(value["scores"][1]["models"]["a"]["run"], "out/a/results_2026-11-15T02-46-50.1.json");
    assert_eq!(
        output(&context, &["out", "--format", "latex"]),
        "% \\usepackage{booktabs}\n\\begin{tabular}{llllrr}\n\\toprule\nTask & Filter & Metric &  & a & org/b \\\\\n\\midrule\n\
         arc & none & acc & $\\uparrow$ & $0.5000 \\pm 0.0500$ & $0.7500 \\pm 0.0400$ \\\\\n\
         quiz\\_1 & none & acc & $\\uparrow$ & $0.2500 \\pm 0.0100$ & -- \\\\\n\\bottomrule\n\\end{tabular}\n"
    );
}

#[test]
fn tasks_and_metrics_are_chosen() {
    let context = two_models();
    assert_eq!(output(&context, &["out", "--tasks", "quiz*", "--format", "csv"]).lines().count(), 2);
    fails(&context, &["out", "--tasks", "arcs"], &["no task `arcs`", "Did you mean `arc`", "`quiz_1`"]);
    fails(&context, &["out", "--metric", "ac"], &["Did you mean `acc`", "filters: `none`"]);
    fails(&context, &["out", "--filter", "strict"], &["filters: `none`"]);
}

#[test]
fn newest_of_several_runs_is_used_if_their_settings_agree() {
    let context = two_models();
    // An earlier run in a file with a later name: the date inside decides.
    write(
        &context,
        "out/a/results_2026-11-15T09-00-00.1.json",
        &results("a", 0.5, &[("arc", 0.1, 0.01), ("wino", 0.6, 0.02)]),
    );
    let shown = context.run(&["table", "out", "--format", "csv"]);
    assert_eq!(shown.status, 0, "{shown}");
    assert!(
        shown.stdout.contains("arc,none,acc,true,0.5,0.05,")
            && shown.stdout.contains("wino,none,acc,true,0.6,"),
        "{shown}"
    );
    assert!(
        shown.stderr.contains(
            "`a`: `arc` is in several runs; the newest is used: out/a/results_2026-11-15T02-46-50.1.json"
        ),
        "{shown}"
    );
    let mut other = results("a", 3.0, &[("arc", 0.9, 0.01)]);
    other["n-shot"]["arc"] = json!(5);
    write(&context, "out/a/results_2026-11-16T00-00-00.1.json", &other);
    fails(
        &context,
        &["out"],
        &[
            "`a` has runs of `arc` with different settings (n-shot 5 and 0)",
            "results_2026-11-16T00",
            "results_2026-11-15T02",
            "--duplicates separate",
        ],
    );
    let shown = context.run(&["table", "out", "--duplicates", "newest", "--format", "csv", "--tasks", "arc"]);
    assert!(shown.stdout.contains("arc,none,acc,true,0.9,0.01,0.75,0.04"), "{shown}");
    assert!(shown.stderr.contains("The n-shot of `arc` differs: 5 for `a`, 0 for `org/b`"), "{shown}");
    let separate =
        output(&context, &["out", "--duplicates", "separate", "--format", "csv", "--tasks", "arc"]);
    assert!(
        separate.starts_with("task,filter,metric,higher_is_better,a,a stderr,a (2026-11-15T09-00-00.1),"),
        "{separate}"
    );
}

#[test]
fn other_files_are_errors_that_name_them() {
    let context = two_models();
    context.write("samples_x_2026-11-15T02-46-50.1.jsonl", "{}\n");
    fails(&context, &["samples_x_2026-11-15T02-46-50.1.jsonl"], &["has samples, but no scores"]);
    context.write("half.json", "{\"results\": {");
    fails(&context, &["half.json"], &["`half.json` is not a results file"]);
    fs_err::create_dir(context.work().join("empty")).unwrap();
    fails(&context, &["out", "empty"], &["There are no results in `empty`"]);
    fails(&context, &["nowhere"], &["`nowhere` does not exist"]);
    context.write("none.json", "{\"results\": {}}");
    fails(&context, &["none.json"], &["The runs have no scores"]);
}

#[test]
fn files_of_old_releases_and_odd_scores_are_shown() {
    let context = context();
    let old = json!({
        "results": {"arc": {"acc,none": "NaN", "acc_stderr,none": "N/A", "alias": "arc"}, "empty_group": {" ": " ", "alias": "g"}},
        "config": {"model_args": "pretrained=org/old,dtype=float"},
    });
    context.write("old.json", old.to_string().replace("\"NaN\"", "NaN"));
    assert_eq!(
        output(&context, &["old.json"]),
        "|Task|Filter|Metric|   |org/old|\n|----|------|------|---|------:|\n|arc |none  |acc   |   |    nan|\n"
    );
}

#[test]
fn groups_precede_their_tasks() {
    let context = context();
    for (model, folder) in [("ngram", "base"), ("uniform", "new")] {
        let words =
            ["run", "--model", model, "--tasks", "demo", "--limit", "4", "--output_path", folder, "-q"];
        assert_eq!(context.run(&words).status, 0);
    }
    let shown = output(&context, &["base", "new", "--metric", "acc"]);
    let names: Vec<&str> =
        shown.lines().skip(2).map(|line| line[1..].split('|').next().unwrap().trim_end()).collect();
    assert_eq!(
        names,
        [
            "demo",
            " - demo_last_word",
            " - demo_choice",
            "  - demo_capitals",
            "  - demo_facts",
            "  - demo_sentiment"
        ]
    );
}

#[test]
fn runs_print_comma_separated_values() {
    let context = context();
    let words = ["run", "--model", "ngram", "--tasks", "demo", "--limit", "4", "-q"];
    let markdown = context.run(&words);
    let csv = context.run(&[&words[..], &["--format", "csv"]].concat());
    assert_eq!(csv.status, 0, "{csv}");
    let mut lines = csv.stdout.lines();
    assert_eq!(lines.next(), Some("task,version,filter,n-shot,metric,higher_is_better,value,stderr,n"));
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    assert!(rows.iter().all(|row| row.len() == 9), "{csv}");
    let acc = rows.iter().find(|row| row[0] == "demo_choice::demo_capitals" && row[4] == "acc").unwrap();
    assert_eq!((acc[1], acc[2], acc[3], acc[5], acc[8]), ("1.0", "none", "0", "true", "4"));
    assert!(rows.iter().any(|row| row[0] == "demo"), "{csv}");
    for format in ["table", "markdown"] {
        assert_eq!(context.run(&[&words[..], &["--format", format]].concat()).stdout, markdown.stdout);
    }
}

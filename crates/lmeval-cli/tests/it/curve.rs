//! `lm-eval curve`: curves of finished runs and of published figures.

use serde_json::{Value, json};

use crate::context;

#[test]
fn published_figures_are_drawn_without_samples() {
    let context = context();
    let line = |step: u64, piqa: f64, sciq: f64| {
        json!({"global_step": step, "piqa/acc": piqa, "piqa/documents": 1838, "sciq/acc": sciq, "sciq/documents": 1000}).to_string()
    };
    // Lines may come in any order.
    let lines = [line(143_000, 0.6273, 0.741), line(0, 0.5245, 0.18), line(1000, 0.5555, 0.427)].join("\n");
    context.write("pythia.jsonl", lines);
    let output = context.run(&[
        "curve",
        "pythia.jsonl",
        "--chance",
        "piqa=0.5",
        "--chance",
        "sciq:acc=0.25",
        "-o",
        "drawn",
    ]);
    assert_eq!(output.status, 0, "{output}");
    assert!(output.stderr.contains("independent scores"), "{output}");
    let rows: Vec<&str> = output.stdout.lines().collect();
    assert!(
        rows[2].starts_with("|piqa |acc ↑ |▁▃█") && rows[2].contains("143000") && rows[2].contains(" *|"),
        "{output}"
    );
    let text = fs_err::read_to_string(context.work().join("drawn/curve.steps.json")).unwrap();
    let curve: Value = serde_json::from_str(&text).unwrap();
    let piqa = &curve["scores"][0];
    assert_eq!((piqa["task"].as_str(), piqa["best"].as_u64()), (Some("piqa"), Some(2)));
    assert_eq!(piqa["points"][1]["previous"]["is_paired"], false);
    // The lines that are written can be drawn again.
    let again = context.run(&["curve", "drawn/curve.jsonl", "--chance", "piqa=0.5", "--chance", "sciq=0.25"]);
    assert_eq!(again.stdout, output.stdout);
    let svg = context.run(&["curve", "pythia.jsonl", "--format", "svg", "--tasks", "sciq"]);
    assert!(svg.stdout.starts_with("<svg") && !svg.stdout.contains("piqa"), "{svg}");
    let csv = context.run(&["curve", "pythia.jsonl", "--format", "csv"]);
    assert_eq!(csv.stdout.lines().count(), 7, "{csv}");
}

#[test]
fn runs_without_a_step_and_wrong_lines_are_named() {
    let context = context();
    let run = context.run(&[
        "run",
        "--model",
        "uniform",
        "--tasks",
        "demo_capitals",
        "--limit",
        "4",
        "-o",
        "out",
        "--log_samples",
    ]);
    assert_eq!(run.status, 0, "{run}");
    let unknown = context.run(&["curve", "out"]);
    assert_eq!(unknown.status, 1, "{unknown}");
    assert!(
        unknown.stderr.contains("The step of `out/uniform/results_")
            && unknown.stderr.contains("--step-pattern"),
        "{unknown}"
    );
    let patterned = context.run(&["curve", "out", "--step-pattern", r"-(\d\d)T"]);
    assert_eq!(patterned.status, 1, "the folder has no time: {patterned}");
    fs_err::rename(context.work().join("out"), context.work().join("step_3")).unwrap();
    let found = context.run(&["curve", "step_3", "--format", "jsonl"]);
    assert_eq!(found.status, 0, "{found}");
    assert!(found.stdout.starts_with("{\"global_step\":3,"), "{found}");
    context.write("bad.jsonl", "{\"global_step\": 1}\n{\"global_step\": \"x\"}\n");
    let bad = context.run(&["curve", "bad.jsonl"]);
    assert!(bad.stderr.contains("`bad.jsonl`, line 2: it has no `global_step`"), "{bad}");
    let none = context.run(&["curve", "step_3", "--metrics", "bleu"]);
    assert!(none.stderr.contains("no scores to draw"), "{none}");
    let task = context.run(&["curve", "step_3", "--tasks", "demo_capitols"]);
    assert!(task.stderr.contains("demo_capitals"), "{task}");
    let chance = context.run(&["curve", "step_3", "--chance", "x"]);
    assert_eq!(chance.status, 2, "{chance}");
}

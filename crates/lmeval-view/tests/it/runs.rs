//! Lists of runs and the page of a run.

use crate::{Fixture, STAMP, four, write_run};
use serde_json::json;

#[test]
fn lists_runs_with_scores_and_intervals() {
    let fixture = Fixture::new(|folder| write_run(folder, "m", &four()));
    let list = fixture.get("/api/runs");
    let run = &list["runs"][0];
    assert_eq!(run["name"], "m");
    assert_eq!(run["kind"], "results");
    assert_eq!(run["documents"], 4.0);
    assert_eq!(run["duration"], 12.5);
    assert_eq!(run["audit"], json!({ "empty": 1.0 }));
    assert_eq!(run["has_samples"], true);
    assert_eq!(run["path"], format!("m/results_{STAMP}.json"));
    let score = &run["tasks"][0]["main"];
    assert_eq!((score["metric"].as_str(), score["value"].as_f64()), (Some("exact_match"), Some(0.5)));
    assert!(score["low"].as_f64().unwrap() < 0.5 && score["high"].as_f64().unwrap() > 0.5);
    assert_eq!(list["live"], false);
}

#[test]
fn shows_a_run_without_secrets() {
    let fixture = Fixture::new(|folder| write_run(folder, "m", &four()));
    let detail = fixture.get(&format!("/api/run?run={}", fixture.run()));
    let text = detail.to_string();
    assert!(!text.contains("sk-very-secret"), "{text}");
    assert!(text.contains("***"), "{text}");
    let task = &detail["tasks"][0];
    assert_eq!(task["config"]["num_fewshot"], 1);
    assert_eq!(task["audit"][0]["counts"], json!({ "empty": 1.0 }));
    assert_eq!(task["scores"].as_array().unwrap().len(), 1);
}

#[test]
fn nests_tasks_below_their_groups() {
    let fixture = Fixture::new(|folder| {
        let results = json!({
            "results": {
                "a": { "alias": " - a", "acc,none": 1.0, "acc_stderr,none": "N/A" },
                "b": { "alias": " - b", "acc,none": 0.0 },
                "alone": { "alias": "alone", "acc,none": 0.25 },
                "both": { "alias": "both", "acc,none": 0.5 },
            },
            "groups": { "both": { "acc,none": 0.5 } },
            "group_subtasks": { "both": ["a", "b"] },
        });
        fs_err::write(folder.join(format!("results_{STAMP}.json")), results.to_string()).unwrap();
    });
    let list = fixture.get("/api/runs");
    let tasks = list["runs"][0]["tasks"].as_array().unwrap();
    let order: Vec<(&str, u64, bool)> = tasks
        .iter()
        .map(|task| {
            let (name, depth) = (task["task"].as_str().unwrap(), task["depth"].as_u64().unwrap());
            (name, depth, task["is_group"].as_bool().unwrap())
        })
        .collect();
    assert_eq!(order, [("both", 0, true), ("a", 1, false), ("b", 1, false), ("alone", 0, false)]);
    assert_eq!(tasks[1]["alias"], "a");
    assert_eq!(tasks[1]["main"]["stderr"], serde_json::Value::Null);
}

#[test]
fn lists_samples_without_results_and_files_that_are_broken() {
    let fixture = Fixture::new(|folder| {
        fs_err::write(folder.join(format!("samples_quiz_{STAMP}.jsonl")), four()).unwrap();
        fs_err::write(folder.join("results_2026-11-15T02-46-51.json"), "{\"results\": {").unwrap();
        fs_err::write(folder.join("results_2026-11-15T02-46-52.json"), "[]").unwrap();
        fs_err::write(folder.join("notes.json"), "{}").unwrap();
    });
    let list = fixture.get("/api/runs");
    assert_eq!(list["runs"].as_array().unwrap().len(), 1, "{list}");
    assert_eq!(list["runs"][0]["kind"], "samples");
    assert_eq!(list["problems"].as_array().unwrap().len(), 2, "{list}");
    let page = fixture.samples("");
    assert_eq!(page["total"], 4);
}

#[test]
fn a_new_run_appears_without_a_restart() {
    let fixture = Fixture::new(|folder| write_run(folder, "m", &four()));
    assert_eq!(fixture.get("/api/runs")["runs"].as_array().unwrap().len(), 1);
    write_run(fixture.path(), "n", &four());
    assert_eq!(fixture.get("/api/runs")["runs"].as_array().unwrap().len(), 2);
}

#[test]
fn unknown_things_are_not_found() {
    let fixture = Fixture::new(|folder| write_run(folder, "m", &four()));
    let run = fixture.run();
    for (path, status) in [
        ("/api/run?run=nothing".to_owned(), 404),
        ("/api/run".to_owned(), 400),
        ("/api/other".to_owned(), 404),
        ("/elsewhere".to_owned(), 404),
        (format!("/api/samples?run={run}&task=other"), 404),
        (format!("/api/samples?run={run}&task=quiz&filter=other"), 400),
        (format!("/api/samples?run={run}&task=quiz&outcome=good"), 400),
        (format!("/api/samples?run={run}&task=quiz&flag=good"), 400),
        (format!("/api/samples?run={run}&task=quiz&text=(&regex=1"), 400),
        (format!("/api/samples?run={run}&task=quiz&text=x&in=elsewhere"), 400),
        (format!("/api/samples?run={run}&task=quiz&where=acc+=="), 400),
        (format!("/api/sample?run={run}&task=quiz&row=99"), 404),
        (format!("/api/sample?run={run}&task=quiz&row=x"), 400),
        (format!("/api/task?run={run}&task=quiz&filter=other"), 404),
        (format!("/api/answers?run={run}"), 400),
        ("/api/live".to_owned(), 404),
        ("/api/runs?x=%zz".to_owned(), 400),
    ] {
        let (found, error) = fixture.refused(&path);
        assert_eq!(found, status, "{path}: {error}");
        assert!(!error.is_empty());
    }
}

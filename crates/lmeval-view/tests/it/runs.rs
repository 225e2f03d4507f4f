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
fn corpus_metrics_have_no_intervals_of_shares() {
    let fixture = Fixture::new(|folder| {
        let entry = |value: f64| json!({ "acc,none": value, "acc_stderr,none": 0.0, "sample_len": 40 });
        let corpus = |metric: &str, value: f64| json!({ format!("{metric},none"): value, format!("{metric}_stderr,none"): 0.0, "sample_len": 40 });
        let results =
            json!({ "results": { "a": entry(1.0), "b": corpus("mcc", 1.0), "c": corpus("bleu", 0.0) } });
        fs_err::write(folder.join(format!("results_{STAMP}.json")), results.to_string()).unwrap();
    });
    let list = fixture.get("/api/runs");
    let low = |task: usize| list["runs"][0]["tasks"][task]["main"]["low"].as_f64().unwrap();
    assert!(low(0) < 0.95, "{list}");
    assert_eq!((low(1), low(2)), (1.0, 0.0), "{list}");
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
            "n-samples": { "a": { "original": 9, "effective": 2, "failed": 7 }, "b": { "original": 9, "effective": 9 } },
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
    let failed: Vec<f64> = tasks.iter().map(|task| task["failed"].as_f64().unwrap()).collect();
    assert_eq!(failed, [7.0, 7.0, 0.0, 0.0]);
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

#[test]
fn changed_files_are_named() {
    use lmeval_pycompat::{Dict, Value, json};
    use lmeval_scoring::results::{CHECKSUMS, LinesChecksum, checksums};

    let fixture = Fixture::new(|folder| {
        write_run(folder, "m", &four());
        let path = folder.join("m").join(format!("results_{STAMP}.json"));
        let Ok(Value::Dict(results)) = json::loads(&fs_err::read_to_string(&path).unwrap()) else {
            panic!("results are an object")
        };
        let mut lines = LinesChecksum::default();
        four().lines().for_each(|line| lines.add(line.as_bytes()));
        let samples: Dict = [(Value::str("quiz"), lines.to_value())].into_iter().collect();
        let mut sealed = (*results).clone();
        sealed.insert(CHECKSUMS, checksums(&results, samples));
        fs_err::write(path, json::dumps(&Value::from(sealed), &json::Options::default()).unwrap()).unwrap();
    });
    let id = fixture.run();
    let run = || fixture.get(&format!("/api/run?run={id}"));
    let page = || fixture.samples("");
    assert!(run()["changed"].is_null() && page()["index"]["changed"].is_null());
    let samples = crate::samples_path(fixture.path(), "m", "quiz");
    fs_err::write(&samples, four().split_inclusive('\n').skip(1).collect::<String>()).unwrap();
    let changed = page()["index"]["changed"].as_str().unwrap().to_owned();
    assert!(changed.contains("it has 3 samples instead of 4"), "{changed}");
    let results = samples.with_file_name(format!("results_{STAMP}.json"));
    let text = fs_err::read_to_string(&results).unwrap();
    for (from, to, section) in [
        ("\"exact_match,none\": 0.5", "\"exact_match,none\": 0.75", "`results`"),
        ("take_first", "take_last", "`configs`"),
    ] {
        assert!(text.contains(from), "{text}");
        fs_err::write(&results, text.replace(from, to)).unwrap();
        let changed = run()["changed"].as_str().unwrap().to_owned();
        assert!(changed.contains(section), "{changed}");
    }
}

//! Curves of training runs.

use std::path::Path;

use serde_json::{Value as Json, json};

use crate::{Fixture, four, samples_path, write_run};

/// Writes a curve of two steps, the second of which is the run of `model`.
fn write_curve(folder: &Path, model: &str, is_live: bool) {
    write_run(folder, model, &four());
    let samples = samples_path(folder, model, "quiz");
    let results = samples
        .with_file_name(samples.file_name().unwrap().to_str().unwrap().replace("samples_quiz", "results"));
    let results = results.with_extension("json");
    assert!(results.is_file());
    let change = json!({"difference": 0.25, "interval": [0.1, 0.4], "p_value": 0.001, "adjusted": 0.0020000001, "is_paired": true});
    let point = |value: f64, change: Json| json!({"value": value, "stderr": 0.1, "interval": [value - 0.2, value + 0.2], "previous": change, "best": null});
    let curve = json!({
        "name": "<b>run</b>",
        "steps": [
            {"step": 100, "checkpoint": "checkpoint-100", "results": null, "failed_requests": 0},
            {"step": 200, "checkpoint": "checkpoint-200", "results": results.strip_prefix(folder).unwrap(), "failed_requests": 2},
        ],
        "scores": [{
            "task": "quiz", "metric": "acc", "filter": "none", "is_group": false, "is_main": true, "higher_is_better": true,
            "documents": 4.0, "chance": 0.5, "detectable": 0.3, "best": 1, "points": [point(0.25, Json::Null), point(0.5, change)],
        }],
        "notes": ["a note"],
        "waiting": [{"checkpoint": "checkpoint-300", "step": 300, "reason": "it has no weights yet"}],
        "is_live": is_live,
    });
    fs_err::write(folder.join("curve.steps.json"), curve.to_string()).unwrap();
}

#[test]
fn a_curve_has_scores_differences_and_links_to_runs() {
    let fixture = Fixture::new(|folder| write_curve(folder, "m", true));
    let list = fixture.get("/api/runs");
    let head = &list["curves"][0];
    assert_eq!(
        (head["name"].as_str(), head["count"].as_u64(), head["live"].as_bool()),
        (Some("<b>run</b>"), Some(2), Some(true))
    );
    assert_eq!(list["runs"].as_array().unwrap().len(), 1, "{list}");
    let id = head["id"].as_str().unwrap();
    let page = fixture.get(&format!("/api/curve?curve={id}"));
    assert_eq!(page["steps"][0]["run"], Json::Null);
    assert_eq!(page["steps"][1]["run"], list["runs"][0]["id"]);
    let score = &page["scores"][0];
    assert_eq!((&score["values"], &score["low"]), (&json!([0.25, 0.5]), &json!([0.05, 0.3])));
    assert_eq!(
        (&score["from_previous"], &score["previous_p"]),
        (&json!([null, 0.25]), &json!([null, 0.002]))
    );
    assert_eq!((&score["at_chance"], &score["best"]), (&json!(true), &json!(1)));
    assert_eq!(page["waiting"][0]["reason"], "it has no weights yet");
    let drawing = fixture.get(&format!("/api/drawing?curve={id}"));
    let svg = drawing["svg"].as_str().unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("&lt;b&gt;run"), "{svg}");
    // A watcher adds a step: the same address has it.
    write_curve(fixture.path(), "m", false);
    assert_eq!(fixture.get(&format!("/api/curve?curve={id}"))["live"], false);
}

#[test]
fn unknown_and_broken_curves_are_errors() {
    let fixture = Fixture::new(|folder| {
        write_curve(folder, "m", false);
        fs_err::write(folder.join("broken.steps.json"), "{\"name\": ").unwrap();
    });
    let list = fixture.get("/api/runs");
    assert_eq!(list["curves"].as_array().unwrap().len(), 1);
    let problem = list["problems"][0]["error"].as_str().unwrap();
    assert!(problem.contains("is not a curve"), "{problem}");
    assert_eq!(fixture.refused("/api/curve?curve=0000000000000000").0, 404);
    assert_eq!(fixture.refused("/api/curve").0, 400);
}

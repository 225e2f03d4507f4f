//! Pages of samples and single samples.

use std::fmt::Write as _;
use std::io::Write as _;

use lmeval_analysis::Error;
use lmeval_analysis::read::Run;
use lmeval_analysis::samples::{Outcome, Query, SampleReader, visit};
use serde_json::{Value as Json, json};

use crate::{Fixture, STAMP, chosen, four, generated, lines, samples_path, write_run};

fn fixture() -> Fixture {
    Fixture::new(|folder| write_run(folder, "m", &four()))
}

fn ids(page: &Json) -> Vec<i64> {
    page["rows"].as_array().unwrap().iter().map(|row| row["doc_id"].as_i64().unwrap()).collect()
}

#[test]
fn shows_rows_with_values_and_flags() {
    let page = fixture().samples("");
    assert_eq!((page["total"].as_u64(), page["matched"].as_u64()), (Some(4), Some(4)));
    assert_eq!(page["columns"], json!(["exact_match"]));
    let rows = page["rows"].as_array().unwrap();
    let outcomes: Vec<&str> = rows.iter().map(|row| row["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["right", "wrong", "partial", "unscored"]);
    assert_eq!(rows[3]["values"], json!(["NaN"]));
    assert_eq!(rows[3]["flags"], json!(["empty", "nan"]));
    assert_eq!(rows[1]["answer"], json!({ "text": "Three <b>", "length": 9 }));
    assert_eq!(rows[0]["target"]["text"], "one");
}

#[test]
fn filters_sorts_and_pages() {
    let fixture = fixture();
    assert_eq!(ids(&fixture.samples("&outcome=wrong")), [1]);
    assert_eq!(ids(&fixture.samples("&outcome=unscored&metric=exact_match")), [3]);
    assert_eq!(ids(&fixture.samples("&flag=empty")), [3]);
    assert_eq!(ids(&fixture.samples("&sort=-exact_match")), [0, 2, 1, 3]);
    assert_eq!(ids(&fixture.samples("&sort=exact_match")), [1, 2, 0, 3]);
    assert_eq!(ids(&fixture.samples("&sort=-doc_id")), [3, 2, 1, 0]);
    assert_eq!(ids(&fixture.samples("&sort=answer_length")), [3, 0, 2, 1]);
    let page = fixture.samples("&offset=1&limit=2");
    assert_eq!(ids(&page), [1, 2]);
    assert_eq!(page["matched"], 4);
    assert_eq!(ids(&fixture.samples("&offset=100")), [0i64; 0]);
}

/// The documents that `lm-eval samples` prints for an outcome.
fn printed(fixture: &Fixture, filter: &str, metric: Option<&str>, outcome: Outcome) -> Vec<i64> {
    let run = Run::open(fixture.path()).unwrap();
    let mut readers = [SampleReader::open(&run, &run.samples[0], metric).unwrap()];
    let query = Query { filter: Some(filter.to_owned()), outcome: Some(outcome), ..Query::default() };
    let mut ids = Vec::new();
    visit(&mut readers, &query, None, |_, sample| {
        ids.extend(sample.doc_id());
        Ok::<(), Error>(())
    })
    .unwrap();
    ids
}

#[test]
fn outcomes_are_those_of_the_command_line() {
    let scores =
        ["1", "0", "1.0", "0.0", "0.5", "-1", "NaN", "Infinity", "true", "false", "null", "\"x\"", ""];
    // Less `loss` is better by the results, less `ter` by the registry. Old files do not list their metrics.
    let listed = [
        r#""metrics": ["loss", "exact_match"], "#,
        r#""metrics": ["ter", "f1", "exact_match"], "#,
        r#""metrics": ["loss", "ter"], "#,
        "",
    ];
    let mut text = String::new();
    for (id, (first, second)) in
        scores.iter().flat_map(|first| scores.map(|second| (*first, second))).enumerate()
    {
        let value = |name: &str, value: &str| match value {
            "" => String::new(),
            value => format!(r#""{name}": {value}, "#),
        };
        let names = listed[id % listed.len()];
        let values =
            [value("loss", first), value("f1", first), value("exact_match", second), value("ter", second)];
        let filter = if id % 3 == 0 { "strict" } else { "none" };
        let _ = writeln!(text, r#"{{{names}{}"filter": "{filter}", "doc_id": {id}}}"#, values.concat());
    }
    let fixture = Fixture::new(|folder| {
        write_run(folder, "m", &text);
        let path = folder.join("m").join(format!("results_{STAMP}.json"));
        let results = fs_err::read_to_string(&path).unwrap();
        let (from, to) = (r#"{"exact_match":true}"#, r#"{"exact_match":true,"loss":false}"#);
        assert!(results.contains(from));
        fs_err::write(path, results.replace(from, to)).unwrap();
    });
    let mut found = 0;
    for (filter, metric) in ["none", "strict"].into_iter().flat_map(|filter| {
        [None, Some("exact_match"), Some("loss"), Some("f1")].map(|metric| (filter, metric))
    }) {
        for outcome in Outcome::ALL {
            let chosen = metric.map(|metric| format!("&metric={metric}")).unwrap_or_default();
            let name = outcome.name();
            let page = fixture.samples(&format!("&filter={filter}&outcome={name}&limit=1000{chosen}"));
            let shown = ids(&page);
            assert_eq!(shown, printed(&fixture, filter, metric, outcome), "{filter} {metric:?} {name}");
            assert!(page["rows"].as_array().unwrap().iter().all(|row| row["outcome"] == name));
            found += shown.len();
        }
    }
    assert_eq!(found, 4 * scores.len() * scores.len());
}

#[test]
fn searches_whole_texts() {
    let fixture = fixture();
    let page = fixture.samples("&text=three");
    assert_eq!(ids(&page), [1, 2]);
    let hit = &page["rows"][0]["hit"];
    assert_eq!((hit["where"].as_str(), hit["start"].as_u64()), (Some("answer"), Some(0)));
    assert_eq!(ids(&fixture.samples("&text=three&case=1")), [2]);
    assert_eq!(ids(&fixture.samples("&text=what+is+%5B12%5D&regex=1&in=prompt")), [0, 1]);
    assert_eq!(ids(&fixture.samples("&text=what+is+%5B12%5D")), [0i64; 0]);
    assert_eq!(ids(&fixture.samples("&text=odd&in=doc")), [1, 3]);
    assert_eq!(ids(&fixture.samples("&text=max_gen_toks")), [0i64; 0]);
    assert_eq!(ids(&fixture.samples("&text=is&outcome=wrong&sort=-doc_id")), [1]);
}

#[test]
fn evaluates_expressions() {
    let fixture = fixture();
    assert_eq!(ids(&fixture.samples("&where=exact_match+%3E+0")), [0, 2]);
    assert_eq!(ids(&fixture.samples("&where=doc.subject+%3D%3D+%22odd%22&sort=-doc_id")), [3, 1]);
}

#[test]
fn shows_one_sample_in_full() {
    let fixture = fixture();
    let run = fixture.run();
    let sample = fixture.get(&format!("/api/sample?run={run}&task=quiz&row=1"));
    assert_eq!((sample["previous"].as_u64(), sample["next"].as_u64()), (Some(0), Some(2)));
    assert_eq!((sample["position"].as_u64(), sample["matched"].as_u64()), (Some(1), Some(4)));
    assert_eq!(
        sample["prompt"]["parts"],
        json!([{ "start": 0, "kind": "example" }, { "start": 6, "kind": "question" }])
    );
    assert_eq!(sample["generations"][0]["repeats"][0]["text"], "Three <b>");
    assert_eq!(sample["generations"][0]["settings"]["until"], json!(["\n"]));
    assert_eq!(sample["steps"][0]["name"], "take_first");
    assert_eq!(sample["steps"][1]["output"][0]["text"], "Three <b>");
    let mut several = generated(0, "Q", "x", "y", 0.0);
    several["filtered_resps"] = json!([["first", "second"]]);
    let repeats = Fixture::new(|folder| write_run(folder, "m", &lines(&[several])));
    let shown = repeats.get(&format!("/api/sample?run={}&task=quiz&row=0", repeats.run()));
    let output: Vec<&str> = shown["steps"][1]["output"]
        .as_array()
        .unwrap()
        .iter()
        .map(|text| text["text"].as_str().unwrap())
        .collect();
    assert_eq!(output, ["first", "second"]);
    assert_eq!(sample["values"][0]["value"], 0.0);
    assert_eq!(sample["choices"], json!([]));
    let raw: Json = serde_json::from_str(sample["raw"]["text"].as_str().unwrap()).unwrap();
    assert_eq!(raw["doc_id"], 1);
    let wrong = fixture.get(&format!("/api/sample?run={run}&task=quiz&row=1&outcome=wrong"));
    assert_eq!((wrong["previous"].clone(), wrong["next"].clone()), (Json::Null, Json::Null));
}

#[test]
fn shows_choices_with_probabilities() {
    let samples = [chosen(0, [-1.0, -2.0, -3.0], 1, 0.0), chosen(1, [-3.0, -1.0, -9.0], 1, 1.0)];
    let fixture = Fixture::new(|folder| write_run(folder, "m", &lines(&samples)));
    let page = fixture.samples("");
    assert_eq!(page["rows"][0]["answer"]["text"], "red");
    let sample = fixture.get(&format!("/api/sample?run={}&task=quiz&row=0", fixture.run()));
    let choices = sample["choices"].as_array().unwrap();
    assert_eq!(choices.len(), 3);
    let total: f64 = choices.iter().map(|choice| choice["probability"].as_f64().unwrap()).sum();
    assert!((total - 1.0).abs() < 1e-12);
    assert_eq!(choices[0]["is_best"], true);
    assert_eq!(choices[1]["is_gold"], true);
    // -2/5 beats -1/3: `green` has more bytes than `red`.
    assert!((choices[1]["per_byte"].as_f64().unwrap() + 0.4).abs() < 1e-12);
    assert_eq!(choices[0]["is_best_per_byte"], true);
    assert_eq!(sample["generations"], json!([]));
    // The index of a choice is shown as the choice, and log-likelihoods pass through no filter.
    assert_eq!(sample["target"]["text"], "green");
    assert_eq!(page["rows"][0]["target"]["text"], "green");
    assert_eq!(sample["steps"], json!([]));
    assert_eq!(sample["prompt"]["text"]["text"], "Which?\nA:");
}

#[test]
fn pipelines_are_separate() {
    let strict = generated(0, "Q", "a", "a", 1.0);
    let mut loose = generated(0, "Q", "a", "a", 0.0);
    loose["filter"] = Json::from("loose");
    let fixture = Fixture::new(|folder| write_run(folder, "m", &lines(&[strict, loose])));
    let page = fixture.samples("&filter=loose");
    assert_eq!((page["total"].as_u64(), page["filter"].as_str()), (Some(1), Some("loose")));
    assert_eq!(page["rows"][0]["row"], 1);
    let run = fixture.run();
    let sample = fixture.get(&format!("/api/sample?run={run}&task=quiz&row=1"));
    assert_eq!(sample["other_filters"], json!([{ "filter": "none", "row": 0 }]));
    assert_eq!((sample["filter"].as_str(), sample["matched"].as_u64()), (Some("loose"), Some(1)));
    let stats = fixture.get(&format!("/api/task?run={run}&task=quiz"));
    assert_eq!(stats["filters"], json!(["none", "loose"]));
}

#[test]
fn describes_distributions() {
    let fixture = fixture();
    fixture.samples("");
    let stats = fixture.get(&format!("/api/task?run={}&task=quiz", fixture.run()));
    assert_eq!(stats["outcomes"], json!({ "right": 1, "wrong": 1, "partial": 1, "unscored": 1 }));
    assert_eq!(stats["flags"], json!({ "empty": 1, "nan": 1 }));
    assert_eq!(stats["fields"], json!(["question", "subject"]));
    assert_eq!(stats["metrics"][0]["missing"], 1);
    assert_eq!(stats["metrics"][0]["mean"], 0.5);
}

#[test]
fn a_file_that_grows_is_read_on() {
    let fixture = fixture();
    assert_eq!(fixture.samples("")["total"], 4);
    let path = samples_path(fixture.path(), "m", "quiz");
    let mut file = fs_err::OpenOptions::new().append(true).open(&path).unwrap();
    let next = generated(4, "Q", "a", "a", 1.0).to_string();
    let (first, second) = next.split_at(next.len() / 2);
    file.write_all(first.as_bytes()).unwrap();
    file.flush().unwrap();
    let page = fixture.samples("");
    assert_eq!(page["total"], 4);
    assert_eq!(page["index"]["bad_lines"][0]["line"], 5, "{page}");
    file.write_all(second.as_bytes()).unwrap();
    file.write_all(b"\n").unwrap();
    file.flush().unwrap();
    let page = fixture.samples("");
    assert_eq!((page["total"].as_u64(), page["index"]["bad_lines"].clone()), (Some(5), json!([])));
    assert_eq!(ids(&page), [0, 1, 2, 3, 4]);
    // A file that was replaced is read from the start.
    fs_err::write(&path, lines(&[generated(9, "Q", "a", "a", 1.0)])).unwrap();
    assert_eq!(ids(&fixture.samples("")), [9]);
}

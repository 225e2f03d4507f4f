//! Samples that try to break the viewer.

use serde_json::{Value as Json, json};

use crate::{Fixture, STAMP, generated, lines, request, write_run};

const HOSTILE: &str = "</script><script>alert(1)</script>\u{1b}[31mred\u{1b}[0m \u{202e}reversed\u{202c} \u{0} \u{feff}'\"&<img src=x onerror=alert(1)>";

#[test]
fn markup_and_escapes_travel_as_text() {
    let fixture = Fixture::new(|folder| {
        write_run(folder, "m", &lines(&[generated(0, HOSTILE, HOSTILE, HOSTILE, 0.0)]));
    });
    let reply = request(
        fixture.server.address(),
        "GET",
        &format!("/api/sample?run={}&task=quiz&row=0", fixture.run()),
        &[],
    );
    assert_eq!(reply.header("content-type"), Some("application/json"));
    assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
    let sample = reply.json();
    assert_eq!(sample["generations"][0]["repeats"][0]["text"], HOSTILE);
    assert_eq!(sample["target"]["text"], HOSTILE);
    assert_eq!(fixture.samples("")["rows"][0]["answer"]["text"], HOSTILE);
}

#[test]
fn long_lines_are_cut_and_come_whole_on_request() {
    let long = "x".repeat(10_000_000);
    let fixture = Fixture::new(|folder| {
        write_run(
            folder,
            "m",
            &lines(&[generated(0, "Q", &long, "a", 0.0), generated(1, "Q", "b", "a", 0.0)]),
        );
    });
    let page = fixture.samples("");
    let answer = &page["rows"][0]["answer"];
    assert_eq!((answer["length"].as_u64(), answer["cut"].as_bool()), (Some(10_000_000), Some(true)));
    assert_eq!(answer["text"].as_str().unwrap().len(), 300);
    let path = format!("/api/sample?run={}&task=quiz&row=0", fixture.run());
    let sample = fixture.get(&path);
    assert_eq!(sample["generations"][0]["repeats"][0]["text"].as_str().unwrap().len(), 100_000);
    let whole = fixture.get(&format!("{path}&full=1"));
    assert_eq!(whole["generations"][0]["repeats"][0]["text"].as_str().unwrap().len(), 10_000_000);
    assert_eq!(fixture.samples("&text=xxxx&in=answer")["matched"], 1);
}

#[test]
fn broken_lines_are_reported_and_the_others_shown() {
    let mut text = lines(&[generated(0, "Q", "a", "a", 1.0)]);
    text.push_str("not json\n[1, 2]\n{\"no\": \"identity\"}\n\n{\"doc_id\": 7}\n");
    text.push_str(&lines(&[generated(1, "Q", "a", "a", 0.0)]));
    text.push_str("{\"doc_id\": 2, \"doc\": {\"q\": \"unfin");
    let fixture = Fixture::new(|folder| {
        write_run(folder, "m", "");
        let mut bytes = text.clone().into_bytes();
        bytes.splice(0..0, b"\xff\xfe broken\n".iter().copied());
        fs_err::write(folder.join("m").join(format!("samples_quiz_{STAMP}.jsonl")), bytes).unwrap();
    });
    let page = fixture.samples("");
    assert_eq!(page["total"], 3, "{page}");
    let bad: Vec<u64> = page["index"]["bad_lines"]
        .as_array()
        .unwrap()
        .iter()
        .map(|bad| bad["line"].as_u64().unwrap())
        .collect();
    assert_eq!(bad, [1, 3, 4, 5, 9]);
    for row in 0..3 {
        fixture.get(&format!("/api/sample?run={}&task=quiz&row={row}", fixture.run()));
    }
}

#[test]
fn odd_shapes_give_an_answer_and_no_panic() {
    let odd = [
        json!({ "doc_id": 0, "arguments": [], "resps": [], "metrics": "acc" }),
        json!({ "doc_id": 1, "arguments": [["Q", " A"], ["Q", " B"]], "resps": [[[-1.0, true]], [[-2.0, false]]], "target": "x", "metrics": [], "filter": "none" }),
        json!({ "doc_id": 2, "arguments": { "gen_args_0": { "arg_0": [{ "role": "user", "content": "Hi" }], "arg_1": {} } }, "resps": [["a", "b"]], "filtered_resps": [["a"], ["b"]], "doc": [1], "metrics": [1, null], "scores_per_repeat": { "acc": [1, 0] } }),
        json!({ "doc_id": 3, "arguments": 5, "resps": "text", "filtered_resps": { "a": 1 }, "target": [1, 2], "doc": "text", "metrics": ["acc", "acc"], "acc": "NaN" }),
        json!({ "doc_id": 4, "arguments": { "gen_args_0": { "arg_0": "whole text" } }, "resps": [["-12.5"]], "target": null }),
        json!({ "doc_id": 5, "arguments": {}, "resps": [[[]], [[1]]], "filtered_resps": [[], [[]]] }),
    ];
    let fixture = Fixture::new(|folder| write_run(folder, "m", &lines(&odd)));
    let page = fixture.samples("");
    assert_eq!(page["total"], 6, "{page}");
    let run = fixture.run();
    let sample = |row: usize| fixture.get(&format!("/api/sample?run={run}&task=quiz&row={row}"));
    for row in 0..6 {
        sample(row);
    }
    assert_eq!(sample(1)["choices"].as_array().unwrap().len(), 2);
    assert_eq!(
        sample(2)["prompt"]["turns"],
        json!([{ "role": "user", "content": { "text": "Hi", "length": 2 } }])
    );
    assert_eq!(sample(4)["rolling"], json!([{ "loglikelihood": -12.5 }]));
    fixture.samples("&text=a&in=prompt,answer,target,doc");
    fixture.get(&format!("/api/task?run={run}&task=quiz"));
}

#[test]
fn lone_surrogates_and_huge_numbers_survive() {
    let line = r#"{"doc_id": 0, "doc": {"n": 123456789012345678901234567890, "s": "\ud800", "i": Infinity}, "target": "\ud83d\ude00", "arguments": {"gen_args_0": {"arg_0": "Q", "arg_1": {"n": 9007199254740993}}}, "resps": [["a"]], "filtered_resps": ["a"], "metrics": ["acc"], "acc": -Infinity}"#;
    let fixture = Fixture::new(|folder| write_run(folder, "m", &format!("{line}\n")));
    let page = fixture.samples("");
    assert_eq!(page["rows"][0]["values"], json!(["-Infinity"]));
    assert_eq!(page["rows"][0]["target"]["text"], "😀");
    let sample = fixture.get(&format!("/api/sample?run={}&task=quiz&row=0", fixture.run()));
    assert_eq!(sample["generations"][0]["settings"]["n"], "9007199254740993");
    assert_ne!(sample["doc"], Json::Null);
}

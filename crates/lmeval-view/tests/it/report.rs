//! Reports.

use std::io::Read as _;
use std::path::Path;

use base64::Engine as _;
use lmeval_view::write_report;
use serde_json::Value as Json;

use crate::{generated, lines, write_run};

fn report(folders: &[&Path], limit: Option<usize>) -> (String, Json) {
    let paths: Vec<_> = folders.iter().map(|folder| (*folder).to_owned()).collect();
    let mut output = Vec::new();
    write_report(&paths, limit, &mut output).unwrap();
    let html = String::from_utf8(output).unwrap();
    let (_, rest) = html.split_once("<script id=\"data\" type=\"text/plain\">").unwrap();
    let (data, _) = rest.split_once("</script>").unwrap();
    let bytes = base64::engine::general_purpose::STANDARD.decode(data).unwrap();
    let mut text = String::new();
    flate2::read::GzDecoder::new(&bytes[..]).read_to_string(&mut text).unwrap();
    let data: Json = serde_json::from_str(&text).unwrap();
    (html, data["responses"].clone())
}

fn samples(shift: i64) -> String {
    let samples: Vec<_> = (0..10)
        .map(|id| {
            generated(
                id,
                "Q",
                "</script><script>alert(1)</script>",
                "a",
                f64::from(u8::from((id + shift) % 3 == 0)),
            )
        })
        .collect();
    lines(&samples)
}

#[test]
fn a_report_is_one_file_with_wrong_samples_first() {
    let folder = tempfile::tempdir().unwrap();
    write_run(folder.path(), "m", &samples(0));
    let (html, responses) = report(&[&folder.path().join("m")], Some(3));
    assert!(html.starts_with("<!doctype html>"));
    assert!(html.contains("script-src 'sha256-") && !html.contains("alert(1)"));
    assert!(!html.contains("src=\"http") && !html.contains("href=\"http"));
    assert!(!responses.to_string().contains("sk-very-secret"));
    let list = &responses["api/runs"];
    let run = list["runs"][0]["id"].as_str().unwrap();
    assert!(responses[format!("api/run?run={run}")].is_object());
    let page = &responses[format!("api/samples?run={run}&task=quiz")];
    assert_eq!(page, &responses[format!("api/samples?filter=none&run={run}&task=quiz")]);
    assert_eq!(page["excerpt"], serde_json::json!({ "shown": 3, "of": 10 }));
    let rows: Vec<u64> =
        page["rows"].as_array().unwrap().iter().map(|row| row["row"].as_u64().unwrap()).collect();
    assert_eq!(rows, [1, 2, 4]);
    let sample = &responses[format!("api/sample?row=2&run={run}&task=quiz")];
    assert_eq!((sample["previous"].as_u64(), sample["next"].as_u64()), (Some(1), Some(4)));
    assert!(responses[format!("api/task?run={run}&task=quiz")]["metrics"].is_array());
    let (_, all) = report(&[&folder.path().join("m")], None);
    assert_eq!(all[format!("api/samples?run={run}&task=quiz")]["rows"].as_array().unwrap().len(), 10);
}

#[test]
fn two_runs_are_compared() {
    let folder = tempfile::tempdir().unwrap();
    write_run(folder.path(), "base", &samples(0));
    write_run(folder.path(), "new", &samples(1));
    let (_, responses) = report(&[&folder.path().join("base"), &folder.path().join("new")], Some(5));
    let runs = responses["api/runs"]["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 2);
    let keys: Vec<&String> = responses.as_object().unwrap().keys().collect();
    assert!(keys.iter().any(|key| key.starts_with("api/compare?base=")), "{keys:?}");
    let flips = keys.iter().find(|key| key.starts_with("api/flips?base=")).unwrap();
    assert!(flips.contains("&filter=none&metric=exact_match&new="), "{flips}");
    assert!(responses[flips.as_str()]["total"].as_u64().unwrap() > 0);
}

#[test]
fn a_folder_without_results_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let error = write_report(&[folder.path().to_owned()], None, &mut Vec::new()).unwrap_err();
    assert!(error.to_string().contains("no results"), "{error}");
}

//! Samples: streaming, random access, damaged files.

use std::path::{Path, PathBuf};

use lmeval_analysis::Error;
use lmeval_analysis::read::Run;
use lmeval_analysis::samples::{Expression, Outcome, Query, SampleReader, Sort, find, visit};
use lmeval_testkit::mutate;

fn line(id: usize, answer: &str, acc: f64) -> String {
    format!(
        r#"{{"doc_id": {id}, "doc": {{"n": {id}}}, "arguments": {{"gen_args_0": {{"arg_0": "Q{id} é", "arg_1": " a"}}}}, "resps": [["{answer}"]], "filter": "none", "metrics": ["acc"], "acc": {acc}}}"#
    )
}

fn write(folder: &Path, text: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.join("quiz.jsonl");
    fs_err::write(&path, text).unwrap();
    path
}

fn reader(path: &Path) -> SampleReader {
    let run = Run::open(path).unwrap();
    SampleReader::open(&run, &run.samples[0], None).unwrap()
}

#[test]
fn samples_are_read_again_by_their_offset() {
    let folder = tempfile::tempdir().unwrap();
    let lines: Vec<String> =
        (0..50).map(|id| line(id, &"x".repeat(id * 31), f64::from(id as u8 % 2))).collect();
    // Blank lines are skipped, but count in offsets.
    let mut readers = vec![reader(&write(folder.path(), lines.join("\n\n")))];
    let mut seen = Vec::new();
    visit(&mut readers, &Query::default(), None, |_, sample| {
        seen.push((sample.offset(), sample.json().to_owned()));
        Ok::<(), Error>(())
    })
    .unwrap();
    assert_eq!(seen.iter().map(|(_, json)| json).collect::<Vec<_>>(), lines.iter().collect::<Vec<_>>());
    for (offset, json) in seen.iter().rev().chain(&seen) {
        assert_eq!(readers[0].read_at(*offset).unwrap().json(), json);
    }
    assert!(readers[0].read_at(1 << 40).unwrap_err().to_string().contains("ends before byte"));
    let query = Query { outcome: Some(Outcome::Right), ..Query::default() };
    let found = find(&mut readers, &query, Some(&Sort::parse("-doc.n").unwrap()), Some(2)).unwrap();
    let ids: Vec<Option<i64>> =
        found.positions.iter().map(|at| readers[at.file].read_at(at.offset).unwrap().doc_id()).collect();
    assert_eq!((ids, found.seen.matching), (vec![Some(49), Some(47)], 25));
    assert_eq!(found.seen.outcomes, [25, 25, 0, 0]);
}

#[test]
fn files_cut_at_any_byte_give_the_complete_samples() {
    let folder = tempfile::tempdir().unwrap();
    let whole = format!("{}\n{}\n", line(0, "é日", 1.0), line(1, "b", 0.0));
    let first = whole.find('\n').unwrap();
    for cut in 0..whole.len() {
        let mut reader = reader(&write(folder.path(), &whole.as_bytes()[..cut]));
        let mut count = 0;
        while reader.read_next().unwrap().is_some() {
            count += 1;
        }
        let complete = usize::from(cut >= first) + usize::from(cut + 1 == whole.len());
        assert_eq!(count, complete, "{cut}");
        let is_cut = cut != 0 && cut != first && cut != first + 1 && cut + 1 != whole.len();
        assert_eq!(reader.incomplete().is_some(), is_cut, "{cut}");
    }
}

#[test]
fn damaged_files_give_samples_or_errors() {
    let folder = tempfile::tempdir().unwrap();
    let whole = format!("{}\n{}\n", line(0, "a", 1.0), line(1, "b", 0.0));
    let expression =
        Expression::parse("acc == 1 or prompt or answer or scores or continuations", "test").unwrap();
    mutate(&[whole.as_bytes()], 500, |bytes| {
        let mut readers = vec![reader(&write(folder.path(), bytes))];
        let query =
            Query { outcome: Some(Outcome::Right), conditions: vec![expression.clone()], ..Query::default() };
        let _ = find(&mut readers, &query, Some(&Sort::parse("doc").unwrap()), Some(1));
    });
}

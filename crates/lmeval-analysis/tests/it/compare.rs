//! Runs written to files, read back and compared.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use lmeval_analysis::Error;
use lmeval_analysis::compare::{Comparison, Precision, Settings, adjust, compare};
use lmeval_analysis::gate::{Gate, Verdict};
use lmeval_analysis::read::{DocKey, Run, Values, Wanted, read_samples};
use lmeval_analysis::stats::{Interval, mcnemar};
use lmeval_core::Diagnose as _;
use lmeval_scoring::registry::Registry;

const STAMP: &str = "2026-11-15T02-46-50.151442";

/// One document with its score.
struct Doc {
    id: i64,
    subject: &'static str,
    prompt: &'static str,
    acc: &'static str,
}

fn doc(id: i64, acc: &'static str) -> Doc {
    Doc { id, subject: if id % 2 == 0 { "even" } else { "odd" }, prompt: "Q", acc }
}

fn hash(text: &str) -> String {
    // Any 64 hexadecimal digits that differ for different strings.
    let sum = text.bytes().fold(7u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte)));
    format!("{sum:016x}").repeat(4)
}

fn line(doc: &Doc) -> String {
    format!(
        r#"{{"doc_id": {}, "doc": {{"subject": "{}"}}, "target": "x", "arguments": {{"gen_args_0": {{"arg_0": "{}"}}}}, "resps": [["\"}}"]], "filtered_resps": ["a"], "filter": "none", "metrics": ["acc"], "doc_hash": "{}", "prompt_hash": "{}", "acc": {}}}"#,
        doc.id,
        doc.subject,
        doc.prompt,
        hash(&format!("document {}", doc.id)),
        hash(doc.prompt),
        doc.acc
    )
}

/// Writes a run of one task and answers its folder.
fn write(folder: &Path, name: &str, docs: &[Doc]) -> PathBuf {
    let folder = folder.join(name);
    fs_err::create_dir_all(&folder).unwrap();
    let mut samples = String::new();
    for doc in docs {
        writeln!(samples, "{}", line(doc)).unwrap();
    }
    fs_err::write(folder.join(format!("samples_quiz_{STAMP}.jsonl")), samples).unwrap();
    let results = format!(
        r#"{{"results": {{"quiz": {{"acc,none": 0.5}}}}, "configs": {{"quiz": {{"metric_list": [{{"metric": "acc", "aggregation": "mean"}}]}}}}, "higher_is_better": {{"quiz": {{"acc": true}}}}, "model_name": "{name}", "config": {{"limit": null}}}}"#
    );
    fs_err::write(folder.join(format!("results_{STAMP}.json")), results).unwrap();
    folder
}

fn compared(base: &Path, new: &Path, settings: &Settings) -> Result<Comparison, Error> {
    let mut all = [compare(&Run::open(base)?, &Run::open(new)?, settings, &Registry::default())?];
    adjust(&mut all);
    let [comparison] = all;
    Ok(comparison)
}

#[test]
fn documents_are_paired_by_their_hashes() {
    let folder = tempfile::tempdir().unwrap();
    // The new run has other ids for the same documents, and one more.
    let base = write(folder.path(), "base", &[doc(0, "1.0"), doc(1, "0.0"), doc(2, "1.0"), doc(3, "0.0")]);
    let new = write(
        folder.path(),
        "new",
        &[doc(3, "1.0"), doc(2, "1.0"), doc(9, "0.0"), doc(1, "1.0"), doc(0, "0.0")],
    );
    let found = compared(&base, &new, &Settings { flips: true, ..Settings::default() }).unwrap();
    let [score] = found.scores.as_slice() else { panic!("{found:?}") };
    assert_eq!(
        (score.task.as_str(), score.metric.as_str(), score.higher_is_better),
        ("quiz", "acc", Some(true))
    );
    assert_eq!((score.outcome.base, score.outcome.new, score.outcome.difference), (0.5, 0.75, 0.25));
    assert_eq!((score.outcome.count, score.outcome.up, score.outcome.down), (4, 2, 1));
    assert_eq!((score.only_base, score.only_new), (0, 1));
    assert_eq!(score.outcome.p_value, mcnemar(2, 1));
    assert_eq!((score.benjamini_hochberg, score.holm), (mcnemar(2, 1), mcnemar(2, 1)));
    let mut changed: Vec<i64> = score.flips.iter().map(|flip| flip.doc_id).collect();
    changed.sort_unstable();
    assert_eq!(changed, [0, 1, 3]);
    assert!(found.notes.iter().any(|note| note.contains("1 only in `new`")), "{:?}", found.notes);
}

#[test]
fn a_field_breaks_scores_down_and_clusters_them() {
    let folder = tempfile::tempdir().unwrap();
    let base = write(folder.path(), "base", &[doc(0, "1"), doc(1, "0"), doc(2, "1"), doc(3, "0")]);
    let new = write(folder.path(), "new", &[doc(0, "0"), doc(1, "1"), doc(2, "1"), doc(3, "1")]);
    let settings =
        Settings { by: Some("subject".into()), cluster: Some("subject".into()), ..Settings::default() };
    let found = compared(&base, &new, &settings).unwrap();
    let score = &found.scores[0];
    let by: Vec<(&str, f64, usize)> =
        score.by.iter().map(|(label, outcome)| (label.as_str(), outcome.difference, outcome.count)).collect();
    assert_eq!(by, [("even", -0.5, 2), ("odd", 1.0, 2)]);
    assert_eq!(score.outcome.clusters, Some(2));
    let missing = Settings { by: Some("topic".into()), ..Settings::default() };
    let error = compared(&base, &new, &missing).unwrap_err();
    assert!(
        error.to_string().contains("line 1 of") && error.to_string().contains("no field `topic`"),
        "{error}"
    );
}

#[test]
fn different_prompts_are_refused_and_shown() {
    let folder = tempfile::tempdir().unwrap();
    let base = write(folder.path(), "base", &[doc(0, "1"), Doc { prompt: "Q: two", ..doc(1, "0") }]);
    let new = write(folder.path(), "new", &[doc(0, "1"), Doc { prompt: "Q: 2", ..doc(1, "1") }]);
    let error = compared(&base, &new, &Settings::default()).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("1 of 2 documents of `quiz` have different prompts, first document 1"), "{text}");
    assert!(text.contains("base: Q: two") && text.contains("new:  Q: 2"), "{text}");
    assert!(error.hints()[0].contains("--allow-different-prompts"));
    let allowed = Settings { allow_different_prompts: true, ..Settings::default() };
    assert_eq!(compared(&base, &new, &allowed).unwrap().scores[0].outcome.count, 2);
}

#[test]
fn bad_input_has_clear_messages() {
    let folder = tempfile::tempdir().unwrap();
    let base = write(folder.path(), "base", &[doc(0, "1"), doc(1, "NaN")]);
    let other = write(folder.path(), "other", &[doc(7, "1")]);
    let error = compared(&base, &other, &Settings::default()).unwrap_err();
    assert!(error.to_string().contains("no document of `quiz` in common"), "{error}");

    let found = compared(&base, &base, &Settings::default()).unwrap();
    assert!(
        found.notes.iter().any(|note| note.contains("1 documents of `quiz` have NaN as `acc`")),
        "{:?}",
        found.notes
    );
    assert_eq!((found.scores[0].outcome.count, found.scores[0].outcome.p_value), (1, 1.0));

    // Two models in one folder: the error lists both.
    let error = Run::open(folder.path()).unwrap_err();
    assert!(error.to_string().contains("base") && error.to_string().contains("other"), "{error}");

    let samples = base.join(format!("samples_quiz_{STAMP}.jsonl"));
    let text = fs_err::read_to_string(&samples).unwrap();
    fs_err::write(&samples, &text[..text.len() - 30]).unwrap();
    let error = read_samples(&samples, Wanted::default()).unwrap_err();
    assert!(
        error.to_string().contains("line 2") && error.to_string().contains("ends in the middle"),
        "{error}"
    );
    fs_err::write(&samples, format!("{text}not json\n")).unwrap();
    let error = read_samples(&samples, Wanted::default()).unwrap_err();
    assert!(error.to_string().contains("line 3") && error.to_string().contains("column 1"), "{error}");
    fs_err::write(&samples, "{\"acc\": 1}\n").unwrap();
    let error = read_samples(&samples, Wanted::default()).unwrap_err();
    assert!(error.to_string().contains("neither `doc_hash` nor `doc_id`"), "{error}");
    fs_err::remove_file(&samples).unwrap();
    let error = compared(&base, &other, &Settings::default()).unwrap_err();
    assert!(error.to_string().contains("There are no samples beside"), "{error}");
    assert!(Run::open(&folder.path().join("absent")).is_err());
}

#[test]
fn files_of_older_harnesses_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("samples_old_2024-05-01T10-00-00.jsonl");
    // Neither hashes nor names of metrics nor filters.
    fs_err::write(
        &path,
        "{\"doc_id\": 4, \"doc\": {}, \"resps\": [[\"a\"]], \"acc\": true, \"f1\": [0, 1]}\n",
    )
    .unwrap();
    let (pipelines, _) = read_samples(&path, Wanted::default()).unwrap();
    assert_eq!(pipelines[0].filter, "none");
    assert_eq!(pipelines[0].rows[0].key, DocKey::Id(4));
    assert!(matches!(&pipelines[0].columns[0].values, Values::Numbers(numbers) if *numbers == [1.0]));
    assert!(matches!(&pipelines[0].columns[1].values, Values::Items(items) if items.len() == 1));
    let run = Run::open(&path).unwrap();
    assert_eq!(run.samples[0].task, "old");
}

#[test]
fn gates_decide_by_the_whole_interval() {
    let gate = Gate::parse("arc::easy:acc,none >= -0.01").unwrap();
    assert_eq!((gate.task.as_str(), gate.metric.as_str()), ("arc::easy", "acc,none"));
    let decide = |low, high| gate.decide(Interval { low, high });
    assert_eq!(decide(-0.01, 0.5), Verdict::Pass);
    assert_eq!(decide(-0.5, -0.02), Verdict::Fail);
    assert_eq!(decide(-0.02, 0.5), Verdict::Inconclusive);
    assert_eq!(decide(f64::NAN, f64::NAN), Verdict::Inconclusive);
    let gate = Gate::parse("wiki:word_perplexity <= 0.1").unwrap();
    assert_eq!(gate.decide(Interval { low: -1.0, high: 0.1 }), Verdict::Pass);
    assert_eq!(gate.decide(Interval { low: 0.2, high: 0.3 }), Verdict::Fail);
    for wrong in ["acc >= 1", "mmlu:acc > 1", "mmlu:acc >= x", ":acc >= 0", "mmlu: >= 0", "a:b >= nan"] {
        assert!(Gate::parse(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn settings_of_power_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let docs = |right: fn(i64) -> bool| -> Vec<Doc> {
        (0..40).map(|id| doc(id, if right(id) { "1" } else { "0" })).collect()
    };
    let base = write(folder.path(), "base", &docs(|id| id % 3 == 0));
    let new = write(folder.path(), "new", &docs(|id| id % 2 == 0));
    let precision = Precision { margin: Some(0.05), ..Precision::default() };
    let found = compared(&base, &new, &Settings { precision, ..Settings::default() }).unwrap();
    let outcome = &found.scores[0].outcome;
    assert!(outcome.detectable > 0.1 && outcome.detectable < 0.6, "{outcome:?}");
    let needed = outcome.needed.unwrap();
    assert!((needed - (40.0 * (outcome.detectable / 0.05).powi(2)).ceil()).abs() < 1.0, "{needed}");
}

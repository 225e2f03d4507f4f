//! Receipts, and `lm-eval verify`.

use lmeval_testkit::{Output, TestContext};
use serde_json::Value;

use crate::hf::{arguments, prepared, run};
use crate::long_run::newest;

const TASKS: &str = "options,wholes,draws";

fn results(context: &TestContext, out: &str) -> (std::path::PathBuf, Value) {
    let path = newest(&context.work().join(out), "results_");
    let text = fs_err::read_to_string(&path).unwrap();
    (path, serde_json::from_str(&text).unwrap())
}

/// The journal of a run, which has a lock file of a similar name.
fn journal(context: &TestContext, out: &str) -> std::path::PathBuf {
    results(context, out).0.with_file_name("answers.journal")
}

fn receipt(context: &TestContext, out: &str) -> String {
    let (_, results) = results(context, out);
    results["receipt"]["number"].as_str().unwrap_or_else(|| panic!("{results}")).to_owned()
}

/// Runs the tiny checkpoint, with more settings.
fn made(context: &TestContext, model_args: &str, out: &str, more: &[&str]) {
    let mut words = arguments(TASKS, model_args, out);
    words.extend(["--limit", "20"].into_iter().chain(more.iter().copied()).map(str::to_owned));
    let output = run(context, &words);
    assert_eq!(output.status, 0, "{output}");
}

fn verify(context: &TestContext, out: &str, more: &[&str]) -> Output {
    context.run(&[&["verify", out, "--include_path", "tasks", "--library", "none"], more].concat())
}

#[test]
fn receipts_do_not_depend_on_how_a_run_was_computed() {
    let context = prepared();
    made(&context, "", "one", &[]);
    let own = receipt(&context, "one");
    for (out, model_args, size) in [("seven", "", "7"), ("many", "", "64"), ("two", ",data_parallel=2", "1")]
    {
        made(&context, model_args, out, &["--batch_size", size]);
        assert_eq!(receipt(&context, out), own, "{out}");
    }
    // A run that was killed in the middle has a part of the journal.
    let journal = journal(&context, "one");
    let folder = journal.parent().unwrap().file_name().unwrap().to_owned();
    let answers = fs_err::read(&journal).unwrap();
    for share in [3, 2] {
        let out = format!("killed{share}");
        let path = context.work().join(&out).join(&folder).join("answers.journal");
        context.write(&path, &answers[..answers.len() / share]);
        made(&context, "", &out, &[]);
        assert_eq!(receipt(&context, &out), own, "{out}");
        assert!(fs_err::metadata(path).unwrap().len() >= answers.len() as u64 * 9 / 10, "{out}");
    }
    let output = verify(&context, "one", &["--against", "two"]);
    assert_eq!(output.status, 0, "{output}");
    assert_eq!(
        output.stdout,
        format!("Receipt {own}: the answers and scores of 3 tasks match the run\n"),
        "{output}"
    );
    // Other prompts are another run.
    made(&context, "", "other", &["--num_fewshot", "1"]);
    assert_ne!(receipt(&context, "other"), own);
    let output = verify(&context, "one", &["--against", "other"]);
    assert_eq!(output.status, 1, "{output}");
    assert!(
        output.stdout.contains("has other inputs")
            && output.stdout.contains("has other answers to `options`"),
        "{output}"
    );
}

#[test]
fn an_edited_score_is_named() {
    let context = prepared();
    made(&context, "", "out", &[]);
    let (path, results) = results(&context, "out");
    let text = fs_err::read_to_string(&path).unwrap();
    let score = &results["results"]["options"]["acc,none"];
    let edited = text.replacen(&format!("\"acc,none\": {score}"), "\"acc,none\": 0.875", 1);
    assert_ne!(edited, text);
    fs_err::write(&path, edited).unwrap();
    let output = verify(&context, "out", &[]);
    assert_eq!(output.status, 1, "{output}");
    let expected = format!("scores: `options` acc,none: 0.875 in the file, {score} by the stored answers");
    assert!(output.stdout.contains(&expected), "{output}");
    let json = verify(&context, "out", &["--json"]);
    let found: Value = serde_json::from_str(&json.stdout).unwrap();
    assert!(found["differences"].as_array().unwrap().len() >= 2, "{json}");
}

/// Changes a field of a document in a samples file.
fn edit(context: &TestContext, task: &str, line: usize, change: impl Fn(&mut Value)) {
    let path = newest(&context.work().join("out"), &format!("samples_{task}_"));
    let text = fs_err::read_to_string(&path).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let mut sample: Value = serde_json::from_str(&lines[line]).unwrap();
    change(&mut sample);
    lines[line] = sample.to_string();
    fs_err::write(&path, lines.join("\n") + "\n").unwrap();
}

#[test]
fn an_edited_document_is_named() {
    let context = prepared();
    made(&context, "", "out", &[]);
    edit(&context, "options", 4, |sample| {
        let acc = 1.0 - sample["acc"].as_f64().unwrap();
        sample["acc"] = acc.into();
    });
    let output = verify(&context, "out", &[]);
    assert_eq!(output.status, 1, "{output}");
    assert!(output.stdout.contains("samples: `options` acc,none: document 4: "), "{output}");
}

#[test]
fn an_edited_answer_is_named_with_and_without_a_journal() {
    let context = prepared();
    made(&context, "", "out", &[]);
    edit(&context, "draws", 6, |sample| sample["resps"][0][0] = "edited".into());
    let output = verify(&context, "out", &[]);
    assert_eq!(output.status, 1, "{output}");
    assert!(
        output.stdout.contains("answers: `draws`: the answers to 1 document are not those of the journal: 6"),
        "{output}"
    );
    fs_err::remove_file(journal(&context, "out")).unwrap();
    let output = verify(&context, "out", &[]);
    assert_eq!(output.status, 1, "{output}");
    assert!(
        output.stdout.contains("answers: `draws`: the stored answers are not those of the receipt"),
        "{output}"
    );
}

#[test]
fn an_edited_receipt_or_lock_is_named() {
    let context = prepared();
    made(&context, "", "out", &[]);
    let (path, _) = results(&context, "out");
    let text = fs_err::read_to_string(&path).unwrap();
    let own = receipt(&context, "out");
    fs_err::write(&path, text.replacen(&own, "00000000000000000000000000000000", 1)).unwrap();
    let output = verify(&context, "out", &[]);
    assert_eq!(output.status, 1, "{output}");
    assert!(
        output.stdout.contains(&format!(
            "receipt: its number is 00000000000000000000000000000000, and that of its parts is {own}"
        )),
        "{output}"
    );
    fs_err::write(&path, &text).unwrap();
    let lock = newest(&context.work().join("out"), "eval_");
    let locked = fs_err::read_to_string(&lock).unwrap();
    fs_err::write(&lock, locked.replacen("\"limit\": \"20", "\"limit\": \"30", 1)).unwrap();
    let output = verify(&context, "out", &[]);
    assert_eq!(output.status, 1, "{output}");
    assert!(output.stdout.contains("inputs: the inputs in `"), "{output}");
}

#[test]
fn runs_without_a_receipt_are_refused_with_advice() {
    let context = prepared();
    made(&context, "", "out", &["--compat", "0.4"]);
    let output = verify(&context, "out", &[]);
    assert_eq!(output.status, 1, "{output}");
    assert!(
        output.stderr.contains("has no receipt") && output.stderr.contains("lm-eval rescore"),
        "{output}"
    );
}

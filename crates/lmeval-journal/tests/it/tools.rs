//! List, verify, compact and export.

use lmeval_core::{Answer, RequestType, Response};
use lmeval_journal::{Entry, Journal, Key, Outcome, compact, export, list, verify};

use crate::support::{entry, failure, filled, identity, is_answered};

#[test]
fn lists_counts_by_model_and_task() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.journal");
    let (journal, one) = filled(&path, 5);
    let two = journal.register_model(&identity("b")).unwrap();
    journal.append_blocking(entry(two, 0)).unwrap();
    journal.append_blocking(failure(two, 1)).unwrap();
    journal.append_blocking(failure(one, 6)).unwrap();
    journal.append_blocking(entry(one, 6)).unwrap();
    journal.append_blocking(entry(one, 0)).unwrap();
    journal.close().unwrap();
    let listing = list(&path).unwrap();
    let summaries: Vec<_> = listing
        .models
        .iter()
        .map(|model| {
            let tasks: Vec<_> = model
                .tasks
                .iter()
                .map(|task| {
                    format!("{} {}/{}", task.task.as_deref().unwrap_or("-"), task.answered, task.failed)
                })
                .collect();
            let identity = model.identity.as_deref().unwrap_or("?");
            format!("{identity}: {}/{} {}", model.answered, model.failed, tasks.join(" "))
        })
        .collect();
    let expected = [
        "test, model a, revision main: 6/0 odd 2/0 even 4/0",
        "test, model b, revision main: 1/1 even 1/0 odd 0/1",
    ];
    assert_eq!(summaries, expected);
    assert_eq!(listing.bytes, fs_err::metadata(&path).unwrap().len());
    let compacted = compact(&path).unwrap();
    assert_eq!(listing.reclaimable, compacted.bytes_before - compacted.bytes_after);
    assert_eq!((compacted.answers, compacted.failures, compacted.dropped), (7, 1, 2));
    let again = list(&path).unwrap();
    assert_eq!((again.models, again.reclaimable), (listing.models, 0));
    let (journal, _) = Journal::open(&path).unwrap();
    assert!((0..7).all(|number| is_answered(&journal, one, number) == (number != 5)));
    journal.append_blocking(entry(one, 5)).unwrap();
    assert!(is_answered(&journal, one, 5));
}

#[test]
fn missing_records_give_empty_results() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.journal");
    fs_err::write(&path, "LMEV").unwrap();
    assert!(list(&path).unwrap().models.is_empty());
    assert!(verify(&path).unwrap().is_sound());
    assert_eq!(export(&path, &mut Vec::new()).unwrap().answers, 0);
    compact(&path).unwrap();
    let missing = folder.path().join("none.journal");
    for error in [list(&missing).unwrap_err(), compact(&missing).unwrap_err()] {
        assert_eq!(error.to_string(), format!("Cannot read `{}`", missing.display()));
    }
    assert!(!missing.exists());
}

#[test]
fn exports_one_line_per_request() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.journal");
    let (journal, model) = filled(&path, 0);
    let append = |number: usize, kind, outcome| {
        let key = Key::new(model, &[number as u8; 32], 2, None);
        let task = "täsk".into();
        journal
            .append_blocking(Entry { key, task, doc_id: number, idx: 1, repeat: 2, kind, outcome })
            .unwrap();
        key
    };
    let pair = Response::Loglikelihood { logprob: f64::NEG_INFINITY, is_greedy: true };
    let keys = [
        append(0, RequestType::Loglikelihood, Outcome::Answered(Answer::from(pair))),
        append(1, RequestType::GenerateUntil, Outcome::Failed { message: "Too \"long\"".into() }),
        append(
            2,
            RequestType::LoglikelihoodRolling,
            Outcome::Answered(Response::Rolling { logprob: -0.1 }.into()),
        ),
        append(3, RequestType::GenerateUntil, Outcome::Answered(Response::Text("first".into()).into())),
        append(3, RequestType::GenerateUntil, Outcome::Answered(Response::Text("sec\nond".into()).into())),
    ];
    let mut output = Vec::new();
    let exported = export(&path, &mut output).unwrap();
    assert_eq!((exported.answers, exported.failures), (3, 1));
    let head = |at: usize, doc_id, kind| {
        let key = keys[at];
        format!(
            r#"{{"key": "{key}", "model": "test, model a, revision main", "task": "täsk", "doc_id": {doc_id}, "idx": 1, "repeat": 2, "type": "{kind}", "#
        )
    };
    let tail = r#""truncated": false, "usage": {"prompt_tokens": 0, "completion_tokens": 0}}"#;
    let expected = [
        head(0, 0, "loglikelihood") + r#""response": [-Infinity, true], "# + tail,
        head(1, 1, "generate_until") + r#""error": "Too \"long\""}"#,
        head(2, 2, "loglikelihood_rolling") + r#""response": [-0.1, false], "# + tail,
        head(4, 3, "generate_until") + r#""response": "sec\nond", "# + tail,
    ];
    let output = String::from_utf8(output).unwrap();
    assert_eq!(output.lines().collect::<Vec<_>>(), expected);
}

//! Merging journals, and checking that `verify` sees what a run uses.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use lmeval_core::{Answer, Response};
use lmeval_journal::{Entry, Fingerprint, Journal, Outcome, Problem, SavedAnswers, merge, verify};

use crate::support::{answer, entry, failure, filled, identity, key, kind};

/// A journal with entries of model `a`.
fn journal(path: &Path, entries: impl IntoIterator<Item = Entry>) {
    let (journal, _) = Journal::open(path).unwrap();
    journal.register_model(&identity("a")).unwrap();
    entries.into_iter().for_each(|entry| journal.append_blocking(entry).unwrap());
    journal.close().unwrap();
}

fn other_answer(model: Fingerprint, index: usize) -> Entry {
    let response = match answer(index).response {
        Response::Text(_) => Response::Text("other".into()),
        Response::Rolling { .. } => Response::Rolling { logprob: -7.5 },
        Response::Loglikelihood { .. } => Response::Loglikelihood { logprob: -7.5, is_greedy: true },
        Response::Letters(_) => Response::Letters(Arc::from([])),
    };
    Entry { outcome: Outcome::Answered(Answer { response, ..answer(index) }), ..entry(model, index) }
}

#[test]
fn merges_answers_and_reports_conflicts() {
    let folder = tempfile::tempdir().unwrap();
    let [one, two, three, output] = ["1", "2", "3", "new"].map(|name| folder.path().join(name));
    let model = Fingerprint::of(&identity("a"));
    journal(&one, [entry(model, 0), failure(model, 1), failure(model, 2), entry(model, 3), entry(model, 4)]);
    journal(&two, [entry(model, 1), failure(model, 3), other_answer(model, 4), entry(model, 5)]);
    let (more, other) = filled(&three, 0);
    more.append_blocking(other_answer(other, 0)).unwrap();
    let second = more.register_model(&identity("b")).unwrap();
    more.append_blocking(entry(second, 0)).unwrap();
    more.append_blocking(entry(model, 5)).unwrap();
    more.close().unwrap();
    let inputs = [one.clone(), two.clone(), three.clone()];
    let before = inputs.each_ref().map(|path| fs_err::read(path).unwrap());
    let merged = merge(&inputs, &output).unwrap();
    assert_eq!((merged.answers, merged.failures, merged.duplicates, merged.conflicts), (6, 1, 1, 2));
    let named: Vec<_> = merged
        .first_conflicts
        .iter()
        .map(|found| (found.document.clone().unwrap(), found.taken, found.other))
        .collect();
    assert_eq!(named, [(("even".to_owned(), 4), 0, 1), (("even".to_owned(), 0), 0, 2)]);
    assert_eq!(merged.bytes, fs_err::metadata(&output).unwrap().len());
    assert!(inputs.iter().zip(before).all(|(path, bytes)| fs_err::read(path).unwrap() == bytes));
    let saved = SavedAnswers::open(&output).unwrap();
    for index in [0, 1, 3, 4, 5] {
        assert_eq!(saved.get(&key(model, index), kind(index)).unwrap(), Some(answer(index)), "{index}");
    }
    assert_eq!(saved.get(&key(second, 0), kind(0)).unwrap(), Some(answer(0)));
    // The first input's model counts as the last one used.
    let models: Vec<String> =
        saved.models().iter().map(|(model, answers)| format!("{model}: {answers}")).collect();
    assert_eq!(models, ["test, model b, revision main: 1", "test, model a, revision main: 5"]);
    let merged = merge(&inputs, &output).unwrap_err();
    assert!(merged.to_string().contains("Cannot create"), "{merged}");
    assert!(merge(&inputs, &one).is_err());
    assert!(verify(&output).unwrap().is_sound());
}

#[test]
fn merges_around_damage() {
    let folder = tempfile::tempdir().unwrap();
    let [one, two, empty, output] = ["1", "2", "empty", "new"].map(|name| folder.path().join(name));
    let model = Fingerprint::of(&identity("a"));
    journal(&one, (0..10).map(|index| entry(model, index)));
    let mut bytes = fs_err::read(&one).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    bytes.truncate(bytes.len() - 3);
    fs_err::write(&one, bytes).unwrap();
    journal(&two, [entry(model, 9)]);
    fs_err::write(&empty, "").unwrap();
    let merged = merge(&[one, two, empty.clone()], &output).unwrap();
    assert_eq!((merged.answers, merged.duplicates, merged.conflicts), (9, 0, 0));
    let damaged: Vec<usize> = merged.damage.iter().map(Vec::len).collect();
    assert_eq!(damaged, [2, 0, 0]);
    fs_err::write(&empty, "no journal").unwrap();
    let error = merge(&[empty], &folder.path().join("none")).unwrap_err().to_string();
    assert!(error.contains("not an answer journal"), "{error}");
    assert!(!folder.path().join("none").exists());
}

/// Compares what `verify` and a reader see of a file with what a run gets from it.
fn compare(path: &Path, model: Fingerprint, what: &str) {
    let verified = verify(path);
    let saved = SavedAnswers::open(path);
    let copy: PathBuf = path.with_extension("copy");
    fs_err::copy(path, &copy).unwrap();
    let opened = Journal::open(&copy);
    let (verified, saved, (journal, opened)) = match (verified, saved, opened) {
        (Ok(verified), Ok(saved), Ok(opened)) => (verified, saved, opened),
        (Err(one), Err(two), Err(three)) => {
            let messages = [one, two, three].map(|error| error.to_string().replace(".copy", ".journal"));
            assert!(messages[0] == messages[1] && messages[1] == messages[2], "{what}: {messages:?}");
            return;
        }
        (verified, saved, opened) => panic!("{what}: {verified:?}, {saved:?}, {:?}", opened.is_ok()),
    };
    assert_eq!((verified.answers, verified.failures), (opened.answers, opened.failures), "{what}");
    let unfinished = verified.problems.iter().find_map(|problem| match problem {
        Problem::Unfinished { bytes, .. } => Some(*bytes),
        _ => None,
    });
    // A file that ends within its header has nothing to verify, and a run writes the header again.
    if fs_err::metadata(path).unwrap().len() >= 16 {
        assert_eq!(unfinished, opened.repaired_bytes, "{what}");
    }
    let damaged: Vec<u64> = verified
        .problems
        .iter()
        .filter_map(|problem| match problem {
            Problem::Damaged { offset, .. } => Some(*offset),
            _ => None,
        })
        .collect();
    let expected: Vec<u64> = opened.damage.iter().map(|part| part.offset).collect();
    assert_eq!(damaged, expected, "{what}");
    let mut answered = 0;
    for index in 0..30 {
        let (key, kind) = (key(model, index), kind(index));
        let found = journal.get(&key, kind).unwrap();
        assert_eq!(saved.get(&key, kind).unwrap(), found, "{what}");
        assert!(found.is_none() || found == Some(answer(index)), "{what}");
        answered += usize::from(found.is_some());
    }
    assert_eq!(answered, verified.answers, "{what}");
}

#[test]
fn verify_agrees_with_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.journal");
    let model = Fingerprint::of(&identity("a"));
    let entries =
        (0..12).map(|index| entry(model, index)).chain([12, 13, 2].map(|index| failure(model, index)));
    journal(&path, entries.chain([entry(model, 12), entry(model, 3)]));
    let whole = fs_err::read(&path).unwrap();
    let check = |bytes: &[u8], what: &str| {
        fs_err::write(&path, bytes).unwrap();
        compare(&path, model, what);
    };
    for length in (0..whole.len()).step_by(7).chain(0..40) {
        check(&whole[..length], &format!("cut at {length}"));
    }
    for at in (0..whole.len()).step_by(11).chain(0..32) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x41;
        check(&damaged, &format!("flipped at {at}"));
        let end = (at + 64).min(whole.len());
        damaged[at..end].fill(0);
        check(&damaged, &format!("zeros at {at}"));
        damaged.drain(at..end);
        check(&damaged, &format!("hole at {at}"));
        damaged.truncate(whole.len() / 2);
        check(&damaged, &format!("hole at {at}, and cut"));
    }
    check(&[&whole[..], &whole[16..]].concat(), "twice");
    check(&[&whole[..], b"garbage"].concat(), "garbage at the end");
    check(&[&whole[..16], b"garbage", &whole[16..]].concat(), "garbage at the start");
    check(&[&whole[16..], &whole[..]].concat(), "header in the middle");
    check(&whole[16..], "without a header");
    check(b"", "empty");
    check(b"{\"a\": 1}", "another file");
}

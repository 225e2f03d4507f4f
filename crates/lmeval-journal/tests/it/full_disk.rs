//! A file that may not grow any more, as on a full disk.
#![cfg(target_os = "linux")]

use std::env;
use std::path::Path;
use std::process::Command;

use lmeval_core::Diagnose as _;
use lmeval_journal::{ErrorKind, Journal, compact, verify};

use crate::support::{entry, filled, identity, is_answered};

const VARIABLE: &str = "LM_EVAL_JOURNAL_FULL_TEST";

/// What runs in the process that is limited: appends until it cannot, and lives on.
#[test]
fn child() {
    let Ok(path) = env::var(VARIABLE) else { return };
    let (journal, _) = Journal::open(Path::new(&path)).unwrap();
    let model = journal.register_model(&identity("a")).unwrap();
    let failed =
        (0..2000).find_map(|number| journal.append_blocking(entry(model, number)).err().map(|e| (number, e)));
    let (written, error) = failed.unwrap();
    assert!(matches!(error.kind(), ErrorKind::Write { .. }));
    assert_eq!(error.hints(), ["Make room and run again: everything that has been answered is kept"]);
    assert!((0..2000).all(|number| is_answered(&journal, model, number) == (number < written)));
    journal.append_blocking(entry(model, 1998)).unwrap_err();
    journal.close().unwrap();
    let answers = verify(Path::new(&path)).unwrap();
    assert!(answers.is_sound());
    assert_eq!(answers.answers, written);
}

#[test]
fn a_full_disk_is_an_error_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.journal");
    // The signal is ignored, so that a write that goes too far fails rather than ends the process.
    let limited = Command::new("bash")
        .args(["-c", r#"trap "" XFSZ; ulimit -f 32; exec "$0" full_disk::child --exact --quiet"#])
        .arg(env::current_exe().unwrap())
        .env(VARIABLE, &path)
        // A pipe: what it prints must not go to a file that has grown beyond the limit already.
        .output()
        .unwrap();
    assert!(limited.status.success(), "{limited:?}");
    let (journal, opened) = Journal::open(&path).unwrap();
    assert!(opened.answers > 100 && opened.repaired_bytes.is_none(), "{opened:?}");
    let model = journal.register_model(&identity("a")).unwrap();
    let missing = opened.answers..2000;
    missing.for_each(|number| journal.append_blocking(entry(model, number)).unwrap());
    assert!((0..2000).all(|number| is_answered(&journal, model, number)));
}

/// What runs in the process that is limited: a compaction that does not fit.
#[test]
fn compacting_child() {
    let Ok(path) = env::var(VARIABLE) else { return };
    let error = compact(Path::new(&path)).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Write { .. }));
}

#[test]
fn compacting_on_a_full_disk_leaves_the_journal_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.journal");
    filled(&path, 500).0.close().unwrap();
    let before = fs_err::read(&path).unwrap();
    let limited = Command::new("bash")
        .args(["-c", r#"trap "" XFSZ; ulimit -f 8; exec "$0" full_disk::compacting_child --exact --quiet"#])
        .arg(env::current_exe().unwrap())
        .env(VARIABLE, &path)
        // A pipe: what it prints must not go to a file that has grown beyond the limit already.
        .output()
        .unwrap();
    assert!(limited.status.success(), "{limited:?}");
    assert_eq!(fs_err::read(&path).unwrap(), before);
    let mut names: Vec<_> =
        fs_err::read_dir(folder.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["a.journal", "a.journal.lock"]);
}

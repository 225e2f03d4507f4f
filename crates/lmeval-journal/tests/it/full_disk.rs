//! A file that cannot grow, as on a full disk.
#![cfg(target_os = "linux")]

use std::env;
use std::path::Path;
use std::process::Command;

use lmeval_core::Diagnose as _;
use lmeval_journal::{ErrorKind, Journal, compact, verify};

use crate::support::{entry, filled, identity, is_answered};

const VARIABLE: &str = "LM_EVAL_JOURNAL_FULL_TEST";

/// The child process, which has a size limit: appends until it fails, and continues.
#[test]
fn child() {
    let Ok(path) = env::var(VARIABLE) else { return };
    let (journal, _) = Journal::open(Path::new(&path)).unwrap();
    let model = journal.register_model(&identity("a")).unwrap();
    let failed =
        (0..2000).find_map(|number| journal.append_blocking(entry(model, number)).err().map(|e| (number, e)));
    let (written, error) = failed.unwrap();
    assert!(matches!(error.kind(), ErrorKind::Write { .. }));
    assert_eq!(error.hints(), ["Free some space and run again; all answers so far are saved"]);
    assert!((0..2000).all(|number| is_answered(&journal, model, number) == (number < written)));
    journal.append_blocking(entry(model, written)).unwrap_err();
    journal.close().unwrap();
    let answers = verify(Path::new(&path)).unwrap();
    assert!(answers.is_sound());
    assert_eq!(answers.answers, written);
}

#[test]
fn full_disk_is_an_error_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.journal");
    // The signal is ignored, so that an oversized write fails instead of killing the process.
    let limited = Command::new("bash")
        .args(["-c", r#"trap "" XFSZ; ulimit -f 32; exec "$0" full_disk::child --exact --quiet"#])
        .arg(env::current_exe().unwrap())
        .env(VARIABLE, &path)
        // A pipe, because an output file could already exceed the size limit.
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

/// The child process, which has a size limit: a compaction that does not fit.
#[test]
fn compacting_child() {
    let Ok(path) = env::var(VARIABLE) else { return };
    let error = compact(Path::new(&path)).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Write { .. }));
}

#[test]
fn failed_compaction_leaves_journal_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.journal");
    filled(&path, 500).0.close().unwrap();
    let before = fs_err::read(&path).unwrap();
    let limited = Command::new("bash")
        .args(["-c", r#"trap "" XFSZ; ulimit -f 8; exec "$0" full_disk::compacting_child --exact --quiet"#])
        .arg(env::current_exe().unwrap())
        .env(VARIABLE, &path)
        // A pipe, because an output file could already exceed the size limit.
        .output()
        .unwrap();
    assert!(limited.status.success(), "{limited:?}");
    assert_eq!(fs_err::read(&path).unwrap(), before);
    let mut names: Vec<_> =
        fs_err::read_dir(folder.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["a.journal", "a.journal.lock"]);
}

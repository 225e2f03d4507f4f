//! Any bytes open as a journal, possibly a damaged one, or are an error; opening it twice finds the same answers.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lmeval_journal::{Journal, verify};

fuzz_target!(|bytes: &[u8]| {
    let folder = tempfile::tempdir().expect("the disk has space");
    let path = folder.path().join("a.journal");
    std::fs::write(&path, bytes).expect("the disk has space");
    let _ = verify(&path);
    let Ok((journal, first)) = Journal::open(&path) else { return };
    journal.close().expect("the disk has space");
    let (_, second) = Journal::open(&path).expect("it was opened before");
    assert_eq!(first.answers, second.answers);
});

//! Any bytes are a journal, a damaged one, or an error; opening one twice finds the same answers.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lmeval_journal::{Journal, verify};

fuzz_target!(|bytes: &[u8]| {
    let folder = tempfile::tempdir().expect("there is room");
    let path = folder.path().join("a.journal");
    std::fs::write(&path, bytes).expect("there is room");
    let _ = verify(&path);
    let Ok((journal, first)) = Journal::open(&path) else { return };
    journal.close().expect("there is room");
    let (_, second) = Journal::open(&path).expect("it was opened before");
    assert_eq!(first.answers, second.answers);
});

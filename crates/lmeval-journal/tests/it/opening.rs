//! Journals that can and cannot be opened.

use std::process::Command;
use std::sync::Arc;

use lmeval_core::Diagnose as _;
use lmeval_journal::{ErrorKind, Journal, verify};

use crate::support::{entry, failure, filled, identity, is_answered, key, kind};

#[test]
fn folders_are_created_and_answers_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("some/where/a.journal");
    let (journal, model) = filled(&path, 30);
    assert!((0..31).all(|number| is_answered(&journal, model, number) == (number < 30)));
    journal.append_blocking(failure(model, 30)).unwrap();
    journal.append_blocking(failure(model, 3)).unwrap();
    journal.close().unwrap();
    let (journal, opened) = Journal::open(&path).unwrap();
    assert_eq!((opened.answers, opened.failures), (30, 1));
    assert!(opened.is_exclusive);
    // A failure after an answer does not take it away.
    assert!((0..31).all(|number| is_answered(&journal, model, number) == (number < 30)));
    journal.append_blocking(entry(model, 30)).unwrap();
    assert_eq!(journal.counts(), (31, 0));
}

#[test]
fn no_model_gets_the_answers_of_another() {
    let folder = tempfile::tempdir().unwrap();
    let (journal, model) = filled(&folder.path().join("a.journal"), 3);
    let other = journal.register_model(&identity("b")).unwrap();
    assert_ne!(model, other);
    for number in 0..3 {
        assert_eq!(journal.get(&key(other, number), kind(number)).unwrap(), None);
    }
}

#[test]
fn a_model_is_written_down_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.journal");
    let size = || fs_err::metadata(&path).unwrap().len();
    filled(&path, 0).0.close().unwrap();
    let before = size();
    filled(&path, 0).0.close().unwrap();
    assert_eq!(size(), before);
}

#[test]
fn a_fresh_journal_forgets() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.journal");
    let (journal, model) = filled(&path, 3);
    journal.close().unwrap();
    let (journal, opened) = Journal::open_fresh(&path).unwrap();
    assert_eq!((opened.answers, opened.bytes), (0, 16));
    assert!(!is_answered(&journal, model, 0));
    journal.append_blocking(entry(model, 1)).unwrap();
    journal.close().unwrap();
    assert_eq!(Journal::open(&path).unwrap().1.answers, 1);
}

#[test]
fn files_of_other_kinds_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.journal");
    for content in [b"SQLite format 3\0 and more".as_slice(), b"{}", b"LMEVJRNL-newer!!!!!"] {
        fs_err::write(&path, content).unwrap();
        Journal::open(&path).unwrap_err();
        verify(&path).unwrap_err();
        assert_eq!(fs_err::read(&path).unwrap(), content);
    }
    fs_err::write(&path, "notes").unwrap();
    let error = Journal::open_fresh(&path).unwrap_err();
    let expected = format!("`{}` is a file of another kind, not a journal of answers", path.display());
    assert_eq!(error.to_string(), expected);
    assert_eq!(fs_err::read_to_string(&path).unwrap(), "notes");
}

#[test]
fn a_second_writer_learns_who_is_first() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.journal");
    let (journal, _) = filled(&path, 1);
    for result in [Journal::open(&path), Journal::open_fresh(&path)] {
        let error = result.unwrap_err();
        let expected = format!("is in use by process {} on ", std::process::id());
        assert!(error.to_string().contains(&expected), "{error}");
        assert_eq!(error.hints(), ["Wait until it has ended, or use another --output_path or --use_cache"]);
    }
    assert!(matches!(lmeval_journal::compact(&path).unwrap_err().kind(), ErrorKind::Locked { .. }));
    // Reading goes on meanwhile.
    assert_eq!(verify(&path).unwrap().answers, 1);
    drop(journal);
    Journal::open(&path).unwrap();
}

#[cfg(unix)]
#[test]
fn a_link_leads_to_the_same_lock() {
    let folder = tempfile::tempdir().unwrap();
    let (path, link) = (folder.path().join("a.journal"), folder.path().join("b.journal"));
    let (journal, model) = filled(&path, 1);
    std::os::unix::fs::symlink(&path, &link).unwrap();
    assert!(matches!(Journal::open(&link).unwrap_err().kind(), ErrorKind::Locked { .. }));
    journal.close().unwrap();
    lmeval_journal::compact(&link).unwrap();
    assert!(fs_err::symlink_metadata(&link).unwrap().is_symlink());
    assert!(is_answered(&Journal::open(&path).unwrap().0, model, 0));
}

#[cfg(unix)]
#[test]
fn a_folder_that_cannot_be_written_to_is_an_error() {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().unwrap();
    let closed = folder.path().join("closed");
    let path = closed.join("a.journal");
    filled(&path, 2).0.close().unwrap();
    fs_err::remove_file(closed.join("a.journal.lock")).unwrap();
    let permit = |mode| fs_err::set_permissions(&closed, PermissionsExt::from_mode(mode)).unwrap();
    permit(0o555);
    let is_privileged = fs_err::write(closed.join("probe"), "").is_ok();
    let result = Journal::open(&path);
    permit(0o755);
    if is_privileged {
        drop(result);
    } else {
        let error = result.unwrap_err();
        assert_eq!(error.to_string(), format!("Cannot create `{}.lock`", path.display()));
        let hint = "Use a folder that can be written to: another --output_path or --use_cache";
        assert_eq!(error.hints(), [hint]);
    }
    assert_eq!(Journal::open(&path).unwrap().1.answers, 2);
    // A file where a folder should be is in the way of every user.
    let error = Journal::open(&path.join("b.journal")).unwrap_err();
    assert_eq!(error.to_string(), format!("Cannot create the folder `{}`", path.display()));
}

#[test]
fn the_lock_ends_with_its_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.journal");
    // What a killed process leaves behind: a lock file with its name in it.
    fs_err::write(folder.path().join("a.journal.lock"), "process 1 on elsewhere since long ago\n").unwrap();
    let (journal, model) = filled(&path, 1);
    // A child that outlives the run does not hold the lock for it.
    let mut child = Command::new("sleep").arg("30").spawn().unwrap();
    drop(journal);
    let reopened = Journal::open(&path);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(is_answered(&reopened.unwrap().0, model, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_tasks_append_and_read_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.journal");
    let (journal, model) = filled(&path, 0);
    let journal = Arc::new(journal);
    let tasks: Vec<_> = (0..64)
        .map(|task| {
            let journal = Arc::clone(&journal);
            tokio::spawn(async move {
                for number in (task..6400).step_by(64) {
                    journal.append(entry(model, number)).await.unwrap();
                    assert!(is_answered(&journal, model, number));
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(journal.counts(), (6400, 0));
    Arc::into_inner(journal).unwrap().close().unwrap();
    let verification = verify(&path).unwrap();
    assert_eq!((verification.records, verification.answers), (6401, 6400));
    assert!(verification.is_sound());
}

#[tokio::test]
async fn a_cancelled_append_does_no_harm() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.journal");
    let (journal, model) = filled(&path, 0);
    for number in 0..50 {
        tokio::select! {
            biased;
            _ = journal.append(entry(model, number)) => {}
            () = std::future::ready(()) => {}
        }
    }
    journal.append(entry(model, 50)).await.unwrap();
    // One after the other: the last one is behind all others.
    assert!((0..51).all(|number| is_answered(&journal, model, number)));
}

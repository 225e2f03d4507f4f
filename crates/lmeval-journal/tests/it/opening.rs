//! Opening journals, with and without success.

use std::process::Command;
use std::sync::Arc;

use lmeval_core::Diagnose as _;
use lmeval_journal::{ErrorKind, Journal, verify};

use crate::support::{entry, failure, filled, identity, is_answered, key, kind};

#[test]
fn creates_folders_and_reads_answers_back() {
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
    // A failure after an answer does not replace it.
    assert!((0..31).all(|number| is_answered(&journal, model, number) == (number < 30)));
    journal.append_blocking(entry(model, 30)).unwrap();
    assert_eq!(journal.counts(), (31, 0));
}

#[test]
fn answers_are_per_model() {
    let folder = tempfile::tempdir().unwrap();
    let (journal, model) = filled(&folder.path().join("a.journal"), 3);
    let other = journal.register_model(&identity("b")).unwrap();
    assert_ne!(model, other);
    for number in 0..3 {
        assert_eq!(journal.get(&key(other, number), kind(number)).unwrap(), None);
    }
}

#[test]
fn records_each_model_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.journal");
    let size = || fs_err::metadata(&path).unwrap().len();
    filled(&path, 0).0.close().unwrap();
    let before = size();
    filled(&path, 0).0.close().unwrap();
    assert_eq!(size(), before);
}

#[test]
fn open_fresh_discards_content() {
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
fn leaves_other_files_alone() {
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
    let expected = format!("`{}` is an unknown kind of file, not an answer journal", path.display());
    assert_eq!(error.to_string(), expected);
    assert_eq!(fs_err::read_to_string(&path).unwrap(), "notes");
}

#[test]
fn second_writer_fails_with_holder() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.journal");
    let (journal, _) = filled(&path, 1);
    for result in [Journal::open(&path), Journal::open_fresh(&path)] {
        let error = result.unwrap_err();
        let expected = format!("is in use by process {} on ", std::process::id());
        assert!(error.to_string().contains(&expected), "{error}");
        assert_eq!(error.hints(), ["Wait for it to finish, or use another --output_path or --use_cache"]);
    }
    assert!(matches!(lmeval_journal::compact(&path).unwrap_err().kind(), ErrorKind::Locked { .. }));
    // Readers are not locked out.
    assert_eq!(verify(&path).unwrap().answers, 1);
    drop(journal);
    Journal::open(&path).unwrap();
}

#[cfg(unix)]
#[test]
fn link_shares_the_lock() {
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
fn unwritable_folder_is_an_error() {
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
        let hint = "Use a writable folder: set another --output_path or --use_cache";
        assert_eq!(error.hints(), [hint]);
    }
    assert_eq!(Journal::open(&path).unwrap().1.answers, 2);
    // A file in the place of a folder fails for privileged users too.
    let error = Journal::open(&path.join("b.journal")).unwrap_err();
    assert_eq!(error.to_string(), format!("Cannot create the folder `{}`", path.display()));
}

#[test]
fn lock_ends_with_its_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.journal");
    // A lock file left by a killed process, with its name in it.
    fs_err::write(folder.path().join("a.journal.lock"), "process 1 on elsewhere since long ago\n").unwrap();
    let (journal, model) = filled(&path, 1);
    // A child process that outlives the run does not inherit the lock.
    let mut child = Command::new("sleep").arg("30").spawn().unwrap();
    drop(journal);
    let reopened = Journal::open(&path);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(is_answered(&reopened.unwrap().0, model, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn appends_and_reads_concurrently() {
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
async fn cancelled_append_is_harmless() {
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
    // Appends are ordered, so all others were written before the last one.
    assert!((0..51).all(|number| is_answered(&journal, model, number)));
}

//! Processes killed while they write.

use std::collections::HashSet;
use std::env;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use lmeval_journal::{Fingerprint, Journal, verify};
use lmeval_testkit::Dice;

use crate::support::{entry, identity, is_answered};

const REQUESTS: usize = 3000;
const VARIABLE: &str = "LM_EVAL_JOURNAL_KILL_TEST";

/// The child process: appends the answers that the journal does not have yet.
#[test]
fn child() {
    let Ok(path) = env::var(VARIABLE) else { return };
    let (journal, opened) = Journal::open(Path::new(&path)).unwrap();
    assert!(opened.damage.is_empty());
    let model = journal.register_model(&identity("a")).unwrap();
    thread::scope(|scope| {
        for first in 0..4 {
            let journal = &journal;
            scope.spawn(move || answer_all(journal, model, first));
        }
    });
    journal.close().unwrap();
    print_line("done");
}

fn answer_all(journal: &Journal, model: Fingerprint, first: usize) {
    for number in (first..REQUESTS).step_by(4) {
        if !is_answered(journal, model, number) {
            print_line(&format!("sent {number}"));
            journal.append_blocking(entry(model, number)).unwrap();
            print_line(&format!("answered {number}"));
        }
    }
}

fn print_line(line: &str) {
    let mut output = std::io::stdout().lock();
    writeln!(output, "# {line}").unwrap();
    output.flush().unwrap();
}

#[test]
fn resumes_after_kill() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.journal");
    let mut answered: HashSet<usize> = HashSet::new();
    let mut dice = Dice::new(u64::from(std::process::id()));
    for round in 0.. {
        assert!(round < 2000, "no progress");
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["kill::child", "--exact", "--nocapture"])
            .env(VARIABLE, &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        // Usually killed after some lines and a pause; a large limit lets a run make progress.
        let limit = dice.roll(600);
        let pause = Duration::from_micros(dice.roll(3000) as u64);
        let mut killer = Some(child);
        let mut lines = 0;
        let mut is_done = false;
        for line in output.lines() {
            let line = line.unwrap();
            let Some((_, printed)) = line.split_once("# ") else { continue };
            match printed.split_once(' ') {
                Some(("sent", number)) => {
                    let number: usize = number.parse().unwrap();
                    assert!(!answered.contains(&number), "request {number} was sent again");
                }
                Some(("answered", number)) => assert!(answered.insert(number.parse().unwrap())),
                _ => is_done = printed == "done",
            }
            lines += 1;
            if lines > limit
                && let Some(mut child) = killer.take()
            {
                thread::sleep(pause);
                child.kill().unwrap();
                child.wait().unwrap();
            }
        }
        if let Some(mut child) = killer {
            child.wait().unwrap();
        }
        let problems = verify(&path).unwrap().problems;
        assert!(problems.len() <= 1, "{problems:?}");
        if is_done {
            break;
        }
    }
    let (journal, opened) = Journal::open(&path).unwrap();
    assert_eq!(opened.answers, REQUESTS);
    assert!(opened.damage.is_empty() && opened.repaired_bytes.is_none());
    let model = Fingerprint::of(&identity("a"));
    assert!((0..REQUESTS).all(|number| is_answered(&journal, model, number)));
}

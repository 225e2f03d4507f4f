//! Checkpoints are evaluated exactly once, whatever happens to those who write and those who watch.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use lmeval_journal::Lock;
use lmeval_testkit::{Dice, TestContext, fuzz_seed};
use serde_json::Value;

use crate::context;
use crate::hf;
use crate::watch::{results, weights, words, write_checkpoint, write_task};
use crate::workers::kill as signal;

/// Restarts of the watcher.
const RESTARTS: usize = 20;

/// How a checkpoint is written.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// File by file and piece by piece under its name, weights last.
    Slow,
    /// Under a temporary name, which becomes its own.
    Renamed,
    /// The writer is killed in the middle of the weights.
    Killed,
}

/// Checkpoints in odd order: the step, and how it is written.
const PLAN: [(u64, Way); 10] = [
    (500, Way::Slow),
    (100, Way::Renamed),
    (900, Way::Killed),
    (300, Way::Slow),
    (200, Way::Slow),
    (1000, Way::Renamed),
    (400, Way::Killed),
    (600, Way::Slow),
    (50, Way::Renamed),
    (800, Way::Slow),
];

/// Writes a checkpoint as slowly as a network file system.
fn write(ck: &Path, step: u64, way: Way) {
    let name = format!("checkpoint-{step}");
    let folder = match way {
        Way::Renamed => ck.join(format!("tmp-{name}")),
        Way::Slow | Way::Killed => ck.join(&name),
    };
    fs_err::create_dir_all(&folder).unwrap();
    let weights = weights(step as f32 / 2000.0);
    let end = if matches!(way, Way::Killed) { weights.len() * 2 / 3 } else { weights.len() };
    let mut files: Vec<(&str, Vec<u8>)> = ["config.json", "tokenizer.json", "tokenizer_config.json"]
        .map(|name| (name, fs_err::read(hf::model().join(name)).unwrap()))
        .to_vec();
    files.push(("model.safetensors", weights[..end].to_vec()));
    for (name, content) in files {
        let mut file = fs_err::File::create(folder.join(name)).unwrap();
        for piece in content.chunks(content.len().div_ceil(6)) {
            file.write_all(piece).unwrap();
            file.flush().unwrap();
            thread::sleep(Duration::from_millis(4));
        }
    }
    if matches!(way, Way::Renamed) {
        fs_err::rename(folder, ck.join(name)).unwrap();
    }
}

/// Kills a watcher, and half of the time what it has started.
fn kill(child: &mut Child, with_children: bool) {
    if with_children {
        let list = format!("/proc/{0}/task/{0}/children", child.id());
        let children = fs_err::read_to_string(list).unwrap_or_default();
        child.kill().unwrap();
        for id in children.split_whitespace() {
            // It may have ended.
            let _ = Command::new("kill").args(["-9", id]).status();
        }
    } else {
        child.kill().unwrap();
    }
    child.wait().unwrap();
}

/// Waits until no evaluation of a killed watcher is left, which a new one would wait for as well.
fn evaluated(context: &TestContext) -> BTreeMap<u64, usize> {
    let folder = context.work().join("ck/lm-eval/checkpoints");
    let names = fs_err::read_dir(folder)
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut found = BTreeMap::new();
    for name in names {
        let path = context.work().join("ck/lm-eval/checkpoints").join(&name).join("checkpoint.json");
        let Ok(text) = fs_err::read_to_string(path) else { continue };
        let record: Value = serde_json::from_str(&text).unwrap();
        *found.entry(record["step"].as_u64().unwrap()).or_insert(0) += results(context, &name).len();
    }
    found
}

#[test]
fn slow_renamed_and_killed_writers_and_twenty_restarts() {
    let context = context();
    write_task(&context, 24, |_| 1);
    let ck = context.work().join("ck");
    fs_err::create_dir_all(&ck).unwrap();
    let is_over = AtomicBool::new(false);
    let mut dice = Dice::new(fuzz_seed(11));
    thread::scope(|scope| {
        scope.spawn(|| {
            for (step, way) in PLAN {
                write(&ck, step, way);
            }
            // One is renamed when it may have been evaluated, or may be evaluated now.
            fs_err::rename(ck.join("checkpoint-500"), ck.join("step_500")).unwrap();
            is_over.store(true, Ordering::SeqCst);
        });
        for restart in 0..RESTARTS {
            let mut child = context.command(&words(&["--latest"])).spawn();
            // Long enough for an evaluation every now and then.
            thread::sleep(Duration::from_millis(40 + dice.roll(500) as u64));
            assert!(child.try_wait().unwrap().is_none(), "a watcher without an end ended");
            kill(&mut child, restart % 2 == 0);
        }
    });
    assert!(is_over.load(Ordering::SeqCst));
    let output = context.run(&words(&["--once"]));
    assert!(matches!(output.status, 0 | 1), "{output}");
    let complete: BTreeMap<u64, usize> =
        PLAN.iter().filter(|(_, way)| !matches!(way, Way::Killed)).map(|(step, _)| (*step, 1)).collect();
    assert_eq!(evaluated(&context), complete, "{output}");
    for step in [400, 900] {
        assert!(
            output.stderr.contains(&format!("Not evaluated: `checkpoint-{step}`: `model.safetensors` has ")),
            "{output}"
        );
    }
    // Every answer is there once: a resumed evaluation takes those of the killed one.
    let journal =
        context.run(&["journal", "verify", "ck/lm-eval/checkpoints/checkpoint-1000/results.journal"]);
    assert_eq!(journal.status, 0, "{journal}");
}

#[test]
fn watchers_of_one_folder_share_the_work() {
    let context = context();
    write_task(&context, 8, |_| 1);
    let ck = context.work().join("ck");
    for step in 1..=6 {
        write_checkpoint(&ck.join(format!("checkpoint-{step}")), step as f32 / 20.0);
    }
    // Somebody evaluates all but the first one.
    let claim = |step: u64| {
        let claimed = ck.join(format!("lm-eval/checkpoints/checkpoint-{step}"));
        fs_err::create_dir_all(&claimed).unwrap();
        let lock = fs_err::File::create(claimed.join("evaluation.lock")).unwrap();
        lock.file().lock().unwrap();
        lock
    };
    let mut locks: BTreeMap<u64, _> = (2..=6).map(|step| (step, claim(step))).collect();
    let is_evaluated = |step: u64| !results(&context, &format!("checkpoint-{step}")).is_empty();
    let wait_for = |step: u64| {
        let start = Instant::now();
        while !is_evaluated(step) {
            assert!(start.elapsed() < Duration::from_mins(2), "checkpoint {step} is not evaluated");
            thread::sleep(Duration::from_millis(10));
        }
    };
    let first = context.command(&words(&["--once"])).spawn_piped();
    wait_for(1);
    // While the first watcher is stopped, the second one takes what is free. It must not be stopped while it writes the curve.
    signal("-STOP", first.id());
    while Lock::acquire(&ck.join("lm-eval/curve")).is_err() {
        signal("-CONT", first.id());
        thread::sleep(Duration::from_millis(10));
        signal("-STOP", first.id());
    }
    let second = context.command(&words(&["--once", "--latest"])).spawn_piped();
    locks.remove(&6);
    wait_for(6);
    signal("-CONT", first.id());
    locks.retain(|step, _| *step == 3);
    [2, 4, 5].into_iter().for_each(wait_for);
    assert!(!is_evaluated(3));
    drop(locks);
    let mut told = Vec::new();
    for watcher in [first, second] {
        let output = watcher.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{text}");
        told.push(text.matches("Results saved to").count());
    }
    assert!(told.iter().sum::<usize>() == 6 && told.iter().all(|own| *own > 0), "{told:?}");
    for step in 1..=6 {
        assert_eq!(results(&context, &format!("checkpoint-{step}")).len(), 1, "{step}");
    }
}

#[test]
fn changed_weights_are_evaluated_again_and_other_files_are_not() {
    let context = context();
    write_task(&context, 4, |_| 1);
    let folder = context.work().join("ck/checkpoint-5");
    write_checkpoint(&folder, 0.1);
    let once = || context.run(&words(&["--once"]));
    assert_eq!(once().status, 0);
    fs_err::write(folder.join("optimizer.pt"), "state").unwrap();
    let output = once();
    assert!(!output.stderr.contains("Evaluating"), "{output}");
    write_checkpoint(&folder, 0.9);
    let output = once();
    assert!(
        output.stderr.contains("`checkpoint-5` has other weights")
            && output.stderr.contains("Evaluating step 5"),
        "{output}"
    );
    assert_eq!(results(&context, "checkpoint-5").len(), 2);
    let output = once();
    assert!(!output.stderr.contains("Evaluating"), "{output}");
}

#[test]
fn a_checkpoint_that_vanishes_is_named() {
    let context = context();
    write_task(&context, 4, |_| 1);
    let ck = context.work().join("ck");
    write_checkpoint(&ck.join("checkpoint-5"), 0.1);
    let mut words = words(&["--until-idle", "1"]);
    // It is complete, and its files may still change.
    let settle = words.iter().position(|word| *word == "--settle").unwrap();
    words[settle + 1] = "60";
    let watcher = context.command(&words).spawn_piped();
    let curve = ck.join("lm-eval/curve.steps.json");
    let start = Instant::now();
    while !fs_err::read_to_string(&curve).is_ok_and(|text| text.contains("may still change")) {
        assert!(start.elapsed() < Duration::from_mins(1), "the checkpoint was not seen");
        thread::sleep(Duration::from_millis(10));
    }
    fs_err::remove_dir_all(ck.join("checkpoint-5")).unwrap();
    let output = watcher.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("`checkpoint-5` vanished before it was evaluated"), "{text}");
    // Also while nobody watches.
    write_checkpoint(&ck.join("checkpoint-6"), 0.1);
    let mut watcher = context.command(&words).spawn();
    while !fs_err::read_to_string(&curve).is_ok_and(|text| text.contains("checkpoint-6")) {
        assert!(start.elapsed() < Duration::from_mins(2), "the checkpoint was not seen");
        thread::sleep(Duration::from_millis(10));
    }
    kill(&mut watcher, false);
    fs_err::remove_dir_all(ck.join("checkpoint-6")).unwrap();
    let output = context.run(&words);
    assert_eq!(output.status, 1, "{output}");
    assert!(output.stderr.contains("`checkpoint-6` vanished before it was evaluated"), "{output}");
}

/// A watcher runs for weeks, and its program may be upgraded meanwhile.
#[cfg(target_os = "linux")]
#[test]
fn a_replaced_program_goes_on() {
    let outer = context();
    let program = outer.work().join("lm-eval");
    fs_err::copy(env!("CARGO_BIN_EXE_lm-eval"), &program).unwrap();
    let context = TestContext::new(&program);
    write_task(&context, 4, |_| 1);
    let ck = context.work().join("ck");
    fs_err::create_dir_all(&ck).unwrap();
    let mut watcher = context.command(&words(&[])).spawn();
    let start = Instant::now();
    let wait = |is_there: &dyn Fn() -> bool| {
        while !is_there() {
            assert!(start.elapsed() < Duration::from_mins(1), "nothing happened");
            thread::sleep(Duration::from_millis(10));
        }
    };
    wait(&|| ck.join("lm-eval/curve.steps.json").exists());
    fs_err::remove_file(&program).unwrap();
    fs_err::write(&program, "another version").unwrap();
    write_checkpoint(&ck.join("checkpoint-5"), 0.1);
    wait(&|| !results(&context, "checkpoint-5").is_empty());
    kill(&mut watcher, true);
}

#[cfg(unix)]
#[test]
fn an_interrupted_watcher_ends_in_order() {
    let context = context();
    write_task(&context, 4, |_| 1);
    let ck = context.work().join("ck");
    write_checkpoint(&ck.join("checkpoint-5"), 0.1);
    let watcher = context.command(&words(&[])).spawn_piped();
    let start = Instant::now();
    while results(&context, "checkpoint-5").is_empty() {
        assert!(start.elapsed() < Duration::from_mins(1), "nothing was evaluated");
        thread::sleep(Duration::from_millis(10));
    }
    assert!(Command::new("kill").arg(watcher.id().to_string()).status().unwrap().success());
    let output = watcher.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{text}");
    let curve = fs_err::read_to_string(ck.join("lm-eval/curve.steps.json")).unwrap();
    assert!(curve.contains("\"is_live\":false") && curve.contains("\"step\":5"), "{curve}");
}

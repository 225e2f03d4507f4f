//! Runs whose data changes or whose stored answers are damaged.

use lmeval_testkit::{ServerOptions, StandInServer, TestContext};

use crate::context;
use crate::long_run::{newest, write_task};
use crate::shards::{long_run, merge, refused, run_shard, run_shards, words};

/// Replaces a string in a file.
fn replace(context: &TestContext, file: &str, from: &str, to: &str) {
    let path = context.work().join(file);
    let text = fs_err::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{text}");
    fs_err::write(path, text.replacen(from, to, 1)).unwrap();
}

const OWN: &str = "task: own\ndataset_path: json\n\
    dataset_kwargs: {data_files: {test: own.jsonl, train: examples.jsonl}}\ntest_split: test\n\
    fewshot_split: train\noutput_type: multiple_choice\ndoc_to_text: '{{q}}'\ndoc_to_choice: [a, b]\ndoc_to_target: y\n";

/// A folder with the data of a task.
fn with_data() -> TestContext {
    let context = context();
    let rows = |start: usize| {
        (start..start + 6).map(|q| format!("{{\"q\": \"q{q}\", \"y\": 0}}\n")).collect::<Vec<_>>().concat()
    };
    context.write("own.jsonl", rows(10));
    context.write("examples.jsonl", rows(20));
    context
}

/// Runs both shards of a task, with a change of its data between them.
fn changed_between(words: &[&str], file: &str, from: &str, to: &str) -> TestContext {
    let context = with_data();
    context.write("own.yaml", OWN);
    let words = [&["run", "--model", "uniform", "--tasks", "own.yaml"][..], words].concat();
    assert_eq!(run_shard(&context, &words, "out", 1, 2).status, 0);
    replace(&context, file, from, to);
    assert_eq!(run_shard(&context, &words, "out", 2, 2).status, 0);
    context
}

#[test]
fn shards_of_other_data_are_refused() {
    let texts = [
        "not of the same run",
        "documents, few-shot examples or prompts of `own`",
        "same version of the dataset",
    ];
    for document in 10..16 {
        let from = format!("\"q{document}\", \"y\": 0");
        // The prompt, or only the target, of one document.
        for to in ["\"q99\", \"y\": 0".to_owned(), from.replace(": 0", ": 1")] {
            refused(&changed_between(&[], "own.jsonl", &from, &to), &["out"], &texts);
        }
    }
    let examples = changed_between(&["--num_fewshot", "6"], "examples.jsonl", "q21", "q98");
    refused(&examples, &["out"], &texts);
    // Data that is not used may change.
    let unused = changed_between(&[], "examples.jsonl", "q21", "q98");
    let merged = merge(&unused, &["out", "-o", "merged"]);
    assert_eq!(merged.status, 0, "{merged}");
    let unused = changed_between(&["--limit", "4"], "own.jsonl", "q15", "q98");
    let merged = merge(&unused, &["out", "-o", "merged"]);
    assert_eq!(merged.status, 0, "{merged}");
}

#[test]
fn shards_of_other_prompts_are_refused() {
    let Some(_python) = lmeval_testkit::test_environment() else { return };
    for words in [&[][..], &["--num_fewshot", "2"]] {
        let run = |second: &str| {
            let context = with_data();
            context.write("utils.py", "def text(doc):\n    return 'Q: ' + doc['q']\n");
            context.write("own.yaml", OWN.replace("'{{q}}'", "!function utils.text"));
            let words = [&["run", "--model", "uniform", "--tasks", "own.yaml"][..], words].concat();
            assert_eq!(run_shard(&context, &words, "out", 1, 2).status, 0);
            replace(&context, "utils.py", "Q: ", second);
            assert_eq!(run_shard(&context, &words, "out", 2, 2).status, 0);
            context
        };
        refused(&run("Question: "), &["out"], &["documents, few-shot examples or prompts of `own`"]);
        assert_eq!(merge(&run("Q: "), &["out", "-o", "merged"]).status, 0);
    }
}

#[test]
fn judges_of_a_settings_file_are_merged() {
    let context = context();
    context.write("run.yaml", "judge:\n  grader: {backend: stand-in-judge}\n");
    let words = ["run", "--model", "ngram", "--tasks", "demo_judge", "--limit", "6", "--config", "run.yaml"];
    run_shards(&context, &words, "out", 2);
    let merged = merge(&context, &["out", "-o", "merged"]);
    assert_eq!(merged.status, 0, "{merged}");
}

#[test]
fn every_flipped_bit_of_stored_answers_is_found() {
    let context = context();
    run_shards(
        &context,
        &["run", "--model", "uniform", "--tasks", "demo_capitals", "--limit", "8"],
        "out",
        2,
    );
    let path = newest(&context.work().join("out/shard-2-of-2"), "answers_demo_capitals");
    let sound = fs_err::read(&path).unwrap();
    let step = (sound.len() * 8 / 60).max(1) | 1;
    for bit in (0..sound.len() * 8).step_by(step) {
        let mut damaged = sound.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        fs_err::write(&path, damaged).unwrap();
        let merged = merge(&context, &["out", "-o", "merged"]);
        assert_eq!(merged.status, 1, "bit {bit}: {merged}");
        assert!(merged.stderr.contains("answers_demo_capitals.jsonl"), "bit {bit}: {merged}");
    }
    // A sound file of another run has other answers.
    run_shards(
        &context,
        &["run", "--model", "uniform", "--tasks", "demo_capitals", "--limit", "7"],
        "other",
        2,
    );
    let other = newest(&context.work().join("other/shard-2-of-2"), "answers_demo_capitals");
    fs_err::copy(other, &path).unwrap();
    refused(&context, &["out"], &["answers_demo_capitals.jsonl"]);
    fs_err::write(&path, sound).unwrap();
    let merged = merge(&context, &["out", "-o", "merged"]);
    assert_eq!(merged.status, 0, "{merged}");
}

#[test]
fn resumed_and_rescored_runs_say_that_their_data_has_changed() {
    let context = context();
    write_task(&context, 10);
    let server = StandInServer::start(ServerOptions::default());
    let arguments = long_run(&server, "");
    let words = words(&arguments);
    let run = |more: &[&str]| context.run(&[&words[..], &["--output_path", "out"], more].concat());
    let rescore = || {
        context.run(&["rescore", "out/m", "--tasks", "long", "--include_path", "tasks", "--library", "none"])
    };
    let changed = "The data of `long` has changed since";
    for more in [&[][..], &["--shard", "1/2"]] {
        for _ in 0..2 {
            let output = run(more);
            assert_eq!(output.status, 0, "{output}");
            assert!(!output.stderr.contains(changed), "{output}");
        }
    }
    let output = rescore();
    assert_eq!(output.status, 0, "{output}");
    assert!(!output.stderr.contains(changed), "{output}");
    // Another choice of documents is not other data.
    let output = run(&["--limit", "5"]);
    assert!(!output.stderr.contains(changed), "{output}");
    replace(&context, "tasks/long.jsonl", "\"a\": \"yes\"", "\"a\": \"no\"");
    fs_err::remove_file(newest(&context.work().join("out/m"), "results_")).unwrap();
    let output = rescore();
    assert_eq!(output.status, 0, "{output}");
    assert!(output.stderr.contains(changed), "{output}");
    for more in [&[][..], &["--shard", "1/2"]] {
        let output = run(more);
        assert_eq!(output.status, 0, "{output}");
        assert!(output.stderr.contains(changed), "{output}");
        // Said once: from now on this is the data of the journal.
        assert!(!run(more).stderr.contains(changed));
    }
}

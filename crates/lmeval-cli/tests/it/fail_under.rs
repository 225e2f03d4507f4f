//! `lm-eval run --fail_under`.

use lmeval_testkit::Output;

use crate::context;

/// Runs the n-gram model on a task with thresholds.
fn run(task: &str, words: &[&str]) -> Output {
    context().run(&[&["run", "--model", "ngram", "--tasks", task, "--output_path", "out"], words].concat())
}

#[test]
fn a_score_below_the_threshold_fails_after_the_results_are_written() {
    let context = context();
    let base = ["run", "--model", "ngram", "--tasks", "demo_capitals", "--output_path", "out"];
    let thresholds = ["--fail-under", "demo_capitals:acc=0.5", "--fail_under", "demo_capitals:acc_norm=0.2"];
    let output = context.run(&[&base[..], &thresholds].concat());
    assert_eq!(output.status, 3, "{output}");
    assert!(output.stderr.contains("FAIL: demo_capitals acc,none is 0.3, required >= 0.5"), "{output}");
    assert!(
        output.stderr.contains("PASS: demo_capitals acc_norm,none is 0.275, required >= 0.2"),
        "{output}"
    );
    assert!(output.stdout.contains("|demo_capitals|"), "{output}");
    assert!(output.stderr.contains("Results saved to"), "{output}");
    assert!(context.work().join("out/ngram").is_dir());
}

#[test]
fn the_threshold_itself_passes_and_quiet_runs_print_only_failures() {
    let output = run("demo_capitals", &["--fail_under", "demo_capitals:acc=0.3", "--quiet"]);
    assert_eq!((output.status, output.stderr.as_str()), (0, ""), "{output}");
    let output = run("demo_capitals", &["--fail_under", "demo_capitals:acc=0.30000001", "--quiet"]);
    assert_eq!(output.status, 3, "{output}");
    assert!(output.stderr.contains("FAIL"), "{output}");
}

#[test]
fn without_a_filter_every_pipeline_has_to_pass() {
    let thresholds = ["--fail_under", "demo_arithmetic:exact_match=0.5"];
    let output = run("demo_arithmetic", &thresholds);
    assert_eq!(output.status, 3, "{output}");
    for filter in ["strict-match", "flexible-extract"] {
        assert!(output.stderr.contains(&format!("FAIL: demo_arithmetic exact_match,{filter}")), "{output}");
    }
    let output = run("demo_arithmetic", &["--fail_under", "demo_arithmetic:exact_match,strict-match>=0"]);
    assert_eq!(output.status, 0, "{output}");
    assert!(!output.stderr.contains("flexible-extract is"), "{output}");
}

#[test]
fn groups_have_thresholds() {
    let output = run("demo_choice", &["--fail_under", "demo_choice:acc=0.9"]);
    assert_eq!(output.status, 3, "{output}");
    assert!(output.stderr.contains("FAIL: demo_choice acc,none"), "{output}");
    let output = run("demo_choice", &["--fail_under", "demo_choice:bleu=0.9"]);
    assert_eq!(output.status, 1, "{output}");
    assert!(output.stderr.contains("It has `acc"), "{output}");
}

#[test]
fn metrics_of_which_less_is_better_need_a_direction() {
    let output = run("demo_prose", &["--fail_under", "demo_prose:word_perplexity=100"]);
    assert_eq!((output.status, output.stdout.as_str()), (1, ""), "{output}");
    assert!(output.stderr.contains("'demo_prose:word_perplexity<=100'"), "{output}");
    let output = run("demo_prose", &["--fail_under", "demo_prose:word_perplexity<=1"]);
    assert_eq!(output.status, 3, "{output}");
    assert!(output.stderr.contains("required <= 1"), "{output}");
    let output = run("demo_prose", &["--fail_under", "demo_prose:word_perplexity<=1e9"]);
    assert_eq!(output.status, 0, "{output}");
}

#[test]
fn unknown_scores_are_errors_before_the_run() {
    for (threshold, message) in [
        ("demo_capitls:acc=0.5", "The run has `demo_capitals`"),
        ("demo_facts:acc=0.5", "is not a task or group of this run"),
        ("demo_capitals:bleu=0.5", "It has `acc,none`, `acc_norm,none`"),
        ("demo_capitals:acc,strict=0.5", "It has `acc,none`, `acc_norm,none`"),
    ] {
        let output = run("demo_capitals", &["--fail_under", threshold]);
        assert_eq!((output.status, output.stdout.as_str()), (1, ""), "{threshold}: {output}");
        assert!(output.stderr.contains(message), "{threshold}: {output}");
    }
    let output = run("demo_capitals", &["--fail_under", "acc=0.5"]);
    assert_eq!(output.status, 2, "{output}");
    assert!(output.stderr.contains("`acc=0.5` is not a threshold"), "{output}");
    let output = run("demo_capitals", &["--fail_under", "demo_capitals:acc=0", "--predict_only"]);
    assert_eq!(output.status, 1, "{output}");
    assert!(output.stderr.contains("--predict_only"), "{output}");
}

/// A task whose function returns the score that a test wants.
const TASK: &str = "
task: own
dataset_path: json
dataset_kwargs: {data_files: {test: own.jsonl}}
test_split: test
output_type: generate_until
doc_to_text: '{{q}}'
doc_to_target: '{{q}}'
process_results: !function own.score
metric_list:
  - {metric: own_score, aggregation: mean, higher_is_better: true}
";

#[test]
fn nan_and_unknown_scores_of_functions_never_pass() {
    let context = context();
    context.write("own.yaml", TASK);
    context.write("own.jsonl", "{\"q\": \"a\"}\n{\"q\": \"b\"}\n");
    context.write("own.py", "def score(doc, results):\n    return {'own_score': float('nan')}\n");
    let python = lmeval_testkit::python();
    let run = |threshold: &str| {
        let words = ["run", "--model", "dummy", "--tasks", "own.yaml", "--fail_under", threshold, "--python"];
        context.command(&words).arg(&python).run()
    };
    for threshold in ["own:own_score=0", "own:own_score<=1e9"] {
        let output = run(threshold);
        assert_eq!(output.status, 3, "{output}");
        assert!(output.stderr.contains("FAIL: own own_score,none is nan"), "{output}");
    }
    // The names that a function returns are known only after the run.
    let output = run("own:other=0");
    assert_eq!(output.status, 1, "{output}");
    assert!(output.stdout.contains("|own  |"), "{output}");
    assert!(output.stderr.contains("It has `own_score,none`"), "{output}");
}

#[test]
fn settings_files_have_thresholds() {
    let context = context();
    context.write("run.yaml", "model: ngram\ntasks: demo_capitals\nfail_under: ['demo_capitals:acc=0.9']\n");
    let output = context.run(&["run", "--config", "run.yaml"]);
    assert_eq!(output.status, 3, "{output}");
    let output = context.run(&["run", "--config", "run.yaml", "--fail_under", "demo_capitals:acc=0.1"]);
    assert_eq!(output.status, 0, "{output}");
    context.write("run.yaml", "model: ngram\ntasks: demo_capitals\nfail_under: [acc]\n");
    let output = context.run(&["run", "--config", "run.yaml"]);
    assert_eq!(output.status, 1, "{output}");
    assert!(output.stderr.contains("run.yaml:3") && output.stderr.contains("is not a threshold"), "{output}");
}

/// A reader that goes away must not turn a failure into a success.
#[cfg(unix)]
#[test]
fn a_closed_pipe_does_not_hide_a_failure() {
    let context = context();
    let words =
        ["run", "--model", "ngram", "--tasks", "demo_capitals", "--fail_under", "demo_capitals:acc=0.9"];
    let mut child = context.command(&words).spawn_piped();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(3));
}

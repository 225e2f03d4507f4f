//! Numbers of few-shot examples behind names of tasks, and one task with several of them.

use lmeval_testkit::TestContext;
use serde_json::{Value, json};

use crate::context;
use crate::long_run::newest;

const TWICE: &str = "demo_capitals:2,demo_capitals:0";

fn run(context: &TestContext, model: &str, tasks: &str, out: &str, more: &[&str]) {
    let words = ["run", "--model", model, "--tasks", tasks, "--output_path", out, "--log_samples"];
    let output = context.run(&[&words[..], more].concat());
    assert_eq!(output.status, 0, "{output}");
}

fn results(context: &TestContext, folder: &str) -> Value {
    let file = newest(&context.work().join(folder), "results_");
    serde_json::from_str(&fs_err::read_to_string(file).unwrap()).unwrap()
}

#[test]
fn one_task_with_two_numbers_of_examples_has_two_rows() {
    for compat in ["0.5", "0.4"] {
        let context = context();
        run(&context, "ngram", TWICE, "out", &["--compat", compat]);
        let both = results(&context, "out");
        assert_eq!(both["n-shot"], json!({"demo_capitals:0": 0, "demo_capitals:2": 2}));
        assert_eq!(both["configs"]["demo_capitals:2"]["num_fewshot"], 2);
        for (shots, alone) in [("0", "zero"), ("2", "two")] {
            run(&context, "ngram", "demo_capitals", alone, &["--compat", compat, "--num_fewshot", shots]);
            let (alone, key) = (results(&context, alone), format!("demo_capitals:{shots}"));
            assert_eq!(alone["results"]["demo_capitals"]["acc,none"], both["results"][&key]["acc,none"]);
            assert_eq!(alone["task_hashes"]["demo_capitals"], both["task_hashes"][&key]);
        }
        let samples = newest(&context.work().join("out"), "samples_demo_capitals-2_");
        assert_eq!(fs_err::read_to_string(samples).unwrap().lines().count(), 40);
    }
}

#[test]
fn examples_behind_a_name_win_over_all_others() {
    let context = context();
    run(&context, "ngram", "demo_capitals:2,demo_facts", "out", &["--num_fewshot", "1", "--limit", "2"]);
    assert_eq!(results(&context, "out")["n-shot"], json!({"demo_capitals": 2, "demo_facts": 1}));
    // The definition of this task asks for none, which `--num_fewshot` respects.
    context.write(
        "zero.yaml",
        "task: zero\ndataset_path: json\ndataset_kwargs: {data_files: {test: d.jsonl}}\ntest_split: test\nfewshot_split: test\n\
         num_fewshot: 0\ndoc_to_text: q\ndoc_to_target: a\noutput_type: loglikelihood\n",
    );
    context.write("d.jsonl", "{\"q\": \"1\", \"a\": \"2\"}\n{\"q\": \"3\", \"a\": \"4\"}\n");
    run(&context, "ngram", "zero.yaml:1,zero.yaml", "zeros", &["--num_fewshot", "1"]);
    assert_eq!(results(&context, "zeros")["n-shot"], json!({"zero": 0, "zero:1": 1}));
}

#[test]
fn settings_files_have_both_forms() {
    let context = context();
    context.write(
        "run.yaml",
        "model: ngram\nlimit: 2\noutput_path: out\ntasks: [demo_capitals:2, {task: demo_capitals, num_fewshot: 1}]\n",
    );
    let output = context.run(&["run", "--config", "run.yaml"]);
    assert_eq!(output.status, 0, "{output}");
    assert_eq!(results(&context, "out")["n-shot"], json!({"demo_capitals:1": 1, "demo_capitals:2": 2}));
    for (entry, problem) in [
        ("{task: demo_capitals, fewshot: 1}", "An entry of `tasks` has the key `fewshot`"),
        ("{num_fewshot: 1}", "without the key `task`"),
        ("{task: a, num_fewshot: many}", "`num_fewshot`, which must be an integer, not str"),
    ] {
        context.write("run.yaml", format!("model: ngram\ntasks: [{entry}]\n"));
        let output = context.run(&["run", "--config", "run.yaml"]);
        assert!(output.status != 0 && output.stderr.contains(problem), "{output}");
        assert!(output.stderr.contains("run.yaml:2:1"), "{output}");
    }
}

#[test]
fn runs_of_variants_are_compared_scored_again_and_merged() {
    let context = context();
    run(&context, "ngram", TWICE, "base", &[]);
    run(&context, "uniform", TWICE, "new", &[]);
    let stored = results(&context, "new");
    let gate = "--gate=demo_capitals:2:acc >= -1";
    let output = context.run(&["compare", "base", "new", "--format", "json", gate]);
    assert_eq!(output.status, 0, "{output}");
    let compared: Value = serde_json::from_str(&output.stdout).unwrap();
    let text = compared.to_string();
    assert!(text.contains("demo_capitals:0") && text.contains("demo_capitals:2"), "{text}");
    // One of them alone, and both.
    for (tasks, keys) in
        [("demo_capitals:2", vec!["demo_capitals:2"]), (TWICE, vec!["demo_capitals:2", "demo_capitals:0"])]
    {
        let output = context.run(&["rescore", "new", "--tasks", tasks, "--output_path", "again"]);
        assert_eq!(output.status, 0, "{output}");
        let again = results(&context, "again");
        let found: Vec<&str> = again["results"].as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(found, keys);
        for key in keys {
            assert_eq!(again["results"][key], stored["results"][key]);
        }
    }
    for shard in ["1/2", "2/2"] {
        run(&context, "uniform", TWICE, &format!("shards/{}", &shard[..1]), &["--shard", shard]);
    }
    let output = context.run(&["merge", "shards/1", "shards/2", "--output_path", "merged"]);
    assert_eq!(output.status, 0, "{output}");
    assert_eq!(results(&context, "merged")["results"], stored["results"]);
    let output = context.run(&["samples", "new", "--tasks", "demo_capitals:2", "-n", "1"]);
    assert!(output.stdout.starts_with("demo_capitals:2 document 0"), "{output}");
    let output = context.run(&[
        "run",
        "--model",
        "uniform",
        "--tasks",
        TWICE,
        "--fail_under",
        "demo_capitals:2:acc=0.99",
    ]);
    assert_eq!(output.status, 3, "{output}");
    assert!(output.stderr.contains("FAIL: demo_capitals:2 acc,none"), "{output}");
}

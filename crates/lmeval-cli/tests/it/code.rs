//! Tasks that run code: their own when imported, and the model's when scored.

use lmeval_testkit::{TestContext, reference_library, test_environment};
use serde_json::Value;

use crate::context;

/// A module that leaves a trace when imported, and scores programs like the library's tasks.
const UTILS: &str = r#"
import pathlib
pathlib.Path(__file__).with_name("imported").touch()

import evaluate as hf_evaluate

compute_ = hf_evaluate.load("code_eval")
results = compute_.compute(references=["assert add(2, 3)==5"], predictions=[["def add(a,b): return a*b"]], k=[1])
assert results[0] == {"pass@1": 0.0}, results

def pass_at_k(references, predictions, k=None):
    return compute_.compute(references=references, predictions=predictions, k=k)[0]

def build_predictions(resps, docs):
    return [[doc["program"] for _ in resp] for resp, doc in zip(resps, docs)]

def own_runner(references, predictions):
    return 1.0
"#;

const TASK: &str = "task: programs\ndataset_path: json\ndataset_kwargs: {data_files: {test: programs.jsonl}}\n\
    test_split: test\noutput_type: generate_until\nunsafe_code: true\nrepeats: 2\n\
    doc_to_text: 'Add.'\ndoc_to_target: 'assert add(1, 2) == 3'\n\
    filter_list: [{name: create_test, filter: [{function: custom, filter_fn: !function utils.build_predictions}]}]\n\
    metric_list: [{metric: !function utils.pass_at_k, aggregation: mean, k: [1, 2]}]\n";

fn tasks() -> TestContext {
    let context = context();
    context.write("tasks/utils.py", UTILS);
    context.write("tasks/programs.yaml", TASK);
    let own = "[{metric: !function utils.own_runner, aggregation: mean}]";
    let task = TASK
        .replace("task: programs", "task: own")
        .replace("[{metric: !function utils.pass_at_k, aggregation: mean, k: [1, 2]}]", own);
    context.write("tasks/own.yaml", task);
    let programs = [
        "def add(a, b): return a + b",
        "def add(a, b): return a - b",
        "while True: pass",
        "import socket; socket.socket()",
    ];
    let line = |program: &&str| format!("{}\n", serde_json::json!({"program": program}));
    context.write("programs.jsonl", programs.iter().map(line).collect::<String>());
    context
}

const LIBRARY: [&str; 4] = ["--library", "none", "--include_path", "tasks"];

fn run(context: &TestContext, tasks: &str, arguments: &[&str]) -> lmeval_testkit::Output {
    let run = ["run", "--model", "dummy", "--tasks", tasks, "--bootstrap_iters", "0", "--format", "json"];
    context.run(&[&run[..], arguments, &LIBRARY].concat())
}

#[test]
fn results_record_the_limits() {
    let context = tasks();
    let output = run(&context, "programs,own", &["--confirm_run_unsafe_code"]);
    let results: Value = serde_json::from_str(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    assert_eq!(results["results"]["programs"]["pass@1,create_test"].as_f64(), Some(0.25), "{results}");
    assert_eq!(results["results"]["programs"]["pass@2,create_test"].as_f64(), Some(0.25), "{results}");
    let limits = &results["code_limits"]["programs"];
    // The workers' self-tests on import are not counted.
    assert_eq!(limits["programs"].as_u64(), Some(8), "{limits}");
    for name in ["time", "memory", "processes", "files", "network", "signals", "system calls", "environment"]
    {
        assert!(limits["limits"][name]["in_force"].is_boolean(), "{name}: {limits}");
    }
    let own = &results["code_limits"]["own"];
    assert!(own["note"].as_str().is_some_and(|note| note.contains("its own functions do")), "{own}");
}

#[test]
fn runs_no_code_without_permission() {
    let context = tasks();
    let output = run(&context, "programs", &[]);
    assert_eq!(output.status, 1, "{output:?}");
    assert!(output.stderr.contains("`programs` runs code that the model writes"), "{output:?}");
    assert!(output.stderr.contains("--confirm_run_unsafe_code"), "{output:?}");
    assert!(!context.work().join("tasks/imported").exists());
    // A task that does not declare `unsafe_code` cannot run any.
    context.write("tasks/programs.yaml", TASK.replace("unsafe_code: true\n", ""));
    let output = run(&context, "programs", &[]);
    assert_eq!(output.status, 1, "{output:?}");
    assert!(output.stderr.contains("Running code that a model generated is not allowed"), "{output:?}");
}

#[test]
fn inspecting_tasks_imports_nothing() {
    let context = tasks();
    let trace = context.work().join("tasks/imported");
    for command in
        [&["ls", "tasks"][..], &["show", "programs"], &["show", "programs", "--yaml"], &["validate"]]
    {
        let output = context.run(&[command, &LIBRARY].concat());
        assert_eq!(output.status, 0, "{command:?}: {output:?}");
        assert!(!trace.exists(), "{command:?}");
    }
    context.write("library/lm_eval/tasks/one/utils.py", UTILS);
    context.write("library/lm_eval/tasks/one/programs.yaml", TASK);
    context.write("library/lm_eval/__init__.py", "raise SystemExit('imported')");
    let output = context.run(&["tasks", "pull", "1.0", "--from", "library"]);
    assert_eq!(output.status, 0, "{output:?}");
    assert_eq!(context.run(&["validate", "--tasks", "programs"]).status, 0);
    let found = |folder: std::path::PathBuf| {
        let mut folders = vec![folder];
        let mut found = false;
        while let Some(folder) = folders.pop() {
            for entry in fs_err::read_dir(folder).unwrap().flatten() {
                found |= entry.file_name() == "imported";
                if entry.path().is_dir() {
                    folders.push(entry.path());
                }
            }
        }
        found
    };
    assert!(!found(context.work()) && !found(context.lm_eval_home()));
}

/// The library's tasks that score programs, on documents of their form.
#[test]
fn library_tasks_score_programs() {
    let (Some(library), Some(python)) = (reference_library(), test_environment()) else { return };
    let context = context();
    let human = serde_json::json!({
        "task_id": "HumanEval/0", "prompt": "def add(a, b):\n", "entry_point": "add",
        "test": "def check(candidate):\n    assert candidate(1, 2) is None\n", "canonical_solution": "",
    });
    let basic = serde_json::json!({
        "task_id": 1, "text": "Add.", "code": "", "test_list": ["x = 1", "y = 2", "assert x + y == 3"],
    });
    for (name, document) in [("openai/openai_humaneval", human), ("google-research-datasets/mbpp", basic)] {
        context.write(format!("data/{name}/test.jsonl"), format!("{document}\n"));
    }
    let readme =
        "---\nconfigs:\n- config_name: full\n  data_files:\n  - {split: test, path: test.jsonl}\n---\n";
    context.write("data/google-research-datasets/mbpp/README.md", readme);
    let output = context
        .command(&["run", "--model", "dummy", "--tasks", "humaneval,mbpp", "--confirm_run_unsafe_code"])
        .arg("--bootstrap_iters")
        .arg("0")
        .arg("--format")
        .arg("json")
        .arg("--library")
        .arg(library)
        .arg("--python")
        .arg(python)
        .env("LM_EVAL_DATASET_DIR", "data")
        .run();
    let results: Value = serde_json::from_str(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    // `lol` completes the first program to invalid Python, and has no code block for the second.
    assert_eq!(results["results"]["humaneval"]["pass@1,create_test"].as_f64(), Some(0.0), "{results}");
    assert_eq!(results["results"]["mbpp"]["pass_at_1,none"].as_f64(), Some(0.0), "{results}");
    assert!(results["code_limits"]["humaneval"]["programs"].as_u64() >= Some(1), "{results}");
    assert!(results["code_limits"]["mbpp"]["programs"].as_u64() >= Some(1), "{results}");
}

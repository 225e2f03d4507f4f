//! `--samples`: documents are logged with their true ids.

use std::process::Command;

use lmeval_testkit::{TestContext, test_environment};
use serde_json::Value;

use crate::context;
use crate::long_run::newest;

const TASK: &str = "task: own\ndataset_path: json\ndataset_kwargs: {data_files: {test: own.jsonl}}\ntest_split: test\n\
    output_type: multiple_choice\ndoc_to_text: '{{q}}'\ndoc_to_choice: [a, b]\ndoc_to_target: 0\n";

/// The ids and questions of the logged documents.
fn logged(context: &TestContext, folder: &str) -> Vec<(i64, String)> {
    let text = fs_err::read_to_string(newest(&context.work().join(folder), "samples_own")).unwrap();
    let record = |line: &str| {
        let record: Value = serde_json::from_str(line).unwrap();
        (record["doc_id"].as_i64().unwrap(), record["doc"]["q"].as_str().unwrap().to_owned())
    };
    text.lines().map(record).collect()
}

#[test]
fn both_dialects_log_the_ids_of_the_reference() {
    let context = context();
    context
        .write("own.jsonl", (0..30).map(|q| format!("{{\"q\": \"q{q}\"}}\n")).collect::<Vec<_>>().concat());
    context.write("tasks/own.yaml", TASK);
    let samples =
        ["--tasks", "own", "--include_path", "tasks", "--samples", "{\"own\": [1, 5, 29]}", "--log_samples"];
    let expected: Vec<(i64, String)> = [1, 5, 29].map(|id| (id, format!("q{id}"))).to_vec();
    for compat in ["0.4", "0.5"] {
        let words = ["run", "--model", "dummy", "--compat", compat, "--output_path", compat];
        let output = context.run(&[&words[..], &samples].concat());
        assert_eq!(output.status, 0, "{output}");
        assert_eq!(logged(&context, compat), expected, "{compat}");
        let rescored = format!("rescored-{compat}");
        let words =
            ["rescore", compat, "--include_path", "tasks", "--output_path", &rescored, "--log_samples"];
        let output = context.run(&words);
        assert_eq!(output.status, 0, "{output}");
        assert_eq!(logged(&context, &rescored), expected, "{compat}");
    }
    let Some(python) = test_environment() else { return };
    let words = ["-m", "lm_eval", "run", "--model", "dummy", "--output_path", "reference"];
    let output = Command::new(python).args(words).args(samples).current_dir(context.work()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(logged(&context, "reference"), expected);
}

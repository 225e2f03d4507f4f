//! A long task, and helpers for the files a run of it writes.

use std::path::Path;

use lmeval_testkit::{StandInServer, TestContext};
use serde_json::Value;

/// Writes a task of numbered questions.
pub(crate) fn write_task(context: &TestContext, documents: usize) {
    let lines =
        (0..documents).map(|number| format!("{{\"q\": \"Question {number}: why?\", \"a\": \"yes\"}}\n"));
    context.write("tasks/long.jsonl", lines.collect::<String>());
    context.write(
        "tasks/long.yaml",
        "task: long\ndataset_path: json\ndataset_kwargs: {data_files: {test: tasks/long.jsonl}}\ntest_split: test\n\
         output_type: generate_until\ndoc_to_text: '{{q}}'\ndoc_to_target: '{{a}}'\n\
         generation_kwargs: {until: [\"\\n\"], max_gen_toks: 16}\n\
         filter_list:\n- {name: word, filter: [{function: regex, regex_pattern: '(yes|no)'}, {function: take_first}]}\n",
    );
}

/// The arguments for a run of the task.
pub(crate) fn arguments(server: &StandInServer, more_model_args: &str) -> Vec<String> {
    let model = format!(
        "model=m,base_url={},tokenizer_backend=none,tokenized_requests=False{more_model_args}",
        server.url("/v1/completions")
    );
    [
        "run",
        "--model",
        "local-completions",
        "--model_args",
        &model,
        "--tasks",
        "long",
        "--include_path",
        "tasks",
    ]
    .into_iter()
    .chain(["--library", "none", "--output_path", "out", "--log_samples", "--quiet"])
    .map(str::to_owned)
    .collect()
}

/// The number of the question in a request.
pub(crate) fn question(body: &str) -> usize {
    let rest = body.split("Question ").nth(1).unwrap();
    rest.split(':').next().unwrap().parse().unwrap()
}

/// The newest results and records in a folder, without values that depend on the clock or a port.
pub(crate) fn outcome(folder: &Path) -> (Value, String) {
    (results(folder), fs_err::read_to_string(newest(folder, "samples_")).unwrap())
}

/// The newest results in a folder, without values that depend on the clock or a port.
pub(crate) fn results(folder: &Path) -> Value {
    let results = fs_err::read_to_string(newest(folder, "results_")).unwrap();
    let mut results: Value = serde_json::from_str(&results).unwrap();
    for changing in ["date", "total_evaluation_time_seconds", "config", "configs", "git_hash", "checksums"] {
        results.as_object_mut().unwrap().remove(changing);
    }
    // The address of the server is an input; answers and scores have to be equal.
    if let Some(receipt) = results.get_mut("receipt").and_then(Value::as_object_mut) {
        receipt.remove("inputs");
        receipt.remove("number");
    }
    results
}

/// The newest file in a folder with this prefix.
pub(crate) fn newest(folder: &Path, prefix: &str) -> std::path::PathBuf {
    let mut found: Vec<_> = walk(folder)
        .into_iter()
        .filter(|path| path.file_name().unwrap().to_string_lossy().starts_with(prefix))
        .collect();
    found.sort();
    found.pop().unwrap_or_else(|| panic!("no {prefix} file in {}", folder.display()))
}

fn walk(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs_err::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

/// The results of a run without faults.
pub(crate) fn undisturbed(documents: usize) -> (Value, String) {
    let context = crate::context();
    write_task(&context, documents);
    let server = StandInServer::start(lmeval_testkit::ServerOptions::default());
    let arguments = arguments(&server, "");
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let output = context.run(&arguments);
    assert_eq!(output.status, 0, "{output}");
    outcome(&context.work().join("out"))
}

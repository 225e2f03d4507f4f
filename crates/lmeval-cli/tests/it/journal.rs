//! `lm-eval journal`.

use std::time::Duration;

use serde_json::Value;

use crate::context;
use crate::server::{Server, TASK, documents};

#[test]
fn lists_verifies_compacts_and_exports() {
    let context = context();
    context.write("numbers.jsonl", documents());
    context.write("numbers.yaml", TASK);
    let server = Server::start(Duration::ZERO, None);
    let model_args = format!("model=m,base_url={},tokenizer_backend=None", server.url);
    let words =
        ["run", "--model", "local-completions", "--model_args", &model_args, "--tasks", "numbers.yaml"];
    let output = context.run(&[&words[..], &["--output_path", "out/name.json"]].concat());
    assert_eq!(output.status, 0, "{output}");
    let journal = "out/name.journal";
    let output = context.run(&["journal", "ls", journal, "--json"]);
    let line: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!((line["answered"].as_i64(), &line["tasks"][0]["task"]), (Some(10), &Value::from("numbers")));
    let output = context.run(&["journal", "ls", "out"]);
    assert!(output.stdout.contains("10 answered"), "{output}");
    let output = context.run(&["journal", "verify", "out"]);
    assert!(output.status == 0 && output.stdout.contains("intact"), "{output}");
    let output = context.run(&["journal", "export", "out"]);
    assert_eq!(output.stdout.lines().count(), 10, "{output}");
    let line: Value = serde_json::from_str(output.stdout.lines().next().unwrap()).unwrap();
    assert_eq!(line["response"], " 7");
    let output = context.run(&["journal", "compact", "out"]);
    assert!(output.status == 0 && output.stdout.contains("kept 10 answered"), "{output}");
    let path = context.work().join(journal);
    let mut bytes = fs_err::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0xff;
    fs_err::write(&path, bytes).unwrap();
    let output = context.run(&["journal", "verify", journal]);
    assert!(output.status == 1 && output.stdout.contains("damaged"), "{output}");
    let output = context.run(&["journal", "verify", journal, "--json"]);
    let line: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(line["sound"], false);
}

#[test]
fn rejects_other_files() {
    let context = context();
    context.write("folder/notes.txt", "no journal");
    for path in ["nothing.journal", "folder", "folder/notes.txt"] {
        let output = context.run(&["journal", "verify", path]);
        assert_eq!(output.status, 1, "{output}");
        assert!(output.stderr.starts_with("error: "), "{output}");
    }
    assert_eq!(context.run(&["journal"]).status, 2);
}

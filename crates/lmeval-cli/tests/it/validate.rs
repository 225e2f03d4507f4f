//! `lm-eval validate`.

use crate::context;

#[test]
fn valid_tasks_pass() {
    let output = context().run(&["validate", "--tasks", "demo_capitals,demo_a*"]);
    assert_eq!(output.status, 0, "{output}");
    assert_eq!(output.stdout, "Validating tasks: ['demo_capitals', 'demo_a*']\nAll tasks found and valid\n");
    assert_eq!(output.stderr, "");
    let output = context().run(&["validate"]);
    assert_eq!(output.status, 0, "{output}");
    let output = context().run(&["validate", "--tasks", "demo_facts@mcqa", "demo"]);
    assert_eq!(output.status, 0, "{output}");
}

#[test]
fn unknown_names_fail_and_are_listed() {
    let output = context().run(&["validate", "--tasks", "demo_capitals, no_such, zz*"]);
    assert_eq!(output.status, 1);
    assert!(output.stdout.ends_with("Tasks not found: no_such, zz*\n"), "{output}");
}

#[test]
fn nothing_to_check_is_an_error() {
    let context = context();
    context.write("empty/readme.txt", "");
    for words in [
        vec!["validate", "--tasks", ""],
        vec!["validate", "--tasks", "empty"],
        vec!["validate", "--library", "none", "--include_path", "nowhere"],
    ] {
        let output = context.run(&words);
        assert_eq!(output.status, 1, "{words:?}: {output}");
        assert!(output.stderr.contains("Nothing to check"), "{output}");
    }
}

#[test]
fn missing_file_does_not_hide_others() {
    let context = context();
    context.write("bad.yaml", "task: t\ndoc_to_txt: q\n");
    let output = context.run(&["validate", "--tasks", "missing.yaml,bad.yaml,demo_prose"]);
    assert_eq!(output.status, 1);
    assert!(output.stderr.contains("missing.yaml") && output.stderr.contains("doc_to_txt"), "{output}");
}

#[test]
fn findings_show_the_line() {
    let context = context();
    context.write("t.yaml", "task: t\ndataset_path: json\ndoc_to_txt: q\n");
    let output = context.run(&["validate", "--tasks", "t.yaml"]);
    assert_eq!(output.status, 1);
    assert!(output.stdout.ends_with("Found 1 error and 0 warnings\n"), "{output}");
    for line in ["t.yaml:3:1", "3 | doc_to_txt: q", "`doc_to_text`"] {
        assert!(output.stderr.contains(line), "{line} is not in\n{output}");
    }
}

#[test]
fn warnings_fail_only_when_strict() {
    let context = context();
    context.write("g.yaml", "group: g\ntask: [demo_capitals]\n");
    assert_eq!(context.run(&["validate", "--tasks", "g.yaml"]).status, 0);
    assert_eq!(context.run(&["validate", "--tasks", "g.yaml", "--strict"]).status, 1);
}

#[test]
fn json_has_one_finding_per_line() {
    let context = context();
    context.write("tasks/broken.yaml", "task: x\nkey: [1,\n");
    context.write(
        "tasks/wrong.yaml",
        "task: wrong\ndataset_path: json\ntest_split: test\nmetric_list: [{metric: exact_mtch}]\n",
    );
    let output = context.run(&["validate", "--library", "none", "--include_path", "tasks", "--json"]);
    assert_eq!(output.status, 1);
    let rows: Vec<serde_json::Value> =
        output.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), 2, "{output}");
    assert_eq!(rows[0]["severity"], "error");
    assert!(rows[0]["path"].as_str().unwrap().ends_with("broken.yaml"));
    assert_eq!(rows[1]["name"], "wrong");
    assert_eq!(rows[1]["line"], 4);
}

#[test]
fn executes_no_task_code() {
    let context = context();
    context.write("tasks/utils.py", "open('ran', 'w').close()\ndef f(doc): return doc\n");
    context.write(
        "tasks/t.yaml",
        "task: t\ndataset_path: json\ntest_split: test\nprocess_docs: !function utils.f\n",
    );
    for command in ["ls tasks", "validate --tasks t", "show t"] {
        let mut words: Vec<&str> = command.split(' ').collect();
        words.extend(["--include_path", "tasks"]);
        assert_eq!(context.run(&words).status, 0, "{command}");
    }
    assert!(!context.work().join("ran").exists());
}

const MINE: &str = "task: mine\ndataset_path: json\ndataset_kwargs: {data_files: {test: d.jsonl, train: t.jsonl}}\n\
    test_split: test\ntraining_split: train\noutput_type: multiple_choice\ndoc_to_text: \"Q: {{q}}\"\n\
    doc_to_choice: [a, b]\ndoc_to_target: 0\n";

#[test]
fn opens_data_on_request() {
    let context = context();
    context.write("mine.yaml", MINE);
    context.write("t.jsonl", "{\"q\": \"0?\", \"more\": 1}\n");
    context.write("d.jsonl", "{\"q\": \"1?\", \"more\": 1}\n{\"q\": \"2?\", \"more\": 2}\n");
    let output = context.run(&["validate", "--tasks", "mine.yaml", "--data"]);
    assert_eq!(output.status, 0, "{output}");
    for text in [
        "Data of mine: test (2 documents), train (1 document)\nColumns: q, more\n",
        "=== mine, document 0\n--- context\n|Q: 1?|\n",
        "All tasks found and valid\n",
    ] {
        assert!(output.stdout.contains(text), "{text}: {output}");
    }
    let output = context.run(&["validate", "--tasks", "mine.yaml", "--data", "--json"]);
    let row: serde_json::Value = serde_json::from_str(output.stdout.trim()).unwrap();
    assert_eq!(row["splits"], serde_json::json!({"test": 2, "train": 1}));
    assert_eq!(row["columns"], serde_json::json!(["q", "more"]));
}

#[test]
fn unusable_data_is_an_error() {
    let context = context();
    context.write("t.jsonl", "{\"q\": \"0?\"}\n");
    context.write("d.jsonl", "{\"q\": \"1?\"}\n");
    for (name, text, expected) in [
        ("split", MINE.replace("test_split: test", "test_split: tset"), "tset"),
        ("file", MINE.replace("d.jsonl", "e.jsonl"), "e.jsonl"),
        ("template", MINE.replace("{{q}}", "{{q.a.b}}"), "doc_to_text"),
    ] {
        context.write(format!("{name}.yaml"), text);
        let file = format!("{name}.yaml");
        assert_eq!(context.run(&["validate", "--tasks", &file]).status, 0, "{name}");
        let output = context.run(&["validate", "--tasks", &file, "--data"]);
        assert_eq!(output.status, 1, "{output}");
        assert!(output.stderr.contains(expected), "{output}");
        assert!(output.stdout.ends_with("Found 1 error and 0 warnings\n"), "{output}");
        let output = context.run(&["validate", "--tasks", &file, "--data", "--json"]);
        let row: serde_json::Value = serde_json::from_str(output.stdout.trim()).unwrap();
        assert_eq!((&row["name"], &row["severity"]), (&"mine".into(), &"error".into()));
    }
}

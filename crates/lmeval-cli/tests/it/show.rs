//! `lm-eval show`.

use crate::context;

#[test]
fn shows_the_origin_of_every_value() {
    let context = context();
    context.write("tasks/base_yaml", "# shared\ndataset_path: json\noutput_type: multiple_choice\n");
    context.write("tasks/t.yaml", "include: base_yaml\ntask: t\ndoc_to_text: q\ndoc_to_choice: c\n");
    let output = context.run(&["show", "t", "--include_path", "tasks"]);
    assert_eq!(output.status, 0, "{output}");
    for line in [
        "# task t",
        "# t.yaml:2\ntask: t",
        "# base_yaml:2\ndataset_path: json",
        "# default\ndataset_kwargs: {}",
    ] {
        assert!(output.stdout.contains(line), "{line:?} is not in\n{output}");
    }
    let output = context.run(&["show", "t@cloze", "--include_path", "tasks"]);
    assert!(output.stdout.contains("# format cloze\ndoc_to_text: |-\n  Question: {{q}}"), "{output}");
}

#[test]
fn shows_the_members_of_groups() {
    let output = context().run(&["show", "demo", "--json"]);
    assert_eq!(output.status, 0, "{output}");
    let rows: Vec<serde_json::Value> =
        output.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows[0]["name"], "demo");
    assert_eq!(rows[0]["kind"], "group");
    assert!(rows[0]["members"].as_array().unwrap().len() > 1);
    let task = rows.iter().find(|row| row["kind"] == "task").unwrap();
    assert!(task["origins"]["task"].as_str().unwrap().starts_with("builtin:"));
    assert!(task["config"]["dataset_path"].is_string());
}

#[test]
fn yaml_is_a_valid_task_file() {
    let context = context();
    for name in ["demo_capitals", "demo_arithmetic", "demo_facts@generate", "demo_prose", "demo_translate"] {
        let shown = context.run(&["show", name, "--yaml"]);
        assert_eq!(shown.status, 0, "{shown}");
        context.write("again.yaml", &shown.stdout);
        let again = context.run(&["show", "again.yaml", "--yaml"]);
        assert_eq!(again.stdout, shown.stdout, "{name}");
    }
}

#[test]
fn accepts_patterns_and_folders() {
    let context = context();
    let output = context.run(&["show", "demo_a*", "--json"]);
    assert!(output.stdout.lines().count() > 1, "{output}");
    context.write("mine/t.yaml", "task: t\ndataset_path: json\n");
    let output = context.run(&["show", "mine"]);
    assert!(output.stdout.contains("# task t\n# defined in mine/t.yaml\n"), "{output}");
}

#[test]
fn suggests_similar_names() {
    let output = context().run(&["show", "demo_capitols"]);
    assert_eq!(output.status, 1);
    assert!(output.stderr.contains("Did you mean `demo_capitals`?"), "{output}");
}

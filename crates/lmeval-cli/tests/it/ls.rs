//! `lm-eval ls`.

use crate::context;

#[test]
fn tables_have_the_layout_scripts_expect() {
    let context = context();
    context.write("tasks/mc.yaml", "include: base_yaml\ntask: exp_mc\ntag: exp_tag\n");
    context.write("tasks/base_yaml", "output_type: multiple_choice\n");
    context.write("tasks/grp.yaml", "group: exp_grp\ntask: [exp_mc]\n");
    let output = context.run(&["ls", "tasks", "--library", "none", "--include_path", "tasks"]);
    assert_eq!(output.status, 0, "{output}");
    let expected = "
| Group |Config Location|
|-------|---------------|
|exp_grp|tasks/grp.yaml |


|  Tag  |
|-------|
|exp_tag|


| Task |Config Location|  Output Type  |
|------|---------------|---------------|
|exp_mc|tasks/mc.yaml  |multiple_choice|



";
    assert_eq!(output.stdout, expected);
    for (what, present, absent) in
        [("groups", "exp_grp", "exp_tag"), ("tags", "exp_tag", "exp_mc"), ("subtasks", "exp_mc", "exp_grp")]
    {
        let output = context.run(&["ls", what, "--library", "none", "--include_path", "tasks"]);
        assert!(output.stdout.contains(present) && !output.stdout.contains(absent), "{what}: {output}");
    }
}

#[test]
fn filters_by_word_and_pattern() {
    let output = context().run(&["ls", "subtasks", "CAPIT"]);
    assert!(
        output.stdout.contains("demo_capitals") && !output.stdout.contains("demo_arithmetic"),
        "{output}"
    );
    let output = context().run(&["ls", "subtasks", "demo_a*"]);
    assert!(
        !output.stdout.contains("demo_capitals") && output.stdout.contains("demo_arithmetic"),
        "{output}"
    );
}

#[test]
fn ranks_the_best_match_first() {
    let context = context();
    for name in ["bigarc", "my_arc", "arc_easy", "arc"] {
        context.write(format!("tasks/{name}.yaml"), format!("task: {name}\n"));
    }
    let words = ["ls", "tasks", "arc", "--library", "none", "--include_path", "tasks"];
    let output = context.run(&words);
    let offsets: Vec<usize> = ["|arc ", "|arc_easy", "|my_arc", "|bigarc"]
        .iter()
        .map(|cell| output.stdout.find(cell).unwrap_or_else(|| panic!("{cell}: {output}")))
        .collect();
    assert!(offsets.is_sorted(), "{output}");
    assert!(!output.stdout.contains("Group") && !output.stdout.contains("Tag"), "{output}");
    let output = context.run(&[&words[..], &["--names"]].concat());
    assert_eq!(output.stdout, "arc\narc_easy\nmy_arc\nbigarc\n");
}

#[test]
fn reports_words_without_matches() {
    for more in [&[][..], &["--json"], &["--names"]] {
        let output = context().run(&[&["ls", "tasks", "demo_capitolz"], more].concat());
        assert_eq!((output.status, output.stdout.as_str()), (1, ""), "{output}");
        assert!(output.stderr.contains("Nothing matches `demo_capitolz`"), "{output}");
        assert!(output.stderr.contains("Did you mean `demo_capitals`?"), "{output}");
        assert!(output.stderr.contains("`lm-eval tasks pull` installs it"), "{output}");
    }
    let output = context().run(&["ls", "models", "zebra"]);
    assert_eq!((output.status, output.stdout.as_str()), (1, ""), "{output}");
    assert!(output.stderr.contains("Nothing matches `zebra`"), "{output}");
}

#[test]
fn lists_models_metrics_and_filters() {
    let output = context().run(&["ls", "models"]);
    assert_eq!(output.status, 0, "{output}");
    for name in ["|hf, hf-auto, huggingface", "|local-completions", "|ngram"] {
        assert!(output.stdout.contains(name), "{name}: {output}");
    }
    let output = context().run(&["ls", "metrics", "acc"]);
    assert!(output.stdout.contains("|acc ") && output.stdout.contains("multiple_choice"), "{output}");
    assert!(!output.stdout.contains("|bleu"), "{output}");
    let output = context().run(&["ls", "filters", "--json"]);
    let rows: Vec<serde_json::Value> =
        output.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let row = rows.iter().find(|row| row["name"] == "take_first").unwrap();
    assert_eq!((&row["kind"], &row["summary"]), (&"filter".into(), &"Keeps the first answer".into()));
    let output = context().run(&["ls", "models", "--names"]);
    assert!(output.stdout.lines().any(|name| name == "huggingface"), "{output}");
}

#[test]
fn json_has_one_object_per_line() {
    let output = context().run(&["ls", "tasks", "--json"]);
    assert_eq!(output.status, 0);
    let rows: Vec<serde_json::Value> =
        output.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let row = rows.iter().find(|row| row["name"] == "demo_capitals").unwrap();
    assert_eq!(row["kind"], "task");
    assert_eq!(row["output_type"], "multiple_choice");
    assert!(row["tags"].as_array().is_some_and(|tags| !tags.is_empty()));
}

#[test]
fn counts_broken_files() {
    let context = context();
    context.write("tasks/broken.yaml", "task: [\n");
    let output = context.run(&["ls", "tasks", "--include_path", "tasks"]);
    assert_eq!(output.status, 0);
    assert!(output.stderr.contains("1 file is not listed because of errors"), "{output}");
}

#[test]
fn warns_about_a_missing_folder() {
    let output = context().run(&["ls", "tags", "--include_path", "nowhere"]);
    assert_eq!(output.status, 0);
    assert!(output.stderr.contains("the --include_path folder `nowhere` does not exist"), "{output}");
}

#[test]
fn unknown_library_lists_alternatives() {
    let output = context().run(&["ls", "tags", "--library", "9.9.9"]);
    assert_eq!(output.status, 1);
    assert!(output.stderr.contains("`builtin` and `none`"), "{output}");
}

#[test]
fn lists_the_library_like_the_reference() {
    let environment = (lmeval_testkit::test_environment(), lmeval_testkit::reference_library());
    let (Some(python), Some(library)) = environment else {
        return;
    };
    let output = context().run(&["ls", "tasks", "--library", library.to_str().unwrap()]);
    let mut confirmed = lmeval_testkit::Confirmed::load("listing");
    if confirmed.contains([&output.stdout]) {
        return;
    }
    // The reference takes half a minute for this.
    let reference = std::process::Command::new(python.parent().unwrap().join("lm-eval"))
        .args(["ls", "tasks"])
        .env("HF_HUB_OFFLINE", "1")
        .output()
        .unwrap();
    assert!(reference.status.success());
    assert!(output.stdout.as_bytes() == reference.stdout, "the listings differ");
    confirmed.finish();
}

//! Fields that name a column the documents do not have.

use lmeval_testkit::{Output, TestContext};

use crate::context;

/// A task of two questions, with some lines replaced.
fn task(choice: &str, target: &str, rest: &str) -> TestContext {
    let context = context();
    let rows = "{\"question\": \"A?\", \"answer\": 0, \"cities\": [\"Paris\", \"Rome\"]}\n\
                {\"question\": \"B?\", \"answer\": 1, \"cities\": [\"Oslo\", \"Bern\"]}\n";
    context.write("data.jsonl", rows);
    let task = format!(
        "task: places\ndataset_path: json\ndataset_kwargs: {{data_files: {{test: data.jsonl}}, streaming: true}}\n\
         test_split: test\noutput_type: multiple_choice\ndoc_to_text: \"{{{{question}}}}\"\n\
         doc_to_choice: {choice}\ndoc_to_target: {target}\n{rest}"
    );
    context.write("places.yaml", task);
    context
}

fn run(context: &TestContext) -> Output {
    context.run(&["run", "--model", "ngram", "--tasks", "places.yaml"])
}

fn validate(context: &TestContext) -> Output {
    context.run(&["validate", "--data", "--tasks", "places.yaml"])
}

#[test]
fn misspelled_column_is_an_error_if_a_similar_one_exists() {
    for (choice, target, message, near) in [
        ("cities", "answr", "`doc_to_target: answr` is not a column of the documents", "answer"),
        ("citys", "answer", "`doc_to_choice: citys` names a column that the documents do not have", "cities"),
    ] {
        let context = task(choice, target, "");
        for output in [run(&context), validate(&context)] {
            assert_ne!(output.status, 0, "{output}");
            assert!(output.stderr.contains(message) && output.stderr.contains("places.yaml:"), "{output}");
            assert!(output.stderr.contains(&format!("Did you mean `{near}`?")), "{output}");
        }
    }
}

#[test]
fn constants_warn_in_runs_and_fail_validation() {
    let context = task("cities", "capital", "");
    let output = run(&context);
    assert_eq!(output.status, 0, "{output}");
    let warning = "warning: Task `places`: `doc_to_target: capital` is not a column of the documents";
    assert!(output.stderr.contains(warning) && output.stderr.contains("places.yaml:8"), "{output}");
    let output = validate(&context);
    assert!(output.status == 1 && output.stderr.contains("`doc_to_target: capital`"), "{output}");
    let output = context.run(&["preview", "places.yaml"]);
    assert!(output.stderr.contains(warning), "{output}");
}

#[test]
fn intended_values_do_not_warn() {
    for (choice, target) in
        [("cities", "answer"), ("[\"yes\", \"no\"]", "\"yes\""), ("cities", "\"{{'capital'}}\"")]
    {
        let context = task(choice, target, "");
        let output = run(&context);
        assert!(output.status == 0 && !output.stderr.contains("warning"), "{output}");
        let output = validate(&context);
        assert_eq!((output.status, output.stderr.as_str()), (0, ""), "{output}");
    }
}

#[test]
fn validation_opens_data() {
    let context = task("cities", "answer", "");
    context.write("data.jsonl", "{\"question\": \"A?\", \"answer\": 0, \"cities\": 3}\n");
    let output = validate(&context);
    assert!(output.status == 1 && output.stderr.contains("places"), "{output}");
}

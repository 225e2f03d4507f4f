//! Groups in the reference and with `--compat 0.4`: weights, filters and metrics that only some members have, nested
//! groups.

use lmeval_testkit::test_environment;

use crate::parity::{Case, compare};

const SAID: &str = "dataset_path: json\ntest_split: test\noutput_type: generate_until\n\
    doc_to_text: 'Q: {{q}} A:'\ndoc_to_target: '{{a}}'\ngeneration_kwargs: {until: [\"\\n\\n\"], max_gen_toks: 7}\n\
    metric_list: [{metric: exact_match, ignore_case: true}]\n";
const WORD: &str =
    "{name: word, filter: [{function: regex, regex_pattern: '([a-z]+)'}, {function: take_first}]}";
const FIRST: &str = "{name: first, filter: [{function: take_first}]}";
const CHOSEN: &str = "dataset_path: json\ntest_split: test\noutput_type: multiple_choice\ndoc_to_text: '{{q}}'\n\
    doc_to_choice: ['yes it is', 'not so']\ndoc_to_target: gold\nmetric_list: [{metric: acc}, {metric: acc_norm}]\n";

const GROUPS: [(&str, &str); 6] = [
    (
        "weighted",
        "task: [many, few]\naggregate_metric_list: [{metric: exact_match, weight_by_size: true, filter_list: [word]}]\n",
    ),
    (
        "plain",
        "task: [many, few]\naggregate_metric_list: [{metric: exact_match, weight_by_size: false, filter_list: [word, first]}]\n",
    ),
    (
        "chosen",
        "task: [left, right]\naggregate_metric_list: [{metric: acc}, {metric: acc_norm, weight_by_size: false}]\nmetadata: {version: 3}\n",
    ),
    (
        "outer",
        "task: [weighted, chosen]\naggregate_metric_list: [{metric: acc, weight_by_size: true}, {metric: exact_match, filter_list: word}]\n",
    ),
    ("mixed", "task: [left, few]\naggregate_metric_list: [{metric: acc}]\n"),
    (
        "inline",
        "task:\n- group: inner\n  task: [left, right]\n  aggregate_metric_list: [{metric: acc, weight_by_size: false}]\n- few\n\
         aggregate_metric_list: [{metric: acc, weight_by_size: false}]\n",
    ),
];

const ARGUMENTS: &str = "model=m,tokenizer_backend=huggingface,tokenizer=TOKENIZER,tokenized_requests=False";

const CASES: [Case; 5] = [
    Case {
        name: "weighted, with filters",
        path: "/v1/completions",
        model: "local-completions",
        model_args: ARGUMENTS,
        arguments: &["--tasks", "weighted"],
    },
    Case {
        name: "unweighted, with filters",
        path: "/v1/completions",
        model: "local-completions",
        model_args: ARGUMENTS,
        arguments: &["--tasks", "plain"],
    },
    Case {
        name: "groups in groups",
        path: "/v1/completions",
        model: "local-completions",
        model_args: ARGUMENTS,
        arguments: &["--tasks", "outer"],
    },
    Case {
        name: "metrics that some members lack",
        path: "/v1/completions",
        model: "local-completions",
        model_args: ARGUMENTS,
        arguments: &["--tasks", "mixed"],
    },
    Case {
        name: "inline groups",
        path: "/v1/completions",
        model: "local-completions",
        model_args: ARGUMENTS,
        arguments: &["--tasks", "inline", "--limit", "9"],
    },
];

#[test]
fn groups_match_the_reference() {
    let Some(environment) = test_environment() else { return };
    let context = crate::context();
    for (name, rest) in GROUPS {
        context.write(format!("tasks/{name}_group.yaml"), format!("group: {name}\n{rest}"));
    }
    let tasks = [
        ("many", 17, format!("{SAID}filter_list: [{WORD}, {FIRST}]\n")),
        ("few", 4, format!("{SAID}filter_list: [{WORD}]\n")),
        ("left", 12, CHOSEN.to_owned()),
        ("right", 5, CHOSEN.to_owned()),
    ];
    for (name, count, rest) in tasks {
        let data = format!("dataset_kwargs: {{data_files: {{test: tasks/{name}.jsonl}}}}\n");
        context.write(format!("tasks/{name}.yaml"), format!("task: {name}\n{data}{rest}"));
        let line = |number: usize| {
            let answer = ["yes", "no", "text"][number % 3];
            format!("{{\"q\": \"{name} {number}?\", \"a\": \"{answer}\", \"gold\": {}}}\n", number % 2)
        };
        context.write(format!("tasks/{name}.jsonl"), (0..count).map(line).collect::<String>());
    }
    compare(&context, &environment, &CASES);
}

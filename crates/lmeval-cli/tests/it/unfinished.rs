//! Scores of runs whose answers were cut off, refused, or not matched by a filter.

use lmeval_testkit::{Output, Scripted, StandInServer, TestContext};
use serde_json::{Value, json};

use crate::context;
use crate::judge::{asked, number_after, server};
use crate::long_run::newest;

fn reply(text: &str, finish: &str) -> Scripted {
    let message = json!({"role": "assistant", "content": text});
    Scripted::Body(200, json!({"choices": [{"index": 0, "message": message, "finish_reason": finish}]}))
}

/// Of 20 answers 12 are right, 2 wrong, 4 cut off, 1 refused and 1 not in the required form.
fn unfinished(body: &Value, _: usize) -> Scripted {
    match number_after(asked(body), "Question ") {
        13 | 14 => reply("#### 7", "stop"),
        15..=18 => reply("First, I consider", "length"),
        19 => reply("", "content_filter"),
        20 => reply("It is four.", "stop"),
        _ => reply("#### 4", "stop"),
    }
}

/// The same model with enough tokens: of the unfinished answers, three are right.
fn finished(body: &Value, _: usize) -> Scripted {
    match number_after(asked(body), "Question ") {
        13..=17 => reply("#### 7", "stop"),
        _ => reply("#### 4", "stop"),
    }
}

fn write_tasks(context: &TestContext) {
    let rows: Vec<String> =
        (1..=20).map(|number| json!({"q": format!("Question {number}")}).to_string()).collect();
    context.write("rows.jsonl", rows.join("\n"));
    let task = |name: &str, more: &str| {
        format!(
            "task: {name}\ndataset_path: json\ndataset_kwargs: {{data_files: {{test: rows.jsonl}}}}\ntest_split: test\n\
             output_type: generate_until\ndoc_to_text: \"{{{{q}}}}?\"\ndoc_to_target: '4'\n\
             generation_kwargs: {{until: [], max_gen_toks: 20}}\nmetric_list: [{{metric: exact_match}}]\n{more}"
        )
    };
    let strict = "filter_list: [{name: strict, filter: [{function: regex}, {function: take_first}]}]\n";
    context.write("tasks/sums.yaml", task("sums", strict));
    context.write("tasks/plain.yaml", task("plain", ""));
    context.write(
        "tasks/both.yaml",
        "group: both\ntask: [sums, plain]\naggregate_metric_list: [{metric: exact_match, weight_by_size: true}]\n",
    );
}

fn run(context: &TestContext, server: &StandInServer, tasks: &str, out: &str, more: &[&str]) -> Output {
    let args = format!("model=m,base_url={}", server.url("/v1/chat/completions"));
    let mut words = vec![
        "run",
        "--model",
        "local-chat-completions",
        "--model_args",
        &args,
        "--include_path",
        "tasks",
        "--tasks",
        tasks,
        "--apply_chat_template",
        "--log_samples",
        "--output_path",
        out,
    ];
    words.extend(more);
    context.command(&words).run()
}

fn results(context: &TestContext, out: &str) -> Value {
    serde_json::from_str(&fs_err::read_to_string(newest(&context.work().join(out), "results_")).unwrap())
        .unwrap()
}

#[test]
fn a_score_with_unfinished_answers_shows_its_bounds() {
    let context = context();
    write_tasks(&context);
    let server = server(unfinished);
    let output = run(&context, &server, "sums", "out", &[]);
    assert_eq!(output.status, 0, "{output}");
    assert!(output.stdout.contains("|exact_match|↑† |  0.6|"), "{output}");
    // Said as soon as 20 answers have arrived.
    assert!(
        output.stderr.contains("4 of the first 20 answers to `sums` were cut off at the token limit"),
        "{output}"
    );
    assert!(
        output.stdout.contains(
            "† sums, strict: 6 of 20 documents are unfinished (4 answers cut off, 1 refused, 6 not matched by the filter); \
             exact_match is between 0.6000 and 0.9000"
        ),
        "{output}"
    );
    let results = results(&context, "out");
    assert_eq!(results["bounds"], json!({"sums": {"exact_match,strict": [0.6, 0.9]}}));
    let audit = &results["audit"]["sums"]["strict"];
    assert_eq!(
        (&audit["unfinished"], &audit["truncated"], &audit["refused"]),
        (&json!(6), &json!(4), &json!(1))
    );
}

#[test]
fn a_finished_run_has_no_bounds() {
    let context = context();
    write_tasks(&context);
    let server = server(finished);
    let output = run(&context, &server, "sums", "out", &[]);
    assert_eq!(output.status, 0, "{output}");
    assert!(!output.stdout.contains('†'), "{output}");
    assert!(results(&context, "out").get("bounds").is_none());
}

#[test]
fn groups_have_the_bounds_of_their_tasks() {
    let context = context();
    write_tasks(&context);
    let server = server(unfinished);
    let output = run(&context, &server, "both", "out", &[]);
    assert_eq!(output.status, 0, "{output}");
    let bounds = &results(&context, "out")["bounds"];
    // Without a filter nothing matches exactly, and five answers could have.
    assert_eq!(bounds["both::plain"], json!({"exact_match,none": [0.0, 0.25]}));
    assert_eq!(bounds["both"], json!({"exact_match,strict": [0.6, 0.9], "exact_match,none": [0.0, 0.25]}));
    assert!(
        output.stdout.contains("† both, strict: answers are unfinished; exact_match is between"),
        "{output}"
    );
}

#[test]
fn repeats_are_replaced_one_by_one() {
    let context = context();
    write_tasks(&context);
    context.write(
        "tasks/drawn.yaml",
        "include: sums.yaml\ntask: drawn\nrepeats: 4\nfilter_list: [{name: strict, filter: [{function: regex}]}]\n\
         metric_list: [{metric: exact_match, reduction: mean}]\n",
    );
    // One repeat of four is cut off in each document.
    let server =
        server(|_, before| if before == 3 { reply("First", "length") } else { reply("#### 4", "stop") });
    let output = run(&context, &server, "drawn", "out", &["--gen_kwargs", "do_sample=true,temperature=1"]);
    assert_eq!(output.status, 0, "{output}");
    let results = results(&context, "out");
    assert_eq!(results["results"]["drawn"]["exact_match,strict"], json!(0.75), "{output}");
    assert_eq!(results["bounds"]["drawn"]["exact_match,strict"], json!([0.75, 1.0]));
}

#[test]
fn a_difference_within_the_bounds_is_no_finding() {
    let context = context();
    write_tasks(&context);
    for (script, out) in [(unfinished as fn(&Value, usize) -> Scripted, "small"), (finished, "large")] {
        let output = run(&context, &server(script), "sums", out, &[]);
        assert_eq!(output.status, 0, "{output}");
    }
    let output = context.run(&["compare", "small", "large"]);
    assert_eq!(output.status, 0, "{output}");
    let line = "‡ sums, strict: not a finding. With its unfinished answers, the difference in exact_match is between -0.1500 and \
                +0.1500";
    assert!(output.stdout.contains(line), "{output}");
    let output = context.run(&["compare", "small", "large", "--format", "json"]);
    let compared: Value = serde_json::from_str(&output.stdout).unwrap();
    let possible = compared["comparisons"][0]["scores"][0]["possible"].as_array().unwrap();
    let possible: Vec<f64> = possible.iter().map(|number| number.as_f64().unwrap()).collect();
    assert!((possible[0] + 0.15).abs() < 1e-9 && (possible[1] - 0.15).abs() < 1e-9, "{possible:?}");
}

#[test]
fn compat_04_shows_no_bounds() {
    let context = context();
    write_tasks(&context);
    let server = server(unfinished);
    let output = run(&context, &server, "sums", "out", &["--compat", "0.4"]);
    assert_eq!(output.status, 0, "{output}");
    assert!(!output.stdout.contains('†'), "{output}");
    assert!(results(&context, "out").get("bounds").is_none());
}

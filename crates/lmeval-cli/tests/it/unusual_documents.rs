//! Requests built from unusual documents.

use lmeval_testkit::{ServerOptions, StandInServer};
use serde_json::Value;

use crate::context;

/// Previews a task over JSON lines; returns status, requests and messages.
fn preview(data: &str, definition: &str, words: &[&str]) -> (i32, Vec<Value>, String) {
    let context = context();
    context.write("d.jsonl", data);
    context.write("train.jsonl", "{\"q\": \"Q1\", \"a\": \"A1\"}\n{\"q\": \"Q2\", \"a\": \"A2\"}\n");
    let files = "dataset_kwargs: {data_files: {test: d.jsonl, train: train.jsonl}}";
    context.write("t.yaml", format!("task: t\ndataset_path: json\n{files}\ntest_split: test\n{definition}"));
    let output = context.run(&[&["preview", "t.yaml", "--json"], words].concat());
    let requests = output.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (output.status, requests, output.stderr)
}

/// The context of the first request.
fn first(data: &str, text: &str) -> String {
    let (status, requests, messages) =
        preview(data, &format!("doc_to_text: \"{text}\"\ndoc_to_target: a\n"), &[]);
    assert_eq!(status, 0, "{messages}");
    requests[0]["args"][0].as_str().unwrap().to_owned()
}

#[test]
fn preserves_unicode() {
    let data = "{\"q\": \"naïve 日本 \\ud83d\\ude00 e\\u0301\", \"a\": \"ß\"}\n";
    assert_eq!(
        first(data, "{{q}} {{q|length}} {{q|upper}}"),
        "naïve 日本 😀 e\u{301} 13 NAÏVE 日本 😀 E\u{301}"
    );
}

#[test]
fn empty_columns_print_like_python() {
    let data = "{\"q\": null, \"e\": \"\", \"l\": [], \"a\": \"x\"}\n";
    assert_eq!(first(data, "{{q}}|{{e}}|{{l}}|"), "None||[]|");
}

#[test]
fn nested_columns_are_python_values() {
    let data = "{\"d\": {\"k\": [1, {\"x\": null}], \"s\": \"it's\"}, \"a\": \"x\"}\n";
    assert_eq!(first(data, "{{d}} {{d.k[0]}} {{d['s']}}"), "{'k': [1, {'x': None}], 's': \"it's\"} 1 it's");
}

#[test]
fn dates_and_large_numbers() {
    let data = "{\"day\": \"2024-02-29\", \"big\": 9007199254740993, \"a\": \"x\"}\n";
    assert_eq!(first(data, "{{day}} {{big}}"), "2024-02-29 00:00:00 9007199254740993");
}

#[test]
fn handles_a_ten_megabyte_document() {
    let data = format!("{{\"q\": \"{}\", \"a\": \"x\"}}\n", "word ".repeat(2_000_000));
    assert_eq!(first(&data, "{{q}}").len(), 10_000_000);
}

#[test]
fn missing_column_names_the_existing_ones() {
    let data = "{\"question\": \"Q\", \"a\": \"x\"}\n";
    let (status, _, messages) = preview(data, "doc_to_text: \"{{questoin}}\"\ndoc_to_target: a\n", &[]);
    assert_eq!(status, 1);
    for word in ["`t`", "document 0", "doc_to_text: \"{{questoin}}\"", ".yaml:", "^^^^^^^^", "`question`"] {
        assert!(messages.contains(word), "{word} is not in {messages}");
    }
}

#[test]
fn template_error_marks_the_position_and_names_the_columns() {
    let data = "{\"question\": \"Q\", \"a\": \"x\"}\n";
    let (status, _, messages) = preview(data, "doc_to_text: \"{{question + 1}}\"\ndoc_to_target: a\n", &[]);
    assert_eq!(status, 1);
    for word in
        ["document 0", "doc_to_text: \"{{question + 1}}\"", ".yaml:", "  ^^^^^^^^^^^^", "`question`, `a`"]
    {
        assert!(messages.contains(word), "{word} is not in {messages}");
    }
}

#[test]
fn empty_data_is_an_error() {
    let (status, requests, messages) = preview("", "doc_to_text: q\ndoc_to_target: a\n", &[]);
    assert_eq!((status, requests.len()), (1, 0));
    assert!(messages.contains("`t`") && messages.contains("test"), "{messages}");
    let data = "{\"q\": \"Q\", \"a\": \"A\"}\n";
    let (status, _, messages) = preview(data, "doc_to_text: q\ndoc_to_target: a\n", &["--limit", "0"]);
    assert_eq!(status, 1);
    assert!(messages.contains("document"), "{messages}");
}

#[test]
fn too_few_examples_is_an_error() {
    let data = "{\"q\": \"Q\", \"a\": \"A\"}\n";
    let definition = "doc_to_text: q\ndoc_to_target: a\nfewshot_split: train\n";
    let (status, requests, _) = preview(data, definition, &["--num_fewshot", "2"]);
    assert_eq!(status, 0);
    let context = requests[0]["args"][0].as_str().unwrap();
    assert!(context.contains("Q1 A1\n\n") && context.contains("Q2 A2\n\n"), "{context}");
    let (status, _, messages) = preview(data, definition, &["--num_fewshot", "5"]);
    assert_eq!(status, 1);
    assert!(messages.contains('5') && messages.contains('2'), "{messages}");
}

#[test]
fn order_does_not_depend_on_threads() {
    let context = context();
    let outputs: Vec<String> = ["1", "2", "7"]
        .into_iter()
        .map(|threads| {
            let command = context.command(&["preview", "demo_all", "--json", "--num_fewshot", "3"]);
            command.env("RAYON_NUM_THREADS", threads).run().stdout
        })
        .collect();
    assert!(outputs[0].lines().count() > 400);
    assert!(outputs[0] == outputs[1] && outputs[1] == outputs[2]);
}

#[test]
fn first_target_that_looks_like_an_empty_list_is_text() {
    let context = context();
    context.write(
        "own.yaml",
        "task: own\ndataset_path: json\ndataset_kwargs: {data_files: {test: own.jsonl}}\ntest_split: test\n\
         output_type: generate_until\ndoc_to_text: '{{q}}'\ndoc_to_target: '{{a}}'\n\
         metric_list: [{metric: bleu}, {metric: chrf}, {metric: ter}, {metric: exact_match}]\n",
    );
    let targets = ["[]", "Paris is a town", "[1]"];
    let rows = targets.iter().enumerate().map(|(q, a)| format!("{{\"q\": \"q{q}\", \"a\": \"{a}\"}}\n"));
    context.write("own.jsonl", rows.collect::<String>());
    let answer = |(q, a): (usize, &&str)| {
        format!("{{\"type\": \"generate_until\", \"args\": [\"q{q}\", {{}}], \"response\": \"{a}\"}}\n")
    };
    context.write("answers.jsonl", targets.iter().enumerate().map(answer).collect::<String>());
    for compat in ["0.4", "0.5"] {
        let words = ["run", "--model", "replay", "--model_args", "path=answers.jsonl", "--tasks", "own.yaml"];
        let output = context.run(&[&words[..], &["--format", "json", "--compat", compat]].concat());
        assert_eq!(output.status, 0, "{compat}: {output}");
        let printed = &output.stdout[output.stdout.find('{').unwrap()..];
        let results: Value = serde_json::from_str(printed).unwrap();
        let scores = &results["results"]["own"];
        assert_eq!(scores["exact_match,none"], 1.0, "{compat}: {scores}");
        assert!(scores["bleu,none"].as_f64().is_some_and(|bleu| bleu > 99.9), "{compat}: {scores}");
    }
}

#[test]
fn different_numbers_of_references_are_found_before_all_answers() {
    let (context, server) = (context(), StandInServer::start(ServerOptions::default()));
    context.write(
        "own.yaml",
        "task: own\ndataset_path: json\ndataset_kwargs: {data_files: {test: own.jsonl}}\ntest_split: test\n\
         output_type: generate_until\ndoc_to_text: '{{q}}'\ndoc_to_target: a\nmetric_list: [{metric: METRIC}]\n",
    );
    let row = |q: usize| {
        let targets = if q == 3 { "[\"x\"]" } else { "[\"x\", \"y\"]" };
        format!("{{\"q\": \"q{q}\", \"a\": {targets}}}\n")
    };
    context.write("own.jsonl", (0..2000).map(row).collect::<String>());
    let url = server.url("/v1/completions");
    let model = format!("model=m,base_url={url},tokenizer_backend=none,tokenized_requests=False");
    let run = |metric: &str, limit: &str| {
        let text = fs_err::read_to_string(context.work().join("own.yaml")).unwrap();
        context.write("named.yaml", text.replace("METRIC", metric));
        let words = ["run", "--model", "local-completions", "--model_args", &model, "--tasks", "named.yaml"];
        context.run(&[&words[..], &["--limit", limit]].concat())
    };
    let output = run("bleu", "2000");
    assert_eq!(output.status, 1, "{output}");
    let message = "Document 3 of `own` has 1 targets, and document 0 has 2: `bleu` needs as many for each";
    assert!(output.stderr.contains(message), "{output}");
    assert!(server.total() < 1000, "{}", server.total());
    assert_eq!(run("bleu", "3").status, 0);
    let output = run("exact_match", "5");
    assert_eq!(output.status, 0, "{output}");
}

#[test]
fn an_aggregation_of_another_metric_is_refused_with_the_first_answer() {
    let (context, server) = (context(), StandInServer::start(ServerOptions::default()));
    let rows = (0..2000).map(|q| format!("{{\"q\": \"q{q}\", \"a\": \"x\"}}\n"));
    context.write("own.jsonl", rows.collect::<String>());
    let url = server.url("/v1/completions");
    let model = format!("model=m,base_url={url},tokenizer_backend=none,tokenized_requests=False");
    for (metric, aggregation) in [("exact_match", "f1"), ("exact_match", "bleu"), ("bleu", "mean")] {
        context.write(
            "own.yaml",
            format!(
                "task: own\ndataset_path: json\ndataset_kwargs: {{data_files: {{test: own.jsonl}}}}\ntest_split: test\n\
                 output_type: generate_until\ndoc_to_text: '{{{{q}}}}'\ndoc_to_target: a\n\
                 metric_list: [{{metric: {metric}, aggregation: {aggregation}}}]\n"
            ),
        );
        for words in [&[][..], &["--output_path", "out", "--log_samples", "--fresh"]] {
            server.reset();
            let run = ["run", "--model", "local-completions", "--model_args", &model, "--tasks", "own.yaml"];
            let output = context.run(&[&run[..], words].concat());
            assert_eq!(output.status, 1, "{output}");
            let message =
                format!("The aggregation `{aggregation}` of `{metric}` does not accept the value of");
            assert!(output.stderr.contains(&message), "{output}");
            assert!(server.total() < 1000, "{metric}, {aggregation}: {}", server.total());
        }
    }
}

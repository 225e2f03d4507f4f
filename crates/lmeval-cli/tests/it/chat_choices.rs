//! Multiple choice on chat APIs: letters by log-probability, and generated answers.

use lmeval_testkit::{Script, Scripted, ServerOptions, StandInServer, TestContext};
use serde_json::{Value, json};

use crate::context;
use crate::long_run::results;

/// Questions with the tokens that the server lists for each, and their probabilities.
///
/// Computed by hand from the lists, with the gold answer: 0 and 1 are certainly right; in 2 the gold letter is missing and
/// cannot win; in 3 it is missing and could; in 4 no letter is listed; 5 is right unless a missing letter wins.
const QUESTIONS: [(&str, &[(&str, f64)]); 6] = [
    ("A", &[("A", 0.5), (" A", 0.2), ("B", 0.2), ("C", 0.05), ("D", 0.05)]),
    ("A", &[("B", 0.25), (" A", 0.2), ("A", 0.2), ("C", 0.1), ("D", 0.1)]),
    ("C", &[("A", 0.6), ("B", 0.3), ("D", 0.04), ("The", 0.03)]),
    ("B", &[("The", 0.5), ("It", 0.2), ("A", 0.1)]),
    ("A", &[("The", 0.9), ("It", 0.05)]),
    ("A", &[("The", 0.7), ("x", 0.1), ("A", 0.08)]),
];

/// The index of the question in a chat request.
fn question(request: &Value) -> usize {
    let messages = request["messages"].as_array().unwrap();
    let text = messages.last().unwrap()["content"].as_str().unwrap();
    let at = text.find("Number ").unwrap() + "Number ".len();
    text[at..=at].parse().unwrap()
}

fn completion(text: &str, logprobs: &Value) -> Value {
    json!({
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "length", "logprobs": logprobs}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 1}
    })
}

/// The `logprobs` of the answer to a question.
fn listed(index: usize) -> Value {
    let tokens = QUESTIONS[index].1;
    let top: Vec<Value> =
        tokens.iter().map(|(token, p): &(&str, f64)| json!({"token": token, "logprob": p.ln()})).collect();
    json!({"content": [{"token": tokens[0].0, "logprob": tokens[0].1.ln(), "top_logprobs": top}]})
}

fn letters_server() -> StandInServer {
    server(|request, _| {
        let index = question(request);
        Scripted::Body(200, completion(QUESTIONS[index].1[0].0, &listed(index)))
    })
}

fn server(answer: Script) -> StandInServer {
    StandInServer::start(ServerOptions { keep_bodies: true, chat: Some(answer), ..ServerOptions::default() })
}

/// A task that names its options, and one like MMLU that shows its own letters.
fn tasks(metrics: &str) -> TestContext {
    let context = context();
    let rows: String = QUESTIONS
        .iter()
        .enumerate()
        .map(|(index, (gold, _))| {
            let gold = "ABCD".find(gold).unwrap();
            let choices = ["red", "green", "blue", "grey"];
            json!({"q": format!("Number {index}?"), "options": choices, "gold": gold}).to_string() + "\n"
        })
        .collect();
    context.write("questions.jsonl", rows);
    let data = "dataset_path: json\ndataset_kwargs: {data_files: {test: questions.jsonl}}\ntest_split: test\n\
                output_type: multiple_choice\ndoc_to_target: gold\n";
    context.write(
        "plain.yaml",
        format!("task: plain\n{data}doc_to_text: q\ndoc_to_choice: options\nmetric_list: {metrics}\n"),
    );
    context.write(
        "own.yaml",
        format!(
            "task: own\n{data}doc_to_text: \"{{{{q}}}}\\nA. red\\nB. green\\nC. blue\\nD. grey\\nAnswer:\"\n\
             doc_to_choice: [A, B, C, D]\nmetric_list: {metrics}\n"
        ),
    );
    context
}

const BOTH: &str = "[{metric: acc}, {metric: acc_norm}]";

fn run(context: &TestContext, server: &StandInServer, task: &str, more: &[&str]) -> lmeval_testkit::Output {
    let model_args = format!("model=m,base_url={},max_retries=2", server.url("/v1/chat/completions"));
    run_with(context, &model_args, task, more)
}

fn run_with(context: &TestContext, model_args: &str, task: &str, more: &[&str]) -> lmeval_testkit::Output {
    let words = ["run", "--model", "local-chat-completions", "--model_args", model_args, "--tasks", task];
    let common = ["--apply_chat_template", "--output_path", "out", "--log_samples"];
    context.run(&[&words[..], &common, more].concat())
}

fn near(found: &Value, expected: f64) {
    let found = found.as_f64().unwrap();
    assert!((found - expected).abs() < 1e-12, "{found} instead of {expected}");
}

#[test]
fn letters_are_compared_in_one_call_and_missing_ones_bounded() {
    let (context, server) = (tasks(BOTH), letters_server());
    let output = run(&context, &server, "plain.yaml", &[]);
    assert_eq!(output.status, 0, "{output}");
    let found = results(&context.work().join("out"));
    near(&found["results"]["plain"]["acc,none"], 3.0 / 6.0);
    assert!(found["results"]["plain"].get("acc_norm,none").is_none(), "{found}");
    let audit = &found["audit"]["plain"]["none"];
    assert_eq!((&audit["letters_missing"], &audit["letters_absent"]), (&json!(4), &json!(1)));
    near(&audit["acc_bounds"][0], 2.0 / 6.0);
    near(&audit["acc_bounds"][1], 5.0 / 6.0);
    let choices = &found["choices"]["plain"];
    assert_eq!(choices["method"], "letters");
    assert_eq!(choices["requests"], "choice_letters");
    assert_eq!(choices["chosen_by"], "default");
    assert_eq!(choices["format"], "mcqa");
    assert_eq!(choices["refused_metrics"], json!(["acc_norm"]));
    for said in [
        "plain: letters by log-probability of the first token",
        "--choices generate",
        "Not computed: `acc_norm`",
        "complete option",
        "4 documents with a letter missing from the server's list, 1 of them without any letter",
        "acc is between 0.3333 and 0.8333",
    ] {
        assert!(output.stderr.contains(said), "{said}: {output}");
    }
    let bodies = server.counts().bodies;
    assert_eq!(bodies.len(), QUESTIONS.len());
    let body: Value = serde_json::from_str(&bodies[0].1).unwrap();
    assert_eq!(
        (&body["max_tokens"], &body["logprobs"], &body["top_logprobs"]),
        (&json!(1), &json!(true), &json!(20))
    );
    let prompt = body["messages"][0]["content"].as_str().unwrap();
    assert!(prompt.contains("A. red\nB. green\nC. blue\nD. grey\nAnswer:"), "{prompt}");
}

#[test]
fn answers_are_resumed_rescored_and_listed() {
    let (context, server) = (tasks(BOTH), letters_server());
    let output = run(&context, &server, "plain.yaml", &["--limit", "2"]);
    assert_eq!((output.status, server.total()), (0, 2), "{output}");
    let output = run(&context, &server, "plain.yaml", &[]);
    assert_eq!((output.status, server.total()), (0, 6), "{output}");
    let acc = results(&context.work().join("out"))["results"]["plain"]["acc,none"].clone();
    drop(server);
    let folder = fs_err::read_dir(context.work().join("out")).unwrap().next().unwrap().unwrap().path();
    let journal = folder.join("answers.journal");
    for (from, more) in [(&folder, &[][..]), (&journal, &["--choices", "letters"])] {
        let words = ["rescore", from.to_str().unwrap(), "--tasks", "plain.yaml", "--output_path", "again"];
        let output = context.run(&[&words[..], more].concat());
        assert_eq!(output.status, 0, "{output}");
        let again = results(&context.work().join("again"));
        assert_eq!(again["results"]["plain"]["acc,none"], acc, "{output}");
        assert_eq!(again["choices"]["plain"]["requests"], "choice_letters");
        assert_eq!(again["audit"]["plain"]["none"]["letters_missing"], 4);
        fs_err::remove_dir_all(context.work().join("again")).unwrap();
    }
    let output = context.run(&["samples", "out", "--wrong", "-n", "5"]);
    assert_eq!(output.status, 0, "{output}");
    assert!(output.stdout.contains("Number 3"), "{output}");
    let output = context.run(&["journal", "ls", journal.to_str().unwrap()]);
    assert_eq!(output.status, 0, "{output}");
    let output = context.run(&["journal", "export", journal.to_str().unwrap()]);
    assert!(output.status == 0 && output.stdout.contains("choice_letters"), "{output}");
    let output = context.run(&["report", "out", "-o", "page.html"]);
    assert_eq!(output.status, 0, "{output}");
}

#[test]
fn a_task_with_its_own_letters_keeps_its_prompt() {
    let (context, server) = (tasks("[{metric: acc}]"), letters_server());
    let output = run(&context, &server, "own.yaml", &["--choices", "letters"]);
    assert_eq!(output.status, 0, "{output}");
    let found = results(&context.work().join("out"));
    near(&found["results"]["own"]["acc,none"], 0.5);
    let choices = &found["choices"]["own"];
    assert_eq!((&choices["format"], &choices["chosen_by"]), (&Value::Null, &json!("user")));
    let body: Value = serde_json::from_str(&server.counts().bodies[0].1).unwrap();
    let prompt = body["messages"][0]["content"].as_str().unwrap();
    assert!(prompt.starts_with("Number ") && prompt.contains("?\nA. red\nB. green"), "{prompt}");
}

#[test]
fn the_old_line_still_refuses() {
    let (context, server) = (tasks(BOTH), letters_server());
    let output = run(&context, &server, "plain.yaml", &["--compat", "0.4"]);
    assert_eq!((output.status, server.total()), (1, 0), "{output}");
    assert!(output.stderr.contains("do not return prompt log-probabilities"), "{output}");
    let output = run(&context, &server, "plain.yaml", &["--compat", "0.4", "--choices", "letters"]);
    assert!(output.status != 0 && output.stderr.contains("--choices"), "{output}");
}

#[test]
fn metrics_that_need_complete_options_are_refused() {
    let (context, server) = (tasks("[{metric: acc_norm}, {metric: brier_score}]"), letters_server());
    let output = run(&context, &server, "plain.yaml", &[]);
    assert_eq!((output.status, server.total()), (1, 0), "{output}");
    assert!(output.stderr.contains("`acc_norm`, `brier_score`"), "{output}");
    assert!(output.stderr.contains("log-likelihood of each complete option"), "{output}");
    let output = run(&context, &server, "plain@cloze", &["--include_path", "."]);
    assert!(output.status == 1 && output.stderr.contains("hides them"), "{output}");
}

#[test]
fn servers_that_cannot_list_tokens_are_named() {
    let context = tasks(BOTH);
    let silent = server(|_, _| Scripted::Body(200, completion("A", &Value::Null)));
    let output = run(&context, &silent, "plain.yaml", &[]);
    assert_eq!(output.status, 1, "{output}");
    assert!(output.stderr.contains("does not return the log-probabilities of likely tokens"), "{output}");
    assert!(output.stderr.contains("--choices generate"), "{output}");
    let thinking = server(|_, _| {
        let top = json!([{"token": "<think>", "logprob": -0.01}]);
        let logprobs = json!({"content": [{"token": "<think>", "logprob": -0.01, "top_logprobs": top}]});
        Scripted::Body(200, completion("<think>", &logprobs))
    });
    let output = run(&context, &thinking, "plain.yaml", &["--fresh"]);
    assert!(output.status == 1 && output.stderr.contains("reasons before it answers"), "{output}");
    let broken = server(|request, _| {
        let mut logprobs = listed(question(request));
        logprobs["content"][0]["top_logprobs"][0]["logprob"] = Value::Null;
        Scripted::Body(200, completion("A", &logprobs))
    });
    let output = run(&context, &broken, "plain.yaml", &["--fresh"]);
    assert!(output.status == 1 && output.stderr.contains("is not a number below 0"), "{output}");
}

#[test]
fn fewer_tokens_are_requested_of_a_server_that_limits_them() {
    let context = tasks(BOTH);
    let limited = server(|request, _| {
        if request["top_logprobs"].as_u64().unwrap() > 5 {
            return Scripted::Body(400, json!({"error": {"message": "top_logprobs must be at most 5"}}));
        }
        let index = question(request);
        Scripted::Body(200, completion("A", &listed(index)))
    });
    let output = run(&context, &limited, "plain.yaml", &[]);
    assert_eq!(output.status, 0, "{output}");
    assert!(output.stderr.contains("The server refuses `top_logprobs` of 20; 5 are requested"), "{output}");
    near(&results(&context.work().join("out"))["results"]["plain"]["acc,none"], 0.5);
    let never =
        server(|_, _| Scripted::Body(400, json!({"error": {"message": "logprobs are not supported"}})));
    let output = run(&context, &never, "plain.yaml", &["--fresh"]);
    assert!(output.status == 1 && output.stderr.contains("refuses log-probabilities"), "{output}");
}

#[test]
fn generated_answers_lose_their_reasoning_and_failures_are_counted() {
    const ANSWERS: [&str; 6] = [
        "The best answer is A.",
        "<think>Maybe B. The answer is B.</think>\nThe best answer is (A)",
        "**C**",
        "<think>The answer is B",
        "I cannot say.",
        "The answer is B, no: the best answer is A",
    ];
    let context = tasks(BOTH);
    let writing =
        server(|request, _| Scripted::Body(200, completion(ANSWERS[question(request)], &Value::Null)));
    let output = run(&context, &writing, "plain.yaml", &["--choices", "generate"]);
    assert_eq!(output.status, 0, "{output}");
    let found = results(&context.work().join("out"));
    near(&found["results"]["plain"]["exact_match,none"], 4.0 / 6.0);
    assert_eq!(found["audit"]["plain"]["none"]["extraction_failed"], 2);
    let choices = &found["choices"]["plain"];
    assert_eq!((&choices["method"], &choices["max_gen_toks"]), (&json!("generate"), &json!(512)));
    assert_eq!((&choices["reasoning"], &choices["refused_metrics"]), (&json!(false), &json!(["acc_norm"])));
    assert!(output.stderr.contains("2 answers did not match the filter"), "{output}");
    assert!(output.stderr.contains("at most 512 tokens"), "{output}");
    let body: Value = serde_json::from_str(&writing.counts().bodies[0].1).unwrap();
    assert_eq!(body["max_tokens"], 512);
    assert!(body.get("logprobs").is_none(), "{body}");
    let output = context.run(&["rescore", "out", "--tasks", "plain.yaml", "--output_path", "again"]);
    assert_eq!(output.status, 0, "{output}");
    near(&results(&context.work().join("again"))["results"]["plain"]["exact_match,none"], 4.0 / 6.0);

    // A model that is known to reason gets more tokens, and letters are not the default.
    let model_args =
        format!("model=m,base_url={},think_end_token=</think>", writing.url("/v1/chat/completions"));
    writing.reset();
    let output = run_with(&context, &model_args, "plain.yaml", &["--fresh"]);
    assert_eq!(output.status, 0, "{output}");
    assert!(output.stderr.contains("at most 8192 tokens, for a model that reasons first"), "{output}");
    let body: Value = serde_json::from_str(&writing.counts().bodies[0].1).unwrap();
    assert_eq!(body["max_tokens"], 8192);
    let output = run_with(&context, &model_args, "plain.yaml", &["--choices", "letters"]);
    assert!(output.status == 1 && output.stderr.contains("--choices generate"), "{output}");
}

#[test]
fn models_with_log_likelihoods_keep_them_unless_told_otherwise() {
    let context = tasks(BOTH);
    let words = ["run", "--model", "uniform", "--tasks", "plain.yaml", "--output_path", "out"];
    let output = context.run(&words);
    assert_eq!(output.status, 0, "{output}");
    assert!(results(&context.work().join("out")).get("choices").is_none());
    let output = context.run(&[&words[..], &["--choices", "letters"]].concat());
    assert_eq!(output.status, 0, "{output}");
    let found = results(&context.work().join("out"));
    assert_eq!(found["choices"]["plain"]["requests"], "loglikelihood");
    assert!(found["results"]["plain"].get("acc_norm,none").is_some());
    let output = context.run(&[&words[..], &["--choices", "generate"]].concat());
    assert_eq!(output.status, 0, "{output}");
    let found = results(&context.work().join("out"));
    assert!(found["results"]["plain"].get("exact_match,none").is_some());
}

#[test]
fn shards_are_merged_with_their_method() {
    let (context, server) = (tasks(BOTH), letters_server());
    for shard in ["1/2", "2/2"] {
        let output = run(&context, &server, "plain.yaml", &["--shard", shard]);
        assert_eq!(output.status, 0, "{output}");
    }
    assert_eq!(server.total(), QUESTIONS.len());
    let output = context.run(&["merge", "out", "-o", "merged"]);
    assert_eq!(output.status, 0, "{output}");
    let merged = results(&context.work().join("merged"));
    near(&merged["results"]["plain"]["acc,none"], 0.5);
    assert_eq!(merged["choices"]["plain"]["requests"], "choice_letters");
    assert_eq!(merged["audit"]["plain"]["none"]["letters_missing"], 4);
}

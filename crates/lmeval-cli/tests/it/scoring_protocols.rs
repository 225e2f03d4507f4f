//! Scoring protocols of servers. Every number is compared with the known probabilities of the model.

use std::time::{Duration, Instant};

use lmeval_testkit::{
    Output, ScoringBehavior, ScoringModel, ServerOptions, StandInServer, TailRoute, TestContext, TokenIds,
};
use serde_json::Value;

use crate::context;
use crate::long_run::newest;

pub(crate) const DOCUMENTS: usize = 24;
/// The beginning that all contexts share.
const HEAD: &str =
    "These questions have one right answer each. Think about it, then name the letter of the right answer.";

/// A server and its model.
pub(crate) struct Served {
    pub(crate) model: ScoringModel,
    pub(crate) server: StandInServer,
}

pub(crate) fn serve(behavior: ScoringBehavior) -> Served {
    serve_slowly(behavior, Duration::ZERO)
}

pub(crate) fn serve_slowly(behavior: ScoringBehavior, delay: Duration) -> Served {
    let model = ScoringModel::new(behavior);
    let scoring = Some(model.clone());
    let options =
        ServerOptions { scoring, delay, tokenizer: true, keep_bodies: true, ..ServerOptions::default() };
    Served { model, server: StandInServer::start(options) }
}

/// A folder with a task whose documents have these choices.
pub(crate) fn prepared(choices: &str) -> TestContext {
    let context = context();
    let lines = (0..DOCUMENTS).map(|number| format!("{{\"q\": \"Question {number}: which one?\"}}\n"));
    context.write("tasks/pick.jsonl", lines.collect::<String>());
    context.write(
        "tasks/pick.yaml",
        format!(
            "task: pick\ndataset_path: json\ndataset_kwargs: {{data_files: {{test: tasks/pick.jsonl}}}}\n\
             test_split: test\noutput_type: multiple_choice\ndescription: '{HEAD}'\n\
             doc_to_text: '{{{{q}}}} Answer:'\ndoc_to_choice: {choices}\ndoc_to_target: 1\n\
             target_delimiter: ''\nmetric_list: [{{metric: acc}}]\n"
        ),
    );
    context
}

pub(crate) fn arguments(url: &str, model_args: &str) -> Vec<String> {
    let backend = match url {
        url if url.ends_with("/generate") => "sglang-generate",
        url if url.ends_with("/chat/completions") => "local-chat-completions",
        _ => "local-completions",
    };
    let model =
        format!("model=m,base_url={url},tokenizer_backend=remote,max_retries=3,retry_wait=0.05{model_args}");
    ["run", "--model", backend, "--model_args", &model, "--tasks", "pick", "--include_path", "tasks"]
        .into_iter()
        .chain(["--library", "none", "--output_path", "out", "--log_samples"])
        .map(str::to_owned)
        .collect()
}

pub(crate) fn run(context: &TestContext, url: &str, model_args: &str, more: &[&str]) -> Output {
    let arguments = arguments(url, model_args);
    let mut arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    arguments.extend(more);
    context.run(&arguments)
}

/// The results of the newest run.
pub(crate) fn results(context: &TestContext) -> Value {
    let path = newest(&context.work().join("out"), "results_");
    serde_json::from_str(&fs_err::read_to_string(path).unwrap()).unwrap()
}

/// The prompt of a logged context: a string, or messages that the server renders.
fn prompt(context: &Value) -> String {
    match context {
        Value::String(text) => text.clone(),
        messages => ScoringModel::render(messages),
    }
}

/// Compares every log-likelihood of the newest run with the model's.
pub(crate) fn check_numbers(context: &TestContext, model: &ScoringModel) {
    let path = newest(&context.work().join("out"), "samples_pick");
    let lines = fs_err::read_to_string(path).unwrap();
    assert_eq!(lines.lines().count(), DOCUMENTS);
    for line in lines.lines() {
        let sample: Value = serde_json::from_str(line).unwrap();
        let responses = sample["resps"].as_array().unwrap();
        for (index, response) in responses.iter().enumerate() {
            let request = &sample["arguments"][format!("gen_args_{index}")];
            let (logprob, is_greedy) =
                model.score(&prompt(&request["arg_0"]), request["arg_1"].as_str().unwrap());
            let found: f64 = response[0][0].as_str().unwrap().parse().unwrap();
            assert!((found - logprob).abs() < 1e-5, "{found} instead of {logprob}: {request}");
            assert_eq!(response[0][1].as_str(), Some(if is_greedy { "True" } else { "False" }), "{request}");
        }
    }
}

pub(crate) const LETTERS: &str = "[A, B, C, D]";
const WORDS: &str = "[apple, banana, cherry]";
pub(crate) const MIXED: &str = "[A, banana, C, date]";

#[test]
fn one_token_choices_take_one_request_per_context() {
    let (context, served) = (prepared(LETTERS), serve(ScoringBehavior::default()));
    let output = run(&context, &served.server.url("/v1/completions"), "", &[]);
    assert_eq!(output.status, 0, "{output}");
    check_numbers(&context, &served.model);
    let counts = served.model.counts();
    // The probe, then one for each document.
    assert_eq!(counts.next_token, DOCUMENTS + 1, "{counts:?}");
    // The probe, then the most and the least likely choice of three documents.
    assert_eq!(counts.echo, 1 + 3 * 2, "{counts:?}");
    let record = results(&context)["scoring_protocol"].clone();
    assert_eq!(record["protocol"], "next_token", "{record}");
    assert_eq!(record["logits"], "float32", "{record}");
    assert_eq!(record["next_token"]["answers"], 4 * DOCUMENTS, "{record}");
    assert_eq!(record["next_token"]["unexpected_answers"], 0, "{record}");
    let tokens = |name: &str| record["prompt_tokens"][name].as_u64().unwrap();
    assert!(tokens("computed") * 3 < tokens("echo_would_compute"), "{record}");
}

#[test]
fn echo_can_be_required() {
    let (context, served) = (prepared(LETTERS), serve(ScoringBehavior::default()));
    let url = served.server.url("/v1/completions");
    let output = run(&context, &url, ",scoring=echo", &[]);
    assert_eq!(output.status, 0, "{output}");
    check_numbers(&context, &served.model);
    assert_eq!((served.model.counts().next_token, served.model.counts().echo), (0, 4 * DOCUMENTS));
    // The rules of the 0.4 line include `echo`, unless another protocol is required.
    let output = run(&context, &url, "", &["--compat", "0.4", "--fresh"]);
    assert_eq!(output.status, 0, "{output}");
    assert_eq!(served.model.counts().next_token, 0);
    assert_eq!(results(&context)["scoring_protocol"], Value::Null);
    let output = run(&context, &url, ",scoring=next_token", &["--compat", "0.4", "--fresh"]);
    assert_eq!(output.status, 0, "{output}");
    assert_eq!(served.model.counts().next_token, DOCUMENTS + 1);
    let output = run(&context, &url, ",scoring=fast", &[]);
    assert_eq!(output.status, 1, "{output}");
    assert!(output.stderr.contains("`scoring` must be `auto`, `echo`, `next_token` or `tail`"), "{output}");
}

#[test]
fn unproven_protocols_are_not_used() {
    let behavior = ScoringBehavior::default();
    for (token_ids, reason) in [
        (TokenIds::Ignored, "is missing from the answer"),
        (TokenIds::Refused, "Unknown field"),
        (TokenIds::Masked, "is -9999"),
        (TokenIds::Unnamed, "no id"),
        (TokenIds::MissingAfter(0), "is missing from the answer"),
        (TokenIds::NanAfter(0), "NaN"),
    ] {
        let (context, served) = (prepared(LETTERS), serve(ScoringBehavior { token_ids, ..behavior }));
        let url = served.server.url("/v1/completions");
        let output = run(&context, &url, "", &[]);
        assert_eq!(output.status, 0, "{token_ids:?}: {output}");
        check_numbers(&context, &served.model);
        assert_eq!(served.model.counts().next_token, 1, "{token_ids:?}");
        let record = results(&context)["scoring_protocol"].clone();
        assert_eq!(record["protocol"], "echo", "{token_ids:?}");
        assert!(record.to_string().contains(reason), "{token_ids:?}: {record}");
        let output = run(&context, &url, ",scoring=next_token", &[]);
        assert_eq!(output.status, 1, "{output}");
        assert!(output.stderr.contains("`scoring=next_token` cannot be used"), "{output}");
    }
}

#[test]
fn servers_that_do_not_claim_the_feature_get_the_same_requests_as_before() {
    let (context, served) = (prepared(LETTERS), serve(ScoringBehavior { owner: "me", ..Default::default() }));
    let url = served.server.url("/v1/completions");
    let output = run(&context, &url, "", &[]);
    assert_eq!(output.status, 0, "{output}");
    assert_eq!((served.model.counts().next_token, served.model.counts().echo), (0, 4 * DOCUMENTS));
    for (_, body) in served.server.counts().bodies {
        assert!(body.contains("\"echo\": true") && !body.contains("logprob_token_ids"), "{body}");
    }
}

#[test]
fn unexpected_answers_fall_back_to_echo() {
    let behavior = ScoringBehavior { token_ids: TokenIds::MissingEvery(10), ..Default::default() };
    let (context, served) = (prepared(LETTERS), serve(behavior));
    let output = run(&context, &served.server.url("/v1/completions"), ",num_concurrent=1", &[]);
    assert_eq!(output.status, 0, "{output}");
    check_numbers(&context, &served.model);
    let record = results(&context)["scoring_protocol"].clone();
    assert_eq!(record["next_token"]["unexpected_answers"], 2, "{record}");
    assert_eq!(record["echo"]["answers"], 8, "{record}");
    assert!(!output.stderr.contains("turned off"), "{output}");
}

#[test]
fn several_unexpected_answers_turn_a_protocol_off() {
    for token_ids in [TokenIds::MissingAfter(6), TokenIds::NanAfter(6)] {
        let behavior = ScoringBehavior { token_ids, ..Default::default() };
        let (context, served) = (prepared(LETTERS), serve(behavior));
        let output = run(&context, &served.server.url("/v1/completions"), ",num_concurrent=1", &[]);
        assert_eq!(output.status, 0, "{output}");
        check_numbers(&context, &served.model);
        let warning = "Scoring with `next_token` is turned off for the rest of the run";
        assert!(output.stderr.contains(warning), "{output}");
        assert_eq!(served.model.counts().next_token, 9, "{token_ids:?}");
        let record = results(&context)["scoring_protocol"].clone();
        assert_eq!(record["next_token"]["turned_off"], true, "{record}");
        assert_eq!(record["echo"]["answers"], 4 * (DOCUMENTS - 5), "{record}");
    }
}

/// Waits until a server has received a number of next-token requests.
pub(crate) fn wait_for(model: &ScoringModel, requests: usize) {
    let begun = Instant::now();
    while model.counts().next_token < requests {
        assert!(begun.elapsed() < Duration::from_mins(1), "nothing was sent");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn notices_a_server_that_changes_under_the_run() {
    let behavior = ScoringBehavior::default();
    for after in [
        ScoringBehavior { token_ids: TokenIds::Ignored, ..behavior },
        ScoringBehavior { token_ids: TokenIds::Masked, ..behavior },
        ScoringBehavior { token_ids: TokenIds::Refused, ..behavior },
    ] {
        let (context, served) = (prepared(LETTERS), serve_slowly(behavior, Duration::from_millis(5)));
        let arguments = arguments(&served.server.url("/v1/completions"), ",num_concurrent=2");
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let child = context.command(&arguments).spawn_piped();
        wait_for(&served.model, 8);
        served.model.restart(after);
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{after:?}: {stderr}");
        assert!(stderr.contains("`next_token` is turned off"), "{after:?}: {stderr}");
        check_numbers(&context, &served.model);
    }
}

#[test]
fn notices_another_model_under_the_same_name() {
    let behavior = ScoringBehavior::default();
    let (context, served) = (prepared(LETTERS), serve_slowly(behavior, Duration::from_millis(5)));
    let arguments = arguments(&served.server.url("/v1/completions"), ",num_concurrent=2");
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let child = context.command(&arguments).spawn_piped();
    wait_for(&served.model, 8);
    served.model.restart(ScoringBehavior { weights: 2, ..behavior });
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("or another model"), "{stderr}");
}

#[test]
fn pools_use_what_all_servers_have_proven() {
    let behavior = ScoringBehavior::default();
    let new = serve(behavior);
    let old = serve(ScoringBehavior { token_ids: TokenIds::Ignored, ..behavior });
    let path = "/v1/completions";
    let context = prepared(LETTERS);
    let urls = format!("{};{}", new.server.url(path), old.server.url(path));
    let output = run(&context, &urls, "", &[]);
    assert_eq!(output.status, 0, "{output}");
    check_numbers(&context, &new.model);
    assert_eq!(results(&context)["scoring_protocol"]["protocol"], "echo");
    let other = serve(behavior);
    let urls = format!("{};{}", new.server.url(path), other.server.url(path));
    let output = run(&context, &urls, "", &[]);
    assert_eq!(output.status, 0, "{output}");
    check_numbers(&context, &new.model);
    assert_eq!(results(&context)["scoring_protocol"]["protocol"], "next_token");
    // One runner of the token interface returns uninitialized memory.
    let tails = ScoringBehavior { tail: TailRoute::ComputedOnly, ..behavior };
    let (newer, older) = (serve(tails), serve(ScoringBehavior { tail: TailRoute::Uninitialized, ..tails }));
    let urls = format!("{};{}", newer.server.url(path), older.server.url(path));
    let mixed = prepared(MIXED);
    let output = run(&mixed, &urls, "", &[]);
    assert_eq!(output.status, 0, "{output}");
    check_numbers(&mixed, &newer.model);
    assert_eq!(results(&mixed)["scoring_protocol"]["protocol"], "next_token");
    let different = serve(ScoringBehavior { weights: 2, ..behavior });
    let urls = format!("{};{}", new.server.url(path), different.server.url(path));
    let output = run(&context, &urls, "", &[]);
    assert!(output.stderr.contains("they do not run the same model"), "{output}");
}

#[test]
fn half_precision_has_a_wider_tolerance() {
    let (context, served) =
        (prepared(LETTERS), serve(ScoringBehavior { is_half: true, ..Default::default() }));
    let output = run(&context, &served.server.url("/v1/completions"), "", &[]);
    assert_eq!(output.status, 0, "{output}");
    check_numbers(&context, &served.model);
    let record = results(&context)["scoring_protocol"].clone();
    assert_eq!(
        (&record["logits"], &record["tolerance"]["absolute"]),
        (&"half precision".into(), &0.125.into())
    );
}

#[test]
fn tolerance_depends_on_the_precision() {
    // `echo` differs from the other protocol by this much.
    for (is_half, noise, protocol) in [
        (true, 0.06, "next_token"),
        (true, 1.5, "echo"),
        (false, 0.0005, "next_token"),
        (false, 0.06, "echo"),
    ] {
        let behavior = ScoringBehavior { is_half, noise, ..Default::default() };
        let (context, served) = (prepared(LETTERS), serve(behavior));
        let output = run(&context, &served.server.url("/v1/completions"), "", &[]);
        assert_eq!(output.status, 0, "{output}");
        let record = results(&context)["scoring_protocol"].clone();
        assert_eq!(record["protocol"], protocol, "{is_half} {noise}: {record}");
        if protocol == "next_token" {
            check_numbers(&context, &served.model);
        }
    }
}

#[test]
fn progress_shows_saved_prompt_tokens() {
    let (context, served) = (prepared(LETTERS), serve(ScoringBehavior::default()));
    let output = run(&context, &served.server.url("/v1/completions"), "", &["--progress", "json"]);
    assert_eq!(output.status, 0, "{output}");
    let mut lines = output.stderr.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let last = lines.rfind(|line| line["event"] == "progress").unwrap();
    let count = |name: &str| last[name].as_u64().unwrap();
    assert!(count("tokens_computed") * 3 < count("tokens_asked"), "{last}");
    assert!(last["tokens_saved"].as_f64().unwrap() > 0.6, "{last}");
    let tokens = results(&context)["scoring_protocol"]["prompt_tokens"].clone();
    let count = |name: &str| tokens[name].as_u64().unwrap();
    assert_eq!(count("saved"), count("echo_would_compute") - count("computed"), "{tokens}");
}

/// A task whose contexts end at every position of a cache block.
fn of_all_lengths(choices: &str) -> TestContext {
    let context = prepared(choices);
    let line = |number: usize| format!("{{\"q\": \"Which one{}?\"}}\n", "!".repeat(number));
    context.write("tasks/pick.jsonl", (0..DOCUMENTS).map(line).collect::<String>());
    context
}

#[test]
fn cache_hits_may_reach_the_end_of_the_context() {
    let behavior = ScoringBehavior { tail: TailRoute::ComputedOnly, ..Default::default() };
    let (context, served) = (of_all_lengths(WORDS), serve(behavior));
    let output = run(&context, &served.server.url("/v1/completions"), ",num_concurrent=1", &[]);
    assert_eq!(output.status, 0, "{output}");
    check_numbers(&context, &served.model);
    let record = results(&context)["scoring_protocol"].clone();
    assert_eq!(record["tail"]["answers"], 3 * DOCUMENTS, "{record}");
    assert_eq!(record["tail"]["unexpected_answers"], 0, "{record}");
    // The first tokens that the tails lack.
    assert!(record["next_token"]["calls"].as_u64().unwrap() > 0, "{record}");
}

#[test]
fn cache_hits_may_reach_into_the_continuation() {
    let behavior = ScoringBehavior { tail: TailRoute::ComputedOnly, ..Default::default() };
    let choices = "['the very same beginning: apple', 'the very same beginning: banana']";
    let (context, served) = (of_all_lengths(choices), serve(behavior));
    let output = run(&context, &served.server.url("/v1/completions"), "", &[]);
    assert_eq!(output.status, 0, "{output}");
    check_numbers(&context, &served.model);
}

#[test]
fn tails_score_longer_choices() {
    let behavior = ScoringBehavior { tail: TailRoute::ComputedOnly, ..Default::default() };
    for choices in [WORDS, MIXED] {
        let (context, served) = (prepared(choices), serve(behavior));
        let output = run(&context, &served.server.url("/v1/completions"), "", &[]);
        assert_eq!(output.status, 0, "{output}");
        check_numbers(&context, &served.model);
        let record = results(&context)["scoring_protocol"].clone();
        assert_eq!(record["protocol"], "next_token+tail", "{record}");
        let several = if choices == WORDS { 3 } else { 2 };
        assert_eq!(record["tail"]["answers"], several * DOCUMENTS, "{record}");
        assert_eq!(record["echo"]["answers"], 0, "{record}");
        let tokens = |name: &str| record["prompt_tokens"][name].as_u64().unwrap();
        assert!(tokens("computed") * 2 < tokens("echo_would_compute"), "{record}");
    }
}

#[test]
fn uninitialized_heads_are_never_used() {
    let behavior = ScoringBehavior { tail: TailRoute::Uninitialized, ..Default::default() };
    let (context, served) = (prepared(MIXED), serve(behavior));
    let url = served.server.url("/v1/completions");
    let output = run(&context, &url, "", &[]);
    assert_eq!(output.status, 0, "{output}");
    check_numbers(&context, &served.model);
    let record = results(&context)["scoring_protocol"].clone();
    assert_eq!(record["protocol"], "next_token", "{record}");
    assert!(record.to_string().contains("an entry for every token"), "{record}");
    let output = run(&context, &url, ",scoring=tail", &[]);
    assert!(output.status == 1 && output.stderr.contains("`scoring=tail` cannot be used"), "{output}");
}

#[test]
fn restart_with_the_older_runner_changes_no_number() {
    let new = ScoringBehavior { tail: TailRoute::ComputedOnly, ..Default::default() };
    let (context, served) = (prepared(WORDS), serve_slowly(new, Duration::from_millis(3)));
    let arguments = arguments(&served.server.url("/v1/completions"), ",num_concurrent=2");
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let child = context.command(&arguments).spawn_piped();
    let begun = Instant::now();
    while served.model.counts().tail < 20 && begun.elapsed() < Duration::from_mins(1) {
        std::thread::sleep(Duration::from_millis(1));
    }
    served.model.restart(ScoringBehavior { tail: TailRoute::Uninitialized, ..new });
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    check_numbers(&context, &served.model);
}

#[test]
fn sglang_scores_tails() {
    let behavior = ScoringBehavior { owner: "sglang", tail: TailRoute::Sglang, ..Default::default() };
    let (context, served) = (prepared(MIXED), serve(behavior));
    let root = served.server.url("");
    let output = run(&context, &format!("{root}/generate"), "", &[]);
    assert_eq!(output.status, 0, "{output}");
    check_numbers(&context, &served.model);
    let record = results(&context)["scoring_protocol"].clone();
    assert_eq!(record["protocol"], "tail", "{record}");
    assert_eq!(record["tail"]["answers"], 4 * DOCUMENTS, "{record}");
}

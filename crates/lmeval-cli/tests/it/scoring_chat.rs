//! Log-likelihoods on chat completions. Every number is compared with the known probabilities of the model.

use std::time::Duration;

use lmeval_testkit::{Output, ScoringBehavior, TestContext, TokenIds};

use crate::scoring_protocols::{
    DOCUMENTS, LETTERS, MIXED, Served, arguments, check_numbers, prepared, results, run, serve, serve_slowly,
    wait_for,
};

/// Runs with chat messages.
fn run_chat(context: &TestContext, served: &Served, model_args: &str) -> Output {
    run(context, &served.server.url("/v1/chat/completions"), model_args, &["--apply_chat_template"])
}

#[test]
fn chat_completions_score_next_tokens() {
    for choices in [LETTERS, MIXED] {
        let (context, served) = (prepared(choices), serve(ScoringBehavior::default()));
        let output = run_chat(&context, &served, ",scoring=next_token");
        assert_eq!(output.status, 0, "{output}");
        check_numbers(&context, &served.model);
        let record = results(&context)["scoring_protocol"].clone();
        assert_eq!(record["protocol"], "next_token", "{record}");
        assert!(record.to_string().contains("`echo` of `/v1/completions`"), "{record}");
        let single = if choices == LETTERS { 4 } else { 2 };
        assert_eq!(record["next_token"]["answers"], single * DOCUMENTS, "{record}");
        // The probe, one for each document, and the test conversation with every sixteenth.
        assert_eq!(served.model.counts().chat, 3 + DOCUMENTS + 2, "{record}");
        // Everything is saved.
        let connections = served.server.connections();
        let output = run_chat(&context, &served, ",scoring=next_token");
        assert!(output.stderr.contains("nothing was sent to the model"), "{output}");
        assert_eq!(served.server.connections(), connections, "{output}");
    }
}

#[test]
fn chat_completions_are_refused_without_proof() {
    let behavior = ScoringBehavior::default();
    for (behavior, reason) in [
        (ScoringBehavior { is_chat_only: true, ..behavior }, "of the same server, which fail"),
        (ScoringBehavior { token_ids: TokenIds::Ignored, ..behavior }, "is missing from the answer"),
        (ScoringBehavior { token_ids: TokenIds::Masked, ..behavior }, "is -9999"),
        (ScoringBehavior { noise: 0.06, ..behavior }, "with `echo`"),
    ] {
        let (context, served) = (prepared(LETTERS), serve(behavior));
        let output = run_chat(&context, &served, ",scoring=next_token");
        assert_eq!(output.status, 1, "{output}");
        assert!(output.stderr.contains("`scoring=next_token` cannot be used"), "{output}");
        assert!(output.stderr.contains(reason), "{reason}: {output}");
    }
    // Only on request.
    let (context, served) = (prepared(LETTERS), serve(behavior));
    let output = run_chat(&context, &served, "");
    assert_eq!(output.status, 1, "{output}");
    // The default compares letters by the likely tokens that a server lists, and this one lists none.
    assert!(output.stderr.contains("letters by log-probability of the first token"), "{output}");
    assert!(output.stderr.contains("does not return the log-probabilities of likely tokens"), "{output}");
}

#[test]
fn chat_completions_notice_another_model() {
    let behavior = ScoringBehavior::default();
    let (context, served) = (prepared(LETTERS), serve_slowly(behavior, Duration::from_millis(5)));
    let arguments =
        arguments(&served.server.url("/v1/chat/completions"), ",scoring=next_token,num_concurrent=1");
    let mut arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    arguments.push("--apply_chat_template");
    let child = context.command(&arguments).spawn_piped();
    wait_for(&served.model, 10);
    served.model.restart(ScoringBehavior { weights: 2, ..behavior });
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("or another model"), "{stderr}");
}

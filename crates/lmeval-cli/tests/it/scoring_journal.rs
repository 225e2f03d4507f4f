//! Saved log-likelihoods of several scoring protocols.

use std::time::{Duration, Instant};

use lmeval_testkit::{ScoringBehavior, TailRoute, TestContext, TokenIds};

use crate::long_run::newest;
use crate::scoring_protocols::{
    DOCUMENTS, LETTERS, MIXED, arguments, check_numbers, prepared, results, run, serve, serve_slowly,
};

#[test]
fn protocols_do_not_share_answers() {
    let (context, served) = (prepared(LETTERS), serve(ScoringBehavior::default()));
    let url = served.server.url("/v1/completions");
    let first = run(&context, &url, ",scoring=echo", &[]);
    assert_eq!(first.status, 0, "{first}");
    let output = run(&context, &url, ",scoring=next_token", &[]);
    assert_eq!(output.status, 0, "{output}");
    assert_eq!(served.model.counts().next_token, DOCUMENTS + 1);
    let note =
        "Log-likelihoods are scored with `next_token`; any that the journal has from `echo` are not reused";
    assert!(output.stderr.contains(note), "{output}");
    check_numbers(&context, &served.model);
    let connections = served.server.connections();
    for (model_args, protocol) in
        [(",scoring=echo", "echo"), ("", "next_token"), (",scoring=next_token", "next_token")]
    {
        let output = run(&context, &url, model_args, &[]);
        assert!(output.stderr.contains("nothing was sent to the model"), "{output}");
        check_numbers(&context, &served.model);
        let record = results(&context)["scoring_protocol"].clone();
        assert_eq!(record["protocol"], protocol, "{record}");
        assert!(record.to_string().contains("the server was not contacted"), "{record}");
    }
    assert_eq!(served.server.connections(), connections);
}

#[test]
fn complete_journal_needs_no_server_whatever_the_protocol() {
    let behavior = ScoringBehavior { tail: TailRoute::ComputedOnly, ..Default::default() };
    let (context, served) = (prepared(MIXED), serve(behavior));
    let url = served.server.url("/v1/completions");
    let output = run(&context, &url, "", &[]);
    assert_eq!(output.status, 0, "{output}");
    let first = samples(&context);
    // A run without log-likelihoods in between has the same journal.
    context.write(
        "tasks/say.yaml",
        "task: say\ndataset_path: json\ndataset_kwargs: {data_files: {test: tasks/pick.jsonl}}\n\
         test_split: test\noutput_type: generate_until\ndoc_to_text: '{{q}}'\ndoc_to_target: x\n\
         generation_kwargs: {until: [\"\\n\"], max_gen_toks: 4}\n",
    );
    let mut words = arguments(&url, "");
    words.iter_mut().filter(|word| *word == "pick").for_each(|word| "say".clone_into(word));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let output = context.run(&words);
    assert_eq!(output.status, 0, "{output}");
    let connections = served.server.connections();
    let output = run(&context, &url, "", &[]);
    assert!(output.stderr.contains("log-likelihoods by `next_token+tail` scoring"), "{output}");
    assert!(output.stderr.contains("nothing was sent to the model"), "{output}");
    assert_eq!(served.server.connections(), connections, "{output}");
    assert_eq!(samples(&context), first);
    let model = served.model.clone();
    drop(served);
    let output = run(&context, &url, "", &[]);
    assert_eq!(output.status, 0, "{output}");
    check_numbers(&context, &model);
}

/// The samples of the newest run.
fn samples(context: &TestContext) -> String {
    fs_err::read_to_string(newest(&context.work().join("out"), "samples_pick")).unwrap()
}

#[test]
fn missing_answers_start_over_if_the_protocol_has_changed() {
    let new = ScoringBehavior::default();
    let old = ScoringBehavior { token_ids: TokenIds::Ignored, ..new };
    for (before, after, name) in [(new, old, "echo"), (old, new, "next_token")] {
        let (context, served) = (prepared(LETTERS), serve(before));
        let url = served.server.url("/v1/completions");
        let output = run(&context, &url, "", &["--limit", "10"]);
        assert_eq!(output.status, 0, "{output}");
        served.model.restart(after);
        let output = run(&context, &url, "", &[]);
        assert_eq!(output.status, 0, "{output}");
        let note = format!("another scoring protocol were used so far; the run starts over with `{name}`");
        assert!(output.stderr.contains(&note), "{output}");
        check_numbers(&context, &served.model);
        assert_eq!(results(&context)["scoring_protocol"]["protocol"], name, "{output}");
    }
}

#[test]
fn rescoring_finds_the_answers_of_a_protocol() {
    let (context, served) = (prepared(LETTERS), serve(ScoringBehavior::default()));
    let url = served.server.url("/v1/completions");
    for model_args in [",scoring=echo", ",scoring=next_token"] {
        let output = run(&context, &url, model_args, &[]);
        assert_eq!(output.status, 0, "{output}");
    }
    let words = ["rescore", "out/m/answers.journal", "--tasks", "pick", "--include_path", "tasks"];
    let output = context.run(&[&words[..], &["--library", "none", "--output_path", "again"]].concat());
    assert_eq!(output.status, 0, "{output}");
}

#[test]
fn resumes_after_kill_across_protocols() {
    let behavior = ScoringBehavior { tail: TailRoute::ComputedOnly, ..Default::default() };
    let (context, served) = (prepared(MIXED), serve_slowly(behavior, Duration::from_millis(4)));
    let url = served.server.url("/v1/completions");
    let states = [
        behavior,
        ScoringBehavior { token_ids: TokenIds::Ignored, tail: TailRoute::Forbidden, ..behavior },
        ScoringBehavior { tail: TailRoute::Uninitialized, ..behavior },
        behavior,
    ];
    for (round, state) in states.into_iter().enumerate() {
        served.model.restart(state);
        let arguments = arguments(&url, ",num_concurrent=2");
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let mut child = context.command(&arguments).spawn();
        let enough = served.server.total() + 30 + 10 * round;
        let begun = Instant::now();
        while served.server.total() < enough && child.try_wait().unwrap().is_none() {
            assert!(begun.elapsed() < Duration::from_mins(1), "nothing was sent");
            std::thread::sleep(Duration::from_millis(1));
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let output = run(&context, &url, "", &[]);
    assert_eq!(output.status, 0, "{output}");
    check_numbers(&context, &served.model);
    let output = run(&context, &url, "", &[]);
    assert!(output.stderr.contains("nothing was sent to the model"), "{output}");
    check_numbers(&context, &served.model);
}

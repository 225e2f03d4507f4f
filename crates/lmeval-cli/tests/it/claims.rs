//! `lm-eval reproduce`, `run --expect`, and gates over several tasks.

use lmeval_testkit::{Dice, Output, Scripted, ServerOptions, StandInServer, TestContext};
use serde_json::{Value, json};

use crate::context;
use crate::judge::number_after;

fn run(context: &TestContext, model: &str, out: &str) {
    let output = context.run(&[
        "run",
        "--model",
        model,
        "--tasks",
        "demo_capitals,demo_facts",
        "--output_path",
        out,
        "--log_samples",
    ]);
    assert_eq!(output.status, 0, "{output}");
}

fn verdicts(output: &Output) -> Vec<String> {
    let lines = output.stdout.lines().filter(|line| line.starts_with('{'));
    let one = |line: &str| -> Value { serde_json::from_str(line).unwrap() };
    lines.map(|line| one(line)["verdict"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn claims_are_judged_by_a_finished_run() {
    let context = context();
    run(&context, "ngram", "out");
    for (claim, verdict, status) in [
        ("demo_capitals=acc=0.3", "CANNOT TELL", 4),
        ("demo_capitals=acc=0.9±0.01", "DIFFERENT", 3),
        ("demo_capitals=acc=0.9@1000", "DIFFERENT", 3),
    ] {
        let output = context.run(&["reproduce", claim, "out", "--json"]);
        assert_eq!((verdicts(&output), output.status), (vec![verdict.to_owned()], status), "{output}");
    }
    let output = context.run(&["reproduce", "demo_capitals=acc=0.3±0.001", "out", "--margin", "0.2"]);
    assert_eq!(output.status, 0, "{output}");
    assert!(output.stdout.contains("REPRODUCED"), "{output}");
    let output = context.run(&["reproduce", "demo_capitals=acc=0.3±0.001", "out"]);
    assert!(output.stdout.contains(" about 9"), "{output}");
    // Against the files of a run, document by document: the same run has no difference at all.
    let output = context.run(&["reproduce", "out", "out", "--json"]);
    let first: Value = serde_json::from_str(output.stdout.lines().next().unwrap()).unwrap();
    assert_eq!(
        (first["paired"].as_bool(), first["difference"].as_f64()),
        (Some(true), Some(0.0)),
        "{output}"
    );
    assert_eq!(verdicts(&output).len(), 4, "{output}");
}

#[test]
fn a_new_run_takes_its_settings_from_the_claim() {
    let context = context();
    let output = context.run(&["reproduce", "demo", "--model", "ngram", "--json", "--output_path", "new"]);
    // The published scores are those of 40 documents, which tell nothing of three points.
    assert_eq!(output.status, 4, "{output}");
    assert_eq!(verdicts(&output), ["CANNOT TELL", "CANNOT TELL"], "{output}");
    assert!(output.stdout.contains("|demo_capitals|      1|none  |     2|acc"), "{output}");
    // A results file has the settings of its run.
    let output = context.run(&[
        "reproduce",
        "new",
        "--model",
        "ngram",
        "--margin",
        "0.5",
        "--output_path",
        "again",
        "--log_samples",
    ]);
    assert_eq!(output.status, 0, "{output}");
    assert!(output.stdout.contains("|demo_capitals|      1|none  |     2|acc"), "{output}");
    assert!(output.stdout.contains("|REPRODUCED|demo_facts acc,none"), "{output}");
}

#[test]
fn problems_with_claims_are_named() {
    let context = context();
    run(&context, "uniform", "out");
    for (words, problem) in [
        (&["demo_capitals=0.5", "out"][..], "is not a claim"),
        (&["demo_poem=acc=0.5", "out"], "has none of the claimed scores: `demo_poem acc`"),
        (&["demo", "out"], "has no scores of `uniform`"),
        (&["demoo", "out"], "There is no recipe `demoo`"),
        (&["a=acc=1", "nothing"], "`nothing`"),
        (&["a=acc=1", "out", "--model", "ngram"], "Both RUN and `--model`"),
        (&["a=acc=1", "out", "--margin", "0"], "above 0"),
    ] {
        let output = context.run(&[&["reproduce"], words].concat());
        assert!(output.status == 1 && output.stderr.contains(problem), "{output}");
    }
}

#[test]
fn a_suite_of_a_server_sets_the_run_and_its_verdict() {
    let context = context();
    let server = StandInServer::start(ServerOptions::default());
    let args = format!(
        "model=m,base_url={},tokenizer_backend=None,tokenized_requests=False",
        server.url("/v1/completions")
    );
    let suite = "model_name: org/m\ntasks:\n- name: demo_arithmetic\n  metrics:\n  - {name: \"exact_match,strict-match\", value: VALUE}\nlimit: 6\nnum_fewshot: 3\nrtol: 0.08\n";
    for (value, status, verdict) in [("0.0", 0, "PASS"), ("0.9", 3, "FAIL")] {
        context.write("suite.yaml", suite.replace("VALUE", value));
        let words = [
            "run",
            "--expect",
            "suite.yaml",
            "--model",
            "local-completions",
            "--model_args",
            &args,
            "--output_path",
            "out",
        ];
        let output = context.run(&words);
        assert_eq!(output.status, status, "{output}");
        let line = format!("{verdict}: demo_arithmetic exact_match,strict-match is 0.0000, expected {value}");
        let line = line.replace("expected 0.0", "expected 0").replace("expected 0:", "expected 0");
        assert!(output.stderr.contains(line.trim_end_matches(".0")), "{output}");
        assert!(output.stdout.contains("limit: 6") || output.stdout.contains("limit: 6.0"), "{output}");
        assert!(output.stdout.contains("|     3|exact_match"), "{output}");
    }
}

#[test]
fn earlier_runs_and_pooled_gates_are_expectations() {
    let context = context();
    run(&context, "ngram", "released");
    context.write(
        "expect.yaml",
        "settings: {model: uniform, tasks: [demo_capitals, demo_facts]}\nbaseline: released\n\
         expect:\n- {task: demo_capitals, metric: acc, baseline: released, margin: 0.5}\n\
         gates: ['tasks(demo_capitals:acc, demo_facts:acc) >= -0.01']\n",
    );
    let words = ["run", "--expect", "expect.yaml", "--output_path", "new", "--log_samples"];
    let output = context.run(&words);
    assert_eq!(output.status, 4, "{output}");
    assert!(output.stderr.contains("PASS: demo_capitals acc is 0.1750"), "{output}");
    assert!(
        output.stderr.contains("INCONCLUSIVE: tasks(demo_capitals:acc, demo_facts:acc) >= -0.01 (tasks)"),
        "{output}"
    );
    let output = context.run(&words[..3]);
    assert!(
        output.status == 1 && output.stderr.contains("Add `--output_path` and `--log_samples`"),
        "{output}"
    );
    context.write("expect.yaml", "expect:\n- {task: demo_capital, metric: acc, value: 1}\nsettings: {tasks: [demo_capitals], model: uniform}\n");
    let output = context.run(&words[..3]);
    assert!(output.status == 1 && output.stderr.contains("`--expect demo_capital:acc"), "{output}");
    context.write("expect.yaml", "expect: []\nsettings: {task: a}\n");
    let output = context.run(&words[..3]);
    assert!(output.status == 1 && output.stderr.contains("`task` is not a setting"), "{output}");

    let gate = |gate: &str| context.run(&["compare", "released", "new", "--gate", gate]);
    let output = gate("documents(demo_capitals:acc, demo_facts:acc) >= -0.9");
    assert_eq!(output.status, 0, "{output}");
    let output = gate("fisher(demo_capitals:acc, demo_facts:acc) >= 0.5");
    assert!(output.status == 3 && output.stdout.contains("|fisher, p 0.0000|"), "{output}");
    let output = gate("worst(demo_capitals:acc, demo_poem:acc) >= 0");
    assert!(
        output.status == 1 && output.stderr.contains("`demo_poem:acc`, which the runs do not share"),
        "{output}"
    );
    let output = gate("mean(demo_capitals:acc) >= 0 0");
    assert_eq!(output.status, 2, "{output}");
}

/// The explanation of `reproduce --explain` for a claim of 0.7 by a model of `traps.rs`.
fn explained(
    context: &TestContext,
    server: &StandInServer,
    model: &str,
    claim: &str,
    more: &[&str],
) -> Output {
    let args = format!(
        "model={model},base_url={},tokenizer_backend=huggingface,tokenizer={},num_concurrent=8,add_bos_token=True",
        server.url("/v1/completions"),
        crate::traps::folder().display()
    );
    let words = [
        "reproduce",
        claim,
        "--model",
        "local-completions",
        "--model_args",
        &args,
        "--include_path",
        "tasks",
        "--explain",
    ];
    context.run(&[&words[..], more].concat())
}

#[test]
fn the_setting_that_closes_a_gap_is_named_and_no_other() {
    let context = context();
    crate::traps::write_task(&context, 400);
    let server = crate::traps::start();
    // A doubled BOS token costs 30 of 100 points; the claim was made without.
    let output =
        explained(&context, &server, "1-0-30", "quiz=exact_match=0.7±0.005", &["--apply_chat_template"]);
    assert_eq!(output.status, 3, "{output}");
    assert!(output.stdout.contains("without an added BOS token moves the score by +0."), "{output}");
    assert!(output.stdout.contains("closes the gap: set `add_bos_token=False`"), "{output}");
    assert!(!output.stdout.contains("release") && !output.stdout.contains("examples moves"), "{output}");
}

/// A model that is named by what it needs to answer 70 of 100 questions, such as `until-1`, and a seed; otherwise it answers 40.
fn demanding(body: &Value, _: usize) -> Scripted {
    // No chats.
    let Some(prompt) = body["prompt"].as_str().or_else(|| body["prompt"][0].as_str()) else {
        return Scripted::Status(400);
    };
    let (needs, seed) = body["model"].as_str().unwrap().split_once('-').unwrap();
    let has = match needs {
        "until" => body["stop"].as_array().is_none_or(|stop| !stop.contains(&json!("#"))),
        "budget" => body["max_tokens"].as_u64() >= Some(4096),
        "shots" => prompt.matches("Question").count() == 9,
        "twin" => prompt.contains("Problem"),
        _ => false,
    };
    let last = prompt.rfind("Question ").map_or("", |start| &prompt[start..]);
    let question = number_after(last, "Question ");
    let mut dice = Dice::new(seed.parse::<u64>().unwrap() * 1000 + question as u64);
    let (likely, unlikely) = (dice.percent(70), dice.percent(40));
    let text = if if has { likely } else { unlikely } { "right" } else { "wrong" };
    Scripted::Body(200, json!({"choices": [{"index": 0, "text": text, "finish_reason": "stop"}]}))
}

#[test]
fn causes_beyond_the_form_of_the_prompt_are_named() {
    let context = context();
    crate::traps::write_task(&context, 400);
    let quiz = fs_err::read_to_string(context.work().join("tasks/quiz.yaml")).unwrap();
    let quiz = quiz.replace("until: [\"\\n\"]", "until: [\"#\"]");
    assert!(quiz.contains('#'), "{quiz}");
    context.write("tasks/quiz.yaml", &quiz);
    let twin = quiz.replace("task: quiz", "task: quiz_cot").replace("{{q}}?", "Problem: {{q}}?");
    context.write("tasks/quiz_cot.yaml", twin);
    let server =
        StandInServer::start(ServerOptions { completions: Some(demanding), ..ServerOptions::default() });
    for (needs, cause) in [
        ("until", "stop strings"),
        ("budget", "set `--gen_kwargs max_gen_toks=4096`"),
        ("shots", "set `--num_fewshot 8`"),
        ("twin", "set `--tasks quiz_cot`"),
    ] {
        let args = format!(
            "model={needs}-3,base_url={},tokenizer_backend=None,tokenized_requests=False,num_concurrent=8,stream=False",
            server.url("/v1/completions")
        );
        let words =
            ["reproduce", "quiz=exact_match=0.7±0.005", "--model", "local-completions", "--model_args"];
        let output = context.run(&[&words[..], &[&args, "--include_path", "tasks", "--explain"]].concat());
        assert_eq!(output.status, 3, "{output}");
        let closing: Vec<&str> = output.stdout.lines().filter(|line| line.starts_with('→')).collect();
        // Without its stop string the model answers as if it had another one.
        let is_named = |line: &&str| line.contains(cause) || needs == "until" && line.contains("empty line");
        assert!(!closing.is_empty() && closing.iter().all(is_named), "{needs}: {output}");
    }
}

#[test]
fn a_gap_that_no_setting_closes_has_no_cause() {
    let context = context();
    crate::traps::write_task(&context, 400);
    let server = crate::traps::start();
    let cases = lmeval_testkit::simulated(2, 5);
    let claims = std::thread::scope(|scope| {
        let (context, server) = (&context, &server);
        let workers: Vec<_> = (0..4)
            .map(|worker| {
                scope.spawn(move || {
                    let models =
                        (0..cases).map(|index| format!("{}-{}-0", 2000 + 1000 * worker + index, 10 * worker));
                    let output =
                        |model: String| explained(context, server, &model, "quiz=exact_match=0.9±0.005", &[]);
                    models.map(output).collect::<Vec<_>>()
                })
            })
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect::<Vec<_>>()
    });
    for output in claims {
        assert_eq!(output.status, 3, "{output}");
        assert!(output.stdout.contains("No setting that was tried closes the gap: "), "{output}");
    }
}

#[test]
fn a_claim_of_another_filter_is_recognised() {
    let context = context();
    crate::traps::write_task(&context, 400);
    let quiz = fs_err::read_to_string(context.work().join("tasks/quiz.yaml")).unwrap();
    let filters = "filter_list:\n- {name: strict, filter: [{function: regex, regex_pattern: '#### (.*)'}, {function: take_first}]}\n\
                   - {name: flexible, filter: [{function: regex, regex_pattern: '(right|wrong)'}, {function: take_first}]}\n";
    context.write("tasks/quiz.yaml", quiz + filters);
    let server = crate::traps::start();
    let output = explained(&context, &server, "1-0-0", "quiz=exact_match,strict=0.7±0.005", &[]);
    assert_eq!(output.status, 3, "{output}");
    assert!(output.stdout.contains("→ `exact_match,flexible` of this run is 0."), "{output}");
}

#[test]
fn models_in_this_process_are_asked_too() {
    let context = context();
    let output = context.run(&[
        "reproduce",
        "demo_capitals=acc=0.95±0.01",
        "--model",
        "ngram",
        "--explain",
        "--limit",
        "30",
    ]);
    assert_eq!(output.status, 3, "{output}");
    assert!(output.stdout.contains("Why is demo_capitals acc different?"), "{output}");
    assert!(output.stdout.contains("No setting that was tried closes the gap"), "{output}");
    let output = context.run(&["reproduce", "a=acc=1", "out", "--explain", "--json"]);
    assert_eq!(output.status, 2, "{output}");
}

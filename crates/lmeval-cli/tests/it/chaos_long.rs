//! A long run with all faults mixed, killed repeatedly.

use std::collections::HashSet;
use std::time::Duration;

use lmeval_testkit::{Faults, ServerOptions, StandInServer, TestContext};
use serde_json::Value;

use crate::journal_faults::ODD_MODELS;
use crate::long_run::{newest, results, write_task};

/// The default number of requests; `LM_EVAL_CHAOS_REQUESTS=20000` takes about a minute.
const REQUESTS: usize = 2_000;
const KILLS: usize = 10;
const CONCURRENCY: usize = 16;

/// A request: the task, the document, and its index among the document's requests.
type Asked = (String, u64, u64);

/// Three of four requests are generations, the others log-likelihoods: two for each document.
fn write_tasks(context: &TestContext, requests: usize) {
    write_task(context, requests * 3 / 4);
    let line = |number: usize| format!("{{\"q\": \"Choice {number}: which?\", \"a\": {}}}\n", number % 2);
    context.write("tasks/choices.jsonl", (0..requests / 8).map(line).collect::<String>());
    context.write(
        "tasks/choices.yaml",
        "task: choices\ndataset_path: json\ndataset_kwargs: {data_files: {test: tasks/choices.jsonl}}\n\
         test_split: test\noutput_type: multiple_choice\ndoc_to_text: '{{q}}'\ndoc_to_target: '{{a}}'\n\
         doc_to_choice: ['yes', 'no']\nmetric_list: [{metric: acc}]\n",
    );
}

fn arguments(server: &StandInServer) -> Vec<String> {
    let model = format!(
        "model=m,base_url={},retry_wait=0.005,num_concurrent={CONCURRENCY}",
        server.url("/v1/completions")
    );
    ["run", "--model", "local-completions", "--model_args", &model, "--tasks", "long,choices"]
        .into_iter()
        .chain(["--include_path", "tasks", "--library", "none", "--output_path", "out", "--log_samples"])
        .chain(["--quiet", "--bootstrap_iters", "0"])
        .map(str::to_owned)
        .collect()
}

fn outcome(context: &TestContext) -> (Value, [String; 2]) {
    let out = context.work().join("out");
    let samples = ["samples_long", "samples_choices"]
        .map(|prefix| fs_err::read_to_string(newest(&out, prefix)).unwrap());
    (results(&out), samples)
}

/// Parses a request body; token ids are bytes plus 3.
fn asked(body: &str) -> Asked {
    let body: Value = serde_json::from_str(body).unwrap();
    let tokens = body["prompt"][0].as_array().unwrap();
    let bytes: Vec<u8> =
        tokens.iter().map(|token| u8::try_from(token.as_u64().unwrap() - 3).unwrap()).collect();
    let text = String::from_utf8(bytes).unwrap();
    let (kind, rest) = text.split_once(' ').unwrap();
    let number = rest.split(':').next().unwrap().parse().unwrap();
    let task = if kind == "Question" { "long" } else { "choices" };
    (task.to_owned(), number, u64::from(text.ends_with(" no")))
}

/// The requests whose answers are in the journal.
fn journaled(context: &TestContext) -> HashSet<Asked> {
    let path = "out/m/answers.journal";
    if !context.work().join(path).exists() {
        return HashSet::new();
    }
    let exported = context.run(&["journal", "export", path]);
    assert_eq!(exported.status, 0, "{exported}");
    let entries = exported.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let answered = entries.filter(|entry| entry.get("error").is_none());
    answered
        .map(|entry| {
            let number = |name: &str| entry[name].as_u64().unwrap();
            (entry["task"].as_str().unwrap().to_owned(), number("doc_id"), number("idx"))
        })
        .collect()
}

/// Checks that no journaled request was sent; returns the number of requests.
fn check(server: &StandInServer, known: &HashSet<Asked>) -> usize {
    let bodies = server.counts().bodies;
    let completions = bodies.iter().filter(|(path, _)| path == "/v1/completions");
    for (_, body) in completions.clone() {
        let asked = asked(body);
        assert!(!known.contains(&asked), "{asked:?} was answered before");
    }
    completions.count()
}

/// Flips a bit of the journal: in its header, or in a record, whose answer is lost.
fn damage(context: &TestContext, kill: usize) {
    let path = context.work().join("out/m/answers.journal");
    let Ok(mut bytes) = fs_err::read(&path) else { return };
    let at = if kill.is_multiple_of(2) { kill % 16 } else { bytes.len() / 2 };
    if let Some(byte) = bytes.get_mut(at) {
        *byte ^= 8;
        fs_err::write(&path, bytes).unwrap();
    }
}

#[test]
fn faults_and_kills_do_not_change_results() {
    let requests =
        std::env::var("LM_EVAL_CHAOS_REQUESTS").ok().map_or(REQUESTS, |text| text.parse().unwrap());
    let calm = crate::context();
    write_tasks(&calm, requests);
    let server = StandInServer::start(ServerOptions { tokenizer: true, ..ServerOptions::default() });
    let output = calm.run(&arguments(&server).iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(output.status, 0, "{output}");
    let expected = outcome(&calm);
    drop(server);

    let context = crate::context();
    write_tasks(&context, requests);
    let faults = Faults::all(40);
    let options = ServerOptions { faults, keep_bodies: true, tokenizer: true, ..ServerOptions::default() };
    let server = StandInServer::start(options);
    let arguments = arguments(&server);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut sent = 0;
    for kill in 0..KILLS {
        let known = journaled(&context);
        server.reset();
        // The first run also requests the model's identity.
        server.set_models((kill > 0).then(|| ODD_MODELS[kill % ODD_MODELS.len()]));
        let mut child = context.command(&arguments).spawn();
        while server.total() < requests / KILLS {
            assert!(child.try_wait().unwrap().is_none(), "the run ended before it was killed");
            std::thread::sleep(Duration::from_millis(2));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        sent += check(&server, &known);
        if kill % 3 == 2 {
            damage(&context, kill);
        }
    }
    let known = journaled(&context);
    server.reset();
    let output = context.run(&arguments);
    assert_eq!(output.status, 0, "{output}");
    sent += check(&server, &known);
    assert_eq!(journaled(&context).len(), requests);
    println!("{requests} requests: {sent} sent, {KILLS} kills");
    assert!(sent > requests, "{sent} requests were sent for {requests}: no fault occurred");
    assert!(outcome(&context) == expected, "the results differ");
}

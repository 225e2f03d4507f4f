//! Workers and runs that are killed, stopped and cut off, and others that have no business here.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::net::TcpListener;
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use lmeval_core::{ModelError, ModelErrorKind};
use lmeval_host::{Token, WorkerOptions, work_for_run};
use lmeval_pycompat::Dict;
use lmeval_testkit::{Dice, TestContext, fuzz_seed};
use serde_json::Value;

use crate::hf::{answers, arguments, model, prepared, run};
use crate::long_run::newest;
use crate::worker_proxy::Proxy;
use crate::workers::{PATIENCE, Run, end, ended, kill, saved, saved_documents, write_token};

/// Documents of the task.
const DOCUMENTS: usize = 300;
/// Processes that compute.
const WORKERS: usize = 3;
/// How many milliseconds an answer takes until the last fault. About 150 of them arrive by then.
const PACE: u64 = 450;

/// A folder with a task of many short generations.
fn many() -> TestContext {
    let context = prepared();
    let line = |number: usize| format!("{{\"q\": \"Is {number} even?\", \"a\": \"{number}\"}}\n");
    context.write("tasks/many.jsonl", (0..DOCUMENTS).map(line).collect::<String>());
    context.write(
        "tasks/many.yaml",
        "task: many\ndataset_path: json\ndataset_kwargs: {data_files: {test: tasks/many.jsonl}}\ntest_split: test\n\
         doc_to_text: '{{q}}'\noutput_type: generate_until\ndoc_to_target: '{{a}}'\n\
         generation_kwargs: {until: [], max_gen_toks: 16}\n",
    );
    context
}

fn words(out: &str) -> Vec<String> {
    arguments("many", ",batch_size=2", out)
}

fn wait_until(what: &str, run: &Run, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "no {what}:\n{}", run.text());
        thread::sleep(Duration::from_millis(2));
    }
}

/// The run `out` has the answers and scores of one process, and each answer once.
fn assert_equals_one_process(context: &TestContext) {
    let output = run(context, &words("one"));
    assert_eq!(output.status, 0, "{output}");
    let [found, expected] = ["out", "one"].map(|out| answers(context, out, "many"));
    assert_eq!(found.len(), DOCUMENTS);
    assert_eq!(found, expected);
    let [found, expected] = ["out", "one"].map(|out| {
        let path = newest(&context.work().join(out), "results_");
        serde_json::from_str::<Value>(&fs_err::read_to_string(path).unwrap()).unwrap()["results"].clone()
    });
    assert_eq!(found, expected);
    assert_eq!(saved(context), DOCUMENTS);
}

/// The processes that were started in the folder of a test.
fn processes(context: &TestContext) -> Vec<String> {
    let all = fs_err::read_dir("/proc").unwrap().map_while(Result::ok).map(|entry| entry.path());
    let ours = all.filter(|path| fs_err::read_link(path.join("cwd")).is_ok_and(|cwd| cwd == context.work()));
    ours.map(|path| fs_err::read_to_string(path.join("cmdline")).unwrap_or_default()).collect()
}

#[derive(Clone, Copy, Debug)]
enum Fault {
    KillWorker,
    PauseWorker,
    StallWorker,
    KillRun,
    PauseRun,
}

/// All faults of a test, in a random order.
fn faults(dice: &mut Dice) -> Vec<Fault> {
    use Fault::{KillRun, KillWorker, PauseRun, PauseWorker, StallWorker};
    let counts = [(KillWorker, 9), (PauseWorker, 5), (StallWorker, 2), (KillRun, 5), (PauseRun, 3)];
    let mut left: Vec<Fault> = counts.into_iter().flat_map(|(fault, count)| vec![fault; count]).collect();
    let mut order = Vec::new();
    while !left.is_empty() {
        order.push(left.swap_remove(dice.roll(left.len())));
    }
    order
}

#[cfg(target_os = "linux")]
#[test]
fn random_faults_change_no_answer_and_repeat_none() {
    let mut dice = Dice::new(fuzz_seed(22));
    let context = many();
    let mut pool = Run::start(&context, words("out"), ",stall=3");
    let proxy = Proxy::start(&pool.address);
    proxy.set_pace(PACE);
    let listen = pool.address.clone();
    let join = || pool_worker(&context, &proxy.address);
    let mut workers: Vec<Child> = (0..WORKERS).map(|_| join()).collect();
    let order = faults(&mut dice);
    assert!(order.len() >= 20);
    for fault in order {
        // Each fault hits a run that computes.
        let before = proxy.passed(|passed| passed.answered.len());
        let more = dice.between(1, 3);
        assert!(before + more < DOCUMENTS, "the run was over before {fault:?}");
        wait_until("progress", &pool, || proxy.passed(|passed| passed.answered.len()) >= before + more);
        let chosen = dice.roll(WORKERS);
        match fault {
            Fault::KillWorker => {
                end(&mut workers[chosen]);
                workers[chosen] = join();
            }
            Fault::PauseWorker => pause(workers[chosen].id(), dice.between(10, 300)),
            Fault::StallWorker => {
                let known = pool.text().matches("said nothing for").count();
                kill("-STOP", workers[chosen].id());
                // It may have been without a connection.
                let start = Instant::now();
                while pool.text().matches("said nothing for").count() == known
                    && start.elapsed() < Duration::from_secs(5)
                {
                    thread::sleep(Duration::from_millis(10));
                }
                kill("-CONT", workers[chosen].id());
            }
            Fault::KillRun => {
                drop(pool);
                let documents: BTreeSet<u64> = saved_documents(&context);
                proxy.passed(|passed| {
                    // Answers that the run had not saved are lost with it, and no others.
                    assert!(documents.is_subset(&passed.answered), "{documents:?}");
                    passed.answered = documents;
                });
                pool = Run::listen(&context, words("out"), &listen, ",stall=3");
            }
            Fault::PauseRun => pause(pool.child.id(), dice.between(10, 500)),
        }
    }
    proxy.set_pace(0);
    pool.finish();
    let mut left_alone = 0;
    for mut worker in workers {
        // A worker that was about to connect again waits for another run.
        let start = Instant::now();
        while worker.try_wait().unwrap().is_none() && start.elapsed() < Duration::from_secs(3) {
            thread::sleep(Duration::from_millis(10));
        }
        match worker.try_wait().unwrap() {
            Some(status) => assert!(status.success(), "{status}"),
            None => {
                end(&mut worker);
                left_alone += 1;
            }
        }
    }
    assert!(left_alone < WORKERS, "no worker ended with its run");
    assert_eq!(processes(&context), Vec::<String>::new());
    proxy.passed(|passed| {
        assert_eq!(passed.repeated, Vec::<u64>::new(), "answered, and asked again");
        assert_eq!(passed.sent.len(), DOCUMENTS);
    });
    assert_equals_one_process(&context);
}

fn pause(process: u32, milliseconds: usize) {
    kill("-STOP", process);
    thread::sleep(Duration::from_millis(milliseconds as u64));
    kill("-CONT", process);
}

fn pool_worker(context: &TestContext, address: &str) -> Child {
    let words = ["worker", "--connect", address, "--token_file", "token", "--patience", "300"];
    context.command(&words).spawn_piped()
}

/// `LM_EVAL_PARTITION_SECONDS=120` runs it with the default limits of a minute.
#[test]
fn run_and_workers_survive_a_partition() {
    let setting = std::env::var("LM_EVAL_PARTITION_SECONDS").ok();
    let seconds: f64 = setting.map_or(5.0, |text| text.parse().unwrap());
    let context = many();
    let stall = seconds / 2.0;
    let mut pool = Run::start(&context, words("out"), &format!(",stall={stall}"));
    let proxy = Proxy::start(&pool.address);
    let workers = [pool_worker(&context, &proxy.address), pool_worker(&context, &proxy.address)];
    pool.wait_for("workers: 2");
    wait_until("answers", &pool, || proxy.passed(|passed| passed.answered.len() >= 10));
    proxy.cut(true);
    let start = Instant::now();
    pool.wait_for_count("left: it said nothing for", 2);
    thread::sleep(Duration::from_secs_f64(seconds).saturating_sub(start.elapsed()));
    proxy.cut(false);
    pool.wait_for_count(" joined", 4);
    pool.finish();
    for worker in workers {
        let (status, text) = ended(worker);
        assert_eq!(status, 0, "{text}");
        assert!(text.contains("was lost: "), "{text}");
        assert_eq!(text.matches("Loading the model").count(), 1, "{text}");
    }
    assert_equals_one_process(&context);
}

#[test]
fn messages_contain_no_time_of_day() {
    let context = prepared();
    let mut pool = Run::start(&context, arguments("options,draws", "", "out"), "");
    let proxy = Proxy::start(&pool.address);
    let worker = pool_worker(&context, &proxy.address);
    pool.wait_for("workers: 1");
    pool.finish();
    assert_eq!(ended(worker).0, 0);
    let messages = proxy.passed(|passed| std::mem::take(&mut passed.messages));
    let kinds: BTreeSet<&str> = messages
        .iter()
        .filter_map(|message| message.as_object()?.keys().next())
        .map(String::as_str)
        .collect();
    for kind in ["hello", "setup", "ready", "accepted", "requests", "answers", "done", "end"] {
        assert!(kinds.contains(kind), "{kinds:?}");
    }
    // A clock that is wrong on one side can change nothing.
    for message in &messages {
        assert!(!has_time(message), "{message}");
    }
    assert!(has_time(&serde_json::json!({"a": [1.79e9]})) && has_time(&"2026-01-01T00:00:00Z".into()));
}

/// Whether a value contains something like a time since the epoch, or a date.
fn has_time(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(has_time),
        Value::Object(fields) => fields.values().any(has_time),
        // Seconds, milliseconds, microseconds or nanoseconds.
        Value::Number(number) => number.as_f64().is_some_and(|number| number > 1e9),
        Value::String(text) => {
            let bytes = text.as_bytes();
            bytes.windows(10).any(|date| {
                let is_digit = |index: usize| date[index].is_ascii_digit();
                date.starts_with(b"20") && date[4] == b'-' && date[7] == b'-' && (8..10).all(is_digit)
            })
        }
        _ => false,
    }
}

#[test]
fn worker_waits_until_its_run_has_the_port() {
    let context = prepared();
    write_token(&context, "token", "0123456789abcdef0123456789abcdef");
    // Something else has the port, and answers whoever connects.
    let stranger = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = stranger.local_addr().unwrap().to_string();
    let worker = pool_worker(&context, &address);
    for _ in 0..2 {
        let (mut stream, _) = stranger.accept().unwrap();
        let _ = stream.write_all(b"220 mail.example ESMTP ready to be of service to you\r\n");
    }
    drop(stranger);
    let pool = Run::listen(&context, arguments("options", "", "out"), &address, "");
    pool.finish();
    let (status, text) = ended(worker);
    assert_eq!(status, 0, "{text}");
    let reason = "it does not speak the protocol of lm-eval workers";
    assert!(text.contains(&format!("Waiting for a run at {address}: {reason}")), "{text}");
}

#[test]
fn other_weights_and_versions_are_refused_by_both_sides() {
    let context = prepared();
    let mut pool = Run::start(&context, arguments("long", ",batch_size=4", "out"), "");
    let options = WorkerOptions {
        address: pool.address.clone(),
        token: Token::read(&context.work().join("token")).unwrap(),
        tls: None,
        version: "0.0.1".to_owned(),
        patience: Duration::ZERO,
        name: "old".to_owned(),
    };
    let create = |_: &Dict| Err(ModelError::new(ModelErrorKind::Request, "It loads the model"));
    let error = work_for_run(&options, &|_, _| {}, &create).unwrap_err().to_string();
    assert!(error.contains("refused this worker: it is lm-eval 0.0.1, and the run is"), "{error}");
    pool.wait_for("was refused: it is lm-eval 0.0.1, and the run is");
    let mut first = pool.join(&context);
    pool.wait_for("workers: 1");
    // One byte of the weights differs.
    let copy = context.work().join("copy");
    fs_err::create_dir(&copy).unwrap();
    for entry in fs_err::read_dir(model()).unwrap() {
        let entry = entry.unwrap();
        let mut content = fs_err::read(entry.path()).unwrap();
        if entry.path().extension().is_some_and(|extension| extension == "safetensors") {
            *content.last_mut().unwrap() ^= 1;
        }
        fs_err::write(copy.join(entry.file_name()), content).unwrap();
    }
    let output = pool.refuse(&context, &["--model_args", "pretrained=copy"]);
    assert_eq!(output.status, 1, "{output}");
    assert!(output.stderr.contains("it has another model than the other workers: weights"), "{output}");
    pool.wait_for("was refused: it has another model: weights");
    end(&mut first);
}

#[test]
fn models_on_servers_need_no_workers() {
    let context = prepared();
    write_token(&context, "token", "0123456789abcdef0123456789abcdef");
    let words =
        ["run", "--model", "local-chat-completions", "--model_args", "model=m,base_url=http://127.0.0.1:9"];
    let more =
        ["--tasks", "options", "--include_path", "tasks", "--workers", "listen=127.0.0.1:0,token_file=token"];
    let output = context.run(&[&words[..], &more[..]].concat());
    assert_eq!(output.status, 1, "{output}");
    assert!(output.stderr.contains("`--workers` is not for `local-chat-completions`"), "{output}");
    assert!(output.stderr.contains("`base_url` takes"), "{output}");
}

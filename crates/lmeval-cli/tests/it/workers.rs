//! `lm-eval run --workers` and `lm-eval worker`, with real processes on loopback.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use lmeval_testkit::{Output, TestContext};
use serde_json::Value;

use crate::hf::{DOCUMENTS, answers, arguments, model, prepared, run};

pub(crate) const PATIENCE: Duration = Duration::from_mins(2);

/// A run that waits for workers, with the lines of its standard error.
pub(crate) struct Run {
    pub(crate) child: Child,
    pub(crate) address: String,
    lines: Arc<Mutex<Vec<String>>>,
    reader: Option<thread::JoinHandle<()>>,
}

impl Run {
    /// Starts a run with more arguments and waits until it listens.
    pub(crate) fn start(context: &TestContext, words: Vec<String>, more: &str) -> Self {
        Self::listen(context, words, "127.0.0.1:0", more)
    }

    /// Starts a run at an address.
    pub(crate) fn listen(context: &TestContext, mut words: Vec<String>, address: &str, more: &str) -> Self {
        write_token(context, "token", "0123456789abcdef0123456789abcdef");
        words.extend(["--workers".to_owned(), format!("listen={address},token_file=token{more}")]);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut child = context.command(&words).spawn_piped();
        let lines: Arc<Mutex<Vec<String>>> = Arc::default();
        let (stderr, kept) = (child.stderr.take().unwrap(), Arc::clone(&lines));
        let reader = thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                kept.lock().unwrap().push(line);
            }
        });
        let mut run = Self { child, address: String::new(), lines, reader: Some(reader) };
        let line = run.wait_for("Waiting for workers at ");
        let address = line.split("Waiting for workers at ").nth(1).unwrap().split(": ").next().unwrap();
        address.clone_into(&mut run.address);
        run
    }

    pub(crate) fn text(&self) -> String {
        self.lines.lock().unwrap().join("\n")
    }

    /// Waits for a line of standard error that contains a string.
    pub(crate) fn wait_for(&mut self, text: &str) -> String {
        let start = Instant::now();
        loop {
            let found = self.lines.lock().unwrap().iter().find(|line| line.contains(text)).cloned();
            if let Some(line) = found {
                return line;
            }
            assert!(start.elapsed() < PATIENCE, "no `{text}` in:\n{}", self.text());
            let ended = self.child.try_wait().unwrap();
            assert!(
                ended.is_none() || self.text().contains(text),
                "the run ended without `{text}`:\n{}",
                self.text()
            );
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until a string occurs this often in standard error.
    pub(crate) fn wait_for_count(&self, text: &str, count: usize) {
        let start = Instant::now();
        while self.text().matches(text).count() < count {
            assert!(start.elapsed() < PATIENCE, "no {count} `{text}` in:\n{}", self.text());
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits for the end of the run, which must succeed.
    pub(crate) fn finish(mut self) -> String {
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(start.elapsed() < PATIENCE, "the run hangs:\n{}", self.text());
            thread::sleep(Duration::from_millis(5));
        };
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
        assert!(status.success(), "{status}:\n{}", self.text());
        self.text()
    }

    pub(crate) fn worker<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        [&["worker", "--connect", &self.address, "--token_file", "token", "--patience", "10"][..], more]
            .concat()
    }

    /// Starts a worker.
    pub(crate) fn join(&self, context: &TestContext) -> Child {
        context.command(&self.worker(&[])).spawn_piped()
    }

    /// Runs a worker that is refused.
    pub(crate) fn refuse(&self, context: &TestContext, more: &[&str]) -> Output {
        context.run(&self.worker(more))
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn write_token(context: &TestContext, name: &str, token: &str) {
    let path = context.write(name, token);
    restrict(&path, 0o600);
}

pub(crate) fn restrict(path: &std::path::Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    fs_err::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// Waits until a worker has ended by itself; returns its exit status and standard error.
pub(crate) fn ended(mut worker: Child) -> (i32, String) {
    let start = Instant::now();
    while worker.try_wait().unwrap().is_none() {
        assert!(start.elapsed() < PATIENCE, "the worker outlives its run");
        thread::sleep(Duration::from_millis(5));
    }
    let output = worker.wait_with_output().unwrap();
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Kills a worker.
pub(crate) fn end(worker: &mut Child) {
    worker.kill().unwrap();
    worker.wait().unwrap();
}

pub(crate) fn kill(name: &str, process: u32) {
    assert!(Command::new("kill").args([name, &process.to_string()]).status().unwrap().success());
}

#[test]
fn workers_match_a_single_process() {
    let context = prepared();
    let tasks = "options,wholes,draws";
    let output = run(&context, &arguments(tasks, "", "one"));
    assert_eq!(output.status, 0, "{output}");
    let mut pool = Run::start(&context, arguments(tasks, "", "pool"), "");
    let workers = [pool.join(&context), pool.join(&context)];
    pool.wait_for("workers: 2");
    let text = pool.finish();
    assert!(!text.contains("warning"), "{text}");
    for worker in workers {
        let (status, text) = ended(worker);
        assert_eq!(status, 0, "{text}");
        assert!(text.contains("The run is over"), "{text}");
        assert_eq!(text.matches("Loading the model").count(), 1, "{text}");
    }
    for task in tasks.split(',') {
        // To the last digit.
        assert_eq!(answers(&context, "pool", task), answers(&context, "one", task), "{task}");
    }
}

/// A run of long generations with a few answers saved.
fn begun(context: &TestContext, more: &str) -> (Run, Vec<Child>) {
    let mut pool = Run::start(context, arguments("long", ",batch_size=4", "out"), more);
    let workers = vec![pool.join(context), pool.join(context)];
    pool.wait_for("workers: 2");
    let start = Instant::now();
    while saved(context) < 3 {
        assert!(start.elapsed() < PATIENCE, "no answers: {}", pool.text());
        thread::sleep(Duration::from_millis(5));
    }
    (pool, workers)
}

/// The number of answers in the journal.
pub(crate) fn saved(context: &TestContext) -> usize {
    export(context).lines().count()
}

/// The documents that have an answer in the journal.
pub(crate) fn saved_documents(context: &TestContext) -> BTreeSet<u64> {
    let document = |line: &str| serde_json::from_str::<Value>(line).unwrap()["doc_id"].as_u64().unwrap();
    export(context).lines().map(document).collect()
}

fn export(context: &TestContext) -> String {
    let Ok(folders) = fs_err::read_dir(context.work().join("out")) else { return String::new() };
    let journal =
        folders.map(|entry| entry.unwrap().path().join("answers.journal")).find(|path| path.exists());
    let Some(journal) = journal else { return String::new() };
    context.run(&["journal", "export", journal.to_str().unwrap()]).stdout
}

fn assert_undisturbed(context: &TestContext) {
    let output = run(context, &arguments("long", ",batch_size=4", "undisturbed"));
    assert_eq!(output.status, 0, "{output}");
    let [found, expected] = ["out", "undisturbed"].map(|out| answers(context, out, "long"));
    assert_eq!(found.len(), DOCUMENTS);
    assert_eq!(found, expected);
    // Each answer is written once: none was computed again after it had arrived.
    assert_eq!(saved(context), DOCUMENTS);
}

#[test]
fn killed_worker_loses_no_request_and_another_joins() {
    let context = prepared();
    let (pool, mut workers) = begun(&context, "");
    end(&mut workers[0]);
    pool.wait_for_count(" left: it closed the connection", 1);
    workers.push(pool.join(&context));
    pool.wait_for_count(" joined", 3);
    end(&mut workers[1]);
    let text = pool.finish();
    assert!(text.contains("left: it closed the connection"), "{text}");
    assert_eq!(ended(workers.pop().unwrap()).0, 0);
    assert_undisturbed(&context);
}

#[test]
fn stalled_worker_is_given_up() {
    let context = prepared();
    let (mut pool, workers) = begun(&context, ",stall=5");
    kill("-STOP", workers[0].id());
    pool.wait_for("said nothing for 5 s");
    pool.finish();
    kill("-KILL", workers[0].id());
    assert_undisturbed(&context);
}

#[test]
fn killed_run_resumes_with_the_same_workers() {
    let context = prepared();
    let (pool, workers) = begun(&context, "");
    let address = pool.address.clone();
    drop(pool);
    let before = saved(&context);
    assert!((3..DOCUMENTS).contains(&before), "{before}");
    let mut words = arguments("long", ",batch_size=4", "out");
    words.extend(["--workers".to_owned(), format!("listen={address},token_file=token")]);
    let output = run(&context, &words);
    assert_eq!(output.status, 0, "{output}");
    for worker in workers {
        let (status, text) = ended(worker);
        assert_eq!(status, 0, "{text}");
        assert!(text.contains("connecting again"), "{text}");
        // The model stays loaded.
        assert_eq!(text.matches("Loading the model").count(), 1, "{text}");
    }
    assert_undisturbed(&context);
}

#[test]
fn strangers_and_other_models_are_refused() {
    let context = prepared();
    let mut pool = Run::start(&context, arguments("long", ",batch_size=4", "out"), "");
    // Something that is not a worker connects.
    let mut stranger = TcpStream::connect(&pool.address).unwrap();
    stranger.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\nnothing of interest").unwrap();
    pool.wait_for("it does not speak the protocol of lm-eval workers");
    // Nothing that depends on the token is sent to it.
    let mut received = Vec::new();
    let _ = stranger.read_to_end(&mut received);
    assert_eq!(received.len(), 48, "{received:?}");
    write_token(&context, "other", "another token, long enough");
    let output = pool.refuse(&context, &["--token_file", "other"]);
    assert_eq!(output.status, 2, "{output}");
    let refused = context.run(&["worker", "--connect", &pool.address, "--token_file", "other"]);
    assert_eq!(refused.status, 1, "{refused}");
    assert!(refused.stderr.contains("has another token"), "{refused}");
    pool.wait_for("was refused: it has another token");
    // The first worker decides which weights are right.
    let first = pool.join(&context);
    pool.wait_for("workers: 1");
    let copy = context.work().join("copy");
    fs_err::create_dir(&copy).unwrap();
    for entry in fs_err::read_dir(model()).unwrap() {
        let entry = entry.unwrap();
        fs_err::copy(entry.path(), copy.join(entry.file_name())).unwrap();
    }
    let config = fs_err::read_to_string(copy.join("config.json")).unwrap();
    fs_err::write(copy.join("config.json"), config.replacen('{', "{\"other\": 1,", 1)).unwrap();
    let output = pool.refuse(&context, &["--model_args", "pretrained=copy"]);
    assert_eq!(output.status, 1, "{output}");
    assert!(output.stderr.contains("it has another model than the other workers: files"), "{output}");
    pool.wait_for("was refused: it has another model: files");
    let mut first = first;
    end(&mut first);
}

#[test]
fn copies_of_a_checkpoint_are_the_same_model() {
    let context = prepared();
    let copy = context.work().join("copy");
    fs_err::create_dir(&copy).unwrap();
    for entry in fs_err::read_dir(model()).unwrap() {
        let entry = entry.unwrap();
        fs_err::copy(entry.path(), copy.join(entry.file_name())).unwrap();
    }
    let pool = Run::start(&context, arguments("options", ",pretrained=elsewhere", "out"), "");
    let first = context.command(&pool.worker(&["--model_args", "pretrained=copy"])).spawn_piped();
    let second = context
        .command(&pool.worker(&["--model_args", &format!("pretrained={}", model().display())]))
        .spawn_piped();
    let text = pool.finish();
    assert!(!text.contains("another model"), "{text}");
    for worker in [first, second] {
        let (status, text) = ended(worker);
        // One may come after the end of the run.
        assert!(status == 0 || text.contains("Cannot reach a run"), "{text}");
    }
}

#[test]
fn taken_port_and_missing_run_are_named() {
    let context = prepared();
    write_token(&context, "token", "0123456789abcdef");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let mut words = arguments("options", "", "out");
    words.extend(["--workers".to_owned(), format!("listen={address},token_file=token")]);
    let output = run(&context, &words);
    assert_eq!(output.status, 1, "{output}");
    assert!(output.stderr.contains(&format!("Cannot listen on `{address}`")), "{output}");
    // Something else listens where the worker expects its run, and talks first.
    let other = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"SSH-2.0-OpenSSH_9.2 and so on and so forth\r\n").unwrap();
        drop(stream);
        drop(listener);
    });
    let words = ["worker", "--connect", &address, "--token_file", "token", "--patience", "0"];
    let output = context.run(&words);
    assert_eq!(output.status, 1, "{output}");
    assert!(output.stderr.contains("it does not speak the protocol of lm-eval workers"), "{output}");
    other.join().unwrap();
    let output = context.run(&words);
    assert_eq!(output.status, 1, "{output}");
    assert!(output.stderr.contains(&format!("Cannot reach a run at {address}")), "{output}");
}

#[test]
fn bad_token_files_and_arguments_are_errors() {
    let context = prepared();
    let run_with = |workers: &str| {
        let mut words = arguments("options", "", "out");
        words.extend(["--workers", workers].map(str::to_owned));
        let output = run(&context, &words);
        assert_eq!(output.status, 1, "{output}");
        output.stderr
    };
    assert!(run_with("token_file=token").contains("`--workers` needs an address"));
    assert!(run_with("listen=127.0.0.1:0").contains("needs a token file"));
    assert!(run_with("listen=127.0.0.1:0,token_fil=x").contains("has no argument `token_fil`"));
    assert!(run_with("listen=127.0.0.1:0,token_file=none").contains("Cannot read the token file `none`"));
    let path = context.write("token", "0123456789abcdef");
    restrict(&path, 0o644);
    assert!(run_with("listen=127.0.0.1:0,token_file=token").contains("chmod 600 token"));
    write_token(&context, "token", "short");
    assert!(run_with("listen=127.0.0.1:0,token_file=token").contains("shorter than 16 characters"));
    write_token(&context, "token", "0123456789abcdef");
    assert!(run_with("listen=127.0.0.1:0,token_file=token,stall=0").contains("`stall`"));
}

#[test]
fn model_that_no_worker_can_load_ends_the_run() {
    let context = prepared();
    let mut pool = Run::start(&context, arguments("options", ",prefix_token_id=9999", "out"), "");
    let (status, text) = ended(pool.join(&context));
    assert_eq!(status, 1, "{text}");
    assert!(text.contains("`prefix_token_id=9999` is not in the model's vocabulary"), "{text}");
    let status = pool.child.wait().unwrap();
    assert_eq!(status.code(), Some(1));
    pool.wait_for("`prefix_token_id=9999` is not in the model's vocabulary");
}

/// A model in Python that answers with the length of its prompt.
const PLUGIN: &str = r#"
from lm_eval.api.model import LM
from lm_eval.api.registry import register_model

@register_model("counting")
class Counting(LM):
    def loglikelihood(self, requests):
        return [(-float(len(context)) / 7, len(continuation) % 2 == 0) for context, continuation in (r.args for r in requests)]

    def loglikelihood_rolling(self, requests):
        return [(-float(len(r.args[-1])) / 3, False) for r in requests]

    def generate_until(self, requests):
        return [str(len(r.args[0])) for r in requests]

    def chat_template(self, chat_template=False):
        return "the template"

    def apply_chat_template(self, chat_history, add_generation_prompt=True):
        return " ".join(message["content"] for message in chat_history) + "<ANSWER>"
"#;

#[test]
fn python_models_answer_in_workers() {
    let context = prepared();
    context.write("plugin.py", PLUGIN);
    let words = |out: &str| -> Vec<String> {
        let words =
            ["run", "--model", "counting", "--plugins", "plugin.py", "--tasks", "options,wholes,draws"];
        let more = ["--include_path", "tasks", "--library", "none", "--apply_chat_template", "--log_samples"];
        words.into_iter().chain(more).chain(["--output_path", out]).map(str::to_owned).collect()
    };
    let output = run(&context, &words("one"));
    assert_eq!(output.status, 0, "{output}");
    let mut pool = Run::start(&context, words("pool"), "");
    let workers = [pool.join(&context), pool.join(&context)];
    pool.wait_for("workers: 1");
    pool.finish();
    for worker in workers {
        // One may come after the end of the run.
        let (status, text) = ended(worker);
        assert!(status == 0 || text.contains("Cannot reach a run"), "{text}");
    }
    for task in ["options", "wholes", "draws"] {
        assert_eq!(answers(&context, "pool", task), answers(&context, "one", task), "{task}");
    }
}

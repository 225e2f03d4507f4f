//! Pools of servers whose members come and go during a run.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader};
use std::process::Child;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lmeval_testkit::{ScoringBehavior, ServerOptions, StandInServer, TestContext};
use serde_json::Value;

use crate::context;
use crate::long_run::{outcome, question, undisturbed, write_task};
use crate::pool_versions::BOTH;
use crate::scoring_protocols::serve;

pub(crate) const PATH: &str = "/v1/completions";

fn start(delay: u64) -> StandInServer {
    let delay = Duration::from_millis(delay);
    StandInServer::start(ServerOptions { delay, keep_bodies: true, tokenizer: true, ..Default::default() })
}

/// Lists servers in the pool file, as another process would.
pub(crate) fn list(context: &TestContext, servers: &[&StandInServer]) {
    let servers: Vec<Value> =
        servers.iter().map(|server| serde_json::json!({"url": server.url(PATH)})).collect();
    write(context, &serde_json::json!({ "servers": servers }).to_string());
}

pub(crate) fn write(context: &TestContext, text: &str) {
    let path = context.write("pool.json.new", text);
    fs_err::rename(path, context.work().join("pool.json")).unwrap();
}

pub(crate) fn arguments(task: &str, tokenizer: &str, more_model_args: &str) -> Vec<String> {
    let model = format!("model=m,base_url=@pool.json,{tokenizer},retry_wait=0.05{more_model_args}");
    [
        "run",
        "--model",
        "local-completions",
        "--model_args",
        &model,
        "--tasks",
        task,
        "--include_path",
        "tasks",
    ]
    .into_iter()
    .chain(["--library", "none", "--output_path", "out", "--log_samples"])
    .map(str::to_owned)
    .collect()
}

const PLAIN: &str = "tokenizer_backend=none,tokenized_requests=False";

/// The value of `num_concurrent` in these tests.
const CONCURRENT: usize = 4;

/// A run whose standard error can be read before it ends.
pub(crate) struct Run {
    pub(crate) child: Child,
    stderr: Arc<Mutex<String>>,
    reader: Option<std::thread::JoinHandle<()>>,
}

impl Run {
    pub(crate) fn start(context: &TestContext, arguments: &[String]) -> Self {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let mut child = context.command(&arguments).spawn_piped();
        let (stderr, lines) = (Arc::default(), BufReader::new(child.stderr.take().unwrap()).lines());
        let sink: Arc<Mutex<String>> = Arc::clone(&stderr);
        let reader = std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let mut text = sink.lock().unwrap();
                text.push_str(&line);
                text.push('\n');
            }
        });
        Self { child, stderr, reader: Some(reader) }
    }

    fn stderr(&self) -> String {
        self.stderr.lock().unwrap().clone()
    }

    /// Waits for a condition, which must become true before the run ends.
    pub(crate) fn wait_until(&mut self, what: &str, mut holds: impl FnMut(&str) -> bool) {
        let begun = Instant::now();
        while !holds(&self.stderr()) {
            if self.child.try_wait().unwrap().is_some() {
                // Its last lines may not have been read yet.
                if let Some(reader) = self.reader.take() {
                    reader.join().unwrap();
                }
                assert!(holds(&self.stderr()), "the run ended before {what}:\n{}", self.stderr());
                return;
            }
            // Only a run that hangs takes this long.
            assert!(begun.elapsed() < Duration::from_mins(2), "never {what}:\n{}", self.stderr());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    pub(crate) fn wait_for(&mut self, line: &str) {
        self.wait_until(line, |stderr| stderr.contains(line));
    }

    /// Waits for a successful end; returns standard error.
    pub(crate) fn finish(mut self) -> String {
        let status = self.child.wait().unwrap();
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
        let stderr = self.stderr();
        assert!(status.success(), "{stderr}");
        stderr
    }
}

pub(crate) fn run(context: &TestContext, arguments: &[String]) -> String {
    Run::start(context, arguments).finish()
}

/// How often the servers were asked each question.
fn asked(servers: &[&StandInServer]) -> HashMap<usize, usize> {
    let mut asked = HashMap::new();
    for server in servers {
        for (_, body) in server.counts().bodies {
            *asked.entry(question(&body)).or_default() += 1;
        }
    }
    asked
}

/// The results must be those of one server, apart from the record of the servers.
fn check_outcome(context: &TestContext, documents: usize) -> Value {
    let (mut results, samples) = outcome(&context.work().join("out"));
    let servers = results.as_object_mut().unwrap().remove("servers").unwrap();
    let (expected, expected_samples) = undisturbed(documents);
    assert_eq!(samples, expected_samples);
    assert_eq!(results, expected);
    servers
}

#[test]
fn members_join_and_leave_without_a_repeated_request() {
    const DOCUMENTS: usize = 400;
    let context = context();
    write_task(&context, DOCUMENTS);
    let (first, second) = (start(20), start(20));
    list(&context, &[&first]);
    let mut run = Run::start(&context, &arguments("long", PLAIN, ",num_concurrent=4"));
    run.wait_until("20 requests", |_| first.total() >= 20);
    assert_eq!(second.connections(), 0);
    list(&context, &[&first, &second]);
    run.wait_for("joined; servers: 2");
    run.wait_until("20 requests", |_| second.total() >= 20);
    list(&context, &[&second]);
    run.wait_for("requests; servers: 1");
    let sent = first.total();
    let stderr = run.finish();
    // Those in flight may not have arrived when it left.
    assert!(first.total() <= sent + CONCURRENT, "a member that left gets no requests: {stderr}");
    let asked = asked(&[&first, &second]);
    assert!(asked.len() == DOCUMENTS && asked.values().all(|times| *times == 1), "{asked:?}");
    let servers = check_outcome(&context, DOCUMENTS);
    let of = |server: &StandInServer| {
        let mut all = servers.as_array().unwrap().iter();
        let found = all.find(|one| one["url"] == server.url(PATH)).unwrap();
        assert!(found["failed_attempts"] == 0 && found["requests_per_second"].as_f64().unwrap() > 0.0);
        usize::try_from(found["requests"].as_u64().unwrap()).unwrap()
    };
    assert_eq!((of(&first), of(&second)), (first.total(), second.total()));
}

#[test]
fn waits_for_the_first_member_and_pauses_without_any() {
    const DOCUMENTS: usize = 150;
    let context = context();
    write_task(&context, DOCUMENTS);
    let server = start(20);
    list(&context, &[]);
    let mut run = Run::start(&context, &arguments("long", PLAIN, ",num_concurrent=4"));
    run.wait_for("Waiting for the server: The pool `@pool.json` lists no servers; retrying for up to 5:00");
    list(&context, &[&server]);
    run.wait_until("20 requests", |_| server.total() >= 20);
    list(&context, &[]);
    run.wait_for("left after");
    run.wait_until("a second pause", |stderr| stderr.matches("lists no servers").count() == 2);
    let sent = server.total();
    // The next look at the list, which still has no servers, is at least this far away.
    std::thread::sleep(Duration::from_millis(300));
    assert!(server.total() <= sent + CONCURRENT, "no more than those in flight");
    list(&context, &[&server]);
    let stderr = run.finish();
    assert!(asked(&[&server]).values().all(|times| *times == 1), "{stderr}");
    check_outcome(&context, DOCUMENTS);
}

#[test]
fn unreadable_files_keep_the_last_list() {
    const DOCUMENTS: usize = 500;
    let context = context();
    write_task(&context, DOCUMENTS);
    let (first, second) = (start(40), start(40));
    list(&context, &[&first]);
    let mut run = Run::start(&context, &arguments("long", PLAIN, ",num_concurrent=4"));
    run.wait_until("a request", |_| first.total() > 0);
    write(&context, "{\"servers\": [\n  {\"url\": \"http://127.0.0.1");
    run.wait_for("warning: The pool file `pool.json`, line 2: ");
    run.wait_for("the servers of the last valid list stay in use");
    write(&context, "{\"servers\": [\n  {\"url\": \"http://127.0.0.1:1/v1\"},\n  {\"url\": \"localhost\"}]}");
    run.wait_for("line 3: `url` of server 2 is not a URL");
    fs_err::remove_file(context.work().join("pool.json")).unwrap();
    run.wait_for("warning: The pool file cannot be read: ");
    write(&context, &serde_json::json!([first.url(PATH), second.url(PATH)]).to_string());
    run.wait_for("joined; servers: 2");
    run.finish();
    check_outcome(&context, DOCUMENTS);
    for (text, message) in [("{", "line 1"), ("{\"server\": []}", "`servers` is missing")] {
        write(&context, text);
        let arguments = arguments("long", PLAIN, ",patience=0");
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let output = context.run(&[&arguments[..], &["--fresh"]].concat());
        assert_eq!(output.status, 1, "{output}");
        assert!(output.stderr.contains(message) && output.stderr.contains("pool.json"), "{output}");
        assert!(output.stderr.contains("`[]` waits for servers"), "{output}");
    }
}

#[test]
fn faster_members_get_more_requests() {
    let context = context();
    write_task(&context, 300);
    let (fast, slow) = (start(5), start(100));
    list(&context, &[&fast, &slow]);
    run(&context, &arguments("long", PLAIN, ",num_concurrent=8"));
    let (fast, slow) = (fast.total(), slow.total());
    assert!(fast + slow == 300 && slow > 0 && fast > 4 * slow, "{fast} and {slow}");
}

#[test]
fn members_with_another_model_are_refused() {
    let models = |details: &str| format!("{{\"data\": [{{\"id\": \"m\", \"root\": \"/w\"{details}}}]}}");
    for (other, reason) in [
        (
            "{\"data\": [{\"id\": \"m\", \"root\": \"/x\"}]}".to_owned(),
            "it serves `m (/x)`, but the others serve `m (/w)`",
        ),
        (
            models(", \"max_model_len\": 8"),
            "it reports max_model_len 8 for its model, but the others report nothing",
        ),
        ("{}".to_owned(), "it does not list its models, but the others do"),
    ] {
        let context = context();
        write_task(&context, 150);
        let (first, second) = (start(60), start(60));
        first.set_models(Some((200, &models(", \"created\": 1700000000, \"version\": 1"))));
        second.set_models(Some((200, &other)));
        list(&context, &[&first, &second]);
        let warning = format!("warning: The server `{}` is not used: {reason}", second.url(PATH));
        let mut run = Run::start(&context, &arguments("long", PLAIN, ",num_concurrent=4"));
        run.wait_for(&warning);
        let third = start(60);
        third.set_models(Some((200, &other)));
        list(&context, &[&first, &second, &third]);
        run.wait_for(&format!("warning: The server `{}` is not used", third.url(PATH)));
        run.finish();
        assert_eq!((first.total(), second.total(), third.total()), (150, 0, 0), "{reason}");
    }
    // The time of a start and the version do not matter, nor does anything with `model_id`.
    for (other, model_args) in
        [(models(", \"created\": 1700000001, \"version\": 2"), ""), ("{}".to_owned(), ",model_id=mine")]
    {
        let context = context();
        write_task(&context, 60);
        let (first, second) = (start(5), start(5));
        first.set_models(Some((200, &models(", \"created\": 1700000000, \"version\": 1"))));
        second.set_models(Some((200, &other)));
        list(&context, &[&first, &second]);
        run(&context, &arguments("long", PLAIN, &format!(",num_concurrent=4{model_args}")));
        assert!(first.total() > 0 && second.total() > 0);
    }
}

#[test]
fn answers_are_reused_whatever_the_members_are() {
    let context = context();
    write_task(&context, 40);
    let (first, second) = (start(0), start(0));
    list(&context, &[&first]);
    let arguments = arguments("long", PLAIN, "");
    let part = [&arguments[..], &["--limit".to_owned(), "15".to_owned()]].concat();
    run(&context, &part);
    list(&context, &[&second]);
    let stderr = run(&context, &arguments);
    assert_eq!((first.total(), second.total()), (15, 25), "{stderr}");
    assert!(stderr.contains("15 answers of this model, `stand-in` at @pool.json"), "{stderr}");
    // Nor must the file exist if the journal has all answers.
    fs_err::remove_file(context.work().join("pool.json")).unwrap();
    let stderr = run(&context, &arguments);
    assert!(stderr.contains("All 40 answers were reused"), "{stderr}");
    list(&context, &[&second]);
    second.set_models(Some((200, "{\"data\": [{\"id\": \"stand-in\", \"root\": \"other\"}]}")));
    let again = [&arguments[..], &["--fresh".to_owned()]].concat();
    run(&context, &again);
    assert_eq!(second.total(), 65);
}

#[test]
fn names_are_pools_of_their_addresses() {
    let context = context();
    write_task(&context, 30);
    let server = start(0);
    let url = server.url(PATH).replace("127.0.0.1", "localhost");
    let mut words = arguments("long", PLAIN, "");
    for word in &mut words {
        *word = word.replace("@pool.json", &format!("dns+{url}"));
    }
    run(&context, &words);
    assert_eq!(server.total(), 30);
    let servers = check_outcome(&context, 30);
    assert!(servers.as_array().unwrap().iter().any(|one| one["url"] == server.url(PATH)), "{servers}");
    for word in &mut words {
        *word = word.replace("dns+http:", "dns+https:");
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let output = context.run(&words);
    assert!(output.status != 0 && output.stderr.contains("`dns+https` is not supported"), "{output}");
}

#[test]
fn doctor_examines_a_pool() {
    let context = context();
    let (first, second) = (serve(BOTH), serve(ScoringBehavior { weights: 2, ..BOTH }));
    let third = start(0);
    list(&context, &[&first.server, &third, &second.server]);
    let words = ["doctor", "--model", "local-completions", "--model_args", "model=m,base_url=@pool.json"];
    let output = context.run(&words);
    assert!(output.stdout.contains("2 of 3 servers of `@pool.json` answered"), "{output}");
    assert!(output.stdout.contains("it serves `stand-in`, but the others serve `m`"), "{output}");
    assert!(output.stdout.contains("`next_token+tail`"), "{output}");
    let output = context.run(&["doctor", "--model", "gguf", "--model_args", "base_url=@pool.json"]);
    assert!(output.stderr.contains("The model `gguf` cannot use the pool `@pool.json`"), "{output}");
}

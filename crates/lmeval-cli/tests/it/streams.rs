//! Long answers that arrive piece by piece: interrupted runs continue them.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use lmeval_testkit::TestContext;
use serde_json::{Value, json};

use crate::context;
use crate::long_run::newest;

const DOCUMENTS: usize = 3;
const WORDS: usize = 120;

/// A server that writes the words of an answer one by one, from the one that follows those in the prompt.
struct SlowServer {
    url: String,
    /// Whether it writes without pauses.
    is_fast: Arc<AtomicBool>,
    bodies: Arc<Mutex<Vec<Value>>>,
    written: Arc<Mutex<usize>>,
}

impl SlowServer {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1/completions", listener.local_addr().unwrap());
        let (is_fast, bodies, written) = (Arc::default(), Arc::default(), Arc::default());
        let server = Self { url, is_fast, bodies, written };
        let (is_fast, bodies) = (Arc::clone(&server.is_fast), Arc::clone(&server.bodies));
        let written = Arc::clone(&server.written);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (is_fast, bodies, written) =
                    (Arc::clone(&is_fast), Arc::clone(&bodies), Arc::clone(&written));
                thread::spawn(move || answer(stream, &is_fast, &bodies, &written));
            }
        });
        server
    }

    fn prompts(&self) -> Vec<String> {
        let bodies = self.bodies.lock().unwrap();
        bodies.iter().map(|body| body["prompt"].as_str().unwrap().to_owned()).collect()
    }

    fn wait_for(&self, words: usize) {
        let start = Instant::now();
        while *self.written.lock().unwrap() < words {
            assert!(start.elapsed() < Duration::from_mins(1), "the server was not asked");
            thread::sleep(Duration::from_millis(20));
        }
    }
}

fn answer(mut stream: TcpStream, is_fast: &AtomicBool, bodies: &Mutex<Vec<Value>>, written: &Mutex<usize>) {
    let (mut received, mut buffer) = (Vec::new(), [0; 4096]);
    let body = loop {
        let text = String::from_utf8_lossy(&received).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse::<usize>().ok());
            if body.len() >= length.unwrap_or(0) {
                break body.to_owned();
            }
        }
        match stream.read(&mut buffer) {
            Ok(count) if count > 0 => received.extend_from_slice(&buffer[..count]),
            _ => return,
        }
    };
    let Ok(body) = serde_json::from_str::<Value>(&body) else {
        let list = r#"{"data": [{"id": "m"}]}"#;
        let _ = write!(
            stream,
            "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{list}",
            list.len()
        );
        return;
    };
    let prompt = body["prompt"].as_str().unwrap().to_owned();
    bodies.lock().unwrap().push(body);
    let begun = prompt.split(':').nth(1).unwrap().split_whitespace().count();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n";
    let _ = stream.write_all(head.as_bytes());
    let mut send = |value: &Value| {
        let event = format!("data: {value}\n\n");
        stream.write_all(format!("{:x}\r\n{event}\r\n", event.len()).as_bytes()).is_ok()
    };
    for index in begun..WORDS {
        if !send(&json!({"choices": [{"index": 0, "text": format!(" w{index}")}]})) {
            return;
        }
        *written.lock().unwrap() += 1;
        if !is_fast.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(80));
        }
    }
    send(&json!({"choices": [{"index": 0, "text": "", "finish_reason": "stop"}]}));
    let _ = stream.write_all(b"0\r\n\r\n");
}

fn prepared() -> TestContext {
    let context = context();
    let rows: Vec<String> =
        (0..DOCUMENTS).map(|row| json!({"q": format!("Question {row}:")}).to_string()).collect();
    context.write("rows.jsonl", rows.join("\n"));
    context.write(
        "tasks/long.yaml",
        format!(
            "task: long\ndataset_path: json\ndataset_kwargs: {{data_files: {{test: rows.jsonl}}}}\ntest_split: test\n\
             output_type: generate_until\ndoc_to_text: '{{{{q}}}}'\ndoc_to_target: '{}'\n\
             generation_kwargs: {{until: [], max_gen_toks: 4096}}\nmetric_list: [{{metric: exact_match}}]\n",
            (0..WORDS).map(|index| format!(" w{index}")).collect::<Vec<_>>().concat()
        ),
    );
    context
}

fn arguments(server: &SlowServer) -> Vec<String> {
    let args = format!("model=m,base_url={},tokenizer_backend=none,num_concurrent=3", server.url);
    let words = ["run", "--model", "local-completions", "--model_args", &args, "--include_path", "tasks"];
    let more = ["--tasks", "long", "--output_path", "out"];
    words.into_iter().chain(more).map(str::to_owned).collect()
}

/// Runs to the end without pauses; every answer must be whole.
fn finish(context: &TestContext, server: &SlowServer, words: &[&str]) {
    server.is_fast.store(true, Ordering::SeqCst);
    let output = context.run(words);
    assert_eq!(output.status, 0, "{output}");
    let results = fs_err::read_to_string(newest(&context.work().join("out"), "results_")).unwrap();
    let results: Value = serde_json::from_str(&results).unwrap();
    assert_eq!(results["results"]["long"]["exact_match,none"], json!(1.0), "{output}");
}

#[test]
fn a_killed_run_continues_the_answers_that_it_had_begun() {
    let (context, server) = (prepared(), SlowServer::start());
    let words = arguments(&server);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut child = context.command(&words).spawn();
    // Beginnings are saved every five seconds.
    server.wait_for(DOCUMENTS * 75);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(server.prompts().len(), DOCUMENTS);
    let listed = context.run(&["journal", "verify", "out/m/answers.journal"]);
    assert_eq!(listed.status, 0, "{listed}");
    finish(&context, &server, &words);
    let resumed = &server.prompts()[DOCUMENTS..];
    assert!(resumed.iter().all(|prompt| prompt.contains(" w40")), "{resumed:?}");
    // The journal has each answer once.
    let output = context.run(&["journal", "export", "out/m/answers.journal"]);
    assert_eq!(output.stdout.lines().count(), DOCUMENTS, "{output}");
}

#[cfg(unix)]
#[test]
fn an_interrupted_run_ends_at_once_and_keeps_what_has_arrived() {
    let (context, server) = (prepared(), SlowServer::start());
    let words = arguments(&server);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let child = context.command(&words).spawn();
    server.wait_for(DOCUMENTS * 40);
    let before = *server.written.lock().unwrap();
    let id = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    // The answers were not waited for.
    assert!(*server.written.lock().unwrap() < before + DOCUMENTS * 40);
    finish(&context, &server, &words);
    let resumed = &server.prompts()[DOCUMENTS..];
    assert!(resumed.iter().all(|prompt| prompt.contains(" w35")), "{resumed:?}");
}

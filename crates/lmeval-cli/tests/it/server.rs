//! A slow OpenAI-compatible completions server on loopback.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// A server that answers every completion with ` 7` after a delay.
pub(crate) struct Server {
    /// The URL of the completions endpoint.
    pub(crate) url: String,
    requests: Arc<AtomicUsize>,
}

impl Server {
    /// Starts a server that rejects prompts containing `refuse`.
    pub(crate) fn start(delay: Duration, refuse: Option<&'static str>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1/completions", listener.local_addr().unwrap());
        let requests = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&requests);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let counter = Arc::clone(&counter);
                thread::spawn(move || serve(&stream, delay, refuse, &counter));
            }
        });
        Self { url, requests }
    }

    /// The number of completion requests.
    pub(crate) fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

fn serve(stream: &TcpStream, delay: Duration, refuse: Option<&str>, counter: &AtomicUsize) {
    let mut reader = BufReader::new(stream);
    loop {
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            if line.trim().is_empty() {
                break;
            }
            head.push(line);
        }
        let length = head
            .iter()
            .find_map(|line| {
                line.to_lowercase().strip_prefix("content-length:")?.trim().parse::<usize>().ok()
            })
            .unwrap_or(0);
        let mut body = vec![0; length];
        if reader.read_exact(&mut body).is_err() {
            return;
        }
        let is_completion = head[0].starts_with("POST") && head[0].contains("/completions");
        let (status, answer) = if !is_completion {
            ("404 Not Found", "{}".to_owned())
        } else if refuse.is_some_and(|word| String::from_utf8_lossy(&body).contains(word)) {
            counter.fetch_add(1, Ordering::SeqCst);
            ("400 Bad Request", "{\"error\": {\"message\": \"Rejected\"}}".to_owned())
        } else {
            counter.fetch_add(1, Ordering::SeqCst);
            thread::sleep(delay);
            (
                "200 OK",
                "{\"choices\": [{\"index\": 0, \"text\": \" 7\", \"finish_reason\": \"stop\"}], \
                  \"usage\": {\"prompt_tokens\": 5, \"completion_tokens\": 1}}"
                    .to_owned(),
            )
        };
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            answer.len()
        );
        let mut out = stream;
        if out.write_all(head.as_bytes()).and_then(|()| out.write_all(answer.as_bytes())).is_err() {
            return;
        }
    }
}

/// A task of ten generations with the prompts `Number 0:` to `Number 9:`.
pub(crate) const TASK: &str = "task: numbers\ndataset_path: json\ndataset_kwargs: {data_files: {test: numbers.jsonl}}\n\
    test_split: test\noutput_type: generate_until\ndoc_to_text: \"Number {{n}}:\"\ndoc_to_target: \"7\"\n\
    generation_kwargs: {until: [\"\\n\"], max_gen_toks: 4}\n\
    filter_list: [{name: none, filter: [{function: remove_whitespace}, {function: take_first}]}]\n";

/// The documents of [`TASK`].
pub(crate) fn documents() -> String {
    let lines: Vec<String> = (0..10).map(|number| format!("{{\"n\": \"{number}\"}}\n")).collect();
    lines.concat()
}

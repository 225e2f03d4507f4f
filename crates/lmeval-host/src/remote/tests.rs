//! A pool and its workers in one process, over loopback.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use lmeval_core::{
    Arguments, ChatError, ChatMessage, ChatTemplate, Context, DocId, InProcess, Level, LocalModel, Model,
    ModelError, ModelIdentity, ModelRequest, ModelTemplate, ModelTraits, OptionScoring, Response, Role,
};
use lmeval_pycompat::Dict;

use super::{PoolOptions, Token, WorkerOptions, WorkerPool, work_for_run};

/// Answers with the number of the document, after a while.
#[derive(Debug)]
struct Slow {
    weights: &'static str,
    answered: Arc<AtomicUsize>,
}

impl LocalModel for Slow {
    fn identity(&self) -> ModelIdentity {
        ModelIdentity { backend: "slow".to_owned(), facts: vec![("weights", self.weights.to_owned())] }
    }

    fn traits(&self) -> ModelTraits {
        ModelTraits { option_scoring: OptionScoring::Generations, ..ModelTraits::local() }
    }

    fn chat_template(&self, name: Option<&str>) -> Result<ModelTemplate, ModelError> {
        let source = Some(format!("source of {}", name.unwrap_or("the default")));
        Ok(ModelTemplate { template: Arc::new(Quotes), source })
    }

    fn answer(&self, request: &ModelRequest) -> Result<Response, ModelError> {
        thread::sleep(Duration::from_millis(2));
        self.answered.fetch_add(1, Ordering::Relaxed);
        Ok(Response::Text(request.doc_id.0.to_string().into()))
    }
}

/// Renders messages in quotes.
#[derive(Debug)]
struct Quotes;

impl ChatTemplate for Quotes {
    fn apply(&self, messages: Vec<ChatMessage>, add_generation_prompt: bool) -> Result<Context, ChatError> {
        let text: Vec<String> = messages.iter().map(|message| format!("'{}'", message.content)).collect();
        Ok(Context::Text(format!("{}{add_generation_prompt}", text.concat()).into()))
    }
}

fn token() -> Token {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    write_private(&path, "a token that is long enough");
    Token::read(&path).unwrap()
}

fn write_private(path: &Path, text: &str) {
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut file = std::fs::OpenOptions::new().create_new(true).write(true).mode(0o600).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

/// The notes of a pool.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<String>>>);

impl Notes {
    fn text(&self) -> String {
        self.0.lock().unwrap().join("\n")
    }

    fn wait_for(&self, text: &str, count: usize) {
        let start = Instant::now();
        while self.text().matches(text).count() < count {
            assert!(start.elapsed() < Duration::from_mins(1), "no {count} `{text}` in:\n{}", self.text());
            thread::sleep(Duration::from_millis(2));
        }
    }
}

struct Test {
    address: String,
    token: Token,
    notes: Notes,
    answered: Arc<AtomicUsize>,
}

impl Test {
    fn new() -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let address = format!("127.0.0.1:{port}");
        Self { address, token: token(), notes: Notes::default(), answered: Arc::default() }
    }

    fn pool(&self, stall: Duration) -> JoinHandle<Result<WorkerPool, ModelError>> {
        let options = PoolOptions {
            listen: self.address.clone(),
            token: self.token.clone(),
            tls: None,
            stall,
            version: "1".to_owned(),
            setup: Dict::new(),
        };
        let notes = self.notes.clone();
        thread::spawn(move || {
            WorkerPool::listen(
                options,
                Arc::new(move |_: Level, text: &str| notes.0.lock().unwrap().push(text.to_owned())),
            )
        })
    }

    fn worker(
        &self,
        address: &str,
        version: &str,
        weights: &'static str,
    ) -> JoinHandle<Result<(), ModelError>> {
        let options = WorkerOptions {
            address: address.to_owned(),
            token: self.token.clone(),
            tls: None,
            version: version.to_owned(),
            patience: Duration::from_secs(20),
            name: format!("worker with {weights}"),
        };
        let answered = Arc::clone(&self.answered);
        thread::spawn(move || {
            let create = move |_: &Dict| {
                let answered = Arc::clone(&answered);
                Ok(Arc::new(InProcess::new(Slow { weights, answered })) as Arc<dyn Model>)
            };
            work_for_run(&options, &|_, _| {}, &create)
        })
    }
}

fn request(number: usize) -> ModelRequest {
    let arguments = Arguments::Generate { context: "Q".into(), kwargs: Arc::default() };
    ModelRequest {
        task_name: "t".into(),
        doc_id: DocId(number),
        idx: 0,
        repeat: 0,
        arguments,
        additional_args: None,
        document: None,
        progress: None,
    }
}

/// Answers requests and checks the answers.
fn check_answers(pool: &WorkerPool, count: usize) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let answers = runtime.block_on(pool.answer((0..count).map(request).collect()));
    for (number, answer) in answers.into_iter().enumerate() {
        assert_eq!(answer.unwrap().response, Response::Text(number.to_string().into()));
    }
}

#[test]
fn other_versions_and_models_are_refused() {
    let test = Test::new();
    let pool = test.pool(Duration::from_secs(5));
    let old = test.worker(&test.address, "0", "w").join().unwrap().unwrap_err().to_string();
    assert!(old.contains("it is lm-eval 0, and the run is 1"), "{old}");
    test.notes.wait_for("it is lm-eval 0, and the run is 1", 1);
    let right = test.worker(&test.address, "1", "w");
    let pool = pool.join().unwrap().unwrap();
    let other = test.worker(&test.address, "1", "other").join().unwrap().unwrap_err().to_string();
    assert!(other.contains("another model than the other workers: weights other instead of w"), "{other}");
    check_answers(&pool, 20);
    drop(pool);
    right.join().unwrap().unwrap();
}

#[test]
fn chat_prompts_are_rendered_by_a_worker() {
    let test = Test::new();
    let pool = test.pool(Duration::from_secs(5));
    let worker = test.worker(&test.address, "1", "w");
    let pool = pool.join().unwrap().unwrap();
    // Otherwise, options would be scored by log-likelihoods that this model does not have.
    assert_eq!(pool.traits().option_scoring, OptionScoring::Generations);
    let template = pool.chat_template(Some("own")).unwrap();
    assert_eq!(template.source.as_deref(), Some("source of own"));
    let messages = vec![ChatMessage::new(Role::System, "s"), ChatMessage::new(Role::User, "é\n")];
    let rendered = template.template.apply(messages, true).unwrap();
    assert_eq!(rendered, Context::Text("'s''é\n'true".into()));
    drop((template, pool));
    worker.join().unwrap().unwrap();
}

/// Forwards connections until it is cut: then nothing arrives any more, but nothing is closed either.
struct Proxy {
    address: String,
    is_cut: Arc<AtomicBool>,
}

impl Proxy {
    fn start(target: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let is_cut = Arc::new(AtomicBool::new(false));
        let (target, cut) = (target.to_owned(), Arc::clone(&is_cut));
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let Ok(other) = TcpStream::connect(&target) else { continue };
                let pairs = [(stream.try_clone().unwrap(), other.try_clone().unwrap()), (other, stream)];
                for (from, to) in pairs {
                    let cut = Arc::clone(&cut);
                    thread::spawn(move || forward(from, to, &cut));
                }
            }
        });
        Self { address, is_cut }
    }
}

fn forward(mut from: TcpStream, mut to: TcpStream, is_cut: &AtomicBool) {
    let mut bytes = [0; 4096];
    loop {
        while is_cut.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(10));
        }
        match from.read(&mut bytes) {
            Ok(count) if count > 0 && to.write_all(&bytes[..count]).is_ok() => {}
            _ => {
                let _ = to.shutdown(Shutdown::Both);
                return;
            }
        }
    }
}

#[test]
fn partitioned_worker_is_given_up_and_joins_again() {
    let test = Test::new();
    let proxy = Proxy::start(&test.address);
    let pool = test.pool(Duration::from_secs(3));
    let far = test.worker(&proxy.address, "1", "w");
    let pool = pool.join().unwrap().unwrap();
    let near = test.worker(&test.address, "1", "w");
    test.notes.wait_for(" joined", 2);
    let answering = thread::scope(|scope| {
        let answering = scope.spawn(|| check_answers(&pool, 3000));
        while test.answered.load(Ordering::Relaxed) < 100 {
            thread::sleep(Duration::from_millis(1));
        }
        proxy.is_cut.store(true, Ordering::Relaxed);
        test.notes.wait_for("left: it said nothing for 3 s", 1);
        answering.join()
    });
    answering.unwrap();
    proxy.is_cut.store(false, Ordering::Relaxed);
    test.notes.wait_for(" joined", 3);
    check_answers(&pool, 50);
    drop(pool);
    near.join().unwrap().unwrap();
    far.join().unwrap().unwrap();
}

//! How many requests per second a run can feed to workers over TCP.
//!
//! Starts a pool on loopback and workers as threads, each with a model that sleeps instead of computing, and prints the
//! throughput for several numbers of workers. `worker_scale [MILLISECONDS] [SECONDS] [WORKERS…]`: the time per request, the
//! duration of each measurement, and the numbers of workers.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use lmeval_core::{
    Answer, AnswerSink, Arguments, Dispatch, DocId, Model, ModelError, ModelFuture, ModelIdentity,
    ModelRequest, Response,
};
use lmeval_host::{PoolOptions, Token, WorkerOptions, WorkerPool, work_for_run};
use lmeval_pycompat::Dict;

/// The address of the pool; the port is chosen for each measurement.
const HOST: &str = "127.0.0.1";

/// Answers one request after the other, each as soon as it is known, until the run stops.
#[derive(Debug)]
struct Sleeper {
    sleep: Duration,
    is_stopping: AtomicBool,
}

impl Model for Sleeper {
    fn identity(&self) -> ModelFuture<'_, Result<ModelIdentity, ModelError>> {
        Box::pin(async { Ok(ModelIdentity { backend: "sleeper".to_owned(), facts: Vec::new() }) })
    }

    fn dispatch(&self) -> Dispatch {
        Dispatch { batch_size: 8192, in_flight: 1 }
    }

    fn wind_down(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
    }

    fn answer(&self, requests: Vec<ModelRequest>) -> ModelFuture<'_, Vec<Result<Answer, ModelError>>> {
        Box::pin(async move { requests.iter().map(|_| Ok(answer())).collect() })
    }

    fn answer_each(&self, requests: Vec<ModelRequest>, mut sink: AnswerSink) -> ModelFuture<'_, ()> {
        Box::pin(async move {
            for index in 0..requests.len() {
                if self.is_stopping.load(Ordering::Relaxed) {
                    return;
                }
                if !self.sleep.is_zero() {
                    tokio::time::sleep(self.sleep).await;
                }
                sink(index, Ok(answer()));
            }
        })
    }
}

fn answer() -> Answer {
    Response::Loglikelihood { logprob: -1.0, is_greedy: false }.into()
}

fn request(number: usize) -> ModelRequest {
    let context = format!("The same instructions for everybody, then question {number}:");
    ModelRequest {
        task_name: "bench".into(),
        doc_id: DocId(number),
        idx: 0,
        repeat: 0,
        arguments: Arguments::Loglikelihood { context: context.as_str().into(), continuation: " yes".into() },
        additional_args: None,
    }
}

/// Requests per second with some workers.
fn measure(workers: usize, sleep: Duration, duration: Duration, token: &Token) -> f64 {
    let port = std::net::TcpListener::bind((HOST, 0)).unwrap().local_addr().unwrap().port();
    let address = format!("{HOST}:{port}");
    let joined = Arc::new(AtomicUsize::new(0));
    let counting = Arc::clone(&joined);
    let options = PoolOptions {
        listen: address.clone(),
        token: token.clone(),
        tls: None,
        stall: Duration::from_mins(1),
        version: "bench".to_owned(),
        setup: Dict::new(),
    };
    let threads: Vec<_> = (0..workers)
        .map(|number| {
            let options = WorkerOptions {
                address: address.clone(),
                token: token.clone(),
                tls: None,
                version: "bench".to_owned(),
                patience: Duration::from_secs(20),
                name: format!("worker {number}"),
            };
            thread::spawn(move || {
                let create = |_: &Dict| {
                    let is_stopping = AtomicBool::new(false);
                    Ok(Arc::new(Sleeper { sleep, is_stopping }) as Arc<dyn Model>)
                };
                // A worker that is dismissed late finds no run.
                let _ = work_for_run(&options, &|_| {}, &create);
            })
        })
        .collect();
    let note = move |text: &str| {
        counting.fetch_add(usize::from(text.contains(" joined")), Ordering::Relaxed);
    };
    let pool = Arc::new(WorkerPool::listen(options, Arc::new(note)).unwrap());
    while joined.load(Ordering::Relaxed) < workers {
        thread::sleep(Duration::from_millis(5));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let (next, done) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let start = Instant::now();
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let (pool, next, done) = (Arc::clone(&pool), Arc::clone(&next), Arc::clone(&done));
            runtime.spawn(async move {
                while start.elapsed() < duration {
                    let first = next.fetch_add(8192, Ordering::Relaxed);
                    let requests = (first..first + 8192).map(request).collect();
                    let done = Arc::clone(&done);
                    let sink = Box::new(move |_, answer: Result<_, _>| {
                        done.fetch_add(usize::from(answer.is_ok()), Ordering::Relaxed);
                    });
                    pool.answer_each(requests, sink).await;
                }
            })
        })
        .collect();
    // Skip the start, while the first batches are serialised.
    thread::sleep(duration / 4);
    let (before, from) = (done.load(Ordering::Relaxed), Instant::now());
    thread::sleep(duration * 3 / 4);
    let rate = (done.load(Ordering::Relaxed) - before) as f64 / from.elapsed().as_secs_f64();
    pool.wind_down();
    for task in tasks {
        runtime.block_on(task).unwrap();
    }
    drop(pool);
    for thread in threads {
        thread.join().unwrap();
    }
    rate
}

fn main() {
    let mut numbers = std::env::args().skip(1).map(|word| word.parse::<f64>().unwrap());
    let sleep = Duration::from_secs_f64(numbers.next().unwrap_or(10.0) / 1000.0);
    let duration = Duration::from_secs_f64(numbers.next().unwrap_or(8.0));
    let mut workers: Vec<usize> = numbers.map(|number| number as usize).collect();
    if workers.is_empty() {
        workers = vec![1, 2, 4, 8, 16, 64];
    }
    let path = std::env::temp_dir().join(format!("worker-scale-{}", std::process::id()));
    fs_err::write(&path, "a token for a benchmark on loopback").unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    }
    let token = Token::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    println!("{:>8} {:>12} {:>12}", "workers", "requests/s", "per worker");
    for count in workers {
        let rate = measure(count, sleep, duration, &token);
        println!("{count:>8} {rate:>12.0} {:>12.1}", rate / count as f64);
    }
}

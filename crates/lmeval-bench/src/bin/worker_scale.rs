//! How many requests per second a run can feed to workers over TCP, and what they cost it.
//!
//! `worker-scale [MILLISECONDS] [SECONDS] [WORKERS…]` starts a pool in this process and workers in another one, each with a
//! model that sleeps instead of computing, and prints for several numbers of workers: the throughput, its ratio to the one
//! of a single sleeper without a network, the CPU time per request of both processes, and memory and threads of the pool.
//!
//! `worker-scale join ADDRESS TOKEN_FILE WORKERS MILLISECONDS` starts the workers alone. They join any run, such as
//! `lm-eval run --workers`.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark")]

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use lmeval_core::{
    Answer, AnswerSink, Arguments, DocId, Level, Model, ModelError, ModelFuture, ModelIdentity, ModelRequest,
    ModelTraits, Response,
};
use lmeval_host::{PoolOptions, Token, WorkerOptions, WorkerPool, work_for_run};
use lmeval_pycompat::Dict;

/// The address of the pool; the port is chosen for each measurement.
const HOST: &str = "127.0.0.1";
/// The version that runs of this workspace expect of their workers.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "+rust");

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

    fn traits(&self) -> ModelTraits {
        ModelTraits { batch_size: 8192, in_flight: 1, ..ModelTraits::default() }
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
        document: None,
        progress: None,
    }
}

/// Starts workers in this process, and waits for their end.
fn join(address: &str, token: &Token, workers: usize, sleep: Duration) {
    let threads: Vec<_> = (0..workers)
        .map(|number| {
            let options = WorkerOptions {
                address: address.to_owned(),
                token: token.clone(),
                tls: None,
                version: VERSION.to_owned(),
                patience: Duration::from_secs(20),
                name: format!("worker {number}"),
            };
            thread::spawn(move || {
                let create = |_: &Dict| {
                    let is_stopping = AtomicBool::new(false);
                    Ok(Arc::new(Sleeper { sleep, is_stopping }) as Arc<dyn Model>)
                };
                // A worker that is dismissed late finds no run.
                let _ = work_for_run(&options, &|_, _| {}, &create);
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}

/// The CPU time of a process so far.
fn cpu_time(process: &str) -> Duration {
    let text = fs_err::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // After the name: user and system time in hundredths of a second.
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
    Duration::from_millis(10 * (ticks(11) + ticks(12)))
}

/// A field of this process's status, as a number.
fn status(name: &str) -> u64 {
    let text = fs_err::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with(name));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
}

/// The figures of one measurement.
struct Measured {
    rate: f64,
    /// Microseconds of CPU time per request: of the run and of all workers.
    cost: [f64; 2],
    megabytes: u64,
    threads: u64,
}

fn measure(workers: usize, milliseconds: f64, duration: Duration, token_file: &Path) -> Measured {
    let port = std::net::TcpListener::bind((HOST, 0)).unwrap().local_addr().unwrap().port();
    let address = format!("{HOST}:{port}");
    let joined = Arc::new(AtomicUsize::new(0));
    let counting = Arc::clone(&joined);
    let options = PoolOptions {
        listen: address.clone(),
        token: Token::read(token_file).unwrap(),
        tls: None,
        stall: Duration::from_mins(1),
        version: VERSION.to_owned(),
        setup: Dict::new(),
    };
    let words = ["join".to_owned(), address, token_file.display().to_string()];
    let numbers = [workers.to_string(), milliseconds.to_string()];
    let binary = std::env::current_exe().unwrap();
    let mut child = Command::new(binary).args(words).args(numbers).spawn().unwrap();
    let process = child.id().to_string();
    let note = move |_: Level, text: &str| {
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
    let times = ["self", &process].map(cpu_time);
    thread::sleep(duration * 3 / 4);
    let answered = (done.load(Ordering::Relaxed) - before) as f64;
    let later = ["self", &process].map(cpu_time);
    let cost = [0, 1].map(|index| later[index].saturating_sub(times[index]).as_secs_f64() * 1e6 / answered);
    let measured = Measured {
        rate: answered / from.elapsed().as_secs_f64(),
        cost,
        megabytes: status("VmRSS:") / 1024,
        threads: status("Threads:"),
    };
    pool.wind_down();
    for task in tasks {
        runtime.block_on(task).unwrap();
    }
    drop(pool);
    child.wait().unwrap();
    measured
}

/// Requests per second of one sleeper in this process.
fn alone(sleep: Duration) -> f64 {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let start = Instant::now();
    let count = 20;
    runtime.block_on(async {
        for _ in 0..count {
            tokio::time::sleep(sleep).await;
        }
    });
    f64::from(count) / start.elapsed().as_secs_f64()
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [mode, address, token_file, workers, milliseconds] = words.as_slice()
        && mode == "join"
    {
        let token = Token::read(Path::new(token_file)).unwrap();
        let sleep = Duration::from_secs_f64(milliseconds.parse::<f64>().unwrap() / 1000.0);
        return join(address, &token, workers.parse().unwrap(), sleep);
    }
    let mut numbers = words.iter().map(|word| word.parse::<f64>().unwrap());
    let milliseconds = numbers.next().unwrap_or(50.0);
    let duration = Duration::from_secs_f64(numbers.next().unwrap_or(12.0));
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
    let single = (milliseconds > 0.0).then(|| alone(Duration::from_secs_f64(milliseconds / 1000.0)));
    println!(
        "{:>8} {:>12} {:>12} {:>10} {:>14} {:>16} {:>8} {:>8}",
        "workers",
        "requests/s",
        "per worker",
        "of linear",
        "CPU µs (run)",
        "CPU µs (workers)",
        "MB",
        "threads"
    );
    for count in workers {
        let Measured { rate, cost: [run, all], megabytes, threads } =
            measure(count, milliseconds, duration, &path);
        let each = rate / count as f64;
        let linear = single.map_or("-".to_owned(), |single| format!("{:.1} %", 100.0 * each / single));
        println!(
            "{count:>8} {rate:>12.0} {each:>12.1} {linear:>10} {run:>14.1} {all:>16.1} {megabytes:>8} {threads:>8}"
        );
    }
    std::fs::remove_file(&path).unwrap();
}

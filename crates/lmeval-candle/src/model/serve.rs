//! The worker process: answers requests from standard input.

use std::io::{self, BufRead, Write};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, mpsc};
use std::thread;

use lmeval_core::work_queue::Sink;
use lmeval_core::{Answer, ModelError, ModelRequest, ModelStats};

use super::message::{FromWorker, ToWorker};
use super::prepare::Prepared;
use super::work::Answerer;

/// The hidden subcommand that starts a worker.
pub(super) const COMMAND: &str = "serve-model";

/// Loads the model described on standard input and answers requests until standard input ends.
///
/// Runs in the worker processes of `data_parallel`.
pub fn serve(output: impl Write + Send + 'static) -> io::Result<()> {
    let mut input = io::stdin().lock();
    let mut line = String::new();
    input.read_line(&mut line)?;
    drop(input);
    let output = Arc::new(Output(Mutex::new(output)));
    let Some(ToWorker::Setup { settings, share }) = ToWorker::from_line(&line) else {
        return Err(io::Error::other(
            "This command is internal: `--model hf` of the same version starts it for `data_parallel`",
        ));
    };
    let answerer: Arc<OnceLock<Arc<Answerer>>> = Arc::default();
    let batches = listen(Arc::clone(&answerer));
    match Prepared::new(&settings).and_then(|prepared| Answerer::new(prepared, share)) {
        Ok(loaded) => {
            let loaded = answerer.get_or_init(|| Arc::new(loaded));
            output.write(&FromWorker::Ready)?;
            for requests in batches {
                work(loaded, &requests, &output);
                output.write(&FromWorker::Done)?;
            }
            Ok(())
        }
        Err(error) => output.write(&FromWorker::Failed(error)),
    }
}

/// Reads messages on another thread. Exits the process when the run closes standard input.
#[expect(clippy::exit, reason = "a forward pass may take minutes, and nothing waits for its result")]
fn listen(answerer: Arc<OnceLock<Arc<Answerer>>>) -> mpsc::Receiver<Vec<ModelRequest>> {
    let (sender, batches) = mpsc::channel();
    thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            match ToWorker::from_line(&line) {
                Some(ToWorker::Requests(requests)) => drop(sender.send(requests)),
                Some(ToWorker::End) => {
                    if let Some(answerer) = answerer.get() {
                        answerer.cancel();
                    }
                }
                _ => break,
            }
        }
        std::process::exit(0);
    });
    batches
}

/// Answers requests and writes each answer as soon as it is known.
fn work<W: Write + Send + 'static>(
    answerer: &Arc<Answerer>,
    requests: &[ModelRequest],
    output: &Arc<Output<W>>,
) {
    let (model, output) = (Arc::clone(answerer), Arc::clone(output));
    let mut reported = counts(model.stats());
    let write = move |index: usize, answer: Result<Answer, ModelError>| {
        let now = counts(model.stats());
        let [asked, computed] = [0, 1].map(|count| now[count] - reported[count]);
        reported = now;
        // If the run is gone, the listener exits the process.
        let _ = output.write(&FromWorker::Answered { index, answer, asked, computed });
    };
    answerer.work(requests, &Sink::new(Box::new(write), requests.len()));
}

/// Tokens requested and computed so far.
fn counts(stats: &ModelStats) -> [u64; 2] {
    [&stats.tokens_asked, &stats.tokens_computed].map(|count| count.load(Ordering::Relaxed))
}

struct Output<W>(Mutex<W>);

impl<W: Write> Output<W> {
    fn write(&self, message: &FromWorker) -> io::Result<()> {
        let line = message.to_line().map_err(io::Error::other)?;
        let mut output = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        output.write_all(line.as_bytes())?;
        output.write_all(b"\n")?;
        output.flush()
    }
}

//! The worker's side: a model that answers what it is sent.

use std::io::{self, BufRead, Write};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, mpsc};
use std::thread;

use lmeval_core::{Answer, ModelError, ModelRequest, ModelStats};

use super::message::{FromWorker, ToWorker};
use super::prepare::Prepared;
use super::sink::Sink;
use super::work::Answerer;

/// The command of the program that serves.
pub(super) const COMMAND: &str = "serve-model";

/// Loads the model that standard input asks for and answers what it is sent, until standard input ends.
///
/// This is what worker processes do (`data_parallel`); it is of no use to anybody else.
pub fn serve(output: impl Write + Send + 'static) -> io::Result<()> {
    let mut input = io::stdin().lock();
    let mut line = String::new();
    input.read_line(&mut line)?;
    drop(input);
    let output = Arc::new(Output(Mutex::new(output)));
    let Some(ToWorker::Setup { settings, share }) = ToWorker::from_line(&line) else {
        return Err(io::Error::other(
            "This command is for worker processes of `--model hf` of the same version",
        ));
    };
    let answerer: Arc<OnceLock<Arc<Answerer>>> = Arc::default();
    let pieces = listen(Arc::clone(&answerer));
    match Prepared::new(&settings).and_then(|prepared| Answerer::new(prepared, share)) {
        Ok(loaded) => {
            let loaded = answerer.get_or_init(|| Arc::new(loaded));
            output.write(&FromWorker::Ready)?;
            for requests in pieces {
                work(loaded, &requests, &output);
                output.write(&FromWorker::Done)?;
            }
            Ok(())
        }
        Err(error) => output.write(&FromWorker::Failed(error)),
    }
}

/// Reads requests while others are answered. When the run is gone, there is nothing to answer any more.
#[expect(clippy::exit, reason = "a pass may take minutes, and nobody waits for it any more")]
fn listen(answerer: Arc<OnceLock<Arc<Answerer>>>) -> mpsc::Receiver<Vec<ModelRequest>> {
    let (sender, pieces) = mpsc::channel();
    thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            match ToWorker::from_line(&line) {
                Some(ToWorker::Requests(requests)) => drop(sender.send(requests)),
                Some(ToWorker::End) => {
                    if let Some(answerer) = answerer.get() {
                        answerer.end();
                    }
                }
                _ => break,
            }
        }
        std::process::exit(0);
    });
    pieces
}

/// Answers requests and writes each answer when it is there.
fn work<W: Write + Send + 'static>(
    answerer: &Arc<Answerer>,
    requests: &[ModelRequest],
    output: &Arc<Output<W>>,
) {
    let (model, output) = (Arc::clone(answerer), Arc::clone(output));
    let mut told = counts(model.stats());
    let give = move |place: usize, answer: Result<Answer, ModelError>| {
        let now = counts(model.stats());
        let [asked, computed] = [0, 1].map(|index| now[index] - told[index]);
        told = now;
        // A run that is gone ends this process.
        let _ = output.write(&FromWorker::Answered { place, answer, asked, computed });
    };
    answerer.work(requests, &Sink::new(Box::new(give), requests.len()));
}

/// Tokens that were asked for and computed so far.
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

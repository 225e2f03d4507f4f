//! The worker's side: loads the model once and answers requests of a run over the network.

use std::io;
use std::net::{TcpStream, ToSocketAddrs as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use lmeval_core::{ChatTemplate, Level, Model, ModelError, ModelErrorKind, ModelRequest};
use lmeval_pycompat::json::Decoder;
use lmeval_pycompat::{Dict, Value};
use tokio::runtime::Runtime;

use super::channel::{HandshakeError, Receiver, Sender, Side, Token, handshake};
use super::pool::heartbeat;
use super::tls::WorkerTls;
use super::wire::{Description, FromWorker, ToWorker};

/// How long connecting to an address may take.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// The pause before another attempt.
const PAUSE: Duration = Duration::from_millis(500);
/// Answers per message.
const ANSWERS: usize = 256;
/// How long a run may say nothing before it says how long it may.
const SILENCE: Duration = Duration::from_mins(1);

/// The options of a worker.
#[derive(Clone, Debug)]
pub struct WorkerOptions {
    /// The address of the run.
    pub address: String,
    /// The secret of the run.
    pub token: Token,
    /// The certificates that are trusted, if connections are encrypted.
    pub tls: Option<WorkerTls>,
    /// The release of lm-eval.
    pub version: String,
    /// How long to try to reach the run, at the start and after the connection is lost.
    pub patience: Duration,
    /// The name of the worker in messages of the run.
    pub name: String,
}

/// Creates the model from the settings of a run.
pub type CreateModel<'a> = dyn Fn(&Dict) -> Result<Arc<dyn Model>, ModelError> + 'a;

/// How a connection ended.
enum Ended {
    /// The run is over.
    Over,
    /// The connection was lost.
    Lost(String),
}

/// A loaded model with the settings it was created from.
struct Loaded {
    setup: Dict,
    model: Arc<dyn Model>,
    template: Arc<Mutex<Option<Arc<dyn ChatTemplate>>>>,
}

/// Works for a run until it is over. `create` makes the model from the settings of the run, once; `note` receives
/// messages.
pub fn work_for_run(
    options: &WorkerOptions,
    note: &dyn Fn(Level, &str),
    create: &CreateModel<'_>,
) -> Result<(), ModelError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| unreachable(format!("Cannot start threads: {error}")))?;
    let mut loaded: Option<Loaded> = None;
    let mut alone_since = Instant::now();
    let mut problem;
    let mut reported = String::new();
    loop {
        match connect(options) {
            Ok(stream) => match join(options, stream) {
                Ok((sender, receiver)) => {
                    let sender = Arc::new(Mutex::new(sender));
                    let mut session = Session { options, sender, receiver, decoder: Decoder::new() };
                    match session.run(note, create, &mut loaded, &runtime)? {
                        Ended::Over => {
                            note(Level::Info, "The run is over");
                            return Ok(());
                        }
                        Ended::Lost(reason) => {
                            note(
                                Level::Warning,
                                &format!(
                                    "The connection to {} was lost: {reason}; connecting again",
                                    options.address
                                ),
                            );
                            problem = reason;
                            reported.clone_from(&problem);
                            alone_since = Instant::now();
                        }
                    }
                }
                Err(error) => match mistake(&error, &options.address) {
                    Some(mistake) => return Err(mistake),
                    None => problem = error.to_string(),
                },
            },
            Err(error) => problem = error.to_string(),
        }
        if alone_since.elapsed() >= options.patience {
            let message = format!("Cannot reach a run at {}: {problem}", options.address);
            return Err(unreachable(message).hint("`--patience SECONDS` sets how long a worker tries"));
        }
        if problem != reported {
            note(Level::Info, &format!("Waiting for a run at {}: {problem}", options.address));
            reported.clone_from(&problem);
        }
        thread::sleep(PAUSE.min(options.patience));
    }
}

fn unreachable(message: String) -> ModelError {
    ModelError::new(ModelErrorKind::Unreachable, message)
}

fn join(options: &WorkerOptions, socket: TcpStream) -> Result<(Sender, Receiver), HandshakeError> {
    let tls = options.tls.as_ref().map(|tls| tls.connection(&options.address)).transpose()?;
    handshake(socket, &options.token, Side::Worker, tls)
}

/// The error of a worker that a later attempt cannot succeed for.
fn mistake(error: &HandshakeError, address: &str) -> Option<ModelError> {
    let (message, hint) = match error {
        HandshakeError::Token => (
            format!("The run at {address} has another token"),
            "The run and its workers need the same token file",
        ),
        HandshakeError::Release => (
            format!("The run at {address} is another version of lm-eval"),
            "Install the same version on both machines",
        ),
        HandshakeError::Plain => (
            format!("The run at {address} does not use TLS"),
            "Start the run with `--workers …,tls_cert=FILE,tls_key=FILE`, or this worker without `--tls_ca`",
        ),
        HandshakeError::Encrypted => (
            format!("The run at {address} uses TLS"),
            "Pass `--tls_ca FILE` with its certificate, or that of the authority which issued it",
        ),
        HandshakeError::Certificate(reason) => (
            format!("The certificate of the run at {address} is not accepted: {reason}"),
            "`--tls_ca FILE` takes the certificate of the run itself, which is then accepted for any name",
        ),
        _ => return None,
    };
    Some(ModelError::new(ModelErrorKind::Authentication, message).hint(hint))
}

fn connect(options: &WorkerOptions) -> io::Result<TcpStream> {
    let mut last = io::Error::other("the name has no address");
    for address in options.address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT_LIMIT) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// One connection to the run.
struct Session<'a> {
    options: &'a WorkerOptions,
    sender: Arc<Mutex<Sender>>,
    receiver: Receiver,
    decoder: Decoder,
}

/// Sends a message.
fn send(sender: &Mutex<Sender>, message: &FromWorker) -> io::Result<()> {
    let text = message.encode().map_err(io::Error::other)?;
    sender.lock().unwrap_or_else(PoisonError::into_inner).send(&text)
}

impl Session<'_> {
    fn receive(&mut self) -> Result<ToWorker, String> {
        let text = self.receiver.receive().map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => "the run closed it".to_owned(),
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "the run says nothing".to_owned(),
            _ => error.to_string(),
        })?;
        ToWorker::decode(&mut self.decoder, &text).ok_or_else(|| "the run sent an invalid message".to_owned())
    }

    /// Sets how long the run may say nothing.
    fn set_limits(&self, limit: Duration) -> io::Result<()> {
        self.receiver.set_limit(limit)?;
        self.sender.lock().unwrap_or_else(PoisonError::into_inner).set_limit(limit)
    }

    /// Joins the run and answers its requests until it is over or the connection is lost.
    fn run(
        &mut self,
        note: &dyn Fn(Level, &str),
        create: &CreateModel<'_>,
        loaded: &mut Option<Loaded>,
        runtime: &Runtime,
    ) -> Result<Ended, ModelError> {
        let hello =
            FromWorker::Hello { version: self.options.version.clone(), name: self.options.name.clone() };
        if let Err(error) = self.set_limits(SILENCE).and_then(|()| send(&self.sender, &hello)) {
            return Ok(Ended::Lost(error.to_string()));
        }
        let (setup, stall) = match self.receive() {
            Ok(ToWorker::Setup { settings, stall }) => (settings, stall),
            Ok(ToWorker::Refused(reason)) => return Err(self.refused(&reason)),
            Ok(_) => return Ok(Ended::Lost("the run sent an unexpected message".to_owned())),
            Err(reason) => return Ok(Ended::Lost(reason)),
        };
        if let Err(error) = self.set_limits(stall) {
            return Ok(Ended::Lost(error.to_string()));
        }
        let heartbeat = Heartbeat::start(&self.sender, heartbeat(stall));
        if loaded.as_ref().is_none_or(|loaded| loaded.setup != setup) {
            *loaded = None;
            note(Level::Info, "Loading the model");
            match create(&setup) {
                Ok(model) => *loaded = Some(Loaded { setup, model, template: Arc::default() }),
                Err(error) => {
                    // The error is reported here, too.
                    let _ = send(&self.sender, &FromWorker::Failed(error.clone()));
                    return Err(error);
                }
            }
        }
        let Some(Loaded { model, template, .. }) = loaded else { return Ok(Ended::Over) };
        let description = describe(model, runtime)?;
        if let Err(error) = send(&self.sender, &FromWorker::Ready(Box::new(description))) {
            return Ok(Ended::Lost(error.to_string()));
        }
        let ended = loop {
            match self.receive() {
                Ok(ToWorker::Accepted) => break self.work(model, template, runtime),
                Ok(ToWorker::Refused(reason)) => return Err(self.refused(&reason)),
                Ok(ToWorker::Ping) => {}
                Ok(ToWorker::End) => break Ended::Over,
                Ok(_) => break Ended::Lost("the run sent an unexpected message".to_owned()),
                Err(reason) => break Ended::Lost(reason),
            }
        };
        drop(heartbeat);
        self.sender.lock().unwrap_or_else(PoisonError::into_inner).close();
        Ok(ended)
    }

    fn refused(&self, reason: &str) -> ModelError {
        let message = format!("The run at {} refused this worker: {reason}", self.options.address);
        ModelError::new(ModelErrorKind::Configuration, message)
    }

    /// Answers requests.
    fn work(
        &mut self,
        model: &Arc<dyn Model>,
        template: &Arc<Mutex<Option<Arc<dyn ChatTemplate>>>>,
        runtime: &Runtime,
    ) -> Ended {
        let (batches, todo) = mpsc::channel::<Vec<ModelRequest>>();
        let computing = {
            let (model, sender) = (Arc::clone(model), Arc::clone(&self.sender));
            let handle = runtime.handle().clone();
            thread::spawn(move || {
                for requests in todo {
                    if !compute(&model, requests, &sender, &handle) {
                        return;
                    }
                }
            })
        };
        let ended = loop {
            match self.receive() {
                Ok(ToWorker::Requests(requests)) => {
                    if batches.send(requests).is_err() {
                        break Ended::Lost("the connection broke while sending answers".to_owned());
                    }
                }
                Ok(ToWorker::Ping) => {}
                Ok(ToWorker::Template { id, name }) => {
                    let made = model.chat_template(name.as_deref());
                    let rendered = made.map(|made| {
                        *template.lock().unwrap_or_else(PoisonError::into_inner) = Some(made.template);
                        Value::from(made.source)
                    });
                    // If the run is gone, the next message says so.
                    let _ = send(&self.sender, &FromWorker::Rendered { id, rendered });
                }
                Ok(ToWorker::Render { id, messages, add_generation_prompt }) => {
                    let known = template.lock().unwrap_or_else(PoisonError::into_inner).clone();
                    let known = known.map_or_else(|| model.chat_template(None).map(|made| made.template), Ok);
                    let rendered = known.and_then(|template| {
                        let context = template.apply(messages, add_generation_prompt);
                        context
                            .map(|context| context.to_exact_value())
                            .map_err(|error| ModelError::new(ModelErrorKind::Request, error.to_string()))
                    });
                    let _ = send(&self.sender, &FromWorker::Rendered { id, rendered });
                }
                Ok(ToWorker::End) => {
                    model.wind_down();
                    drop(batches);
                    // Answers that are still computed are saved.
                    let _ = computing.join();
                    return Ended::Over;
                }
                Ok(ToWorker::Refused(reason)) => break Ended::Lost(reason),
                Ok(ToWorker::Setup { .. } | ToWorker::Accepted) => {
                    break Ended::Lost("the run sent an unexpected message".to_owned());
                }
                Err(reason) => break Ended::Lost(reason),
            }
        };
        // A batch that is still computed would slow down the next one, and the model may not allow two at a time.
        drop(batches);
        let _ = computing.join();
        ended
    }
}

/// Answers a batch. Returns false if the run is gone.
fn compute(
    model: &Arc<dyn Model>,
    requests: Vec<ModelRequest>,
    sender: &Arc<Mutex<Sender>>,
    runtime: &tokio::runtime::Handle,
) -> bool {
    let (answers, computed) = mpsc::channel();
    let writing = {
        let sender = Arc::clone(sender);
        thread::spawn(move || {
            while let Ok(first) = computed.recv() {
                let mut batch = vec![first];
                batch.extend(computed.try_iter().take(ANSWERS - 1));
                if send(&sender, &FromWorker::Answers(batch)).is_err() {
                    return false;
                }
            }
            send(&sender, &FromWorker::Done).is_ok()
        })
    };
    // The writer ends if the run is gone.
    let sink = Box::new(move |index, answer| drop(answers.send((index, answer))));
    runtime.block_on(model.answer_each(requests, sink));
    writing.join().unwrap_or(false)
}

/// The description of the model for the run.
fn describe(model: &Arc<dyn Model>, runtime: &Runtime) -> Result<Description, ModelError> {
    let identity = match model.portable_identity() {
        Some(identity) => identity,
        None => runtime.block_on(model.identity())?,
    };
    let traits = model.traits();
    Ok(Description {
        identity,
        facts: model.facts(),
        option_scoring: traits.option_scoring,
        reasons: traits.reasons,
        depends_on_document: traits.depends_on_document,
        is_worth_saving: traits.is_worth_saving,
        takes_media: traits.takes_media,
    })
}

/// Sends signs of life, even while the worker computes.
struct Heartbeat(Arc<AtomicBool>);

impl Heartbeat {
    fn start(sender: &Arc<Mutex<Sender>>, period: Duration) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let (sender, flag) = (Arc::clone(sender), Arc::clone(&is_over));
        thread::spawn(move || {
            let mut last = Instant::now();
            while !flag.load(Ordering::Relaxed) {
                thread::sleep(PAUSE.min(period));
                if last.elapsed() >= period {
                    last = Instant::now();
                    if send(&sender, &FromWorker::Alive).is_err() {
                        return;
                    }
                }
            }
        });
        Self(is_over)
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

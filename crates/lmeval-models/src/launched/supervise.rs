//! Starts servers when they are first needed, starts them again when they die, and ends them with the run.

use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fs_err as fs;
use lmeval_core::{ModelError, ModelErrorKind};
use tokio::sync::watch;

use super::flags;
use super::interpreter::{Interpreter, configuration};
use super::keep::{self, Claim, Kept};
use super::log::Log;
use super::probe::{self, Refused, Report};
use super::process::{Address, Message, Process, ServerCommand};
use super::software::Software;
use crate::http::Client;

/// How often a server is started again.
const RESTARTS: u32 = 3;
/// How often one that was killed before it was ever ready: loading takes minutes, and memory may be what it lacks.
const FIRST_RESTARTS: u32 = 1;
/// Between queries of a server's health, and how many have to fail in turn.
const HEALTH: (Duration, u32) = (Duration::from_secs(3), 3);
/// A server that has run for longer may be started again as often as a new one.
const SETTLED: Duration = Duration::from_mins(10);
/// Between queries of a server that starts.
const POLL: Duration = Duration::from_millis(100);
/// Between reports of what a server does that starts.
const REPORT: Duration = Duration::from_secs(5);
/// How long a server may take to end, after which it is killed.
const END: Duration = Duration::from_secs(8);

/// One server to start.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) software: &'static Software,
    pub(super) interpreter: Interpreter,
    pub(super) command: ServerCommand,
    pub(super) address: Address,
    pub(super) key: String,
    /// The flags that came from model arguments, for messages.
    pub(super) given: Vec<String>,
    pub(super) start_timeout: Duration,
    /// Where servers that stay are recorded; `None` for one that ends with the run.
    pub(super) record: Option<PathBuf>,
    /// The server of an earlier run.
    pub(super) kept: Option<Kept>,
    /// Whether the log is of no use after a run that went well.
    pub(super) has_temporary_log: bool,
    /// The folder for data that later runs can reuse.
    pub(super) cache: Option<PathBuf>,
}

/// The state of a run's servers.
#[derive(Clone, Debug)]
enum Phase {
    Idle,
    Starting,
    Ready(Report),
    Failed(ModelError),
}

/// The servers of a run.
pub(super) struct Servers {
    plans: Vec<Plan>,
    client: Arc<Client>,
    phase: Arc<watch::Sender<Phase>>,
    running: Mutex<Vec<(Sender<Message>, JoinHandle<()>)>>,
}

impl std::fmt::Debug for Servers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Servers").field("servers", &self.plans.len()).finish_non_exhaustive()
    }
}

impl Servers {
    pub(super) fn new(plans: Vec<Plan>, client: Arc<Client>) -> Self {
        // Without plans, the servers are those of somebody else.
        let begin = if plans.is_empty() { Phase::Ready(Report::default()) } else { Phase::Idle };
        let phase = Arc::new(watch::Sender::new(begin));
        Self { plans, client, phase, running: Mutex::default() }
    }

    /// Starts the servers unless that was done, and waits until they are ready.
    pub(super) async fn ready(&self) -> Result<Report, ModelError> {
        self.start();
        let mut phase = self.phase.subscribe();
        loop {
            match &*phase.borrow_and_update() {
                Phase::Ready(report) => return Ok(*report),
                Phase::Failed(error) => return Err(error.clone()),
                Phase::Idle | Phase::Starting => {}
            }
            if phase.changed().await.is_err() {
                return Err(unexpected());
            }
        }
    }

    /// Waits until the servers cannot be used any more.
    pub(super) async fn failure(&self) -> ModelError {
        let mut phase = self.phase.subscribe();
        let failed = phase.wait_for(|phase| matches!(phase, Phase::Failed(_))).await;
        match failed.as_deref() {
            Ok(Phase::Failed(error)) => error.clone(),
            _ => unexpected(),
        }
    }

    /// Fails the requests that wait for servers to start: the run is stopping.
    pub(super) fn stop_waiting(&self) {
        self.phase.send_if_modified(|phase| {
            let is_waiting = matches!(phase, Phase::Idle | Phase::Starting);
            if is_waiting {
                *phase = Phase::Failed(unexpected());
            }
            is_waiting
        });
    }

    /// Whether they are started by somebody else.
    pub(super) fn are_given(&self) -> bool {
        self.plans.is_empty()
    }

    fn start(&self) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        // A run that is stopping starts none.
        let is_first = self.phase.send_if_modified(|phase| {
            let is_first = matches!(phase, Phase::Idle);
            if is_first {
                *phase = Phase::Starting;
            }
            is_first
        });
        if !is_first {
            return;
        }
        let waiting = Arc::new(Mutex::new(self.plans.len()));
        for plan in &self.plans {
            let (sender, inbox) = mpsc::channel();
            let supervisor = Supervisor {
                plan: plan.clone(),
                client: Arc::clone(&self.client),
                phase: Arc::clone(&self.phase),
                waiting: Arc::clone(&waiting),
                sender: sender.clone(),
                inbox,
            };
            match thread::Builder::new().name("supervisor".to_owned()).spawn(move || supervisor.run()) {
                Ok(thread) => running.push((sender, thread)),
                Err(error) => {
                    let message = format!("No thread can be started for the server: {error}");
                    self.phase.send_replace(Phase::Failed(configuration(message)));
                }
            }
        }
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        let running = std::mem::take(&mut *self.running.lock().unwrap_or_else(PoisonError::into_inner));
        for (sender, _) in &running {
            // One that has failed listens no more.
            let _ = sender.send(Message::Stop);
        }
        for (_, thread) in running {
            // A panic was reported by its thread.
            let _ = thread.join();
        }
    }
}

fn unexpected() -> ModelError {
    ModelError::new(ModelErrorKind::Unreachable, "The servers of this run have been stopped")
}

/// Why a server is not ready.
enum NotReady {
    Stopped,
    /// With its exit status.
    Ended(Option<i32>),
    TimedOut(ModelError),
}

/// Watches one server.
struct Supervisor {
    plan: Plan,
    client: Arc<Client>,
    phase: Arc<watch::Sender<Phase>>,
    /// How many servers have not been ready yet.
    waiting: Arc<Mutex<usize>>,
    sender: Sender<Message>,
    inbox: Receiver<Message>,
}

impl Supervisor {
    fn run(mut self) {
        if let Err(error) = self.supervise() {
            self.client.stats().wait_for(None);
            self.phase.send_replace(Phase::Failed(error));
        }
    }

    /// Keeps a server running until the run is over.
    fn supervise(&mut self) -> Result<(), ModelError> {
        let mut restarts = 0;
        let mut has_run = false;
        loop {
            let log = Log::from_end(&self.plan.command.log);
            let mut process = self.begin()?;
            let report = match self.until_ready(&log) {
                Ok(report) => report,
                Err(NotReady::Stopped) => {
                    self.end(&mut process, false);
                    return Ok(());
                }
                Err(NotReady::TimedOut(error)) => {
                    self.end(&mut process, true);
                    return Err(error);
                }
                Err(NotReady::Ended(status)) => {
                    self.forget();
                    if self.drop_needless(&log) {
                        continue;
                    }
                    // Requests may end a server before it was seen to be ready.
                    let is_accident = has_run || is_kill(status) || log.tells_of_an_accident();
                    if !is_accident || (!has_run && restarts == FIRST_RESTARTS) {
                        return Err(self.not_started(status, &log));
                    }
                    restarts += 1;
                    self.note_end(status, restarts, &log)?;
                    continue;
                }
            };
            let since = Instant::now();
            self.note_ready(report, has_run);
            has_run = true;
            let Ending::Server(status) = self.until_ended(&mut process) else {
                self.end(&mut process, false);
                return Ok(());
            };
            if since.elapsed() > SETTLED {
                restarts = 0;
            }
            restarts += 1;
            self.note_end(status, restarts, &log)?;
            self.forget();
        }
    }

    /// Waits until a server that was ready, or the run, ends. A server without an engine that keeps listening is killed: it
    /// would answer nothing any more.
    fn until_ended(&self, process: &mut Process) -> Ending {
        let (pause, limit) = HEALTH;
        let mut failures = 0;
        loop {
            match self.inbox.recv_timeout(pause) {
                Ok(Message::Ended(status)) => return Ending::Server(status),
                Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => return Ending::Run,
                Err(RecvTimeoutError::Timeout) => {}
            }
            let Plan { software, address, key, .. } = &self.plan;
            let is_broken = software.reports_health && probe::is_broken(address, key);
            failures = if is_broken { failures + 1 } else { 0 };
            if failures == limit {
                process.kill();
            }
        }
    }

    /// Starts the server, or takes the one of an earlier run.
    fn begin(&mut self) -> Result<Process, ModelError> {
        let title = self.plan.software.title;
        self.reserve()?;
        if let Some(kept) = self.plan.kept.clone() {
            self.note_stay("was still running", kept.pid);
            let (pid, sender) = (kept.pid, self.sender.clone());
            let watch = move || {
                while kept.is_alive() {
                    thread::sleep(POLL);
                }
                // Without a receiver, nobody needs to know.
                let _ = sender.send(Message::Ended(None));
            };
            let started = thread::Builder::new().name("server".to_owned()).spawn(watch);
            started.map_err(|error| configuration(format!("No thread can be started: {error}")))?;
            return Ok(Process::Kept { pid });
        }
        let keeps = self.plan.record.is_some();
        let process = self.plan.command.start(keeps, self.sender.clone()).map_err(|error| {
            self.release();
            let python = self.plan.command.python.display();
            configuration(format!("{title} cannot be started with `{python}`: {error}"))
        })?;
        if let (Process::Kept { pid }, Some(record)) = (&process, &self.plan.record) {
            let Plan { command, address, key, .. } = &self.plan;
            match Kept::new(command, address, key, *pid).map(|kept| kept.save(record)) {
                Some(Ok(())) => self.note_stay("stays after this run", *pid),
                Some(Err(error)) => {
                    // Nobody would find it again.
                    keep::end_group(*pid, true);
                    self.release();
                    return Err(configuration(format!(
                        "The server of `keep_server` cannot be recorded: {error}"
                    ))
                    .hint("Free some space, or leave out `keep_server`"));
                }
                // It has ended already.
                None => self.release(),
            }
        }
        Ok(process)
    }

    /// Reserves the record of a server that stays, which another run may be about to start, too.
    fn reserve(&mut self) -> Result<(), ModelError> {
        let Some(record) = self.plan.record.as_deref().filter(|_| self.plan.kept.is_none()) else {
            return Ok(());
        };
        let claim = keep::claim(record).map_err(|error| {
            configuration(format!("The server of `keep_server` cannot be recorded: {error}"))
        })?;
        let title = self.plan.software.title;
        match claim {
            Claim::Own => {}
            Claim::Taken(kept) if kept.key == self.plan.key && kept.address == self.plan.address => {
                self.plan.kept = Some(kept);
            }
            Claim::Taken(_) | Claim::Busy => {
                self.plan.record = None;
                self.client.stats().warn(format!(
                    "Another run has just started the same {title} server, so that of this run does not stay"
                ));
            }
        }
        Ok(())
    }

    /// Removes the reservation of a server that was not started.
    fn release(&self) {
        if let Some(record) = &self.plan.record {
            // The next run removes it otherwise.
            let _ = fs::remove_file(record);
        }
    }

    fn note_stay(&self, verb: &str, process: u32) {
        self.client.stats().note(&format!(
            "{} {verb} (process {process}): runs with the same model arguments use it; `kill -- -{process}` ends it",
            self.plan.software.title
        ));
    }

    /// Leaves out the flags that the server knows only without `--no-`. Returns whether it has refused nothing else.
    fn drop_needless(&mut self, log: &Log) -> bool {
        let refused = log.refused_flags();
        if refused.is_empty() || !refused.iter().all(|flag| flag.starts_with("--no-")) {
            return false;
        }
        let Plan { software, interpreter, cache, command, .. } = &mut self.plan;
        let known = flags::learn(interpreter, software, cache.as_deref()).unwrap_or_default();
        if !refused.iter().all(|flag| flags::is_needless(flag, &known)) {
            return false;
        }
        let before = command.words.len();
        command.words.retain(|word| !refused.contains(word));
        command.words.len() < before
    }

    /// Waits until the server answers.
    fn until_ready(&self, log: &Log) -> Result<Report, NotReady> {
        let Plan { software, interpreter, address, key, start_timeout, .. } = &self.plan;
        let title = software.title;
        let begun = Instant::now();
        let (mut next_report, mut reported) = (begun, None);
        loop {
            match self.inbox.recv_timeout(POLL) {
                Ok(Message::Ended(status)) => return Err(NotReady::Ended(status)),
                Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => return Err(NotReady::Stopped),
                Err(RecvTimeoutError::Timeout) => {}
            }
            match probe::report(address, key) {
                Ok(None) => {}
                Ok(Some(report)) => return Ok(report),
                Err(Refused) => {
                    let message = format!("{title} {} refuses the key of this run", interpreter.version);
                    return Err(NotReady::TimedOut(log.explain(software, message)));
                }
            }
            if begun.elapsed() > *start_timeout {
                let message = format!(
                    "{title} {} was not ready within {} s and has written nothing for {} s",
                    interpreter.version,
                    start_timeout.as_secs_f64(),
                    log.silence()
                );
                let error = log.explain(software, message);
                return Err(NotReady::TimedOut(error.hint("`start_timeout=<seconds>` gives it more time")));
            }
            if Instant::now() >= next_report {
                next_report = Instant::now() + REPORT;
                let line = log.last_line();
                if reported.as_ref() != Some(&line) {
                    let doing = line.as_ref().map_or_else(String::new, |line| format!(": {line}"));
                    self.client.stats().wait_for(Some(format!("Starting {title}{doing}")));
                    reported = Some(line);
                }
            }
        }
    }

    /// The error of a server that ended before it was ready.
    fn not_started(&self, status: Option<i32>, log: &Log) -> ModelError {
        let Plan { software, interpreter, given, cache, .. } = &self.plan;
        let refused = log.refused_flags();
        let Some(flag) = refused.first() else {
            let message = format!(
                "{} {} ended before it was ready ({})",
                software.title,
                interpreter.version,
                describe(status)
            );
            return log.explain(software, message);
        };
        let known = flags::learn(interpreter, software, cache.as_deref()).unwrap_or_default();
        flags::unknown(software, interpreter, flag, given, &known)
    }

    fn note_ready(&self, report: Report, has_run: bool) {
        let stats = self.client.stats();
        stats.wait_for(None);
        if has_run {
            stats.note(&format!("{} is ready again", self.plan.software.title));
            return;
        }
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        *waiting = waiting.saturating_sub(1);
        if *waiting == 0 {
            self.phase.send_if_modified(|phase| {
                let is_starting = matches!(phase, Phase::Starting);
                if is_starting {
                    *phase = Phase::Ready(report);
                }
                is_starting
            });
        }
    }

    /// Reports that the server has ended. Fails if it is not started again.
    fn note_end(&self, status: Option<i32>, restarts: u32, log: &Log) -> Result<(), ModelError> {
        let title = self.plan.software.title;
        let status = describe(status);
        if restarts > RESTARTS {
            let message = format!("{title} has ended {restarts} times, at last with {status}");
            return Err(log.explain(self.plan.software, message));
        }
        let path = self.plan.command.log.display();
        self.client.stats().warn(format!(
            "{title} ended ({status}) and is started again ({restarts} of {RESTARTS}). Its log is `{path}`"
        ));
        Ok(())
    }

    /// Forgets a server that stayed and has ended.
    fn forget(&mut self) {
        self.plan.kept = None;
        if let Some(record) = &self.plan.record {
            // Removes the record of a dead one.
            let _ = keep::find(record);
        }
    }

    /// Ends the server, unless it stays: one that is not usable does not.
    fn end(&mut self, process: &mut Process, is_useless: bool) {
        if matches!(process, Process::Kept { .. }) && !is_useless {
            return;
        }
        let log = Some(&self.plan.command.log).filter(|_| self.plan.has_temporary_log && !is_useless);
        if let Some(log) = log {
            // The server may still write to it.
            let _ = fs::remove_file(log);
        }
        process.ask_to_end();
        let mut is_killed = false;
        let deadline = Instant::now() + END;
        loop {
            match self.inbox.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(Message::Ended(_)) | Err(RecvTimeoutError::Disconnected) => break,
                Ok(Message::Stop) => {}
                Err(RecvTimeoutError::Timeout) if is_killed => break,
                Err(RecvTimeoutError::Timeout) => {
                    process.kill();
                    is_killed = true;
                    // The guard needs a moment.
                    if let Ok(Message::Ended(_)) = self.inbox.recv_timeout(END) {
                        break;
                    }
                }
            }
        }
        self.forget();
    }
}

/// What ended first.
enum Ending {
    /// The server, with its exit status; a guard that was killed reports none.
    Server(Option<i32>),
    Run,
}

/// Whether a process was killed by somebody else than itself.
fn is_kill(status: Option<i32>) -> bool {
    // SIGKILL and SIGTERM; a guard that was killed reports no status.
    matches!(status, None | Some(137 | 143))
}

/// An exit status in words.
fn describe(status: Option<i32>) -> String {
    match status {
        None => "killed".to_owned(),
        Some(status) if status > 128 => format!("killed by signal {}", status - 128),
        Some(status) => format!("exit status {status}"),
    }
}

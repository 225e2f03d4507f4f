//! The loop of a watcher: look, choose, evaluate, publish.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use lmeval_analysis::curve::{Curve, SUFFIX, Waiting};

use super::evaluate::{Conversion, Job};
use super::find::{Candidate, Finder, Kind, identity};
use super::publish::{Published, Publisher};
use super::revisions::Hub;
use super::store::Record;
use crate::commands::Status;
use crate::commands::curve::{FRONT, table};
use crate::printer::{Notes, Printer};
use crate::run::interrupt::{self, Stop};

/// Why complete checkpoints wait.
const COMPLETE: [&str; 3] = [SETTLING, NEXT, SHARED];
const SETTLING: &str = "its files may still change";
const NEXT: &str = "its turn comes";
const SHARED: &str = "another watcher evaluates it";

/// Where checkpoints come from.
pub(super) enum Source {
    Folder(Finder),
    Hub(Hub),
}

/// How long a watcher goes on.
#[derive(Clone, Copy, Debug)]
pub(super) enum Until {
    /// Until everything that is there is evaluated.
    Done,
    /// Until nothing has changed for this long.
    Idle(Duration),
    /// Until somebody stops it.
    Stopped,
}

/// Evaluates checkpoints as they appear.
pub(super) struct Watcher {
    /// The folder, or the model of the hub.
    pub model: String,
    /// The settings of evaluations, as JSON.
    pub settings: String,
    /// The model argument that names a checkpoint.
    pub argument: String,
    pub poll: Duration,
    pub settle: Duration,
    pub is_latest_first: bool,
    pub until: Until,
    /// The command that converts other formats, and whether copies stay.
    pub convert: Option<(String, bool)>,
    pub attempts: u32,
    pub source: Source,
    pub publisher: Publisher,
}

/// How watching ended.
pub(super) struct Ended {
    pub status: Status,
    pub curve: Curve,
}

/// What a watcher remembers between two looks.
#[derive(Default)]
struct Memory {
    /// When the files of a checkpoint were first seen as they are.
    since: HashMap<String, (String, Instant)>,
    /// How often the files of a checkpoint could not be evaluated.
    failed: HashMap<String, (String, u32)>,
    /// Checkpoints that were complete and are not evaluated: they may vanish.
    seen: BTreeMap<String, u64>,
    /// Checkpoints that vanished before they were evaluated.
    gone: BTreeMap<String, u64>,
    /// Results files at the last look.
    results: BTreeSet<PathBuf>,
    /// What was waiting at the last look.
    waiting: Vec<Waiting>,
    /// What was said before.
    told: BTreeSet<String>,
}

/// What a look has found.
struct Look {
    /// The next checkpoint to evaluate.
    next: Option<(Candidate, Vec<PathBuf>)>,
    waiting: Vec<Waiting>,
    /// Whether something is about to become ready: files that may still change, or an evaluation of another watcher.
    is_pending: bool,
    /// What there is, to notice changes.
    state: Vec<(String, String)>,
}

/// What is left to do with a complete checkpoint.
enum Open {
    Done,
    /// Another process evaluates it, or changes it.
    Wait,
    /// The results that an evaluation replaces.
    Evaluate(Vec<PathBuf>),
}

impl Watcher {
    /// Watches.
    pub(super) fn watch(&mut self, printer: &mut Printer) -> Result<Ended> {
        let (child, stops) = listen(printer.notes());
        let mut memory = Memory { seen: self.seen_before(), ..Memory::default() };
        let (mut last_state, mut last_change) = (Vec::new(), Instant::now());
        let mut published: Option<Published> = None;
        let mut status = Status::Success;
        loop {
            let look = match self.look(&mut memory, printer) {
                Ok(look) => look,
                // The hub may be back at the next look.
                Err(error) if matches!(self.source, Source::Hub(_)) && !matches!(self.until, Until::Done) => {
                    crate::report::failure(printer, &error);
                    Look { next: None, waiting: Vec::new(), is_pending: true, state: last_state.clone() }
                }
                Err(error) => return Err(error),
            };
            if look.state != last_state {
                (last_state, last_change) = (look.state.clone(), Instant::now());
            }
            let results = self.results();
            let is_new = published.is_none() || results != memory.results;
            if is_new || look.waiting != memory.waiting {
                (memory.results, memory.waiting) = (results, look.waiting.clone());
                let now = self.publisher.publish(look.waiting.clone(), true, printer)?;
                if is_new {
                    show(&now, printer)?;
                }
                let is_reached = !now.reached.is_empty();
                published = Some(now);
                if is_reached {
                    break;
                }
            }
            if stops.try_recv().is_ok() {
                status = Status::Interrupted;
                break;
            }
            if let Some((candidate, replaces)) = look.next {
                self.evaluate(&candidate, &replaces, &child, &mut memory, printer)?;
                last_change = Instant::now();
                continue;
            }
            let is_over = match self.until {
                Until::Done => !look.is_pending,
                Until::Idle(limit) => last_change.elapsed() >= limit && !look.is_pending,
                Until::Stopped => false,
            };
            if is_over {
                break;
            }
            match stops.recv_timeout(self.pause(look.is_pending)) {
                Ok(()) => {
                    status = Status::Interrupted;
                    break;
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
        }
        let look = self.look(&mut memory, printer);
        let waiting = look.map(|look| look.waiting).unwrap_or_default();
        let Published { curve, reached } = self.publisher.publish(waiting, false, printer)?;
        for (goal, reached) in self.publisher.goals.iter().zip(&reached) {
            printer.notes().note(&format!(
                "`{goal}` is reached at step {}: {:.4}, with {:.2} % confidence at least {:.4}",
                curve.steps[reached.step].step,
                reached.value,
                100.0 * reached.confidence,
                reached.bound
            ));
        }
        if let Some(tracking) = self.publisher.tracking.take() {
            tracking.finish(printer);
        }
        let has_failed =
            memory.failed.values().any(|(_, times)| *times >= self.attempts) || !memory.gone.is_empty();
        if status == Status::Success && has_failed {
            status = Status::Failure;
        }
        Ok(Ended { status, curve })
    }

    /// Checkpoints that an earlier watcher has seen complete and not evaluated: they may have vanished since.
    fn seen_before(&self) -> BTreeMap<String, u64> {
        let path = self.publisher.store.out.join(format!("{FRONT}{SUFFIX}"));
        let Ok(curve) = Curve::read(&path) else { return BTreeMap::new() };
        let complete =
            curve.waiting.into_iter().filter(|waiting| COMPLETE.contains(&waiting.reason.as_str()));
        complete.filter_map(|waiting| Some((waiting.checkpoint, waiting.step?))).collect()
    }

    /// How long to wait for the next look: less while files settle.
    fn pause(&self, is_pending: bool) -> Duration {
        let pause =
            if is_pending { self.poll.min(self.settle.max(Duration::from_millis(50))) } else { self.poll };
        pause.max(Duration::from_millis(10))
    }

    fn results(&self) -> BTreeSet<PathBuf> {
        let store = &self.publisher.store;
        store.records().iter().flat_map(|record| store.results(&record.name)).collect()
    }

    fn scan(&mut self) -> Result<Vec<Candidate>> {
        match &mut self.source {
            Source::Folder(finder) => Ok(finder.scan()),
            Source::Hub(hub) => hub.scan(),
        }
    }

    /// Looks at all checkpoints and chooses the next one.
    fn look(&mut self, memory: &mut Memory, printer: &Printer) -> Result<Look> {
        let candidates = self.scan()?;
        let records: Vec<Record> = self.publisher.store.records();
        let mut look = Look {
            next: None,
            waiting: Vec::new(),
            is_pending: false,
            state: candidates.iter().map(|found| (found.name.clone(), found.signature.clone())).collect(),
        };
        let mut ready: Vec<(u64, Candidate, Vec<PathBuf>)> = Vec::new();
        let names: BTreeSet<&str> = candidates.iter().map(|found| found.name.as_str()).collect();
        for (name, step) in std::mem::take(&mut memory.seen) {
            if !names.contains(name.as_str()) && !records.iter().any(|record| record.name == name) {
                printer.notes().warn(&format!("`{name}` vanished before it was evaluated"));
                memory.gone.insert(name, step);
            }
        }
        for found in candidates {
            let mut wait = |reason: &str| {
                let waiting =
                    Waiting { checkpoint: found.name.clone(), step: found.step, reason: reason.to_owned() };
                look.waiting.push(waiting);
            };
            if let Some(missing) = &found.missing {
                memory.since.remove(&found.name);
                wait(missing);
                continue;
            }
            let Some(step) = found.step else {
                wait("its step is unknown; `--step-pattern` finds it in the name");
                let text = format!(
                    "The step of `{}` is unknown, so it is not evaluated; `--step-pattern 'run7-(\\d+)'` finds it in the name",
                    found.name
                );
                if memory.told.insert(text.clone()) {
                    printer.notes().warn(&text);
                }
                continue;
            };
            memory.gone.remove(&found.name);
            let replaces = match self.open(&found, step, &records, memory, printer)? {
                Open::Evaluate(replaces) => replaces,
                Open::Done => continue,
                Open::Wait => {
                    wait(SHARED);
                    look.is_pending = true;
                    continue;
                }
            };
            if let Some((signature, times)) = memory.failed.get(&found.name)
                && *times >= self.attempts
                && *signature == found.signature
            {
                wait(&format!("its evaluation failed {times} times"));
                continue;
            }
            memory.seen.insert(found.name.clone(), step);
            let since = memory
                .since
                .entry(found.name.clone())
                .or_insert_with(|| (found.signature.clone(), Instant::now()));
            if since.0 != found.signature {
                *since = (found.signature.clone(), Instant::now());
            }
            // A commit does not change any more.
            if found.kind != Kind::Revision && since.1.elapsed() < self.settle {
                wait(SETTLING);
                look.is_pending = true;
                continue;
            }
            if self.publisher.store.is_claimed(&found.name) {
                wait(SHARED);
                look.is_pending = true;
                continue;
            }
            ready.push((step, found, replaces));
        }
        ready.sort_by(|left, right| {
            let order = (left.0, &left.1.name).cmp(&(right.0, &right.1.name));
            if self.is_latest_first { order.reverse() } else { order }
        });
        look.waiting.extend(ready.iter().map(|(step, found, _)| Waiting {
            checkpoint: found.name.clone(),
            step: Some(*step),
            reason: NEXT.to_owned(),
        }));
        look.waiting.extend(memory.gone.iter().map(|(name, step)| Waiting {
            checkpoint: name.clone(),
            step: Some(*step),
            reason: "it vanished before it was evaluated".to_owned(),
        }));
        look.next = ready.into_iter().next().map(|(_, found, replaces)| (found, replaces));
        Ok(look)
    }

    /// What is left to do with a complete checkpoint.
    fn open(
        &self,
        found: &Candidate,
        step: u64,
        records: &[Record],
        memory: &mut Memory,
        printer: &Printer,
    ) -> Result<Open> {
        let store = &self.publisher.store;
        let results = store.results(&found.name);
        let own = records.iter().find(|record| record.name == found.name);
        let has_results = |name: &str| !store.results(name).is_empty();
        let is_evaluated =
            |record: &Record| has_results(record.renamed_from.as_deref().unwrap_or(&record.name));
        if let Some(record) = own.filter(|record| is_evaluated(record)) {
            if record.signature == found.signature {
                return Ok(Open::Done);
            }
            // A file that is being replaced is looked at again.
            let Ok(identity) = identity(found) else { return Ok(Open::Wait) };
            if identity == record.identity {
                // Other files were added beside the weights, such as the state of the optimizer.
                store.save(&Record { signature: found.signature.clone(), ..record.clone() })?;
                return Ok(Open::Done);
            }
            let text = format!(
                "`{}` has other weights than when it was evaluated, so it is evaluated again",
                found.name
            );
            if memory.told.insert(text.clone()) {
                printer.notes().warn(&text);
            }
            return Ok(Open::Evaluate(results));
        }
        if own.is_none() && !results.is_empty() {
            // The record was lost with the machine, the results were not.
            let Ok(identity) = identity(found) else { return Ok(Open::Wait) };
            store.save(&self.record(found, step, identity))?;
            return Ok(Open::Done);
        }
        // One with the content of another checkpoint of this step is that one under another name, or a copy of it.
        let is_other = |record: &&Record| {
            found.kind != Kind::Revision
                && record.name != found.name
                && record.step == step
                && (has_results(&record.name) || store.is_claimed(&record.name))
        };
        if records.iter().any(|record| is_other(&record))
            && let Ok(identity) = identity(found)
            && let Some(same) = records.iter().filter(is_other).find(|record| record.identity == identity)
        {
            if !has_results(&same.name) {
                return Ok(Open::Wait);
            }
            printer.notes().info(&format!("`{}` is `{}` under another name", found.name, same.name));
            store.save(&Record {
                renamed_from: Some(same.name.clone()),
                ..self.record(found, step, identity)
            })?;
            return Ok(Open::Done);
        }
        Ok(Open::Evaluate(results))
    }

    fn record(&self, found: &Candidate, step: u64, identity: String) -> Record {
        let is_revision = found.kind == Kind::Revision;
        let path = std::path::absolute(&found.path).unwrap_or_else(|_| found.path.clone());
        Record {
            name: found.name.clone(),
            checkpoint: if is_revision {
                format!("{}@{}", self.model, found.path.display())
            } else {
                path.display().to_string()
            },
            path: (!is_revision).then_some(path),
            step,
            signature: found.signature.clone(),
            identity,
            renamed_from: None,
        }
    }

    /// Evaluates a checkpoint in a process of its own.
    fn evaluate(
        &self,
        found: &Candidate,
        replaces: &[PathBuf],
        child: &AtomicU32,
        memory: &mut Memory,
        printer: &mut Printer,
    ) -> Result<()> {
        let Some(step) = found.step else { return Ok(()) };
        let identity = match identity(found) {
            Ok(identity) => identity,
            Err(error) => {
                self.fail(found, &format!("cannot begin: {error}"), memory, printer);
                return Ok(());
            }
        };
        let record = self.record(found, step, identity);
        let store = &self.publisher.store;
        let path = record.path.as_ref().map_or_else(String::new, |path| path.display().to_string());
        let arguments = match found.kind {
            Kind::Revision => {
                vec![
                    (self.argument.clone(), self.model.clone()),
                    ("revision".to_owned(), found.path.display().to_string()),
                ]
            }
            _ => vec![(self.argument.clone(), path)],
        };
        let convert =
            self.convert.as_ref().filter(|_| found.kind == Kind::Foreign).map(|(command, keep)| Conversion {
                command: command.clone(),
                input: record.path.clone().unwrap_or_default(),
                keep: *keep,
            });
        printer.flush()?;
        printer.notes().info(&format!("Evaluating step {step}: {}", record.checkpoint));
        let job = Job {
            settings: self.settings.clone(),
            folder: store.folder(&found.name),
            record,
            arguments,
            replaces: replaces.to_vec(),
            convert,
        };
        let status = run(&job, child).context("Cannot start the evaluation")?;
        memory.since.remove(&found.name);
        let is_done = store.results(&found.name).iter().any(|results| !replaces.contains(results));
        if is_done {
            memory.seen.remove(&found.name);
            memory.failed.remove(&found.name);
        } else if status.has_failed {
            self.fail(found, &status.text, memory, printer);
        }
        Ok(())
    }

    /// Counts a failed attempt. A checkpoint that is gone or has changed is looked at again instead.
    fn fail(&self, found: &Candidate, how: &str, memory: &mut Memory, printer: &mut Printer) {
        if found.kind != Kind::Revision && !found.path.exists() {
            return;
        }
        let before = memory.failed.get(&found.name).filter(|(signature, _)| *signature == found.signature);
        let times = before.map_or(1, |(_, times)| times + 1);
        memory.failed.insert(found.name.clone(), (found.signature.clone(), times));
        printer.error(&format!(
            "The evaluation of `{}` {how} (attempt {times} of {})",
            found.name, self.attempts
        ));
    }
}

/// Shows the table of a terminal again.
fn show(published: &Published, printer: &mut Printer) -> Result<()> {
    if std::io::stdout().is_terminal() && !published.curve.steps.is_empty() {
        printer.table(&table(&published.curve))?;
        printer.flush()?;
    }
    Ok(())
}

/// How an evaluation ended.
struct Outcome {
    text: String,
    /// Whether it failed: it was neither interrupted nor did it give way to another watcher.
    has_failed: bool,
}

/// Runs a job to its end.
fn run(job: &Job, process: &AtomicU32) -> Result<Outcome> {
    let mut child: Child = Command::new(own_program()?)
        .arg("watch-checkpoint")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()?;
    process.store(child.id(), Ordering::SeqCst);
    if let Some(mut input) = child.stdin.take() {
        // A process that has ended says so below.
        let _ = input.write_all(&serde_json::to_vec(job)?);
    }
    let status = child.wait();
    process.store(0, Ordering::SeqCst);
    let status = status?;
    let text = match status.code() {
        Some(code) => format!("ended with status {code}"),
        None => format!("was ended: {status}"),
    };
    let has_failed =
        !matches!(status.code(), Some(code) if code == 0 || code == i32::from(interrupt::EXIT_STATUS));
    Ok(Outcome { text, has_failed })
}

/// This program. Its file may be replaced by a newer version while a watcher runs for weeks, and a job is for this one.
fn own_program() -> Result<PathBuf> {
    let running = PathBuf::from("/proc/self/exe");
    if cfg!(target_os = "linux") && running.exists() { Ok(running) } else { Ok(std::env::current_exe()?) }
}

/// Passes signals on: to the loop, and to the evaluation if only this process got them. The second one ends both.
fn listen(notes: Notes) -> (Arc<AtomicU32>, Receiver<()>) {
    let child = Arc::new(AtomicU32::new(0));
    let (sender, receiver) = mpsc::channel();
    let (process, times) = (Arc::clone(&child), AtomicU32::new(0));
    interrupt::on_stop(move |stop| {
        let id = process.load(Ordering::SeqCst);
        if stop == Stop::Terminated {
            terminate(id);
        }
        if times.fetch_add(1, Ordering::SeqCst) > 0 {
            notes.finish(interrupt::EXIT_STATUS);
            interrupt::exit_now();
        }
        if id == 0 {
            notes.info("Stopping");
        }
        // The loop ends without it when it is over.
        let _ = sender.send(());
    });
    (child, receiver)
}

#[cfg(unix)]
fn terminate(id: u32) {
    if let Some(process) = i32::try_from(id).ok().and_then(rustix::process::Pid::from_raw) {
        // It may have ended.
        let _ = rustix::process::kill_process(process, rustix::process::Signal::TERM);
    }
}

#[cfg(not(unix))]
fn terminate(_: u32) {}

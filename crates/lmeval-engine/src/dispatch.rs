//! Sends each distinct request once, unless the model wants every one, and saves answers before they are used.

use std::collections::VecDeque;
use std::collections::hash_map;
use std::sync::{Arc, PoisonError, mpsc};
use std::time::Duration;

use lmeval_core::{
    Answer, Arguments, Model, ModelError, ModelErrorKind, ModelRequest, ModelTraits, Progress, RequestType,
    secrets,
};
use lmeval_journal::{Entry, ErrorKind, Journal, Key, Outcome};
use rustc_hash::FxHashMap;
use tokio::sync::Mutex;
use tokio::sync::mpsc::{Receiver, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::debug;

use crate::attribution::{Assumed, Refutation, Registered, register};
use crate::cancel::Cancel;
use crate::collect::Message;
use crate::contact::{Needs, introduce};
use crate::error::EngineError;
use crate::event::{Event, Events, NoEvents};
use crate::key::Keys;
use crate::produce::{Job, Reply};
use crate::valid::{checked, is_valid, masked};

/// How often the beginnings of answers are saved that arrive piece by piece.
const SAVE_BEGUN: Duration = Duration::from_secs(5);

/// Requests in a batch that is kept together because of their context, at most.
const MAX_OF_CONTEXT: usize = 1024;

/// The state shared by all workers of a run.
pub(crate) struct Dispatcher {
    pub(crate) model: Arc<dyn Model>,
    pub(crate) journal: Option<Arc<Journal>>,
    /// Set while saved answers are used of a model that was not asked who it is.
    pub(crate) assumed: Option<Arc<Assumed>>,
    pub(crate) needs: Needs,
    pub(crate) keys: Keys,
    /// The role of a judge, whose answers are saved as those of one.
    pub(crate) judge: Option<Arc<str>>,
    pub(crate) events: Arc<dyn Events>,
    pub(crate) messages: mpsc::Sender<Message>,
    pub(crate) stop: Cancel,
    pub(crate) seen: std::sync::Mutex<FxHashMap<Key, Seen>>,
}

/// A request with the same key as an earlier one.
pub(crate) enum Seen {
    /// The earlier one is in flight; these wait for its answer.
    InFlight(Vec<Job>),
    /// The earlier one was answered.
    Answered(Answer),
}

impl Dispatcher {
    /// Sends requests until there are no more or the run is cancelled, then waits for those in flight.
    pub(crate) async fn run(self: Arc<Self>, jobs: Receiver<Vec<Job>>) {
        let ModelTraits { batch_size, batch_bytes, in_flight, fill_time, .. } = self.model.traits();
        let limit = BatchLimit { requests: batch_size.max(1), bytes: batch_bytes };
        let queue = Arc::new(Mutex::new(Queue { jobs, ready: VecDeque::new(), limit, fill_time }));
        let mut workers = JoinSet::new();
        for _ in 0..in_flight.max(1) {
            workers.spawn(Arc::clone(&self).work(Arc::clone(&queue)));
        }
        drop(queue);
        let mut is_ending = false;
        loop {
            tokio::select! {
                biased;
                () = self.stop.cancelled(), if !is_ending => {
                    is_ending = true;
                    // After a restart, the model is used again.
                    if !self.assumed.as_ref().is_some_and(|assumed| assumed.is_refuted()) {
                        self.model.wind_down();
                    }
                }
                ended = workers.join_next() => match ended {
                    Some(ended) => self.check(ended),
                    None => return,
                },
            }
        }
    }

    /// Answers one batch after another.
    async fn work(self: Arc<Self>, queue: Arc<Mutex<Queue>>) {
        loop {
            let next = async { queue.lock().await.next_batch(self.model.batches_contexts()).await };
            let batch = tokio::select! {
                biased;
                () = self.stop.cancelled() => return,
                batch = next => batch,
            };
            if batch.is_empty() {
                return;
            }
            self.answer(batch).await;
        }
    }

    /// Turns the panic of a model into an error.
    fn check(&self, ended: Result<(), tokio::task::JoinError>) {
        if let Err(error) = ended {
            let message = format!("The model panicked: {error}");
            self.end(self.fatal(ModelError::new(ModelErrorKind::Capability, message)));
        }
    }

    /// The error of a run whose model or judge cannot be used.
    fn fatal(&self, source: ModelError) -> EngineError {
        match &self.judge {
            Some(role) => EngineError::Judge { role: role.to_string(), source },
            None => source.into(),
        }
    }

    /// Stops the run with an error.
    fn end(&self, error: EngineError) {
        self.stop.cancel();
        // A receiver that is gone has already failed with an error.
        let _ = self.messages.send(Message::Stop(Box::new(error)));
    }

    /// Answers a batch: from the journal, from identical requests, or by the model.
    async fn answer(&self, batch: Vec<Job>) {
        if self.model.traits().is_lookup {
            return self.look_up(batch).await;
        }
        let shares = self.shares_answers();
        let count = batch.len();
        let mut unanswered = Vec::with_capacity(count);
        for job in batch {
            let key = self.keys.of(&job.request);
            if !shares {
                unanswered.push((key, job));
                continue;
            }
            let Some(job) = self.join_identical(key, job) else { continue };
            let found = self.saved(key, &job).and_then(|answer| match answer {
                Some(answer) => Ok(Some((job, answer))),
                None => {
                    unanswered.push((key, self.resuming(key, job)?));
                    Ok(None)
                }
            });
            match found {
                Ok(Some((job, answer))) => self.settle(key, job, Ok(answer), true),
                Ok(None) => {}
                Err(error) => return self.end(error.into()),
            }
        }
        debug!(requests = count, sent = unanswered.len(), judge = self.judge.as_deref(), "Batch");
        if unanswered.is_empty() || self.stop.is_cancelled() || !self.confirm_model().await {
            return;
        }
        self.send_to_model(unanswered).await;
    }

    /// Answers a batch by a model that looks answers up: nothing is saved and nothing is remembered, so no request needs a key.
    async fn look_up(&self, batch: Vec<Job>) {
        let requests = batch.iter().map(|job| job.request.clone()).collect();
        let mut answers = self.model.answer(requests).await.into_iter();
        let mut messages = Vec::with_capacity(batch.len());
        for job in batch {
            let answer = checked(&job.request, answers.next().unwrap_or_else(|| Err(no_answer())));
            // A run that is stopping loses no request for good.
            if !self.stop.is_cancelled() || answer.as_ref().err().is_none_or(ModelError::is_fatal) {
                messages.extend(self.outcome(job, answer, false));
            }
        }
        let _ = self.messages.send(Message::Several(messages));
    }

    /// Asks a model that was only assumed to be the one of the saved answers who it is. Returns whether it may get requests;
    /// if not, the run is ending.
    async fn confirm_model(&self) -> bool {
        let (Some(assumed), Some(journal)) = (&self.assumed, &self.journal) else { return true };
        let ask = async {
            let introduction = tokio::select! {
                biased;
                () = self.stop.cancelled() => return false,
                introduction = introduce(&*self.model, self.needs) => introduction,
            };
            let registered = introduction.map_err(|error| self.fatal(error)).and_then(|introduction| {
                if self.judge.is_some() {
                    let introduction = introduction.of_judge();
                    return Ok((register(journal, &introduction, self.needs, &NoEvents)?, introduction));
                }
                self.events.event(Event::Model(&introduction.identity));
                Ok((register(journal, &introduction, self.needs, &*self.events)?, introduction))
            });
            match registered {
                Ok((Registered { models, .. }, introduction)) => {
                    let is_same_model = models.model == self.keys.models.model;
                    let is_same_protocol = models.scoring == self.keys.models.scoring;
                    if is_same_model && (is_same_protocol || !self.needs.loglikelihoods) {
                        return true;
                    }
                    assumed.refute(Refutation { introduction, is_same_model });
                    self.stop.cancel();
                    false
                }
                Err(error) => {
                    self.end(error);
                    false
                }
            }
        };
        *assumed.is_confirmed.get_or_init(|| ask).await
    }

    /// Sends requests to the model. Each answer is saved and used on arrival, without waiting for the rest of the
    /// batch.
    async fn send_to_model(&self, unanswered: Vec<(Key, Job)>) {
        let requests = unanswered.iter().map(|(_, job)| job.request.clone()).collect();
        let streams = unanswered.iter().any(|(_, job)| job.request.progress.is_some());
        let mut open: Vec<Option<(Key, Job)>> = unanswered.into_iter().map(Some).collect();
        let (sender, mut answers) = unbounded_channel();
        // The receiver is dropped when an answer could not be saved.
        let sink = Box::new(move |index, answer| drop(sender.send((index, answer))));
        let mut due = Instant::now() + SAVE_BEGUN;
        let save = async {
            loop {
                tokio::select! {
                    answer = answers.recv() => {
                        let Some((index, answer)) = answer else { return Ok(()) };
                        let Some((key, job)) = open.get_mut(index).and_then(Option::take) else { continue };
                        self.save(key, job, answer).await?;
                    }
                    () = tokio::time::sleep_until(due), if streams => {
                        for (key, job) in open.iter().flatten() {
                            self.save_begun(*key, job).await?;
                        }
                        due = Instant::now() + SAVE_BEGUN;
                    }
                }
            }
        };
        let ((), saved) = tokio::join!(self.model.answer_each(requests, sink), save);
        if let Err(error) = saved {
            return self.end(EngineError::Journal(error));
        }
        for (key, job) in open.into_iter().flatten() {
            if let Err(error) = self.save(key, job, Err(no_answer())).await {
                return self.end(error.into());
            }
        }
    }

    /// The job, with the beginning of its answer if an earlier run was interrupted while it was generated. Only models that
    /// stream have use for it.
    fn resuming(&self, key: Key, mut job: Job) -> Result<Job, lmeval_journal::Error> {
        if let Some(journal) = &self.journal
            && self.model.traits().streams
            && job.request.request_type() == RequestType::GenerateUntil
        {
            let begun = journal.begun(&key, RequestType::GenerateUntil)?;
            job.request.progress = Some(Arc::new(Progress::resuming(begun)));
        }
        Ok(job)
    }

    /// Saves the beginning of an answer, if it has grown.
    async fn save_begun(&self, key: Key, job: &Job) -> Result<(), lmeval_journal::Error> {
        let begun = job.request.progress.as_ref().and_then(|progress| progress.take_new());
        let (Some(journal), Some(begun)) = (&self.journal, begun) else { return Ok(()) };
        let outcome = Outcome::Begun(masked(begun));
        journal.append(Entry { outcome, ..entry(key, job, &Err(no_answer())) }).await
    }

    /// Saves and reports an answer.
    async fn save(
        &self,
        key: Key,
        job: Job,
        answer: Result<Answer, ModelError>,
    ) -> Result<(), lmeval_journal::Error> {
        if self.stop.is_cancelled() && answer.as_ref().is_err_and(|error| !error.is_fatal()) {
            // Stopped before all its retries, so it has not failed permanently.
            return self.save_begun(key, &job).await;
        }
        let answer = checked(&job.request, answer).map(masked);
        let answer = match &self.journal {
            Some(journal) => append(journal, key, &job, answer).await?,
            None => answer,
        };
        if answer.is_err()
            && let Some(progress) = &job.request.progress
        {
            // The failure must not hide what was saved before it.
            progress.set(progress.begun());
            self.save_begun(key, &job).await?;
        }
        self.settle(key, job, answer, false);
        Ok(())
    }

    /// Whether equal requests share an answer. A journal always does that: whoever asks for one wants saved answers.
    fn shares_answers(&self) -> bool {
        self.journal.is_some() || !self.model.traits().wants_every_request
    }

    /// Answers a request from an identical one, or queues it after one in flight. Returns the job if its key is
    /// new.
    fn join_identical(&self, key: Key, job: Job) -> Option<Job> {
        let answer = {
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            match seen.entry(key) {
                hash_map::Entry::Vacant(entry) => {
                    entry.insert(Seen::InFlight(Vec::new()));
                    return Some(job);
                }
                hash_map::Entry::Occupied(mut entry) => match entry.get_mut() {
                    Seen::InFlight(waiting) => {
                        waiting.push(job);
                        return None;
                    }
                    Seen::Answered(answer) => answer.clone(),
                },
            }
        };
        self.report(job, Ok(answer), true);
        None
    }

    /// The saved answer to a request. One that earlier versions should not have accepted is asked for again.
    fn saved(&self, key: Key, job: &Job) -> Result<Option<Answer>, lmeval_journal::Error> {
        let Some(journal) = &self.journal else { return Ok(None) };
        let answer = journal.get(&key, job.request.request_type())?;
        Ok(answer.filter(|answer| is_valid(&job.request, answer)))
    }

    /// Reports an answer to all jobs with its key.
    fn settle(&self, key: Key, job: Job, answer: Result<Answer, ModelError>, reused: bool) {
        if !self.shares_answers() {
            return self.report(job, answer, reused);
        }
        let waiting = {
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            let before = match &answer {
                // The journal has it from now on.
                Ok(_) if self.journal.is_some() => seen.remove(&key),
                Ok(answer) => seen.insert(key, Seen::Answered(answer.clone())),
                Err(_) => seen.remove(&key),
            };
            match before {
                Some(Seen::InFlight(waiting)) => waiting,
                _ => Vec::new(),
            }
        };
        for other in waiting {
            self.report(other, answer.clone(), true);
        }
        self.report(job, answer, reused);
    }

    fn report(&self, job: Job, answer: Result<Answer, ModelError>, reused: bool) {
        if let Some(message) = self.outcome(job, answer, reused) {
            let _ = self.messages.send(message);
        }
    }

    /// Counts an answer. Returns the message for the collector; the answer to a scorer is sent to it.
    fn outcome(&self, job: Job, answer: Result<Answer, ModelError>, reused: bool) -> Option<Message> {
        match &answer {
            Ok(answer) => {
                let (kind, task) = (job.request.request_type(), &job.request.task_name);
                let (usage, finish, is_judge) = (answer.usage, answer.finish, self.judge.is_some());
                self.events.event(Event::Answered { task, kind, reused, usage, finish, is_judge });
            }
            Err(error) if error.is_fatal() => {
                self.end(self.fatal(error.clone()));
                return None;
            }
            Err(error) => self.events.event(Event::Failed { request: &job.request, error }),
        }
        match (job.reply, answer) {
            (Reply::Direct(index, reply), answer) => {
                // The scorer may have given up.
                let _ = reply.send((index, answer));
                None
            }
            (Reply::Slot(slot), Ok(answer)) => Some(Message::Answered { slot, answer }),
            (Reply::Slot(slot), Err(error)) => {
                Some(Message::Failed { slot, request: Box::new(job.request), error })
            }
        }
    }
}

fn no_answer() -> ModelError {
    ModelError::new(ModelErrorKind::Answer, "The model did not answer this request")
}

/// The size limits of a batch.
#[derive(Clone, Copy)]
struct BatchLimit {
    requests: usize,
    bytes: usize,
}

/// Requests waiting for the model.
struct Queue {
    jobs: Receiver<Vec<Job>>,
    ready: VecDeque<Job>,
    limit: BatchLimit,
    /// How long an incomplete batch waits for more requests.
    fill_time: Duration,
}

impl Queue {
    /// The next batch: full, or incomplete if no request arrives within the fill time. Empty when there are no
    /// more. With `keeps_contexts`, requests with the same context stay together even if the batch is full.
    async fn next_batch(&mut self, keeps_contexts: bool) -> Vec<Job> {
        let mut bytes = 0;
        let mut batch = Vec::new();
        while batch.len() < self.limit.requests {
            if let Some(job) = self.ready.front() {
                bytes += job.request.size();
                if bytes > self.limit.bytes && !batch.is_empty() {
                    break;
                }
                batch.extend(self.ready.pop_front());
                continue;
            }
            let more = self.jobs.recv();
            let more = if batch.is_empty() {
                more.await
            } else {
                tokio::time::timeout(self.fill_time, more).await.unwrap_or(None)
            };
            match more {
                Some(more) => self.ready.extend(more),
                None => break,
            }
        }
        // The requests of a document arrive together.
        while keeps_contexts
            && batch.len() < MAX_OF_CONTEXT
            && let (Some(last), Some(next)) = (batch.last(), self.ready.front())
            && have_one_context(&last.request, &next.request)
        {
            batch.extend(self.ready.pop_front());
        }
        batch
    }
}

fn have_one_context(one: &ModelRequest, other: &ModelRequest) -> bool {
    match (&one.arguments, &other.arguments) {
        (Arguments::Loglikelihood { context: one, .. }, Arguments::Loglikelihood { context: other, .. }) => {
            one == other
        }
        _ => false,
    }
}

/// Appends an answer to the journal. An answer too long for it becomes a failure of its request.
async fn append(
    journal: &Journal,
    key: Key,
    job: &Job,
    answer: Result<Answer, ModelError>,
) -> Result<Result<Answer, ModelError>, lmeval_journal::Error> {
    match journal.append(entry(key, job, &answer)).await {
        Err(error) if answer.is_ok() && matches!(error.kind(), ErrorKind::TooLarge { .. }) => {
            let answer = Err(ModelError::new(ModelErrorKind::Answer, error.to_string()));
            journal.append(entry(key, job, &answer)).await?;
            Ok(answer)
        }
        written => written.map(|()| answer),
    }
}

fn entry(key: Key, job: &Job, answer: &Result<Answer, ModelError>) -> Entry {
    let request = &job.request;
    Entry {
        key,
        task: Arc::clone(&request.task_name),
        doc_id: request.doc_id.0,
        idx: request.idx,
        repeat: request.repeat,
        kind: request.request_type(),
        outcome: match answer {
            Ok(answer) => Outcome::Answered(answer.clone()),
            Err(error) => Outcome::Failed { message: secrets::mask(&error.to_string()).into_owned() },
        },
    }
}

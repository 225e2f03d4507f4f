//! From requests to answers: each one once, kept before it counts.

use std::collections::VecDeque;
use std::collections::hash_map::Entry as Place;
use std::sync::{Arc, PoisonError, mpsc};
use std::time::Duration;

use lmeval_core::{Answer, Dispatch, Model, ModelError, ModelErrorKind};
use lmeval_journal::{Entry, ErrorKind, Journal, Key, Outcome};
use rustc_hash::FxHashMap;
use tokio::sync::Mutex;
use tokio::sync::mpsc::{Receiver, unbounded_channel};
use tokio::task::JoinSet;

use crate::cancel::Cancel;
use crate::collect::Message;
use crate::error::EngineError;
use crate::event::{Event, Events};
use crate::key::Keys;
use crate::produce::Job;

/// What all calls of a run share.
pub(crate) struct Dispatcher {
    pub(crate) model: Arc<dyn Model>,
    pub(crate) journal: Option<Arc<Journal>>,
    pub(crate) keys: Keys,
    pub(crate) events: Arc<dyn Events>,
    pub(crate) messages: mpsc::Sender<Message>,
    pub(crate) stop: Cancel,
    pub(crate) known: std::sync::Mutex<FxHashMap<Key, Known>>,
}

/// A request that was seen before.
pub(crate) enum Known {
    /// It is at the model; these wait for the same answer.
    Asked(Vec<Job>),
    /// It was answered.
    Answered(Answer),
}

impl Dispatcher {
    /// Sends requests until there are no more, or the run is to end; then waits for what is under way.
    pub(crate) async fn run(self: Arc<Self>, jobs: Receiver<Vec<Job>>) {
        let Dispatch { batch_size, in_flight } = self.model.dispatch();
        let full = Full { requests: batch_size.max(1), bytes: self.model.batch_bytes() };
        let fill_time = self.model.fill_time();
        let queue = Arc::new(Mutex::new(Queue { jobs, ready: VecDeque::new(), full, fill_time }));
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
                    self.model.wind_down();
                }
                ended = workers.join_next() => match ended {
                    Some(ended) => self.check(ended),
                    None => return,
                },
            }
        }
    }

    /// Takes requests and has them answered, one batch after the other.
    async fn work(self: Arc<Self>, queue: Arc<Mutex<Queue>>) {
        loop {
            let next = async { queue.lock().await.next_batch().await };
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

    /// A model that panics ends the run like any other failure.
    fn check(&self, ended: Result<(), tokio::task::JoinError>) {
        if let Err(error) = ended {
            let message = format!("The model failed in a way it should not: {error}");
            self.end(ModelError::new(ModelErrorKind::Capability, message).into());
        }
    }

    /// Ends the run.
    fn end(&self, error: EngineError) {
        self.stop.cancel();
        // Whoever listens no more has an error of its own.
        let _ = self.messages.send(Message::Stop(Box::new(error)));
    }

    /// Answers a batch: from the journal, from an identical request, or by the model.
    async fn answer(&self, batch: Vec<Job>) {
        let mut asked = Vec::with_capacity(batch.len());
        for job in batch {
            let key = self.keys.of(&job.request);
            let Some(job) = self.wait_for_equal(key, job) else { continue };
            match self.kept(key, &job) {
                Ok(Some(answer)) => self.settle(key, job, Ok(answer), true),
                Ok(None) => asked.push((key, job)),
                Err(error) => return self.end(error.into()),
            }
        }
        if asked.is_empty() || self.stop.is_cancelled() {
            return;
        }
        self.ask(asked).await;
    }

    /// Has requests answered by the model. Each answer is kept and counts when it comes, not when the last one is there.
    async fn ask(&self, asked: Vec<(Key, Job)>) {
        let requests = asked.iter().map(|(_, job)| job.request.clone()).collect();
        let mut open: Vec<Option<(Key, Job)>> = asked.into_iter().map(Some).collect();
        let (sender, mut answers) = unbounded_channel();
        // Nobody listens any more when an answer could not be kept.
        let sink = Box::new(move |place, answer| drop(sender.send((place, answer))));
        let keep = async {
            while let Some((place, answer)) = answers.recv().await {
                let Some((key, job)) = open.get_mut(place).and_then(Option::take) else { continue };
                self.keep(key, job, answer).await?;
            }
            Ok(())
        };
        let ((), kept) = tokio::join!(self.model.answer_each(requests, sink), keep);
        if let Err(error) = kept {
            return self.end(EngineError::Journal(error));
        }
        for (key, job) in open.into_iter().flatten() {
            let error = ModelError::new(ModelErrorKind::Answer, "The model gave no answer to this request");
            if let Err(error) = self.keep(key, job, Err(error)).await {
                return self.end(error.into());
            }
        }
    }

    /// Writes an answer down and reports it.
    async fn keep(
        &self,
        key: Key,
        job: Job,
        answer: Result<Answer, ModelError>,
    ) -> Result<(), lmeval_journal::Error> {
        if self.stop.is_cancelled() && answer.as_ref().is_err_and(|error| !error.is_fatal()) {
            // It was not tried as often as it should be, so it has not failed.
            return Ok(());
        }
        let answer = match &self.journal {
            Some(journal) => append(journal, key, &job, answer).await?,
            None => answer,
        };
        self.settle(key, job, answer, false);
        Ok(())
    }

    /// Answers a request that was seen before, or lets it wait; gives back one that is new.
    fn wait_for_equal(&self, key: Key, job: Job) -> Option<Job> {
        let answer = {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            match known.entry(key) {
                Place::Vacant(place) => {
                    place.insert(Known::Asked(Vec::new()));
                    return Some(job);
                }
                Place::Occupied(mut place) => match place.get_mut() {
                    Known::Asked(waiting) => {
                        waiting.push(job);
                        return None;
                    }
                    Known::Answered(answer) => answer.clone(),
                },
            }
        };
        self.report(job, Ok(answer), true);
        None
    }

    fn kept(&self, key: Key, job: &Job) -> Result<Option<Answer>, lmeval_journal::Error> {
        self.journal.as_ref().map_or(Ok(None), |journal| journal.get(&key, job.request.request_type()))
    }

    /// Reports an answer to everybody who waits for it.
    fn settle(&self, key: Key, job: Job, answer: Result<Answer, ModelError>, reused: bool) {
        let waiting = {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            let before = match &answer {
                // The journal knows it from now on.
                Ok(_) if self.journal.is_some() => known.remove(&key),
                Ok(answer) => known.insert(key, Known::Answered(answer.clone())),
                Err(_) => known.remove(&key),
            };
            match before {
                Some(Known::Asked(waiting)) => waiting,
                _ => Vec::new(),
            }
        };
        for other in waiting {
            self.report(other, answer.clone(), true);
        }
        self.report(job, answer, reused);
    }

    fn report(&self, job: Job, answer: Result<Answer, ModelError>, reused: bool) {
        let message = match answer {
            Ok(answer) => {
                let kind = job.request.request_type();
                self.events.event(Event::Answered { kind, reused, usage: answer.usage });
                Message::Answered { slot: job.slot, answer }
            }
            Err(error) if error.is_fatal() => return self.end(error.into()),
            Err(error) => {
                self.events.event(Event::Failed { request: &job.request, error: &error });
                Message::Failed { slot: job.slot, request: Box::new(job.request), error }
            }
        };
        let _ = self.messages.send(message);
    }
}

/// What makes a batch full: so many requests, or so much text.
#[derive(Clone, Copy)]
struct Full {
    requests: usize,
    bytes: usize,
}

/// Requests that wait for the model.
struct Queue {
    jobs: Receiver<Vec<Job>>,
    ready: VecDeque<Job>,
    full: Full,
    /// How long a batch waits for more requests before it is sent as it is.
    fill_time: Duration,
}

impl Queue {
    /// The next requests: as many as fit, at least one, fewer only when no more come for a while.
    async fn next_batch(&mut self) -> Vec<Job> {
        let mut bytes = 0;
        let mut batch = Vec::new();
        while batch.len() < self.full.requests {
            if let Some(job) = self.ready.front() {
                bytes += job.request.size();
                if bytes > self.full.bytes && !batch.is_empty() {
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
        batch
    }
}

/// Writes an answer to the journal. One that is too long for it is a failure of its request, and is written as that.
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
            Err(error) => Outcome::Failed { message: error.to_string() },
        },
    }
}

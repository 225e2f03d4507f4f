//! Builds requests ahead of the model.

use std::sync::Arc;
use std::sync::mpsc;

use lmeval_core::{Answer, Instance, ModelError, ModelRequest};
use lmeval_journal::Journal;
use lmeval_pycompat::Dict;
use lmeval_tasks::Task;
use lmeval_tasks::prompt::{DocumentRequests, RequestBuilder, RequestOptions};
use tokio::sync::mpsc::Sender;

use crate::backlog::Backlog;
use crate::cancel::Cancel;
use crate::collect::Message;
use crate::data::request_sources;
use crate::error::EngineError;
use crate::event::{Event, Events};
use crate::options::DataOptions;

/// How many tasks are loaded ahead of the one whose requests are being built. Errors in their data show early.
pub(crate) const TASKS_AHEAD: usize = 64;

/// How many documents of each task are reported as its first ones.
const FIRST_DOCUMENTS: usize = 3;

/// How many requests are sent to the dispatcher at once.
pub(crate) const JOBS_PER_SEND: usize = 64;

/// Identifies an answer: the indices of task, document and request, and the repeat.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    pub(crate) task: usize,
    pub(crate) document: usize,
    pub(crate) instance: usize,
    pub(crate) repeat: usize,
}

/// Where the answer to a request goes.
#[derive(Debug)]
pub(crate) enum Reply {
    /// To the collector, for a document.
    Slot(Slot),
    /// To a scorer that waits for it, with the index of its question.
    Direct(usize, mpsc::Sender<(usize, Result<Answer, ModelError>)>),
}

/// A request for the dispatcher.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) reply: Reply,
    pub(crate) request: ModelRequest,
}

/// A task whose data has been loaded.
pub(crate) struct Prepared {
    task_index: usize,
    builder: RequestBuilder,
}

/// Loads the data of all tasks in order.
pub(crate) fn prepare(
    tasks: &[(Arc<Task>, RequestOptions)],
    data: &DataOptions,
    events: &dyn Events,
    prepared: &mpsc::SyncSender<Prepared>,
    messages: &mpsc::Sender<Message>,
) {
    for (task_index, (task, options)) in tasks.iter().enumerate() {
        let builder = EngineError::guard(
            || format!("Loading the data of `{}`", task.name()),
            || {
                request_sources(task, data)
                    .and_then(|sources| Ok(RequestBuilder::new(task, &sources, options)?))
            },
        );
        let sent = match builder {
            Ok(builder) => {
                for missing in builder.missing_columns() {
                    events.event(Event::MissingColumn { task, missing });
                }
                events.event(Event::Prepared { task, documents: builder.remaining() });
                prepared.send(Prepared { task_index, builder }).is_ok()
            }
            Err(error) => {
                // A receiver that is gone has already failed with an error.
                let _ = messages.send(Message::Stop(Box::new(error)));
                false
            }
        };
        if !sent {
            return;
        }
    }
}

/// Builds the requests of all prepared tasks and sends them, until the dispatcher stops.
pub(crate) fn produce(
    tasks: &[(Arc<Task>, RequestOptions)],
    prepared: &mpsc::Receiver<Prepared>,
    events: &dyn Events,
    jobs: &Sender<Vec<Job>>,
    messages: &mpsc::Sender<Message>,
    (backlog, stop): (&Backlog, &Cancel),
    journal: Option<&Journal>,
) {
    let mut done = 0;
    let mut batcher =
        JobBatcher { jobs, messages, documents: Vec::new(), buffered: Vec::new(), threshold: 1 };
    for Prepared { task_index, mut builder } in prepared {
        let task = &tasks[task_index].0;
        let original = builder.document_count();
        let _ = messages.send(Message::Started { task: task_index, original });
        let mut documents = 0;
        loop {
            let built = EngineError::guard(
                || format!("Building the requests of `{}`", task.name()),
                || builder.next().transpose().map_err(EngineError::from),
            );
            let requests = match built {
                Ok(Some(requests)) => requests,
                Ok(None) => break,
                Err(error) => {
                    // Sent even if the run is already ending, because this may be the cause.
                    let _ = messages.send(Message::Stop(Box::new(error)));
                    return;
                }
            };
            if stop.is_cancelled() {
                return;
            }
            if requests.instances.is_empty() {
                events.event(Event::Skipped { task, requests: &requests });
                continue;
            }
            if documents < FIRST_DOCUMENTS {
                events.event(Event::FirstDocument { task, requests: &requests });
            }
            let document = (task_index, documents);
            events.event(Event::DocumentBuilt { requests: &requests });
            if !send_document(document, requests, events, &mut batcher, (backlog, stop)) {
                return;
            }
            documents += 1;
        }
        let digest: Option<Arc<str>> = builder.digest().map(Arc::from);
        if let Some(error) = digest.as_deref().and_then(|digest| {
            let subject = subject(task, &tasks[task_index].1);
            match journal?.register_data(&subject, digest) {
                Ok(None) => None,
                Ok(Some(_)) => {
                    events.event(Event::DataChanged { task });
                    None
                }
                Err(error) => Some(error),
            }
        }) {
            let _ = messages.send(Message::Stop(Box::new(error.into())));
            return;
        }
        let conversations = builder.conversations();
        let of_part = builder.first_requests().zip(digest.as_deref());
        let of_part = of_part.map(|(requests, data)| Arc::from(format!("{data} {requests}")));
        batcher.documents.push(Message::Built { task: task_index, digest, of_part, conversations });
        done += 1;
    }
    batcher.send();
    if done == tasks.len() {
        events.event(Event::AllBuilt);
    }
}

/// A task with everything that decides which documents and examples its requests are built from.
fn subject(task: &Task, options: &RequestOptions) -> String {
    let RequestOptions { limit, samples, fewshot_seed, .. } = options;
    let examples = task.config.fewshot_count();
    format!("{} {limit:?} {samples:?} {examples} {fewshot_seed:?}", task.name())
}

/// Sends the requests of a document. Returns false if the run is ending.
fn send_document(
    (task, document): (usize, usize),
    requests: DocumentRequests,
    events: &dyn Events,
    batcher: &mut JobBatcher<'_>,
    (backlog, stop): (&Backlog, &Cancel),
) -> bool {
    let mut new_jobs = Vec::new();
    for (instance, request) in requests.instances.iter().enumerate() {
        events.event(Event::Built { kind: request.request_type, count: request.repeats });
        new_jobs.extend((0..request.repeats).map(|repeat| {
            let slot = Slot { task, document, instance, repeat };
            Job { reply: Reply::Slot(slot), request: model_request(request, repeat, &requests.document) }
        }));
    }
    // Documents in the batch take room that only the collector frees.
    if backlog.is_full() && !batcher.send() {
        return false;
    }
    backlog.enter_when_free(stop)
        && batcher.add(Message::Document { task, requests: Box::new(requests) }, new_jobs)
}

/// Sends requests to the dispatcher in batches, because waking a thread costs more than building a request. The
/// first batches are small, so that the model starts at once.
struct JobBatcher<'a> {
    jobs: &'a Sender<Vec<Job>>,
    messages: &'a mpsc::Sender<Message>,
    /// The documents of the requests.
    documents: Vec<Message>,
    buffered: Vec<Job>,
    /// The number of requests that triggers a send.
    threshold: usize,
}

impl JobBatcher<'_> {
    /// Adds a document and its requests. Returns false if the run is ending.
    fn add(&mut self, document: Message, mut new_jobs: Vec<Job>) -> bool {
        self.documents.push(document);
        self.buffered.append(&mut new_jobs);
        self.buffered.len() < self.threshold || self.send()
    }

    fn send(&mut self) -> bool {
        self.threshold = (2 * self.threshold).min(JOBS_PER_SEND);
        // The collector must know a document before its first answer arrives.
        let documents = std::mem::take(&mut self.documents);
        (documents.is_empty() || self.messages.send(Message::Several(documents)).is_ok())
            && (self.buffered.is_empty()
                || self.jobs.blocking_send(std::mem::take(&mut self.buffered)).is_ok())
    }
}

fn model_request(instance: &Instance, repeat: usize, document: &Arc<Dict>) -> ModelRequest {
    ModelRequest {
        task_name: Arc::clone(&instance.task_name),
        doc_id: instance.doc_id,
        idx: instance.idx,
        repeat,
        arguments: instance.arguments.clone(),
        additional_args: instance.additional_args.clone(),
        document: Some(Arc::clone(document)),
        progress: None,
    }
}

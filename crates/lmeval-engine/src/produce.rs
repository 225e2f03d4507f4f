//! From documents to requests, ahead of the model.

use std::sync::Arc;
use std::sync::mpsc;

use lmeval_core::{Instance, ModelRequest};
use lmeval_tasks::Task;
use lmeval_tasks::prompt::{DocumentRequests, RequestBuilder, RequestOptions};
use tokio::sync::mpsc::Sender;

use crate::backlog::{Backlog, MOST_WAITING};
use crate::cancel::Cancel;
use crate::collect::Message;
use crate::data::request_sources;
use crate::event::{Event, Events};
use crate::options::DataOptions;

/// How many tasks are prepared ahead of the one whose requests are built: what is wrong with their data shows early.
pub(crate) const TASKS_AHEAD: usize = 64;

/// How many requests are handed to the model's side at once.
pub(crate) const HANDED_OVER: usize = 64;

/// Where an answer belongs: task, document and request by their places, and the repeat.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    pub(crate) task: usize,
    pub(crate) document: usize,
    pub(crate) instance: usize,
    pub(crate) repeat: usize,
}

/// A request on its way.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) slot: Slot,
    pub(crate) request: ModelRequest,
}

/// A task whose requests can be built.
pub(crate) struct Prepared {
    place: usize,
    builder: RequestBuilder,
}

/// Loads the data of all tasks, one after the other.
pub(crate) fn prepare(
    tasks: &[(Arc<Task>, RequestOptions)],
    data: &DataOptions,
    events: &dyn Events,
    prepared: &mpsc::SyncSender<Prepared>,
    messages: &mpsc::Sender<Message>,
) {
    for (place, (task, options)) in tasks.iter().enumerate() {
        let builder =
            request_sources(task, data).and_then(|sources| Ok(RequestBuilder::new(task, &sources, options)?));
        let sent = match builder {
            Ok(builder) => {
                for missing in builder.missing_columns() {
                    events.event(Event::MissingColumn { task, missing });
                }
                events.event(Event::Prepared { task, documents: builder.remaining() });
                prepared.send(Prepared { place, builder }).is_ok()
            }
            Err(error) => {
                // Whoever listens no more has an error of its own.
                let _ = messages.send(Message::Stop(Box::new(error)));
                false
            }
        };
        if !sent {
            return;
        }
    }
}

/// Builds the requests of all prepared tasks and hands them on, until the model's side ends.
pub(crate) fn produce(
    tasks: &[(Arc<Task>, RequestOptions)],
    prepared: &mpsc::Receiver<Prepared>,
    events: &dyn Events,
    jobs: &Sender<Vec<Job>>,
    messages: &mpsc::Sender<Message>,
    (backlog, stop): (&Backlog, &Cancel),
) {
    let mut done = 0;
    let mut ready = Ready { jobs, held: Vec::new(), most: 1 };
    for Prepared { place, builder } in prepared {
        let task = &tasks[place].0;
        let original = builder.document_count();
        let _ = messages.send(Message::Started { task: place, original });
        let mut documents = 0;
        for built in builder {
            let requests = match built {
                Ok(requests) => requests,
                Err(error) => {
                    // Of a run that ends already, this may be the cause.
                    let _ = messages.send(Message::Stop(Box::new(error.into())));
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
            if documents == 0 {
                events.event(Event::FirstDocument { task, requests: &requests });
            }
            if !hand_on(place, documents, requests, events, &mut ready, messages, (backlog, stop)) {
                return;
            }
            documents += 1;
        }
        let _ = messages.send(Message::Built { task: place });
        done += 1;
    }
    ready.send();
    if done == tasks.len() {
        events.event(Event::AllBuilt);
    }
}

/// Hands the requests of a document on. Returns whether anybody takes them.
fn hand_on(
    task: usize,
    document: usize,
    requests: DocumentRequests,
    events: &dyn Events,
    ready: &mut Ready<'_>,
    messages: &mpsc::Sender<Message>,
    (backlog, stop): (&Backlog, &Cancel),
) -> bool {
    let mut made = Vec::new();
    for (instance, asked) in requests.instances.iter().enumerate() {
        events.event(Event::Built { kind: asked.request_type, count: asked.repeats });
        made.extend((0..asked.repeats).map(|repeat| {
            let slot = Slot { task, document, instance, repeat };
            Job { slot, request: model_request(asked, repeat) }
        }));
    }
    if !backlog.enter_when_free(MOST_WAITING, stop) {
        return false;
    }
    // The document must be known before its first answer comes.
    if messages.send(Message::Document { task, requests: Box::new(requests) }).is_err() {
        return false;
    }
    ready.take(made)
}

/// Requests on their way to the model, handed over many at a time: waking a thread costs more than building a request.
/// The first ones go alone, so that the model begins at once.
struct Ready<'a> {
    jobs: &'a Sender<Vec<Job>>,
    held: Vec<Job>,
    /// How many are held at most.
    most: usize,
}

impl Ready<'_> {
    /// Takes requests. Returns whether anybody wants more.
    fn take(&mut self, mut made: Vec<Job>) -> bool {
        self.held.append(&mut made);
        self.held.len() < self.most || self.send()
    }

    fn send(&mut self) -> bool {
        self.most = (2 * self.most).min(HANDED_OVER);
        self.held.is_empty() || self.jobs.blocking_send(std::mem::take(&mut self.held)).is_ok()
    }
}

fn model_request(instance: &Instance, repeat: usize) -> ModelRequest {
    ModelRequest {
        task_name: Arc::clone(&instance.task_name),
        doc_id: instance.doc_id,
        idx: instance.idx,
        repeat,
        arguments: instance.arguments.clone(),
        additional_args: instance.additional_args.clone(),
    }
}

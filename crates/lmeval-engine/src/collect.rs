//! Collects answers and sends documents to scoring.

use std::collections::VecDeque;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use lmeval_core::{Answer, Context, ModelError, ModelRequest, Usage};
use lmeval_scoring::scorers::{AnsweredDocument, AnsweredInstance, Needs};
use lmeval_tasks::prompt::DocumentRequests;

use crate::backlog::Backlog;
use crate::error::EngineError;
use crate::event::DocumentCounts;
use crate::judge_documents::{Judging, TaskJudges};
use crate::options::EvaluateOptions;
use crate::plan::PlannedTask;
use crate::preview::PreviewSender;
use crate::produce::Slot;
use crate::score::{FirstError, Work};
use crate::targets::Targets;

/// Messages to the collector.
#[derive(Debug)]
pub(crate) enum Message {
    /// Request building of a task has started; its split has `original` documents.
    Started { task: usize, original: usize },
    /// A document with its requests. Documents of a task arrive in order and are numbered from 0.
    Document { task: usize, requests: Box<DocumentRequests> },
    /// All documents of a task have been sent.
    Built { task: usize, digest: Option<Arc<str>>, of_part: Option<Arc<str>>, conversations: Option<u128> },
    /// A request was answered.
    Answered { slot: Slot, answer: Answer },
    /// A request failed permanently.
    Failed { slot: Slot, request: Box<ModelRequest>, error: ModelError },
    /// Several messages, in order: waking a thread costs more than handling one.
    Several(Vec<Message>),
    /// The run must end with this error.
    Stop(Box<EngineError>),
}

/// A request that failed permanently.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The failed request, with task and document.
    pub request: ModelRequest,
    /// The last error of the model.
    pub error: ModelError,
}

/// A document with requests in flight.
struct Pending {
    requests: DocumentRequests,
    /// The answers to each request in order, with the repeats of a request next to each other.
    answers: Vec<Option<Answer>>,
    missing: usize,
    failed: bool,
}

impl Pending {
    fn new(requests: DocumentRequests) -> Self {
        let missing = requests.instances.iter().map(|instance| instance.repeats).sum();
        Self { requests, answers: vec![None; missing], missing, failed: false }
    }

    /// Stores an answer.
    fn set(&mut self, slot: Slot, answer: Answer) {
        let before: usize =
            self.requests.instances[..slot.instance].iter().map(|instance| instance.repeats).sum();
        self.answers[before + slot.repeat] = Some(answer);
    }

    /// The document with the answers of the repeats that are complete, when that of `slot` is and others are not.
    fn so_far(&self, slot: Slot) -> Option<AnsweredDocument> {
        let instances = &self.requests.instances;
        if self.failed || instances.iter().any(|instance| instance.repeats != instances[0].repeats) {
            return None;
        }
        let repeats = instances.first()?.repeats;
        let of_repeat = |repeat: usize| self.answers[repeat..].iter().step_by(repeats.max(1));
        let is_complete = |repeat: &usize| of_repeat(*repeat).all(Option::is_some);
        if !is_complete(&slot.repeat) {
            return None;
        }
        let complete: Vec<usize> = (0..repeats).filter(is_complete).collect();
        let answered = instances.iter().enumerate().map(|(index, instance)| {
            let own = complete.iter().filter_map(|repeat| self.answers[index * repeats + repeat].clone());
            AnsweredInstance::of(instance.clone(), &own.collect::<Vec<_>>())
        });
        Some(AnsweredDocument {
            doc_id: self.requests.doc_id,
            document: Arc::clone(&self.requests.document),
            choices: self.requests.choices.clone(),
            answers: answered.collect(),
            judgements: Vec::new(),
        })
    }

    /// The document with its answers, or `None` if a request failed.
    fn finish(self) -> Option<AnsweredDocument> {
        if self.failed {
            return None;
        }
        let mut answers = self.answers.into_iter().flatten();
        let answered = self.requests.instances.into_iter().map(|instance| {
            let own: Vec<Answer> = answers.by_ref().take(instance.repeats).collect();
            AnsweredInstance::of(instance, &own)
        });
        Some(AnsweredDocument {
            doc_id: self.requests.doc_id,
            document: self.requests.document,
            choices: self.requests.choices,
            answers: answered.collect(),
            judgements: Vec::new(),
        })
    }
}

/// A document of a task. A run holds many of these, so each is small.
enum Document {
    Pending(Box<Pending>),
    /// Answered, and waiting for judges.
    Judging(Box<Judging>),
    Answered(Box<AnsweredDocument>),
    Failed,
}

/// How many documents are scored together when a task allows scoring in blocks.
pub(crate) const BLOCK: usize = 1024;

/// The collection state of a task.
struct Progress {
    targets: Targets,
    /// The parts of documents that scoring reads.
    needs: Needs,
    /// Whether documents are scored and dropped before all of them are answered.
    scores_in_blocks: bool,
    runs_code: bool,
    original: usize,
    /// The number of documents sent to scoring; `documents` holds those after them.
    sent: usize,
    documents: VecDeque<Document>,
    /// The number of documents at the front that have all their answers.
    ready: usize,
    /// Whether the first answered document was sent to be checked.
    is_checked: bool,
    /// The number of documents with requests in flight.
    open: usize,
    all_built: bool,
    digest: Option<Arc<str>>,
    /// What all parts of the run have in common.
    of_part: Option<Arc<str>>,
    conversations: Option<u128>,
    is_complete: bool,
}

impl Progress {
    fn new(planned: &PlannedTask) -> Self {
        Self {
            targets: Targets::new(&planned.key, &planned.scorer),
            needs: planned.scorer.needs(),
            scores_in_blocks: planned.scores_in_blocks(),
            runs_code: planned.task.config.unsafe_code,
            original: 0,
            sent: 0,
            documents: VecDeque::new(),
            ready: 0,
            is_checked: false,
            open: 0,
            all_built: false,
            digest: None,
            of_part: None,
            conversations: None,
            is_complete: false,
        }
    }

    /// Removes documents from the front and returns those that did not fail.
    fn take_front(&mut self, count: usize) -> Vec<AnsweredDocument> {
        self.sent += count;
        self.ready = self.ready.saturating_sub(count);
        let front = self.documents.drain(..count).filter_map(|document| match document {
            Document::Answered(answered) => Some(*answered),
            Document::Pending(_) | Document::Judging(_) | Document::Failed => None,
        });
        front.collect()
    }
}

/// The counts and failures after the last message.
pub(crate) struct Collected {
    pub(crate) failures: Vec<Failure>,
    pub(crate) answered: usize,
    pub(crate) usage: ModelUsage,
    /// The digests of each task's data and conversations.
    pub(crate) digests: Vec<(Option<Arc<str>>, Option<u128>)>,
}

/// The tokens of the evaluated model's answers, including those that were saved before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModelUsage {
    /// The number of answers.
    pub answers: usize,
    /// Answers whose tokens the model did not report.
    pub uncounted: usize,
    /// The tokens of the others.
    pub tokens: Usage,
}

impl ModelUsage {
    fn add(&mut self, usage: Usage) {
        self.answers += 1;
        self.uncounted += usize::from(usage == Usage::default());
        self.tokens.prompt_tokens += usage.prompt_tokens;
        self.tokens.completion_tokens += usage.completion_tokens;
    }
}

/// Assigns answers to documents and sends documents to scoring.
pub(crate) struct Collector<'a> {
    options: &'a EvaluateOptions,
    first_error: &'a FirstError<'a>,
    backlog: &'a Backlog,
    work: mpsc::Sender<Work>,
    tasks: Vec<Progress>,
    failures: Vec<Failure>,
    answered: usize,
    usage: ModelUsage,
    /// Replaces prompts that were dropped.
    empty: Arc<str>,
    preview: Option<PreviewSender<'a>>,
    judges: TaskJudges,
}

impl<'a> Collector<'a> {
    pub(crate) fn new(
        planned: &[PlannedTask],
        options: &'a EvaluateOptions,
        first_error: &'a FirstError<'a>,
        backlog: &'a Backlog,
        work: mpsc::Sender<Work>,
        preview: Option<PreviewSender<'a>>,
        judges: TaskJudges,
    ) -> Self {
        let tasks = planned.iter().map(Progress::new).collect();
        let empty = Arc::from("");
        Self {
            options,
            first_error,
            backlog,
            work,
            tasks,
            failures: Vec::new(),
            answered: 0,
            usage: ModelUsage::default(),
            empty,
            preview,
            judges,
        }
    }

    /// Processes messages until all senders are gone.
    pub(crate) fn run(mut self, messages: &mpsc::Receiver<Message>) -> Collected {
        while let Some(message) = next(messages) {
            self.take(message);
            // Judges wait for questions as long as there may be some, so their dispatchers never end by themselves.
            if !self.judges.is_empty() && self.tasks.iter().all(|task| task.is_complete) {
                break;
            }
        }
        let digests = self.tasks.into_iter().map(|task| (task.digest, task.conversations)).collect();
        Collected { failures: self.failures, answered: self.answered, usage: self.usage, digests }
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Started { task, original } => self.tasks[task].original = original,
            Message::Document { task, mut requests } => {
                self.backlog.leave(1);
                let task = &mut self.tasks[task];
                if let Err(error) = task.targets.check(&requests) {
                    self.first_error.fail(error);
                }
                if !self.options.log_samples && !task.needs.prompts {
                    drop_prompts(&mut requests, &self.empty);
                }
                requests.instances.shrink_to_fit();
                task.documents.push_back(Document::Pending(Box::new(Pending::new(*requests))));
                task.open += 1;
            }
            Message::Built { task, digest, of_part, conversations } => {
                self.tasks[task].all_built = true;
                self.tasks[task].of_part = of_part;
                (self.tasks[task].digest, self.tasks[task].conversations) = (digest, conversations);
                self.send_remaining(task);
            }
            Message::Answered { slot, mut answer } => {
                self.answered += 1;
                if !self.options.log_samples {
                    answer.trace = None;
                }
                self.settle(slot, Some(answer));
            }
            Message::Failed { slot, request, error } => {
                self.failures.push(Failure { request: *request, error });
                self.settle(slot, None);
                self.check_failures();
            }
            Message::Several(messages) => messages.into_iter().for_each(|message| self.take(message)),
            Message::Stop(error) => self.first_error.fail(*error),
        }
    }

    /// Records the outcome of a request.
    fn settle(&mut self, slot: Slot, answer: Option<Answer>) {
        let task = &mut self.tasks[slot.task];
        let document = &mut task.documents[slot.document - task.sent];
        let pending = match document {
            Document::Pending(pending) => pending,
            Document::Judging(_) => return self.judged(slot, answer.as_ref()),
            Document::Answered(_) | Document::Failed => return,
        };
        match answer {
            Some(answer) => {
                self.usage.add(answer.usage);
                pending.set(slot, answer);
            }
            None => pending.failed = true,
        }
        pending.missing -= 1;
        if pending.missing > 0 {
            if let Some(preview) = &self.preview {
                preview.repeated(slot.task, || pending.so_far(slot));
            }
            return;
        }
        if let Document::Pending(pending) = std::mem::replace(document, Document::Failed)
            && let Some(answered) = pending.finish()
        {
            *document = match self.judges.start(slot, answered) {
                Ok(Judging { open: 0, answered, .. }) => Document::Answered(answered),
                Ok(judging) => {
                    self.backlog.enter(1);
                    *document = Document::Judging(Box::new(judging));
                    return;
                }
                Err(error) => return self.first_error.fail(error),
            };
        }
        self.finished(slot);
    }

    /// Records the outcome of a request to a judge.
    fn judged(&mut self, slot: Slot, answer: Option<&Answer>) {
        let task = &mut self.tasks[slot.task];
        let document = &mut task.documents[slot.document - task.sent];
        let Document::Judging(judging) = document else { return };
        if let Err(error) = self.judges.settle(judging, slot, answer) {
            return self.first_error.fail(error);
        }
        if judging.open > 0 {
            return;
        }
        if let Document::Judging(judging) = std::mem::replace(document, Document::Failed) {
            *document = Document::Answered(Box::new(judging.finish()));
        }
        self.backlog.leave(1);
        self.finished(slot);
    }

    /// Sends a document that needs nothing more on its way.
    fn finished(&mut self, slot: Slot) {
        let task = &mut self.tasks[slot.task];
        task.open -= 1;
        if let Some(preview) = &self.preview {
            let document = &task.documents[slot.document - task.sent];
            let answered = if let Document::Answered(answered) = document { Some(&**answered) } else { None };
            preview.settled(slot.task, answered);
        }
        self.check_first(slot);
        self.send_ready_block(slot.task);
        self.send_remaining(slot.task);
    }

    /// Sends the first answered document to be checked while others are in flight, so that errors in scoring show
    /// early.
    fn check_first(&mut self, slot: Slot) {
        let task = &mut self.tasks[slot.task];
        // Programs run while scoring are counted, and a check would run some before the count starts.
        if task.is_checked || task.runs_code {
            return;
        }
        if let Document::Answered(first) = &task.documents[slot.document - task.sent] {
            let document = first.clone();
            task.is_checked = true;
            self.send(Work::First { task: slot.task, document });
        }
    }

    fn check_failures(&mut self) {
        if self.options.max_failures.is_some_and(|most| self.failures.len() > most)
            && !self.first_error.has_failed()
        {
            let first = &self.failures[0];
            self.first_error.fail(EngineError::TooManyFailures {
                failures: self.failures.len(),
                first: first.request.describe(),
                source: first.error.clone(),
            });
        }
    }

    /// Sends the answered documents at the front to scoring, in order and in blocks.
    fn send_ready_block(&mut self, task_index: usize) {
        let task = &mut self.tasks[task_index];
        if !task.scores_in_blocks {
            return;
        }
        let waits = |document: &Document| matches!(document, Document::Pending(_) | Document::Judging(_));
        while task.documents.get(task.ready).is_some_and(|document| !waits(document)) {
            task.ready += 1;
        }
        if task.ready >= BLOCK {
            let documents = task.take_front(task.ready);
            self.backlog.enter(documents.len());
            self.send(Work::Next { task: task_index, documents });
        }
    }

    /// Sends the remaining documents of a task to scoring once all are answered.
    fn send_remaining(&mut self, task_index: usize) {
        let task = &mut self.tasks[task_index];
        if task.open > 0 || !task.all_built || task.is_complete || self.first_error.has_failed() {
            return;
        }
        task.is_complete = true;
        let documents = task.take_front(task.documents.len());
        let digest = task.of_part.clone();
        let counts = DocumentCounts { built: task.sent, original: task.original, digest };
        self.send(Work::Last { task: task_index, documents, counts });
    }

    fn send(&self, work: Work) {
        // Fails only after the scoring thread has ended with an error, which ends the run.
        let _ = self.work.send(work);
    }
}

/// The next message, or `None` if all senders are gone.
///
/// Blocking right away would cost one wake-up per answer. So it polls a few times first, with short sleeps.
fn next(messages: &mpsc::Receiver<Message>) -> Option<Message> {
    const PAUSE: Duration = Duration::from_millis(1);
    for attempt in 0..4 {
        match messages.try_recv() {
            Ok(message) => return Some(message),
            Err(mpsc::TryRecvError::Disconnected) => return None,
            Err(mpsc::TryRecvError::Empty) if attempt < 3 => thread::sleep(PAUSE),
            Err(mpsc::TryRecvError::Empty) => {}
        }
    }
    messages.recv().ok()
}

/// Drops prompts, images and sounds that scoring does not read: they dominate the memory of a run.
fn drop_prompts(requests: &mut DocumentRequests, empty: &Arc<str>) {
    for instance in &mut requests.instances {
        if let Some(context) = instance.arguments.context_mut() {
            *context = Context::Text(Arc::clone(empty));
        }
        instance.additional_args = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cancel::Cancel;

    #[test]
    fn panic_stops_the_run_and_ends_scoring() {
        let (stop, options) = (Cancel::new(), EvaluateOptions::default());
        let (first_error, backlog) = (FirstError::new(&stop), Backlog::new(1));
        let (work, todo) = mpsc::channel();
        let collector =
            Collector::new(&[], &options, &first_error, &backlog, work, None, TaskJudges::default());
        let (messages, inbox) = mpsc::channel();
        messages
            .send(Message::Built { task: 3, digest: None, of_part: None, conversations: None })
            .expect("the inbox is open");
        assert!(first_error.guard("Collecting answers", || collector.run(&inbox)).is_none());
        assert!(stop.is_cancelled() && todo.recv().is_err());
        let error = first_error.into_error().expect("the collector panicked").to_string();
        assert!(error.starts_with("Collecting answers panicked: index out of bounds"), "{error}");
    }
}

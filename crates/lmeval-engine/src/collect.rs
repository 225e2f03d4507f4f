//! From answers to documents that can be scored.

use std::collections::VecDeque;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use lmeval_core::scorers::{AnsweredDocument, AnsweredInstance, Needs};
use lmeval_core::{Answer, Arguments, Context, ModelError, ModelRequest};
use lmeval_tasks::prompt::DocumentRequests;

use crate::backlog::Backlog;
use crate::error::EngineError;
use crate::options::EvaluateOptions;
use crate::plan::PlannedTask;
use crate::produce::Slot;
use crate::score::{Ending, Work};

/// What the parts of a run tell the one that scores.
#[derive(Debug)]
pub(crate) enum Message {
    /// The requests of a task are being built; its split has so many documents.
    Started { task: usize, original: usize },
    /// A document with its requests. Its place is the number of those before it.
    Document { task: usize, requests: Box<DocumentRequests> },
    /// All documents of a task were there.
    Built { task: usize },
    /// An answer.
    Answered { slot: Slot, answer: Answer },
    /// A request without one.
    Failed { slot: Slot, request: Box<ModelRequest>, error: ModelError },
    /// The run cannot go on.
    Stop(Box<EngineError>),
}

/// A request that failed for good.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The request.
    pub request: ModelRequest,
    /// Why.
    pub error: ModelError,
}

/// A document on its way to being answered.
struct Pending {
    requests: DocumentRequests,
    /// For each request and each of its repeats, one after the other.
    answers: Vec<Option<Answer>>,
    missing: usize,
    failed: bool,
}

impl Pending {
    fn new(requests: DocumentRequests) -> Self {
        let missing = requests.instances.iter().map(|instance| instance.repeats).sum();
        Self { requests, answers: vec![None; missing], missing, failed: false }
    }

    /// Puts an answer where it belongs.
    fn set(&mut self, slot: Slot, answer: Answer) {
        let before: usize =
            self.requests.instances[..slot.instance].iter().map(|instance| instance.repeats).sum();
        self.answers[before + slot.repeat] = Some(answer);
    }

    /// The document with its answers, unless one failed.
    fn finish(self) -> Option<AnsweredDocument> {
        if self.failed {
            return None;
        }
        let mut answers = self.answers.into_iter().flatten();
        let answered = self.requests.instances.into_iter().map(|instance| {
            let own: Vec<Answer> = answers.by_ref().take(instance.repeats).collect();
            let truncated = own.iter().filter(|answer| answer.truncated).count();
            let responses = own.iter().map(|answer| answer.response.to_value()).collect();
            AnsweredInstance { instance, responses, truncated }
        });
        Some(AnsweredDocument {
            doc_id: self.requests.doc_id,
            document: self.requests.document,
            choices: self.requests.choices,
            answers: answered.collect(),
        })
    }
}

/// A document of a task. Most of what a run holds are these, so each is kept small.
enum Document {
    Pending(Box<Pending>),
    Answered(Box<AnsweredDocument>),
    Failed,
}

/// How many documents are scored at a time where they are not needed together.
const BLOCK: usize = 1024;

/// A task whose answers are being collected.
struct Progress {
    /// What scoring it looks at.
    needs: Needs,
    /// Whether documents are scored, and let go of, before all of them are answered.
    scores_apart: bool,
    runs_code: bool,
    original: usize,
    /// Documents that were handed on already; the others follow.
    handed_on: usize,
    documents: VecDeque<Document>,
    /// How many documents at the front wait for nothing.
    ready: usize,
    /// Whether the document that was answered first has been looked at.
    is_checked: bool,
    /// Documents that lack answers.
    open: usize,
    all_built: bool,
    is_complete: bool,
}

impl Progress {
    fn new(planned: &PlannedTask, options: &EvaluateOptions) -> Self {
        Self {
            needs: planned.scorer.needs(),
            scores_apart: planned.scores_apart(options),
            runs_code: planned.task.config.unsafe_code,
            original: 0,
            handed_on: 0,
            documents: VecDeque::new(),
            ready: 0,
            is_checked: false,
            open: 0,
            all_built: false,
            is_complete: false,
        }
    }

    /// The documents at the front, without those that failed.
    fn take_front(&mut self, count: usize) -> Vec<AnsweredDocument> {
        self.handed_on += count;
        self.ready = self.ready.saturating_sub(count);
        let front = self.documents.drain(..count).filter_map(|document| match document {
            Document::Answered(answered) => Some(*answered),
            Document::Pending(_) | Document::Failed => None,
        });
        front.collect()
    }
}

/// What came of the requests of a run.
pub(crate) struct Collected {
    pub(crate) failures: Vec<Failure>,
    pub(crate) answered: usize,
}

/// Puts answers where they belong and hands documents on when they can be scored.
pub(crate) struct Collector<'a> {
    options: &'a EvaluateOptions,
    ending: &'a Ending<'a>,
    backlog: &'a Backlog,
    work: mpsc::Sender<Work>,
    tasks: Vec<Progress>,
    failures: Vec<Failure>,
    answered: usize,
    /// What stands for prompts that were let go.
    nothing: Arc<str>,
}

impl<'a> Collector<'a> {
    pub(crate) fn new(
        planned: &[PlannedTask],
        options: &'a EvaluateOptions,
        ending: &'a Ending<'a>,
        backlog: &'a Backlog,
        work: mpsc::Sender<Work>,
    ) -> Self {
        let tasks = planned.iter().map(|planned| Progress::new(planned, options)).collect();
        let nothing = Arc::from("");
        Self { options, ending, backlog, work, tasks, failures: Vec::new(), answered: 0, nothing }
    }

    /// Takes messages until nobody sends any more.
    pub(crate) fn run(mut self, messages: &mpsc::Receiver<Message>) -> Collected {
        while let Some(message) = next(messages) {
            self.take(message);
        }
        Collected { failures: self.failures, answered: self.answered }
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Started { task, original } => self.tasks[task].original = original,
            Message::Document { task, mut requests } => {
                self.backlog.leave(1);
                let task = &mut self.tasks[task];
                if !self.options.log_samples {
                    forget(&mut requests, task.needs, &self.nothing);
                }
                requests.instances.shrink_to_fit();
                task.documents.push_back(Document::Pending(Box::new(Pending::new(*requests))));
                task.open += 1;
            }
            Message::Built { task } => {
                self.tasks[task].all_built = true;
                self.hand_on_rest(task);
            }
            Message::Answered { slot, answer } => {
                self.answered += 1;
                self.settle(slot, Some(answer));
            }
            Message::Failed { slot, request, error } => {
                self.failures.push(Failure { request: *request, error });
                self.settle(slot, None);
                self.check_failures();
            }
            Message::Stop(error) => self.ending.fail(*error),
        }
    }

    /// One request less to wait for.
    fn settle(&mut self, slot: Slot, answer: Option<Answer>) {
        let task = &mut self.tasks[slot.task];
        let place = &mut task.documents[slot.document - task.handed_on];
        let Document::Pending(pending) = place else { return };
        match answer {
            Some(answer) => pending.set(slot, answer),
            None => pending.failed = true,
        }
        pending.missing -= 1;
        if pending.missing > 0 {
            return;
        }
        if let Document::Pending(pending) = std::mem::replace(place, Document::Failed)
            && let Some(answered) = pending.finish()
        {
            *place = Document::Answered(Box::new(answered));
        }
        task.open -= 1;
        self.check_first(slot);
        self.hand_on_front(slot.task);
        self.hand_on_rest(slot.task);
    }

    /// Has the first document of a task that is answered looked at, while others still wait for their answers.
    fn check_first(&mut self, slot: Slot) {
        let task = &mut self.tasks[slot.task];
        // The programs that scoring runs are counted, and a check would run some before the count begins.
        if task.is_checked || task.scores_apart || task.runs_code {
            return;
        }
        if let Document::Answered(first) = &task.documents[slot.document - task.handed_on] {
            let document = first.clone();
            task.is_checked = true;
            self.send(Work::First { task: slot.task, document });
        }
    }

    fn check_failures(&mut self) {
        if self.options.max_failures.is_some_and(|most| self.failures.len() > most)
            && !self.ending.has_failed()
        {
            let first = &self.failures[0];
            self.ending.fail(EngineError::TooManyFailures {
                failures: self.failures.len(),
                first: first.request.describe(),
                source: first.error.clone(),
            });
        }
    }

    /// Hands documents on that can be scored without the others, in their order and many at a time.
    fn hand_on_front(&mut self, place: usize) {
        let task = &mut self.tasks[place];
        if !task.scores_apart {
            return;
        }
        let waits = |document: &Document| matches!(document, Document::Pending(_));
        while task.documents.get(task.ready).is_some_and(|document| !waits(document)) {
            task.ready += 1;
        }
        if task.ready >= BLOCK {
            let documents = task.take_front(task.ready);
            self.backlog.enter(documents.len());
            self.send(Work::Next { task: place, documents });
        }
    }

    /// Hands all documents of a task on, or those that are left, when each has its answers.
    fn hand_on_rest(&mut self, place: usize) {
        let task = &mut self.tasks[place];
        if task.open > 0 || !task.all_built || task.is_complete || self.ending.has_failed() {
            return;
        }
        task.is_complete = true;
        let documents = task.take_front(task.documents.len());
        let (built, original) = (task.handed_on, task.original);
        self.send(Work::Last { task: place, documents, built, original });
    }

    fn send(&self, work: Work) {
        // It fails only where the thread that scores panicked, which ends the run.
        let _ = self.work.send(work);
    }
}

/// The next message; none when nobody sends any more.
///
/// A thread that waits has to be woken, and many answers a second would wake this one for each of them. So it looks
/// again after a nap before it waits.
fn next(messages: &mpsc::Receiver<Message>) -> Option<Message> {
    const NAP: Duration = Duration::from_millis(1);
    for look in 0..4 {
        match messages.try_recv() {
            Ok(message) => return Some(message),
            Err(mpsc::TryRecvError::Disconnected) => return None,
            Err(mpsc::TryRecvError::Empty) if look < 3 => thread::sleep(NAP),
            Err(mpsc::TryRecvError::Empty) => {}
        }
    }
    messages.recv().ok()
}

/// Lets go of the prompts and documents that nothing that scores can see: they are most of what a run holds.
fn forget(requests: &mut DocumentRequests, needs: Needs, nothing: &Arc<str>) {
    if !needs.prompts {
        for instance in &mut requests.instances {
            if let Arguments::Loglikelihood { context, .. } | Arguments::Generate { context, .. } =
                &mut instance.arguments
            {
                *context = Context::Text(Arc::clone(nothing));
            }
        }
    }
    if !needs.documents {
        requests.document = Arc::default();
    }
}

//! From answers to scored tasks.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use lmeval_core::results::TaskResult;
use lmeval_core::scorers::{AnsweredDocument, AnsweredInstance, Needs};
use lmeval_core::{Answer, Arguments, Context, HostError, ModelError, ModelRequest};
use lmeval_pycompat::{Dict, Value};
use lmeval_tasks::Task;
use lmeval_tasks::prompt::DocumentRequests;
use lmeval_tasks::scoring::task_result;

use crate::cancel::Cancel;
use crate::error::EngineError;
use crate::event::{Event, Events};
use crate::options::EvaluateOptions;
use crate::plan::PlannedTask;
use crate::produce::Slot;

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

/// A document of a task. Most of a run is made of these, so each is kept as small as it can be.
enum Document {
    Pending(Box<Pending>),
    Answered(AnsweredDocument),
    Failed,
}

/// A task on its way to being scored.
struct Progress {
    planned: Option<PlannedTask>,
    task: Arc<Task>,
    /// What scoring it looks at.
    needs: Needs,
    original: usize,
    documents: Vec<Document>,
    /// Whether the values of a document have been seen to be such as can be aggregated.
    is_checked: bool,
    /// Documents that lack answers.
    open: usize,
    all_built: bool,
}

/// What a run gave, task by task.
pub(crate) struct Collected {
    pub(crate) results: Vec<TaskResult>,
    pub(crate) failures: Vec<Failure>,
    pub(crate) answered: usize,
    pub(crate) code_limits: Dict,
}

/// Puts answers where they belong and scores tasks when they are complete.
pub(crate) struct Collector<'a> {
    options: &'a EvaluateOptions,
    events: &'a dyn Events,
    stop: &'a Cancel,
    tasks: Vec<Progress>,
    results: Vec<Option<TaskResult>>,
    failures: Vec<Failure>,
    answered: usize,
    code_limits: Dict,
    error: Option<EngineError>,
    /// What stands for prompts that were let go.
    nothing: Arc<str>,
}

impl<'a> Collector<'a> {
    pub(crate) fn new(
        planned: Vec<PlannedTask>,
        options: &'a EvaluateOptions,
        events: &'a dyn Events,
        stop: &'a Cancel,
    ) -> Self {
        let results = planned.iter().map(|_| None).collect();
        let tasks = planned.into_iter().map(|planned| Progress {
            task: Arc::clone(&planned.task),
            needs: planned.scorer.needs(),
            planned: Some(planned),
            original: 0,
            documents: Vec::new(),
            is_checked: false,
            open: 0,
            all_built: false,
        });
        let tasks = tasks.collect();
        Self {
            options,
            events,
            stop,
            tasks,
            results,
            failures: Vec::new(),
            answered: 0,
            code_limits: Dict::new(),
            error: None,
            nothing: Arc::from(""),
        }
    }

    /// Takes messages until nobody sends any more.
    pub(crate) fn run(mut self, messages: &mpsc::Receiver<Message>) -> Result<Collected, EngineError> {
        while let Some(message) = next(messages) {
            self.take(message);
        }
        match self.error {
            Some(error) => Err(error),
            None => Ok(Collected {
                results: self.results.into_iter().flatten().collect(),
                failures: self.failures,
                answered: self.answered,
                code_limits: self.code_limits,
            }),
        }
    }

    /// Keeps the first error and ends the run; what is under way is still waited for and kept.
    ///
    /// All tasks share the workers, so a function of one task that gives no answer can fail others first. Their errors
    /// give way to its own.
    fn fail(&mut self, error: EngineError) {
        self.stop.cancel();
        let is_abandoned = |error: &EngineError| error.host_error().is_some_and(HostError::is_abandoned);
        let stays = self.error.as_ref().is_some_and(|known| !is_abandoned(known) || is_abandoned(&error));
        if !stays {
            self.error = Some(error);
        }
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Started { task, original } => self.tasks[task].original = original,
            Message::Document { task, mut requests } => {
                let task = &mut self.tasks[task];
                if !self.options.log_samples {
                    forget(&mut requests, task.needs, &self.nothing);
                }
                requests.instances.shrink_to_fit();
                task.documents.push(Document::Pending(Box::new(Pending::new(*requests))));
                task.open += 1;
            }
            Message::Built { task } => {
                self.tasks[task].all_built = true;
                self.score_if_complete(task);
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
            Message::Stop(error) => self.fail(*error),
        }
    }

    /// One request less to wait for.
    fn settle(&mut self, slot: Slot, answer: Option<Answer>) {
        let task = &mut self.tasks[slot.task];
        let place = &mut task.documents[slot.document];
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
            *place = Document::Answered(answered);
        }
        task.open -= 1;
        self.check_first(slot);
        self.score_if_complete(slot.task);
    }

    /// Looks at the first document of a task that is answered, while others still wait for their answers.
    fn check_first(&mut self, slot: Slot) {
        let task = &mut self.tasks[slot.task];
        let (false, Some(planned), Document::Answered(first)) =
            (task.is_checked, task.planned.as_mut(), &task.documents[slot.document])
        else {
            return;
        };
        task.is_checked = true;
        if task.task.config.unsafe_code {
            // The programs that scoring runs are counted, and a check would run some before the count begins.
            return;
        }
        if let Err(source) = planned.scorer.check_first(first) {
            let task = planned.key.clone();
            self.fail(EngineError::Score { task, source: Box::new(source) });
        }
    }

    fn check_failures(&mut self) {
        if self.options.max_failures.is_some_and(|most| self.failures.len() > most) && self.error.is_none() {
            let first = &self.failures[0];
            self.fail(EngineError::TooManyFailures {
                failures: self.failures.len(),
                first: first.request.describe(),
                source: first.error.clone(),
            });
        }
    }

    fn score_if_complete(&mut self, place: usize) {
        let progress = &mut self.tasks[place];
        if progress.open > 0 || !progress.all_built || self.error.is_some() {
            return;
        }
        let Some(planned) = progress.planned.take() else { return };
        let documents = std::mem::take(&mut progress.documents);
        let original = progress.original;
        let task = Arc::clone(&progress.task);
        let key = planned.key.clone();
        let python = self.options.data.python.as_ref().filter(|_| task.config.unsafe_code);
        // What ran before, for another task or for prompts, is not part of the score.
        let _ = python.map(|python| python.take_code_limits());
        match self.score(planned, documents, original) {
            Ok(result) => self.results[place] = result,
            Err(error) => self.fail(error),
        }
        if let Some(python) = python {
            self.code_limits.insert(key, code_limits(python.take_code_limits()));
        }
    }

    /// The result of a task; none where no document has all its answers.
    fn score(
        &self,
        mut planned: PlannedTask,
        documents: Vec<Document>,
        original: usize,
    ) -> Result<Option<TaskResult>, EngineError> {
        self.events.event(Event::Scoring { task: &planned.task });
        let all = documents.len();
        let answered = documents.into_iter().filter_map(|document| match document {
            Document::Answered(answered) => Some(answered),
            Document::Pending(_) | Document::Failed => None,
        });
        let documents: Vec<AnsweredDocument> = answered.collect();
        if documents.is_empty() {
            return Ok(None);
        }
        let failed = |source| EngineError::Score { task: planned.key.clone(), source: Box::new(source) };
        planned.scorer.score(&documents).map_err(failed)?;
        let (draws, log) = (self.options.bootstrap_iters, self.options.log_samples);
        let result =
            task_result(&planned.key, &planned.task, &planned.scorer, &documents, original, draws, log);
        let mut result = result.map_err(failed)?;
        for (_, audit) in &mut result.audit {
            audit.errored = all - documents.len();
        }
        let told = self.events.scored(&result);
        told.map_err(|source| EngineError::Records { task: planned.key.clone(), source })?;
        if !self.options.keep_samples {
            result.samples = None;
        }
        Ok(Some(result))
    }
}

/// What the results say of the programs that were run for a task.
fn code_limits((programs, limits): (usize, Dict)) -> Value {
    let mut entry = Dict::new();
    entry.insert("programs", programs as i64);
    if programs == 0 {
        entry.insert("note", "No program was run under limits; if the task runs code, its own functions do");
    } else {
        entry.insert("limits", limits);
    }
    Value::from(entry)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::NoEvents;

    fn failed(source: HostError) -> Message {
        Message::Stop(Box::new(EngineError::Function { task: "t".to_owned(), source }))
    }

    fn outcome(errors: Vec<Message>) -> String {
        let (sender, receiver) = mpsc::channel();
        for error in errors {
            sender.send(error).unwrap();
        }
        drop(sender);
        let (options, stop) = (EvaluateOptions::default(), Cancel::new());
        let Err(error) = Collector::new(Vec::new(), &options, &NoEvents, &stop).run(&receiver) else {
            panic!("no error")
        };
        std::error::Error::source(&error).unwrap().to_string()
    }

    #[test]
    fn the_function_that_gave_no_answer_is_reported() {
        let abandoned = |function: &str| {
            let (function, culprit) = (function.to_owned(), "utils.slow".to_owned());
            failed(HostError::Abandoned { function, culprit, seconds: 1.0 })
        };
        let raised = |function: &str| {
            let (function, message) = (function.to_owned(), "no".to_owned());
            failed(HostError::Failed { function, message, traceback: None })
        };
        let first = outcome(vec![abandoned("a.f"), abandoned("b.f"), raised("utils.slow"), raised("c.f")]);
        assert!(first.contains("`utils.slow` failed"), "{first}");
        let first = outcome(vec![raised("utils.slow"), abandoned("a.f")]);
        assert!(first.contains("`utils.slow` failed"), "{first}");
        let only = outcome(vec![abandoned("a.f"), abandoned("b.f")]);
        assert!(only.contains("`a.f`") && only.contains("`utils.slow`"), "{only}");
    }
}

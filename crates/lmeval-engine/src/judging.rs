//! Judges: models that grade answers. Their requests take the same road as those of the evaluated model: each judge has a
//! dispatcher of its own, with its own concurrency, over the same journal.

use std::sync::{Arc, Mutex, PoisonError, mpsc};

use lmeval_core::{
    Answer, Arguments, ChatMessage, ChatTemplate, Context, DocId, Model, ModelError, ModelErrorKind,
    ModelIdentity, ModelRequest, RequestType, Response, Usage, secrets,
};
use lmeval_pycompat::{Dict, Value};
use lmeval_scoring::judge::{JudgeCall, JudgeQuestion, Judges};
use rustc_hash::FxHashMap;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::event::{Event, Events};
use crate::produce::{Job, Reply, Slot};

/// A model that is bound to the role of a judge.
#[derive(Clone, Debug)]
pub struct JudgeModel {
    /// The role that tasks name.
    pub role: Arc<str>,
    /// The model that answers for it.
    pub model: Arc<dyn Model>,
    /// Its backend and arguments without secrets, for the results.
    pub settings: Dict,
    /// Whether it is an object of the Python program that called the engine.
    pub in_caller: bool,
}

impl JudgeModel {
    /// The [`settings`](Self::settings) of a backend with arguments.
    pub fn settings_of(backend: &str, args: &Dict) -> Dict {
        let mut settings = Dict::new();
        settings.insert("model", backend);
        settings.insert("model_args", secrets::mask_secrets(&Value::from(args.clone())));
        settings
    }
}

/// The answers of a document, by the pipeline that filtered them.
type ByPipeline = Vec<(Arc<str>, Arc<str>)>;

/// The answers of a stored run that pairwise judges compare with.
#[derive(Clone, Debug, Default)]
pub struct Baseline {
    /// By task and document, the answer of each pipeline.
    answers: FxHashMap<String, FxHashMap<usize, ByPipeline>>,
}

impl Baseline {
    /// Adds the answer of a document as filtered by a pipeline. The first of each pipeline counts.
    pub fn add(&mut self, task: &str, document: DocId, pipeline: &str, answer: &str) {
        let documents = match self.answers.get_mut(task) {
            Some(documents) => documents,
            None => self.answers.entry(task.to_owned()).or_default(),
        };
        let answers = documents.entry(document.0).or_default();
        if !answers.iter().any(|(known, _)| **known == *pipeline) {
            answers.push((pipeline.into(), answer.into()));
        }
    }

    /// Whether the run has the task.
    pub(crate) fn has(&self, task: &str) -> bool {
        self.answers.contains_key(task)
    }

    /// The answer of a document: that of the pipeline, or else of the first one.
    pub(crate) fn answer(&self, task: &str, document: DocId, pipeline: &str) -> Option<&str> {
        let answers = self.answers.get(task)?.get(&document.0)?;
        let own = answers.iter().find(|(name, _)| **name == *pipeline).or(answers.first());
        own.map(|(_, answer)| &**answer)
    }
}

/// The fact in the identity of a judge, so that its answers are never taken for those of an evaluated model.
const AS_JUDGE: (&str, &str) = ("as", "judge");

/// The identity under which the answers of a judge are saved.
pub(crate) fn as_judge(mut identity: ModelIdentity) -> ModelIdentity {
    if identity.fact(AS_JUDGE.0).is_none() {
        identity.facts.push((AS_JUDGE.0, AS_JUDGE.1.to_owned()));
    }
    identity
}

/// Whether a stored identity is that of a judge; `fact` looks up its facts.
pub fn is_judge<'a>(fact: impl Fn(&str) -> Option<&'a str>) -> bool {
    fact(AS_JUDGE.0) == Some(AS_JUDGE.1)
}

/// The queue of one judge.
#[derive(Debug)]
struct JudgeQueue {
    role: Arc<str>,
    /// Renders conversations; `None` for a model that only completes strings.
    template: Option<Arc<dyn ChatTemplate>>,
    /// Whether the model can be asked to follow a schema.
    takes_fields: bool,
    /// `None` after the last question.
    jobs: Mutex<Option<Sender<Vec<Job>>>>,
    /// Its entry in the results, without the counts.
    settings: Dict,
    /// The number of answers, including those that were saved before, and their tokens.
    answered: Mutex<(usize, Usage)>,
    in_caller: bool,
}

/// The queues of all judges of a run.
pub(crate) struct JudgePool {
    queues: Vec<JudgeQueue>,
    events: Arc<dyn Events>,
}

impl std::fmt::Debug for JudgePool {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("JudgePool").field(&self.queues).finish()
    }
}

impl JudgePool {
    /// One queue per judge, and their other ends. They are unbounded: the thread that collects answers must not wait, and
    /// the backlog limits the documents that wait for judges.
    pub(crate) fn new(judges: &[JudgeModel], events: &Arc<dyn Events>) -> (Self, Vec<Receiver<Vec<Job>>>) {
        let (mut queues, mut receivers) = (Vec::new(), Vec::new());
        for judge in judges {
            let (sender, receiver) = channel(Semaphore::MAX_PERMITS);
            let template = judge.model.chat_template(None).ok().map(|template| template.template);
            queues.push(JudgeQueue {
                role: Arc::clone(&judge.role),
                template,
                takes_fields: judge.model.traits().takes_optional_fields,
                jobs: Mutex::new(Some(sender)),
                settings: judge.settings.clone(),
                answered: Mutex::default(),
                in_caller: judge.in_caller,
            });
            receivers.push(receiver);
        }
        (Self { queues, events: Arc::clone(events) }, receivers)
    }

    fn queue(&self, role: &str) -> Result<&JudgeQueue, ModelError> {
        let queue = self.queues.iter().find(|queue| *queue.role == *role);
        queue.ok_or_else(|| unbound(role, &self.roles()))
    }

    fn roles(&self) -> Vec<Arc<str>> {
        self.queues.iter().map(|queue| Arc::clone(&queue.role)).collect()
    }

    /// Counts an answer of a judge.
    pub(crate) fn count(&self, role: &str, answer: &Answer) {
        if let Some(queue) = self.queues.iter().find(|queue| *queue.role == *role) {
            let mut answered = queue.answered.lock().unwrap_or_else(PoisonError::into_inner);
            answered.0 += 1;
            answered.1.prompt_tokens += answer.usage.prompt_tokens;
            answered.1.completion_tokens += answer.usage.completion_tokens;
        }
    }

    /// The settings of each judge and what it was asked, for the results.
    pub(crate) fn to_dict(&self) -> Dict {
        let entry = |queue: &JudgeQueue| {
            let (answers, usage) = *queue.answered.lock().unwrap_or_else(PoisonError::into_inner);
            let mut entry = queue.settings.clone();
            entry.insert("answers", answers as i64);
            entry.insert("prompt_tokens", usage.prompt_tokens as i64);
            entry.insert("completion_tokens", usage.completion_tokens as i64);
            (Value::Str(Arc::clone(&queue.role)), Value::from(entry))
        };
        self.queues.iter().map(entry).collect()
    }

    /// Ends all queues. Judges finish what was sent to them.
    pub(crate) fn close(&self) {
        for queue in &self.queues {
            drop(queue.jobs.lock().unwrap_or_else(PoisonError::into_inner).take());
        }
    }

    /// Sends a call to its judge; the answer goes to the slot.
    pub(crate) fn send(
        &self,
        call: &JudgeCall,
        attempts: usize,
        slot: Slot,
        (task, document): (&Arc<str>, DocId),
    ) -> Result<(), ModelError> {
        let queue = self.queue(&call.role)?;
        let request = ModelRequest {
            task_name: Arc::clone(task),
            doc_id: document,
            idx: slot.instance,
            repeat: call.repeat(attempts),
            arguments: Arguments::Generate {
                context: queue.context(call.messages())?,
                kwargs: Arc::clone(call.generation(queue.takes_fields)),
            },
            additional_args: None,
            document: None,
            progress: None,
        };
        self.events.event(Event::Built { kind: RequestType::GenerateUntil, count: 1 });
        queue.send(vec![Job { reply: Reply::Slot(slot), request }]);
        Ok(())
    }
}

impl JudgeQueue {
    /// The prompt of a conversation. A model without a chat template gets the messages as one string.
    fn context(&self, messages: Vec<ChatMessage>) -> Result<Context, ModelError> {
        match &self.template {
            Some(template) => template.apply(messages, true).map_err(|error| {
                let message = format!("The chat template of the judge `{}` failed: {error}", self.role);
                ModelError::new(ModelErrorKind::Configuration, message)
            }),
            None => {
                let texts: Vec<&str> = messages.iter().map(|message| &*message.content).collect();
                Ok(Context::Text(texts.join("\n\n").into()))
            }
        }
    }

    /// Sends jobs, unless the run is ending.
    fn send(&self, jobs: Vec<Job>) {
        let sender = self.jobs.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(sender) = sender {
            // Fails only if the judge's dispatcher has stopped, and then the run is stopping.
            let _ = sender.try_send(jobs);
        }
    }
}

impl Judges for JudgePool {
    fn ask(&self, questions: Vec<JudgeQuestion>) -> Vec<Result<Arc<str>, ModelError>> {
        let (reply, replies) = mpsc::channel();
        let mut answers: Vec<Result<Arc<str>, ModelError>> = questions.iter().map(|_| Err(ended())).collect();
        for (index, question) in questions.iter().enumerate() {
            let sent = self.queue(&question.role).and_then(|queue| {
                if queue.in_caller && question.from_caller {
                    return Err(busy(&question.role));
                }
                let request = ModelRequest {
                    task_name: format!("judge {}", question.role).into(),
                    doc_id: DocId(0),
                    idx: 0,
                    repeat: question.repeat,
                    arguments: Arguments::Generate {
                        context: queue.context(question.messages())?,
                        kwargs: Arc::clone(&question.generation),
                    },
                    additional_args: None,
                    document: None,
                    progress: None,
                };
                self.events.event(Event::Built { kind: RequestType::GenerateUntil, count: 1 });
                queue.send(vec![Job { reply: Reply::Direct(index, reply.clone()), request }]);
                Ok(())
            });
            if let Err(error) = sent {
                answers[index] = Err(error);
            }
        }
        drop(reply);
        for (index, answer) in replies {
            if let Ok(answer) = &answer {
                self.count(&questions[index].role, answer);
            }
            answers[index] = answer.map(|answer| match answer.response {
                Response::Text(text) => text,
                _ => Arc::from(""),
            });
        }
        answers
    }
}

/// The error for a judge that would have to answer while it asks.
fn busy(role: &str) -> ModelError {
    let message = format!(
        "The judge `{role}` is an object of the Python process whose scorer asks it, and that process is waiting"
    );
    ModelError::new(ModelErrorKind::Configuration, message)
        .hint("Bind the role to a backend by name, or use the scorer `judge`")
}

fn ended() -> ModelError {
    ModelError::new(ModelErrorKind::Unreachable, "The run ended before the judge answered")
}

/// The error for a role that no model is bound to.
pub(crate) fn unbound(role: &str, bound: &[Arc<str>]) -> ModelError {
    let message = format!("No judge is bound to the role `{role}`");
    let error = ModelError::new(ModelErrorKind::Configuration, message).hint(format!(
        "Bind one with `--judge {role}=BACKEND,model=NAME,…`; the evaluated model never judges itself"
    ));
    if bound.is_empty() { error } else { error.hint(format!("Bound are `{}`", bound.join("`, `"))) }
}

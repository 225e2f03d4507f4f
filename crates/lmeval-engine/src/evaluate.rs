//! Evaluates loaded tasks on a model.

use std::sync::{Arc, mpsc};
use std::{iter, thread};

use lmeval_core::{Model, ModelTemplate};
use lmeval_pycompat::{Dict, Value};
use lmeval_scoring::groups::GroupSpec;
use lmeval_scoring::judge::Judges;
use lmeval_scoring::results::{RunResults, Score, TaskResult};
use lmeval_tasks::prompt::RequestOptions;
use lmeval_tasks::{Task, TaskDict};
use tokio::runtime::{Builder, Runtime};

use crate::answerers::{Answerers, Wiring};
use crate::attribution::Refutation;
use crate::backlog::{Backlog, MAX_WAITING};
use crate::cancel::Cancel;
use crate::collect::{Collected, Collector, Failure, ModelUsage};
use crate::contact::{Contact, Introduction, Needs};
use crate::error::EngineError;
use crate::event::{Event, Events};
use crate::judge_documents::TaskJudges;
use crate::judging::JudgePool;
use crate::options::EvaluateOptions;
use crate::plan::{Plan, PlannedTask, plan};
use crate::preview::preview;
use crate::produce::{JOBS_PER_SEND, TASKS_AHEAD, prepare, produce};
use crate::score::{FirstError, Grader};

/// How many requests may wait for the model, besides those in flight.
const REQUESTS_AHEAD: usize = 1024;

/// The outcome of a run.
#[derive(Debug)]
pub struct Evaluated {
    /// The scores, and the records if they are kept.
    pub results: RunResults,
    /// The evaluated tasks by their keys in the results, in load order.
    pub tasks: Vec<(String, Arc<Task>)>,
    /// The source of the chat template, if one was applied and is known.
    pub chat_template: Option<String>,
    /// Requests that failed permanently. Their documents are excluded from the scores.
    pub failures: Vec<Failure>,
    /// The number of answered requests.
    pub answered: usize,
    /// Per task that runs code: the number of sandboxed programs and the limits in force.
    pub code_limits: Dict,
    /// Per judge: its settings, and the tokens of its answers.
    pub judges: Dict,
    /// The tokens of the evaluated model.
    pub usage: ModelUsage,
    /// Per multiple-choice task whose options are not compared by their log-likelihoods: how they are.
    pub choices: Dict,
    /// Per task: the digest of its documents and few-shot examples; empty if answers are not saved and
    /// [`EvaluateOptions::digests`] is not set.
    pub digests: Dict,
    /// Per task with chat prompts: the digest of its conversations, before the template rendered them. Those of parts add
    /// up, modulo 2¹²⁸, to that of the whole.
    pub chat_digests: Dict,
}

impl Evaluated {
    /// All scores: those of tasks in load order, then those of groups.
    pub fn scores(&self) -> impl Iterator<Item = Score<'_>> {
        self.results.scores()
    }

    /// A score by the key of the task or group and the name of the metric. The name may include the filter, as in
    /// `exact_match,strict-match`; otherwise the first pipeline with the metric is used.
    pub fn score(&self, task: &str, metric: &str) -> Option<f64> {
        let (metric, filter) =
            metric.split_once(',').map_or((metric, None), |(metric, filter)| (metric, Some(filter)));
        let is_named = |score: &Score<'_>| {
            score.task == task && score.metric == metric && filter.is_none_or(|filter| filter == score.filter)
        };
        self.scores().find(is_named)?.value.to_f64()
    }
}

/// Evaluates tasks on a model. Names in the tasks are resolved in the registry that they were loaded with, see
/// [`TaskManager::with_registry`](lmeval_tasks::TaskManager::with_registry).
///
/// Blocks until the last task is scored; call it from `spawn_blocking` in asynchronous code.
///
/// ```
/// use std::sync::Arc;
/// use lmeval_core::Model;
/// use lmeval_engine::{EvaluateOptions, Events, NoEvents, evaluate};
/// use lmeval_models::ModelSettings;
/// use lmeval_tasks::{Overrides, Spec, TaskManager};
///
/// let manager = TaskManager::new(&[lmeval_tasks::BUILTIN_LIBRARY.into()]);
/// let tasks = manager.load(&[Spec::from("demo_capitals")], Overrides::default()).unwrap();
/// let model = lmeval_models::create("ngram", &ModelSettings::default()).unwrap();
/// let events: Arc<dyn Events> = Arc::new(NoEvents);
/// let run = evaluate(&model, tasks, &EvaluateOptions::default(), &events).unwrap();
/// assert!(run.scores().all(|score| score.task == "demo_capitals"));
/// ```
pub fn evaluate(
    model: &Arc<dyn Model>,
    tasks: TaskDict,
    options: &EvaluateOptions,
    events: &Arc<dyn Events>,
) -> Result<Evaluated, EngineError> {
    // A lookup has no requests in flight that could time out, so a shorter queue saves memory.
    let most = if model.traits().is_lookup { MAX_WAITING / 8 } else { MAX_WAITING };
    evaluate_with(model, tasks, options, events, &Backlog::new(most))
}

pub(crate) fn evaluate_with(
    model: &Arc<dyn Model>,
    tasks: TaskDict,
    options: &EvaluateOptions,
    events: &Arc<dyn Events>,
    backlog: &Backlog,
) -> Result<Evaluated, EngineError> {
    let runtime = runtime()?;
    let run = run(model, tasks, options, events, backlog, &runtime);
    runtime.shutdown_background();
    let Run { tasks, groups, template, choices, streamed } = run?;
    let Streamed { results, collected, code_limits, judges, digests, chat_digests } = streamed;
    let Collected { failures, answered, usage, .. } = collected;
    // The documents of other parts may have been answered.
    if results.is_empty()
        && options.part.is_none()
        && let Some(first) = failures.first()
    {
        return Err(EngineError::NothingAnswered {
            first: first.request.describe(),
            source: first.error.clone(),
        });
    }
    let results = RunResults::collect(results, &groups, &options.dialect)?;
    let chat_template = template.and_then(|template| template.source);
    Ok(Evaluated {
        results,
        tasks,
        chat_template,
        failures,
        answered,
        code_limits,
        judges,
        usage,
        choices,
        digests,
        chat_digests,
    })
}

fn runtime() -> Result<Runtime, EngineError> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    // At least two, so that an in-process model cannot keep answers from being written.
    let runtime = Builder::new_multi_thread().worker_threads(cores.max(2)).enable_all().build();
    runtime.map_err(EngineError::Threads)
}

/// A planned run and the outcome of its stream.
struct Run {
    tasks: Vec<(String, Arc<Task>)>,
    groups: Vec<GroupSpec>,
    template: Option<ModelTemplate>,
    choices: Dict,
    streamed: Streamed,
}

/// Plans and runs. Starts over if saved answers were used that turn out to be those of another model.
fn run(
    model: &Arc<dyn Model>,
    tasks: TaskDict,
    options: &EvaluateOptions,
    events: &Arc<dyn Events>,
    backlog: &Backlog,
    runtime: &Runtime,
) -> Result<Run, EngineError> {
    let models: Vec<&Arc<dyn Model>> =
        [model].into_iter().chain(options.judges.iter().map(|judge| &judge.model)).collect();
    // Each may turn out to be another model once.
    let mut restarts = models.iter().filter(|model| model.known_identity().is_some()).count();
    let mut copy = (options.journal.is_some() && restarts > 0).then(|| tasks.without_warnings());
    let (mut tasks, mut known) = (tasks, vec![None; models.len()]);
    loop {
        let Plan { tasks: planned, groups, template } = plan(Some(&**model), tasks, options)?;
        let choices = report_choices(&planned, &**events);
        let keyed = planned.iter().map(|planned| (planned.key.clone(), Arc::clone(&planned.task))).collect();
        match (stream(model, planned, options, events, backlog, runtime, &known)?, copy.take()) {
            (Ended::Finished(streamed), _) => {
                return Ok(Run { tasks: keyed, groups, template, choices, streamed: *streamed });
            }
            (Ended::OtherModel(..), None) => {
                return Err(EngineError::Internal("The model changed its identity twice"));
            }
            (Ended::OtherModel(index, Refutation { introduction, is_same_model }), Some(again)) => {
                backlog.reset();
                let Introduction { identity, protocol } = &introduction;
                events.event(if is_same_model {
                    Event::OtherProtocol { protocol: protocol.as_deref() }
                } else {
                    Event::OtherModel(identity)
                });
                known[index] = Some(introduction);
                restarts -= 1;
                copy = (restarts > 0).then(|| again.without_warnings());
                tasks = again;
            }
        }
    }
}

/// Tells how the options of tasks are compared, where that is not by their log-likelihoods; returns it by task.
pub(crate) fn report_choices(planned: &[PlannedTask], events: &dyn Events) -> Dict {
    let mut all = Dict::new();
    for PlannedTask { key, choices, .. } in planned {
        if let Some(choices) = choices {
            events.event(Event::Choices { task: key, description: &choices.describe() });
            all.insert(key.as_str(), choices.to_value());
        }
    }
    all
}

/// How a stream ended.
enum Ended {
    Finished(Box<Streamed>),
    /// The saved answers used so far are those of another model than this one, or of another scoring protocol. 0 is the
    /// evaluated model; judges follow.
    OtherModel(usize, Refutation),
}

/// The outcome of the stream.
struct Streamed {
    results: Vec<TaskResult>,
    collected: Collected,
    code_limits: Dict,
    judges: Dict,
    digests: Dict,
    chat_digests: Dict,
}

/// Streams documents through the model to scoring.
fn stream(
    model: &Arc<dyn Model>,
    mut planned: Vec<PlannedTask>,
    options: &EvaluateOptions,
    events: &Arc<dyn Events>,
    backlog: &Backlog,
    runtime: &Runtime,
    known: &[Option<Introduction>],
) -> Result<Ended, EngineError> {
    let wanted = options.journal.as_ref().filter(|_| model.traits().is_worth_saving);
    let contact = Contact { runtime, cancel: &options.cancel, journal: wanted.map(|journal| &*journal.path) };
    let answerers = Answerers::meet(model, Needs::of(&planned), options, known, &contact, &**events)?;
    let (journal, of_data) = (answerers.journal(), answerers.journal_of_model());
    let is_saved = journal.is_some();
    let stop = Cancel::new();
    let (messages, inbox) = mpsc::channel();
    let (jobs, queue) = tokio::sync::mpsc::channel(REQUESTS_AHEAD / JOBS_PER_SEND);
    let (pool, queues) = JudgePool::new(&options.judges, events);
    let pool = Arc::new(pool);
    let shared = Wiring { events, messages: &messages, stop: &stop };
    let assumptions = answerers.start(runtime, iter::once(queue).chain(queues), options, &shared);
    runtime.spawn(forward_cancel(options.cancel.clone(), stop.clone()));
    let sources = sources(&planned, wanted.is_some() || options.digests || options.part.is_some());
    let keys: Vec<String> = planned.iter().map(|planned| planned.key.clone()).collect();
    let first_error = FirstError::new(&stop);
    let (work, todo) = mpsc::channel();
    let (preview_sender, previewer) = options.preview.then(|| preview(&mut planned, &**events)).unzip();
    let judges = TaskJudges::new(&mut planned, &options.judges, options.baseline.as_ref(), &pool);
    for planned in &mut planned {
        planned.scorer.set_judges(&(Arc::clone(&pool) as Arc<dyn Judges>));
    }
    if let Some(python) = &options.data.python {
        python.set_judges(Some(Arc::clone(&pool) as Arc<dyn Judges>));
    }
    let collector = Collector::new(&planned, options, &first_error, backlog, work, preview_sender, judges);
    let grader = Grader::new(planned, options, &**events, &first_error, backlog);
    let (collected, scored) = thread::scope(|scope| {
        let (ready, prepared) = mpsc::sync_channel(TASKS_AHEAD);
        let of_preparer = messages.clone();
        let (sources, ahead, first_error) = (&sources, (backlog, &stop), &first_error);
        scope.spawn(move || {
            let work = || prepare(sources, &options.data, &**events, &ready, &of_preparer);
            first_error.guard("Loading data", work)
        });
        scope.spawn(move || {
            let journal = of_data.as_deref();
            let work = || produce(sources, &prepared, &**events, &jobs, &messages, ahead, journal);
            first_error.guard("Building requests", work)
        });
        if let Some(previewer) = previewer {
            // Running scores are not worth failing for.
            scope.spawn(move || {
                let work = || {
                    previewer.run();
                    Ok(())
                };
                drop(EngineError::guard(|| "Running scores".to_owned(), work));
            });
        }
        let grading = scope.spawn(move || first_error.guard("Scoring", || grader.run(&todo)));
        let collected = first_error.guard("Collecting answers", || collector.run(&inbox));
        // Scorers may ask judges until the last task is scored.
        let scored = grading.join().ok().flatten();
        pool.close();
        if let Some(python) = &options.data.python {
            python.set_judges(None);
        }
        // After a panic, the answers of requests in flight are still saved.
        inbox.iter().for_each(drop);
        (collected, scored)
    });
    if let Some(journal) = journal.and_then(Arc::into_inner) {
        journal.close()?;
    }
    if let Some((index, other)) = assumptions.refuted()
        && !options.cancel.is_cancelled()
    {
        return Ok(Ended::OtherModel(index, other));
    }
    if !stop.is_cancelled() {
        let asked = Arc::clone(model);
        contact.wait(async move { asked.conclude().await })?;
    }
    if let Some(error) = first_error.into_error() {
        return Err(error);
    }
    let (Some(collected), Some((results, code_limits))) = (collected, scored) else {
        return Err(EngineError::Internal("A thread of the run has ended without a result"));
    };
    if options.cancel.is_cancelled() && results.len() < sources.len() {
        let journal = options.journal.as_ref().filter(|_| is_saved).map(|journal| journal.path.clone());
        return Err(EngineError::Interrupted { answered: collected.answered, journal });
    }
    // The part of a run whose answers are not saved has digests for its files alone, like the whole run.
    let is_reported = wanted.is_some() || options.digests;
    let (digests, chat_digests) = digests_by_task(&keys, &collected, is_reported);
    let judges = pool.to_dict();
    let streamed = Streamed { results, collected, code_limits, judges, digests, chat_digests };
    Ok(Ended::Finished(Box::new(streamed)))
}

/// What requests are built from, with or without digests of the documents.
fn sources(planned: &[PlannedTask], digest: bool) -> Vec<(Arc<Task>, RequestOptions)> {
    let with_digest = |options: &RequestOptions| RequestOptions { digest, ..options.clone() };
    planned.iter().map(|planned| (Arc::clone(&planned.task), with_digest(&planned.options))).collect()
}

/// The digests of documents, if they are reported, and those of conversations, by task.
fn digests_by_task(keys: &[String], collected: &Collected, is_reported: bool) -> (Dict, Dict) {
    let (mut digests, mut chat_digests) = (Dict::new(), Dict::new());
    for (key, (digest, conversations)) in keys.iter().zip(&collected.digests) {
        if let Some(digest) = digest.as_ref().filter(|_| is_reported) {
            digests.insert(key.as_str(), Value::Str(Arc::clone(digest)));
        }
        if let Some(conversations) = conversations {
            chat_digests.insert(key.as_str(), format!("{conversations:032x}"));
        }
    }
    (digests, chat_digests)
}

/// Forwards the caller's cancellation to the run.
async fn forward_cancel(caller: Cancel, run: Cancel) {
    caller.cancelled().await;
    run.cancel();
}

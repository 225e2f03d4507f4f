//! The stream from documents to results.

use std::io::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use lmeval_core::{
    Answer, Arguments, InProcess, LocalModel, Model, ModelError, ModelErrorKind, ModelFuture, ModelIdentity,
    ModelRequest, ModelTraits, Response,
};
use lmeval_engine::{
    Cancel, EngineError, EvaluateOptions, Evaluated, Event, Events, JournalOptions, NoEvents, evaluate,
};
use lmeval_tasks::{BUILTIN_LIBRARY, Overrides, Spec, TaskDict, TaskManager};

pub(crate) fn tasks(names: &[&str]) -> TaskDict {
    let manager = TaskManager::new(&[BUILTIN_LIBRARY.into()]);
    let specs: Vec<Spec> = names.iter().map(|name| Spec::from(*name)).collect();
    manager.load(&specs, Overrides::default()).unwrap()
}

/// Answers by the length of the request, and counts calls.
#[derive(Debug, Default)]
pub(crate) struct Counting {
    pub(crate) asked: AtomicUsize,
    pub(crate) name: &'static str,
    pub(crate) batches: Mutex<Vec<usize>>,
    pub(crate) batch_size: usize,
    pub(crate) wants_every_request: bool,
}

impl Model for Counting {
    fn identity(&self) -> ModelFuture<'_, Result<ModelIdentity, ModelError>> {
        let facts = vec![("model", self.name.to_owned())];
        Box::pin(async { Ok(ModelIdentity { backend: "counting".to_owned(), facts }) })
    }

    fn traits(&self) -> ModelTraits {
        ModelTraits {
            batch_size: self.batch_size.max(1),
            in_flight: 4,
            wants_every_request: self.wants_every_request,
            ..ModelTraits::default()
        }
    }

    fn answer(&self, requests: Vec<ModelRequest>) -> ModelFuture<'_, Vec<Result<Answer, ModelError>>> {
        self.asked.fetch_add(requests.len(), Ordering::SeqCst);
        self.batches.lock().unwrap().push(requests.len());
        Box::pin(
            async move { requests.iter().map(|request| Ok(answer(&request.arguments).into())).collect() },
        )
    }
}

pub(crate) fn answer(arguments: &Arguments) -> Response {
    match arguments {
        Arguments::Loglikelihood { continuation, .. } => {
            Response::Loglikelihood { logprob: -(continuation.len() as f64), is_greedy: false }
        }
        Arguments::Rolling { text } => Response::Rolling { logprob: -(text.len() as f64) },
        Arguments::Generate { .. } => Response::Text("5".into()),
        Arguments::Letters { .. } => panic!("the model scores continuations"),
    }
}

pub(crate) fn run(
    model: &Arc<dyn Model>,
    names: &[&str],
    options: &EvaluateOptions,
) -> Result<Evaluated, EngineError> {
    let events: Arc<dyn Events> = Arc::new(NoEvents);
    evaluate(model, tasks(names), options, &events)
}

fn options() -> EvaluateOptions {
    EvaluateOptions { bootstrap_iters: 0, ..EvaluateOptions::default() }
}

/// The results of a run as a string.
pub(crate) fn shown(run: &Evaluated) -> String {
    lmeval_pycompat::repr::repr(&lmeval_pycompat::Value::from(run.results.to_dict()))
}

#[test]
fn reuses_answers_of_an_earlier_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("answers.journal");
    let journal = Some(JournalOptions { path, ..JournalOptions::default() });
    let options = EvaluateOptions { journal, ..options() };
    let first = Arc::new(Counting { name: "a", ..Counting::default() });
    let model: Arc<dyn Model> = first.clone();
    let one = run(&model, &["demo"], &options).unwrap();
    assert!(first.asked.load(Ordering::SeqCst) > 10);
    let second = Arc::new(Counting { name: "a", ..Counting::default() });
    let model: Arc<dyn Model> = second.clone();
    let two = run(&model, &["demo"], &options).unwrap();
    assert_eq!(second.asked.load(Ordering::SeqCst), 0);
    assert_eq!(shown(&one), shown(&two));
    // Another model reuses none of them.
    let other = Arc::new(Counting { name: "b", ..Counting::default() });
    let model: Arc<dyn Model> = other.clone();
    run(&model, &["demo"], &options).unwrap();
    assert_eq!(other.asked.load(Ordering::SeqCst), first.asked.load(Ordering::SeqCst));
    let fresh = JournalOptions { fresh: true, ..options.journal.clone().unwrap() };
    let options = EvaluateOptions { journal: Some(fresh), ..options };
    let again = Arc::new(Counting { name: "a", ..Counting::default() });
    let model: Arc<dyn Model> = again.clone();
    run(&model, &["demo"], &options).unwrap();
    assert_eq!(again.asked.load(Ordering::SeqCst), first.asked.load(Ordering::SeqCst));
}

#[test]
fn sends_identical_requests_once_in_full_batches() {
    let counting = Arc::new(Counting { batch_size: 8, ..Counting::default() });
    let model: Arc<dyn Model> = counting.clone();
    // The same task twice: alone and in a group.
    let run = run(&model, &["demo", "demo_capitals"], &options()).unwrap();
    assert!(run.answered > counting.asked.load(Ordering::SeqCst));
    let batches = counting.batches.lock().unwrap();
    assert!(batches.iter().all(|size| *size <= 8));
    assert!(batches.contains(&8), "{batches:?}");
}

#[test]
fn sends_identical_requests_to_a_model_that_wants_every_one() {
    let counting = || Arc::new(Counting { batch_size: 8, wants_every_request: true, ..Counting::default() });
    let live = counting();
    let model: Arc<dyn Model> = live.clone();
    let every = run(&model, &["demo", "demo_capitals"], &options()).unwrap();
    assert_eq!(every.answered, live.asked.load(Ordering::SeqCst));
    let model: Arc<dyn Model> = Arc::new(Counting { batch_size: 8, ..Counting::default() });
    assert_eq!(shown(&every), shown(&run(&model, &["demo", "demo_capitals"], &options()).unwrap()));
    // Whoever asks for a journal wants saved answers.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("answers.journal");
    let journal = Some(JournalOptions { path, ..JournalOptions::default() });
    let saving = counting();
    let model: Arc<dyn Model> = saving.clone();
    let saved = run(&model, &["demo", "demo_capitals"], &EvaluateOptions { journal, ..options() }).unwrap();
    assert!(saved.answered > saving.asked.load(Ordering::SeqCst));
}

#[test]
fn results_do_not_depend_on_batches() {
    let of_size = |batch_size| {
        let model: Arc<dyn Model> = Arc::new(Counting { batch_size, ..Counting::default() });
        shown(&run(&model, &["demo"], &options()).unwrap())
    };
    let one = of_size(1);
    assert_eq!(one, of_size(3));
    assert_eq!(one, of_size(500));
}

#[test]
fn drops_prompts_without_records() {
    let model: Arc<dyn Model> = Arc::new(Counting::default());
    let with = run(&model, &["demo"], &options()).unwrap();
    let without = run(&model, &["demo"], &EvaluateOptions { log_samples: false, ..options() }).unwrap();
    assert!(without.results.samples.is_empty());
    assert!(!with.results.samples.is_empty());
    assert!(with.scores().eq(without.scores()));
}

/// Cancels the run after some answers.
struct EndAfter {
    answers: AtomicUsize,
    cancel: Cancel,
}

impl Events for EndAfter {
    fn event(&self, event: Event<'_>) {
        if let Event::Answered { .. } = event
            && self.answers.fetch_add(1, Ordering::SeqCst) == 5
        {
            self.cancel.cancel();
        }
    }
}

#[test]
fn resumes_interrupted_run() {
    let folder = tempfile::tempdir().unwrap();
    let journal = JournalOptions { path: folder.path().join("x.journal"), ..JournalOptions::default() };
    let cancel = Cancel::new();
    let options = EvaluateOptions { journal: Some(journal), cancel: cancel.clone(), ..options() };
    let events: Arc<dyn Events> = Arc::new(EndAfter { answers: AtomicUsize::new(0), cancel });
    let first = Arc::new(Counting::default());
    let model: Arc<dyn Model> = first.clone();
    let error = evaluate(&model, tasks(&["demo"]), &options, &events).unwrap_err();
    assert!(matches!(error, EngineError::Interrupted { journal: Some(_), .. }), "{error}");
    let options = EvaluateOptions { cancel: Cancel::new(), ..options };
    let second = Arc::new(Counting::default());
    let model: Arc<dyn Model> = second.clone();
    let resumed = run(&model, &["demo"], &options).unwrap();
    let undisturbed = Arc::new(Counting::default());
    let model: Arc<dyn Model> = undisturbed.clone();
    let whole = run(&model, &["demo"], &EvaluateOptions { journal: None, ..options }).unwrap();
    assert_eq!(shown(&resumed), shown(&whole));
    let all = undisturbed.asked.load(Ordering::SeqCst);
    assert_eq!(first.asked.load(Ordering::SeqCst) + second.asked.load(Ordering::SeqCst), all);
}

/// A minimal model.
#[derive(Debug)]
struct Minimal;

impl LocalModel for Minimal {
    fn identity(&self) -> ModelIdentity {
        ModelIdentity { backend: "minimal".to_owned(), facts: Vec::new() }
    }

    fn answer(&self, request: &ModelRequest) -> Result<Response, ModelError> {
        Ok(answer(&request.arguments))
    }
}

#[test]
fn local_model_equals_async_model() {
    let minimal: Arc<dyn Model> = Arc::new(InProcess::new(Minimal));
    let counting: Arc<dyn Model> = Arc::new(Counting::default());
    let (one, other) =
        (run(&minimal, &["demo"], &options()).unwrap(), run(&counting, &["demo"], &options()).unwrap());
    assert_eq!(shown(&one), shown(&other));
}

/// Answers out of order, and fails some requests.
#[derive(Debug)]
struct Unsteady;

impl Model for Unsteady {
    fn identity(&self) -> ModelFuture<'_, Result<ModelIdentity, ModelError>> {
        Box::pin(async { Ok(ModelIdentity { backend: "unsteady".to_owned(), facts: Vec::new() }) })
    }

    fn traits(&self) -> ModelTraits {
        ModelTraits { batch_size: 3, in_flight: 8, ..ModelTraits::default() }
    }

    fn answer(&self, requests: Vec<ModelRequest>) -> ModelFuture<'_, Vec<Result<Answer, ModelError>>> {
        Box::pin(async move {
            for _ in 0..requests[0].doc_id.0 % 7 {
                tokio::task::yield_now().await;
            }
            let answers = requests.iter().map(|request| match request.doc_id.0 {
                index if index % 101 == 5 => Err(ModelError::new(ModelErrorKind::Request, "No answer")),
                index => Ok(Response::Text(format!("It is {}", index % 3).into()).into()),
            });
            answers.collect()
        })
    }
}

/// Documents are scored in blocks without records and all at once with records; the results are the same.
#[test]
fn results_do_not_depend_on_scoring_in_blocks() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data.jsonl");
    let mut rows = std::fs::File::create(&data).unwrap();
    for index in 0..5000 {
        writeln!(rows, "{{\"q\": \"Number {index}?\", \"a\": \"{}\"}}", index % 2).unwrap();
    }
    let definition = format!(
        "task: numbers\ndataset_path: json\ndataset_kwargs: {{data_files: {{test: '{}'}}}}\ntest_split: test\n\
         output_type: generate_until\ndoc_to_text: '{{{{q}}}}'\ndoc_to_target: '{{{{a}}}}'\n\
         metric_list: [{{metric: exact_match}}]\n\
         filter_list: [{{name: digit, filter: [{{function: regex, regex_pattern: '([01])'}}, {{function: take_first}}]}}]\n",
        data.display()
    );
    let file = folder.path().join("numbers.yaml");
    std::fs::File::create(&file).unwrap().write_all(definition.as_bytes()).unwrap();
    let model: Arc<dyn Model> = Arc::new(Unsteady);
    let events: Arc<dyn Events> = Arc::new(NoEvents);
    let outcome = |log_samples| {
        let manager = TaskManager::new(&[folder.path().to_owned()]);
        let tasks = manager.load(&[Spec::from("numbers")], Overrides::default()).unwrap();
        let options = EvaluateOptions { log_samples, bootstrap_iters: 200, ..options() };
        let mut run = evaluate(&model, tasks, &options, &events).unwrap();
        assert_eq!(run.failures.len(), 50);
        run.results.samples.clear();
        shown(&run)
    };
    let together = outcome(true);
    assert!(together.contains("'errored': 50") && together.contains("'effective': 4950"), "{together}");
    for _ in 0..3 {
        assert_eq!(outcome(false), together);
    }
}

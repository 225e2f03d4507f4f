//! A panic in any stage ends the run with an error that names the stage.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lmeval_core::{
    Answer, Model, ModelError, ModelFuture, ModelIdentity, ModelRequest, ModelTraits, Response,
};
use lmeval_engine::{EngineError, EvaluateOptions, Event, Events, NoEvents, evaluate};
use lmeval_pycompat::Value;
use lmeval_scoring::filters::{Filter, FilterDocs, FilterError, Filtered, Responses};
use lmeval_scoring::registry::{FilterEntry, Registry, ScorerEntry};
use lmeval_scoring::results::TaskResult;
use lmeval_scoring::scorers::{Needs, ScoreError, Scorer, Scores, ScoringInput};
use lmeval_tasks::{Overrides, Spec, TaskDict, TaskManager};
use tokio::sync::Notify;

/// Answers the first block of documents at once, the others when the run is stopped.
#[derive(Debug, Default)]
struct Slow {
    stopped: Notify,
    timed_out: AtomicBool,
}

/// The number of documents scored together.
const BLOCK: usize = 1024;

impl Model for Slow {
    fn identity(&self) -> ModelFuture<'_, Result<ModelIdentity, ModelError>> {
        Box::pin(async { Ok(ModelIdentity { backend: "slow".to_owned(), facts: Vec::new() }) })
    }

    fn traits(&self) -> ModelTraits {
        ModelTraits { batch_size: 1, in_flight: 1, ..ModelTraits::default() }
    }

    fn wind_down(&self) {
        self.stopped.notify_one();
    }

    fn answer(&self, requests: Vec<ModelRequest>) -> ModelFuture<'_, Vec<Result<Answer, ModelError>>> {
        Box::pin(async move {
            let waits = requests.iter().any(|request| request.doc_id.0 >= BLOCK);
            let waits = waits && !self.timed_out.load(Ordering::SeqCst);
            if waits && tokio::time::timeout(Duration::from_secs(20), self.stopped.notified()).await.is_err()
            {
                self.timed_out.store(true, Ordering::SeqCst);
            }
            requests.iter().map(|_| Ok(Response::Text("x".into()).into())).collect()
        })
    }
}

#[derive(Debug)]
struct PanickingFilter;

impl Filter for PanickingFilter {
    fn apply(&self, _: Responses, _: &FilterDocs<'_>) -> Result<Filtered, FilterError> {
        panic!("the filter panics")
    }

    fn is_per_request(&self) -> bool {
        true
    }
}

/// Panics on one document.
#[derive(Debug)]
struct PanickingScorer;

impl Scorer for PanickingScorer {
    fn name(&self) -> &'static str {
        "panicking"
    }

    fn needs(&self) -> Needs {
        Needs::NOTHING
    }

    fn score(&self, input: &ScoringInput<'_>) -> Result<Scores<Vec<Value>>, ScoreError> {
        assert!(input.doc_id().0 != 700, "the scorer panics");
        Ok([("exact_match", vec![Value::Int(1)])].into_iter().collect())
    }
}

/// A task of two blocks of documents, with additional lines.
fn numbers(folder: &tempfile::TempDir, lines: &str) -> TaskDict {
    let data = folder.path().join("data.jsonl");
    let rows: Vec<String> = (0..2 * BLOCK).map(|row| format!("{{\"q\": \"Number {row}?\"}}")).collect();
    fs_err::write(&data, rows.join("\n")).unwrap();
    let definition = format!(
        "task: numbers\ndataset_path: json\ndataset_kwargs: {{data_files: {{test: '{}'}}}}\ntest_split: test\n\
         output_type: generate_until\ndoc_to_text: '{{{{q}}}}'\ndoc_to_target: 'x'\n\
         metric_list: [{{metric: exact_match}}]\n{lines}",
        data.display()
    );
    fs_err::write(folder.path().join("numbers.yaml"), definition).unwrap();
    let mut registry = Registry::default();
    registry.register(FilterEntry::new("panicking", |_, _| Ok(Box::new(PanickingFilter)))).unwrap();
    registry.register(ScorerEntry::new("panicking", |_| Ok(Arc::new(PanickingScorer)))).unwrap();
    let manager = TaskManager::new(&[folder.path().to_owned()]).with_registry(registry);
    manager.load(&[Spec::from("numbers")], Overrides::default()).unwrap()
}

/// The error of a run on [`Slow`]. Without records, documents are scored in blocks while requests are in flight.
fn failure(lines: &str, events: &Arc<dyn Events>) -> EngineError {
    let folder = tempfile::tempdir().unwrap();
    let tasks = numbers(&folder, lines);
    let slow = Arc::new(Slow::default());
    let model: Arc<dyn Model> = Arc::<Slow>::clone(&slow);
    let options = EvaluateOptions { log_samples: false, ..EvaluateOptions::default() };
    let error = evaluate(&model, tasks, &options, events).unwrap_err();
    assert!(!slow.timed_out.load(Ordering::SeqCst), "requests were sent whose answers are never scored");
    error
}

#[test]
fn panicking_filter_is_named_with_task_and_documents() {
    let lines = "filter_list: [{name: f, filter: [{function: panicking}, {function: take_first}]}]\n";
    let error = failure(lines, &no_events()).to_string();
    // The first answered document, whichever it is, is scored at once.
    assert!(error.starts_with("Scoring document "), "{error}");
    assert!(error.ends_with(" of `numbers` panicked: the filter panics"), "{error}");
}

#[test]
fn panicking_scorer_is_named_with_task_and_document() {
    let error = failure("scorer: panicking\n", &no_events());
    assert_eq!(error.to_string(), "The task `numbers` cannot be scored");
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert_eq!(source, "Scoring document 700 panicked: the scorer panics");
}

fn no_events() -> Arc<dyn Events> {
    Arc::new(NoEvents)
}

/// Whether an event is of one kind.
type IsKind = fn(&Event<'_>) -> bool;

/// Panics on one kind of event.
struct PanickingEvents(IsKind);

impl Events for PanickingEvents {
    fn event(&self, event: Event<'_>) {
        assert!(!(self.0)(&event), "the listener panics");
    }

    fn scored(&self, _: &TaskResult) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        Ok(())
    }
}

#[test]
fn panicking_listener_ends_every_stage() {
    let stages: [(IsKind, &str); 3] = [
        (|event| matches!(event, Event::Prepared { .. }), "Loading data panicked: the listener panics"),
        (
            |event| matches!(event, Event::FirstDocument { .. }),
            "Building requests panicked: the listener panics",
        ),
        (|event| matches!(event, Event::Answered { .. }), "The model panicked"),
    ];
    for (panics_on, expected) in stages {
        let events: Arc<dyn Events> = Arc::new(PanickingEvents(panics_on));
        let error = failure("", &events).to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}

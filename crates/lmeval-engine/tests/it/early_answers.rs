//! Models that deliver answers one by one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use lmeval_core::{
    Answer, AnswerSink, Model, ModelError, ModelErrorKind, ModelFuture, ModelIdentity, ModelRequest,
    ModelTraits,
};
use lmeval_engine::{EngineError, EvaluateOptions, JournalOptions};

use crate::stream::{answer, run, shown};

/// Delivers the answers of a batch in reverse order, and may fail within the first batch.
#[derive(Debug, Default)]
struct Early {
    fails: AtomicBool,
    /// Whether it leaves one request of each batch unanswered.
    forgets: bool,
    answered: AtomicUsize,
    batches: AtomicUsize,
}

impl Model for Early {
    fn identity(&self) -> ModelFuture<'_, Result<ModelIdentity, ModelError>> {
        Box::pin(async { Ok(ModelIdentity { backend: "early".to_owned(), facts: Vec::new() }) })
    }

    fn traits(&self) -> ModelTraits {
        ModelTraits { batch_size: 10_000, fill_time: Duration::from_secs(20), ..ModelTraits::default() }
    }

    fn answer(&self, _: Vec<ModelRequest>) -> ModelFuture<'_, Vec<Result<Answer, ModelError>>> {
        unreachable!("answers are delivered one by one")
    }

    fn answer_each(&self, requests: Vec<ModelRequest>, mut sink: AnswerSink) -> ModelFuture<'_, ()> {
        self.batches.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            let half = requests.len() / 2;
            for (index, request) in requests.iter().enumerate().rev() {
                if self.fails.load(Ordering::SeqCst) && index == half {
                    return sink(index, Err(ModelError::new(ModelErrorKind::Capability, "Broken")));
                }
                if self.forgets && index == 0 {
                    return;
                }
                self.answered.fetch_add(1, Ordering::SeqCst);
                sink(index, Ok(answer(&request.arguments).into()));
                // A second answer to the same request and an answer to no request are ignored.
                sink(index, Err(ModelError::new(ModelErrorKind::Capability, "No such request")));
                sink(requests.len(), Ok(answer(&request.arguments).into()));
            }
        })
    }
}

fn options() -> EvaluateOptions {
    EvaluateOptions { bootstrap_iters: 0, ..EvaluateOptions::default() }
}

#[test]
fn saves_answers_delivered_before_a_failure() {
    let folder = tempfile::tempdir().unwrap();
    let journal = JournalOptions { path: folder.path().join("x.journal"), ..JournalOptions::default() };
    let kept = EvaluateOptions { journal: Some(journal), ..options() };
    let early = Arc::new(Early { fails: AtomicBool::new(true), ..Early::default() });
    let model: Arc<dyn Model> = early.clone();
    let error = run(&model, &["demo_capitals"], &kept).unwrap_err();
    assert!(matches!(error, EngineError::Model(_)), "{error}");
    let first = early.answered.swap(0, Ordering::SeqCst);
    assert!(first > 0);
    early.fails.store(false, Ordering::SeqCst);
    let whole = run(&model, &["demo_capitals"], &kept).unwrap();
    let second = early.answered.swap(0, Ordering::SeqCst);
    let undisturbed = run(&model, &["demo_capitals"], &options()).unwrap();
    assert_eq!(first + second, early.answered.load(Ordering::SeqCst));
    assert_eq!(shown(&whole), shown(&undisturbed));
    // All requests go into one batch, because the model waits for them.
    assert_eq!(early.batches.load(Ordering::SeqCst), 3);
}

#[test]
fn unanswered_request_fails() {
    let model: Arc<dyn Model> = Arc::new(Early { forgets: true, ..Early::default() });
    let run = run(&model, &["demo_capitals"], &options()).unwrap();
    assert_eq!(run.failures.len(), 1);
    assert_eq!(run.failures[0].error.to_string(), "The model did not answer this request");
}

//! Runs with failing models and requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use lmeval_core::{
    Answer, InProcess, LocalModel, Model, ModelError, ModelErrorKind, ModelFuture, ModelIdentity,
    ModelRequest, ModelTraits, RequestType, Response,
};
use lmeval_engine::{EngineError, EvaluateOptions, JournalOptions};
use lmeval_pycompat::Value;
use lmeval_pycompat::repr::repr;

use crate::stream::{answer, run, shown};

/// Fails on some documents until it is repaired.
#[derive(Debug)]
struct Failing {
    fails: AtomicBool,
    kind: ModelErrorKind,
    every: usize,
    asked: AtomicUsize,
    panics: bool,
    /// Whether it answers those documents with more than a journal record can hold.
    rambles: bool,
}

impl Failing {
    fn new(kind: ModelErrorKind, every: usize) -> Arc<Self> {
        let (fails, asked) = (AtomicBool::new(true), AtomicUsize::new(0));
        Arc::new(Self { fails, kind, every, asked, panics: false, rambles: false })
    }
}

impl Model for Failing {
    fn identity(&self) -> ModelFuture<'_, Result<ModelIdentity, ModelError>> {
        Box::pin(async { Ok(ModelIdentity { backend: "failing".to_owned(), facts: Vec::new() }) })
    }

    fn supports(&self, kind: RequestType) -> Result<(), ModelError> {
        if self.kind == ModelErrorKind::Unsupported && kind == RequestType::Loglikelihood {
            return Err(ModelError::new(self.kind, "Only generation is supported"));
        }
        Ok(())
    }

    fn traits(&self) -> ModelTraits {
        ModelTraits { batch_size: 2, in_flight: 3, ..ModelTraits::default() }
    }

    fn answer(&self, requests: Vec<ModelRequest>) -> ModelFuture<'_, Vec<Result<Answer, ModelError>>> {
        self.asked.fetch_add(requests.len(), Ordering::SeqCst);
        assert!(!self.panics, "a user's model");
        let fails = |request: &ModelRequest| {
            self.fails.load(Ordering::SeqCst) && request.doc_id.0.is_multiple_of(self.every)
        };
        let answers = requests.iter().map(|request| {
            if fails(request) && self.rambles {
                return Ok(Response::Text("x".repeat(257 << 20).into()).into());
            }
            if fails(request) {
                return Err(ModelError::new(self.kind, "No answer"));
            }
            Ok(answer(&request.arguments).into())
        });
        let answers: Vec<_> = answers.collect();
        Box::pin(async move { answers })
    }
}

fn options() -> EvaluateOptions {
    EvaluateOptions { bootstrap_iters: 0, ..EvaluateOptions::default() }
}

#[test]
fn excludes_failed_documents_and_retries_them() {
    let folder = tempfile::tempdir().unwrap();
    let journal = JournalOptions { path: folder.path().join("x.journal"), ..JournalOptions::default() };
    let options = EvaluateOptions { journal: Some(journal), ..options() };
    let failing = Failing::new(ModelErrorKind::Request, 3);
    let model: Arc<dyn Model> = failing.clone();
    let partial = run(&model, &["demo_capitals"], &options).unwrap();
    let asked = failing.asked.swap(0, Ordering::SeqCst);
    let failed = partial.failures.len();
    assert!(failed > 0 && failed < asked);
    let shown_audit = repr(&Value::from(partial.results.sections().audit));
    assert!(!shown_audit.contains("'errored': 0"), "{shown_audit}");
    failing.fails.store(false, Ordering::SeqCst);
    let whole = run(&model, &["demo_capitals"], &options).unwrap();
    assert!(whole.failures.is_empty());
    assert_eq!(failing.asked.load(Ordering::SeqCst), failed);
    let undisturbed = run(&model, &["demo_capitals"], &EvaluateOptions { journal: None, ..options }).unwrap();
    assert_eq!(shown(&whole), shown(&undisturbed));
}

#[test]
fn too_many_failures_end_the_run() {
    let model: Arc<dyn Model> = Failing::new(ModelErrorKind::Request, 1);
    let error = run(&model, &["demo"], &EvaluateOptions { max_failures: Some(2), ..options() }).unwrap_err();
    assert!(matches!(error, EngineError::TooManyFailures { .. }), "{error}");
    let error = run(&model, &["demo"], &options()).unwrap_err();
    assert!(matches!(error, EngineError::NothingAnswered { .. }), "{error}");
}

#[test]
fn fatal_error_ends_the_run_at_once() {
    let failing = Failing::new(ModelErrorKind::Authentication, 1);
    let model: Arc<dyn Model> = failing.clone();
    let error = run(&model, &["demo"], &options()).unwrap_err();
    assert!(matches!(error, EngineError::Model(_)), "{error}");
    assert!(failing.asked.load(Ordering::SeqCst) <= 12, "{:?}", failing.asked);
}

#[test]
fn unsupported_request_type_fails_before_sending() {
    let failing = Failing::new(ModelErrorKind::Unsupported, 1);
    let model: Arc<dyn Model> = failing.clone();
    let error = run(&model, &["demo"], &options()).unwrap_err();
    assert!(matches!(error, EngineError::Unsupported { .. }), "{error}");
    assert_eq!(failing.asked.load(Ordering::SeqCst), 0);
}

#[test]
fn model_panic_is_an_error() {
    let (fails, asked) = (AtomicBool::new(false), AtomicUsize::new(0));
    let model: Arc<dyn Model> = Arc::new(Failing {
        fails,
        kind: ModelErrorKind::Request,
        every: 1,
        asked,
        panics: true,
        rambles: false,
    });
    let error = run(&model, &["demo_capitals"], &options()).unwrap_err();
    assert!(error.to_string().contains("The model panicked"), "{error}");
}

#[test]
fn oversized_answer_fails_only_its_request() {
    let folder = tempfile::tempdir().unwrap();
    let journal = JournalOptions { path: folder.path().join("x.journal"), ..JournalOptions::default() };
    let options = EvaluateOptions { journal: Some(journal), ..options() };
    let (fails, asked) = (AtomicBool::new(true), AtomicUsize::new(0));
    let kind = ModelErrorKind::Request;
    let rambling = Arc::new(Failing { fails, kind, every: 1000, asked, panics: false, rambles: true });
    let model: Arc<dyn Model> = rambling.clone();
    let partial = run(&model, &["demo_arithmetic"], &options).unwrap();
    assert_eq!(partial.failures.len(), 1);
    assert!(partial.failures[0].error.to_string().contains("too long for the journal"));
    let asked = rambling.asked.swap(0, Ordering::SeqCst);
    rambling.fails.store(false, Ordering::SeqCst);
    let whole = run(&model, &["demo_arithmetic"], &options).unwrap();
    assert!(whole.failures.is_empty() && asked > 1);
    assert_eq!(rambling.asked.load(Ordering::SeqCst), 1);
}

/// Answers every third request with something that cannot be a log-likelihood.
#[derive(Debug)]
struct Broken(Response);

impl LocalModel for Broken {
    fn identity(&self) -> ModelIdentity {
        ModelIdentity { backend: "broken".to_owned(), facts: Vec::new() }
    }

    fn answer(&self, request: &ModelRequest) -> Result<Response, ModelError> {
        Ok(if request.doc_id.0.is_multiple_of(3) { self.0.clone() } else { answer(&request.arguments) })
    }
}

#[test]
fn wrong_answers_fail_their_requests_by_name() {
    let scored = |logprob| Response::Loglikelihood { logprob, is_greedy: true };
    for (response, shown) in [
        (scored(f64::NAN), "a log-likelihood of NaN"),
        (scored(f64::INFINITY), "a log-likelihood of infinity"),
        (scored(f64::NEG_INFINITY), "a log-likelihood of minus infinity"),
        (scored(2.5), "a log-likelihood of 2.5"),
        (Response::Rolling { logprob: -1.0 }, "with a rolling log-likelihood"),
        (Response::Text("A".into()), "with a string"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.journal");
        let options = EvaluateOptions {
            journal: Some(JournalOptions { path, ..JournalOptions::default() }),
            ..options()
        };
        let model: Arc<dyn Model> = Arc::new(InProcess::new(Broken(response)));
        for _ in 0..2 {
            let partial = run(&model, &["demo_capitals"], &options).unwrap();
            let failure = partial.failures.first().unwrap_or_else(|| panic!("{shown}"));
            assert!(failure.error.to_string().ends_with(shown), "{}", failure.error);
            assert!(failure.request.doc_id.0.is_multiple_of(3));
            assert!(failure.request.describe().starts_with("`demo_capitals`, document "));
            let audit = repr(&Value::from(partial.results.sections().audit));
            assert!(!audit.contains("'errored': 0"), "{audit}");
        }
    }
}

#[test]
fn rounding_noise_is_accepted() {
    let model: Arc<dyn Model> =
        Arc::new(InProcess::new(Broken(Response::Loglikelihood { logprob: 1e-5, is_greedy: true })));
    assert!(run(&model, &["demo_capitals"], &options()).unwrap().failures.is_empty());
}

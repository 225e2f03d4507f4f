//! Judges of a run, asked by the scorer `judge` and by scorers in Rust.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use lmeval_core::{Diagnose as _, Model};
use lmeval_engine::{EvaluateOptions, Events, JournalOptions, JudgeModel, NoEvents, evaluate};
use lmeval_pycompat::{Dict, Value};
use lmeval_scoring::judge::JudgeQuestion;
use lmeval_scoring::registry::{Registry, ScorerEntry};
use lmeval_scoring::scorers::{ScoreError, Scorer, Scores, ScoringInput};
use lmeval_tasks::{BUILTIN_LIBRARY, Overrides, Spec, TaskManager};

use crate::stream::{Counting, run};

fn judge(role: &str, model: &Arc<Counting>) -> JudgeModel {
    let model: Arc<dyn Model> = model.clone();
    JudgeModel { role: role.into(), model, settings: Dict::new(), in_caller: false }
}

/// Asks the judge about every answer.
#[derive(Debug)]
struct Asking;

impl Scorer for Asking {
    fn name(&self) -> &'static str {
        "asking"
    }

    fn score(&self, input: &ScoringInput<'_>) -> Result<Scores<Vec<Value>>, ScoreError> {
        let question = |prompt: &Value| JudgeQuestion {
            role: "grader".into(),
            system: None,
            prompt: prompt.as_str().unwrap_or_default().into(),
            generation: Arc::default(),
            repeat: 0,
            from_caller: false,
        };
        let answers = input.judges.ask(input.predictions()?.iter().map(question).collect());
        let values =
            answers.into_iter().map(|answer| Value::Bool(answer.is_ok_and(|answer| &*answer == "5")));
        Ok([("asked", values.collect())].into_iter().collect())
    }
}

#[test]
fn scorers_in_rust_ask_bound_judges() {
    let mut registry = Registry::default();
    registry.register(ScorerEntry::new("asking", |_| Ok(Arc::new(Asking)))).unwrap();
    let manager = TaskManager::new(&[BUILTIN_LIBRARY.into()]).with_registry(registry);
    let overrides: Overrides = [(
        "demo_translate".to_owned(),
        [(Value::str("scorer"), Value::str("asking")), (Value::str("metric_list"), Value::list([]))]
            .into_iter()
            .collect(),
    )]
    .into_iter()
    .collect();
    let tasks = manager.load(&[Spec::from("demo_translate")], overrides).unwrap();
    let grader = Arc::new(Counting { name: "grader", ..Counting::default() });
    let model: Arc<dyn Model> = Arc::new(Counting { name: "m", ..Counting::default() });
    let options = EvaluateOptions {
        bootstrap_iters: 0,
        judges: vec![judge("grader", &grader)],
        ..EvaluateOptions::default()
    };
    let events: Arc<dyn Events> = Arc::new(NoEvents);
    let run = evaluate(&model, tasks, &options, &events).unwrap();
    assert_eq!(run.score("demo_translate", "asked"), Some(1.0));
    // All answers are equal, so the judge is asked once.
    assert_eq!(grader.asked.load(Ordering::SeqCst), 1);
}

#[test]
fn judgements_are_saved_apart_from_answers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("answers.journal");
    let counting = |name| Arc::new(Counting { name, ..Counting::default() });
    let once = |name: &'static str, grader: &Arc<Counting>| {
        let options = EvaluateOptions {
            bootstrap_iters: 0,
            journal: Some(JournalOptions { path: path.clone(), ..JournalOptions::default() }),
            judges: vec![judge("grader", grader)],
            ..EvaluateOptions::default()
        };
        let model = counting(name);
        let evaluated: Arc<dyn Model> = model.clone();
        let run = run(&evaluated, &["demo_judge"], &options).unwrap();
        (run, model.asked.load(Ordering::SeqCst))
    };
    // The same model evaluates and judges: its answers as a judge are not those that are evaluated.
    let (first, grader) = (counting("m"), counting("m"));
    let (one, asked) = once("m", &first);
    assert!(asked > 10 && first.asked.load(Ordering::SeqCst) > 10);
    let (two, asked) = once("m", &grader);
    assert_eq!((asked, grader.asked.load(Ordering::SeqCst)), (0, 0));
    assert_eq!(crate::stream::shown(&one), crate::stream::shown(&two));
    let [(_, statistics)] = two.results.tasks[0].judging.as_slice() else { panic!("one pipeline") };
    // The judge answers `5`, which is not a grade.
    assert_eq!(statistics.get_str("unparsed_share"), Some(&Value::Float(1.0)));
    assert!(two.score("demo_judge", "judge_score").unwrap().is_nan());
}

#[test]
fn unbound_role_fails_before_the_first_request() {
    let model = Arc::new(Counting { name: "m", ..Counting::default() });
    let evaluated: Arc<dyn Model> = model.clone();
    let error = run(&evaluated, &["demo_judge"], &EvaluateOptions::default()).unwrap_err();
    assert_eq!(error.to_string(), "The task `demo_judge` cannot be judged");
    assert!(error.headline().contains("demo_judge"));
    assert_eq!(model.asked.load(Ordering::SeqCst), 0);
}

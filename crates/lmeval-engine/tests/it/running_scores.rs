//! Scores for those who watch a run.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lmeval_core::{
    Answer, Model, ModelError, ModelErrorKind, ModelFuture, ModelIdentity, ModelRequest, ModelTraits,
    Response,
};
use lmeval_engine::{EvaluateOptions, Event, Events, evaluate};
use lmeval_tasks::{Overrides, Spec, TaskDict, TaskManager};
use tokio::sync::Notify;

/// How long the last repeats are held back if no running score appears, which fails the test.
const PATIENCE: Duration = Duration::from_mins(1);

/// The repeats of each document: of the first three answers, one is right.
const REPEATS: usize = 4;

/// The running scores that were seen, and what waits for one.
#[derive(Debug, Default)]
struct Watch {
    /// The number of documents and the mean, each time, and whether the document was complete.
    seen: Mutex<Vec<(usize, f64, bool)>>,
    /// Released once the running score is that of the repeats that have arrived.
    arrived: Notify,
}

impl Events for Watch {
    fn event(&self, event: Event<'_>) {
        if let Event::Previewed { document, scores, .. } = event
            && let Some(score) = scores.first()
        {
            self.seen.lock().unwrap().push((score.count, score.mean, document.is_some()));
            if score.count == 1 && (score.mean - 1.0 / 3.0).abs() < 1e-12 {
                self.arrived.notify_one();
            }
        }
    }
}

/// Answers `x`, `y`, `z` to the first repeats of the first document, and holds its last one back until the running score has
/// all three, and with it the second document.
#[derive(Debug)]
struct Holding(Arc<Watch>);

impl Model for Holding {
    fn identity(&self) -> ModelFuture<'_, Result<ModelIdentity, ModelError>> {
        Box::pin(async { Ok(ModelIdentity { backend: "holding".to_owned(), facts: Vec::new() }) })
    }

    fn traits(&self) -> ModelTraits {
        ModelTraits { batch_size: 1, in_flight: REPEATS, ..ModelTraits::default() }
    }

    fn answer(&self, requests: Vec<ModelRequest>) -> ModelFuture<'_, Vec<Result<Answer, ModelError>>> {
        Box::pin(async move {
            let [request] = requests.as_slice() else { panic!("batches have one request") };
            let mut texts = VecDeque::from(["x", "y", "z", "x"]);
            texts.rotate_left(request.repeat);
            if request.doc_id.0 > 0 || request.repeat == REPEATS - 1 {
                let held = tokio::time::timeout(PATIENCE, self.0.arrived.notified()).await;
                self.0.arrived.notify_one();
                if held.is_err() {
                    let message = "no running score of the first repeats";
                    return vec![Err(ModelError::new(ModelErrorKind::Capability, message))];
                }
            }
            vec![Ok(Response::Text(texts[0].into()).into())]
        })
    }
}

fn task(folder: &std::path::Path) -> TaskDict {
    fs_err::write(folder.join("data.jsonl"), "{\"q\": \"a\"}\n{\"q\": \"b\"}\n").unwrap();
    let definition = format!(
        "task: held\ndataset_path: json\ndataset_kwargs: {{data_files: {{test: '{}'}}}}\ntest_split: test\n\
         output_type: generate_until\ndoc_to_text: '{{{{q}}}}'\ndoc_to_target: 'x'\nrepeats: {REPEATS}\n\
         generation_kwargs: {{until: [], do_sample: true, temperature: 1}}\n\
         metric_list: [{{metric: exact_match, reduction: mean}}]\n\
         filter_list: [{{name: all, filter: [{{function: lowercase}}]}}]\n",
        folder.join("data.jsonl").display()
    );
    fs_err::write(folder.join("held.yaml"), definition).unwrap();
    let manager = TaskManager::new(&[folder.to_owned()]);
    manager.load(&[Spec::from("held")], Overrides::default()).unwrap()
}

#[test]
fn repeats_stream_into_the_running_score() {
    let folder = tempfile::tempdir().unwrap();
    let watch = Arc::<Watch>::default();
    let model: Arc<dyn Model> = Arc::new(Holding(Arc::clone(&watch)));
    let options = EvaluateOptions { bootstrap_iters: 0, preview: true, ..EvaluateOptions::default() };
    let events: Arc<dyn Events> = Arc::<Watch>::clone(&watch);
    let run = evaluate(&model, task(folder.path()), &options, &events).unwrap();
    assert_eq!(run.answered, 2 * REPEATS);
    let seen = watch.seen.lock().unwrap();
    // Nothing was complete before the repeats that are held back.
    let partial: Vec<_> = seen.iter().take_while(|(.., is_complete)| !is_complete).collect();
    assert!(
        partial.iter().any(|(count, mean, _)| *count == 1 && (mean - 1.0 / 3.0).abs() < 1e-12),
        "{seen:?}"
    );
}

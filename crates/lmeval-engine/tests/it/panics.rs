//! A panic of the code that scores ends the run.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lmeval_core::filters::{Filter, FilterDocs, FilterError, Filtered, Responses};
use lmeval_core::registry::{FilterEntry, Registry};
use lmeval_core::{Answer, Dispatch, Model, ModelError, ModelFuture, ModelIdentity, ModelRequest, Response};
use lmeval_engine::{EvaluateOptions, Events, NoEvents, evaluate};
use lmeval_tasks::{Overrides, Spec, TaskManager};
use tokio::sync::Notify;

/// Answers the first documents at once, the others when the run is to end.
#[derive(Debug, Default)]
struct Slow {
    ending: Notify,
    waited_in_vain: AtomicBool,
}

/// As many documents as are scored at a time.
const BLOCK: usize = 1024;

impl Model for Slow {
    fn identity(&self) -> ModelFuture<'_, Result<ModelIdentity, ModelError>> {
        Box::pin(async { Ok(ModelIdentity { backend: "slow".to_owned(), facts: Vec::new() }) })
    }

    fn dispatch(&self) -> Dispatch {
        Dispatch { batch_size: 1, in_flight: 1 }
    }

    fn wind_down(&self) {
        self.ending.notify_one();
    }

    fn answer(&self, requests: Vec<ModelRequest>) -> ModelFuture<'_, Vec<Result<Answer, ModelError>>> {
        Box::pin(async move {
            let waits = requests.iter().any(|request| request.doc_id.0 >= BLOCK);
            let waits = waits && !self.waited_in_vain.load(Ordering::SeqCst);
            if waits && tokio::time::timeout(Duration::from_secs(20), self.ending.notified()).await.is_err() {
                self.waited_in_vain.store(true, Ordering::SeqCst);
            }
            requests.iter().map(|_| Ok(Response::Text("x".into()).into())).collect()
        })
    }
}

#[derive(Debug)]
struct Panicking;

impl Filter for Panicking {
    fn apply(&self, _: Responses, _: &FilterDocs<'_>) -> Result<Filtered, FilterError> {
        panic!("the filter panics")
    }

    fn is_per_request(&self) -> bool {
        true
    }
}

#[test]
fn a_panic_while_scoring_ends_the_run_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data.jsonl");
    let rows: Vec<String> = (0..2 * BLOCK).map(|row| format!("{{\"q\": \"Number {row}?\"}}")).collect();
    fs_err::write(&data, rows.join("\n")).unwrap();
    let definition = format!(
        "task: numbers\ndataset_path: json\ndataset_kwargs: {{data_files: {{test: '{}'}}}}\ntest_split: test\n\
         output_type: generate_until\ndoc_to_text: '{{{{q}}}}'\ndoc_to_target: 'x'\n\
         metric_list: [{{metric: exact_match}}]\n\
         filter_list: [{{name: f, filter: [{{function: panicking}}, {{function: take_first}}]}}]\n",
        data.display()
    );
    fs_err::write(folder.path().join("numbers.yaml"), definition).unwrap();
    let mut registry = Registry::default();
    registry.register(FilterEntry::new("panicking", |_, _| Ok(Box::new(Panicking)))).unwrap();
    let manager = TaskManager::new(&[folder.path().to_owned()]).with_registry(registry);
    let tasks = manager.load(&[Spec::from("numbers")], Overrides::default()).unwrap();
    let slow = Arc::new(Slow::default());
    let model: Arc<dyn Model> = Arc::<Slow>::clone(&slow);
    let events: Arc<dyn Events> = Arc::new(NoEvents);
    // Without records documents are scored in blocks, while the model still has some to answer.
    let options = EvaluateOptions { log_samples: false, ..EvaluateOptions::default() };
    let run = || evaluate(&model, tasks, &options, &events);
    let panic = catch_unwind(AssertUnwindSafe(run)).unwrap_err();
    assert_eq!(panic.downcast_ref(), Some(&"the filter panics"));
    assert!(
        !slow.waited_in_vain.load(Ordering::SeqCst),
        "the model was asked for answers that nobody scores"
    );
}

//! Limits how far request building may run ahead of collecting and scoring.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::cancel::Cancel;

/// How many documents may wait to be collected or scored. Bounds memory. Only the thread that builds requests
/// blocks on it: it is the one thread that can wait without delaying requests in flight.
pub(crate) const MAX_WAITING: usize = 65_536;

/// Counts documents that were sent on and not yet processed.
#[derive(Debug)]
pub(crate) struct Backlog {
    max_waiting: usize,
    waiting: Mutex<usize>,
    freed: Condvar,
}

impl Backlog {
    pub(crate) fn new(max_waiting: usize) -> Self {
        Self { max_waiting, waiting: Mutex::new(0), freed: Condvar::new() }
    }

    /// The number of documents at which a full backlog has room again. Below the maximum, so that the thread that waits is not
    /// woken for every document.
    fn resumes_at(&self) -> usize {
        self.max_waiting.saturating_sub((self.max_waiting / 8).max(1))
    }

    /// Whether the maximum number of documents is waiting.
    pub(crate) fn is_full(&self) -> bool {
        *self.waiting.lock().unwrap_or_else(PoisonError::into_inner) >= self.max_waiting
    }

    /// Waits for room, then counts one document. Returns false if the run is being stopped.
    pub(crate) fn enter_when_free(&self, stop: &Cancel) -> bool {
        // Cancelling does not signal the condition variable.
        const POLL_INTERVAL: Duration = Duration::from_millis(50);
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = *waiting >= self.max_waiting;
        while is_full && *waiting > self.resumes_at() && !stop.is_cancelled() {
            waiting =
                self.freed.wait_timeout(waiting, POLL_INTERVAL).unwrap_or_else(PoisonError::into_inner).0;
        }
        *waiting += 1;
        !stop.is_cancelled()
    }

    /// Counts documents without waiting.
    pub(crate) fn enter(&self, documents: usize) {
        *self.waiting.lock().unwrap_or_else(PoisonError::into_inner) += documents;
    }

    /// Forgets all documents, before a run starts over.
    pub(crate) fn reset(&self) {
        *self.waiting.lock().unwrap_or_else(PoisonError::into_inner) = 0;
    }

    /// Removes processed documents from the count.
    pub(crate) fn leave(&self, documents: usize) {
        if documents > 0 {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            *waiting -= documents;
            if *waiting <= self.resumes_at() {
                self.freed.notify_all();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use lmeval_core::{InProcess, LocalModel, Model, ModelError, ModelIdentity, ModelRequest, Response};
    use lmeval_scoring::filters::{Filter, FilterDocs, FilterError, Filtered, Responses};
    use lmeval_scoring::registry::{FilterEntry, Registry};
    use lmeval_tasks::{Overrides, Spec, TaskManager};

    use super::*;
    use crate::evaluate::evaluate_with;
    use crate::event::{Event, Events};
    use crate::options::EvaluateOptions;

    #[test]
    fn full_backlog_blocks_until_room_or_cancel() {
        let (backlog, stop) = (Backlog::new(2), Cancel::new());
        assert!(backlog.enter_when_free(&stop));
        backlog.enter(1);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| backlog.enter_when_free(&stop));
            backlog.leave(1);
            assert!(waits.join().expect("it does not panic"));
            let waits = scope.spawn(|| backlog.enter_when_free(&stop));
            stop.cancel();
            assert!(!waits.join().expect("it does not panic"));
        });
        assert_eq!(*backlog.waiting.lock().expect("nothing panicked"), 3);
    }

    #[derive(Debug)]
    struct Instant;

    impl LocalModel for Instant {
        fn identity(&self) -> ModelIdentity {
            ModelIdentity { backend: "instant".to_owned(), facts: Vec::new() }
        }

        fn answer(&self, _: &ModelRequest) -> Result<Response, ModelError> {
            Ok(Response::Text("x".into()))
        }
    }

    #[derive(Debug, Default)]
    struct CountBuilt(AtomicUsize);

    impl Events for CountBuilt {
        fn event(&self, event: Event<'_>) {
            if let Event::Built { count, .. } = event {
                self.0.fetch_add(count, Ordering::SeqCst);
            }
        }
    }

    /// On its first call, waits until no more requests are built, and stores the count.
    #[derive(Debug)]
    struct Blocking {
        built: Arc<CountBuilt>,
        while_blocked: Arc<AtomicUsize>,
    }

    impl Filter for Blocking {
        fn apply(&self, responses: Responses, _: &FilterDocs<'_>) -> Result<Filtered, FilterError> {
            let mut built = 0;
            while self.while_blocked.load(Ordering::SeqCst) == 0 {
                let before = std::mem::replace(&mut built, self.built.0.load(Ordering::SeqCst));
                if built == before {
                    self.while_blocked.store(built, Ordering::SeqCst);
                }
                std::thread::sleep(Duration::from_millis(300));
            }
            Ok(responses.into())
        }

        fn is_per_request(&self) -> bool {
            true
        }
    }

    #[test]
    fn building_waits_for_scoring() {
        const DOCUMENTS: usize = 12_288;
        let folder = tempfile::tempdir().expect("a folder");
        let data = folder.path().join("data.jsonl");
        let row = |row| format!("{{\"q\": \"Number {row}?\"}}");
        let rows: Vec<String> = (0..DOCUMENTS).map(row).collect();
        fs_err::write(&data, rows.join("\n")).expect("the data is written");
        let definition = format!(
            "task: numbers\ndataset_path: json\ndataset_kwargs: {{data_files: {{test: '{}'}}}}\ntest_split: test\n\
             output_type: generate_until\ndoc_to_text: '{{{{q}}}}'\ndoc_to_target: 'x'\n\
             metric_list: [{{metric: exact_match}}]\n\
             filter_list: [{{name: f, filter: [{{function: blocking}}, {{function: take_first}}]}}]\n",
            data.display()
        );
        fs_err::write(folder.path().join("numbers.yaml"), definition).expect("the task is written");
        let (built, while_blocked) = (Arc::<CountBuilt>::default(), Arc::<AtomicUsize>::default());
        let of_filter = (Arc::clone(&built), Arc::clone(&while_blocked));
        let mut registry = Registry::default();
        let entry = FilterEntry::new("blocking", move |_, _| {
            let (built, while_blocked) = of_filter.clone();
            Ok(Box::new(Blocking { built, while_blocked }))
        });
        registry.register(entry).expect("the name is free");
        let manager = TaskManager::new(&[folder.path().to_owned()]).with_registry(registry);
        let tasks = manager.load(&[Spec::from("numbers")], Overrides::default()).expect("the task is valid");
        let model: Arc<dyn Model> = Arc::new(InProcess::new(Instant));
        // Without records, documents are scored in blocks.
        let options =
            EvaluateOptions { log_samples: false, bootstrap_iters: 0, ..EvaluateOptions::default() };
        let events: Arc<dyn Events> = Arc::<CountBuilt>::clone(&built);
        let run = evaluate_with(&model, tasks, &options, &events, &Backlog::new(2048)).expect("it runs");
        // Beyond the backlog there may be a block that is not full and the queue of the model.
        let while_blocked = while_blocked.load(Ordering::SeqCst);
        assert!((2048..=6144).contains(&while_blocked), "{while_blocked}");
        assert_eq!((built.0.load(Ordering::SeqCst), run.answered), (DOCUMENTS, DOCUMENTS));
    }
}

//! The queue of requests shared by worker processes.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use lmeval_core::{Answer, ModelError};
use tokio::sync::mpsc::Sender;

use super::sink::Sink;

/// The minimum number of requests a worker takes, if there are enough for all workers.
const MIN_TAKEN: usize = 32;
/// The maximum number of requests a worker takes if one, two or more workers died with them. This isolates the request
/// that kills workers.
const MAX_RETAKEN: [usize; 3] = [32, 4, 1];

/// A queued request and the sink for its answer.
pub(super) struct Item {
    /// The serialised request.
    pub(super) json: String,
    index: usize,
    batch: Arc<Sink>,
    /// Dropped when answered. A batch is done when all of its senders are dropped.
    _open: Sender<()>,
    /// The number of workers that died while processing it.
    pub(super) deaths: usize,
}

impl Item {
    /// The request at an index of a batch.
    pub(super) fn new(json: String, index: usize, batch: &Arc<Sink>, open: &Sender<()>) -> Self {
        Self { json, index, batch: Arc::clone(batch), _open: open.clone(), deaths: 0 }
    }

    /// Delivers the answer.
    pub(super) fn answer(self, answer: Result<Answer, ModelError>) {
        self.batch.deliver(self.index, answer);
    }
}

/// A queue of requests for any free worker.
#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    change: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Item>,
    /// Set when the queue no longer accepts requests.
    closed: Option<ModelError>,
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds requests of a batch, sorted so that one worker gets those with a common prefix.
    pub(super) fn add(&self, mut items: Vec<Item>) {
        items.sort_by(|a, b| a.json.cmp(&b.json));
        let mut state = self.state();
        match &state.closed {
            None => state.waiting.extend(items),
            Some(error) => items.into_iter().for_each(|item| item.answer(Err(error.clone()))),
        }
        self.change.notify_all();
    }

    /// Returns the requests of a dead worker to the front.
    pub(super) fn put_back(&self, items: Vec<Item>) {
        let mut state = self.state();
        for item in items.into_iter().rev() {
            match &state.closed {
                None => state.waiting.push_front(item),
                Some(error) => item.answer(Err(error.clone())),
            }
        }
        self.change.notify_all();
    }

    /// Waits for requests and takes some for one of `workers` workers; `None` if the queue is closed.
    ///
    /// A worker takes half of its share: many at first, because requests with a common prefix are computed together, and
    /// few at the end, so that all workers finish at the same time.
    pub(super) fn take(&self, workers: usize) -> Option<Vec<Item>> {
        let mut state = self.state();
        loop {
            if state.closed.is_some() {
                return None;
            }
            if !state.waiting.is_empty() {
                break;
            }
            state = self.change.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let deaths = state.waiting.front().map_or(0, |item| item.deaths);
        let most = match deaths {
            0 => {
                let waiting = state.waiting.len();
                (waiting / (2 * workers)).max(MIN_TAKEN.min(waiting.div_ceil(workers)))
            }
            _ => MAX_RETAKEN[(deaths - 1).min(MAX_RETAKEN.len() - 1)],
        };
        let like_first = state.waiting.iter().take(most).take_while(|item| item.deaths == deaths);
        let count = like_first.count();
        Some(state.waiting.drain(..count).collect())
    }

    /// Fails waiting and future requests with an error.
    pub(super) fn close(&self, error: &ModelError) {
        let mut state = self.state();
        state.closed.get_or_insert_with(|| error.clone());
        for item in state.waiting.drain(..) {
            item.answer(Err(error.clone()));
        }
        self.change.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use lmeval_core::{ModelErrorKind, Response};
    use tokio::sync::mpsc::{Receiver, channel};

    use super::*;

    type Answers = Arc<Mutex<Vec<(usize, bool)>>>;

    fn items(count: usize) -> (Vec<Item>, Answers, Receiver<()>) {
        let answers = Answers::default();
        let recorded = Arc::clone(&answers);
        let record = move |index, answer: Result<Answer, ModelError>| {
            recorded.lock().unwrap().push((index, answer.is_ok()));
        };
        let batch = Arc::new(Sink::new(Box::new(record), count));
        let (open, done) = channel(1);
        let item = |index| Item::new(format!("{:03}", count - index), index, &batch, &open);
        ((0..count).map(item).collect(), answers, done)
    }

    #[test]
    fn workers_take_fewer_and_fewer_in_order() {
        let queue = Queue::default();
        queue.add(items(400).0);
        let mut sizes = Vec::new();
        let mut requests = Vec::new();
        while requests.len() < 400 {
            let taken = queue.take(2).unwrap();
            sizes.push(taken.len());
            requests.extend(taken.into_iter().map(|item| item.json));
        }
        assert_eq!(sizes, [100, 75, 56, 42, 32, 32, 32, 16, 8, 4, 2, 1]);
        assert!(requests.is_sorted());
    }

    #[test]
    fn distributes_few_requests() {
        let queue = Queue::default();
        queue.add(items(30).0);
        let sizes: Vec<usize> = (0..3).map(|_| queue.take(3).unwrap().len()).collect();
        assert_eq!(sizes, [10, 7, 5]);
    }

    #[test]
    fn isolates_requests_that_kill_workers() {
        let queue = Queue::default();
        queue.add(items(40).0);
        let mut taken = queue.take(1).unwrap();
        assert_eq!(taken.len(), 32);
        taken.truncate(10);
        for (item, deaths) in taken.iter_mut().zip([3, 3, 2, 2, 2, 2, 2, 1, 1, 1]) {
            item.deaths = deaths;
        }
        queue.put_back(taken);
        let sizes: Vec<usize> = (0..6).map(|_| queue.take(1).unwrap().len()).collect();
        assert_eq!(sizes, [1, 1, 4, 1, 3, 8]);
    }

    #[test]
    fn batch_is_done_when_all_requests_are_answered() {
        let queue = Queue::default();
        let (items, answers, mut done) = items(3);
        queue.add(items);
        let mut taken = queue.take(1).unwrap();
        let last = taken.pop().unwrap();
        for item in taken {
            item.answer(Ok(Response::Text("".into()).into()));
        }
        assert!(matches!(done.try_recv(), Err(tokio::sync::mpsc::error::TryRecvError::Empty)));
        queue.close(&ModelError::new(ModelErrorKind::Capability, "gone"));
        queue.put_back(vec![last]);
        assert!(matches!(done.try_recv(), Err(tokio::sync::mpsc::error::TryRecvError::Disconnected)));
        assert_eq!(*answers.lock().unwrap(), [(2, true), (1, true), (0, false)]);
        assert!(queue.take(1).is_none());
    }
}

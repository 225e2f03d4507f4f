//! The requests that worker processes take from.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use lmeval_core::{Answer, ModelError};
use tokio::sync::mpsc::Sender;

use super::sink::Sink;

/// The fewest requests that a worker takes at once, where there are as many for each worker.
const FEWEST: usize = 32;
/// The most requests that a worker takes at once, of those that one, two and more workers died with: the one that kills
/// them is alone in the end.
const MOST_AGAIN: [usize; 3] = [32, 4, 1];

/// A request, and where its answer goes.
pub(super) struct Item {
    /// The request as it is sent.
    pub(super) text: String,
    place: usize,
    batch: Arc<Sink>,
    /// Dropped when there is an answer: the batch is done when all of them are.
    _open: Sender<()>,
    /// How many workers died with it.
    pub(super) deaths: usize,
}

impl Item {
    /// The request at a place of a batch.
    pub(super) fn new(text: String, place: usize, batch: &Arc<Sink>, open: &Sender<()>) -> Self {
        Self { text, place, batch: Arc::clone(batch), _open: open.clone(), deaths: 0 }
    }

    /// Hands over what came of the request.
    pub(super) fn answer(self, answer: Result<Answer, ModelError>) {
        self.batch.give(self.place, answer);
    }
}

/// Requests that wait, for whichever worker comes first.
#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    change: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Item>,
    /// Why nothing is taken any more.
    closed: Option<ModelError>,
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds requests of a batch. Those that begin alike stand together, so that one worker gets them.
    pub(super) fn add(&self, mut items: Vec<Item>) {
        items.sort_by(|a, b| a.text.cmp(&b.text));
        let mut state = self.state();
        match &state.closed {
            None => state.waiting.extend(items),
            Some(error) => items.into_iter().for_each(|item| item.answer(Err(error.clone()))),
        }
        self.change.notify_all();
    }

    /// Puts requests back that a worker died with.
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

    /// Waits for requests and takes some for one of so many workers; `None` when there will be no more.
    ///
    /// A worker takes half of its share of what waits: much at first, because requests that begin alike are computed
    /// together, and little in the end, so that all workers are done at the same time.
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
                (waiting / (2 * workers)).max(FEWEST.min(waiting.div_ceil(workers)))
            }
            _ => MOST_AGAIN[(deaths - 1).min(MOST_AGAIN.len() - 1)],
        };
        let like_first = state.waiting.iter().take(most).take_while(|item| item.deaths == deaths);
        let count = like_first.count();
        Some(state.waiting.drain(..count).collect())
    }

    /// Answers what waits, and all that comes later, with an error.
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
        let kept = Arc::clone(&answers);
        let give = move |place, answer: Result<Answer, ModelError>| {
            kept.lock().unwrap().push((place, answer.is_ok()));
        };
        let batch = Arc::new(Sink::new(Box::new(give), count));
        let (open, done) = channel(1);
        let item = |place| Item::new(format!("{:03}", count - place), place, &batch, &open);
        ((0..count).map(item).collect(), answers, done)
    }

    #[test]
    fn workers_take_less_and_less_in_order() {
        let queue = Queue::default();
        queue.add(items(400).0);
        let mut sizes = Vec::new();
        let mut texts = Vec::new();
        while texts.len() < 400 {
            let taken = queue.take(2).unwrap();
            sizes.push(taken.len());
            texts.extend(taken.into_iter().map(|item| item.text));
        }
        assert_eq!(sizes, [100, 75, 56, 42, 32, 32, 32, 16, 8, 4, 2, 1]);
        assert!(texts.is_sorted());
    }

    #[test]
    fn few_requests_are_shared_out() {
        let queue = Queue::default();
        queue.add(items(30).0);
        let sizes: Vec<usize> = (0..3).map(|_| queue.take(3).unwrap().len()).collect();
        assert_eq!(sizes, [10, 7, 5]);
    }

    #[test]
    fn what_killed_a_worker_comes_in_small_parts_alone() {
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
    fn a_batch_is_done_when_all_is_answered() {
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

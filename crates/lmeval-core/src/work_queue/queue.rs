//! The queue of requests shared by workers.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::mpsc::Sender;

use super::sink::Sink;
use crate::{Answer, ModelError};

/// The minimum number of requests a worker takes, if there are enough for all workers.
const MIN_TAKEN: usize = 32;
/// The maximum number of requests a worker takes if one, two or more workers died with them. This isolates the request
/// that kills workers.
const MAX_RETAKEN: [usize; 3] = [32, 4, 1];
/// The number of bytes that requests must have in common to be preferred by a worker.
const MIN_SHARED: usize = 64;

/// A queued request and the sink for its answer.
#[derive(Debug)]
pub struct Item {
    /// The serialised request. Requests with a common prefix keep it in this form.
    pub json: String,
    index: usize,
    batch: Arc<Sink>,
    /// Dropped when answered. A batch is done when all of its senders are dropped.
    _open: Sender<()>,
    /// The number of workers that died while processing it.
    pub deaths: usize,
}

impl Item {
    /// The request at an index of a batch.
    pub(super) fn new(json: String, index: usize, batch: &Arc<Sink>, open: &Sender<()>) -> Self {
        Self { json, index, batch: Arc::clone(batch), _open: open.clone(), deaths: 0 }
    }

    /// Delivers the answer.
    pub fn answer(self, answer: Result<Answer, ModelError>) {
        self.batch.deliver(self.index, answer);
    }
}

/// What a worker gets from the queue.
#[derive(Debug)]
pub enum Taken {
    /// Requests.
    Items(Vec<Item>),
    /// No request arrived in time.
    Nothing,
    /// The queue is closed.
    Closed,
}

/// A queue of requests for any free worker.
#[derive(Debug, Default)]
pub struct Queue {
    state: Mutex<State>,
    change: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Requests of workers that died. They are taken first.
    returned: VecDeque<Item>,
    /// Requests that no worker has had, by batch. Each batch is sorted, and none is empty.
    batches: VecDeque<VecDeque<Item>>,
    /// Set when the queue no longer accepts requests.
    closed: Option<ModelError>,
}

/// The length of the common prefix in bytes.
fn common(item: &Item, other: &[u8]) -> usize {
    item.json.bytes().zip(other).take_while(|(one, other)| one == *other).count()
}

impl State {
    fn waiting(&self) -> usize {
        self.returned.len() + self.batches.iter().map(VecDeque::len).sum::<usize>()
    }

    /// The batch and index of the first request with the longest common prefix with `last`; the front if another one is
    /// not worth the search.
    fn nearest(&self, last: Option<&str>) -> (usize, usize) {
        let Some(last) = last.map(str::as_bytes) else { return (0, 0) };
        let front = self.batches.front().and_then(VecDeque::front);
        let (mut best, mut longest) = ((0, 0), front.map_or(0, |item| common(item, last)).max(MIN_SHARED));
        for (number, batch) in self.batches.iter().enumerate() {
            // In sorted requests, the nearest ones are those before and after the position of `last`.
            let position = batch.partition_point(|item| item.json.as_bytes() < last);
            let neighbours = [position.checked_sub(1), Some(position)].into_iter().flatten();
            let length = neighbours.filter_map(|index| Some(common(batch.get(index)?, last))).max();
            if let Some(length) = length.filter(|length| *length > longest) {
                let first = batch.partition_point(|item| item.json.as_bytes() < &last[..length]);
                (best, longest) = ((number, first), length);
            }
        }
        best
    }

    /// Removes up to `most` requests from a position on, of this batch and those after it.
    fn remove(&mut self, (mut number, mut start): (usize, usize), most: usize) -> Vec<Item> {
        let mut removed = Vec::with_capacity(most);
        while removed.len() < most
            && let Some(batch) = self.batches.get_mut(number)
        {
            let end = batch.len().min(start + most - removed.len());
            removed.extend(batch.drain(start..end));
            if batch.is_empty() {
                self.batches.remove(number);
            } else {
                number += 1;
            }
            start = 0;
        }
        removed
    }
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds requests of a batch, sorted so that one worker gets those with a common prefix.
    pub fn add(&self, mut items: Vec<Item>) {
        items.sort_by(|a, b| a.json.cmp(&b.json));
        let mut state = self.state();
        match &state.closed {
            None if items.is_empty() => {}
            None => state.batches.push_back(items.into()),
            Some(error) => items.into_iter().for_each(|item| item.answer(Err(error.clone()))),
        }
        self.change.notify_all();
    }

    /// Returns the requests of a dead worker to the front.
    pub fn put_back(&self, items: Vec<Item>) {
        let mut state = self.state();
        for item in items.into_iter().rev() {
            match &state.closed {
                None => state.returned.push_front(item),
                Some(error) => item.answer(Err(error.clone())),
            }
        }
        self.change.notify_all();
    }

    /// Waits for requests and takes some for one of `workers` workers; `None` if the queue is closed.
    ///
    /// A worker takes half of its share: many at first, because requests with a common prefix are computed together, and
    /// few at the end, so that all workers finish at the same time.
    pub fn take(&self, workers: usize) -> Option<Vec<Item>> {
        match self.take_near(workers, None, None) {
            Taken::Items(items) => Some(items),
            Taken::Nothing | Taken::Closed => None,
        }
    }

    /// Like [`Queue::take`], but waits no longer than `patience`, and prefers requests that begin like `last`, the last
    /// request of the worker: it may have computed what they share.
    pub fn take_near(&self, workers: usize, last: Option<&str>, patience: Option<Duration>) -> Taken {
        let end = patience.map(|patience| Instant::now() + patience);
        let mut state = self.state();
        loop {
            if state.closed.is_some() {
                return Taken::Closed;
            }
            if !state.returned.is_empty() || !state.batches.is_empty() {
                break;
            }
            state = match end.map(|end| end.saturating_duration_since(Instant::now())) {
                None => self.change.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => return Taken::Nothing,
                Some(left) => self.change.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0,
            };
        }
        let (waiting, workers) = (state.waiting(), workers.max(1));
        let share = (waiting / (2 * workers)).max(MIN_TAKEN.min(waiting.div_ceil(workers)));
        let Some(deaths) = state.returned.front().map(|item| item.deaths) else {
            let start = state.nearest(last);
            return Taken::Items(state.remove(start, share));
        };
        let most = if deaths == 0 { share } else { MAX_RETAKEN[(deaths - 1).min(MAX_RETAKEN.len() - 1)] };
        let count = state.returned.iter().take(most).take_while(|item| item.deaths == deaths).count();
        Taken::Items(state.returned.drain(..count).collect())
    }

    /// Fails waiting and future requests with an error.
    pub fn close(&self, error: &ModelError) {
        let mut state = self.state();
        state.closed.get_or_insert_with(|| error.clone());
        let State { returned, batches, .. } = &mut *state;
        for item in returned.drain(..).chain(batches.drain(..).flatten()) {
            item.answer(Err(error.clone()));
        }
        self.change.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc::{Receiver, channel};

    use super::*;
    use crate::{ModelErrorKind, Response};

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

    #[test]
    fn workers_prefer_what_they_have_computed() {
        let queue = Queue::default();
        let (mut items, ..) = items(300);
        let prefixes = ["a", "b", "c"].map(|letter| letter.repeat(100));
        for (index, item) in items.iter_mut().enumerate() {
            item.json = format!("{}{index:03}", prefixes[index % 3]);
        }
        queue.add(items);
        let take = |last: Option<&str>| match queue.take_near(4, last, None) {
            Taken::Items(items) => items,
            other => panic!("{other:?}"),
        };
        assert!(take(None)[0].json.starts_with('a'));
        let last = format!("{}zzz", prefixes[2]);
        assert!(take(Some(&last)).iter().all(|item| item.json.starts_with('c')));
        assert!(take(Some("other")).iter().all(|item| item.json.starts_with('a')));
        let last = format!("{}zzz", prefixes[1]);
        let mut rest = Vec::new();
        while let Taken::Items(items) = queue.take_near(4, Some(&last), Some(Duration::ZERO)) {
            rest.extend(items);
        }
        assert!(rest[0].json.starts_with('b'));
        assert_eq!(rest.len(), 300 - 37 - 32 - 32);
        assert!(matches!(Queue::default().take_near(1, None, Some(Duration::ZERO)), Taken::Nothing));
    }

    #[test]
    fn worker_takes_from_several_batches() {
        let queue = Queue::default();
        for _ in 0..3 {
            queue.add(items(20).0);
        }
        let sizes: Vec<usize> = (0..2).map(|_| queue.take(1).unwrap().len()).collect();
        assert_eq!(sizes, [32, 28]);
    }
}

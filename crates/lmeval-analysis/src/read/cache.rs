//! Scores of samples files that are compared again and again.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lmeval_scoring::results::LinesChecksum;
use rustc_hash::FxHashMap;

use super::samples::{Pipeline, Row, Values, Wanted, read_samples};
use crate::Error;

/// What [`read_samples`] returns.
pub(crate) type SampleScores = (Vec<Pipeline>, LinesChecksum);

/// The bytes that are kept. Beyond it, the files that were read first are read again.
const KEPT: usize = 1 << 30;

/// Keeps the scores of samples files in memory: a curve compares each of its runs with several others.
///
/// Files must not change while the cache is in use, which those of finished runs do not.
#[derive(Debug, Default)]
pub struct SampleCache {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    known: FxHashMap<Key, Arc<SampleScores>>,
    /// In the order in which they were read, with their sizes.
    order: Vec<(Key, usize)>,
    size: usize,
}

/// A file, and the fields that were read besides its scores.
type Key = (PathBuf, [Option<String>; 2]);

impl SampleCache {
    /// Reads a samples file, unless it is known.
    pub(crate) fn read(&self, path: &Path, wanted: Wanted<'_>) -> Result<Arc<SampleScores>, Error> {
        let key: Key = (path.to_owned(), wanted.labels.map(|label| label.map(str::to_owned)));
        if let Some(known) = self.state().known.get(&key) {
            return Ok(Arc::clone(known));
        }
        let read = Arc::new(read_samples(path, wanted)?);
        let size = read.0.iter().map(size_of_pipeline).sum();
        let mut state = self.state();
        state.size += size;
        state.order.push((key.clone(), size));
        state.known.insert(key, Arc::clone(&read));
        while state.size > KEPT && state.order.len() > 1 {
            let (oldest, size) = state.order.remove(0);
            state.known.remove(&oldest);
            state.size -= size;
        }
        Ok(read)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn size_of_pipeline(pipeline: &Pipeline) -> usize {
    let values = |values: &Values| match values {
        Values::Numbers(numbers) => numbers.len() * size_of::<f64>(),
        // A guess: such items are pairs of strings or short lists.
        Values::Items(items) => items.len() * 256,
    };
    let columns: usize = pipeline.columns.iter().map(|column| values(&column.values)).sum();
    pipeline.rows.len() * size_of::<Row>() + columns
}

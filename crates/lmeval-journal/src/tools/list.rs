//! Lists the content of a journal by model and task.

use std::path::Path;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::error::Error;
use crate::key::Fingerprint;
use crate::record::{Record, State, StoredModel};
use crate::scan::scan;
use crate::survey::{open_for_reading, records, survey};

/// The content of a journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The models, in file order.
    pub models: Vec<ModelSummary>,
    /// The file size in bytes.
    pub bytes: u64,
    /// Bytes that compacting would reclaim: damage, superseded answers, and failures that were answered later.
    pub reclaimable: u64,
}

/// The records of one model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelSummary {
    /// The part of the keys that identifies the model.
    pub fingerprint: Fingerprint,
    /// Backend and facts; `None` if the model's record is damaged.
    pub identity: Option<String>,
    /// The number of answered requests.
    pub answered: usize,
    /// The number of requests that failed and were never answered.
    pub failed: usize,
    /// The total size of these records in bytes.
    pub bytes: u64,
    /// The tasks, in file order.
    pub tasks: Vec<TaskSummary>,
}

/// The records of one model and task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskSummary {
    /// The task name; `None` for imported answers, since old caches do not record it.
    pub task: Option<Arc<str>>,
    /// The number of answered requests.
    pub answered: usize,
    /// The number of requests that failed and were never answered.
    pub failed: usize,
}

/// Lists the content of a journal. Reads only and takes no lock, so it is safe during a run.
pub fn list(path: &Path) -> Result<Listing, Error> {
    let Some(file) = open_for_reading(path)? else { return Ok(Listing::default()) };
    let survey = survey(&file, path)?;
    let mut models = Models::default();
    let mut live_bytes = crate::header::SIZE as u64;
    let scanned = scan(records(&file, path)?, |offset, bytes| match Record::decode(bytes) {
        Some(Record::Model(model)) if models.identify(&model) => live_bytes += bytes.len() as u64,
        Some(Record::Entry(entry)) if survey.index.is_live(&entry.key, offset) => {
            live_bytes += bytes.len() as u64;
            let state = entry.state();
            let task = entry.origin.map(|origin| origin.task);
            models.count(entry.key.model, task, state, bytes.len() as u64);
        }
        Some(Record::Data(data)) if survey.index.is_last_of_data(&data.subject, offset) => {
            live_bytes += bytes.len() as u64;
        }
        _ => {}
    });
    let scanned = scanned.map_err(|source| Error::io("read", path, source))?;
    let bytes = scanned.end + scanned.tail;
    Ok(Listing { models: models.summaries, bytes, reclaimable: bytes.saturating_sub(live_bytes) })
}

#[derive(Default)]
struct Models {
    summaries: Vec<ModelSummary>,
    positions: FxHashMap<Fingerprint, usize>,
    tasks: FxHashMap<(usize, Option<Arc<str>>), usize>,
}

impl Models {
    fn position(&mut self, fingerprint: Fingerprint) -> usize {
        *self.positions.entry(fingerprint).or_insert_with(|| {
            let (answered, failed, bytes) = (0, 0, 0);
            let tasks = Vec::new();
            self.summaries.push(ModelSummary { fingerprint, identity: None, answered, failed, bytes, tasks });
            self.summaries.len() - 1
        })
    }

    /// Stores the identity of a model. Returns whether it was unknown.
    fn identify(&mut self, model: &StoredModel) -> bool {
        let position = self.position(model.fingerprint());
        let identity = &mut self.summaries[position].identity;
        let is_new = identity.is_none();
        identity.get_or_insert_with(|| model.to_string());
        is_new
    }

    fn count(&mut self, model: Fingerprint, task: Option<Arc<str>>, state: State, bytes: u64) {
        let position = self.position(model);
        let summary = &mut self.summaries[position];
        let at = *self.tasks.entry((position, task)).or_insert_with_key(|(_, task)| {
            summary.tasks.push(TaskSummary { task: task.clone(), answered: 0, failed: 0 });
            summary.tasks.len() - 1
        });
        let task = &mut summary.tasks[at];
        summary.bytes += bytes;
        let counters = match state {
            State::Answered => [&mut summary.answered, &mut task.answered],
            State::Failed => [&mut summary.failed, &mut task.failed],
            State::Begun => return,
        };
        for counter in counters {
            *counter += 1;
        }
    }
}

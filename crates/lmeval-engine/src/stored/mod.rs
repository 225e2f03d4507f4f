//! Scores documents that were answered in other processes.

mod codec;

use std::sync::{Arc, mpsc};
use std::thread;

use lmeval_pycompat::Dict;
use lmeval_scoring::results::RunResults;
use lmeval_scoring::scorers::AnsweredDocument;
use lmeval_tasks::{Task, TaskDict};

pub use self::codec::{decode_answered, encode_answered};
use crate::backlog::{Backlog, MAX_WAITING};
use crate::cancel::Cancel;
use crate::collect::{BLOCK, ModelUsage};
use crate::error::EngineError;
use crate::evaluate::{Evaluated, report_choices};
use crate::event::{DocumentCounts, Events};
use crate::options::EvaluateOptions;
use crate::plan::{Plan, PlannedTask, plan};
use crate::score::{FirstError, Grader, Work};

/// The blocks that may wait for scoring.
const BLOCKS_AHEAD: usize = 2;

/// The answered documents of a task.
pub struct StoredDocuments<'a> {
    /// The numbers of documents.
    pub counts: DocumentCounts,
    /// The documents, in the order in which a run would score them.
    pub documents: Box<dyn Iterator<Item = Result<AnsweredDocument, EngineError>> + 'a>,
}

/// Scores tasks from answered documents: filters, metrics, aggregation and groups, exactly as
/// [`evaluate`](crate::evaluate) does with the answers of a model.
///
/// `open` returns the documents of a task by its key in the results. Documents are read as they are scored: a task that
/// is scored in blocks needs memory for a few blocks and for the values of its documents. With `has_records`, the caller
/// has the records of documents, and only tasks whose values depend on several documents create them.
pub fn score_stored<'a>(
    tasks: TaskDict,
    options: &EvaluateOptions,
    events: &Arc<dyn Events>,
    has_records: bool,
    mut open: impl FnMut(&str, &Task) -> Result<StoredDocuments<'a>, EngineError>,
) -> Result<Evaluated, EngineError> {
    let Plan { tasks: mut planned, groups, .. } = plan(None, tasks, options)?;
    for planned in &mut planned {
        planned.log_samples &= !(has_records && planned.may_score_in_blocks());
    }
    let keyed: Vec<(String, Arc<Task>)> =
        planned.iter().map(|planned| (planned.key.clone(), Arc::clone(&planned.task))).collect();
    let choices = report_choices(&planned, &**events);
    let in_blocks: Vec<bool> = planned.iter().map(PlannedTask::scores_in_blocks).collect();
    let (stop, backlog) = (Cancel::new(), Backlog::new(MAX_WAITING));
    let first_error = FirstError::new(&stop);
    let grader = Grader::new(planned, options, &**events, &first_error, &backlog);
    let (work, todo) = mpsc::sync_channel(BLOCKS_AHEAD);
    let (answered, scored) = thread::scope(|scope| {
        let first_error = &first_error;
        let grading = scope.spawn(move || first_error.guard("Scoring", || grader.run(&todo)));
        let feed = || {
            let mut feeder = Feeder { work, backlog: &backlog, stop: &options.cancel, answered: 0 };
            for (index, (key, task)) in keyed.iter().enumerate() {
                let is_over = first_error.has_failed() || options.cancel.is_cancelled();
                if is_over || !feeder.feed(index, in_blocks[index], open(key, task)?)? {
                    break;
                }
            }
            Ok::<_, EngineError>(feeder.answered)
        };
        let answered = match feed() {
            Ok(answered) => answered,
            Err(error) => {
                first_error.fail(error);
                0
            }
        };
        (answered, grading.join().ok().flatten())
    });
    if let Some(error) = first_error.into_error() {
        return Err(error);
    }
    if options.cancel.is_cancelled() {
        return Err(EngineError::Interrupted { answered, journal: None });
    }
    let Some((results, code_limits)) = scored else {
        return Err(EngineError::Internal("The scoring thread has ended without a result"));
    };
    let results = RunResults::collect(results, &groups, &options.dialect)?;
    let (failures, judges) = (Vec::new(), Dict::new());
    Ok(Evaluated {
        results,
        tasks: keyed,
        chat_template: None,
        failures,
        answered,
        code_limits,
        judges,
        usage: ModelUsage::default(),
        choices,
        digests: Dict::new(),
        chat_digests: Dict::new(),
    })
}

/// Sends documents to scoring.
struct Feeder<'a> {
    work: mpsc::SyncSender<Work>,
    backlog: &'a Backlog,
    stop: &'a Cancel,
    /// The number of answers sent so far.
    answered: usize,
}

impl Feeder<'_> {
    /// Sends the documents of a task. Returns false if scoring has ended.
    fn feed(
        &mut self,
        task: usize,
        in_blocks: bool,
        stored: StoredDocuments<'_>,
    ) -> Result<bool, EngineError> {
        let mut documents = Vec::new();
        for document in stored.documents {
            if self.stop.is_cancelled() {
                return Ok(false);
            }
            let document = document?;
            self.answered += document.answers.iter().map(|answer| answer.responses.len()).sum::<usize>();
            documents.push(document);
            if in_blocks && documents.len() >= BLOCK {
                let documents = std::mem::take(&mut documents);
                self.backlog.enter(documents.len());
                if self.work.send(Work::Next { task, documents }).is_err() {
                    return Ok(false);
                }
            }
        }
        Ok(self.work.send(Work::Last { task, documents, counts: stored.counts }).is_ok())
    }
}

//! Builds the requests of a run without sending them.

use lmeval_core::Model;
use lmeval_tasks::TaskDict;
use lmeval_tasks::prompt::{DocumentRequests, RequestBuilder, RequestOptions};

use crate::data::request_sources;
use crate::error::EngineError;
use crate::options::EvaluateOptions;
use crate::plan::plan;

/// Builds what [`evaluate`](crate::evaluate) would send to the model, and passes each document on. Returns for each task its key
/// in the results and the digest of its documents and few-shot examples.
pub fn build_requests(
    model: &dyn Model,
    tasks: TaskDict,
    options: &EvaluateOptions,
    each: &mut dyn FnMut(&DocumentRequests),
) -> Result<Vec<(String, String)>, EngineError> {
    let mut digests = Vec::new();
    for planned in plan(Some(model), tasks, options)?.tasks {
        let sources = request_sources(&planned.task, &options.data)?;
        let request_options = RequestOptions { digest: true, ..planned.options };
        let mut builder = RequestBuilder::new(&planned.task, &sources, &request_options)?;
        while let Some(document) = builder.next().transpose()? {
            if options.cancel.is_cancelled() {
                return Err(EngineError::Interrupted { answered: 0, journal: None });
            }
            if !document.instances.is_empty() {
                each(&document);
            }
        }
        digests.push((planned.key, builder.digest().unwrap_or_default()));
    }
    Ok(digests)
}

//! Builds the requests of a task, document by document.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lmeval_core::{Dialect, DocId, Documents, Instance};
use lmeval_pycompat::random::Random;
use lmeval_pycompat::{Dict, Value};
use lmeval_scoring::HostError;
use lmeval_scoring::registry::UnknownName;
use lmeval_scoring::results::hash_values;
use lmeval_scoring::sampler::{Draw, Sampler, SamplerError};
use rayon::prelude::*;

use super::changes::ChangedDocument;
use super::columns::{MissingColumn, column_names, missing_columns, missing_example_columns};
use super::digest::{DataDigest, DocumentHash};
use super::error::{ErrorDocument, FieldLocations, PromptError, PromptErrorKind};
use super::options::{Part, RequestOptions, RequestSources};
use super::plan::Plan;
use super::request::Skipped;
use super::selection::{Selection, evaluated_documents};
use crate::Task;
use crate::config::Named;
use crate::scoring::with_sampler;

/// The number of documents rendered at a time: enough for all cores, and few enough for memory.
const CHUNK: usize = 256;

/// The number of documents read at a time if only a part of them is rendered.
const READ_AHEAD: usize = 16 * CHUNK;

/// A document and the indices of its examples in the pool.
type Drawn = (Arc<Dict>, Vec<usize>);

/// A document as it was read.
type Read = (DocId, Result<Arc<Dict>, PromptError>);

/// The requests of one document.
#[derive(Debug)]
pub struct DocumentRequests {
    /// The index of the document.
    pub doc_id: DocId,
    /// The document, with the changes that functions made.
    pub document: Arc<Dict>,
    /// Its requests, in order; empty if the document is skipped.
    pub instances: Vec<Instance>,
    /// Its options, without the delimiter that precedes them in requests.
    pub choices: Option<Arc<Vec<Value>>>,
    /// Why there are no requests.
    pub skipped: Option<Skipped>,
}

/// Builds the requests of a task: an iterator over the evaluated documents, in order.
///
/// Examples are drawn sequentially, since each draw depends on those before it. Documents are rendered on all cores, a
/// bounded number ahead of the consumer. The iterator ends after the first document that fails.
///
/// ```
/// use std::sync::Arc;
/// use lmeval_core::{MemoryDocuments, MemorySplits};
/// use lmeval_pycompat::{Dict, Value};
/// use lmeval_tasks::prompt::{RequestBuilder, RequestOptions, RequestSources};
/// use lmeval_tasks::{Spec, TaskManager};
///
/// let manager = TaskManager::new(&[lmeval_tasks::BUILTIN_LIBRARY.into()]);
/// let definition: Dict = [
///     ("task", "sum"), ("test_split", "test"), ("doc_to_text", "{{a}} + {{b}} ="), ("doc_to_target", "{{a + b}}"),
/// ].map(|(key, value)| (Value::str(key), Value::str(value))).into_iter().collect();
/// let loaded = manager.load(&[Spec::Inline(definition)], Default::default()).unwrap();
/// let document: Dict = [(Value::str("a"), Value::Int(1)), (Value::str("b"), Value::Int(2))].into_iter().collect();
/// let splits = MemorySplits::new().with("test", MemoryDocuments::new(vec![document]));
/// let sources = RequestSources::new(Arc::new(splits));
/// let mut builder = RequestBuilder::new(&loaded.tasks["sum"], &sources, &RequestOptions::default()).unwrap();
/// let requests = builder.next().unwrap().unwrap();
/// assert_eq!(requests.instances[0].target, Value::str("3"));
/// ```
#[derive(Debug)]
pub struct RequestBuilder {
    plan: Plan,
    /// Fields that look like columns but are not columns of the documents.
    missing_columns: Vec<MissingColumn>,
    documents: Arc<dyn Documents>,
    selection: Selection,
    part: Option<Part>,
    keep_documents: bool,
    digest: Option<DataDigest>,
    /// The hash of the requests of the first selected document, whatever the part.
    first_requests: Option<String>,
    /// The number of documents taken from the selection.
    position: usize,
    drawing: Option<Drawing>,
    ready: VecDeque<Result<DocumentRequests, PromptError>>,
    /// The locations of fields, for errors.
    locations: FieldLocations,
    /// Whether any document had a request or an error so far.
    found: bool,
    /// Whether a document has failed, which ends the iteration.
    has_failed: bool,
    finished: bool,
}

/// Draws examples.
#[derive(Debug)]
struct Drawing {
    sampler: Box<dyn Sampler>,
    random: Random,
    count: usize,
    /// Whether the evaluated document must not be its own example.
    exclude: bool,
}

impl RequestBuilder {
    /// Prepares the requests of a task.
    pub fn new(task: &Task, sources: &RequestSources, options: &RequestOptions) -> Result<Self, PromptError> {
        Self::prepare(task, sources, options).map_err(|error| {
            error.of_task(&Arc::from(task.config.base_name())).located(&FieldLocations::new(task.mapping()))
        })
    }

    fn prepare(task: &Task, sources: &RequestSources, options: &RequestOptions) -> Result<Self, PromptError> {
        let documents = evaluated_documents(task, sources)?;
        let selection = Selection::new(documents.len(), options)?;
        let mut missing_columns = checked(task, missing_columns(task, &columns_of(&*documents)))?;
        let plan = Plan::new(task, &*documents, sources, options)?;
        if let Some(pool) = &plan.pool {
            missing_columns.extend(checked(task, missing_example_columns(task, &columns_of(pool)))?);
        }
        let count = task.config.fewshot_count();
        let drawing = if count > 0 { Some(Drawing::new(task, sources, options, count)?) } else { None };
        let ready = VecDeque::new();
        let locations = FieldLocations::new(task.mapping());
        Ok(Self {
            plan,
            missing_columns,
            documents,
            selection,
            part: options.part,
            keep_documents: options.keep_documents,
            digest: options.digest.then(DataDigest::default),
            first_requests: None,
            position: 0,
            drawing,
            ready,
            locations,
            found: false,
            has_failed: false,
            finished: false,
        })
    }

    /// Fields that look like column names but are constants, which may be intentional.
    pub fn missing_columns(&self) -> &[MissingColumn] {
        &self.missing_columns
    }

    /// The number of documents left, including those that will be skipped.
    pub fn remaining(&self) -> usize {
        let selected = self.selection.remaining();
        let own = |part: Part| part.count_in(self.position..self.position + selected);
        self.ready.len() + self.part.map_or(selected, own)
    }

    /// The number of documents in the evaluated split.
    pub fn document_count(&self) -> usize {
        self.documents.len()
    }

    /// The digest of the selected documents and of the examples drawn for them, once the iterator has ended. `None` unless
    /// the options ask for it.
    pub fn digest(&self) -> Option<String> {
        self.digest.as_ref().map(DataDigest::value)
    }

    /// The hash of the requests of the first selected document, once the iterator has ended: all parts of a run have the same,
    /// unless the code that makes its prompts has changed. `None` if all documents are rendered, or without a digest.
    pub fn first_requests(&self) -> Option<&str> {
        self.first_requests.as_deref()
    }

    /// The digest of all conversations that were rendered as prompts so far; `None` without a chat template. Those of all
    /// parts of a run add up, modulo 2¹²⁸, to that of the whole.
    pub fn conversations(&self) -> Option<u128> {
        self.plan.chat_template.as_ref().map(|_| self.plan.conversations.sum())
    }

    /// The dialect of the run.
    pub fn dialect(&self) -> &Dialect {
        &self.plan.dialect
    }

    /// Whether targets may be lists of acceptable answers, decided by the task or by its first document.
    pub fn has_multiple_targets(&self) -> bool {
        self.plan.fields.shape.multiple_targets
    }

    /// Collects the requests of all documents, up to the first error.
    pub fn build_all(self) -> Result<Vec<DocumentRequests>, PromptError> {
        self.collect()
    }

    /// Takes the next documents from the selection, and says which of them are rendered: the others are only needed to
    /// draw the examples of those after them, and for the digest.
    fn choose(&mut self) -> (Vec<(DocId, usize)>, Vec<bool>) {
        let (mut chosen, mut is_own) = (Vec::new(), Vec::new());
        let mut own = 0;
        while own < CHUNK && chosen.len() < READ_AHEAD {
            let Some(next) = self.selection.next() else { break };
            let is_in_part = self.part.is_none_or(|part| part.has(self.position));
            self.position += 1;
            own += usize::from(is_in_part);
            if is_in_part || self.drawing.is_some() || self.digest.is_some() {
                chosen.push(next);
                is_own.push(is_in_part);
            }
        }
        (chosen, is_own)
    }

    /// Renders the next chunk of documents.
    fn fill(&mut self) {
        let (chosen, is_own) = self.choose();
        let (plan, documents, locations) = (&self.plan, &self.documents, &self.locations);
        let keep_documents = self.keep_documents;
        let is_first = self.part.is_some() && self.digest.is_some() && self.first_requests.is_none();
        let mut first_requests = None;
        let hashes = self.digest.is_some();
        let read = |index: usize| {
            let document = documents.get(index).map_err(|error| {
                PromptError::new(PromptErrorKind::Documents, "Cannot read the document").caused_by(error)
            });
            let hash = document.as_ref().ok().filter(|_| hashes).map(|document| hash_values(document));
            (document, hash.unwrap_or_default())
        };
        // The index of the first failure. Later documents are not rendered: a function that hangs must not time out
        // once per document.
        let failed = AtomicUsize::new(usize::MAX);
        let render = |index: usize, doc_id: DocId, drawn: Result<Drawn, PromptError>| {
            let build = |(mut document, examples): Drawn| {
                let watch = plan.fields.watch();
                let built = plan.requests(doc_id, &document, &examples, watch.as_ref())?;
                if let Some(changed) = watch.and_then(ChangedDocument::into_changed) {
                    document = changed;
                }
                let (instances, choices, skipped) = match built {
                    Ok((instances, choices)) => (instances, choices, None),
                    Err(skipped) => (Vec::new(), None, Some(skipped)),
                };
                if !keep_documents {
                    document = Arc::default();
                }
                Ok(DocumentRequests { doc_id, document, instances, choices, skipped })
            };
            drawn.and_then(build).map_err(|error: PromptError| {
                failed.fetch_min(index, Ordering::Relaxed);
                error.at(ErrorDocument::Document(doc_id)).of_task(&plan.name).located(locations)
            })
        };
        let is_after_failure = |index: usize| index > failed.load(Ordering::Relaxed);
        let built: Vec<Option<Result<DocumentRequests, PromptError>>> = match &mut self.drawing {
            // Documents are rendered by the threads that read them.
            None => {
                if let Some((id, index)) = chosen.first().copied().filter(|_| is_first) {
                    first_requests =
                        read(index).0.ok().map(|document| plan.hash_requests(id, &document, &[]));
                }
                let render = |(position, ((id, index), is_own)): (usize, ((DocId, usize), bool))| {
                    if is_after_failure(position) {
                        return (None, DocumentHash::default());
                    }
                    let (document, hash) = read(index);
                    let without = |document: Arc<Dict>| (document, Vec::new());
                    (is_own.then(|| render(position, id, document.map(without))), hash)
                };
                let chosen = chosen.into_par_iter().zip(is_own).enumerate();
                let (built, hashes): (Vec<_>, Vec<DocumentHash>) = chosen.map(render).unzip();
                if let Some(digest) = &mut self.digest {
                    for hash in &hashes {
                        digest.add(hash, &[], None);
                    }
                }
                built
            }
            Some(drawing) => {
                let (read, hashes): (Vec<Read>, Vec<DocumentHash>) = chosen
                    .into_par_iter()
                    .map(|(id, index)| {
                        let (document, hash) = read(index);
                        ((id, document), hash)
                    })
                    .unzip();
                let drawn = drawing.draw(plan, read);
                if let Some((id, Ok((document, examples)))) = drawn.first().filter(|_| is_first) {
                    first_requests = Some(plan.hash_requests(*id, document, examples));
                }
                if let Some(digest) = &mut self.digest {
                    for ((_, drawn), hash) in drawn.iter().zip(&hashes) {
                        let examples = drawn.as_ref().map_or(&[][..], |(_, examples)| examples);
                        digest.add(hash, examples, plan.pool.as_ref());
                    }
                }
                let own: Vec<(DocId, Result<Drawn, PromptError>)> = drawn
                    .into_iter()
                    .zip(is_own)
                    .filter_map(|(drawn, is_own)| is_own.then_some(drawn))
                    .collect();
                own.into_par_iter()
                    .enumerate()
                    .map(|(position, (id, drawn))| {
                        (!is_after_failure(position)).then(|| render(position, id, drawn))
                    })
                    .collect()
            }
        };
        self.first_requests = self.first_requests.take().or(first_requests);
        let failed = failed.into_inner();
        self.has_failed = failed < built.len();
        for built in up_to_failure(built, failed) {
            self.found |= built.as_ref().map_or(true, |built| !built.instances.is_empty());
            self.ready.push_back(built);
        }
    }
}

impl Iterator for RequestBuilder {
    type Item = Result<DocumentRequests, PromptError>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.ready.is_empty() && !self.has_failed && self.selection.remaining() > 0 {
            self.fill();
        }
        if let Some(next) = self.ready.pop_front() {
            return Some(next);
        }
        let first_end = !std::mem::replace(&mut self.finished, true);
        // A part may consist of documents without requests, or of none.
        (first_end && !self.found && self.part.is_none()).then(|| {
            let message = "No document yields a request";
            Err(PromptError::new(PromptErrorKind::Documents, message)
                .of_task(&self.plan.name)
                .hint("Options must be a list of strings, and a document needs a target"))
        })
    }
}

impl Drawing {
    fn new(
        task: &Task,
        sources: &RequestSources,
        options: &RequestOptions,
        count: usize,
    ) -> Result<Self, PromptError> {
        let field = "fewshot_config.sampler";
        let sampler = match &task.config.fewshot_config.sampler {
            Named::Name(name) => {
                named_sampler(task, name, sources, options).map_err(|error| error.in_field(field))?
            }
            Named::Function(class) => sources
                .host
                .sampler(class, options.fewshot_seed)
                .map_err(|error| PromptError::host(error).in_field(field))?,
        };
        let random = options.fewshot_seed.map_or_else(Random::from_entropy, Random::from_seed);
        Ok(Self { sampler, random, count, exclude: Plan::excludes_evaluated(task, &options.dialect) })
    }

    /// Draws the examples of documents, in order.
    fn draw(&mut self, plan: &Plan, read: Vec<Read>) -> Vec<(DocId, Result<Drawn, PromptError>)> {
        let Some(pool) = &plan.pool else {
            let without = |document: Arc<Dict>| (document, Vec::new());
            return read.into_iter().map(|(id, document)| (id, document.map(without))).collect();
        };
        let documents = read.iter().filter_map(|(_, document)| document.as_ref().ok());
        let excluded: Vec<Option<&Dict>> =
            documents.map(|document| self.exclude.then_some(&**document)).collect();
        let random = &mut self.random;
        let draw = Draw { pool, count: self.count, excluded: None, random, dialect: &plan.dialect };
        let mut draws = self.sampler.draw_many(draw, &excluded).into_iter();
        let mut next = |document: Arc<Dict>| match draws.next() {
            Some(Ok(examples)) => Ok((document, examples)),
            Some(Err(error)) => Err(no_examples(error)),
            None => Err(no_examples(SamplerError::Other("The sampler failed earlier".to_owned()))),
        };
        read.into_iter().map(|(id, document)| (id, document.and_then(&mut next))).collect()
    }
}

/// The column names of documents.
fn columns_of(documents: &dyn Documents) -> Vec<String> {
    // If the first document cannot be read, using it gives the error.
    match documents.get(0) {
        Ok(first) => column_names(documents.columns(), &first),
        Err(_) => documents.columns().to_vec(),
    }
}

/// Checks fields that look like missing columns; those that cannot be intentional are an error.
fn checked(task: &Task, mut missing: Vec<MissingColumn>) -> Result<Vec<MissingColumn>, PromptError> {
    match missing.iter().position(|missing| missing.is_error) {
        None => Ok(missing),
        Some(index) => Err(missing.swap_remove(index).into_error(task)),
    }
}

/// The items before the first failure, and that failure. If it only says that another function did not answer, the
/// failure of that function replaces it.
fn up_to_failure<T>(
    mut built: Vec<Option<Result<T, PromptError>>>,
    failed: usize,
) -> impl Iterator<Item = Result<T, PromptError>> {
    let is_abandoned = |built: &Option<Result<T, PromptError>>| matches!(built, Some(Err(error)) if error.host_error().is_some_and(HostError::is_abandoned));
    if built.get(failed).is_some_and(is_abandoned) {
        let cause = built.iter().position(|built| matches!(built, Some(Err(_))) && !is_abandoned(built));
        if let Some(cause) = cause {
            built.swap(failed, cause);
        }
    }
    built.into_iter().take(failed.saturating_add(1)).flatten()
}

/// Looks up a sampler; one registered by Python code may take precedence over a built-in.
fn named_sampler(
    task: &Task,
    name: &str,
    sources: &RequestSources,
    options: &RequestOptions,
) -> Result<Box<dyn Sampler>, PromptError> {
    let host = &*sources.host;
    let registry = with_sampler(task, name, &sources.registry, host).map_err(PromptError::host)?;
    registry.sampler(name, host, options.fewshot_seed).map_err(|error| match error {
        SamplerError::Unknown(unknown) => unknown_sampler(unknown),
        SamplerError::Host(error) => PromptError::host(error),
        other => no_examples(other),
    })
}

fn unknown_sampler(unknown: UnknownName) -> PromptError {
    let mut error = PromptError::new(PromptErrorKind::UnknownName, unknown.to_string());
    if !unknown.nearest.is_empty() {
        error = error.hint(format!("Did you mean `{}`?", unknown.nearest.join("` or `")));
    }
    error.including_cause(unknown)
}

fn no_examples(error: SamplerError) -> PromptError {
    let hint = match error {
        SamplerError::TooFew { .. } | SamplerError::Empty => {
            Some("Lower `num_fewshot`, or name a larger split under `fewshot_split`")
        }
        SamplerError::Host(error) => return PromptError::host(error).in_field("fewshot_config.sampler"),
        _ => None,
    };
    let failure = PromptError::new(PromptErrorKind::Examples, error.to_string()).including_cause(error);
    hint.into_iter().fold(failure, PromptError::hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skipped_call_does_not_hide_the_cause() {
        let failed = |error| Some(Err(PromptError::host(error)));
        let abandoned = || {
            let (function, culprit) = ("utils.fine".to_owned(), "utils.slow".to_owned());
            failed(HostError::Abandoned { function, culprit, seconds: 1.0 })
        };
        let (function, message) = ("utils.slow".to_owned(), "It did not answer".to_owned());
        let cause = failed(HostError::Failed { function, message, traceback: None, hint: None });
        let shown = |built: Vec<Option<Result<u8, PromptError>>>, first| -> Vec<String> {
            up_to_failure(built, first)
                .map(|built| built.map_or_else(|error| error.to_string(), |built| built.to_string()))
                .collect()
        };
        let told = shown(vec![Some(Ok(7)), abandoned(), None, abandoned(), cause, Some(Ok(8))], 1);
        assert_eq!(told.len(), 2);
        assert!(told[0] == "7" && told[1].contains("`utils.slow` failed"), "{told:?}");
        let told = shown(vec![Some(Ok(7)), abandoned(), abandoned()], 1);
        assert!(told[1].contains("because `utils.slow` timed out"), "{told:?}");
        assert_eq!(shown(vec![Some(Ok(7)), Some(Ok(8))], usize::MAX), ["7", "8"]);
    }
}

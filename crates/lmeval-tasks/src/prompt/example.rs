//! Few-shot examples: their pool and their rendering.

use std::sync::{Arc, PoisonError, RwLock};

use lmeval_core::{DocumentError, Documents, NoSuchDocument, OutputType};
use lmeval_pycompat::repr;
use lmeval_pycompat::{Dict, Value};
use lmeval_scoring::Host;
use rustc_hash::FxHashMap;

use super::coerce::{described, item_at};
use super::error::{ErrorDocument, PromptError, PromptErrorKind};
use super::fields::{Inputs, TaskFields};
use super::selection::{class_documents, documents_of, split_documents};
use crate::Task;
use crate::config::{FewshotSamples, TaskConfig};

/// The parts of an example.
#[derive(Clone, Debug)]
pub(crate) struct Example {
    pub(crate) question: Arc<str>,
    /// `None` if the example shows no answer.
    pub(crate) answer: Option<Arc<str>>,
    /// The start of the answer, if it is rendered with the example.
    pub(crate) prefix: Option<Arc<str>>,
}

/// The documents that examples are drawn from; each is rendered at most once.
#[derive(Debug)]
pub(crate) struct Pool {
    documents: Arc<dyn Documents>,
    /// Indices that the pool is restricted to.
    indices: Option<Vec<usize>>,
    length: usize,
    /// Documents that were compared with evaluated ones.
    read: Cache<Arc<Dict>>,
    examples: Cache<Arc<Example>>,
}

/// A cache by index in the pool, bounded to limit memory.
#[derive(Debug)]
struct Cache<T>(RwLock<FxHashMap<usize, T>>);

impl<T: Clone> Cache<T> {
    /// Only large pools draw more than this, and those rarely draw a document twice.
    const CAPACITY: usize = 16_384;

    fn new() -> Self {
        Self(RwLock::new(FxHashMap::default()))
    }

    fn get<E>(&self, index: usize, make: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner).get(&index).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let made = make()?;
        let mut cached = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if cached.len() < Self::CAPACITY {
            cached.insert(index, made.clone());
        }
        Ok(made)
    }
}

impl Pool {
    /// The pool of a task.
    pub(crate) fn new(
        task: &Task,
        split: Option<&str>,
        use_indices: bool,
        sources: &super::RequestSources,
    ) -> Result<Self, PromptError> {
        let config = &task.config;
        let documents = match task.class_task().and_then(|class| class.fewshot_docs.as_ref()) {
            Some(function) => class_documents(function, sources)?,
            None => pool_documents(config, split, sources)?,
        };
        let indices = match config.fewshot_config.fewshot_indices.as_deref().filter(|_| use_indices) {
            None | Some([]) => None,
            Some(indices) => Some(positions(indices, documents.len())?),
        };
        let length = indices.as_ref().map_or(documents.len(), Vec::len);
        Ok(Self { documents, indices, length, read: Cache::new(), examples: Cache::new() })
    }

    /// The document at an index.
    pub(crate) fn document(&self, index: usize) -> Result<Arc<Dict>, PromptError> {
        self.get(index).map_err(|source| {
            PromptError::new(PromptErrorKind::Documents, "Cannot read the document")
                .caused_by(source)
                .at(ErrorDocument::Example(index))
        })
    }

    fn read(&self, index: usize) -> Result<Arc<Dict>, DocumentError> {
        let position = match &self.indices {
            None => index,
            Some(indices) => *indices.get(index).ok_or(NoSuchDocument { index, length: indices.len() })?,
        };
        self.documents.get(position)
    }

    /// The example at an index.
    pub(crate) fn example(&self, index: usize, fields: &TaskFields) -> Result<Arc<Example>, PromptError> {
        let write = || {
            let document = self.read(index).map_err(|source| {
                PromptError::new(PromptErrorKind::Documents, "Cannot read the document").caused_by(source)
            })?;
            Example::write(fields, &document).map(Arc::new)
        };
        self.examples.get(index, write).map_err(|error: PromptError| error.at(ErrorDocument::Example(index)))
    }
}

impl Documents for Pool {
    fn len(&self) -> usize {
        self.length
    }

    fn columns(&self) -> &[String] {
        self.documents.columns()
    }

    fn get(&self, index: usize) -> Result<Arc<Dict>, DocumentError> {
        self.read.get(index, || self.read(index))
    }

    fn features(&self) -> Option<Dict> {
        self.documents.features()
    }
}

fn pool_documents(
    config: &TaskConfig,
    split: Option<&str>,
    sources: &super::RequestSources,
) -> Result<Arc<dyn Documents>, PromptError> {
    let fewshot = &config.fewshot_config;
    if let Some(split) = split {
        return split_documents(split, fewshot.process_docs.as_deref(), sources);
    }
    match &fewshot.samples {
        Some(FewshotSamples::Documents(documents)) => {
            return Ok(Arc::new(lmeval_core::MemoryDocuments::new(documents.clone())));
        }
        Some(FewshotSamples::Function(function)) => {
            let host: &dyn Host = &*sources.host;
            return host
                .documents(function)
                .map_err(|error| PromptError::host(error).in_field("fewshot_config.samples"));
        }
        None => {}
    }
    if let Some(training) = documents_of(config, config.training_split.as_deref(), sources)?
        && !training.is_empty()
    {
        return Ok(training);
    }
    if let Some(validation) = documents_of(config, config.validation_split.as_deref(), sources)? {
        return Ok(validation);
    }
    let test = documents_of(config, config.test_split.as_deref(), sources)?;
    Ok(test.unwrap_or_else(|| Arc::new(lmeval_core::MemoryDocuments::default())))
}

/// Converts indices to positions; a negative index counts from the end.
fn positions(indices: &[i64], length: usize) -> Result<Vec<usize>, PromptError> {
    let position = |&index: &i64| {
        let position = if index < 0 { index + length as i64 } else { index };
        usize::try_from(position).ok().filter(|position| *position < length).ok_or_else(|| {
            let message = format!("The index {index} is out of range: the pool has {length} documents");
            PromptError::new(PromptErrorKind::Examples, message).in_field("fewshot_config.fewshot_indices")
        })
    };
    indices.iter().map(position).collect()
}

impl Example {
    /// Renders a document as an example.
    pub(crate) fn write(fields: &TaskFields, document: &Arc<Dict>) -> Result<Self, PromptError> {
        let (own, task) = (&fields.example, &fields.evaluated);
        let text_field = own.text.as_deref().or(task.text.as_deref());
        let question = fields.text(text_field, document)?;
        let options =
            fields.options(own.choice.as_deref().filter(|field| !field.is_empty()), document, None)?;
        let target = own.target.as_deref().or(task.target.as_deref());
        let answer = fields.example_answer(target, document)?;
        let prefix =
            if fields.dialect.example_prefix_of_example { fields.example_prefix(document)? } else { None };
        let field = text_field.map_or("doc_to_text", |field| field.name());
        let (question, answer) = match fields.shape.inputs {
            Inputs::One => (question, answer_text(&answer, options.as_deref(), fields.output_type)?),
            Inputs::Listed => {
                let Value::List(questions) = question else {
                    return Err(not_a("a list of inputs", &question).in_field(field));
                };
                let index =
                    answer.as_i64().ok_or_else(|| not_a("an index", &answer).in_field("doc_to_target"))?;
                let first = Value::Int(0);
                let question = item_at(&questions, index)?.clone();
                (question, answer_text(&first, options.as_deref(), fields.output_type)?)
            }
            Inputs::Options => {
                let options = match options {
                    Some(options) => options,
                    None => fields.options(task.choice.as_deref(), document, None)?.ok_or_else(|| {
                        PromptError::new(PromptErrorKind::Type, "The document has no options")
                            .in_field("doc_to_choice")
                    })?,
                };
                let index = question.as_i64().ok_or_else(|| not_a("an index", &question).in_field(field))?;
                (item_at(&options, index)?.clone(), as_text(&answer))
            }
        };
        match question {
            Value::Str(question) => Ok(Self { question, answer, prefix }),
            other => Err(not_a("text", &other).in_field(field)),
        }
    }
}

/// The error for a value of the wrong type.
pub(crate) fn not_a(expected: &str, found: &Value) -> PromptError {
    PromptError::new(PromptErrorKind::Type, format!("Expected {expected}, found {}", described(found)))
}

/// An answer that is shown as it is.
fn as_text(answer: &Value) -> Option<Arc<str>> {
    match answer {
        Value::None => None,
        Value::Str(text) => Some(Arc::clone(text)).filter(|text| !text.is_empty()),
        other => Some(repr::str(other).into()),
    }
}

/// The answer that an example shows: a string, the option at an index, or the first of several answers.
fn answer_text(
    answer: &Value,
    options: Option<&Vec<Value>>,
    output_type: OutputType,
) -> Result<Option<Arc<str>>, PromptError> {
    let shown = match answer {
        Value::None => return Ok(None),
        Value::Str(text) if text.is_empty() => return Ok(None),
        Value::List(answers) => answers.first().ok_or_else(|| unexpected(answer))?,
        other => other,
    };
    match (shown, options) {
        (Value::Str(text), _) => Ok(Some(Arc::clone(text))),
        (Value::Int(_) | Value::Bool(_), Some(options)) if !options.is_empty() => {
            let index = shown.as_i64().unwrap_or_default();
            match item_at(options, index)? {
                Value::Str(text) => Ok(Some(Arc::clone(text))),
                other => Err(not_a("a str as an option", other).in_field("doc_to_choice")),
            }
        }
        (Value::Int(_) | Value::BigInt(_) | Value::Float(_) | Value::Bool(_), _)
            if output_type == OutputType::GenerateUntil =>
        {
            Ok(Some(repr::str(shown).into()))
        }
        _ => Err(unexpected(answer)),
    }
}

fn unexpected(answer: &Value) -> PromptError {
    PromptError::new(PromptErrorKind::Value, format!("{} cannot be shown as an answer", capitalised(answer)))
        .in_field("doc_to_target")
        .hint("The answer of an example is a str, or the index of an option")
}

fn capitalised(answer: &Value) -> String {
    let mut text = described(answer);
    if let Some(first) = text.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    text
}

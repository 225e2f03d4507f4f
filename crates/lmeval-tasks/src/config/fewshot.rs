//! `fewshot_config`: the source and layout of few-shot examples.

use std::sync::Arc;

use lmeval_pycompat::{Dict, Function, Value};

use super::field::Field;
use super::path::{ConfigPath, Named};
use super::read::Reader;
use crate::error::{Error, ErrorKind};

/// The sampler that chooses examples: a registered name or a class.
pub type Sampler = Named;

/// Examples listed in the task itself.
#[derive(Clone, Debug, PartialEq)]
pub enum FewshotSamples {
    /// Examples written in the file.
    Documents(Vec<Dict>),
    /// A function without arguments that returns documents.
    Function(Arc<Function>),
}

/// The source and layout of few-shot examples.
///
/// Keys that are not set here default to those of the task.
#[derive(Clone, Debug, PartialEq)]
pub struct FewshotConfig {
    /// Chooses documents from the pool.
    pub sampler: Sampler,
    /// The split that provides the pool.
    pub split: Option<String>,
    /// Applied to the split before sampling.
    pub process_docs: Option<Arc<Function>>,
    /// Restricts the pool to these indices, in this order.
    pub fewshot_indices: Option<Vec<i64>>,
    /// The pool, if no split provides it.
    pub samples: Option<FewshotSamples>,
    /// The question of an example.
    pub doc_to_text: Option<Field>,
    /// The options of an example.
    pub doc_to_choice: Option<Field>,
    /// The answer of an example.
    pub doc_to_target: Option<Field>,
    /// Inserted before the answer.
    pub gen_prefix: Option<Field>,
    /// Separates examples.
    pub fewshot_delimiter: Option<String>,
    /// Separates question and answer.
    pub target_delimiter: Option<String>,
}

/// The keys of `fewshot_config`, in the order of results.
const KEYS: [&str; 11] = [
    "sampler",
    "split",
    "process_docs",
    "fewshot_indices",
    "samples",
    "doc_to_text",
    "doc_to_choice",
    "doc_to_target",
    "gen_prefix",
    "fewshot_delimiter",
    "target_delimiter",
];

impl FewshotConfig {
    /// Reads `fewshot_config`; `task` has the defaults, including the few-shot split.
    pub(super) fn read(reader: &mut Reader<'_>, task: Self) -> Result<Self, Error> {
        let path = ConfigPath::key("fewshot_config");
        let mut config = task;
        let given = match reader.present("fewshot_config") {
            None => return Ok(config),
            Some(Value::Dict(given)) => Arc::clone(given),
            Some(other) => return Err(reader.wrong_type(&path, "a dict", other)),
        };
        reader.reject_unknown("`fewshot_config`", Some(&path), &given, &KEYS)?;
        for (key, value) in given.iter() {
            let Some(key) = key.as_str() else { continue };
            config.set(reader, &path.then(key), key, value)?;
        }
        if config.split.is_some() && config.samples.is_some() {
            reader.warn(
                &path.then("samples"),
                "Both a few-shot split and `fewshot_config.samples` are given; the split is used",
            );
        }
        Ok(config)
    }

    // An explicit null stays null, except for the sampler and the split, which must have a value.
    fn set(&mut self, reader: &Reader<'_>, path: &ConfigPath, key: &str, value: &Value) -> Result<(), Error> {
        let some = Some(value);
        match key {
            "sampler" if value.is_none() => {}
            "sampler" => {
                self.sampler = Named::from_value(value)
                    .ok_or_else(|| reader.wrong_type(path, "a str or a function", value))?;
            }
            "split" => self.split = reader.text_of(path, some)?.or_else(|| self.split.take()),
            "process_docs" => self.process_docs = reader.function_of(path, some)?,
            "fewshot_indices" => self.fewshot_indices = read_indices(reader, path, value)?,
            "samples" => self.samples = read_samples(reader, path, value)?,
            "doc_to_text" => self.doc_to_text = reader.field_of(path, some)?,
            "doc_to_choice" => self.doc_to_choice = reader.field_of(path, some)?,
            "doc_to_target" => self.doc_to_target = reader.field_of(path, some)?,
            "gen_prefix" => self.gen_prefix = reader.field_of(path, some)?,
            "fewshot_delimiter" => self.fewshot_delimiter = reader.text_of(path, some)?,
            _ => self.target_delimiter = reader.text_of(path, some)?,
        }
        Ok(())
    }

    /// All eleven keys, nulls included.
    pub fn to_value(&self) -> Value {
        let function = |function: &Option<Arc<Function>>| {
            function.as_ref().map_or(Value::None, |function| Value::Function(Arc::clone(function)))
        };
        let field = |field: &Option<Field>| field.as_ref().map_or(Value::None, Field::to_value);
        let samples = match &self.samples {
            None => Value::None,
            Some(FewshotSamples::Documents(documents)) => {
                Value::list(documents.iter().cloned().map(Value::from))
            }
            Some(FewshotSamples::Function(function)) => Value::Function(Arc::clone(function)),
        };
        let sampler = match &self.sampler {
            Named::Name(name) => Value::Str(Arc::clone(name)),
            Named::Function(class) => Value::Function(Arc::clone(class)),
        };
        let indices = self.fewshot_indices.as_ref();
        Value::dict(KEYS.into_iter().zip([
            sampler,
            Value::from(self.split.clone()),
            function(&self.process_docs),
            indices.map_or(Value::None, |indices| Value::list(indices.iter().copied().map(Value::Int))),
            samples,
            field(&self.doc_to_text),
            field(&self.doc_to_choice),
            field(&self.doc_to_target),
            field(&self.gen_prefix),
            Value::from(self.fewshot_delimiter.clone()),
            Value::from(self.target_delimiter.clone()),
        ]))
    }
}

fn read_indices(reader: &Reader<'_>, path: &ConfigPath, value: &Value) -> Result<Option<Vec<i64>>, Error> {
    let items = match value {
        Value::None => return Ok(None),
        Value::List(items) | Value::Tuple(items) => items,
        other => return Err(reader.wrong_type(path, "a list of ints", other)),
    };
    let indices = items.iter().enumerate().map(|(position, item)| reader.int_of(&path.then(position), item));
    indices.collect::<Result<_, _>>().map(Some)
}

fn read_samples(
    reader: &Reader<'_>,
    path: &ConfigPath,
    value: &Value,
) -> Result<Option<FewshotSamples>, Error> {
    let wrong = |path: &ConfigPath, expected: &str, found: &Value| {
        let message = format!("`{path}` must be {expected}, not {}", found.type_name());
        reader.error(ErrorKind::Value, path, message)
    };
    match value {
        Value::None => Ok(None),
        Value::Function(function) => Ok(Some(FewshotSamples::Function(Arc::clone(function)))),
        Value::List(items) => {
            let documents = items.iter().enumerate().map(|(position, item)| match item {
                Value::Dict(document) => Ok(Dict::clone(document)),
                other => Err(wrong(&path.then(position), "a dict", other)),
            });
            documents.collect::<Result<_, _>>().map(|list| Some(FewshotSamples::Documents(list)))
        }
        other => Err(wrong(path, "a list of dicts or a function", other)),
    }
}

//! The question, options and answer of a document.

use std::sync::Arc;

use lmeval_core::{Dialect, OutputType};
use lmeval_pycompat::literal::literal_eval;
use lmeval_pycompat::{Dict, Value};
use lmeval_scoring::Host;

use super::changes::ChangedDocument;
use super::coerce::{
    coerce_list, coerce_target, described, digits_literal, digits_to_int, is_digits, list_literal,
    resolve_index,
};
use super::error::{PromptError, PromptErrorKind};
use super::field::{PromptField, Resolution, Resolved};
use crate::config::{Field, TaskConfig};

/// How many contexts a document has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inputs {
    /// One context; the options are continuations.
    One,
    /// `doc_to_text` is a list of contexts with one continuation (`multiple_inputs`).
    Listed,
    /// The options are the contexts, the target is the continuation, and `doc_to_text` is the index of the correct one
    /// (the convention of 0.4 tasks).
    Options,
}

/// Properties of all documents, decided by the first evaluated one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) inputs: Inputs,
    /// Whether a target may be a list of acceptable answers.
    pub(crate) multiple_targets: bool,
}

/// The options of a document.
pub(crate) type Options = Arc<Vec<Value>>;

/// The fields that make up a question with its answer.
#[derive(Clone, Debug)]
pub(crate) struct QuestionFields {
    pub(crate) text: Option<Arc<PromptField>>,
    pub(crate) choice: Option<Arc<PromptField>>,
    pub(crate) target: Option<Arc<PromptField>>,
    pub(crate) prefix: Option<Arc<PromptField>>,
}

/// The fields of a task, and the rules for reading them.
#[derive(Debug)]
pub(crate) struct TaskFields {
    pub(crate) dialect: Dialect,
    pub(crate) output_type: OutputType,
    pub(crate) shape: Shape,
    /// Used for evaluated documents.
    pub(crate) evaluated: QuestionFields,
    /// Used for examples; they default to those of evaluated documents.
    pub(crate) example: QuestionFields,
    pub(crate) description: Option<PromptField>,
    pub(crate) image: Option<PromptField>,
    pub(crate) audio: Option<PromptField>,
    /// The rules for most fields.
    rules: Resolution,
    /// The rules for the description and the prefix of examples.
    own_columns: Resolution,
    /// Whether changes that functions make to evaluated documents matter.
    is_watched: bool,
}

impl TaskFields {
    /// Prepares the fields of a task, given the columns of its evaluated documents.
    pub(crate) fn new(
        config: &TaskConfig,
        dialect: Dialect,
        columns: &[String],
        host: &Arc<dyn Host>,
    ) -> Self {
        let make = |name: &'static str, field: &Option<Field>| {
            field.as_ref().map(|field| Arc::new(PromptField::new(name, field, host)))
        };
        let single =
            |name, field: &Option<Field>| field.as_ref().map(|field| PromptField::new(name, field, host));
        let evaluated = QuestionFields {
            text: make("doc_to_text", &config.doc_to_text),
            choice: make("doc_to_choice", &config.doc_to_choice),
            target: make("doc_to_target", &config.doc_to_target),
            prefix: make("gen_prefix", &config.gen_prefix),
        };
        let fewshot = &config.fewshot_config;
        let own = |name, field: &Option<Field>, task: &Option<Field>, made: &Option<Arc<PromptField>>| {
            // Equal templates are compiled once.
            if field == task { made.clone() } else { make(name, field) }
        };
        let example = QuestionFields {
            text: own(
                "fewshot_config.doc_to_text",
                &fewshot.doc_to_text,
                &config.doc_to_text,
                &evaluated.text,
            ),
            choice: own(
                "fewshot_config.doc_to_choice",
                &fewshot.doc_to_choice,
                &config.doc_to_choice,
                &evaluated.choice,
            ),
            target: own(
                "fewshot_config.doc_to_target",
                &fewshot.doc_to_target,
                &config.doc_to_target,
                &evaluated.target,
            ),
            prefix: own(
                "fewshot_config.gen_prefix",
                &fewshot.gen_prefix,
                &config.gen_prefix,
                &evaluated.prefix,
            ),
        };
        // Reference: `process_results` gets the document as it was read.
        let is_watched = dialect.functions_change_documents && !config.scores_itself();
        let own_columns =
            Resolution { columns: None, list_elements_are_templates: dialect.list_elements_are_templates };
        let rules = Resolution {
            columns: dialect.columns_of_evaluated_split.then(|| columns.iter().cloned().collect()),
            ..own_columns.clone()
        };
        Self {
            dialect,
            output_type: config.output_type,
            shape: Shape { inputs: Inputs::One, multiple_targets: config.multiple_targets },
            evaluated,
            example,
            description: single("description", &config.description),
            image: single("doc_to_image", &config.doc_to_image),
            audio: single("doc_to_audio", &config.doc_to_audio),
            rules,
            own_columns,
            is_watched,
        }
    }

    /// Tracks the changes that functions make to one evaluated document, if they matter.
    pub(crate) fn watch(&self) -> Option<ChangedDocument> {
        self.is_watched.then(ChangedDocument::default)
    }

    /// Resolves a field whose function may change the document for later fields.
    fn resolve_watched(
        &self,
        field: &PromptField,
        document: &Arc<Dict>,
        watch: Option<&ChangedDocument>,
    ) -> Result<Resolved, PromptError> {
        let Some(watch) = watch else { return field.resolve(document, &self.rules) };
        let (resolved, changed) = field.resolve_watched(&watch.current(document), &self.rules)?;
        if let Some(changed) = changed {
            watch.set(changed);
        }
        Ok(resolved)
    }

    /// Lets the first evaluated document decide whether there are several inputs and targets.
    ///
    /// A field that cannot be resolved decides nothing; it is an error once its document is evaluated.
    pub(crate) fn decide_shape(&mut self, config: &TaskConfig, first: &Arc<Dict>) {
        let options = self.output_type == OutputType::MultipleChoice;
        if options && config.multiple_inputs {
            self.shape.inputs = Inputs::Listed;
        } else if options && self.evaluated.choice.is_some() {
            let text = self.evaluated.text.as_ref().and_then(|field| field.resolve(first, &self.rules).ok());
            let is_index = |text: Resolved| {
                text.rendered().is_some_and(is_digits)
                    || matches!(text.value, Value::Int(_) | Value::BigInt(_) | Value::Bool(_))
            };
            if text.is_some_and(is_index) {
                self.shape.inputs = Inputs::Options;
            }
        }
        if matches!(self.output_type, OutputType::MultipleChoice | OutputType::GenerateUntil) {
            let target =
                self.evaluated.target.as_ref().and_then(|field| field.resolve(first, &self.rules).ok());
            // Reference: the number of targets decides, so an empty list, as which the text `[]` is read, is one target.
            let has_several = |target: Resolved| match target.rendered() {
                Some(text) => list_literal(text).as_ref().is_some_and(Value::is_truthy),
                None => matches!(target.value, Value::List(_)) && target.value.is_truthy(),
            };
            self.shape.multiple_targets |= target.is_some_and(has_several);
        }
    }

    /// The question of a document: a string, or whatever represents several inputs.
    pub(crate) fn text(
        &self,
        field: Option<&PromptField>,
        document: &Arc<Dict>,
    ) -> Result<Value, PromptError> {
        let Some(field) = field else {
            return Ok(Value::None);
        };
        let resolved = field.resolve(document, &self.rules)?;
        match self.shape.inputs {
            Inputs::One => Ok(resolved.value),
            Inputs::Listed => Ok(coerce_list(resolved.value)),
            Inputs::Options => match resolved.rendered() {
                Some(text) if is_digits(text) => {
                    let number = if self.dialect.targets_as_written {
                        digits_literal(text)
                    } else {
                        digits_to_int(text)
                    };
                    number.map_err(|error| error.in_field(field.name()))
                }
                _ => Ok(resolved.value),
            },
        }
    }

    /// The options of a document, if it has any.
    pub(crate) fn options(
        &self,
        field: Option<&PromptField>,
        document: &Arc<Dict>,
        watch: Option<&ChangedDocument>,
    ) -> Result<Option<Options>, PromptError> {
        let Some(field) = field else { return Ok(None) };
        let resolved = self.resolve_watched(field, document, watch)?;
        if self.dialect.options_of_any_kind {
            let iterable = match resolved.rendered() {
                Some(text) => literal_eval(text).map_err(|error| {
                    PromptError::new(PromptErrorKind::Value, "The rendered template is not a Python literal")
                        .in_field(field.name())
                        .caused_by(error)
                })?,
                None => resolved.value,
            };
            return iterate(iterable).map(Some).map_err(|error| error.in_field(field.name()));
        }
        let value = match resolved.rendered() {
            Some(text) => literal_eval(text).unwrap_or_default(),
            None => coerce_list(resolved.value),
        };
        let (Value::List(options) | Value::Tuple(options)) = value else {
            return Ok(None);
        };
        let scored = self.output_type == OutputType::MultipleChoice;
        let usable =
            if scored { matches!(options.first(), Some(Value::Str(_))) } else { !options.is_empty() };
        Ok(usable.then_some(options))
    }

    /// The target of a document, before it is looked up among options.
    pub(crate) fn target(
        &self,
        field: Option<&PromptField>,
        document: &Arc<Dict>,
        watch: Option<&ChangedDocument>,
    ) -> Result<Value, PromptError> {
        let Some(field) = field else {
            return Ok(Value::None);
        };
        let resolved = self.resolve_watched(field, document, watch)?;
        let typed = if self.dialect.targets_as_written {
            self.type_as_written(resolved)
        } else {
            self.type_by_output(resolved.value)
        };
        typed.map_err(|error| error.in_field(field.name()))
    }

    fn type_by_output(&self, value: Value) -> Result<Value, PromptError> {
        let multiple = self.shape.multiple_targets;
        match self.output_type {
            OutputType::MultipleChoice if self.shape.inputs == Inputs::Options => Ok(value),
            OutputType::MultipleChoice => coerce_target(value, multiple),
            OutputType::GenerateUntil if multiple => Ok(coerce_list(value)),
            OutputType::GenerateUntil => Ok(value),
            // Reference: for these the answer is a string or nothing.
            OutputType::Loglikelihood | OutputType::LoglikelihoodRolling => {
                Ok(if matches!(value, Value::Str(_)) { value } else { Value::None })
            }
        }
    }

    fn type_as_written(&self, resolved: Resolved) -> Result<Value, PromptError> {
        let scored = matches!(self.output_type, OutputType::MultipleChoice | OutputType::GenerateUntil);
        match resolved.rendered().filter(|_| scored) {
            Some(text) if is_digits(text) && self.evaluated.choice.is_some() => digits_literal(text),
            Some(text) if text.len() >= 2 && text.starts_with('[') && text.ends_with(']') => {
                Ok(literal_eval(text).unwrap_or(resolved.value))
            }
            _ => Ok(resolved.value),
        }
    }

    /// The answer of an example: the index among the task's options, or the target.
    pub(crate) fn example_answer(
        &self,
        target: Option<&PromptField>,
        document: &Arc<Dict>,
    ) -> Result<Value, PromptError> {
        let target = self.target(target, document, None)?;
        if self.output_type != OutputType::MultipleChoice || self.dialect.targets_as_written {
            return Ok(target);
        }
        let options = match self.shape.inputs {
            Inputs::One => self.options(self.evaluated.choice.as_deref(), document, None)?,
            Inputs::Listed => match self.text(self.evaluated.text.as_deref(), document)? {
                Value::List(texts) => Some(texts),
                _ => None,
            },
            Inputs::Options => return Ok(target),
        };
        Ok(options.map_or(Value::None, |options| resolve_index(&target, &options)))
    }

    /// The start of the answer; `None` if empty.
    pub(crate) fn prefix(
        &self,
        field: Option<&PromptField>,
        document: &Arc<Dict>,
    ) -> Result<Option<Arc<str>>, PromptError> {
        optional_text(field, document, &self.rules)
    }

    /// The answer prefix of an example, rendered with the example.
    pub(crate) fn example_prefix(&self, document: &Arc<Dict>) -> Result<Option<Arc<str>>, PromptError> {
        optional_text(self.example.prefix.as_deref(), document, &self.own_columns)
    }

    /// The description; `None` if empty.
    pub(crate) fn description(&self, document: &Arc<Dict>) -> Result<Option<Arc<str>>, PromptError> {
        optional_text(self.description.as_ref(), document, &self.own_columns)
    }

    /// The images or audio of a document.
    pub(crate) fn media(
        &self,
        field: Option<&PromptField>,
        document: &Arc<Dict>,
    ) -> Result<Option<Value>, PromptError> {
        let Some(field) = field.filter(|field| !field.is_empty()) else {
            return Ok(None);
        };
        let evaluate = |resolved: Resolved| match resolved.rendered() {
            None => Ok(resolved.value),
            Some(text) => literal_eval(text).map_err(|error| {
                PromptError::new(PromptErrorKind::Value, "The rendered template is not a Python literal")
                    .in_field(field.name())
                    .hint("Name a column, or make the template render a list")
                    .caused_by(error)
            }),
        };
        let each = field.resolve_each(document, &self.rules)?;
        let values: Vec<Value> = each.into_iter().map(evaluate).collect::<Result<_, _>>()?;
        if field.is_list() {
            return Ok(Some(Value::list(values.into_iter().filter(|value| !value.is_none()))));
        }
        Ok(values.into_iter().next())
    }
}

/// An optional string of a document; `None` if null or empty.
fn optional_text(
    field: Option<&PromptField>,
    document: &Arc<Dict>,
    rules: &Resolution,
) -> Result<Option<Arc<str>>, PromptError> {
    let Some(field) = field.filter(|field| !field.is_empty()) else {
        return Ok(None);
    };
    match field.resolve(document, rules)?.value {
        Value::None => Ok(None),
        Value::Str(text) => Ok(Some(text).filter(|text| !text.is_empty())),
        other => {
            let message = format!("Expected a str, found {}", described(&other));
            Err(PromptError::new(PromptErrorKind::Type, message).in_field(field.name()))
        }
    }
}

/// Collects what a Python `for` loop would iterate over.
fn iterate(value: Value) -> Result<Options, PromptError> {
    match value {
        Value::List(items) | Value::Tuple(items) | Value::Set(items) => Ok(items),
        Value::Dict(dict) => Ok(Arc::new(dict.keys().cloned().collect())),
        Value::Str(text) => {
            Ok(Arc::new(text.chars().map(|letter| Value::from(letter.to_string())).collect()))
        }
        other => {
            let message = format!("Expected a list of options, found {}", described(&other));
            Err(PromptError::new(PromptErrorKind::Type, message))
        }
    }
}

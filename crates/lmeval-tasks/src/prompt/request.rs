//! Builds requests from a document and its context.

use std::sync::Arc;

use lmeval_core::{Arguments, Context, DocId, Instance, InstanceMetadata, OutputType, RequestType};
use lmeval_pycompat::repr;
use lmeval_pycompat::strings::is_space;
use lmeval_pycompat::{Dict, MediaKind, Value};

use super::changes::ChangedDocument;
use super::coerce::{item_at, resolve_index};
use super::context::Contexts;
use super::error::{PromptError, PromptErrorKind};
use super::example::not_a;
use super::fields::{Inputs, Options};
use super::media;
use super::plan::Plan;

/// Why a document has no requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Skipped {
    /// It has no options.
    NoOptions,
    /// It has no target.
    NoTarget,
    /// The chat format does not allow appending options.
    ContextWithoutOptions,
    /// The task's class built no requests for it.
    NoRequests,
}

/// The requests of a document with its options, or why there are none.
pub(crate) type Built = Result<(Vec<Instance>, Option<Options>), Skipped>;

/// Properties shared by all requests of a document.
struct Common {
    doc_id: DocId,
    target: Value,
    gold: Value,
    additional_args: Option<Arc<Dict>>,
}

impl Plan {
    /// Builds the requests of a document.
    pub(crate) fn requests(
        &self,
        doc_id: DocId,
        document: &Arc<Dict>,
        examples: &[usize],
        watch: Option<&ChangedDocument>,
    ) -> Result<Built, PromptError> {
        if let Some(class) = &self.class {
            return self.class_requests(class, doc_id, document, examples);
        }
        let target = self.fields.target(self.fields.evaluated.target.as_deref(), document, watch)?;
        let additional_args = self.media(document)?;
        let common = |target: Value, gold: Value| Common { doc_id, target, gold, additional_args };
        // Reference: 0.5 shows 0 if the target itself is scored.
        let shown = |target: &Value| {
            if self.dialect.targets_as_written { target.clone() } else { Value::Int(0) }
        };
        match self.fields.output_type {
            OutputType::MultipleChoice => {
                let options =
                    self.fields.options(self.fields.evaluated.choice.as_deref(), document, watch)?;
                let Some(options) = options.filter(|options| !options.is_empty()) else {
                    return Ok(Err(Skipped::NoOptions));
                };
                if target.is_none() && !self.dialect.targets_as_written {
                    return Ok(Err(Skipped::NoTarget));
                }
                let contexts = self.contexts(doc_id, document, examples, Some(&options))?;
                if self.letters {
                    let gold = resolve_index(&target, &options);
                    let target = if self.dialect.targets_as_written { target } else { gold.clone() };
                    return Ok(Ok((
                        vec![self.letters(contexts, &options, &common(target, gold))?],
                        Some(options),
                    )));
                }
                self.score_options(document, contexts, &options, target, common)
            }
            OutputType::Loglikelihood => {
                let context = self.single_context(doc_id, document, examples)?;
                if context.as_text().is_none() {
                    let message = "A conversation cannot be the context of a log-likelihood";
                    return Err(PromptError::new(PromptErrorKind::Type, message)
                        .hint("Run without a chat template, or with one that renders a string"));
                }
                let continuation = scored_text(&target)?;
                let arguments = Arguments::Loglikelihood { context, continuation };
                let common = common(shown(&target), target);
                let instance = self.instance(&common, RequestType::Loglikelihood, 0, arguments);
                Ok(Ok((vec![instance], None)))
            }
            OutputType::LoglikelihoodRolling => {
                let question = self.fields.text(self.fields.evaluated.text.as_deref(), document)?;
                if !matches!(question, Value::Str(_)) {
                    return Err(not_a("text", &question)
                        .in_field("doc_to_text")
                        .hint("Write `doc_to_text: \"\"`: `doc_to_target` is the string that is scored"));
                }
                let arguments = Arguments::Rolling { text: scored_text(&target)? };
                let common = common(shown(&target), target);
                let instance = self.instance(&common, RequestType::LoglikelihoodRolling, 0, arguments);
                Ok(Ok((vec![instance], None)))
            }
            OutputType::GenerateUntil => {
                let context = self.single_context(doc_id, document, examples)?;
                let arguments = Arguments::Generate { context, kwargs: Arc::clone(&self.generation_kwargs) };
                let (gold, options) = self.generation_gold(document, &target, watch)?;
                let common = common(target, gold);
                let mut instance = self.instance(&common, RequestType::GenerateUntil, 0, arguments);
                instance.metadata.metric_kwargs.clone_from(&self.metric_kwargs);
                Ok(Ok((vec![instance], options)))
            }
        }
    }

    /// The gold answer of a generation, and the options it comes from.
    fn generation_gold(
        &self,
        document: &Arc<Dict>,
        target: &Value,
        watch: Option<&ChangedDocument>,
    ) -> Result<(Value, Option<Options>), PromptError> {
        if !self.dialect.targets_as_written {
            return Ok((target.clone(), None));
        }
        // Reference: if a generation task has options, its target is the index of one.
        let options = self.fields.options(self.fields.evaluated.choice.as_deref(), document, watch)?;
        let gold = match (&options, target.as_i64()) {
            (Some(options), Some(index)) => item_at(options, index).cloned().unwrap_or_default(),
            // Reference: the first document decides whether targets are lists of answers. If so, each target becomes a
            // list; otherwise anything but a string is compared as a string.
            _ if self.fields.shape.multiple_targets => each_of(target),
            _ => match target {
                Value::List(_) | Value::Tuple(_) | Value::Set(_) | Value::Dict(_) => {
                    Value::from(repr::str(target))
                }
                _ => target.clone(),
            },
        };
        Ok((gold, options))
    }

    pub(super) fn single_context(
        &self,
        doc_id: DocId,
        document: &Arc<Dict>,
        examples: &[usize],
    ) -> Result<Context, PromptError> {
        match self.contexts(doc_id, document, examples, None)? {
            Contexts::One(context) => Ok(context),
            Contexts::Several(_) => {
                Err(PromptError::new(PromptErrorKind::Type, "Only options can be scored in several contexts"))
            }
        }
    }

    fn score_options(
        &self,
        document: &Arc<Dict>,
        contexts: Contexts,
        options: &Options,
        target: Value,
        common: impl FnOnce(Value, Value) -> Common,
    ) -> Result<Built, PromptError> {
        let delimiter = self.option_delimiter(document)?;
        let delimiter = delimiter.as_ref();
        let (pairs, gold) = match contexts {
            Contexts::One(context) => {
                if matches!(context, Context::Json(_)) && self.dialect.json_context_skips_options {
                    return Ok(Err(Skipped::ContextWithoutOptions));
                }
                let pair = |option: &Value| {
                    let option = self.option_text(option)?;
                    Ok((context.clone(), self.continuation(&context, &option, delimiter)))
                };
                let pairs: Result<Vec<_>, PromptError> = options.iter().map(pair).collect();
                (pairs?, resolve_index(&target, options))
            }
            Contexts::Several(contexts) => {
                let gold = self.input_index(document, options, &target)?;
                (self.input_pairs(contexts, options, &target, delimiter)?, gold)
            }
        };
        let target = if self.dialect.targets_as_written { target } else { gold.clone() };
        let common = common(target, gold);
        let unconditional = self.unconditional(&pairs, options, delimiter)?;
        let conditional = pairs.len();
        let requests =
            pairs.into_iter().chain(unconditional).enumerate().map(|(idx, (context, continuation))| {
                let arguments = Arguments::Loglikelihood { context, continuation };
                let mut instance = self.instance(&common, RequestType::Loglikelihood, idx, arguments);
                instance.metadata.unconditional = idx >= conditional;
                instance
            });
        Ok(Ok((requests.collect(), Some(Arc::clone(options)))))
    }

    /// The request that compares the labels of all options.
    fn letters(
        &self,
        contexts: Contexts,
        options: &Options,
        common: &Common,
    ) -> Result<Instance, PromptError> {
        let refused = |message: String| {
            PromptError::new(PromptErrorKind::Value, message)
                .in_field("doc_to_choice")
                .hint("`--choices generate` lets the model write its answer")
        };
        let Contexts::One(context) = contexts else {
            return Err(refused("Several inputs cannot be compared by the letters of options".to_owned()));
        };
        let text = |option: &Value| Ok(Arc::from(self.option_text(option)?.trim()));
        let labels: Vec<Arc<str>> = options.iter().map(text).collect::<Result<_, PromptError>>()?;
        for (index, label) in labels.iter().enumerate() {
            if label.is_empty() {
                return Err(refused(format!("The label of option {index} is empty")));
            }
            // The first token of the longer one could be the shorter one.
            let is_ambiguous =
                |(other, longer): (usize, &Arc<str>)| other != index && longer.starts_with(&**label);
            if let Some(longer) = labels.iter().enumerate().find(|pair| is_ambiguous(*pair)) {
                let message =
                    format!("The label `{label}` cannot be told from `{}` by its first token", longer.1);
                return Err(refused(message));
            }
        }
        let arguments = Arguments::Letters { context, labels: labels.into() };
        Ok(self.instance(common, RequestType::ChoiceLetters, 0, arguments))
    }

    /// The string form of an option.
    fn option_text(&self, option: &Value) -> Result<Arc<str>, PromptError> {
        match option {
            Value::Str(text) => Ok(Arc::clone(text)),
            other if self.dialect.options_of_any_kind => Ok(repr::str(other).into()),
            other => Err(not_a("a str as an option", other).in_field("doc_to_choice")),
        }
    }

    /// Pairs each of several inputs with the same continuation.
    fn input_pairs(
        &self,
        contexts: Vec<Context>,
        options: &Options,
        target: &Value,
        delimiter: &str,
    ) -> Result<Vec<(Context, Arc<str>)>, PromptError> {
        let continuation: Arc<str> = match (self.fields.shape.inputs, options.as_slice()) {
            (Inputs::Options, _) => repr::str(target).into(),
            (_, [option]) => self.option_text(option)?,
            (_, options) => {
                let message = format!("Several inputs need exactly one continuation, not {}", options.len());
                return Err(PromptError::new(PromptErrorKind::Type, message).in_field("doc_to_choice"));
            }
        };
        let pair = |context: Context| match &context {
            Context::Text(text) if continuation.is_empty() && !self.dialect.delimiter_always => {
                Ok((Context::from(""), Arc::clone(text)))
            }
            Context::Text(_) => {
                let continuation = self.continuation(&context, &continuation, delimiter);
                Ok((context, continuation))
            }
            Context::Messages(_) | Context::Json(_) => {
                Err(PromptError::new(PromptErrorKind::Type, "Several inputs cannot be conversations")
                    .hint("Run without a chat template, or with one that renders a string"))
            }
        };
        contexts.into_iter().map(pair).collect()
    }

    /// The index of the correct input.
    fn input_index(
        &self,
        document: &Arc<Dict>,
        options: &Options,
        target: &Value,
    ) -> Result<Value, PromptError> {
        let text = self.fields.text(self.fields.evaluated.text.as_deref(), document)?;
        Ok(match (self.fields.shape.inputs, &text) {
            (Inputs::Listed, Value::List(inputs)) => resolve_index(target, inputs),
            _ => resolve_index(&text, options),
        })
    }

    /// The same continuations without their contexts, for mutual information.
    fn unconditional(
        &self,
        pairs: &[(Context, Arc<str>)],
        options: &Options,
        delimiter: &str,
    ) -> Result<Vec<(Context, Arc<str>)>, PromptError> {
        if !self.mutual_information {
            return Ok(Vec::new());
        }
        if self.dialect.delimiter_always {
            let pair = |option: &Value| {
                let text = self.option_text(option)?;
                Ok((Context::from(""), [delimiter, &text].concat().into()))
            };
            return options.iter().map(pair).collect();
        }
        let of_text = pairs.iter().filter(|(context, _)| context.as_text().is_some());
        Ok(of_text.map(|(_, continuation)| (Context::from(""), Arc::clone(continuation))).collect())
    }

    /// The delimiter between a context and an option.
    fn option_delimiter(&self, document: &Arc<Dict>) -> Result<Arc<str>, PromptError> {
        if self.chat_template.is_none() {
            return self.delimiters.target.get().cloned();
        }
        // Reference: with a chat template, the configured string decides, not the rendered one.
        let field = self.fields.evaluated.prefix.as_deref();
        let open = match field.and_then(|field| field.text()) {
            Some(text) => !text.is_empty() && !text.ends_with(is_space),
            None => self.fields.prefix(field, document)?.is_some_and(|prefix| !prefix.ends_with(is_space)),
        };
        if open { self.delimiters.target.get().cloned() } else { Ok(Arc::default()) }
    }

    /// The images and audio of a document.
    fn media(&self, document: &Arc<Dict>) -> Result<Option<Arc<Dict>>, PromptError> {
        if self.fields.image.is_none() && self.fields.audio.is_none() {
            return Ok(None);
        }
        let mut media = Dict::new();
        let fields = [
            ("visual", &self.fields.image, MediaKind::Image),
            ("audio", &self.fields.audio, MediaKind::Audio),
        ];
        for (key, field, kind) in fields {
            let mut found = self.fields.media(field.as_ref(), document)?;
            if !self.dialect.media_strings_as_written {
                found = found.map(|found| media::with_files(found, kind));
            }
            if let Some(found) = &found {
                media::check(found, document).map_err(|error| match field {
                    Some(field) => error.in_field(field.name()),
                    None => error,
                })?;
            }
            match found {
                Some(Value::None) if self.dialect.omit_absent_media => {}
                Some(value) => {
                    media.insert(key, value);
                }
                None => {}
            }
        }
        Ok((!media.is_empty()).then(|| Arc::new(media)))
    }

    fn instance(
        &self,
        common: &Common,
        request_type: RequestType,
        idx: usize,
        arguments: Arguments,
    ) -> Instance {
        Instance {
            request_type,
            task_name: Arc::clone(&self.name),
            doc_id: common.doc_id,
            idx,
            repeats: self.repeats,
            arguments,
            target: common.target.clone(),
            gold: common.gold.clone(),
            metadata: InstanceMetadata::default(),
            additional_args: common.additional_args.clone(),
        }
    }
}

/// The string whose log-likelihood is scored.
fn scored_text(target: &Value) -> Result<Arc<str>, PromptError> {
    match target {
        Value::Str(text) => Ok(Arc::clone(text)),
        other => Err(not_a("a str to score", other)
            .in_field("doc_to_target")
            .hint("A template around the column converts it to a string: `doc_to_target: \"{{column}}\"`")),
    }
}

/// The list that Python's `list` makes of a target.
fn each_of(target: &Value) -> Value {
    match target {
        Value::Tuple(items) | Value::Set(items) => Value::List(Arc::clone(items)),
        Value::Str(text) => Value::list(text.chars().map(|letter| Value::from(letter.to_string()))),
        Value::Dict(dict) => Value::list(dict.keys().cloned()),
        other => other.clone(),
    }
}

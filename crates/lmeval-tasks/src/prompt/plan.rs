//! Everything about a task's requests that is the same for all documents.

use std::sync::Arc;

use lmeval_core::{ChatTemplate, Context, Dialect, Documents, OutputType};
use lmeval_pycompat::{Dict, Value};
use lmeval_scoring::Host;

use super::digest::Conversations;
use super::error::{ErrorDocument, PromptError, PromptErrorKind};
use super::example::Pool;
use super::fields::TaskFields;
use super::options::{RequestOptions, RequestSources};
use super::turn::{Delimiter, Delimiters};
use crate::config::{Named, TaskConfig};
use crate::source::Mapping;
use crate::{ClassTask, Task};

/// A task, ready to turn documents into requests. It is immutable, so documents can be rendered in parallel.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) name: Arc<str>,
    pub(crate) dialect: Dialect,
    pub(crate) fields: TaskFields,
    /// Delimiters of the evaluated question; nothing follows it.
    pub(crate) delimiters: Delimiters,
    /// Delimiters of examples.
    pub(crate) example_delimiters: Delimiters,
    /// Between system instruction and description.
    pub(crate) system_delimiter: Delimiter,
    pub(crate) system_instruction: Option<String>,
    pub(crate) chat_template: Option<Arc<dyn ChatTemplate>>,
    pub(crate) fewshot_as_multiturn: bool,
    /// The conversations that the template has rendered.
    pub(crate) conversations: Conversations,
    /// The documents that examples are drawn from, if there are any.
    pub(crate) pool: Option<Pool>,
    pub(crate) generation_kwargs: Arc<Dict>,
    pub(crate) repeats: usize,
    pub(crate) mutual_information: bool,
    /// Whether the options are labels, compared in one request.
    pub(crate) letters: bool,
    pub(crate) metric_kwargs: Option<Arc<Dict>>,
    /// The instance that builds requests, if the task is a class that does so.
    pub(crate) class: Option<PlannedClass>,
}

/// The instance of a task's class, and the host that runs it.
#[derive(Debug)]
pub(crate) struct PlannedClass {
    pub(crate) class: Arc<ClassTask>,
    pub(crate) host: Arc<dyn Host>,
}

impl Plan {
    /// Prepares a task, given its evaluated documents.
    pub(crate) fn new(
        task: &Task,
        evaluated: &dyn Documents,
        sources: &RequestSources,
        options: &RequestOptions,
    ) -> Result<Self, PromptError> {
        let config = &task.config;
        let dialect = options.dialect;
        let mut fields = TaskFields::new(config, dialect, evaluated.columns(), &sources.host);
        let first = evaluated.get(0).map_err(|error| {
            PromptError::new(PromptErrorKind::Documents, "Cannot read the document")
                .caused_by(error)
                .at(ErrorDocument::Document(lmeval_core::DocId(0)))
        })?;
        fields.decide_shape(config, &first);
        let pool = if config.fewshot_count() > 0 {
            let split = example_split(config, task.mapping(), &dialect);
            Some(Pool::new(task, split, dialect.fewshot_indices, sources)?)
        } else {
            None
        };
        let fewshot = &config.fewshot_config;
        let metric_kwargs = fields.shape.multiple_targets.then(|| {
            Arc::new([(Value::str("multiple_targets"), Value::Bool(true))].into_iter().collect::<Dict>())
        });
        Ok(Self {
            name: Arc::from(config.base_name()),
            dialect,
            delimiters: Delimiters {
                target: Delimiter::new("target_delimiter", config.target_delimiter.as_deref()),
                fewshot: Delimiter::new("fewshot_delimiter", Some("")),
            },
            example_delimiters: Delimiters {
                target: Delimiter::new(
                    "fewshot_config.target_delimiter",
                    fewshot.target_delimiter.as_deref(),
                ),
                fewshot: Delimiter::new(
                    "fewshot_config.fewshot_delimiter",
                    fewshot.fewshot_delimiter.as_deref(),
                ),
            },
            system_delimiter: Delimiter::new("fewshot_delimiter", config.fewshot_delimiter.as_deref()),
            system_instruction: options.system_instruction.clone().filter(|text| !text.is_empty()),
            chat_template: options.chat_template.clone(),
            fewshot_as_multiturn: options.fewshot_as_multiturn,
            conversations: Conversations::default(),
            pool,
            generation_kwargs: Arc::new(config.generation_kwargs.in_dialect(&dialect).clone()),
            repeats: repeats(config, task.mapping(), &dialect),
            mutual_information: uses_mutual_information(config, &dialect),
            letters: options.letters,
            metric_kwargs: metric_kwargs.filter(|_| config.output_type == OutputType::GenerateUntil),
            class: task
                .class_task()
                .filter(|class| class.makes_requests())
                .map(|class| PlannedClass { class: Arc::clone(class), host: Arc::clone(&sources.host) }),
            fields,
        })
    }

    /// Whether an evaluated document must not be its own example.
    ///
    /// Reference: the few-shot split equals the evaluated split; two unset splits compare equal.
    pub(crate) fn excludes_evaluated(task: &Task, dialect: &Dialect) -> bool {
        if let Some(class) = task.class_task() {
            return class.excludes_evaluated;
        }
        example_split(&task.config, task.mapping(), dialect) == task.config.test_split.as_deref()
    }

    /// The continuation for an option after a context.
    pub(crate) fn continuation(&self, context: &Context, option: &str, delimiter: &str) -> Arc<str> {
        let delimited = match context {
            Context::Text(text) if !self.dialect.delimiter_always => {
                super::turn::needs_delimiter(text, option)
            }
            _ => true,
        };
        if delimited && !delimiter.is_empty() { [delimiter, option].concat().into() } else { option.into() }
    }
}

/// The split that examples are drawn from.
fn example_split<'a>(config: &'a TaskConfig, mapping: &Mapping, dialect: &Dialect) -> Option<&'a str> {
    let written =
        mapping.get("fewshot_config").and_then(Value::as_dict).and_then(|given| given.get_str("split"));
    if dialect.null_split_means_none && written.is_some_and(Value::is_none) {
        return None;
    }
    config.fewshot_config.split.as_deref()
}

fn repeats(config: &TaskConfig, mapping: &Mapping, dialect: &Dialect) -> usize {
    if !dialect.repeats_always || config.output_type == OutputType::GenerateUntil {
        return config.repeats;
    }
    let written =
        mapping.get("repeats").and_then(Value::as_i64).and_then(|count| usize::try_from(count).ok());
    written.unwrap_or(config.repeats)
}

fn uses_mutual_information(config: &TaskConfig, dialect: &Dialect) -> bool {
    let is_named = |metric: &crate::config::MetricConfig| matches!(&metric.metric, Named::Name(name) if &**name == "acc_mutual_info");
    if dialect.targets_as_written {
        return config.metric_list.iter().any(is_named);
    }
    config.filter_list.iter().flat_map(|pipeline| &pipeline.metric_list).any(is_named)
}

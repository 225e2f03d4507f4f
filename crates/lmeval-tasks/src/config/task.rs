//! The typed form of a task.

use std::borrow::Cow;
use std::sync::Arc;

use lmeval_core::{MAX_REPEATS, OutputType, nearest};
use lmeval_pycompat::{Dict, Function, Value};
use lmeval_scoring::registry::Registry;

use super::fewshot::FewshotConfig;
use super::field::Field;
use super::filter::FilterPipeline;
use super::generation::GenerationKwargs;
use super::keys::TASK_KEYS;
use super::metric::MetricConfig;
use super::path::{ConfigPath, Named};
use super::read::Reader;
use super::scorer::ScorerConfig;
use super::words::shortened;
use crate::error::{Diagnostic, Error, ErrorKind};
use crate::formats::{Templates, locate, resolve};
use crate::source::{Mapping, Origin};

/// The configuration of a task, normalised.
#[derive(Clone, Debug)]
pub struct TaskConfig {
    /// The name as written, including `@format`.
    pub task: String,
    /// The name shown in tables.
    pub task_alias: Option<String>,
    /// The prompt formats as written, otherwise the caller's selection.
    pub formats: Value,
    /// The kind of request sent to the model.
    pub output_type: OutputType,
    /// Tags: names that select several tasks at once.
    pub tag: Vec<String>,
    /// A function that returns the documents.
    pub custom_dataset: Option<Arc<Function>>,
    /// The dataset: a hub repository, a folder or a loader such as `json`.
    pub dataset_path: Option<String>,
    /// The configuration of the dataset.
    pub dataset_name: Option<String>,
    /// More arguments of the dataset loader; `None` for an explicit null, which means none.
    pub dataset_kwargs: Option<Dict>,
    /// Split with training documents.
    pub training_split: Option<String>,
    /// Split with validation documents, evaluated if there is no test split.
    pub validation_split: Option<String>,
    /// Split with test documents.
    pub test_split: Option<String>,
    /// Split that few-shot examples are drawn from.
    pub fewshot_split: Option<String>,
    /// A function applied to every split.
    pub process_docs: Option<Arc<Function>>,
    /// Precedes the prompt; `None` for an explicit null, which means nothing.
    pub description: Option<Field>,
    /// The question, without examples and description.
    pub doc_to_text: Option<Field>,
    /// The options of a multiple-choice question.
    pub doc_to_choice: Option<Field>,
    /// The gold answer.
    pub doc_to_target: Option<Field>,
    /// Starts the answer; the model continues it.
    pub gen_prefix: Option<Field>,
    /// Images shown with the question.
    pub doc_to_image: Option<Field>,
    /// Audio played with the question.
    pub doc_to_audio: Option<Field>,
    /// A function that scores one document.
    pub process_results: Option<Arc<Function>>,
    /// Separates question and answer.
    pub target_delimiter: Option<String>,
    /// Separates few-shot examples.
    pub fewshot_delimiter: Option<String>,
    /// Source and layout of few-shot examples.
    pub fewshot_config: FewshotConfig,
    /// The number of few-shot examples; `None` means 0.
    pub num_fewshot: Option<i64>,
    /// Settings of a generation.
    pub generation_kwargs: GenerationKwargs,
    /// The metrics of pipelines without their own.
    pub metric_list: Vec<MetricConfig>,
    /// The filter pipelines, at least one.
    pub filter_list: Vec<FilterPipeline>,
    /// The scorer; `None` leaves it to the output type.
    pub scorer: Option<ScorerConfig>,
    /// The number of answers requested per document.
    pub repeats: usize,
    /// How the answers to each document become one value, instead of the reductions of its metrics.
    pub reductions: Vec<Arc<str>>,
    /// Whether scoring runs model-generated code.
    pub unsafe_code: bool,
    /// Accepted, but ignored.
    pub use_prompt: Value,
    /// Whether each option is a separate context.
    pub multiple_inputs: bool,
    /// Whether a target may be a list of acceptable answers.
    pub multiple_targets: bool,
    /// Accepted, but ignored.
    pub should_decontaminate: Value,
    /// Accepted, but ignored.
    pub doc_to_decontamination_query: Value,
    /// Information about the task, such as its version.
    pub metadata: Dict,
    /// The format that the caller selected with `@`.
    pub formats_selection: Option<String>,
    /// The task's key in results, if it is defined inside a group.
    pub qualified_name: Option<String>,
    /// The Python class that implements the task.
    pub class: Option<Arc<Function>>,
    /// The version attribute of the class, used if the metadata has none.
    pub class_version: Option<Value>,
    /// Keys that only the task's class reads.
    pub extras: Dict,
    /// The name of the format that was applied.
    pub format: Option<Arc<str>>,
    /// Whether the applied format shows the options with labels, which are the options of requests.
    pub has_labels: bool,
}

impl TaskConfig {
    /// Reads a task from its mapping, with the built-in formats.
    pub fn from_mapping(mapping: &Mapping, warnings: &mut Vec<Diagnostic>) -> Result<Self, Error> {
        Self::from_mapping_with(mapping, &Registry::default(), warnings)
    }

    /// Reads a task from its mapping.
    pub fn from_mapping_with(
        mapping: &Mapping,
        registry: &Registry,
        warnings: &mut Vec<Diagnostic>,
    ) -> Result<Self, Error> {
        let reader = Reader { mapping, warnings };
        reader.reject_unknown("a task", None, mapping.values(), &TASK_KEYS)?;
        Self::build(mapping, registry, warnings)
    }

    /// Reads a Python task class from its mapping; unknown keys go into [`TaskConfig::extras`].
    pub fn from_class_mapping(
        mapping: &Mapping,
        registry: &Registry,
        warnings: &mut Vec<Diagnostic>,
    ) -> Result<Self, Error> {
        let class = match mapping.get("class") {
            Some(Value::Function(class)) => Arc::clone(class),
            other => {
                let path = ConfigPath::key("class");
                let reader = Reader { mapping, warnings };
                return Err(reader.wrong_type(&path, "a function", other.unwrap_or(&Value::None)));
            }
        };
        let mut config = Self::build(mapping, registry, warnings)?;
        config.class = Some(class);
        config.extras = mapping
            .values()
            .iter()
            .filter(|(key, _)| key.as_str().is_none_or(|key| key != "class" && !TASK_KEYS.contains(&key)))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        Ok(config)
    }

    fn build(mapping: &Mapping, registry: &Registry, warnings: &mut Vec<Diagnostic>) -> Result<Self, Error> {
        let Formatted { mapping: formatted, name: format, has_labels } =
            apply_format(mapping, registry, warnings)?;
        let mut reader = Reader { mapping: &formatted, warnings };
        let reader = &mut reader;
        let Some(task) = reader.label("task")? else {
            return Err(Error::new(ErrorKind::Type, "A task needs a name under `task`"));
        };
        let output_type = read_output_type(reader)?;
        let multiple_inputs = reader.switch("multiple_inputs")?;
        let multiple_targets = reader.switch("multiple_targets")?;
        reject_several(reader, output_type, multiple_inputs, multiple_targets)?;
        let repeats = read_repeats(reader, output_type)?;
        let reductions = read_reductions(reader, output_type)?;
        let target_delimiter = reader.text_or("target_delimiter", " ")?;
        let fewshot_delimiter = reader.text_or("fewshot_delimiter", "\n\n")?;
        let generation_kwargs = GenerationKwargs::read(reader, output_type, fewshot_delimiter.as_deref())?;
        let doc_to_text = reader.field("doc_to_text")?;
        let doc_to_choice = reader.field("doc_to_choice")?;
        let doc_to_target = reader.field("doc_to_target")?;
        let gen_prefix = reader.field("gen_prefix")?;
        let process_docs = reader.function("process_docs")?;
        let fewshot_split = reader.text("fewshot_split")?;
        let inherited = FewshotConfig {
            sampler: Named::Name("default".into()),
            split: fewshot_split.clone(),
            process_docs: process_docs.clone(),
            fewshot_indices: None,
            samples: None,
            doc_to_text: doc_to_text.clone(),
            doc_to_choice: doc_to_choice.clone(),
            doc_to_target: doc_to_target.clone(),
            gen_prefix: gen_prefix.clone(),
            fewshot_delimiter: fewshot_delimiter.clone(),
            target_delimiter: target_delimiter.clone(),
        };
        let fewshot_config = FewshotConfig::read(reader, inherited)?;
        let metric_list =
            MetricConfig::read_list(reader, &ConfigPath::key("metric_list"), formatted.get("metric_list"))?;
        let filter_list = FilterPipeline::read_list(reader, &metric_list)?;
        let kept = |key: &str| formatted.get(key).cloned().unwrap_or_default();
        Ok(Self {
            task,
            task_alias: reader.label("task_alias")?,
            formats: kept("formats"),
            output_type,
            tag: read_tag(reader)?,
            custom_dataset: reader.function("custom_dataset")?,
            dataset_path: reader.text("dataset_path")?,
            dataset_name: reader.text("dataset_name")?,
            dataset_kwargs: match reader.dict("dataset_kwargs")? {
                None if !formatted.contains("dataset_kwargs") => Some(Dict::new()),
                given => given,
            },
            training_split: reader.text("training_split")?,
            validation_split: reader.text("validation_split")?,
            test_split: reader.text("test_split")?,
            fewshot_split,
            process_docs,
            description: match reader.field("description")? {
                None if !formatted.contains("description") => Some(Field::Text("".into())),
                given => given,
            },
            doc_to_text,
            doc_to_choice,
            doc_to_target,
            gen_prefix,
            doc_to_image: reader.field("doc_to_image")?,
            doc_to_audio: reader.field("doc_to_audio")?,
            process_results: reader.function("process_results")?,
            target_delimiter,
            fewshot_delimiter,
            fewshot_config,
            num_fewshot: reader.int("num_fewshot")?,
            generation_kwargs,
            metric_list,
            filter_list,
            scorer: ScorerConfig::read(reader)?,
            repeats,
            reductions,
            unsafe_code: reader.switch("unsafe_code")?,
            use_prompt: kept("use_prompt"),
            multiple_inputs,
            multiple_targets,
            should_decontaminate: formatted
                .get("should_decontaminate")
                .cloned()
                .unwrap_or(Value::Bool(false)),
            doc_to_decontamination_query: kept("doc_to_decontamination_query"),
            metadata: reader.dict("metadata")?.unwrap_or_default(),
            formats_selection: reader.text("_formats_selection")?,
            qualified_name: reader.text("_qualified_name")?,
            class: None,
            class_version: None,
            extras: Dict::new(),
            format,
            has_labels,
        })
    }

    /// The version of the task, `Yaml` if it has none.
    pub fn version(&self) -> Value {
        let version = self.metadata.get_str("version").or(self.class_version.as_ref());
        version.cloned().unwrap_or_else(|| Value::str("Yaml"))
    }

    /// The name without `@format`.
    pub fn base_name(&self) -> &str {
        self.task.rsplit_once('@').map_or(&self.task, |(name, _)| name)
    }

    /// The arguments of the dataset loader: all but `trust_remote_code`, which has no effect.
    pub fn loader_kwargs(&self) -> Dict {
        let mut kwargs = self.dataset_kwargs.clone().unwrap_or_default();
        kwargs.remove_str("trust_remote_code");
        kwargs
    }

    /// Whether the task's own code computes values, rather than its metrics.
    pub fn scores_itself(&self) -> bool {
        self.process_results.is_some() || self.class.is_some()
    }
}

/// A mapping after its format was applied.
struct Formatted<'a> {
    mapping: Cow<'a, Mapping>,
    /// The format, if there is one.
    name: Option<Arc<str>>,
    has_labels: bool,
}

/// Applies the selected format.
fn apply_format<'a>(
    mapping: &'a Mapping,
    registry: &Registry,
    warnings: &mut Vec<Diagnostic>,
) -> Result<Formatted<'a>, Error> {
    let reader = Reader { mapping, warnings };
    let selection = match reader.text("_formats_selection")? {
        Some(selection) => Some(selection),
        None => reader
            .present("task")
            .and_then(Value::as_str)
            .and_then(|task| task.rsplit_once('@').map(|(_, selection)| selection.to_owned())),
    };
    let formats = match (reader.present("formats"), &selection) {
        (Some(formats), _) => formats.clone(),
        (None, Some(selection)) => Value::str(selection.as_str()),
        (None, None) => {
            return Ok(Formatted { mapping: Cow::Borrowed(mapping), name: None, has_labels: false });
        }
    };
    let selected = resolve(&formats, selection.as_deref(), registry, mapping)?;
    let or = |key: &str, default: &str| -> Result<Field, Error> {
        Ok(reader.field(key)?.unwrap_or_else(|| Field::Text(default.into())))
    };
    let templates = selected
        .format
        .templates(
            &or("doc_to_text", "question")?,
            &or("doc_to_target", "answer")?,
            reader.field("doc_to_choice")?.as_ref(),
        )
        .map_err(|error| {
            let entry = ConfigPath::key("formats").then(&*selected.name);
            error.at(locate(mapping, entry.steps()))
        })?;
    let mut formatted = mapping.clone();
    if !formatted.contains("formats") || reader.present("formats").is_none() {
        formatted.insert("formats", formats, Origin::Format(Arc::clone(&selected.name)));
    }
    let mut set = |key: &str, value: Value| {
        formatted.insert(key, value, Origin::Format(Arc::clone(&selected.name)));
    };
    let format = selected.format;
    let has_labels = format.choice_labels.is_some();
    set("output_type", Value::str(format.output_type.name()));
    set("doc_to_text", Value::from(templates.doc_to_text));
    set("doc_to_choice", Value::from(templates.doc_to_choice));
    set("doc_to_target", Value::from(templates.doc_to_target));
    set("target_delimiter", Value::from(format.target_delimiter));
    set("fewshot_delimiter", Value::from(format.fewshot_delimiter));
    if let Some(prefix) = format.gen_prefix {
        set("gen_prefix", Value::from(prefix));
    }
    if let Some(scorer) = format.scorer {
        set("scorer", scorer);
    }
    Ok(Formatted { mapping: Cow::Owned(formatted), name: Some(selected.name), has_labels })
}

fn read_output_type(reader: &Reader<'_>) -> Result<OutputType, Error> {
    let path = ConfigPath::key("output_type");
    let name = match reader.mapping.get("output_type") {
        None => return Ok(OutputType::default()),
        Some(Value::Str(name)) => name,
        Some(other) => return Err(reader.wrong_type(&path, "a str", other)),
    };
    name.parse().map_err(|_| {
        let names = OutputType::ALL.map(OutputType::name);
        let error = reader
            .error(ErrorKind::Value, &path, format!("`{}` is not an output type", shortened(name)))
            .did_you_mean(&nearest(name, names))
            .hint(format!("The output types are {}", names.join(", ")));
        match &**name {
            "greedy_until" | "generate" | "generation" => error.hint("Generation is `generate_until`"),
            _ => error,
        }
    })
}

fn reject_several(
    reader: &Reader<'_>,
    output_type: OutputType,
    multiple_inputs: bool,
    multiple_targets: bool,
) -> Result<(), Error> {
    if !matches!(output_type, OutputType::Loglikelihood | OutputType::LoglikelihoodRolling) {
        return Ok(());
    }
    for (key, on) in [("multiple_inputs", multiple_inputs), ("multiple_targets", multiple_targets)] {
        if on {
            let message = format!("`{key}` cannot be used with output type `{output_type}`");
            return Err(reader.error(ErrorKind::Value, &ConfigPath::key(key), message));
        }
    }
    Ok(())
}

fn read_repeats(reader: &mut Reader<'_>, output_type: OutputType) -> Result<usize, Error> {
    let path = ConfigPath::key("repeats");
    let repeats = match reader.mapping.get("repeats") {
        None => 1,
        Some(value) => reader.int_of(&path, value)?,
    };
    if usize::try_from(repeats).is_ok_and(|repeats| repeats > MAX_REPEATS) {
        let message = format!("`repeats` must be at most {MAX_REPEATS}, not {repeats}");
        return Err(reader.error(ErrorKind::Value, &path, message));
    }
    if output_type != OutputType::GenerateUntil {
        if repeats > 1 {
            reader.warn(
                &path,
                format!("`repeats` has no effect on a task with output type `{output_type}`; 1 is used"),
            );
        }
        return Ok(1);
    }
    match usize::try_from(repeats) {
        Ok(repeats) if repeats > 0 => Ok(repeats),
        _ => {
            Err(reader.error(ErrorKind::Value, &path, format!("`repeats` must be at least 1, not {repeats}")))
        }
    }
}

/// A name, names separated by commas, or a list of them.
fn read_reductions(reader: &mut Reader<'_>, output_type: OutputType) -> Result<Vec<Arc<str>>, Error> {
    let path = ConfigPath::key("reductions");
    let wrong = |reader: &Reader<'_>, value: &Value| reader.wrong_type(&path, "a list of names", value);
    let names: Vec<Arc<str>> = match reader.present("reductions") {
        None => Vec::new(),
        Some(Value::Str(names)) => names.split(',').map(|name| name.trim().into()).collect(),
        Some(value) => {
            let items = value.as_list().ok_or_else(|| wrong(reader, value))?;
            let name = |item: &Value| item.as_str().map(Arc::from).ok_or_else(|| wrong(reader, item));
            items.iter().map(name).collect::<Result<_, _>>()?
        }
    };
    if !names.is_empty() && output_type != OutputType::GenerateUntil {
        let message = format!("`reductions` has no effect on a task with output type `{output_type}`");
        reader.warn(&path, message);
        return Ok(Vec::new());
    }
    Ok(names)
}

fn read_tag(reader: &Reader<'_>) -> Result<Vec<String>, Error> {
    let path = ConfigPath::key("tag");
    match reader.present("tag") {
        None => Ok(Vec::new()),
        Some(Value::Str(tag)) => Ok(vec![tag.as_ref().to_owned()]),
        Some(Value::List(tags)) => tags
            .iter()
            .enumerate()
            .map(|(index, tag)| match tag {
                Value::Str(tag) => Ok(tag.as_ref().to_owned()),
                other => Err(reader.wrong_type(&path.then(index), "a str", other)),
            })
            .collect(),
        Some(other) => Err(reader.wrong_type(&path, "a str or a list of strs", other)),
    }
}

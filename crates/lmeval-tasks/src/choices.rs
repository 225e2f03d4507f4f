//! Variants of multiple-choice tasks for models that cannot score the complete text of an option.

use std::sync::Arc;

use lmeval_core::OutputType;
use lmeval_pycompat::literal::literal_eval;
use lmeval_pycompat::{Dict, Value};
use lmeval_scoring::registry::default_metrics;

use crate::Task;
use crate::config::{Field, MetricConfig, Named, TaskConfig};
use crate::error::{Error, ErrorKind};
use crate::source::{Mapping, Origin};

/// How the options of a question are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChoiceMethod {
    /// The options are shown with letters, and the probabilities of the letters are compared.
    Letters,
    /// The options are shown with letters, and the letter is extracted from a written answer.
    Generate,
}

impl ChoiceMethod {
    /// The name in settings and results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Letters => "letters",
            Self::Generate => "generate",
        }
    }
}

/// Metrics that need only the most likely option.
const OF_LETTERS: [&str; 3] = ["acc", "exact_match", "bypass"];

/// The filter that extracts the letter of a written answer, which also names the pipeline.
const FILTER: &str = "choice_letter";

/// The pipeline, named like that of tasks without `filter_list`.
const PIPELINE: &str = "none";

/// Precedes questions that show their own labels.
const INSTRUCTION: &str = "Answer the following multiple-choice question. Your response should end with \
                           \"The best answer is [answer_letter]\".\n\n";

/// A task as it is asked of the model.
#[derive(Clone, Debug)]
pub struct ChoiceTask {
    /// The changed task.
    pub task: Task,
    /// The format that shows the options; `None` if the task's own prompt does.
    pub format: Option<Arc<str>>,
    /// Metrics of the task that cannot be computed this way.
    pub refused: Vec<String>,
}

impl Task {
    /// Whether the options of the task are labels that its prompt shows: those of a format, or a constant list of
    /// single characters.
    pub fn has_choice_labels(&self) -> bool {
        self.config.has_labels || self.config.doc_to_choice.as_ref().is_some_and(is_labels)
    }

    /// The task with options compared by the probabilities of their letters.
    ///
    /// With `exact` the model scores the letters as continuations, and all metrics stay.
    pub fn with_letters(&self, exact: bool) -> Result<ChoiceTask, Error> {
        let mut mapping = self.mapping().clone();
        let format = if self.has_choice_labels() {
            self.config.format.clone()
        } else {
            self.check_format(ChoiceMethod::Letters)?;
            select_format(&mut mapping, "mcqa", &[]);
            Some(Arc::from("mcqa"))
        };
        let refused = if exact { Vec::new() } else { self.refuse_metrics(&mut mapping)? };
        Ok(ChoiceTask { task: self.rebuilt(mapping)?, format, refused })
    }

    /// The task with a letter extracted from a written answer of at most `max_gen_toks` tokens.
    pub fn with_generated_letter(&self, max_gen_toks: i64) -> Result<ChoiceTask, Error> {
        let mut mapping = self.mapping().clone();
        let is_formatted = self.config.format.is_some();
        let mut filter = Dict::new();
        filter.insert("function", FILTER);
        let format = if self.has_choice_labels() && !is_formatted {
            let labels = self.config.doc_to_choice.as_ref().and_then(constant_labels).unwrap_or_default();
            filter.insert("labels", Value::list(labels));
            let bare = [
                ("instruction", Value::str(INSTRUCTION)),
                ("question_prefix", Value::None),
                ("choice_labels", Value::None),
                ("section_separator", Value::str("")),
                ("answer_prompt", Value::None),
                ("gen_prefix", Value::None),
            ];
            select_format(&mut mapping, "generate", &bare);
            None
        } else {
            self.check_format(ChoiceMethod::Generate)?;
            // The start of an answer that a server would not continue.
            select_format(&mut mapping, "generate", &[("gen_prefix", Value::None)]);
            Some(Arc::from("generate"))
        };
        let refused = self.metrics().filter_map(|metric| match &metric.metric {
            Named::Name(name) if matches!(&**name, "acc" | "exact_match") => None,
            other => Some(other.to_string()),
        });
        let refused = without_duplicates(refused);
        let set =
            |mapping: &mut Mapping, key: &str, value: Value| mapping.insert(key, value, Origin::Override);
        let metric = |name: &str| Value::list([Value::dict([("metric", Value::str(name))])]);
        let pipeline = [("name", Value::str(PIPELINE)), ("filter", Value::list([Value::from(filter)]))];
        set(&mut mapping, "filter_list", Value::list([Value::dict(pipeline)]));
        set(&mut mapping, "metric_list", metric("exact_match"));
        let settings = [
            ("until", Value::list([])),
            ("max_gen_toks", Value::Int(max_gen_toks)),
            ("do_sample", Value::Bool(false)),
            ("temperature", Value::Float(0.0)),
        ];
        set(&mut mapping, "generation_kwargs", Value::dict(settings));
        mapping.remove("repeats");
        Ok(ChoiceTask { task: self.rebuilt(mapping)?, format, refused })
    }

    /// The metrics of all pipelines.
    fn metrics(&self) -> impl Iterator<Item = &MetricConfig> {
        self.config.filter_list.iter().flat_map(|pipeline| &pipeline.metric_list)
    }

    /// Refuses tasks that cannot be shown as a question with labelled options.
    fn check_format(&self, method: ChoiceMethod) -> Result<(), Error> {
        let config = &self.config;
        let named = config.task.rsplit_once('@').map(|(_, format)| format);
        let named = config.formats_selection.as_deref().or(named);
        let why = if named.is_some() && !self.has_choice_labels() {
            "the format that was selected hides them"
        } else if config.multiple_inputs {
            "it compares several contexts, not several options"
        } else if config.scores_itself() || (method == ChoiceMethod::Letters && config.scorer.is_some()) {
            "its own Python code scores the log-likelihoods of complete options"
        } else {
            return Ok(());
        };
        let message = format!("The options of `{}` cannot be shown with letters: {why}", self.name());
        Err(Error::new(ErrorKind::Value, message).hint(format!(
            "`--choices {}` needs a question and a list of options; use a backend that returns prompt \
             log-probabilities",
            method.name()
        )))
    }

    /// Removes the metrics that need the log-likelihood of complete options; an error if none is left.
    fn refuse_metrics(&self, mapping: &mut Mapping) -> Result<Vec<String>, Error> {
        self.check_format(ChoiceMethod::Letters)?;
        let is_kept = |metric: &MetricConfig| matches!(&metric.metric, Named::Name(name) if OF_LETTERS.contains(&&**name));
        let refused = without_duplicates(
            self.metrics().filter(|metric| !is_kept(metric)).map(|metric| metric.metric.to_string()),
        );
        let has_own = self.metrics().next().is_some();
        if has_own && !self.metrics().any(is_kept) {
            let message = format!(
                "No metric of `{}` can be computed from the probabilities of letters: `{}`",
                self.name(),
                refused.join("`, `")
            );
            return Err(Error::new(ErrorKind::Value, message).hint(NEEDS_CONTINUATIONS));
        }
        let entries = |metrics: &[MetricConfig]| {
            Value::list(metrics.iter().filter(|metric| is_kept(metric)).map(MetricConfig::to_value))
        };
        if has_own {
            mapping.insert("metric_list", entries(&self.config.metric_list), Origin::Override);
            if let Some(Value::List(pipelines)) = mapping.get("filter_list").cloned() {
                let own = pipelines.iter().zip(&self.config.filter_list).map(|(entry, config)| match entry {
                    Value::Dict(entry) if entry.contains_str("metric_list") => {
                        let mut entry = Dict::clone(entry);
                        entry.insert("metric_list", entries(&config.metric_list));
                        Value::from(entry)
                    }
                    other => other.clone(),
                });
                mapping.insert("filter_list", Value::list(own), Origin::Override);
            }
        } else {
            let defaults = default_metrics(OutputType::MultipleChoice);
            let kept = defaults.iter().filter(|name| OF_LETTERS.contains(name));
            let kept = kept.map(|name| Value::dict([("metric", Value::str(*name))]));
            mapping.insert("metric_list", Value::list(kept), Origin::Override);
        }
        Ok(refused)
    }

    fn rebuilt(&self, mapping: Mapping) -> Result<Self, Error> {
        let mut warnings = Vec::new();
        let mut config = TaskConfig::from_mapping_with(&mapping, self.registry(), &mut warnings)?;
        // Set by the caller after loading.
        config.num_fewshot = self.config.num_fewshot;
        Ok(self.with_config(config, mapping))
    }
}

/// Why metrics are refused.
pub const NEEDS_CONTINUATIONS: &str = "They need the log-likelihood of each complete option, which the server does not \
                                       return; only the most likely letter is known";

/// Selects a format: that of the task, if it defines one of this name.
fn select_format(mapping: &mut Mapping, name: &'static str, overrides: &[(&str, Value)]) {
    let origin = Origin::Format(Arc::from(name));
    let defines = match mapping.get("formats") {
        // A bare name in a table of formats defines nothing of its own.
        Some(Value::Dict(table)) => {
            table.get_str(name).is_some_and(|entry| !entry.is_none())
                || table.get_str("type").and_then(Value::as_str) == Some(name)
        }
        _ => false,
    };
    if !defines {
        let entry = [("type", Value::str(name))].into_iter().chain(overrides.iter().cloned());
        mapping.insert("formats", Value::dict(entry), origin.clone());
    }
    mapping.insert("_formats_selection", name, origin);
}

fn is_labels(field: &Field) -> bool {
    constant_labels(field).is_some_and(|labels| {
        let texts: Vec<&str> = labels.iter().filter_map(Value::as_str).map(str::trim).collect();
        let is_label = |text: &&str| text.chars().count() == 1 && text.chars().all(char::is_alphanumeric);
        texts.len() == labels.len()
            && texts.len() > 1
            && texts.iter().all(is_label)
            && texts.iter().enumerate().all(|(index, text)| !texts[..index].contains(text))
    })
}

/// The options of a constant list.
fn constant_labels(field: &Field) -> Option<Vec<Value>> {
    match field {
        Field::List(items) => Some(items.to_vec()),
        Field::Text(text) => {
            let inner = text.trim().strip_prefix("{{")?.strip_suffix("}}")?;
            match literal_eval(inner.trim()).ok()? {
                Value::List(items) => Some(items.to_vec()),
                _ => None,
            }
        }
        _ => None,
    }
}

fn without_duplicates(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut distinct = Vec::new();
    for name in names {
        if !distinct.contains(&name) {
            distinct.push(name);
        }
    }
    distinct
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Overrides, Spec, TaskManager};

    fn task(text: &str) -> Task {
        let Value::Dict(definition) = lmeval_pycompat::yaml::load(text).unwrap().value else {
            panic!("not a mapping")
        };
        let manager = TaskManager::new(&[crate::BUILTIN_LIBRARY.into()]);
        let loaded = manager.load(&[Spec::Inline(Dict::clone(&definition))], Overrides::default()).unwrap();
        loaded.tasks.into_values().next().unwrap()
    }

    const PLAIN: &str = "{task: t, output_type: multiple_choice, test_split: test, doc_to_text: question, doc_to_choice: choices, doc_to_target: answer}";
    const LABELLED: &str = "{task: t, output_type: multiple_choice, test_split: test, doc_to_text: '{{question}} A. x B. y', doc_to_choice: [A, B], doc_to_target: answer}";

    fn with(text: &str, more: &str) -> Task {
        task(&format!("{}, {more}}}", text.trim_end_matches('}')))
    }

    fn names(task: &Task) -> Vec<String> {
        task.metrics().map(|metric| metric.metric.to_string()).collect()
    }

    #[test]
    fn recognises_labels() {
        assert!(!task(PLAIN).has_choice_labels());
        assert!(task(LABELLED).has_choice_labels());
        let literal = LABELLED.replace("[A, B]", "\"{{['A', 'B', 'C']}}\"");
        assert!(task(&literal).has_choice_labels());
        for other in ["[no, yes]", "[A, A]", "[A]", "\"{{choices}}\"", "['!', '?']"] {
            assert!(!task(&LABELLED.replace("[A, B]", other)).has_choice_labels(), "{other}");
        }
        assert!(with(PLAIN, "formats: mcqa").has_choice_labels());
        assert!(!with(PLAIN, "formats: cloze").has_choice_labels());
    }

    #[test]
    fn letters_show_the_options_and_keep_what_letters_can_say() {
        let made =
            with(PLAIN, "metric_list: [{metric: acc}, {metric: acc_norm}]").with_letters(false).unwrap();
        assert_eq!(
            (made.format.as_deref(), made.refused.as_slice()),
            (Some("mcqa"), &["acc_norm".to_owned()][..])
        );
        assert_eq!(names(&made.task), ["acc"]);
        assert!(made.task.has_choice_labels());
        let default = task(PLAIN).with_letters(false).unwrap();
        assert_eq!((names(&default.task), default.refused.len()), (vec!["acc".to_owned()], 0));
        let own = task(LABELLED).with_letters(false).unwrap();
        assert_eq!(own.format, None);
        assert_eq!(own.task.config.doc_to_text, task(LABELLED).config.doc_to_text);
        let exact = with(PLAIN, "metric_list: [{metric: acc_norm}]").with_letters(true).unwrap();
        assert_eq!(names(&exact.task), ["acc_norm"]);
        let error = with(PLAIN, "metric_list: [{metric: acc_norm}]").with_letters(false).unwrap_err();
        assert!(error.to_string().contains("acc_norm"), "{error}");
        let pipelines = "filter_list: [{name: a, filter: [{function: take_first}], metric_list: [{metric: acc}, {metric: brier_score}]}]";
        let made = with(PLAIN, pipelines).with_letters(false).unwrap();
        assert_eq!(
            (names(&made.task), made.refused),
            (vec!["acc".to_owned()], vec!["brier_score".to_owned()])
        );
    }

    #[test]
    fn generation_extracts_letters() {
        let made = with(PLAIN, "metric_list: [{metric: acc}, {metric: acc_norm}]")
            .with_generated_letter(64)
            .unwrap();
        assert_eq!(
            (made.format.as_deref(), made.refused.as_slice()),
            (Some("generate"), &["acc_norm".to_owned()][..])
        );
        let config = &made.task.config;
        assert_eq!(config.output_type, OutputType::GenerateUntil);
        assert_eq!(
            (config.filter_list[0].name.as_str(), names(&made.task)),
            (PIPELINE, vec!["exact_match".to_owned()])
        );
        assert_eq!(config.generation_kwargs.max_gen_toks(), Some(&Value::Int(64)));
        assert_eq!(config.gen_prefix, None);
        let own = task(LABELLED).with_generated_letter(64).unwrap();
        let Some(Field::Text(prompt)) = &own.task.config.doc_to_text else { panic!("no prompt") };
        assert!(prompt.starts_with(INSTRUCTION) && prompt.ends_with("A. x B. y"), "{prompt}");
        assert_eq!(own.format, None);
    }

    #[test]
    fn refuses_tasks_without_a_question() {
        let several = with(PLAIN, "multiple_inputs: true");
        for made in [several.with_letters(false), several.with_generated_letter(1)] {
            assert!(made.unwrap_err().to_string().contains("several contexts"));
        }
    }
}

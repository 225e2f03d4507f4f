//! Prompt formats, one file each.

mod cloze;
mod cot;
mod generate;
mod mcqa;

use lmeval_pycompat::{Dict, Value};

use crate::registry::FormatEntry;
use lmeval_core::OutputType;

/// The built-in formats.
pub(crate) fn built_in() -> Vec<FormatEntry> {
    let entries = [
        FormatEntry::new("mcqa", mcqa::format())
            .summary("Options are shown with letters; the letters are scored"),
        FormatEntry::new("cloze", cloze::format()).summary("Options are hidden; their text is scored"),
        FormatEntry::new("generate", generate::format())
            .summary("Options are shown with letters; the model generates one"),
        FormatEntry::new("cot", cot::format()).summary("The model reasons, then writes the answer"),
    ];
    entries.into_iter().map(FormatEntry::built_in).collect()
}

/// How options are labelled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChoiceLabels {
    /// A, B, C, …
    Letters,
    /// 1, 2, 3, …
    Numbers,
    /// Custom labels.
    List(Vec<String>),
}

/// A prompt format.
///
/// All strings become template source, so they may contain expressions over the document.
#[derive(Clone, Debug, PartialEq)]
pub struct Format {
    /// The output type that tasks in this format have.
    pub output_type: OutputType,
    /// Shown before the question.
    pub instruction: Option<String>,
    /// Shown immediately before the question.
    pub question_prefix: Option<String>,
    /// Labels of the options; without labels, options are not shown.
    pub choice_labels: Option<ChoiceLabels>,
    /// The separator between options.
    pub choice_delimiter: String,
    /// The separator between question, options and answer prompt.
    pub section_separator: String,
    /// Shown before the answer prompt.
    pub answer_instruction: Option<String>,
    /// The end of the prompt, which introduces the answer.
    pub answer_prompt: Option<String>,
    /// The fixed start of the answer.
    pub gen_prefix: Option<String>,
    /// The separator between prompt and answer.
    pub target_delimiter: String,
    /// The separator between few-shot examples.
    pub fewshot_delimiter: String,
    /// The scorer, in the form of a task's `scorer` field.
    pub scorer: Option<Value>,
}

impl Format {
    /// The field names as spelled in YAML.
    pub const FIELDS: [&'static str; 12] = [
        "output_type",
        "instruction",
        "question_prefix",
        "choice_labels",
        "choice_delimiter",
        "section_separator",
        "answer_instruction",
        "answer_prompt",
        "gen_prefix",
        "target_delimiter",
        "fewshot_delimiter",
        "scorer",
    ];

    /// The format as a dictionary of its fields.
    pub fn to_dict(&self) -> Dict {
        let labels = match &self.choice_labels {
            None => Value::None,
            Some(ChoiceLabels::Letters) => Value::str("letters"),
            Some(ChoiceLabels::Numbers) => Value::str("numbers"),
            Some(ChoiceLabels::List(labels)) => {
                Value::list(labels.iter().map(|label| Value::str(label.as_str())))
            }
        };
        let values = [
            Value::str(self.output_type.name()),
            Value::from(self.instruction.clone()),
            Value::from(self.question_prefix.clone()),
            labels,
            Value::from(self.choice_delimiter.clone()),
            Value::from(self.section_separator.clone()),
            Value::from(self.answer_instruction.clone()),
            Value::from(self.answer_prompt.clone()),
            Value::from(self.gen_prefix.clone()),
            Value::from(self.target_delimiter.clone()),
            Value::from(self.fewshot_delimiter.clone()),
            self.scorer.clone().unwrap_or_default(),
        ];
        Self::FIELDS.into_iter().map(Value::str).zip(values).collect()
    }
}

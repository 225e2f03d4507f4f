//! Prompt formats: the pieces that each is made of. One file each.

mod cloze;
mod cot;
mod generate;
mod mcqa;

use lmeval_pycompat::{Dict, Value};

use crate::OutputType;
use crate::registry::FormatEntry;

/// The built-in formats.
pub(crate) fn built_in() -> Vec<FormatEntry> {
    let entries = [
        FormatEntry::new("mcqa", mcqa::format()).summary("Options with letters; the letters are compared"),
        FormatEntry::new("cloze", cloze::format()).summary("Options not shown; their texts are compared"),
        FormatEntry::new("generate", generate::format())
            .summary("Options with letters; the model writes one"),
        FormatEntry::new("cot", cot::format()).summary("The model reasons and writes the answer"),
    ];
    entries.into_iter().map(FormatEntry::built_in).collect()
}

/// How the options of a question are labelled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChoiceLabels {
    /// A, B, C, …
    Letters,
    /// 1, 2, 3, …
    Numbers,
    /// Labels of one's own.
    List(Vec<String>),
}

/// A prompt format.
///
/// All texts become template source, so they may contain expressions over the document.
#[derive(Clone, Debug, PartialEq)]
pub struct Format {
    /// What the model is asked for.
    pub output_type: OutputType,
    /// Text before the question.
    pub instruction: Option<String>,
    /// Text right before the question.
    pub question_prefix: Option<String>,
    /// Labels of the options; without labels the options are not shown.
    pub choice_labels: Option<ChoiceLabels>,
    /// Text between two options.
    pub choice_delimiter: String,
    /// Text between question, options and answer prompt.
    pub section_separator: String,
    /// Text before the answer prompt.
    pub answer_instruction: Option<String>,
    /// The end of the prompt.
    pub answer_prompt: Option<String>,
    /// Text that the answer must follow.
    pub gen_prefix: Option<String>,
    /// Text between prompt and answer.
    pub target_delimiter: String,
    /// Text between two examples.
    pub fewshot_delimiter: String,
    /// The scorer, as a task's `scorer` field would hold it.
    pub scorer: Option<Value>,
}

impl Format {
    /// The names of all fields, as YAML spells them.
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

    /// The fields by name.
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

//! The pieces that a prompt format is made of.

use lmeval_core::{OutputType, nearest};
use lmeval_pycompat::{Dict, Value};

use crate::config::{quoted, shortened, value_text};
use crate::error::{Error, ErrorKind};

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

    /// This format with some fields replaced; `type` is skipped.
    pub fn with_overrides(&self, overrides: &Dict) -> Result<Self, Error> {
        let mut format = self.clone();
        let mut unknown = Vec::new();
        for (key, value) in overrides.iter() {
            match key.as_str() {
                Some("type") => {}
                Some(name) if Self::FIELDS.contains(&name) => format.set(name, value)?,
                _ => unknown.push(value_text(key)),
            }
        }
        if unknown.is_empty() {
            return Ok(format);
        }
        let mut error = Error::new(ErrorKind::Type, format!("A format has no field {}", quoted(&unknown)));
        for name in unknown.iter().take(3) {
            error = error.did_you_mean(&nearest(name, Self::FIELDS));
        }
        Err(error.hint(format!("The fields are {}", Self::FIELDS.join(", "))))
    }

    /// The fields by name; [`Format::with_overrides`] of them gives an equal format.
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

    fn set(&mut self, name: &str, value: &Value) -> Result<(), Error> {
        match name {
            "output_type" => {
                let text = text(name, value)?;
                self.output_type = text.parse().map_err(|error: lmeval_core::UnknownOutputType| {
                    Error::new(ErrorKind::Value, error.to_string())
                        .did_you_mean(&nearest(&text, OutputType::ALL.map(OutputType::name)))
                })?;
            }
            "instruction" => self.instruction = optional_text(name, value)?,
            "question_prefix" => self.question_prefix = optional_text(name, value)?,
            "choice_labels" => self.choice_labels = labels(value)?,
            "choice_delimiter" => self.choice_delimiter = text(name, value)?,
            "section_separator" => self.section_separator = text(name, value)?,
            "answer_instruction" => self.answer_instruction = optional_text(name, value)?,
            "answer_prompt" => self.answer_prompt = optional_text(name, value)?,
            "gen_prefix" => self.gen_prefix = optional_text(name, value)?,
            "target_delimiter" => self.target_delimiter = text(name, value)?,
            "fewshot_delimiter" => self.fewshot_delimiter = text(name, value)?,
            _ => self.scorer = (!value.is_none()).then(|| value.clone()),
        }
        Ok(())
    }
}

fn text(name: &str, value: &Value) -> Result<String, Error> {
    value.as_str().map(str::to_owned).ok_or_else(|| {
        Error::new(
            ErrorKind::Type,
            format!("The format field `{name}` must be a str, not {}", value.type_name()),
        )
    })
}

fn optional_text(name: &str, value: &Value) -> Result<Option<String>, Error> {
    if value.is_none() { Ok(None) } else { text(name, value).map(Some) }
}

fn labels(value: &Value) -> Result<Option<ChoiceLabels>, Error> {
    match value {
        Value::None => Ok(None),
        Value::Str(name) if &**name == "letters" => Ok(Some(ChoiceLabels::Letters)),
        Value::Str(name) if &**name == "numbers" => Ok(Some(ChoiceLabels::Numbers)),
        Value::List(items) => Ok(Some(ChoiceLabels::List(items.iter().map(value_text).collect()))),
        other => Err(Error::new(
            ErrorKind::Value,
            format!(
                "The format field `choice_labels` must be `letters`, `numbers`, a list or None, not `{}`",
                shortened(&value_text(other))
            ),
        )),
    }
}

//! Overrides of a format's fields in a task.

use lmeval_core::{OutputType, nearest};
use lmeval_pycompat::{Dict, Value};
use lmeval_scoring::formats::{ChoiceLabels, Format};

use crate::config::{quoted, shortened, value_text};
use crate::error::{Error, ErrorKind};

/// Replaces fields of a format.
pub(crate) trait Overrides: Sized {
    /// This format with the given fields replaced; `type` is skipped.
    fn with_overrides(&self, overrides: &Dict) -> Result<Self, Error>;
}

impl Overrides for Format {
    fn with_overrides(&self, overrides: &Dict) -> Result<Self, Error> {
        let mut format = self.clone();
        let mut unknown = Vec::new();
        for (key, value) in overrides.iter() {
            match key.as_str() {
                Some("type") => {}
                Some(name) if Format::FIELDS.contains(&name) => set(&mut format, name, value)?,
                _ => unknown.push(value_text(key)),
            }
        }
        if unknown.is_empty() {
            return Ok(format);
        }
        let mut error = Error::new(ErrorKind::Type, format!("A format has no field {}", quoted(&unknown)));
        for name in unknown.iter().take(3) {
            error = error.did_you_mean(&nearest(name, Format::FIELDS));
        }
        Err(error.hint(format!("The fields are {}", Format::FIELDS.join(", "))))
    }
}

fn set(format: &mut Format, name: &str, value: &Value) -> Result<(), Error> {
    match name {
        "output_type" => {
            let text = text(name, value)?;
            format.output_type = text.parse().map_err(|error: lmeval_core::UnknownOutputType| {
                Error::new(ErrorKind::Value, error.to_string())
                    .did_you_mean(&nearest(&text, OutputType::ALL.map(OutputType::name)))
            })?;
        }
        "instruction" => format.instruction = optional_text(name, value)?,
        "question_prefix" => format.question_prefix = optional_text(name, value)?,
        "choice_labels" => format.choice_labels = labels(value)?,
        "choice_delimiter" => format.choice_delimiter = text(name, value)?,
        "section_separator" => format.section_separator = text(name, value)?,
        "answer_instruction" => format.answer_instruction = optional_text(name, value)?,
        "answer_prompt" => format.answer_prompt = optional_text(name, value)?,
        "gen_prefix" => format.gen_prefix = optional_text(name, value)?,
        "target_delimiter" => format.target_delimiter = text(name, value)?,
        "fewshot_delimiter" => format.fewshot_delimiter = text(name, value)?,
        _ => format.scorer = (!value.is_none()).then(|| value.clone()),
    }
    Ok(())
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

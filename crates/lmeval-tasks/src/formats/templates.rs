//! Builds templates from a format and a task's fields.

use lmeval_core::OutputType;
use lmeval_pycompat::Value;
use lmeval_pycompat::repr::repr;
use lmeval_scoring::formats::{ChoiceLabels, Format};

use super::reference::Reference;
use crate::config::Field;
use crate::error::{Error, ErrorKind};

/// The letters that label options; a question with more options cannot use letters.
const LETTERS: &str = "\"ABCDEFGHIJKLMNOPQRSTUVWXYZ\"";

/// The templates that replace a task's own.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_field_names, reason = "the names that task files use")]
pub(crate) struct FormatTemplates {
    pub(crate) doc_to_text: String,
    pub(crate) doc_to_choice: Option<String>,
    pub(crate) doc_to_target: String,
}

/// Applies a format to the fields of a task.
pub(crate) trait Templates {
    /// Builds the templates of this format for the given fields.
    fn templates(
        &self,
        doc_to_text: &Field,
        doc_to_target: &Field,
        doc_to_choice: Option<&Field>,
    ) -> Result<FormatTemplates, Error>;
}

impl Templates for Format {
    fn templates(
        &self,
        doc_to_text: &Field,
        doc_to_target: &Field,
        doc_to_choice: Option<&Field>,
    ) -> Result<FormatTemplates, Error> {
        let question = Reference::to_text("doc_to_text", doc_to_text)?;
        let answer = Reference::to_text("doc_to_target", doc_to_target)?;
        let options = doc_to_choice.map(|field| Reference::to_options("doc_to_choice", field)).transpose()?;
        Ok(FormatTemplates {
            doc_to_text: prompt(self, &question, options.as_ref()),
            doc_to_choice: options.as_ref().map(|options| match &self.choice_labels {
                Some(labels) => format!("{{{{ {} }}}}", first(labels, &options.expression)),
                None => options.output.clone(),
            }),
            doc_to_target: target(self, &answer, options.as_ref())?,
        })
    }
}

fn prompt(format: &Format, question: &Reference, options: Option<&Reference>) -> String {
    let labelled = format.choice_labels.as_ref().zip(options);
    let mut text = String::new();
    text.push_str(format.instruction.as_deref().unwrap_or_default());
    text.push_str(format.question_prefix.as_deref().unwrap_or_default());
    text.push_str(&question.output);
    if let Some((labels, options)) = labelled {
        text.push_str(&format.section_separator);
        text.push_str(&choice_block(format, labels, &options.expression));
    }
    text.push_str(&format.section_separator);
    text.push_str(format.answer_instruction.as_deref().unwrap_or_default());
    text.push_str(format.answer_prompt.as_deref().unwrap_or_default());
    match labelled {
        Some((labels, options)) => format!("{}{text}", definitions(&text, labels, &options.expression)),
        None => text,
    }
}

fn choice_block(format: &Format, labels: &ChoiceLabels, options: &str) -> String {
    let label = match labels {
        ChoiceLabels::Letters => format!("{LETTERS}[loop.index0]"),
        ChoiceLabels::Numbers => "loop.index".to_owned(),
        ChoiceLabels::List(list) => format!("{}[loop.index0]", literal(list)),
    };
    let delimiter = &format.choice_delimiter;
    format!(
        "{{% for _choice in {options} %}}{{{{ {label} }}}}. {{{{ _choice }}}}\
         {{% if not loop.last %}}{delimiter}{{% endif %}}{{% endfor %}}"
    )
}

fn target(format: &Format, answer: &Reference, options: Option<&Reference>) -> Result<String, Error> {
    let given = &answer.expression;
    let label: fn(&str) -> String = match (format.output_type, &format.choice_labels, options) {
        (OutputType::MultipleChoice, _, Some(options)) => {
            let options = &options.expression;
            return Ok(format!("{{{{ {given} if {given} is number else {options}.index({given}) }}}}"));
        }
        (OutputType::MultipleChoice, _, None) => {
            return Err(Error::new(ErrorKind::Value, "A multiple-choice format needs `doc_to_choice`")
                .hint("Name the column of options, for example `doc_to_choice: choices`"));
        }
        (OutputType::GenerateUntil, Some(ChoiceLabels::Letters), _) => {
            |index: &str| format!("{LETTERS}[{index}]")
        }
        // Labels are integers, even if a column of answers contains floats.
        (OutputType::GenerateUntil, Some(ChoiceLabels::Numbers), _) => {
            |index: &str| format!("({index}) | int + 1")
        }
        (OutputType::GenerateUntil, _, Some(options)) => {
            let text = format!("{}[{given}]", options.expression);
            return Ok(format!("{{{{ {text} if {given} is number else {given} }}}}"));
        }
        _ => return Ok(answer.output.clone()),
    };
    // The text of an option would never equal the label that a model answers.
    let of_text = options.map_or_else(String::new, |options| {
        let options = &options.expression;
        let label = label(&format!("{options}.index({given})"));
        format!("{label} if {given} in {options} else ")
    });
    let label = label(given);
    Ok(format!("{{{{ {label} if {given} is number else {of_text}{given} }}}}"))
}

/// An expression for a list of labels, all strings, one per option.
fn first(labels: &ChoiceLabels, options: &str) -> String {
    match labels {
        ChoiceLabels::Letters => format!("({LETTERS} | list)[:{options} | length]"),
        ChoiceLabels::Numbers => format!("range(1, ({options} | length) + 1) | map(\"string\") | list"),
        ChoiceLabels::List(list) => format!("{}[:{options} | length]", literal(list)),
    }
}

/// `{% set %}` statements for the option variables that a template uses.
fn definitions(text: &str, labels: &ChoiceLabels, options: &str) -> String {
    let lists = [("_choice_list_and", " and "), ("_choice_list_or", " or ")];
    let mut definitions: Vec<(&str, String)> = Vec::new();
    if text.contains("_num_choices") {
        definitions.push(("_num_choices", format!("{options} | length")));
    }
    if text.contains("_choice_labels") || lists.iter().any(|(name, _)| text.contains(name)) {
        definitions.push(("_choice_labels", first(labels, options)));
    }
    for (name, word) in lists.into_iter().filter(|(name, _)| text.contains(name)) {
        let list = format!("_choice_labels[:-1] | join(\", \") ~ \"{word}\" ~ _choice_labels[-1]");
        definitions.push((name, list));
    }
    let set = |(name, value): &(&str, String)| format!("{{% set {name} = {value} %}}");
    definitions.iter().map(set).collect::<Vec<_>>().concat()
}

fn literal(labels: &[String]) -> String {
    repr(&Value::list(labels.iter().map(|label| Value::str(label.as_str()))))
}

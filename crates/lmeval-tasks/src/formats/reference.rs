//! References to a task's fields inside the templates of a format.

use lmeval_pycompat::Value;
use lmeval_pycompat::repr::repr;

use crate::config::Field;
use crate::error::{Error, ErrorKind};

/// A task field that a format refers to, in a form to print and in a form to compute with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reference {
    /// Template source that prints the field.
    pub(super) output: String,
    /// The field as an expression.
    pub(super) expression: String,
}

impl Reference {
    /// Refers to a question or an answer.
    pub(super) fn to_text(name: &str, field: &Field) -> Result<Self, Error> {
        match field {
            Field::Text(text) => Ok(Self::new(text)),
            Field::Int(number) => Ok(Self::literal(number.to_string())),
            Field::Bool(truth) => Ok(Self::literal(if *truth { "True".into() } else { "False".into() })),
            Field::Function(_) | Field::List(_) | Field::Dict(_) => Err(unusable(name, field)),
        }
    }

    /// Refers to the options.
    pub(super) fn to_options(name: &str, field: &Field) -> Result<Self, Error> {
        match field {
            Field::Text(text) => Ok(Self::new(text)),
            Field::List(items) => Ok(Self::list(items)),
            // The values are the options, as in 0.4.
            Field::Dict(dict) => Ok(Self::list(&dict.values().cloned().collect::<Vec<_>>())),
            Field::Int(_) | Field::Bool(_) | Field::Function(_) => Err(unusable(name, field)),
        }
    }

    fn new(text: &str) -> Self {
        let output = if text.contains("{{") { text.trim().to_owned() } else { format!("{{{{{text}}}}}") };
        Self { output, expression: expression(text) }
    }

    fn literal(text: String) -> Self {
        Self { output: format!("{{{{{text}}}}}"), expression: text }
    }

    // Reference: a list becomes a list literal, so templates inside it lose their braces and become plain strings.
    fn list(items: &[Value]) -> Self {
        let expression = expression(&repr(&Value::list(items.iter().cloned())));
        Self { output: format!("{{{{ {expression} }}}}"), expression }
    }
}

fn expression(text: &str) -> String {
    if !text.contains("{{") {
        return text.to_owned();
    }
    let bare = text.replace("{{", "").replace("}}", "");
    let bare = bare.trim();
    if is_identifier(bare) { bare.to_owned() } else { format!("({bare})") }
}

fn is_identifier(text: &str) -> bool {
    let mut letters = text.chars();
    letters.next().is_some_and(|first| first == '_' || first.is_alphabetic())
        && letters.all(|letter| letter == '_' || letter.is_alphanumeric())
}

fn unusable(name: &str, field: &Field) -> Error {
    let error = Error::new(
        ErrorKind::Type,
        format!("A format cannot use `{name}`, which is a {}", field.type_name()),
    );
    match field {
        Field::Function(_) => error.hint("Give a column name or a template, or omit `formats`"),
        _ => error.hint("Give a column name or a template"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_expressions_and_templates_stay() {
        let plain = Reference::new("question");
        assert_eq!((plain.output.as_str(), plain.expression.as_str()), ("{{question}}", "question"));
        let braces = Reference::new(" {{ answer }}\n");
        assert_eq!((braces.output.as_str(), braces.expression.as_str()), ("{{ answer }}", "answer"));
        let computed = Reference::new("{{choices.text}}");
        assert_eq!(computed.expression, "(choices.text)");
        assert_eq!(Reference::new("d['x']").output, "{{d['x']}}");
        assert_eq!(Reference::new("d['x']").expression, "d['x']");
    }

    #[test]
    fn templates_in_a_list_become_strings() {
        let field = Field::List(vec![Value::str("{{a}}"), Value::str("b")].into());
        let reference = Reference::to_options("doc_to_choice", &field).unwrap();
        assert_eq!(reference.expression, "(['a', 'b'])");
        assert_eq!(reference.output, "{{ (['a', 'b']) }}");
        let plain = Field::List(vec![Value::str("no"), Value::str("yes")].into());
        assert_eq!(Reference::to_options("doc_to_choice", &plain).unwrap().expression, "['no', 'yes']");
    }
}

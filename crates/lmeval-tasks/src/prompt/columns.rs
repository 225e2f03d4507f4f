//! Fields that name a missing column.
//!
//! A field that is not the name of a column is a template, and a template without expressions is the same for every
//! document. A mistyped column name would therefore run without an error, and produce meaningless scores.

use lmeval_core::edit_distance;
use lmeval_pycompat::literal::literal_eval;
use lmeval_pycompat::{Dict, Value};

use super::error::{PromptError, PromptErrorKind};
use crate::Task;
use crate::config::{ConfigPath, Field};
use crate::error::Diagnostic;

/// The maximum number of columns in a message.
const SHOWN: usize = 30;

/// A field that looks like a column name but is not one, and is therefore the same for every document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingColumn {
    /// The key of the field.
    pub field: &'static str,
    /// The value in the task file.
    pub written: String,
    /// The column that is probably meant, if one has a similar name.
    pub near: Option<String>,
    /// Whether it cannot be intentional: a similar column exists, or the field is useless without its column.
    pub is_error: bool,
    /// The existing columns.
    columns: Vec<String>,
}

/// The role of a field, which decides how serious a missing column is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// A constant makes no sense: options, images, audio.
    Values,
    /// A constant is unusual: the question and the target.
    Content,
    /// The target of a task that computes its own scores, where it may be a placeholder.
    Placeholder,
    /// A constant is usual: descriptions and prefixes.
    Wording,
}

impl MissingColumn {
    /// The problem in one sentence.
    pub fn message(&self) -> String {
        let Self { field, written, .. } = self;
        let documents = if self.is_of_examples() { "examples" } else { "documents" };
        let document = if self.is_of_examples() { "example" } else { "document" };
        let head = head_of_expression(written).filter(|head| self.columns.iter().any(|name| name == head));
        match head {
            Some(_) => {
                format!("`{field}: {written}` is the same for every {document}: an expression needs braces")
            }
            None if self.takes_values() => {
                format!("`{field}: {written}` names a column that the {documents} do not have")
            }
            None => format!(
                "`{field}: {written}` is not a column of the {documents}, so it is the same for all of them"
            ),
        }
    }

    /// Suggestions about what to try.
    pub fn hints(&self) -> Vec<String> {
        let mut hints = Vec::new();
        if let Some(near) = &self.near {
            hints.push(match head_of_expression(&self.written) {
                Some(_) => format!("Write `{{{{{}}}}}`", self.written),
                None => format!("Did you mean `{near}`?"),
            });
        }
        let columns: Vec<String> = self.columns.iter().take(SHOWN).map(|name| format!("`{name}`")).collect();
        let more = if self.columns.len() > SHOWN { ", …" } else { "" };
        hints.push(format!("The columns are {}{more}", columns.join(", ")));
        if !self.takes_values() {
            hints.push(format!("If the constant is intended, write `\"{{{{'{}'}}}}\"`", self.written));
        }
        hints
    }

    /// The message and hints, with the location of the field in the task file.
    pub fn diagnostic(&self, task: &Task) -> Diagnostic {
        let message = format!("Task `{}`: {}", task.name(), self.message());
        let diagnostic = Diagnostic::new(message).at(self.path().locate(task.mapping()));
        self.hints().into_iter().fold(diagnostic, Diagnostic::hint)
    }

    fn path(&self) -> ConfigPath {
        match self.field.split_once('.') {
            Some((outer, inner)) => ConfigPath::key(outer).then(inner),
            None => ConfigPath::key(self.field),
        }
    }

    fn is_of_examples(&self) -> bool {
        self.field.starts_with("fewshot_config.")
    }

    fn takes_values(&self) -> bool {
        let key = self.field.rsplit('.').next().unwrap_or_default();
        matches!(key, "doc_to_choice" | "doc_to_image" | "doc_to_audio")
    }

    pub(crate) fn into_error(self, task: &Task) -> PromptError {
        let error = PromptError::new(PromptErrorKind::MissingColumn, self.message())
            .located_at(self.path().locate(task.mapping()));
        self.hints().into_iter().fold(error, PromptError::hint)
    }
}

/// Finds the fields of a task that look like missing columns.
///
/// `columns` are those of the evaluated documents. Intentional constants are not reported: strings that are not a bare
/// name, a target that is one of the listed options, and the placeholder target of a task that computes its own scores.
pub fn missing_columns(task: &Task, columns: &[String]) -> Vec<MissingColumn> {
    if columns.is_empty() || task.class_task().is_some_and(|class| class.makes_requests()) {
        return Vec::new();
    }
    let config = &task.config;
    let target = if config.scores_itself() { Role::Placeholder } else { Role::Content };
    let fields = [
        ("doc_to_text", &config.doc_to_text, Role::Content),
        ("doc_to_target", &config.doc_to_target, target),
        ("doc_to_choice", &config.doc_to_choice, Role::Values),
        ("doc_to_image", &config.doc_to_image, Role::Values),
        ("doc_to_audio", &config.doc_to_audio, Role::Values),
        ("description", &config.description, Role::Wording),
        ("gen_prefix", &config.gen_prefix, Role::Wording),
    ];
    let mut missing = Vec::new();
    for (name, field, role) in fields {
        let texts: Vec<&str> = match field {
            Some(Field::Text(text)) => vec![text],
            Some(Field::List(items)) if matches!(name, "doc_to_image" | "doc_to_audio") => {
                items.iter().filter_map(Value::as_str).collect()
            }
            _ => continue,
        };
        let is_option =
            |text: &str| name == "doc_to_target" && is_listed_option(config.doc_to_choice.as_ref(), text);
        for text in texts.into_iter().filter(|text| !is_option(text)) {
            missing.extend(missing_column(name, text, role, columns));
        }
    }
    missing
}

/// Finds the fields under `fewshot_config` that look like missing columns, by the same rules.
///
/// `columns` are those of the example pool. Fields shared with evaluated documents are not checked again.
pub(crate) fn missing_example_columns(task: &Task, columns: &[String]) -> Vec<MissingColumn> {
    if columns.is_empty() || task.class_task().is_some_and(|class| class.makes_requests()) {
        return Vec::new();
    }
    let (config, own) = (&task.config, &task.config.fewshot_config);
    // A target appears in the prompt, so it is content even if the task computes its own scores.
    let fields = [
        ("fewshot_config.doc_to_text", &own.doc_to_text, &config.doc_to_text, Role::Content),
        ("fewshot_config.doc_to_target", &own.doc_to_target, &config.doc_to_target, Role::Content),
        ("fewshot_config.doc_to_choice", &own.doc_to_choice, &config.doc_to_choice, Role::Values),
        ("fewshot_config.gen_prefix", &own.gen_prefix, &config.gen_prefix, Role::Wording),
    ];
    let choice = own.doc_to_choice.as_ref().or(config.doc_to_choice.as_ref());
    let own_texts = fields.into_iter().filter_map(|(name, field, shared, role)| match field {
        Some(Field::Text(text)) if field != shared => Some((name, &**text, role)),
        _ => None,
    });
    let is_option =
        |name: &str, text: &str| name == "fewshot_config.doc_to_target" && is_listed_option(choice, text);
    own_texts
        .filter(|(name, text, _)| !is_option(name, text))
        .filter_map(|(name, text, role)| missing_column(name, text, role, columns))
        .collect()
}

fn missing_column(field: &'static str, text: &str, role: Role, columns: &[String]) -> Option<MissingColumn> {
    let has = |name: &str| columns.iter().any(|column| column == name);
    if text.trim().is_empty() || text.contains('{') || has(text) {
        return None;
    }
    let found = |near: Option<&str>, is_error| {
        let (near, columns) = (near.map(str::to_owned), columns.to_vec());
        Some(MissingColumn { field, written: text.to_owned(), near, is_error, columns })
    };
    let near = nearly(text, columns);
    if role == Role::Values {
        return if literal_eval(text).is_ok() { None } else { found(near, true) };
    }
    if let Some(head) = head_of_expression(text)
        && has(head)
        && role == Role::Content
    {
        return found(Some(head), true);
    }
    match (role, near) {
        (Role::Content, Some(near)) => found(Some(near), true),
        (Role::Content, None) if is_name(text) => found(None, false),
        (Role::Placeholder, Some(near)) if is_name(text) => found(Some(near), false),
        // `Answer` before an answer is wording, even if there is a column `answer`.
        (Role::Wording, Some(near)) if is_name(text) && !near.eq_ignore_ascii_case(text) => {
            found(Some(near), false)
        }
        _ => None,
    }
}

/// Whether the task file lists the string among its options.
fn is_listed_option(choice: Option<&Field>, text: &str) -> bool {
    let is_text = |value: &Value| value.as_str() == Some(text);
    match choice {
        Some(Field::List(items)) => items.iter().any(is_text),
        Some(Field::Dict(options)) => options.values().any(is_text),
        Some(Field::Text(template)) => {
            template.contains(&format!("'{text}'")) || template.contains(&format!("\"{text}\""))
        }
        _ => false,
    }
}

/// The column that differs from a string in few letters. A string that is not a bare name, such as `Answer Key`, only
/// matches columns that are not bare names either; anything else is wording.
fn nearly<'a>(text: &str, columns: &'a [String]) -> Option<&'a str> {
    let lower = text.to_lowercase();
    let candidates = columns.iter().filter(|column| is_name(text) || !is_name(column));
    let scored = candidates.filter_map(|column| {
        let other = column.to_lowercase();
        let length = lower.chars().count().max(other.chars().count());
        let distance = edit_distance(&lower, &other);
        (distance * 3 <= length).then_some((distance, column.as_str()))
    });
    scored.min_by_key(|(distance, _)| *distance).map(|(_, column)| column)
}

/// Whether a string is a single name, as most columns are.
fn is_name(text: &str) -> bool {
    let is_letter = |letter: char| letter.is_alphanumeric() || letter == '_';
    text.chars().all(is_letter) && text.chars().next().is_some_and(|first| !first.is_numeric())
}

/// The first name of an expression such as `answers.text` or `choices[0]`.
fn head_of_expression(text: &str) -> Option<&str> {
    let end = text.find(['.', '['])?;
    let (head, rest) = text.split_at(end);
    let closes =
        |rest: &str| rest.starts_with('[') && rest.ends_with(']') && !rest.contains(char::is_whitespace);
    let goes_on =
        |rest: &str| rest.strip_prefix('.').is_some_and(|rest| rest.split('.').all(is_name)) || closes(rest);
    (is_name(head) && goes_on(rest)).then_some(head)
}

/// The columns of documents: those that the dataset declares, and those of the first document.
pub(crate) fn column_names(columns: &[String], first: &Dict) -> Vec<String> {
    let own = first.keys().filter_map(Value::as_str).map(str::to_owned);
    let mut names = columns.to_vec();
    names.extend(own.filter(|name| !columns.contains(name)));
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Overrides, Spec, TaskManager};

    const COLUMNS: [&str; 5] = ["question", "answer", "cities", "Answer Key", "answers"];

    fn columns() -> Vec<String> {
        COLUMNS.map(str::to_owned).to_vec()
    }

    fn check(fields: &[(&str, Value)]) -> Vec<(&'static str, Option<String>, bool)> {
        let mut definition: Dict =
            fields.iter().map(|(key, value)| (Value::str(*key), value.clone())).collect();
        definition.insert("task", "t");
        definition.insert("test_split", "test");
        let manager = TaskManager::new(&[crate::BUILTIN_LIBRARY.into()]);
        let loaded = manager.load(&[Spec::Inline(definition)], Overrides::default()).unwrap();
        let missing = missing_columns(&loaded.tasks["t"], &columns());
        missing.into_iter().map(|one| (one.field, one.near, one.is_error)).collect()
    }

    fn text(field: &str, written: &str) -> Vec<(&'static str, Option<String>, bool)> {
        check(&[(field, Value::str(written))])
    }

    #[test]
    fn similar_columns_are_errors_and_others_are_reported() {
        assert_eq!(text("doc_to_target", "answr"), [("doc_to_target", Some("answer".into()), true)]);
        assert_eq!(text("doc_to_text", "Question"), [("doc_to_text", Some("question".into()), true)]);
        assert_eq!(text("doc_to_target", "Answr Key"), [("doc_to_target", Some("Answer Key".into()), true)]);
        assert_eq!(text("doc_to_target", "refusal"), [("doc_to_target", None, false)]);
        assert_eq!(text("doc_to_target", "answers.text"), [("doc_to_target", Some("answers".into()), true)]);
        assert_eq!(text("doc_to_target", "answers[0]"), [("doc_to_target", Some("answers".into()), true)]);
    }

    #[test]
    fn options_need_their_column() {
        let choice = |written: &str| {
            check(&[("output_type", Value::str("multiple_choice")), ("doc_to_choice", Value::str(written))])
        };
        assert_eq!(choice("citys"), [("doc_to_choice", Some("cities".into()), true)]);
        assert_eq!(choice("options"), [("doc_to_choice", None, true)]);
        assert_eq!(choice("['a', 'b']"), []);
        assert_eq!(choice("{{cities}}"), []);
        assert_eq!(choice("cities"), []);
    }

    #[test]
    fn intentional_constants_are_not_reported() {
        for constant in ["", " ", "0", "The answer is", "Answer:", "{{answr}}", "yes/no", "e.g.", "No."] {
            assert_eq!(text("doc_to_target", constant), [], "{constant}");
        }
        let options = Value::list([Value::str("yes"), Value::str("no")]);
        assert_eq!(check(&[("doc_to_choice", options), ("doc_to_target", Value::str("yes"))]), []);
        let template = Value::str("{{['yes', 'no']}}");
        assert_eq!(check(&[("doc_to_choice", template), ("doc_to_target", Value::str("yes"))]), []);
        assert_eq!(text("gen_prefix", "Answer"), []);
        assert_eq!(text("gen_prefix", "Solution"), []);
        assert_eq!(text("gen_prefix", "answr"), [("gen_prefix", Some("answer".into()), false)]);
    }

    #[test]
    fn example_fields_are_checked_against_the_pool() {
        let check = |fields: &[(&'static str, &str)]| {
            let own = Value::dict(fields.iter().map(|(key, text)| (*key, Value::str(*text))));
            let definition: Dict = [
                (Value::str("task"), Value::str("t")),
                (Value::str("test_split"), Value::str("test")),
                (Value::str("output_type"), Value::str("multiple_choice")),
                (Value::str("doc_to_text"), Value::str("quesion")),
                (Value::str("doc_to_choice"), Value::list([Value::str("yes"), Value::str("no")])),
                (Value::str("doc_to_target"), Value::str("yes")),
                (Value::str("fewshot_config"), own),
            ]
            .into_iter()
            .collect();
            let manager = TaskManager::new(&[crate::BUILTIN_LIBRARY.into()]);
            let loaded = manager.load(&[Spec::Inline(definition)], Overrides::default()).unwrap();
            let missing = missing_example_columns(&loaded.tasks["t"], &columns());
            missing.into_iter().map(|one| (one.field, one.near.clone(), one.is_error)).collect::<Vec<_>>()
        };
        // Fields shared with evaluated documents are checked there.
        assert_eq!(check(&[]), []);
        assert_eq!(check(&[("doc_to_text", "question"), ("doc_to_target", "no")]), []);
        let near = |field, column: &str, is_error| [(field, Some(column.to_owned()), is_error)];
        assert_eq!(
            check(&[("doc_to_target", "answr")]),
            near("fewshot_config.doc_to_target", "answer", true)
        );
        assert_eq!(
            check(&[("doc_to_text", "Question")]),
            near("fewshot_config.doc_to_text", "question", true)
        );
        assert_eq!(
            check(&[("doc_to_choice", "citys")]),
            near("fewshot_config.doc_to_choice", "cities", true)
        );
        assert_eq!(check(&[("gen_prefix", "answr")]), near("fewshot_config.gen_prefix", "answer", false));
        assert_eq!(check(&[("doc_to_target", "refusal")]), [("fewshot_config.doc_to_target", None, false)]);
    }

    #[test]
    fn placeholder_targets_of_tasks_that_score_themselves() {
        let function =
            lmeval_pycompat::Function { directory: String::new(), reference: "utils.score".into() };
        let scored = |target: &str| {
            let function = Value::Function(std::sync::Arc::new(function.clone()));
            check(&[("process_results", function), ("doc_to_target", Value::str(target))])
        };
        assert_eq!(scored("all"), []);
        assert_eq!(scored("answr"), [("doc_to_target", Some("answer".into()), false)]);
    }
}

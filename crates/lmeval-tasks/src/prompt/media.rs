//! Checks images and sounds before they become part of a request.

use std::sync::Arc;

use lmeval_media::{checked, from_text};
use lmeval_pycompat::{Dict, Media, MediaKind, Value, repr};

use super::error::{PromptError, PromptErrorKind};

/// A value, or the items of a list, with files in place of strings that stand for files. Other strings, such as addresses of
/// servers, stay.
pub(super) fn with_files(value: Value, kind: MediaKind) -> Value {
    match &value {
        Value::Str(text) => from_text(kind, text).map_or(value, |media| Value::Media(Arc::new(media))),
        Value::List(items) => Value::list(items.iter().map(|item| with_files(item.clone(), kind))),
        _ => value,
    }
}

/// Checks every file in a value. The error names the column of the document that has it.
pub(super) fn check(value: &Value, document: &Dict) -> Result<(), PromptError> {
    match value {
        Value::Media(media) => checked(media).map_err(|error| {
            let what = column_of(media, document).unwrap_or_else(|| format!("The {}", media.kind().name()));
            let named = media.name().map_or_else(String::new, |name| format!(" (`{name}`)"));
            PromptError::new(PromptErrorKind::Value, format!("{what} cannot be used{named}: {error}"))
                .hint(error.hint())
        }),
        Value::List(items) | Value::Tuple(items) => items.iter().try_for_each(|item| check(item, document)),
        Value::Dict(dict) => dict.values().try_for_each(|item| check(item, document)),
        _ => Ok(()),
    }
}

/// Which column has a file.
fn column_of(media: &Arc<Media>, document: &Dict) -> Option<String> {
    let (name, _) = document.iter().find(|(_, value)| has(value, media))?;
    Some(format!("The {} of the column `{}`", media.kind().name(), repr::str(name)))
}

fn has(value: &Value, media: &Arc<Media>) -> bool {
    match value {
        Value::Media(own) => Arc::ptr_eq(own, media) || own == media,
        Value::List(items) | Value::Tuple(items) => items.iter().any(|item| has(item, media)),
        Value::Dict(dict) => dict.values().any(|item| has(item, media)),
        _ => false,
    }
}

//! Filters of Jinja that templates cannot use here: they format web pages and debug output, which no prompt contains.
//!
//! A template that names one is refused when it is compiled. That includes names inside conditions, where a misspelt
//! filter may stay: whoever wrote one of these meant it, and the run would end in the middle.

use super::names;
use crate::error::{Error, ErrorKind};

const UNSUPPORTED: [&str; 6] = ["filesizeformat", "pprint", "striptags", "urlize", "wordwrap", "xmlattr"];

/// Whether Jinja has a filter of this name that templates cannot use here.
pub(crate) fn is_unsupported(name: &str) -> bool {
    UNSUPPORTED.contains(&name)
}

/// The error for a filter that templates cannot use; `None` for every other name.
pub(crate) fn refusal(name: &str, chat: bool) -> Option<Error> {
    if !is_unsupported(name) {
        return None;
    }
    let known: Vec<String> = names(chat).map(|name| format!("`{name}`")).collect();
    let mut error = Error::new(ErrorKind::UnknownFilter, format!("The filter `{name}` is not supported"));
    if !chat {
        error = error
            .with_hint("Change the text in Python instead, in a function of the task file (`!function`)");
    }
    Some(error.with_hint(format!("The filters are {}", known.join(", "))))
}

//! Jinja filters that are not supported: they format web pages and debug output, which prompts do not
//! contain.
//!
//! A template that uses one is rejected at compile time, even inside of a condition, where a misspelt filter
//! is tolerated: the author meant this filter, and the run would fail midway.

use super::names;
use crate::error::{Error, ErrorKind};

const UNSUPPORTED: [&str; 6] = ["filesizeformat", "pprint", "striptags", "urlize", "wordwrap", "xmlattr"];

/// Whether this is a Jinja filter that is not supported.
pub(crate) fn is_unsupported(name: &str) -> bool {
    UNSUPPORTED.contains(&name)
}

/// The error for an unsupported filter; `None` for any other name.
pub(crate) fn refusal(name: &str, chat: bool) -> Option<Error> {
    if !is_unsupported(name) {
        return None;
    }
    let known: Vec<String> = names(chat).map(|name| format!("`{name}`")).collect();
    let mut error = Error::new(ErrorKind::UnknownFilter, format!("The filter `{name}` is not supported"));
    if !chat {
        error = error.with_hint("Do this in Python instead, with a function of the task file (`!function`)");
    }
    Some(error.with_hint(format!("The filters are {}", known.join(", "))))
}

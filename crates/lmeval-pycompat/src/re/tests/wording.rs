//! Compares errors with Python's although the wording differs.
//!
//! Kind and position must be equal. In addition, one Python message must always correspond to the same message of ours,
//! so that an error about something else is noticed even at the right position. Values inside the messages are ignored.

use std::collections::HashMap;

use crate::re::{Error, ErrorKind};

/// Python's error: the class of the exception, its message and its position.
#[derive(Debug)]
pub(super) struct PythonError<'a> {
    /// The class, if it is recorded.
    pub(super) class: Option<&'a str>,
    pub(super) message: &'a str,
    /// The position in characters.
    pub(super) position: Option<u64>,
}

/// Our message for each of Python's messages seen so far.
#[derive(Default)]
pub(super) struct Wordings {
    known: HashMap<String, String>,
}

impl Wordings {
    /// Whether an error corresponds to Python's.
    pub(super) fn agree(&mut self, error: &Error, theirs: &PythonError<'_>) -> bool {
        let class = match error.kind() {
            ErrorKind::Overflow => "OverflowError",
            ErrorKind::UnknownGroup => "IndexError",
            // Python raises `ValueError`, not `re.error`, for mutually exclusive flags.
            ErrorKind::Pattern if theirs.class == Some("ValueError") => "ValueError",
            _ => "error",
        };
        let ours = without_values(error.message());
        let known = self.known.entry(skeleton(theirs.message)).or_insert_with(|| ours.clone());
        theirs.class.is_none_or(|wanted| wanted == class)
            && error.position().map(|position| position as u64) == theirs.position
            && *known == ours
    }
}

/// The words of a message before the first that may be a value.
fn skeleton(message: &str) -> String {
    let is_fixed = |word: &&str| {
        let bare = word.trim_matches(['(', ')', ',', ':']);
        bare.chars().all(|character| character.is_ascii_alphabetic())
            || (!bare.contains(['\\', '\''])
                && bare.chars().all(|character| character.is_ascii_punctuation()))
    };
    message.split(' ').take_while(is_fixed).collect::<Vec<_>>().join(" ")
}

/// Our message without quoted parts and numbers.
fn without_values(message: &str) -> String {
    let mut rest = message.to_owned();
    if let (Some(first), Some(last)) = (message.find('`'), message.rfind('`')) {
        rest.replace_range(first..=last, "");
    }
    rest.retain(|character| !character.is_ascii_digit());
    rest
}

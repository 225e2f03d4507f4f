//! Compares errors with Python's although the words differ.
//!
//! Kind and place must be equal. Beyond that, whenever Python gives the same message we must give the same one too, so
//! that an error about something else shows up even at the right place. Values inside the messages do not count.

use std::collections::HashMap;

use crate::re::{Error, ErrorKind};

/// What Python said: the class of the exception, its message and its place.
#[derive(Debug)]
pub(super) struct Said<'a> {
    /// The class, where it is recorded.
    pub(super) class: Option<&'a str>,
    /// The message.
    pub(super) message: &'a str,
    /// The place in characters.
    pub(super) position: Option<u64>,
}

/// Which of our messages each of Python's has stood for.
#[derive(Default)]
pub(super) struct Wordings {
    known: HashMap<String, String>,
}

impl Wordings {
    /// Whether an error is the one that Python gave.
    pub(super) fn agree(&mut self, error: &Error, said: &Said<'_>) -> bool {
        let class = match error.kind() {
            ErrorKind::Overflow => "OverflowError",
            ErrorKind::UnknownGroup => "IndexError",
            // Python raises no `re.error` for flags that exclude each other.
            ErrorKind::Pattern if said.class == Some("ValueError") => "ValueError",
            _ => "error",
        };
        let ours = without_values(error.message());
        let known = self.known.entry(skeleton(said.message)).or_insert_with(|| ours.clone());
        said.class.is_none_or(|wanted| wanted == class)
            && error.position().map(|position| position as u64) == said.position
            && *known == ours
    }
}

/// The words of a message up to the first that may be a value.
fn skeleton(message: &str) -> String {
    let is_fixed = |word: &&str| {
        let bare = word.trim_matches(['(', ')', ',', ':']);
        bare.chars().all(|character| character.is_ascii_alphabetic())
            || (!bare.contains(['\\', '\''])
                && bare.chars().all(|character| character.is_ascii_punctuation()))
    };
    message.split(' ').take_while(is_fixed).collect::<Vec<_>>().join(" ")
}

/// A message of ours without quoted parts and numbers.
fn without_values(message: &str) -> String {
    let mut rest = message.to_owned();
    if let (Some(first), Some(last)) = (message.find('`'), message.rfind('`')) {
        rest.replace_range(first..=last, "");
    }
    rest.retain(|character| !character.is_ascii_digit());
    rest
}

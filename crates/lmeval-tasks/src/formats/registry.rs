//! Formats by name.

use std::collections::BTreeMap;

use lmeval_core::nearest;
use lmeval_core::registry::AlreadyRegistered;

use super::format::Format;
use super::{cloze, cot, generate, mcqa};
use crate::config::{listed, shortened};
use crate::error::{Error, ErrorKind};

/// The formats that a task can select: the built-in ones and those that a program adds.
///
/// ```
/// use lmeval_tasks::formats::FormatRegistry;
///
/// let mut formats = FormatRegistry::default();
/// let mut terse = formats.get("mcqa").unwrap().clone();
/// terse.question_prefix = None;
/// formats.register("terse", terse).unwrap();
/// assert_eq!(formats.names(), ["cloze", "cot", "generate", "mcqa", "terse"]);
/// ```
#[derive(Clone, Debug)]
pub struct FormatRegistry {
    formats: BTreeMap<String, Format>,
}

impl Default for FormatRegistry {
    fn default() -> Self {
        let formats = [
            ("cloze", cloze::format()),
            ("cot", cot::format()),
            ("generate", generate::format()),
            ("mcqa", mcqa::format()),
        ];
        Self { formats: formats.into_iter().map(|(name, format)| (name.to_owned(), format)).collect() }
    }
}

impl FormatRegistry {
    /// Adds a format. Adding an equal format again changes nothing; a name never changes its meaning.
    pub fn register(&mut self, name: impl Into<String>, format: Format) -> Result<(), AlreadyRegistered> {
        let name = name.into();
        match self.formats.get(&name) {
            Some(known) if *known == format => Ok(()),
            Some(_) => Err(AlreadyRegistered { kind: "format", name }),
            None => {
                self.formats.insert(name, format);
                Ok(())
            }
        }
    }

    /// The format of a name.
    pub fn get(&self, name: &str) -> Option<&Format> {
        self.formats.get(name)
    }

    /// The format of a name, or an error that lists the names.
    pub fn find(&self, name: &str) -> Result<&Format, Error> {
        self.get(name).ok_or_else(|| {
            let names = self.names();
            Error::new(ErrorKind::Value, format!("`{}` is not a known format", shortened(name)))
                .did_you_mean(&nearest(name, names.iter().copied()))
                .hint(format!("The formats are {}", listed(&names)))
        })
    }

    /// All names, sorted.
    pub fn names(&self) -> Vec<&str> {
        self.formats.keys().map(String::as_str).collect()
    }
}

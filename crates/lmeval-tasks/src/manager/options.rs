//! Options of single tasks, written behind their names.

use std::fmt;
use std::sync::Arc;

use crate::error::{Error, ErrorKind};

/// What the caller of a run wants for one task; it wins over the options of the run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct TaskOptions {
    /// The number of few-shot examples.
    pub num_fewshot: Option<i64>,
    /// The number of answers to each document.
    pub repeats: Option<usize>,
    /// How these answers become one value.
    pub reductions: Vec<Arc<str>>,
    /// The number of documents.
    pub limit: Option<usize>,
}

impl TaskOptions {
    /// Splits a word of the command line into the name and its options.
    ///
    /// A number alone is the number of few-shot examples.
    ///
    /// ```
    /// use lmeval_tasks::TaskOptions;
    ///
    /// let (name, options) = TaskOptions::split("group::aime:5:repeats=64:reductions=avg@64+maj@64").unwrap();
    /// assert_eq!((name, options.num_fewshot, options.repeats), ("group::aime", Some(5), Some(64)));
    /// assert_eq!(options.to_string(), ":5:repeats=64:reductions=avg@64+maj@64");
    /// ```
    pub fn split(word: &str) -> Result<(&str, Self), Error> {
        let mut options = Self::default();
        let name = without_options(word);
        let Some(written) = word[name.len()..].strip_prefix(':') else { return Ok((word, options)) };
        for option in written.split(':') {
            options.add(option, word)?;
        }
        Ok((name, options))
    }

    fn add(&mut self, option: &str, word: &str) -> Result<(), Error> {
        let (key, value) = match option.split_once('=') {
            Some(parts) => parts,
            None if is_number(option) => ("num_fewshot", option),
            None => (option, ""),
        };
        let wrong = |expected: &str| {
            let message = format!("`{word}`: `{key}` must be {expected}, not `{value}`");
            Error::new(ErrorKind::Value, message)
        };
        let is_given = match key {
            "num_fewshot" => self.num_fewshot.is_some(),
            "repeats" => self.repeats.is_some(),
            "limit" => self.limit.is_some(),
            _ => !self.reductions.is_empty() && key == "reductions",
        };
        if is_given {
            return Err(Error::new(ErrorKind::Value, format!("`{word}` gives `{key}` twice")));
        }
        match key {
            "num_fewshot" => {
                let count = value.parse().ok().filter(|count| *count >= 0);
                self.num_fewshot = Some(count.ok_or_else(|| wrong("a non-negative integer"))?);
            }
            "repeats" => {
                self.repeats = Some(value.parse().map_err(|_| wrong("a non-negative integer"))?);
            }
            "limit" => {
                let count = value.parse().ok().filter(|count| *count > 0);
                self.limit = Some(count.ok_or_else(|| wrong("a positive integer"))?);
            }
            "reductions" => self.reductions = value.split('+').map(Arc::from).collect(),
            _ => {
                let message = format!("`{word}`: a task has no option `{key}` on the command line");
                let error = Error::new(ErrorKind::Value, message);
                return Err(error.hint(
                    "The options are the number of few-shot examples, `limit=N`, `repeats=N` and `reductions=NAME+NAME`, as in `gsm8k:5:repeats=4`",
                ));
            }
        }
        Ok(())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// As they are written behind a name.
impl fmt::Display for TaskOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(count) = self.num_fewshot {
            write!(f, ":{count}")?;
        }
        if let Some(count) = self.limit {
            write!(f, ":limit={count}")?;
        }
        if let Some(count) = self.repeats {
            write!(f, ":repeats={count}")?;
        }
        if !self.reductions.is_empty() {
            write!(f, ":reductions={}", self.reductions.join("+"))?;
        }
        Ok(())
    }
}

/// The part of a word before the first colon that an option follows. Paths contain `::`, and files may contain anything.
fn without_options(word: &str) -> &str {
    let first = word.split_once('=').map(|(before, _)| before);
    let mut name = first.and_then(|before| before_colon(before)).unwrap_or(word);
    while let Some(before) = before_colon(name).filter(|before| is_number(&name[before.len() + 1..])) {
        name = before;
    }
    name
}

/// The part before the last colon, unless that is the second one of `::`.
fn before_colon(word: &str) -> Option<&str> {
    let before = &word[..word.rfind(':')?];
    (!before.ends_with(':')).then_some(before)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_without_options_stay_whole() {
        for word in
            ["gsm8k", "a::b", "a::7", "task@format", "folder/x=y.yaml", "mmlu_*", "a::b=c", "a:b", "a:"]
        {
            assert_eq!(TaskOptions::split(word).unwrap(), (word, TaskOptions::default()), "{word}");
        }
    }

    #[test]
    fn a_number_is_the_number_of_shots() {
        for (word, name, shots) in [
            ("arc:25", "arc", 25),
            ("g::t:0", "g::t", 0),
            ("t@mcqa:5", "t@mcqa", 5),
            ("f/t.yaml:3", "f/t.yaml", 3),
        ] {
            let (found, options) = TaskOptions::split(word).unwrap();
            assert_eq!((found, options.num_fewshot), (name, Some(shots)), "{word}");
        }
    }

    #[test]
    fn options_are_written_in_one_way() {
        for word in [
            "t:5:repeats=2:reductions=a+b",
            "t:repeats=2:reductions=a+b:5",
            "t:repeats=2:num_fewshot=5:reductions=a+b",
        ] {
            let (name, options) = TaskOptions::split(word).unwrap();
            assert_eq!((name, options.to_string().as_str()), ("t", ":5:repeats=2:reductions=a+b"), "{word}");
        }
    }

    #[test]
    fn wrong_options_are_named() {
        for (word, problem) in [
            ("t:repeats=x", "`repeats` must be a non-negative integer, not `x`"),
            ("t:num_fewshot=-1", "`num_fewshot` must be"),
            (
                "t:99999999999999999999",
                "`num_fewshot` must be a non-negative integer, not `99999999999999999999`",
            ),
            ("t:temperature=1", "no option `temperature`"),
            ("t:repeats=2:oops", "no option `oops`"),
            ("t:limit=0", "`limit` must be a positive integer, not `0`"),
            ("t:5:repeats=2:num_fewshot=6", "gives `num_fewshot` twice"),
            ("t:5:6", "gives `num_fewshot` twice"),
        ] {
            let error = TaskOptions::split(word).unwrap_err().to_string();
            assert!(error.contains(problem), "{error}");
        }
    }
}

//! Options of single tasks, written behind their names.

use std::sync::Arc;

use crate::error::{Error, ErrorKind};

/// What the caller of a run wants for one task; it wins over the options of the run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskOptions {
    /// The number of few-shot examples.
    pub num_fewshot: Option<i64>,
    /// The number of answers to each document.
    pub repeats: Option<usize>,
    /// How these answers become one value.
    pub reductions: Vec<Arc<str>>,
}

impl TaskOptions {
    /// Splits a word of the command line into the name and its options.
    ///
    /// ```
    /// use lmeval_tasks::TaskOptions;
    ///
    /// let (name, options) = TaskOptions::split("group::aime:repeats=64:reductions=avg@64+maj@64").unwrap();
    /// assert_eq!((name, options.repeats), ("group::aime", Some(64)));
    /// assert_eq!(options.reductions.len(), 2);
    /// ```
    pub fn split(word: &str) -> Result<(&str, Self), Error> {
        let mut options = Self::default();
        let Some(first) = word.find('=') else { return Ok((word, options)) };
        let Some(colon) = word[..first].rfind(':').filter(|colon| !word[..*colon].ends_with(':')) else {
            return Ok((word, options));
        };
        for option in word[colon + 1..].split(':') {
            let (key, value) = option.split_once('=').unwrap_or((option, ""));
            let wrong = |expected: &str| {
                let message = format!("`{word}`: `{key}` must be {expected}, not `{value}`");
                Error::new(ErrorKind::Value, message)
            };
            match key {
                "num_fewshot" => {
                    let count = value.parse().ok().filter(|count| *count >= 0);
                    options.num_fewshot = Some(count.ok_or_else(|| wrong("a non-negative integer"))?);
                }
                "repeats" => {
                    options.repeats = Some(value.parse().map_err(|_| wrong("a non-negative integer"))?);
                }
                "reductions" => options.reductions = value.split('+').map(Arc::from).collect(),
                _ => {
                    let message = format!("`{word}`: a task has no option `{key}` on the command line");
                    let error = Error::new(ErrorKind::Value, message);
                    return Err(error.hint(
                        "The options are `num_fewshot=N`, `repeats=N` and `reductions=NAME+NAME`, as in `gsm8k:repeats=4`",
                    ));
                }
            }
        }
        Ok((&word[..colon], options))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_without_options_stay_whole() {
        for word in ["gsm8k", "a::b", "task@format", "folder/x=y.yaml", "mmlu_*", "a::b=c"] {
            assert_eq!(TaskOptions::split(word).unwrap(), (word, TaskOptions::default()), "{word}");
        }
    }

    #[test]
    fn wrong_options_are_named() {
        for (word, problem) in [
            ("t:repeats=x", "`repeats` must be a non-negative integer, not `x`"),
            ("t:num_fewshot=-1", "`num_fewshot` must be"),
            ("t:temperature=1", "no option `temperature`"),
            ("t:repeats=2:oops", "no option `oops`"),
        ] {
            let error = TaskOptions::split(word).unwrap_err().to_string();
            assert!(error.contains(problem), "{error}");
        }
    }
}

//! The part of the documents that a run evaluates.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Result, bail};
use lmeval_core::Diagnostic;
use lmeval_pycompat::Value;
use lmeval_tasks::prompt::Part;

use super::layer::{InvalidValue, Setting};

/// A shard of `--shard`: the `index`th of `count`, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ShardNumber {
    index: usize,
    count: usize,
}

impl ShardNumber {
    /// A shard by its number, from 1; `None` if there are fewer shards.
    pub(crate) fn new(index: usize, count: usize) -> Option<Self> {
        (1..=count).contains(&index).then_some(Self { index, count })
    }

    /// The number of the shard, from 1.
    pub(crate) fn index(self) -> usize {
        self.index
    }

    /// The number of shards.
    pub(crate) fn count(self) -> usize {
        self.count
    }

    /// The documents of the shard.
    pub(crate) fn part(self) -> Option<Part> {
        Part::new(self.index - 1, self.count)
    }

    /// The name of the folder of the shard inside the output path.
    pub(crate) fn folder(self) -> String {
        format!("shard-{}-of-{}", self.index, self.count)
    }

    /// The shard that a folder is named after.
    pub(crate) fn of_folder(name: &str) -> Option<Self> {
        let (index, count) = name.strip_prefix("shard-")?.split_once("-of-")?;
        Self::new(index.parse().ok()?, count.parse().ok()?)
    }

    /// Where the shard of a run with this output path writes its files.
    pub(super) fn output_path(self, path: Option<PathBuf>) -> Result<PathBuf> {
        let Some(path) = path else {
            let diagnostic = Diagnostic::new("`--shard` needs a folder for the answers of the shard");
            bail!(diagnostic.hint("Set it with `--output_path`, which may be the same for all shards"));
        };
        if is_json(&path) {
            let diagnostic = Diagnostic::new(format!(
                "`--output_path` must be a folder with `--shard`, not the file `{}`",
                path.display()
            ));
            bail!(diagnostic.hint("`lm-eval merge` accepts a file name for the merged results"));
        }
        Ok(path.join(self.folder()))
    }
}

fn is_json(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "json")
}

impl fmt::Display for ShardNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

impl FromStr for ShardNumber {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.split_once('/');
        let numbers = numbers.and_then(|(index, count)| {
            Some((index.trim().parse::<usize>().ok()?, count.trim().parse::<usize>().ok()?))
        });
        match numbers {
            Some((0, count)) if count > 0 => {
                Err(format!("shards are numbered from 1: the first of {count} is `1/{count}`"))
            }
            Some((index, count)) => {
                Self::new(index, count).ok_or_else(|| format!("there is no shard {index} of {count}"))
            }
            None => Err("expected a shard and the number of shards, such as `2/8`".to_owned()),
        }
    }
}

impl Setting for ShardNumber {
    fn read(value: &Value) -> Result<Option<Self>, InvalidValue> {
        match value {
            Value::None => Ok(None),
            Value::Str(text) => match text.parse() {
                Ok(shard) => Ok(Some(shard)),
                Err(message) => Err(InvalidValue::Message(format!("`shard`: {message}"))),
            },
            _ => InvalidValue::expected("a string such as `2/8`"),
        }
    }

    fn to_value(&self) -> Value {
        Value::from(self.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_count_from_one() {
        let read = |text: &str| text.parse::<ShardNumber>().map(|shard| shard.to_string());
        assert_eq!(read("2/8").as_deref(), Ok("2/8"));
        assert_eq!(read(" 8 / 8 ").as_deref(), Ok("8/8"));
        assert!(read("0/8").is_err_and(|message| message.contains("`1/8`")));
        for wrong in ["9/8", "0/0", "8", "1/", "-1/2", "a/b", "1/2/3", ""] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn folders_name_their_shard() {
        let shard = ShardNumber::new(3, 12).unwrap();
        assert_eq!(ShardNumber::of_folder(&shard.folder()), Some(shard));
        for other in ["shard-0-of-2", "shard-3-of-2", "shard-1", "out"] {
            assert_eq!(ShardNumber::of_folder(other), None, "{other}");
        }
    }
}

//! Assigns files to splits.

use lmeval_pycompat::{Value, repr};

use crate::error::{Error, ErrorKind};
use crate::glob::{Glob, is_pattern};
use crate::slice::is_split_name;

/// Splits with the patterns of their files.
pub(crate) type Patterns = Vec<(String, Vec<String>)>;

const KEYWORDS: [(&str, &[&str]); 3] = [
    ("train", &["train", "training"]),
    ("validation", &["validation", "valid", "dev", "val"]),
    ("test", &["test", "testing", "eval", "evaluation"]),
];

/// The characters allowed next to a keyword in a name.
const BREAKS: &str = "-._ 0-9";

/// The suffix of sharded files such as `train-00000-of-00001.parquet`.
const SHARD: &str = "-[0-9][0-9][0-9][0-9][0-9]-of-[0-9][0-9][0-9][0-9][0-9]*.*";

/// The files that match a pattern.
pub(crate) fn select(files: &[String], pattern: &str) -> Vec<String> {
    let glob = Glob::new(pattern);
    files.iter().filter(|path| glob.matches(path)).cloned().collect()
}

/// Maps a keyword to patterns.
type PatternsOf<'p> = &'p dyn Fn(&str) -> Vec<String>;

/// Infers the patterns of a folder without metadata: by shards in `data`, by folder names, by file names, or all
/// files as `train`.
pub(crate) fn infer(files: &[String], location: &str) -> Result<Patterns, Error> {
    let shards = select(files, &format!("data/*{SHARD}"));
    if !shards.is_empty() {
        return sharded(&shards, location);
    }
    let in_folders = |word: &str| {
        vec![
            format!("**/{word}/**"),
            format!("**/{word}[{BREAKS}]*/**"),
            format!("**/*[{BREAKS}]{word}/**"),
            format!("**/*[{BREAKS}]{word}[{BREAKS}]*/**"),
        ]
    };
    let in_names =
        |word: &str| vec![format!("**/{word}[{BREAKS}]*"), format!("**/*[{BREAKS}]{word}[{BREAKS}]*")];
    let kinds: [PatternsOf<'_>; 2] = [&in_folders, &in_names];
    for patterns_of in kinds {
        let mut found = Patterns::new();
        for (split, words) in KEYWORDS {
            let patterns: Vec<String> = words.iter().flat_map(|word| patterns_of(word)).collect();
            if patterns.iter().any(|pattern| !select(files, pattern).is_empty()) {
                found.push((split.into(), patterns));
            }
        }
        if !found.is_empty() {
            return Ok(found);
        }
    }
    if select(files, "**").is_empty() {
        return Err(
            ErrorKind::NoDataFiles { location: location.into(), message: "it has no files".into() }.into()
        );
    }
    Ok(vec![("train".into(), vec!["**".into()])])
}

fn sharded(shards: &[String], location: &str) -> Result<Patterns, Error> {
    let mut splits: Vec<String> = Vec::new();
    for path in shards {
        let name = path.rsplit('/').next().unwrap_or(path);
        let split = name.rfind("-of-").and_then(|at| name.get(..at.checked_sub(6)?)).unwrap_or(name);
        if !is_split_name(split) {
            let message = format!("`{name}` does not start with the name of a split");
            return Err(ErrorKind::NoDataFiles { location: location.into(), message }.into());
        }
        if !splits.iter().any(|known| known == split) {
            splits.push(split.into());
        }
    }
    let rank = |split: &str| KEYWORDS.iter().position(|(name, _)| *name == split).unwrap_or(KEYWORDS.len());
    splits.sort_by(|left, right| (rank(left), left).cmp(&(rank(right), right)));
    Ok(splits.into_iter().map(|split| (split.clone(), vec![format!("data/{split}{SHARD}")])).collect())
}

/// Parses `data_files`: a path, a list of paths, a map from split to paths, or a list of `{split, path}`.
pub(crate) fn declared(data_files: &Value) -> Result<Patterns, String> {
    let bad = |value: &Value| {
        format!(
            "expected a path, a list of paths or a map from splits to paths, found `{}`",
            repr::repr(value)
        )
    };
    let paths = |value: &Value| match value {
        Value::Str(path) => Ok(vec![path.to_string()]),
        Value::List(items) => {
            items.iter().map(|item| item.as_str().map(str::to_owned).ok_or_else(|| bad(value))).collect()
        }
        _ => Err(bad(value)),
    };
    match data_files {
        Value::Dict(dict) => {
            dict.iter().map(|(split, value)| Ok((repr::str(split), paths(value)?))).collect()
        }
        Value::List(items) if items.iter().any(|item| item.as_dict().is_some()) => {
            let mut patterns = Patterns::new();
            for item in items.iter() {
                let entry = item.as_dict().and_then(|dict| {
                    let split = dict.get_str("split").filter(|_| dict.len() == 2)?;
                    Some((repr::str(split), dict.get_str("path")?))
                });
                let (split, path) = entry.ok_or_else(|| bad(item))?;
                if patterns.iter().any(|(known, _)| *known == split) {
                    return Err(format!("split `{split}` occurs twice"));
                }
                patterns.push((split, paths(path)?));
            }
            Ok(patterns)
        }
        value => Ok(vec![("train".into(), paths(value)?)]),
    }
}

/// The files that patterns select from a list. A path without wildcards must exist.
pub(crate) fn resolve(
    files: &[String],
    patterns: &[(String, Vec<String>)],
    location: &str,
    keep: impl Fn(&str) -> bool,
) -> Result<Vec<(String, Vec<String>)>, Error> {
    let mut splits = Vec::with_capacity(patterns.len());
    for (split, patterns) in patterns {
        let mut chosen = Vec::new();
        for pattern in patterns {
            let mut found = select(files, pattern);
            found.retain(|path| keep(path));
            if found.is_empty() && !is_pattern(pattern) {
                let message = format!("`{pattern}` of split `{split}` does not exist");
                return Err(ErrorKind::NoDataFiles { location: location.into(), message }.into());
            }
            chosen.extend(found);
        }
        splits.push((split.clone(), chosen));
    }
    Ok(splits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn splits(names: &[&str]) -> Vec<(String, usize)> {
        let files: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let patterns = infer(&files, "x").unwrap();
        let resolved = resolve(&files, &patterns, "x", |_| true).unwrap();
        resolved.into_iter().map(|(split, files)| (split, files.len())).collect()
    }

    #[test]
    fn infers_splits_from_names() {
        let is = |names: &[&str], expected: &[(&str, usize)]| {
            let expected: Vec<_> =
                expected.iter().map(|(split, count)| ((*split).to_owned(), *count)).collect();
            assert_eq!(splits(names), expected, "{names:?}");
        };
        is(&["a.csv", "b.csv"], &[("train", 2)]);
        is(&["dev.jsonl", "test.jsonl", "other.jsonl"], &[("validation", 1), ("test", 1)]);
        is(&["mytrain.jsonl"], &[("train", 1)]);
        is(&["my_train.jsonl", "x.jsonl"], &[("train", 1)]);
        is(&["train/a.csv", "train/b.csv", "test/a.csv", "dev.csv"], &[("train", 2), ("test", 1)]);
        is(
            &[
                "data/test-00000-of-00001.parquet",
                "data/train-00000-of-00002-ab.parquet",
                "data/aux-00000-of-00001.parquet",
            ],
            &[("train", 1), ("test", 1), ("aux", 1)],
        );
        assert!(infer(&["README.md".into()], "x").is_err());
    }

    #[test]
    fn parses_all_forms_of_data_files() {
        let text = |value: Value| declared(&value).map(|patterns| format!("{patterns:?}"));
        assert_eq!(text(Value::str("a")).unwrap(), r#"[("train", ["a"])]"#);
        assert_eq!(
            text(Value::list([Value::str("a"), Value::str("b")])).unwrap(),
            r#"[("train", ["a", "b"])]"#
        );
        assert_eq!(text(Value::dict([("test", Value::str("a"))])).unwrap(), r#"[("test", ["a"])]"#);
        let entry = Value::dict([("split", Value::str("x")), ("path", Value::list([Value::str("a")]))]);
        assert_eq!(text(Value::list([entry.clone()])).unwrap(), r#"[("x", ["a"])]"#);
        assert!(text(Value::list([entry.clone(), entry])).is_err());
        assert!(text(Value::Int(1)).is_err());
    }
}

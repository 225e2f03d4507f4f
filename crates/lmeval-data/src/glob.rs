//! File patterns with the semantics of the reference's file systems.

use std::path::{Path, PathBuf};

use lmeval_pycompat::fnmatch;

use crate::error::Error;

/// Files that describe a dataset but are not part of it.
const NOT_DATA: [&str; 6] = [
    "README.md",
    "config.json",
    "dataset_info.json",
    "dataset_infos.json",
    "dummy_data.zip",
    "dataset_dict.json",
];

/// Whether a string contains wildcards.
pub(crate) fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

enum Segment {
    /// `**`: any number of folders; at the end, anything below.
    Any,
    Name(fnmatch::Pattern),
}

/// A pattern of path segments.
pub(crate) struct Glob {
    text: String,
    segments: Vec<Segment>,
}

impl Glob {
    pub(crate) fn new(pattern: &str) -> Self {
        let segments =
            pattern.split('/').filter(|part| !part.is_empty() && *part != ".").map(|part| match part {
                "**" => Segment::Any,
                part => Segment::Name(fnmatch::Pattern::new(part)),
            });
        Self { text: pattern.into(), segments: segments.collect() }
    }

    /// Whether a relative path is a data file that matches. Hidden files, folders that start with two underscores
    /// and description files match only if the pattern names them.
    pub(crate) fn matches(&self, path: &str) -> bool {
        let parts: Vec<&str> = path.split('/').collect();
        let name = parts.last().copied().unwrap_or_default();
        let pattern_name = self.text.rsplit('/').next().unwrap_or_default();
        let pattern_parts: Vec<&str> = self.text.split('/').filter(|part| *part != ".").collect();
        let hidden = |parts: &[&str]| parts.iter().filter(|part| is_hidden(part)).count();
        let special = |parts: &[&str]| {
            let folders = &parts[..parts.len().saturating_sub(1)];
            folders.iter().filter(|part| part.starts_with("__")).count()
        };
        matches_from(&self.segments, &parts)
            && (name == pattern_name || !NOT_DATA.contains(&name))
            && hidden(&parts) == hidden(&pattern_parts)
            && special(&parts) == special(&pattern_parts)
    }

    /// The maximum depth of matching paths.
    fn depth(&self) -> usize {
        if self.segments.iter().any(|segment| matches!(segment, Segment::Any)) {
            usize::MAX
        } else {
            self.segments.len()
        }
    }
}

fn is_hidden(part: &str) -> bool {
    part.starts_with('.') && part.chars().any(|c| c != '.')
}

fn matches_from(segments: &[Segment], parts: &[&str]) -> bool {
    match segments {
        [] => parts.is_empty(),
        [Segment::Any] => !parts.is_empty(),
        [Segment::Any, rest @ ..] => (0..=parts.len()).any(|skip| matches_from(rest, &parts[skip..])),
        [Segment::Name(name), rest @ ..] => match parts {
            [part, others @ ..] => name.matches(part) && matches_from(rest, others),
            [] => false,
        },
    }
}

/// Files on disk that match a pattern, absolute or relative to a folder, sorted by name.
pub(crate) fn local(folder: &Path, pattern: &str) -> Result<Vec<PathBuf>, Error> {
    if !is_pattern(pattern) {
        let path = folder.join(pattern);
        return Ok(if path.is_file() { vec![path] } else { Vec::new() });
    }
    // Only the part after the last folder without wildcards has to be searched.
    let first = pattern.split('/').take_while(|part| !is_pattern(part)).map(|part| part.len() + 1).sum();
    let (fixed, rest) = pattern.split_at(first);
    let root = folder.join(fixed);
    let glob = Glob::new(rest);
    let mut files = Vec::new();
    list(&root, "", glob.depth(), &mut files)?;
    files.retain(|path| glob.matches(path));
    files.sort_unstable();
    Ok(files.into_iter().map(|path| root.join(path)).collect())
}

/// All files below a folder as relative paths, sorted by name.
pub(crate) fn list_folder(root: &Path) -> Result<Vec<String>, Error> {
    let mut files = Vec::new();
    list(root, "", usize::MAX, &mut files)?;
    files.sort_unstable();
    Ok(files)
}

fn list(root: &Path, below: &str, depth: usize, files: &mut Vec<String>) -> Result<(), Error> {
    let folder = root.join(below);
    let entries = match fs_err::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && below.is_empty() => return Ok(()),
        Err(error) => return Err(Error::io(&folder, error)),
    };
    for entry in entries {
        let entry = entry.map_err(|error| Error::io(&folder, error))?;
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        let path = if below.is_empty() { name } else { format!("{below}/{name}") };
        let kind = entry.file_type().map_err(|error| Error::io(&folder, error))?;
        // Reference: links to files are included, links to folders are not followed.
        if kind.is_dir() {
            if depth > 1 {
                list(root, &path, depth - 1, files)?;
            }
        } else if kind.is_file() || root.join(&path).is_file() {
            files.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_patterns() {
        for (pattern, path, expected) in [
            ("**", "a.csv", true),
            ("**", "x/y/a.csv", true),
            ("**/train[-._ 0-9]*", "train.csv", true),
            ("**/train[-._ 0-9]*", "x/train-0.csv", true),
            ("**/train[-._ 0-9]*", "mytrain.csv", false),
            ("**/*[-._ 0-9]train[-._ 0-9]*", "my-train.csv", true),
            ("**/train/**", "train/a.csv", true),
            ("**/train/**", "x/train/y/a.csv", true),
            ("**/train[-._ 0-9]*/**", "train.csv", false),
            ("*.csv", "a.csv", true),
            ("*.csv", "x/a.csv", false),
            ("**", ".hidden.csv", false),
            (".*", ".hidden.csv", true),
            ("**", "__x__/a.csv", false),
            ("__x__/*", "__x__/a.csv", true),
            ("**", "README.md", false),
            ("README.md", "README.md", true),
            ("data/?[!b].csv", "data/xa.csv", true),
            ("data/?[!b].csv", "data/xb.csv", false),
        ] {
            assert_eq!(Glob::new(pattern).matches(path), expected, "{pattern} {path}");
        }
    }
}

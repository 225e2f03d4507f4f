//! Selection of tasks on the command line.

use std::path::{Path, PathBuf};

use lmeval_pycompat::Dict;
use lmeval_pycompat::fnmatch::Pattern;
use lmeval_pycompat::strings;

use super::{TaskManager, TaskOptions};
use crate::error::{Error, ErrorKind};

/// One thing to load.
#[derive(Clone, Debug)]
pub enum Spec {
    /// An index name, `task@format`, `group::task`, or the path of a YAML file; options such as `:5` may follow.
    Name(String),
    /// A YAML file.
    File(PathBuf),
    /// A configuration given as a mapping; a registered task of the same name is ignored.
    Inline(Dict),
}

impl From<&str> for Spec {
    fn from(name: &str) -> Self {
        Self::Name(name.to_owned())
    }
}

impl From<String> for Spec {
    fn from(name: String) -> Self {
        Self::Name(name)
    }
}

impl Spec {
    /// A file, with the options of its tasks as they are written.
    fn file(path: PathBuf, options: &str) -> Self {
        match options {
            "" => Self::File(path),
            options => Self::Name(format!("{}{options}", path.display())),
        }
    }
}

impl TaskManager {
    /// A selector without the options behind it, and these.
    fn split_options<'a>(&self, selector: &'a str) -> Result<(&'a str, &'a str), Error> {
        if self.index.get(selector).is_some() {
            return Ok((selector, ""));
        }
        TaskOptions::split(selector).map(|(name, _)| selector.split_at(name.len()))
    }

    /// Parses a command-line list. Each word is split at commas. A single folder that is not a known name selects the
    /// YAML files in it, a word that ends in `.yaml` selects the files that match it, and other words select the names
    /// that match.
    ///
    /// Unknown names and files are included in the result; loading them fails.
    pub fn select<S: AsRef<str>>(&self, words: &[S]) -> Result<Vec<Spec>, Error> {
        let selectors: Vec<&str> =
            words.iter().flat_map(|word| word.as_ref().split(',')).map(strings::strip).collect();
        if let [folder] = selectors.as_slice()
            && !folder.is_empty()
            && self.index.get(folder).is_none()
            && Path::new(folder).is_dir()
        {
            return Ok(yaml_files(Path::new(folder), "*.yaml")?.into_iter().map(Spec::File).collect());
        }
        let mut specs: Vec<Spec> = Vec::new();
        for selector in selectors.into_iter().filter(|selector| !selector.is_empty()) {
            let (words, options) = self.split_options(selector)?;
            let path = Path::new(words);
            if path.extension().is_some_and(|extension| extension == "yaml") {
                let name =
                    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
                let folder = path.parent().unwrap_or(Path::new(""));
                if !Pattern::is_glob(&name) {
                    specs.push(Spec::file(path.to_owned(), options));
                    continue;
                }
                let found = if folder.as_os_str().is_empty() || folder.is_dir() {
                    yaml_files(folder, &name)?
                } else {
                    Vec::new()
                };
                if found.is_empty() {
                    specs.push(Spec::from(selector));
                }
                specs.extend(found.into_iter().map(|path| Spec::file(path, options)));
                continue;
            }
            let matching = self.matching(selector);
            if matching.is_empty() {
                specs.push(Spec::from(selector));
            }
            specs.extend(matching.into_iter().map(Spec::Name));
        }
        remove_repeated(&mut specs);
        Ok(specs)
    }
}

/// The files of a folder whose names match, sorted.
fn yaml_files(folder: &Path, pattern: &str) -> Result<Vec<PathBuf>, Error> {
    let pattern = Pattern::new(pattern);
    let listed = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let entries = fs_err::read_dir(listed)
        .map_err(|error| Error::new(ErrorKind::Io, error.to_string()).including_cause(error))?;
    let mut paths: Vec<PathBuf> = entries
        .flatten()
        .filter(|entry| pattern.matches(&entry.file_name().to_string_lossy()))
        .map(|entry| folder.join(entry.file_name()))
        .filter(|path| path.is_file())
        .collect();
    paths.sort_unstable();
    Ok(paths)
}

fn remove_repeated(specs: &mut Vec<Spec>) {
    let mut names = std::collections::HashSet::new();
    let mut files = std::collections::HashSet::new();
    specs.retain(|spec| match spec {
        Spec::Name(name) => names.insert(name.clone()),
        Spec::File(path) => files.insert(path.clone()),
        Spec::Inline(_) => true,
    });
}

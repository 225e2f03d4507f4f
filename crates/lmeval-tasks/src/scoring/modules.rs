//! Guesses from the source code of the Python modules next to a task file which names they register.
//!
//! Starting Python takes longer than reading a few files, so a built-in name is looked up in Python only if a module
//! appears to register it.

use std::path::{Path, PathBuf};

use fs_err::DirEntry;
use rustc_hash::FxHashMap;

/// The source code of the modules that register something, by folder; each folder is read once.
#[derive(Debug, Default)]
pub(crate) struct ModuleSources(FxHashMap<String, Vec<String>>);

impl ModuleSources {
    /// Whether a module of the folder appears to register the name of a kind, such as `metric`.
    pub(crate) fn register(&mut self, folder: &str, kind: &str, name: &str) -> bool {
        let texts = self.0.entry(folder.to_owned()).or_insert_with(|| {
            let texts = modules(Path::new(folder)).into_iter().filter_map(|file| fs_err::read(file).ok());
            let texts = texts.map(|text| String::from_utf8_lossy(&text).into_owned());
            texts.filter(|text| text.contains("regist")).collect()
        });
        let (decorator, table) = (format!("register_{kind}"), format!("{kind}_registry"));
        texts.iter().any(|text| {
            has_word(text, name) && (text.contains(&decorator) || text.to_ascii_lowercase().contains(&table))
        })
    }
}

/// Whether a folder contains a Python module.
pub(crate) fn has_modules(folder: &Path) -> bool {
    entries(folder).any(|entry| is_module(&entry.path()))
}

/// The modules of a folder, and of subfolders that contain helpers rather than tasks.
fn modules(folder: &Path) -> Vec<PathBuf> {
    let (folders, files): (Vec<_>, Vec<_>) = entries(folder).partition(is_folder);
    let files = files.into_iter().map(|file| file.path());
    let mut found: Vec<PathBuf> = files.filter(|path| is_module(path)).collect();
    for folder in folders {
        let inside: Vec<PathBuf> = entries(&folder.path()).map(|entry| entry.path()).collect();
        if !inside.iter().any(|path| path.extension().is_some_and(|end| end == "yaml")) {
            found.extend(inside.into_iter().filter(|path| is_module(path)));
        }
    }
    found
}

fn entries(folder: &Path) -> impl Iterator<Item = DirEntry> {
    fs_err::read_dir(folder).into_iter().flatten().flatten()
}

/// The kind of an entry is listed with its name, and only a link has to be followed: folders of tasks have thousands of files.
fn is_folder(entry: &DirEntry) -> bool {
    entry.file_type().is_ok_and(|kind| if kind.is_symlink() { entry.path().is_dir() } else { kind.is_dir() })
}

fn is_module(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "py")
}

/// Whether the source contains the name as a word, not as part of a longer one.
fn has_word(text: &str, name: &str) -> bool {
    let is_inside =
        |letter: Option<char>| letter.is_some_and(|letter| letter.is_alphanumeric() || letter == '_');
    text.match_indices(name).any(|(start, _)| {
        !is_inside(text[..start].chars().next_back()) && !is_inside(text[start + name.len()..].chars().next())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_whole_words_only() {
        assert!(has_word("@register_metric(metric='acc')", "acc"));
        assert!(has_word("chrf++", "chrf++"));
        assert!(!has_word("accuracy acc_norm my_acc", "acc"));
        assert!(!has_word("", "acc"));
    }
}

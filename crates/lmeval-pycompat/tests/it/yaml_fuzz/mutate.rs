//! Mutations of real documents: files of the task library and the recorded vectors.

use std::path::{Path, PathBuf};

use lmeval_testkit::Dice;

const VECTORS: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/vectors/yaml.json"));

/// The maximum length of a snippet, in characters.
const SNIPPET: usize = 240;

/// One in this many library files is used.
const STRIDE: usize = 40;

/// Strings that an edit inserts.
#[rustfmt::skip]
const INSERTS: &[&str] = &[
    " ", "  ", "\n", "\n  ", "\t", ":", ": ", "- ", "? ", ",", "[", "]", "{", "}", "\"", "'", "\\", "|", ">",
    "|-\n", ">+\n", "|2\n", "&a ", "*a", "!", "!!str ", "!!int ", "!function ", "#", " #", "%", "@", "<<: ",
    "<<: *a", "=", "---\n", "...\n", "\r\n", "\r", "\u{85}", "\u{2028}", "\u{feff}", "é", "😀", "0", "1", ".",
    "_", "~", "yes", "a: b\n", "- a\n", "\\n", "\\u00e9", "''", "\u{7}",
];

pub(super) struct Mutator {
    sources: Vec<Vec<char>>,
}

impl Mutator {
    pub(super) fn new(library: Option<&Path>) -> Self {
        let vectors: Vec<(String, Option<String>)> = serde_json::from_str(VECTORS).unwrap();
        let mut sources: Vec<Vec<char>> =
            vectors.into_iter().map(|(text, _)| text.chars().collect()).collect();
        let mut files = Vec::new();
        if let Some(library) = library {
            yaml_files(library, &mut files);
        }
        files.sort();
        for path in files.iter().step_by(STRIDE) {
            let text = String::from_utf8(fs_err::read(path).unwrap()).unwrap();
            sources.push(text.chars().collect());
        }
        Self { sources }
    }

    /// A few lines of a source, mutated.
    pub(super) fn snippet(&self, dice: &mut Dice) -> String {
        let source = &self.sources[dice.roll(self.sources.len())];
        let lines: Vec<usize> = std::iter::once(0)
            .chain((0..source.len()).filter(|index| source[*index] == '\n').map(|index| index + 1))
            .collect();
        let start = if dice.one_in(2) { 0 } else { lines[dice.roll(lines.len())] };
        let end = (start + dice.between(10, SNIPPET)).min(source.len());
        self.mutate(&source[start..end].iter().collect::<String>(), dice)
    }

    pub(super) fn mutate(&self, text: &str, dice: &mut Dice) -> String {
        let mut text: Vec<char> = text.chars().collect();
        for _ in 0..dice.between(1, 3) {
            self.edit(&mut text, dice);
        }
        text.into_iter().collect()
    }

    fn edit(&self, text: &mut Vec<char>, dice: &mut Dice) {
        let position = dice.roll(text.len() + 1);
        let end = (position + dice.between(1, 6)).min(text.len());
        match dice.roll(7) {
            0 => drop(text.drain(position..end)),
            1 => drop(text.splice(position..position, dice.pick(INSERTS).chars())),
            2 => drop(text.splice(position..end, dice.pick(INSERTS).chars())),
            3 => {
                let again = text[position..end].to_vec();
                text.splice(end..end, again);
            }
            // Change the indentation of a line.
            4 => {
                let start =
                    text[..position].iter().rposition(|character| *character == '\n').map_or(0, |at| at + 1);
                let spaces = text[start..].iter().take_while(|character| **character == ' ').count();
                let indent = dice.roll(7);
                text.splice(start..start + spaces, std::iter::repeat_n(' ', indent));
            }
            // Swap two characters.
            5 if text.len() > 1 => {
                let first = dice.roll(text.len() - 1);
                text.swap(first, first + 1);
            }
            // Insert a piece of another source.
            _ => {
                let other = &self.sources[dice.roll(self.sources.len())];
                let from = dice.roll(other.len() + 1);
                let to = (from + dice.between(1, 30)).min(other.len());
                text.splice(position..position, other[from..to].iter().copied());
            }
        }
    }
}

fn yaml_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs_err::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            yaml_files(&entry.path(), files);
        } else if entry.path().extension().is_some_and(|extension| extension == "yaml") {
            files.push(entry.path());
        }
    }
}

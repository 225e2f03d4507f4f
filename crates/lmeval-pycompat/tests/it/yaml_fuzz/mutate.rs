//! Documents of others with something changed: lines of the task library, and the recorded vectors.

use std::path::{Path, PathBuf};

use super::random::Random;

const VECTORS: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/vectors/yaml.json"));

/// How many characters of a file a snippet has.
const SNIPPET: usize = 240;

/// Every so many files of the library are used.
const STRIDE: usize = 40;

/// What an edit puts in.
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

    /// Some lines of a source, changed in a few places.
    pub(super) fn snippet(&self, random: &mut Random) -> String {
        let source = &self.sources[random.below(self.sources.len())];
        let lines: Vec<usize> = std::iter::once(0)
            .chain((0..source.len()).filter(|index| source[*index] == '\n').map(|index| index + 1))
            .collect();
        let start = if random.one_in(2) { 0 } else { lines[random.below(lines.len())] };
        let end = (start + random.between(10, SNIPPET)).min(source.len());
        self.mutate(&source[start..end].iter().collect::<String>(), random)
    }

    pub(super) fn mutate(&self, text: &str, random: &mut Random) -> String {
        let mut text: Vec<char> = text.chars().collect();
        for _ in 0..random.between(1, 3) {
            self.edit(&mut text, random);
        }
        text.into_iter().collect()
    }

    fn edit(&self, text: &mut Vec<char>, random: &mut Random) {
        let place = random.below(text.len() + 1);
        let end = (place + random.between(1, 6)).min(text.len());
        match random.below(7) {
            0 => drop(text.drain(place..end)),
            1 => drop(text.splice(place..place, random.pick(INSERTS).chars())),
            2 => drop(text.splice(place..end, random.pick(INSERTS).chars())),
            3 => {
                let again = text[place..end].to_vec();
                text.splice(end..end, again);
            }
            // A line with another indentation.
            4 => {
                let start =
                    text[..place].iter().rposition(|character| *character == '\n').map_or(0, |at| at + 1);
                let spaces = text[start..].iter().take_while(|character| **character == ' ').count();
                let indent = random.below(7);
                text.splice(start..start + spaces, std::iter::repeat_n(' ', indent));
            }
            // Two characters change places.
            5 if text.len() > 1 => {
                let first = random.below(text.len() - 1);
                text.swap(first, first + 1);
            }
            // A piece of another source.
            _ => {
                let other = &self.sources[random.below(self.sources.len())];
                let from = random.below(other.len() + 1);
                let to = (from + random.between(1, 30)).min(other.len());
                text.splice(place..place, other[from..to].iter().copied());
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

//! The texts that a model learns from.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use lmeval_core::{ModelError, ModelSettings};
use sha2::{Digest, Sha256};

use crate::local::arguments::{configuration, hexadecimal, paths};

/// A text of our own: plain facts, sums, little stories, questions with answers.
const EMBEDDED: &str = include_str!("default.txt");

/// A line that ends a text, so that one file can hold several.
const END_OF_TEXT: &str = "<|endoftext|>";

/// The most that is learned from where `corpus_limit` does not say how much.
const MOST_BYTES: u64 = 32 << 20;

/// Texts and where they come from.
#[derive(Debug)]
pub(super) struct Corpus {
    /// The texts.
    texts: Vec<String>,
    /// Their places: paths, or `embedded`.
    pub(super) source: String,
    /// The SHA-256 of the texts.
    pub(super) hash: String,
}

impl Corpus {
    /// Reads what the arguments `corpus` and `corpus_limit` name.
    pub(super) fn read(settings: &ModelSettings) -> Result<Self, ModelError> {
        let limit = match settings.integer("corpus_limit")? {
            None => None,
            Some(limit) => match u64::try_from(limit) {
                Ok(limit @ 1..=0xFFFF_FFFF) => Some(limit),
                _ => {
                    return Err(configuration(
                        "The model argument `corpus_limit` must be between 1 and 4294967295 bytes",
                    ));
                }
            },
        };
        let (texts, source) = match settings.text("corpus") {
            None => (vec![EMBEDDED.to_owned()], "embedded".to_owned()),
            Some(corpus) => (read_files(&files(&corpus)?, limit)?, corpus),
        };
        let mut hash = Sha256::new();
        for text in &texts {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text);
        }
        let hash = hexadecimal(&hash.finalize());
        if texts.iter().all(|text| text.trim().is_empty()) {
            return Err(configuration(format!("The corpus `{source}` has no text")));
        }
        Ok(Self { texts, source, hash })
    }

    /// Each text on its own.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        self.texts.iter().flat_map(|text| split(text))
    }
}

/// Cuts at the lines that end a text.
fn split(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        while !rest.is_empty() {
            let mut end = 0;
            let line = rest.split_inclusive('\n').find(|line| {
                let found = line.trim_end() == END_OF_TEXT;
                end += if found { 0 } else { line.len() };
                found
            });
            let part = &rest[..end];
            rest = &rest[end + line.map_or(0, str::len)..];
            if !part.trim().is_empty() {
                return Some(part);
            }
        }
        None
    })
}

/// The files of a corpus; of a folder, those whose name ends in `.txt`.
fn files(corpus: &str) -> Result<Vec<PathBuf>, ModelError> {
    let unreadable = |error: std::io::Error| configuration(format!("The corpus cannot be read: {error}"));
    let mut files = Vec::new();
    for path in paths(corpus) {
        if !path.is_dir() {
            files.push(path);
            continue;
        }
        let mut found = Vec::new();
        for entry in fs_err::read_dir(&path).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?.path();
            if entry.extension().is_some_and(|extension| extension == "txt") && entry.is_file() {
                found.push(entry);
            }
        }
        if found.is_empty() {
            return Err(configuration(format!("The corpus folder `{}` has no `.txt` file", path.display())));
        }
        found.sort();
        files.append(&mut found);
    }
    if files.is_empty() {
        return Err(configuration("The model argument `corpus` names no file"));
    }
    Ok(files)
}

/// Reads files one after the other, up to the limit where there is one.
fn read_files(files: &[PathBuf], limit: Option<u64>) -> Result<Vec<String>, ModelError> {
    let mut left = limit.unwrap_or(MOST_BYTES);
    let mut texts = Vec::new();
    for path in files {
        // One byte more tells a file that ends here from one that goes on.
        let mut bytes = read_start(path, left + 1)
            .map_err(|error| configuration(format!("The corpus cannot be read: {error}")))?;
        if bytes.len() as u64 > left {
            if limit.is_none() {
                let message =
                    format!("The corpus has more than {MOST_BYTES} bytes, up to `{}`", path.display());
                let hint = format!(
                    "Give `corpus_limit={MOST_BYTES}` to learn from that many of them, or another number"
                );
                return Err(configuration(message).hint(hint));
            }
            bytes.truncate(left as usize);
        }
        left -= bytes.len() as u64;
        texts.push(text_of(bytes));
        if left == 0 && limit.is_some() {
            break;
        }
    }
    Ok(texts)
}

fn read_start(path: &Path, length: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    fs_err::File::open(path)?.take(length).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The text of bytes: without a character that is cut off at the end, and U+FFFD for what is no UTF-8.
fn text_of(mut bytes: Vec<u8>) -> String {
    if let Err(error) = str::from_utf8(&bytes)
        && error.error_len().is_none()
    {
        bytes.truncate(error.valid_up_to());
    }
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_texts() {
        let texts = |text| split(text).collect::<Vec<_>>();
        assert_eq!(texts("a\nb"), ["a\nb"]);
        assert_eq!(texts("a\n<|endoftext|>\nb\n<|endoftext|>\n\n"), ["a\n", "b\n"]);
        assert_eq!(texts("<|endoftext|>\r\nx <|endoftext|> y"), ["x <|endoftext|> y"]);
        assert!(texts("\n<|endoftext|>").is_empty());
        assert!(split(EMBEDDED).count() > 10);
    }

    #[test]
    fn bytes_become_text() {
        assert_eq!(text_of("naïve".into()), "naïve");
        assert_eq!(text_of("naï".as_bytes()[..3].to_vec()), "na");
        assert_eq!(text_of(vec![b'a', 0xFF, b'b']), "a\u{FFFD}b");
    }
}

//! The training corpus.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use lmeval_core::{ModelError, ModelSettings};
use sha2::{Digest, Sha256};

use crate::local::arguments::{configuration, hexadecimal, paths};

/// A short corpus of our own: plain facts, sums, little stories, questions with answers.
const EMBEDDED: &str = include_str!("default.txt");

/// A line that separates documents within one file.
const END_OF_TEXT: &str = "<|endoftext|>";

/// Upper bound on the corpus unless `corpus_limit` is set.
const MAX_BYTES: u64 = 32 << 20;

/// The documents of a corpus and their origin.
#[derive(Debug)]
pub(super) struct Corpus {
    texts: Vec<String>,
    /// Paths, or `embedded`.
    pub(super) source: String,
    /// SHA-256 of the contents.
    pub(super) hash: String,
}

impl Corpus {
    /// Reads the corpus named by `corpus`, up to `corpus_limit`.
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
            return Err(configuration(format!("The corpus `{source}` is empty")));
        }
        Ok(Self { texts, source, hash })
    }

    /// The documents, split at separator lines.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        self.texts.iter().flat_map(|text| split(text))
    }
}

/// Splits at separator lines.
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

/// The files of a corpus; for a folder, its `.txt` files.
fn files(corpus: &str) -> Result<Vec<PathBuf>, ModelError> {
    let unreadable = |error: std::io::Error| configuration(format!("The corpus could not be read: {error}"));
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
        return Err(configuration("The model argument `corpus` does not name a file"));
    }
    Ok(files)
}

/// Reads files in order, up to the limit if there is one.
fn read_files(files: &[PathBuf], limit: Option<u64>) -> Result<Vec<String>, ModelError> {
    let mut left = limit.unwrap_or(MAX_BYTES);
    let mut texts = Vec::new();
    for path in files {
        // One extra byte distinguishes a file that ends here from a longer one.
        let mut bytes = read_start(path, left + 1)
            .map_err(|error| configuration(format!("The corpus could not be read: {error}")))?;
        if bytes.len() as u64 > left {
            if limit.is_none() {
                let message = format!("The corpus exceeds {MAX_BYTES} bytes at `{}`", path.display());
                let hint = format!(
                    "Set `corpus_limit={MAX_BYTES}`, or another number of bytes, to use only the start"
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

/// Decodes bytes, dropping an incomplete character at the end and replacing invalid UTF-8 by U+FFFD.
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
    fn splits_documents_at_separator_lines() {
        let texts = |text| split(text).collect::<Vec<_>>();
        assert_eq!(texts("a\nb"), ["a\nb"]);
        assert_eq!(texts("a\n<|endoftext|>\nb\n<|endoftext|>\n\n"), ["a\n", "b\n"]);
        assert_eq!(texts("<|endoftext|>\r\nx <|endoftext|> y"), ["x <|endoftext|> y"]);
        assert!(texts("\n<|endoftext|>").is_empty());
        assert!(split(EMBEDDED).count() > 10);
    }

    #[test]
    fn decodes_bytes_leniently() {
        assert_eq!(text_of("naïve".into()), "naïve");
        assert_eq!(text_of("naï".as_bytes()[..3].to_vec()), "na");
        assert_eq!(text_of(vec![b'a', 0xFF, b'b']), "a\u{FFFD}b");
    }
}

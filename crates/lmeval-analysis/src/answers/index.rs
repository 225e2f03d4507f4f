//! Reads the requests of a samples file.

use std::io::BufReader;
use std::path::Path;

use fs_err as fs;
use lmeval_core::Diagnostic;
use lmeval_core::recorded::{RequestContent, recorded_arguments, recorded_types};
use lmeval_pycompat::{Dict, Value, json};
use rayon::prelude::*;
use sha2::{Digest as _, Sha256};

use super::unreadable;
use crate::Error;
use crate::read::{Fields, read_blocks};

/// Where the answers to a request are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Entry {
    /// The hash of the request's content and its generation settings.
    pub(super) hash: [u64; 2],
    /// The index of the file.
    pub(super) file: u32,
    /// The index of the document in its split.
    pub(super) document: u32,
    /// The offset of the line's `resps`.
    pub(super) offset: u64,
    /// The length of the `resps` in bytes.
    pub(super) length: u32,
    /// How far into the line the `resps` are.
    pub(super) indent: u32,
    /// The index among the requests of the document.
    pub(super) request: u16,
}

/// Generation settings as a string that does not depend on their order; empty for requests without.
pub(super) fn canonical(kwargs: Option<&Dict>) -> String {
    let options = json::Options { sort_keys: true, ..json::Options::default() };
    kwargs.and_then(|kwargs| json::dumps(&Value::from(kwargs.clone()), &options).ok()).unwrap_or_default()
}

/// The hash of a request.
///
/// `kwargs` are the generation settings as [`canonical`] writes them.
pub(super) fn hash(content: &RequestContent, kwargs: &str) -> [u64; 2] {
    let mut hash = Sha256::new();
    for part in [content.kind.name(), &*content.context, &*content.continuation, kwargs] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    }
    let digest = hash.finalize();
    let half = |bytes: &[u8]| bytes.iter().take(8).fold(0, |number, byte| (number << 8) | u64::from(*byte));
    [half(&digest), half(&digest[8..])]
}

/// A document's first filter pipeline, or what is wrong with its line.
type Parsed = Result<Vec<(Entry, bool)>, Problem>;

struct Problem {
    message: String,
    is_unfinished: bool,
}

/// Adds the requests of a file; returns whether any prompt is a list of chat messages.
pub(super) fn read(path: &Path, file: u32, entries: &mut Vec<Entry>) -> Result<bool, Error> {
    let unreadable = |error| unreadable(path, error);
    let mut reader = BufReader::with_capacity(1 << 20, fs::File::open(path).map_err(unreadable)?);
    let filter = first_filter(path)?;
    let (mut offset, mut line_index, mut is_chat) = (0, 0, false);
    loop {
        let blocks = read_blocks(&mut reader).map_err(unreadable)?;
        if blocks.is_empty() {
            return Ok(is_chat);
        }
        let mut lines: Vec<(u64, &[u8])> = Vec::new();
        for line in blocks.iter().flat_map(|block| block.split_inclusive(|byte| *byte == b'\n')) {
            lines.push((offset, line));
            offset += line.len() as u64;
        }
        let parsed: Vec<Parsed> =
            lines.par_iter().map(|(offset, line)| parse(line, *offset, file, filter.as_deref())).collect();
        for requests in parsed {
            line_index += 1;
            let requests = requests.map_err(|problem| problem.diagnostic(path, line_index))?;
            is_chat |= requests.iter().any(|(_, is_chat)| *is_chat);
            entries.extend(requests.into_iter().map(|(entry, _)| entry));
        }
    }
}

/// The pipeline of the first line.
fn first_filter(path: &Path) -> Result<Option<String>, Error> {
    let mut reader = BufReader::new(fs::File::open(path).map_err(|error| unreadable(path, error))?);
    let line = crate::read::read_line(&mut reader, 0).map_err(|error| unreadable(path, error))?;
    let fields = Fields::parse(line.trim_end());
    Ok(fields.ok().and_then(|fields| fields.text("filter").map(std::borrow::Cow::into_owned)))
}

impl Problem {
    fn diagnostic(self, path: &Path, line: usize) -> Diagnostic {
        let message = format!("Line {line} of `{}` cannot be used: {}", path.display(), self.message);
        let diagnostic = Diagnostic::new(message);
        let hint = if self.is_unfinished {
            "The file was probably still being written; use the samples of a finished run, or its journal"
        } else {
            "Samples files are written by `lm-eval run --log_samples`"
        };
        diagnostic.hint(hint)
    }
}

fn parse(line: &[u8], offset: u64, file: u32, filter: Option<&str>) -> Parsed {
    let wrong = |message: String| Problem { message, is_unfinished: false };
    let is_complete = line.ends_with(b"\n");
    let text = std::str::from_utf8(line).map_err(|_| wrong("it is not UTF-8".to_owned()))?.trim();
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let fields = Fields::parse(text).map_err(|malformed| Problem {
        message: "it is not a complete JSON object".to_owned(),
        is_unfinished: !is_complete && malformed.offset == text.len(),
    })?;
    if fields.text("filter").as_deref() != filter {
        return Ok(Vec::new());
    }
    let document = fields.raw("doc_id").and_then(|raw| raw.parse().ok());
    let document = document.ok_or_else(|| wrong("it has no `doc_id`".to_owned()))?;
    let responses = fields.raw("resps").ok_or_else(|| wrong("it has no `resps`".to_owned()))?;
    let indent = responses.as_ptr().addr() - line.as_ptr().addr();
    let too_long = |_| wrong("it is too long".to_owned());
    let length = u32::try_from(responses.len()).map_err(too_long)?;
    let indent_in_line = u32::try_from(indent).map_err(too_long)?;
    let requests = recorded_arguments(fields.value("arguments").as_ref()).map_err(wrong)?;
    let mut entries = Vec::with_capacity(requests.len());
    for (request, arguments) in requests.iter().enumerate() {
        let request = u16::try_from(request).map_err(|_| wrong("it has too many requests".to_owned()))?;
        for &kind in recorded_types(arguments).map_err(wrong)? {
            let (content, kwargs) = RequestContent::of_arguments(kind, arguments).map_err(wrong)?;
            let hash = hash(&content, &canonical(kwargs.as_deref()));
            let (offset, indent) = (offset + indent as u64, indent_in_line);
            let entry = Entry { hash, file, document, offset, length, indent, request };
            entries.push((entry, content.is_chat()));
        }
    }
    Ok(entries)
}

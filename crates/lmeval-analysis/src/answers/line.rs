//! The lines of a samples file: where their requests and answers are, and what is wrong with them.

use std::path::Path;

use lmeval_core::Diagnostic;
use lmeval_core::recorded::{RequestContent, recorded_arguments, recorded_types};
use lmeval_pycompat::json;
use lmeval_scoring::results::LinesChecksum;
use memchr::memmem;

use super::scores::StoredScores;
use crate::Error;
use crate::read::{Fields, MetricNames, lines, parse_blocks};

/// Where the requests of a document and their answers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// The index of the document in its split.
    pub(super) document: u32,
    /// The offset of the line.
    pub(super) offset: u64,
    /// The first byte of `arguments` in the line, and their length.
    pub(super) arguments: [u32; 2],
    /// The first byte of `resps` in the line, and their length.
    pub(super) responses: [u32; 2],
    /// The same of `finish_reasons`; empty if all answers are complete.
    pub(super) finishes: [u32; 2],
    /// The same of `reasoning`; empty if there was none.
    pub(super) reasoning: [u32; 2],
}

impl Line {
    /// The range of the file that has requests, answers and why they ended.
    pub(super) fn range(&self) -> [u64; 2] {
        let parts = [self.arguments, self.responses, self.finishes, self.reasoning];
        let parts = parts.into_iter().filter(|[_, length]| *length > 0);
        let (start, end) = parts
            .fold((u32::MAX, 0), |(start, end), [from, length]| (start.min(from), end.max(from + length)));
        [start, end].map(|byte| self.offset + u64::from(byte))
    }
}

/// The reason why a line cannot be used.
pub(super) struct Problem {
    message: String,
    is_unfinished: bool,
}

impl Problem {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), is_unfinished: false }
    }

    /// The error for a line, counted from 1.
    pub(super) fn diagnostic(self, path: &Path, line: usize) -> Diagnostic {
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

/// The fields of a line; `None` if it is empty.
pub(super) fn fields_of(line: &[u8]) -> Result<Option<Fields<'_>>, Problem> {
    let text = std::str::from_utf8(line).map_err(|_| Problem::new("it is not UTF-8"))?;
    let text = text.trim_end();
    if text.trim_start().is_empty() {
        return Ok(None);
    }
    Fields::parse(text).map(Some).map_err(|malformed| Problem {
        message: "it is not a complete JSON object".to_owned(),
        is_unfinished: !line.ends_with(b"\n") && malformed.offset == text.len(),
    })
}

/// The parts of a samples file that are held in memory.
#[derive(Debug, Default)]
pub(super) struct Indexed {
    /// The lines of the first filter pipeline, sorted by document.
    pub(super) lines: Vec<Line>,
    /// The scores of all pipelines.
    pub(super) scores: Vec<StoredScores>,
    /// Whether any prompt is a list of chat messages.
    pub(super) is_chat: bool,
    /// The checksum of all lines.
    pub(super) checksum: LinesChecksum,
}

/// The lines of a block, with the index of the last one.
type ParsedBlock = (usize, Result<Indexed, Problem>);

impl Indexed {
    /// Reads a file.
    pub(super) fn read(path: &Path) -> Result<Self, Error> {
        let filter = first_filter(path)?;
        let (mut all, mut line) = (Self::default(), 0);
        let parse = |block: &[u8], start| parse_block(block, start, filter.as_deref());
        parse_blocks(path, parse, |(count, part): ParsedBlock| {
            line += count;
            let mut part = part.map_err(|problem| problem.diagnostic(path, line))?;
            all.lines.append(&mut part.lines);
            StoredScores::append(&mut all.scores, part.scores);
            all.is_chat |= part.is_chat;
            all.checksum.append(part.checksum);
            Ok(())
        })?;
        let order = |line: &Line| (line.document, line.offset);
        if !all.lines.is_sorted_by_key(order) {
            all.lines.sort_unstable_by_key(order);
        }
        all.scores.iter_mut().for_each(StoredScores::sort);
        Ok(all)
    }
}

/// The pipeline of the first line that is not empty.
fn first_filter(path: &Path) -> Result<Option<String>, Error> {
    use std::io::{BufRead as _, BufReader};
    let unreadable = |error| crate::read::unreadable(path, error);
    let mut reader = BufReader::new(fs_err::File::open(path).map_err(unreadable)?);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line).map_err(unreadable)? > 0 {
        if !line.trim_ascii().is_empty() {
            break;
        }
        line.clear();
    }
    let fields = fields_of(&line).ok().flatten();
    Ok(fields.and_then(|fields| fields.text("filter").map(std::borrow::Cow::into_owned)))
}

fn parse_block(block: &[u8], start: u64, filter: Option<&str>) -> ParsedBlock {
    let mut part = Indexed::default();
    let mut names = MetricNames::default();
    let mut count = 0;
    for (offset, bytes) in lines(block, start) {
        count += 1;
        let added = fields_of(bytes).and_then(|fields| {
            let Some(fields) = fields else { return Ok(()) };
            part.checksum.add(bytes);
            StoredScores::add(&mut part.scores, &fields, offset, &mut names);
            if fields.text("filter").as_deref() == filter {
                part.is_chat = part.is_chat || has_messages(fields.raw("arguments").unwrap_or_default());
                part.lines.push(line_of(bytes, offset, &fields)?);
            }
            Ok(())
        });
        if let Err(problem) = added {
            return (count, Err(problem));
        }
    }
    (count, Ok(part))
}

fn line_of(line: &[u8], offset: u64, fields: &Fields<'_>) -> Result<Line, Problem> {
    let document = fields.raw("doc_id").and_then(|raw| raw.parse().ok());
    let document = document.ok_or_else(|| Problem::new("it has no `doc_id`"))?;
    let range = |name: &str| {
        let raw = fields.raw(name).ok_or_else(|| Problem::new(format!("it has no `{name}`")))?;
        let start = raw.as_ptr().addr() - line.as_ptr().addr();
        match (u32::try_from(start), u32::try_from(start + raw.len())) {
            (Ok(start), Ok(end)) => Ok([start, end - start]),
            _ => Err(Problem::new("it is too long")),
        }
    };
    let responses = range("resps")?;
    let optional = |name: &str| if fields.raw(name).is_some() { range(name) } else { Ok([0, 0]) };
    let (finishes, reasoning) = (optional("finish_reasons")?, optional("reasoning")?);
    Ok(Line { document, offset, arguments: range("arguments")?, responses, finishes, reasoning })
}

/// Whether a request in raw `arguments` is a list of chat messages.
fn has_messages(arguments: &str) -> bool {
    // Messages have a `role`, which may be escaped; most prompts have neither and need not be decoded.
    let bytes = arguments.as_bytes();
    if memmem::find(bytes, b"role").is_none() && memmem::find(bytes, b"\\u").is_none() {
        return false;
    }
    stored_requests(arguments).is_ok_and(|requests| {
        requests.iter().flatten().any(|(content, _): &(RequestContent, _)| content.is_chat())
    })
}

/// A request with its generation settings.
pub(super) type Stored = (RequestContent, Option<std::sync::Arc<lmeval_pycompat::Dict>>);

/// The requests in raw `arguments`, in order, each as all types that it may have; or what is wrong with them.
pub(super) fn stored_requests(arguments: &str) -> Result<Vec<Vec<Stored>>, String> {
    let arguments = json::loads(arguments).ok();
    let requests = recorded_arguments(arguments.as_ref())?;
    let of_request = |arguments: &Vec<_>| {
        let types = recorded_types(arguments)?.iter();
        types.map(|kind| RequestContent::of_arguments(*kind, arguments)).collect()
    };
    requests.iter().map(of_request).collect()
}

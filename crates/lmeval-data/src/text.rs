//! Text files: one row per line, paragraph or file, in the column `text`.

use std::sync::Arc;

use lmeval_pycompat::{Dict, Value};

use crate::error::Error;
use crate::file::DataFile;
use crate::source::{Opened, Source};
use crate::types::{Schema, Type};

/// The unit that becomes a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SampleBy {
    Line,
    Paragraph,
    Document,
}

/// Options of the text loader.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TextOptions {
    pub(crate) sample_by: SampleBy,
    pub(crate) keep_line_breaks: bool,
}

impl TextOptions {
    /// The names of all options.
    pub(crate) const NAMES: [&str; 3] = ["sample_by", "keep_linebreaks", "encoding"];

    /// Parses the options.
    pub(crate) fn new(kwargs: &Dict) -> Result<Self, Error> {
        let sample_by = match kwargs.get_str("sample_by").map(Value::as_str) {
            None | Some(Some("line")) => SampleBy::Line,
            Some(Some("paragraph")) => SampleBy::Paragraph,
            Some(Some("document")) => SampleBy::Document,
            Some(_) => {
                return Err(Error::option("text", "sample_by", "expected `line`, `paragraph` or `document`"));
            }
        };
        let keep_line_breaks = kwargs.get_str("keep_linebreaks").is_some_and(Value::is_truthy);
        match kwargs.get_str("encoding").map(Value::as_str) {
            None => {}
            Some(Some(name)) if crate::csv::is_utf8(name) => {}
            Some(_) => {
                return Err(Error::option("text", "encoding", "only UTF-8 is supported; convert the file"));
            }
        }
        Ok(Self { sample_by, keep_line_breaks })
    }
}

#[derive(Debug)]
struct TextFile {
    file: DataFile,
    spans: Vec<(u64, u32)>,
    options: TextOptions,
}

pub(crate) fn open(file: DataFile, options: TextOptions) -> Result<Opened, Error> {
    let mut spans = Vec::new();
    let mut lines = Lines { file: &file, block: Vec::new(), start: 0, at: 0 };
    let mut paragraph: Option<(u64, u64)> = None;
    while let Some(line) = lines.next()? {
        check_text(&file, line.offset, &lines.block[line.from..line.to])?;
        let (start, end) = (line.offset, line.offset + (line.to - line.from) as u64);
        match options.sample_by {
            SampleBy::Line => spans.push((start, end)),
            SampleBy::Document => {}
            // A paragraph ends at the first empty line; a second empty line starts the next paragraph.
            SampleBy::Paragraph => match (&mut paragraph, line.to == line.from) {
                (Some((from, to)), true) => {
                    spans.push((*from, *to));
                    paragraph = None;
                }
                (Some((_, to)), false) => *to = end,
                (None, empty) => paragraph = Some((start, if empty { start } else { end })),
            },
        }
        if options.sample_by == SampleBy::Paragraph
            && let Some((_, to)) = &mut paragraph
            && lines.at_end()?
        {
            *to = file.len();
        }
    }
    spans.extend(paragraph);
    match options.sample_by {
        SampleBy::Document => spans.push((0, file.len())),
        SampleBy::Paragraph => spans.retain(|(from, to)| from < to),
        SampleBy::Line => {}
    }
    let short = |(from, to): (u64, u64)| match u32::try_from(to - from) {
        Ok(length) => Ok((from, length)),
        Err(_) => Err(Error::syntax(file.name(), file.line_of(from)?, "the row is too long")),
    };
    let spans = spans.into_iter().map(short).collect::<Result<Vec<_>, _>>()?;
    let schema = Schema::new(vec![("text".into(), Type::Str)]);
    let source = Arc::new(TextFile { file, spans, options });
    Ok(Opened { schemas: vec![Arc::new(schema)], source })
}

fn check_text(file: &DataFile, offset: u64, bytes: &[u8]) -> Result<(), Error> {
    match std::str::from_utf8(bytes) {
        Ok(_) => Ok(()),
        Err(_) => Err(Error::syntax(file.name(), file.line_of(offset)?, "invalid UTF-8")),
    }
}

/// Iterates over lines ended by `
/// `, `\r` or `\r
/// `.
struct Lines<'f> {
    file: &'f DataFile,
    block: Vec<u8>,
    start: u64,
    at: usize,
}

/// A line without its end: its offsets in the file and in the block.
struct Line {
    offset: u64,
    from: usize,
    to: usize,
}

impl Lines<'_> {
    fn more(&mut self) -> Result<bool, Error> {
        self.block.drain(..self.at);
        self.start += self.at as u64;
        self.at = 0;
        let block = self.file.read_at(self.start + self.block.len() as u64, 1 << 20)?;
        self.block.extend_from_slice(&block);
        Ok(!block.is_empty())
    }

    fn at_end(&mut self) -> Result<bool, Error> {
        Ok(self.at == self.block.len() && !self.more()?)
    }

    fn next(&mut self) -> Result<Option<Line>, Error> {
        if self.at_end()? {
            return Ok(None);
        }
        let mut searched = 0;
        let end = loop {
            match memchr::memchr2(b'\n', b'\r', &self.block[self.at + searched..]) {
                // A `\r` at the end of the block may be the first half of `\r
                // `.
                Some(found) if self.at + searched + found + 1 < self.block.len() => break searched + found,
                found => {
                    searched = found.map_or(self.block.len() - self.at, |found| searched + found);
                    if !self.more()? {
                        break searched;
                    }
                }
            }
        };
        let (from, to) = (self.at, self.at + end);
        let ending = match self.block.get(to..) {
            Some([b'\r', b'\n', ..]) => 2,
            Some([_, ..]) => 1,
            _ => 0,
        };
        self.at = to + ending;
        Ok(Some(Line { offset: self.start + from as u64, from, to }))
    }
}

impl Source for TextFile {
    fn len(&self) -> u64 {
        self.spans.len() as u64
    }

    fn row(&self, index: u64, target: &Schema) -> Result<Dict, Error> {
        let (offset, length) = self.spans[index as usize];
        let bytes = self.file.read_at(offset, length as usize)?;
        let mut text = String::from_utf8_lossy(&bytes).into_owned();
        if self.options.sample_by == SampleBy::Line {
            let ended = offset + u64::from(length) < self.file.len();
            if self.options.keep_line_breaks && ended {
                text.push('\n');
            }
        } else if text.contains('\r') {
            text = text.replace("\r\n", "\n").replace('\r', "\n");
        }
        let row = [(Value::str("text"), Value::from(text))].into_iter().collect();
        let plain = Schema::new(vec![("text".into(), Type::Str)]);
        target.convert(row, &plain).map_err(|(_, message)| Error::syntax(self.file.name(), 0, message))
    }
}

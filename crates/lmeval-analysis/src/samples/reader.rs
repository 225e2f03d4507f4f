//! Reading a samples file sample by sample.

use std::io::{BufRead as _, BufReader, Seek as _, SeekFrom};

use fs_err as fs;
use lmeval_core::Diagnostic;
use lmeval_scoring::results::LinesChecksum;

use super::outcome::OutcomeRule;
use super::sample::Sample;
use crate::Error;
use crate::read::{Fields, Run, SamplesFile, Wrong};

/// Streams the samples of one file, and reads single ones by their offset.
///
/// At most one line is in memory. A last line that ends in the middle of a sample is not an error, because the file may still be
/// written; see [`SampleReader::incomplete`].
#[derive(Debug)]
pub struct SampleReader {
    file: SamplesFile,
    rule: OutcomeRule,
    input: BufReader<fs::File>,
    /// The current line.
    buffer: Vec<u8>,
    /// The offset of the next line.
    offset: u64,
    /// The number of the current line, counted from 1.
    line: usize,
    incomplete: Option<Error>,
    /// The checksum of the lines read so far, and whether those are all.
    checksum: (LinesChecksum, bool),
}

impl SampleReader {
    /// Opens the samples of a task. `metric` decides what is right and wrong; without it the first metric of a sample does that
    /// is a number of which more is better.
    pub fn open(run: &Run, file: &SamplesFile, metric: Option<&str>) -> Result<Self, Error> {
        let input = fs::File::open(&file.path).map_err(|error| unreadable(file, error))?;
        Ok(Self {
            file: file.clone(),
            rule: OutcomeRule::new(run, &file.task, metric),
            input: BufReader::with_capacity(1 << 18, input),
            buffer: Vec::new(),
            offset: 0,
            line: 0,
            incomplete: None,
            checksum: (LinesChecksum::default(), false),
        })
    }

    /// The file that is read.
    pub fn file(&self) -> &SamplesFile {
        &self.file
    }

    /// The next sample; `None` at the end of the file.
    pub fn read_next(&mut self) -> Result<Option<Sample<'_>>, Error> {
        let start = loop {
            let start = self.offset;
            if !self.read_line()? {
                self.checksum.1 = true;
                return Ok(None);
            }
            self.checksum.0.add(&self.buffer);
            if !self.buffer.trim_ascii().is_empty() {
                break start;
            }
        };
        if !self.buffer.ends_with(b"\n") && ends_early(self.buffer.trim_ascii()) {
            let wrong = Wrong::Malformed { at_end: true, offset: 0 };
            self.incomplete = Some(wrong.diagnostic(&self.file.path, self.line).into());
            self.checksum.1 = true;
            return Ok(None);
        }
        self.sample(start, Some(self.line)).map(Some)
    }

    /// The sample whose line starts at an offset. Reading continues after it.
    pub fn read_at(&mut self, offset: u64) -> Result<Sample<'_>, Error> {
        if offset != self.offset {
            let file = &self.file;
            // Seeking within the buffer keeps it.
            let distance = offset.cast_signed().wrapping_sub(self.offset.cast_signed());
            self.input.seek_relative(distance).map_err(|error| unreadable(file, error))?;
            self.offset = offset;
        }
        if !self.read_line()? {
            let path = self.file.path.display();
            return Err(Diagnostic::new(format!("`{path}` ends before byte {offset}"))
                .hint("The file changed while it was read")
                .into());
        }
        self.sample(offset, None)
    }

    /// Starts over at the first sample.
    pub fn rewind(&mut self) -> Result<(), Error> {
        let file = &self.file;
        self.input.seek(SeekFrom::Start(0)).map_err(|error| unreadable(file, error))?;
        (self.offset, self.line, self.incomplete) = (0, 0, None);
        self.checksum = (LinesChecksum::default(), false);
        Ok(())
    }

    /// The checksum of all lines; `None` before the end of the file was reached.
    pub fn checksum(&self) -> Option<LinesChecksum> {
        Some(self.checksum.0).filter(|_| self.checksum.1)
    }

    /// Why the last line was left out: it ends in the middle of a sample. `None` before the end of the file was reached.
    pub fn incomplete(&self) -> Option<&Error> {
        self.incomplete.as_ref()
    }

    /// Reads the next line into the buffer.
    fn read_line(&mut self) -> Result<bool, Error> {
        const MOST_KEPT: usize = 1 << 20;
        self.buffer.clear();
        // One huge line must not keep its memory for all others.
        self.buffer.shrink_to(MOST_KEPT);
        let file = &self.file;
        let length =
            self.input.read_until(b'\n', &mut self.buffer).map_err(|error| unreadable(file, error))?;
        self.offset += length as u64;
        self.line += 1;
        Ok(length > 0)
    }

    fn sample(&self, offset: u64, line: Option<usize>) -> Result<Sample<'_>, Error> {
        let wrong = |wrong: Wrong| -> Error {
            match line {
                Some(line) => wrong.diagnostic(&self.file.path, line),
                None => wrong.diagnostic_at(&format!("line at byte {offset}"), &self.file.path),
            }
            .into()
        };
        let text = std::str::from_utf8(self.buffer.trim_ascii()).map_err(|_| wrong(Wrong::NotText))?;
        let fields = Fields::parse(text)
            .map_err(|malformed| wrong(Wrong::Malformed { at_end: false, offset: malformed.offset }))?;
        if fields.raw("doc_id").is_none() && fields.raw("doc_hash").is_none() {
            return Err(wrong(Wrong::NoIdentity));
        }
        Ok(Sample::new(&self.file, &self.rule, offset, text, fields))
    }
}

/// Whether a line ends in the middle of a sample or of a character.
fn ends_early(line: &[u8]) -> bool {
    match std::str::from_utf8(line) {
        Err(error) => error.error_len().is_none(),
        Ok(text) => Fields::parse(text).is_err_and(|malformed| malformed.offset == text.len()),
    }
}

fn unreadable(file: &SamplesFile, error: std::io::Error) -> Diagnostic {
    Diagnostic::cannot_read(&file.path, error)
}

//! Literal and folded block scalars (YAML 1.1, sections 9.2 and 9.3).
//!
//! The header determines how lines are joined (`|` or `>`), whether trailing line breaks are stripped (`-`) or kept
//! (`+`), and optionally how many spaces of the first line are indentation. The content is every line indented at least
//! that far; the first line with less ends the scalar.

use super::Reader;
use super::cursor::is_white;
use crate::yaml::{Error, ErrorKind};

/// The treatment of trailing line breaks (section 9.2.3).
enum Chomping {
    Strip,
    Clip,
    Keep,
}

impl Reader<'_, '_> {
    /// Reads a block scalar; returns its content and the offset where its last line ends.
    pub(super) fn block_scalar(&mut self, parent: i32) -> Result<(String, usize), Error> {
        let start = self.at.position();
        let is_folded = self.at.byte() == b'>';
        self.at.skip(1);
        let (chomping, indicator) = self.block_header()?;
        let mut text = String::new();
        // The line breaks since the last line with content: the one that ended it, and those of empty lines.
        let mut line_break = None;
        let mut empty_lines = String::new();
        let indent = match indicator {
            Some(indicator) => parent.max(0) as u32 + indicator,
            None => self.detect_indent(parent, &mut empty_lines)?,
        };
        self.skip_empty_lines(indent, &mut empty_lines)?;
        // Lines that start with whitespace keep the breaks around them.
        let mut was_spaced = false;
        let mut end = self.at.offset;
        while self.at.column == indent && !self.at.is_end() {
            let is_spaced = is_white(self.at.byte());
            if is_folded && line_break == Some("\n") && !was_spaced && !is_spaced {
                if empty_lines.is_empty() {
                    text.push(' ');
                }
            } else {
                text.push_str(line_break.unwrap_or_default());
            }
            text.push_str(&empty_lines);
            empty_lines.clear();
            was_spaced = is_spaced;
            end = self.at.line_end();
            text.push_str(&self.at.text[self.at.offset..end]);
            self.at.move_to(end);
            line_break = self.at.take_break();
            self.skip_empty_lines(indent, &mut empty_lines)?;
        }
        if !matches!(chomping, Chomping::Strip) {
            text.push_str(line_break.unwrap_or_default());
        }
        if matches!(chomping, Chomping::Keep) {
            text.push_str(&empty_lines);
        }
        self.fresh = true;
        Ok((text, start.offset + self.at.text[start.offset..end].trim_end().len()))
    }

    /// Reads the rest of the header line: the indicators after `|` or `>`, in either order.
    fn block_header(&mut self) -> Result<(Chomping, Option<u32>), Error> {
        let mut chomping = None;
        let mut indent = None;
        loop {
            match self.at.byte() {
                b'-' if chomping.is_none() => chomping = Some(Chomping::Strip),
                b'+' if chomping.is_none() => chomping = Some(Chomping::Keep),
                digit @ b'1'..=b'9' if indent.is_none() => indent = Some(u32::from(digit - b'0')),
                _ => break,
            }
            self.at.skip(1);
        }
        self.at.skip_white();
        if self.at.byte() == b'#' {
            self.at.move_to(self.at.line_end());
        }
        if self.at.take_break().is_none() && !self.at.is_end() {
            let message = "expected `-`, `+`, a digit from 1 to 9 or the end of the line after `|` or `>`";
            return Err(Error::new(ErrorKind::Scanner, message, self.at.position()));
        }
        Ok((chomping.unwrap_or(Chomping::Clip), indent))
    }

    /// The indentation of the first line with content, or of the longest empty line before it if that is deeper.
    fn detect_indent(&mut self, parent: i32, empty_lines: &mut String) -> Result<u32, Error> {
        let mut indent = (parent + 1).max(1) as u32;
        loop {
            self.at.skip_spaces();
            indent = indent.max(self.at.column);
            if self.at.byte() == b'\t' {
                return Err(self.unexpected("text"));
            }
            match self.at.take_break() {
                Some(found) => empty_lines.push_str(found),
                None => return Ok(indent),
            }
        }
    }

    /// Skips empty lines and the indentation of the next one.
    fn skip_empty_lines(&mut self, indent: u32, empty_lines: &mut String) -> Result<(), Error> {
        loop {
            while self.at.column < indent && self.at.byte() == b' ' {
                self.at.skip(1);
            }
            if self.at.column < indent && self.at.byte() == b'\t' {
                return Err(self.unexpected("text"));
            }
            match self.at.take_break() {
                Some(found) => empty_lines.push_str(found),
                None => return Ok(()),
            }
        }
    }
}

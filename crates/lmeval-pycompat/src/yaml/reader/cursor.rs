//! A position in the source, and tests of the characters there (YAML 1.1, sections 5.3 to 5.5 and 7.2).
//!
//! The cursor always knows its line and column: it moves either over characters without a line break, which adds to the
//! column, or over a single line break, which starts a line. It never has to look back to find the start of a line, so
//! long lines cost nothing extra. A NUL byte marks the end of the source; it cannot occur inside, because
//! [`check`](crate::yaml::read::check) rejects control characters first.

use crate::yaml::Position;

/// Returned by [`Cursor::byte`] at the end of the source.
pub(super) const END: u8 = 0;

#[derive(Clone)]
pub(super) struct Cursor<'a> {
    pub(super) text: &'a str,
    pub(super) offset: usize,
    pub(super) line: u32,
    pub(super) column: u32,
}

impl<'a> Cursor<'a> {
    /// A cursor at the start of a source, after a byte order mark.
    pub(super) fn new(text: &'a str) -> Self {
        let offset = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
        Self { text, offset, line: 0, column: 0 }
    }

    pub(super) fn position(&self) -> Position {
        Position { line: self.line, column: self.column, offset: self.offset }
    }

    /// The byte at the cursor.
    pub(super) fn byte(&self) -> u8 {
        self.byte_at(self.offset)
    }

    pub(super) fn byte_at(&self, offset: usize) -> u8 {
        self.text.as_bytes().get(offset).copied().unwrap_or(END)
    }

    pub(super) fn is_end(&self) -> bool {
        self.offset >= self.text.len()
    }

    /// Moves forward to an offset with no line break on the way.
    pub(super) fn move_to(&mut self, offset: usize) {
        let bytes = &self.text.as_bytes()[self.offset..offset];
        self.column += bytes.iter().filter(|byte| !is_continuation(**byte)).count() as u32;
        self.offset = offset;
    }

    /// Skips ASCII characters.
    pub(super) fn skip(&mut self, count: usize) {
        self.offset += count;
        self.column += count as u32;
    }

    pub(super) fn skip_spaces(&mut self) {
        while self.byte() == b' ' {
            self.skip(1);
        }
    }

    pub(super) fn skip_white(&mut self) {
        while is_white(self.byte()) {
            self.skip(1);
        }
    }

    /// The length of the line break at an offset, and its normalised form (section 5.4).
    pub(super) fn break_at(&self, offset: usize) -> Option<(usize, &'static str)> {
        match self.byte_at(offset) {
            b'\n' => Some((1, "\n")),
            b'\r' if self.byte_at(offset + 1) == b'\n' => Some((2, "\n")),
            b'\r' => Some((1, "\n")),
            // U+0085
            0xC2 if self.byte_at(offset + 1) == 0x85 => Some((2, "\n")),
            0xE2 if self.byte_at(offset + 1) == 0x80 => match self.byte_at(offset + 2) {
                0xA8 => Some((3, "\u{2028}")),
                0xA9 => Some((3, "\u{2029}")),
                _ => None,
            },
            _ => None,
        }
    }

    /// Skips a line break and returns its normalised form.
    pub(super) fn take_break(&mut self) -> Option<&'static str> {
        let (length, text) = self.break_at(self.offset)?;
        self.offset += length;
        self.line += 1;
        self.column = 0;
        Some(text)
    }

    /// The offset of the next line break or of the end of the source.
    pub(super) fn line_end(&self) -> usize {
        let bytes = &self.text.as_bytes()[self.offset..];
        let mut from = 0;
        while let Some(found) = bytes[from..].iter().position(|byte| may_break(*byte)) {
            from += found;
            if self.break_at(self.offset + from).is_some() {
                return self.offset + from;
            }
            from += 1;
        }
        self.text.len()
    }

    /// Whether there is a space, a tab, a line break or the end of the source at an offset.
    pub(super) fn is_whitespace_at(&self, offset: usize) -> bool {
        let byte = self.byte_at(offset);
        is_white(byte) || (byte == END && offset >= self.text.len()) || self.break_at(offset).is_some()
    }

    /// Whether the cursor is at this indicator, followed by whitespace.
    pub(super) fn is_indicator(&self, byte: u8) -> bool {
        self.byte() == byte && self.is_whitespace_at(self.offset + 1)
    }

    /// Whether a line starts here with `---` or `...`, followed by whitespace (section 7.2).
    pub(super) fn is_marker(&self) -> bool {
        self.column == 0 && (self.is_marker_of("---") || self.is_marker_of("..."))
    }

    pub(super) fn is_marker_of(&self, marker: &str) -> bool {
        self.column == 0
            && self.text.as_bytes()[self.offset..].starts_with(marker.as_bytes())
            && self.is_whitespace_at(self.offset + marker.len())
    }

    /// Whether the indentation of this line contains a tab.
    pub(super) fn is_indented_by_tab(&self) -> bool {
        let before = &self.text[..self.offset];
        let line = before.rfind(is_break).map_or(before, |end| &before[end..]);
        line.trim_start_matches(is_break).trim_start_matches(' ').starts_with('\t')
    }
}

pub(super) fn is_white(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// Whether a line break may start with this byte.
pub(super) fn may_break(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r' | 0xC2 | 0xE2)
}

fn is_break(character: char) -> bool {
    matches!(character, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Whether a byte continues a UTF-8 sequence.
fn is_continuation(byte: u8) -> bool {
    byte & 0xC0 == 0x80
}

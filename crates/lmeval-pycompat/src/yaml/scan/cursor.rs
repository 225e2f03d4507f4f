//! A place in the text, with look-ahead and the counting of lines and columns.

use super::super::Position;

/// A reading position. The end of the text reads as a zero byte, which the text itself cannot hold.
#[derive(Clone, Debug)]
pub(super) struct Cursor<'a> {
    text: &'a str,
    position: Position,
    index: usize,
}

impl<'a> Cursor<'a> {
    /// Starts at the beginning, behind a byte order mark.
    pub(super) fn new(text: &'a str) -> Self {
        let offset = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
        Self { text, position: Position { line: 0, column: 0, offset }, index: 0 }
    }

    pub(super) fn position(&self) -> Position {
        self.position
    }

    /// The number of characters read so far.
    pub(super) fn index(&self) -> usize {
        self.index
    }

    pub(super) fn column(&self) -> i64 {
        i64::from(self.position.column)
    }

    pub(super) fn offset(&self) -> usize {
        self.position.offset
    }

    /// The text from an earlier offset up to another.
    pub(super) fn slice(&self, start: usize, end: usize) -> &'a str {
        &self.text[start..end]
    }

    /// Whether the first character of this line that is no blank is a tab.
    pub(super) fn line_begins_with_tab(&self) -> bool {
        let read = &self.text[..self.position.offset];
        let line = read.rsplit(['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}']).next();
        line.is_some_and(|line| line.trim_start_matches(' ').starts_with('\t'))
    }

    /// The bytes that have not been read.
    pub(super) fn rest(&self) -> &'a [u8] {
        &self.text.as_bytes()[self.position.offset..]
    }

    pub(super) fn byte(&self, ahead: usize) -> u8 {
        self.text.as_bytes().get(self.position.offset + ahead).copied().unwrap_or(0)
    }

    pub(super) fn is_end(&self) -> bool {
        self.position.offset >= self.text.len()
    }

    /// The length in bytes of the line break at a distance, zero where there is none.
    pub(super) fn break_width(&self, ahead: usize) -> usize {
        match self.byte(ahead) {
            b'\r' if self.byte(ahead + 1) == b'\n' => 2,
            b'\n' | b'\r' => 1,
            0xC2 if self.byte(ahead + 1) == 0x85 => 2,
            0xE2 if self.byte(ahead + 1) == 0x80 && matches!(self.byte(ahead + 2), 0xA8 | 0xA9) => 3,
            _ => 0,
        }
    }

    pub(super) fn is_break(&self) -> bool {
        self.break_width(0) != 0
    }

    pub(super) fn is_blank(&self) -> bool {
        matches!(self.byte(0), b' ' | b'\t')
    }

    pub(super) fn is_break_or_end(&self) -> bool {
        self.is_end() || self.is_break()
    }

    /// Whether a blank, a line break or the end of the text is at a distance.
    pub(super) fn is_space_or_end(&self, ahead: usize) -> bool {
        match self.byte(ahead) {
            b' ' | b'\t' | b'\n' | b'\r' | 0 => true,
            byte if byte < 0x80 => false,
            _ => self.break_width(ahead) != 0,
        }
    }

    /// Whether `---` or `...` stands alone at the start of a line here.
    pub(super) fn is_document_indicator(&self) -> bool {
        self.position.column == 0
            && (self.rest().starts_with(b"---") || self.rest().starts_with(b"..."))
            && self.is_space_or_end(3)
    }

    /// Skips characters of one byte each.
    pub(super) fn skip_ascii(&mut self, count: usize) {
        self.position.offset += count;
        self.position.column += count as u32;
        self.index += count;
    }

    /// Skips the bytes of one character or more, none of them a line break.
    pub(super) fn skip_bytes(&mut self, count: usize) {
        let start = self.position.offset;
        let bytes = &self.text.as_bytes()[start..start + count];
        let characters = bytes.iter().filter(|byte| (**byte as i8) >= -0x40).count();
        self.position.offset += count;
        self.position.column += characters as u32;
        self.index += characters;
    }

    /// Skips one character that is not a line break.
    pub(super) fn skip_character(&mut self) {
        let width = match self.byte(0) {
            0..=0x7F => 1,
            0x80..=0xDF => 2,
            0xE0..=0xEF => 3,
            _ => 4,
        };
        self.skip_bytes(width.min(self.text.len() - self.position.offset));
    }

    /// Skips blanks.
    pub(super) fn skip_blanks(&mut self) {
        while self.is_blank() {
            self.skip_ascii(1);
        }
    }

    /// Skips up to a line break or the end.
    pub(super) fn skip_line_rest(&mut self) {
        let start = self.position.offset;
        let mut end = start;
        while end < self.text.len() && self.break_width(end - start) == 0 {
            end += 1;
        }
        self.skip_bytes(end - start);
    }

    /// Skips a line break and returns what it means: the two Unicode separators stand for themselves.
    pub(super) fn take_break(&mut self) -> &'static str {
        let width = self.break_width(0);
        let meaning = match (width, self.byte(2)) {
            (3, 0xA8) => "\u{2028}",
            (3, _) => "\u{2029}",
            _ => "\n",
        };
        self.index += if self.byte(0) == b'\r' { width } else { 1 };
        self.position.offset += width;
        self.position.line += 1;
        self.position.column = 0;
        meaning
    }

    /// Moves to the start of a next line that the text does not have.
    pub(super) fn force_line(&mut self) {
        if self.position.column != 0 {
            self.position.column = 0;
            self.position.line += 1;
        }
    }
}

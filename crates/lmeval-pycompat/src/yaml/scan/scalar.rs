//! Block, quoted and plain scalars.

use std::borrow::Cow;

use super::{Error, Position, Scanner, Style, TAB_INDENT, TokenKind};

/// What a block scalar does with the line breaks at its end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Chomping {
    Strip,
    Clip,
    Keep,
}

/// Line breaks between two pieces of text: one alone folds to a blank, further ones stay.
#[derive(Default)]
struct Fold {
    leading: Option<&'static str>,
    trailing: String,
}

impl Fold {
    fn add(&mut self, text: &'static str) {
        if self.leading.is_none() {
            self.leading = Some(text);
        } else {
            self.trailing.push_str(text);
        }
    }

    /// Writes the folded breaks and forgets them. `leading` is missing after an escaped line break.
    fn write(&mut self, target: &mut String) {
        match self.leading.take() {
            Some("\n") if self.trailing.is_empty() => target.push(' '),
            Some("\n") | None => target.push_str(&self.trailing),
            Some(separator) => {
                target.push_str(separator);
                target.push_str(&self.trailing);
            }
        }
        self.trailing.clear();
    }
}

impl<'a> Scanner<'a> {
    fn push_scalar(&mut self, text: Cow<'a, str>, style: Style, start: Position, end: Position) {
        self.push(TokenKind::Scalar { text, style }, start);
        if let Some(token) = self.tokens.back_mut() {
            token.end = end;
        }
    }

    pub(super) fn scan_block_scalar(&mut self, literal: bool) -> Result<(), Error> {
        const CONTEXT: &str = "in a block scalar";
        let start = self.cursor.position();
        self.cursor.skip_ascii(1);
        let (chomping, increment) = self.scan_block_header(start)?;
        self.cursor.skip_blanks();
        if self.cursor.byte(0) == b'#' {
            self.cursor.skip_line_rest();
        }
        if !self.cursor.is_break_or_end() {
            return self.error(CONTEXT, start, "only a comment may follow on this line");
        }
        if self.cursor.is_break() {
            self.cursor.take_break();
        }

        let mut indent = increment.map(|columns| self.indent.max(0) + columns);
        let mut text = String::new();
        let mut leading = "";
        let mut trailing = String::new();
        let mut after_blank = false;
        let (mut column, mut end) = self.scan_block_breaks(&mut indent, &mut trailing, start)?;
        while self.cursor.column() == column && !self.cursor.is_end() {
            let blank = self.cursor.is_blank();
            if !literal && leading == "\n" && !after_blank && !blank {
                if trailing.is_empty() {
                    text.push(' ');
                }
            } else {
                text.push_str(leading);
            }
            text.push_str(&trailing);
            trailing.clear();
            after_blank = blank;
            let offset = self.cursor.offset();
            self.cursor.skip_line_rest();
            text.push_str(self.cursor.slice(offset, self.cursor.offset()));
            leading = if self.cursor.is_end() { "" } else { self.cursor.take_break() };
            (column, end) = self.scan_block_breaks(&mut indent, &mut trailing, start)?;
        }
        if chomping != Chomping::Strip {
            text.push_str(leading);
        }
        if chomping == Chomping::Keep {
            text.push_str(&trailing);
        }
        self.push_scalar(Cow::Owned(text), Style::Block, start, end);
        Ok(())
    }

    /// The chomping indicator and the indentation indicator, in either order.
    fn scan_block_header(&mut self, start: Position) -> Result<(Chomping, Option<i64>), Error> {
        let mut chomping = None;
        let mut increment = None;
        loop {
            match self.cursor.byte(0) {
                b'+' if chomping.is_none() => chomping = Some(Chomping::Keep),
                b'-' if chomping.is_none() => chomping = Some(Chomping::Strip),
                b'0' if increment.is_none() => {
                    let message = "the indentation cannot be 0";
                    return self.error("in a block scalar", start, message);
                }
                digit @ b'1'..=b'9' if increment.is_none() => increment = Some(i64::from(digit - b'0')),
                _ => return Ok((chomping.unwrap_or(Chomping::Clip), increment)),
            }
            self.cursor.skip_ascii(1);
        }
    }

    /// Takes indentation and empty lines; the first call finds the indentation where the header gave none.
    /// Returns the indentation and the end of what was taken, less the last line's blanks.
    fn scan_block_breaks(
        &mut self,
        indent: &mut Option<i64>,
        breaks: &mut String,
        start: Position,
    ) -> Result<(i64, Position), Error> {
        let mut deepest = 0;
        let mut end = self.cursor.position();
        loop {
            let inside = |column: i64| indent.is_none_or(|indent| column < indent);
            while inside(self.cursor.column()) && self.cursor.byte(0) == b' ' {
                self.cursor.skip_ascii(1);
            }
            deepest = deepest.max(self.cursor.column());
            if inside(self.cursor.column()) && self.cursor.byte(0) == b'\t' {
                return self.error("in a block scalar", start, TAB_INDENT);
            }
            if !self.cursor.is_break() {
                break;
            }
            breaks.push_str(self.cursor.take_break());
            end = self.cursor.position();
        }
        let found = indent.unwrap_or_else(|| deepest.max(self.indent + 1).max(1));
        *indent = Some(found);
        Ok((found, end))
    }

    pub(super) fn scan_quoted_scalar(&mut self, quote: u8) -> Result<(), Error> {
        let start = self.cursor.position();
        self.cursor.skip_ascii(1);
        if let Some(length) = self.simple_quoted_length(quote) {
            let offset = self.cursor.offset();
            self.cursor.skip_bytes(length);
            self.cursor.skip_ascii(1);
            let text = self.cursor.slice(offset, offset + length);
            let end = self.cursor.position();
            self.push_scalar(Cow::Borrowed(text), Style::Quoted, start, end);
            return Ok(());
        }
        let mut text = String::new();
        loop {
            let mut fold = Fold::default();
            if self.cursor.is_document_indicator() {
                let message = "the document ends before the closing quote";
                return self.error("in a quoted scalar", start, message);
            }
            if self.cursor.is_end() {
                let message = "the closing quote is missing";
                return self.error("in a quoted scalar", start, message);
            }
            let mut new_line = self.scan_quoted_word(quote, start, &mut text)?;
            if self.cursor.byte(0) == quote {
                break;
            }
            let offset = self.cursor.offset();
            let mut blanks = offset;
            loop {
                if self.cursor.is_blank() {
                    self.cursor.skip_ascii(1);
                    if !new_line {
                        blanks = self.cursor.offset();
                    }
                } else if self.cursor.is_break() {
                    let meaning = self.cursor.take_break();
                    if new_line && fold.leading.is_none() {
                        // After an escaped line break nothing folds; further breaks are kept.
                        fold.trailing.push_str(meaning);
                    } else {
                        fold.add(meaning);
                    }
                    new_line = true;
                } else {
                    break;
                }
            }
            if new_line {
                fold.write(&mut text);
            } else {
                text.push_str(self.cursor.slice(offset, blanks));
            }
        }
        self.cursor.skip_ascii(1);
        let end = self.cursor.position();
        self.push_scalar(Cow::Owned(text), Style::Quoted, start, end);
        Ok(())
    }

    /// The length of a quoted scalar that stands for itself: one line, nothing escaped.
    fn simple_quoted_length(&self, quote: u8) -> Option<usize> {
        let rest = self.cursor.rest();
        let length = memchr::memchr(quote, rest)?;
        let body = &rest[..length];
        let escaped =
            if quote == b'"' { body.contains(&b'\\') } else { rest.get(length + 1) == Some(&quote) };
        let breaks = |(at, byte): (usize, &u8)| {
            matches!(byte, b'\n' | b'\r' | 0xC2 | 0xE2) && self.cursor.break_width(at) != 0
        };
        (!escaped && !body.iter().enumerate().any(breaks)).then_some(length)
    }

    /// Takes what is not blank; returns whether it ended with an escaped line break.
    fn scan_quoted_word(&mut self, quote: u8, start: Position, text: &mut String) -> Result<bool, Error> {
        loop {
            let offset = self.cursor.offset();
            let mut length = 0;
            while !self.cursor.is_space_or_end(length)
                && self.cursor.byte(length) != quote
                && (self.cursor.byte(length) != b'\\' || quote == b'\'')
            {
                length += 1;
            }
            self.cursor.skip_bytes(length);
            text.push_str(self.cursor.slice(offset, offset + length));
            match self.cursor.byte(0) {
                b'\'' if quote == b'\'' && self.cursor.byte(1) == b'\'' => {
                    text.push('\'');
                    self.cursor.skip_ascii(2);
                }
                b'\\' if quote == b'"' => {
                    if self.cursor.break_width(1) != 0 {
                        self.cursor.skip_ascii(1);
                        self.cursor.take_break();
                        return Ok(true);
                    }
                    text.push(self.scan_escape(start)?);
                }
                _ => return Ok(false),
            }
        }
    }

    fn scan_escape(&mut self, start: Position) -> Result<char, Error> {
        const CONTEXT: &str = "in a quoted scalar";
        let digits = match self.cursor.byte(1) {
            b'x' => 2,
            b'u' => 4,
            b'U' => 8,
            byte => {
                let Some(character) = simple_escape(byte) else {
                    return self.error(CONTEXT, start, "no such escape");
                };
                self.cursor.skip_ascii(2);
                return Ok(character);
            }
        };
        self.cursor.skip_ascii(2);
        let mut code = 0;
        for ahead in 0..digits {
            let Some(digit) = char::from(self.cursor.byte(ahead)).to_digit(16) else {
                return self.error(CONTEXT, start, "the escape has too few hexadecimal digits");
            };
            code = code << 4 | digit;
        }
        let Some(character) = char::from_u32(code) else {
            return self.error(CONTEXT, start, "no such Unicode character");
        };
        self.cursor.skip_ascii(digits);
        Ok(character)
    }

    pub(super) fn scan_plain_scalar(&mut self) -> Result<(), Error> {
        const CONTEXT: &str = "in a plain scalar";
        let start = self.cursor.position();
        let mut end = start;
        let indent = self.indent + 1;
        // The pieces on earlier lines, folded; then the piece on this line, as offsets.
        let mut text: Cow<'a, str> = Cow::Borrowed("");
        let mut piece = (start.offset, start.offset);
        let mut fold = Fold::default();
        let mut new_line = false;
        loop {
            if self.cursor.byte(0) == b'#' || self.cursor.is_document_indicator() {
                break;
            }
            let length = self.plain_word_length(start)?;
            if length != 0 {
                let offset = self.cursor.offset();
                if new_line {
                    let target = text.to_mut();
                    target.push_str(self.cursor.slice(piece.0, piece.1));
                    fold.write(target);
                    piece.0 = offset;
                    new_line = false;
                }
                self.cursor.skip_bytes(length);
                piece.1 = offset + length;
                end = self.cursor.position();
            }
            if !self.cursor.is_blank() && !self.cursor.is_break() {
                break;
            }
            loop {
                if self.cursor.is_blank() {
                    if new_line && self.cursor.column() < indent && self.cursor.byte(0) == b'\t' {
                        return self.error(CONTEXT, start, TAB_INDENT);
                    }
                    self.cursor.skip_ascii(1);
                } else if self.cursor.is_break() {
                    fold.add(self.cursor.take_break());
                    new_line = true;
                } else {
                    break;
                }
            }
            if !self.in_flow() && self.cursor.column() < indent {
                break;
            }
        }
        let last = self.cursor.slice(piece.0, piece.1);
        let text = if text.is_empty() { Cow::Borrowed(last) } else { text + last };
        self.push_scalar(text, Style::Plain, start, end);
        if new_line {
            self.simple_key_allowed = true;
        }
        Ok(())
    }

    /// The length in bytes of the part of a plain scalar up to a blank or an indicator.
    fn plain_word_length(&mut self, start: Position) -> Result<usize, Error> {
        let flow = self.in_flow();
        let mut length = 0;
        loop {
            match self.cursor.byte(length) {
                b':' => {
                    let next = self.cursor.byte(length + 1);
                    if flow && matches!(next, b',' | b'?' | b'[' | b']' | b'{' | b'}') {
                        self.cursor.skip_bytes(length);
                        return self.error("in a plain scalar", start, "`:` needs a blank behind it here");
                    }
                    if self.cursor.is_space_or_end(length + 1) {
                        return Ok(length);
                    }
                }
                b',' | b'[' | b']' | b'{' | b'}' if flow => return Ok(length),
                _ if self.cursor.is_space_or_end(length) => return Ok(length),
                _ => {}
            }
            length += 1;
        }
    }
}

/// The character that a backslash and one more character stand for.
fn simple_escape(byte: u8) -> Option<char> {
    Some(match byte {
        b'0' => '\0',
        b'a' => '\x07',
        b'b' => '\x08',
        b't' | b'\t' => '\t',
        b'n' => '\n',
        b'v' => '\x0B',
        b'f' => '\x0C',
        b'r' => '\r',
        b'e' => '\x1B',
        b' ' => ' ',
        b'"' => '"',
        b'/' => '/',
        b'\\' => '\\',
        b'N' => '\u{85}',
        b'_' => '\u{A0}',
        b'L' => '\u{2028}',
        b'P' => '\u{2029}',
        _ => return None,
    })
}

//! Plain and quoted scalars (YAML 1.1, section 9.1), and the folding of their lines (section 6.5).
//!
//! Whitespace around a line break is not content: the break becomes a space or, if empty lines follow, only their
//! breaks remain. Content is copied from the first break or escape on; a scalar without either is a slice of the
//! source.

use std::borrow::Cow;

use super::Reader;
use super::cursor::{END, is_white, may_break};
use super::properties::hexadecimal;
use crate::yaml::{Error, ErrorKind, Position};

/// The content of a scalar: a slice of the source until part of it has to be replaced.
struct ScalarContent<'a> {
    source: &'a str,
    /// The start of the part that has not been copied yet.
    from: usize,
    copied: Option<String>,
}

impl<'a> ScalarContent<'a> {
    /// Appends the source up to `end` and a replacement, and continues at `from`.
    fn replace(&mut self, end: usize, text: &str, from: usize) {
        let copied = self.copied.get_or_insert_default();
        copied.push_str(&self.source[self.from..end]);
        copied.push_str(text);
        self.from = from;
    }

    fn finish(self, end: usize) -> Cow<'a, str> {
        let rest = &self.source[self.from..end];
        match self.copied {
            None => Cow::Borrowed(rest),
            Some(copied) => Cow::Owned(copied + rest),
        }
    }
}

impl<'a> Reader<'a, '_> {
    /// Whether a plain scalar can start here (section 9.1.3).
    pub(super) fn is_plain_start(&self) -> bool {
        match self.at.byte() {
            END => false,
            b'-' => !self.at.is_indicator(b'-'),
            b'?' | b':' => self.flow == 0 && !self.at.is_whitespace_at(self.at.offset + 1),
            byte => !b",[]{}#&*!|>'\"%@`".contains(&byte) && !self.at.is_whitespace_at(self.at.offset),
        }
    }

    /// Reads a plain scalar; returns its content and the offset where it ends. Leaves the cursor after the scalar.
    pub(super) fn plain(&mut self, parent: i32) -> Result<(Cow<'a, str>, usize), Error> {
        let indent = (parent + 1) as u32;
        let mut text = ScalarContent { source: self.at.text, from: self.at.offset, copied: None };
        loop {
            let end = self.plain_line()?;
            let Some(folded) = self.fold(None, indent)? else {
                return Ok((text.finish(end), end));
            };
            if self.flow == 0 {
                self.fresh = true;
            }
            let ends = self.at.is_end()
                || self.at.is_marker()
                || self.at.byte() == b'#'
                || (self.flow == 0 && self.at.column < indent)
                || self.plain_ends_at(self.at.offset)?;
            if ends {
                return Ok((text.finish(end), end));
            }
            self.fresh = false;
            text.replace(end, &folded, self.at.offset);
        }
    }

    /// Skips one line of a plain scalar and the whitespace after it; returns the offset where the content ends.
    fn plain_line(&mut self) -> Result<usize, Error> {
        let mut offset = self.at.offset;
        let end = loop {
            let byte = self.at.byte_at(offset);
            if !matters_in_plain(byte) {
                offset += 1;
                continue;
            }
            if is_white(byte) {
                let end = offset;
                while is_white(self.at.byte_at(offset)) {
                    offset += 1;
                }
                if self.at.byte_at(offset) == b'#' || self.at.is_whitespace_at(offset) {
                    break end;
                }
            } else if self.at.is_whitespace_at(offset) || self.plain_ends_at(offset)? {
                // Whitespace before an indicator is not content either.
                let line = &self.at.text[self.at.offset..offset];
                break offset - (line.len() - line.trim_end_matches([' ', '\t']).len());
            } else {
                offset += 1;
            }
        };
        self.at.move_to(offset);
        Ok(end)
    }

    /// Whether the character at an offset ends a plain scalar.
    fn plain_ends_at(&self, offset: usize) -> Result<bool, Error> {
        match self.at.byte_at(offset) {
            b',' | b'[' | b']' | b'{' | b'}' => Ok(self.flow > 0),
            b':' if self.at.is_whitespace_at(offset + 1) => Ok(true),
            b':' if self.flow > 0 && b",?[]{}".contains(&self.at.byte_at(offset + 1)) => {
                let mut colon = self.at.clone();
                colon.move_to(offset);
                let message = "inside brackets a `:` needs a space after it, or the scalar needs quotes";
                Err(Error::new(ErrorKind::Scanner, message, colon.position()))
            }
            _ => Ok(false),
        }
    }

    /// Skips line breaks and the whitespace around them; returns what they fold to, `None` if there is no break.
    /// `before` is the normalised form of a break already read. A tab left of `indent` is an error.
    fn fold(
        &mut self,
        before: Option<&'static str>,
        indent: u32,
    ) -> Result<Option<Cow<'static, str>>, Error> {
        let mut first = before;
        let mut rest = String::new();
        loop {
            let byte = self.at.byte();
            if byte == b'\t' && first.is_some() && self.at.column < indent {
                return Err(self.unexpected("text"));
            }
            if is_white(byte) {
                self.at.skip(1);
                continue;
            }
            match self.at.take_break() {
                Some(found) if first.is_none() => first = Some(found),
                Some(found) => rest.push_str(found),
                None => break,
            }
        }
        Ok(match first {
            None => None,
            // U+2028 and U+2029 are not folded.
            Some("\n") if rest.is_empty() => Some(Cow::Borrowed(" ")),
            Some("\n") => Some(Cow::Owned(rest)),
            Some(kept) if rest.is_empty() => Some(Cow::Borrowed(kept)),
            Some(kept) => Some(Cow::Owned(format!("{kept}{rest}"))),
        })
    }

    /// Reads a scalar in single or double quotes (sections 9.1.1 and 9.1.2).
    pub(super) fn quoted(&mut self, quote: u8) -> Result<(Cow<'a, str>, usize), Error> {
        let start = self.at.position();
        self.at.skip(1);
        let mut text = ScalarContent { source: self.at.text, from: self.at.offset, copied: None };
        let error = |message: &str, position: Position| {
            Error::new(ErrorKind::Scanner, message, position).during("in a quoted scalar", start)
        };
        loop {
            let bytes = &self.at.text.as_bytes()[self.at.offset..];
            let matters = |byte: &u8| *byte == quote || *byte == b'\\' || may_break(*byte);
            let found = bytes.iter().position(matters).unwrap_or(bytes.len());
            self.at.move_to(self.at.offset + found);
            let here = self.at.offset;
            match self.at.byte() {
                b'\'' if self.at.byte_at(here + 1) == b'\'' && quote == b'\'' => {
                    self.at.skip(2);
                    text.replace(here + 1, "", here + 2);
                }
                byte if byte == quote => {
                    self.at.skip(1);
                    return Ok((text.finish(here), here + 1));
                }
                b'\\' if quote == b'"' => {
                    let position = self.at.position();
                    self.at.skip(1);
                    if self.at.take_break().is_some() {
                        let folded = self.fold(Some(""), 0)?.unwrap_or_default();
                        text.replace(here, &folded, self.at.offset);
                    } else {
                        let character = self.escape().ok_or_else(|| error("unknown escape", position))?;
                        text.replace(here, character.encode_utf8(&mut [0; 4]), self.at.offset);
                    }
                }
                _ if self.at.is_end() => return Err(error("expected the closing quote", self.at.position())),
                _ if self.at.break_at(here).is_some() => {
                    let line = &self.at.text[text.from..here];
                    let end = text.from + line.trim_end_matches([' ', '\t']).len();
                    let folded = self.fold(None, 0)?.unwrap_or_default();
                    text.replace(end, &folded, self.at.offset);
                }
                // A character that starts like a line break, or a backslash between single quotes.
                _ => self.at.move_to(here + self.at.text[here..].chars().next().map_or(0, char::len_utf8)),
            }
            if self.at.is_marker() {
                return Err(error("a document marker", self.at.position()));
            }
        }
    }

    /// Reads an escape after its backslash (section 5.6); `None` if it is unknown.
    fn escape(&mut self) -> Option<char> {
        let byte = self.at.byte();
        let digits = match byte {
            b'x' => 2,
            b'u' => 4,
            b'U' => 8,
            _ => 0,
        };
        let character = match byte {
            b'0' => '\0',
            b'a' => '\x07',
            b'b' => '\x08',
            b't' | b'\t' => '\t',
            b'n' => '\n',
            b'v' => '\x0B',
            b'f' => '\x0C',
            b'r' => '\r',
            b'e' => '\x1B',
            b' ' | b'"' | b'/' | b'\\' => char::from(byte),
            b'N' => '\u{85}',
            b'_' => '\u{A0}',
            b'L' => '\u{2028}',
            b'P' => '\u{2029}',
            b'x' | b'u' | b'U' => {
                let from = self.at.offset + 1;
                char::from_u32(hexadecimal(self.at.text.get(from..from + digits)?).ok()?)?
            }
            _ => return None,
        };
        self.at.skip(1 + digits);
        Some(character)
    }
}

/// Whether a plain scalar might end at this byte.
fn matters_in_plain(byte: u8) -> bool {
    const TABLE: [bool; 256] = {
        let mut table = [false; 256];
        let bytes = b"\0 \t\n\r:,[]{}\xC2\xE2";
        let mut index = 0;
        while index < bytes.len() {
            table[bytes[index] as usize] = true;
            index += 1;
        }
        table
    };
    TABLE[byte as usize]
}

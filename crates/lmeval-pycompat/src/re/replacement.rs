//! Replacement templates of `sub`: strings with `\1`, `\g<name>` and a few escapes.
//!
//! There are fewer character escapes than in patterns, an unknown escape of an ASCII letter is an error, and any other
//! escaped character keeps its backslash. See the description of `sub` in the `re` documentation.

use super::backslash::{Digits, control, digits, unknown};
use super::cursor::Cursor;
use super::error::{Error, ErrorKind};
use super::grammar::Names;
use super::name::{Label, label};
use super::problem::{Problem, quoted};

/// A part of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// A literal string.
    Text(String),
    /// The match of this group.
    Group(usize),
}

/// Parses a template for a pattern with this number of groups and these names.
pub(super) fn pieces(template: &str, groups: usize, names: &Names) -> Result<Vec<Piece>, Error> {
    let mut reader =
        Reader { cursor: Cursor::new(template), groups, names, pieces: Vec::new(), text: String::new() };
    let result = reader.read();
    reader.cursor.finish(result).map_err(Error::in_template)?;
    Ok(reader.pieces)
}

struct Reader<'t> {
    cursor: Cursor<'t>,
    groups: usize,
    names: &'t Names,
    pieces: Vec<Piece>,
    text: String,
}

impl Reader<'_> {
    fn read(&mut self) -> Result<(), Error> {
        loop {
            let plain = self.cursor.take_some(usize::MAX, |character| character != '\\');
            self.text.push_str(plain);
            if self.cursor.peek().is_none() {
                self.finish_text();
                return Ok(());
            }
            self.escape()?;
        }
    }

    fn finish_text(&mut self) {
        if !self.text.is_empty() {
            self.pieces.push(Piece::Text(std::mem::take(&mut self.text)));
        }
    }

    fn escape(&mut self) -> Result<(), Error> {
        let start = self.cursor;
        self.cursor.step();
        let letter = self.cursor.peek().unwrap_or('\\');
        if letter.is_ascii_digit() {
            match digits(&mut self.cursor, start)? {
                Digits::Character(code) => self.text.extend(char::from_u32(code)),
                Digits::Group(group) => {
                    self.group(group as u64, start.index() + 1, || group.to_string())?;
                }
            }
            return Ok(());
        }
        self.cursor.step();
        let code = if letter == 'b' { Some(0x08) } else { control(letter) };
        match letter {
            'g' => return self.named_group(),
            '\\' => self.text.push('\\'),
            _ if code.is_some() => self.text.extend(code.and_then(char::from_u32)),
            _ if letter.is_ascii_alphabetic() => return Err(unknown(self.cursor, start)),
            _ => self.text.extend(['\\', letter]),
        }
        Ok(())
    }

    fn named_group(&mut self) -> Result<(), Error> {
        if !self.cursor.take('<') {
            return Err(self.cursor.error(self.cursor.index(), Problem::NoAngleBracket));
        }
        let position = self.cursor.index();
        match label(&mut self.cursor, '>')? {
            Label::Number(number, written) => self.group(number, position, || quoted(written)),
            Label::Name(name) => match self.names.get(name) {
                Some(&group) => self.group(group as u64, position, || quoted(name)),
                None => {
                    let problem = Problem::UnknownName(quoted(name)).to_string();
                    Err(Error::new(ErrorKind::UnknownGroup, problem, None, self.cursor.source()))
                }
            },
        }
    }

    fn group(&mut self, number: u64, position: usize, written: impl FnOnce() -> String) -> Result<(), Error> {
        if number > self.groups as u64 {
            return Err(self.cursor.error(position, Problem::NoSuchGroup(written())));
        }
        self.finish_text();
        self.pieces.push(Piece::Group(number as usize));
        Ok(())
    }
}

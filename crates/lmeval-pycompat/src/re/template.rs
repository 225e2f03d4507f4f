//! Replacement templates of `re.sub`.

use super::error::{Error, ErrorKind};
use super::escape::{is_octal, simple_escape};
use super::group::{MOST_GROUPS, quote};
use super::token::{Token, Tokenizer, parse_group_number};
use super::unicode::is_identifier;

/// A piece of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// Plain text.
    Text(String),
    /// What a group matched.
    Group(usize),
}

/// Reads a template for a pattern with this many groups and these names.
pub(super) fn parse_template(
    template: &str,
    groups: usize,
    names: &[(String, usize)],
) -> Result<Vec<Piece>, Error> {
    let source = Tokenizer::new(template, ErrorKind::Template)?;
    let mut reader = Reader { source, groups, names, pieces: Vec::new(), text: String::new() };
    while let Some(token) = reader.source.get()? {
        if token.escaped {
            reader.escape(token)?;
        } else {
            reader.text.push(token.character);
        }
    }
    reader.end_text();
    Ok(reader.pieces)
}

struct Reader<'a> {
    source: Tokenizer<'a>,
    groups: usize,
    names: &'a [(String, usize)],
    pieces: Vec<Piece>,
    text: String,
}

impl Reader<'_> {
    fn end_text(&mut self) {
        if !self.text.is_empty() {
            self.pieces.push(Piece::Text(std::mem::take(&mut self.text)));
        }
    }

    fn escape(&mut self, token: Token) -> Result<(), Error> {
        let character = token.character;
        match character {
            'g' => self.group_escape(),
            '0' => {
                let mut digits = String::from("0");
                self.source.get_while(2, is_octal, &mut digits)?;
                self.push_octal(&digits);
                Ok(())
            }
            '1'..='9' => self.numeric_escape(character),
            _ => {
                match simple_escape(character).and_then(char::from_u32) {
                    Some(meant) => self.text.push(meant),
                    None if character.is_ascii_alphabetic() => {
                        return Err(self.source.error(format!("bad escape \\{character}"), 2));
                    }
                    None => self.text.push_str(&token.text()),
                }
                Ok(())
            }
        }
    }

    fn push_octal(&mut self, digits: &str) {
        let code = u32::from_str_radix(digits, 8).unwrap_or(0);
        self.text.extend(char::from_u32(code));
    }

    fn numeric_escape(&mut self, first: char) -> Result<(), Error> {
        let mut digits = String::from(first);
        self.source.get_while(1, |character| character.is_ascii_digit(), &mut digits)?;
        if digits.len() == 2 && digits.chars().all(is_octal) {
            self.source.get_while(1, is_octal, &mut digits)?;
            if digits.len() == 3 {
                if first > '3' {
                    let message = format!("octal escape value \\{digits} outside of range 0-0o377");
                    return Err(self.source.error(message, 4));
                }
                self.push_octal(&digits);
                return Ok(());
            }
        }
        self.add_group(digits.parse().unwrap_or(u64::MAX), &digits, digits.len())
    }

    fn group_escape(&mut self) -> Result<(), Error> {
        if !self.source.accept('<')? {
            return Err(self.source.error("missing <", 0));
        }
        let name = self.source.get_until('>', "group name")?;
        let offset = name.chars().count() + 1;
        if is_identifier(&name) {
            let Some(&(_, group)) = self.names.iter().find(|(known, _)| *known == name) else {
                let message = format!("unknown group name {}", quote(&name));
                return Err(Error::new(ErrorKind::UnknownGroup, message, None, self.source.source()));
            };
            return self.add_group(group as u64, "", offset);
        }
        let Some((number, digits)) = parse_group_number(&name) else {
            return Err(self.source.error(format!("bad character in group name {}", quote(&name)), offset));
        };
        if number >= MOST_GROUPS {
            return Err(self.source.error(format!("invalid group reference {digits}"), offset));
        }
        self.add_group(number, &digits, offset)
    }

    fn add_group(&mut self, number: u64, digits: &str, offset: usize) -> Result<(), Error> {
        if number > self.groups as u64 {
            return Err(self.source.error(format!("invalid group reference {digits}"), offset));
        }
        self.end_text();
        self.pieces.push(Piece::Group(number as usize));
        Ok(())
    }
}

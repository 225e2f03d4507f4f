//! Cuts patterns and replacement templates into characters and escapes.

use super::error::{Error, ErrorKind};
use super::unicode::digit_value;

/// A character, or a backslash with the character after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token {
    /// The character.
    pub(super) character: char,
    /// Whether a backslash stands before it.
    pub(super) escaped: bool,
}

impl Token {
    /// Whether the token is this bare character.
    pub(super) fn is(self, character: char) -> bool {
        !self.escaped && self.character == character
    }

    /// The bare character, if there is no backslash.
    pub(super) fn bare(self) -> Option<char> {
        (!self.escaped).then_some(self.character)
    }

    /// The length in characters.
    pub(super) fn length(self) -> usize {
        if self.escaped { 2 } else { 1 }
    }

    /// The token as written.
    pub(super) fn text(self) -> String {
        if self.escaped { format!("\\{}", self.character) } else { self.character.to_string() }
    }
}

/// A reader of tokens with one token of look-ahead.
pub(super) struct Tokenizer<'p> {
    source: &'p str,
    characters: Vec<char>,
    kind: ErrorKind,
    index: usize,
    /// The next token.
    pub(super) next: Option<Token>,
}

impl<'p> Tokenizer<'p> {
    /// Starts reading; failures will be of the given kind.
    pub(super) fn new(source: &'p str, kind: ErrorKind) -> Result<Self, Error> {
        let mut tokenizer = Self { source, characters: source.chars().collect(), kind, index: 0, next: None };
        tokenizer.advance()?;
        Ok(tokenizer)
    }

    /// The text that is read.
    pub(super) fn source(&self) -> &'p str {
        self.source
    }

    fn advance(&mut self) -> Result<(), Error> {
        let mut index = self.index;
        let Some(&first) = self.characters.get(index) else {
            self.next = None;
            return Ok(());
        };
        let mut token = Token { character: first, escaped: false };
        if first == '\\' {
            index += 1;
            let Some(&second) = self.characters.get(index) else {
                let position = self.characters.len() - 1;
                return Err(self.error_at("bad escape (end of pattern)", position));
            };
            token = Token { character: second, escaped: true };
        }
        self.index = index + 1;
        self.next = Some(token);
        Ok(())
    }

    /// Takes the next token.
    pub(super) fn get(&mut self) -> Result<Option<Token>, Error> {
        let token = self.next;
        self.advance()?;
        Ok(token)
    }

    /// Takes the next token if it is this bare character.
    pub(super) fn accept(&mut self, character: char) -> Result<bool, Error> {
        let found = self.next.is_some_and(|token| token.is(character));
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    /// Takes up to `limit` bare characters while the test holds.
    pub(super) fn get_while(
        &mut self,
        limit: usize,
        test: impl Fn(char) -> bool,
        into: &mut String,
    ) -> Result<(), Error> {
        for _ in 0..limit {
            let Some(character) = self.next.and_then(Token::bare).filter(|&character| test(character)) else {
                break;
            };
            into.push(character);
            self.advance()?;
        }
        Ok(())
    }

    /// Takes everything up to a terminator, which is taken too; `name` says what is being read.
    pub(super) fn get_until(&mut self, terminator: char, name: &str) -> Result<String, Error> {
        let mut result = String::new();
        loop {
            let token = self.get()?;
            match token {
                None if result.is_empty() => return Err(self.error(format!("missing {name}"), 0)),
                None => {
                    let length = result.chars().count();
                    return Err(self.error(format!("missing {terminator}, unterminated name"), length));
                }
                Some(token) if token.is(terminator) => {
                    if result.is_empty() {
                        return Err(self.error(format!("missing {name}"), 1));
                    }
                    return Ok(result);
                }
                Some(token) => result.push_str(&token.text()),
            }
        }
    }

    /// The position of the next token in characters.
    pub(super) fn tell(&self) -> usize {
        self.index - self.next.map_or(0, Token::length)
    }

    /// Goes back to a position that [`Tokenizer::tell`] gave.
    pub(super) fn seek(&mut self, position: usize) -> Result<(), Error> {
        self.index = position;
        self.advance()
    }

    /// An error `offset` characters before the current position.
    pub(super) fn error(&self, message: impl Into<String>, offset: usize) -> Error {
        self.error_at(message, self.tell().saturating_sub(offset))
    }

    /// An error at a position.
    pub(super) fn error_at(&self, message: impl Into<String>, position: usize) -> Error {
        Error::new(self.kind, message, Some(position), self.source)
    }
}

/// A group number read as `int()` reads it: the value, capped, and its digits.
pub(super) fn parse_group_number(text: &str) -> Option<(u64, String)> {
    /// `int()` refuses longer texts.
    const MOST_DIGITS: usize = 4300;
    let trimmed = text.trim_matches(|character: char| {
        character.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&character)
    });
    let (negative, unsigned) = match trimmed.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, trimmed.strip_prefix('+').unwrap_or(trimmed)),
    };
    let mut digits = String::new();
    let mut count = 0;
    let mut after_digit = false;
    for character in unsigned.chars() {
        if character == '_' {
            if !after_digit {
                return None;
            }
            after_digit = false;
            continue;
        }
        let digit = char::from_digit(digit_value(character.into())?, 10)?;
        count += 1;
        if digit != '0' || !digits.is_empty() {
            digits.push(digit);
        }
        after_digit = true;
    }
    if !after_digit || count > MOST_DIGITS || (negative && !digits.is_empty()) {
        return None;
    }
    if digits.is_empty() {
        digits.push('0');
    }
    Some((digits.parse().unwrap_or(u64::MAX), digits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_numbers_are_read_as_int_does() {
        assert_eq!(parse_group_number(" 1_0 ").map(|(value, _)| value), Some(10));
        assert_eq!(parse_group_number("+٣").map(|(value, _)| value), Some(3));
        assert_eq!(parse_group_number("-0").map(|(value, _)| value), Some(0));
        for bad in ["", "-1", "1__0", "_1", "1_", "a", "1 2", "+"] {
            assert_eq!(parse_group_number(bad), None, "{bad:?}");
        }
    }
}

//! Anchors and tags (YAML 1.1, sections 8.1 and 8.2).
//!
//! A tag is verbatim (`!<tag:yaml.org,2002:int>`); or a handle and a suffix (`!!int`, `!e!name`, `!function`), where
//! the handle abbreviates a prefix; or a lone `!`, which types any scalar as if it were plain.

use super::Reader;
use super::stream::is_word;
use crate::yaml::graph::{Properties, TagProperty};
use crate::yaml::number::shortened;
use crate::yaml::resolve::Tag;
use crate::yaml::{Error, ErrorKind, Position};

impl<'a> Reader<'a, '_> {
    /// Reads the anchor or tag at the cursor.
    pub(super) fn property(&mut self) -> Result<Properties<'a>, Error> {
        let start = self.at.position();
        let mut properties = Properties::default();
        if self.at.byte() == b'&' {
            let name = self.name("an anchor")?;
            self.graph.declare(name, start)?;
            properties.anchor = Some(name);
        } else {
            properties.tag = Some(self.tag(start)?);
        }
        properties.location = Some((start, self.at.offset));
        self.fresh = false;
        Ok(properties)
    }

    /// Reads the name in `&name` or `*name`.
    pub(super) fn name(&mut self, what: &str) -> Result<&'a str, Error> {
        self.at.skip(1);
        let rest = &self.at.text[self.at.offset..];
        let length = rest.find(|character| !is_word(character)).unwrap_or(rest.len());
        self.at.skip(length);
        let ends = self.at.is_whitespace_at(self.at.offset)
            || matches!(self.at.byte(), b'?' | b':' | b',' | b']' | b'}' | b'%' | b'@' | b'`');
        if length == 0 || !ends {
            let message = format!("expected a letter, a digit, `-` or `_` in the name of {what}");
            return Err(Error::new(ErrorKind::Scanner, message, self.at.position()));
        }
        Ok(&rest[..length])
    }

    fn tag(&mut self, start: Position) -> Result<TagProperty, Error> {
        let rest = &self.at.text[start.offset..];
        let name = if rest.starts_with("!<") {
            self.at.skip(2);
            let name = self.uri(true)?;
            if self.at.byte() != b'>' {
                return Err(self.tag_error("expected `>` at the end of a tag", start));
            }
            self.at.skip(1);
            name
        } else {
            let end = rest[1..].find(|character| !is_word(character)).map(|length| 1 + length);
            let handle = match end {
                Some(end) if rest[end..].starts_with('!') => &rest[..=end],
                _ => "!",
            };
            self.at.skip(handle.len());
            if handle == "!" && !is_uri_byte(self.at.byte(), false) {
                "!".to_owned()
            } else {
                let suffix = self.uri(false)?;
                let Some(prefix) = self.prefix_of(handle) else {
                    let message = format!("no `%TAG` directive defines the handle {}", shortened(handle));
                    return Err(Error::new(ErrorKind::Parser, message, start));
                };
                format!("{prefix}{suffix}")
            }
        };
        let ends = self.at.is_whitespace_at(self.at.offset) || (self.flow > 0 && self.at.byte() == b',');
        if !ends {
            return Err(self.tag_error("expected whitespace", start));
        }
        Ok(if name == "!" { TagProperty::NonSpecific } else { TagProperty::Named(Tag::named(&name)) })
    }

    fn tag_error(&self, message: &str, start: Position) -> Error {
        Error::new(ErrorKind::Scanner, message, self.at.position()).during("after a tag", start)
    }

    /// Reads a URI and decodes its `%41` escapes. Brackets and commas are part of it only if it is complete (verbatim
    /// or a prefix), not if it is a suffix that flow punctuation can follow.
    pub(super) fn uri(&mut self, is_complete: bool) -> Result<String, Error> {
        let start = self.at.position();
        let error = |message: &str| Err(Error::new(ErrorKind::Scanner, message, start));
        let mut bytes = Vec::new();
        while is_uri_byte(self.at.byte(), is_complete) {
            if self.at.byte() == b'%' {
                let digits = self.at.text.get(self.at.offset + 1..self.at.offset + 3);
                let byte = digits.and_then(|digits| hexadecimal(digits).ok());
                let Some(byte) = byte.and_then(|byte| u8::try_from(byte).ok()) else {
                    return error("expected two hexadecimal digits after `%` in a tag");
                };
                bytes.push(byte);
                self.at.skip(3);
            } else {
                bytes.push(self.at.byte());
                self.at.skip(1);
            }
        }
        if bytes.is_empty() {
            return error("expected the name of a tag");
        }
        String::from_utf8(bytes).or_else(|_| error("a tag that is not UTF-8"))
    }
}

/// Parses hexadecimal digits; `from_str_radix` alone would accept a sign.
pub(super) fn hexadecimal(digits: &str) -> Result<u32, ()> {
    if digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        u32::from_str_radix(digits, 16).map_err(drop)
    } else {
        Err(())
    }
}

fn is_uri_byte(byte: u8, is_complete: bool) -> bool {
    byte.is_ascii_alphanumeric()
        || b"-_;/?:@&=+$.!~*'()%".contains(&byte)
        || (is_complete && b",[]".contains(&byte))
}

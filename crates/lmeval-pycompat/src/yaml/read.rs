//! Decodes bytes, and checks for characters that YAML does not allow.

use std::borrow::Cow;

use super::{Error, ErrorKind, Position};

/// Decodes a file by its byte order mark, as UTF-8 if there is none. The mark itself is part of the result.
///
/// ```
/// use lmeval_pycompat::yaml;
///
/// assert_eq!(yaml::decode(b"\xff\xfea\0")?, "\u{feff}a");
/// assert_eq!(yaml::decode(b"ab\xff").unwrap_err().position().column, 2);
/// # Ok::<(), yaml::Error>(())
/// ```
pub fn decode(bytes: &[u8]) -> Result<Cow<'_, str>, Error> {
    let refusal =
        |message: &'static str, valid: &str| Error::new(ErrorKind::Reader, message, position_at_end(valid));
    match code_units(bytes) {
        Some((units, is_complete)) => {
            let mut text = String::with_capacity(bytes.len());
            for unit in char::decode_utf16(units) {
                text.push(unit.map_err(|_| refusal("invalid UTF-16", &text))?);
            }
            if is_complete { Ok(Cow::Owned(text)) } else { Err(refusal("invalid UTF-16", &text)) }
        }
        None => std::str::from_utf8(bytes).map(Cow::Borrowed).map_err(|error| {
            let valid = std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default();
            refusal("invalid UTF-8", valid)
        }),
    }
}

/// Like [`decode`], with replacement characters for invalid bytes. Positions up to the first of them are the same.
pub fn decode_lossy(bytes: &[u8]) -> Cow<'_, str> {
    match code_units(bytes) {
        Some((units, _)) => char::decode_utf16(units)
            .map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER))
            .collect::<String>()
            .into(),
        None => String::from_utf8_lossy(bytes),
    }
}

/// The UTF-16 code units, and whether the last one is complete; `None` if the bytes are not UTF-16.
fn code_units(bytes: &[u8]) -> Option<(impl Iterator<Item = u16>, bool)> {
    let read: fn([u8; 2]) -> u16 = match bytes {
        [0xFF, 0xFE, ..] => u16::from_le_bytes,
        [0xFE, 0xFF, ..] => u16::from_be_bytes,
        _ => return None,
    };
    let pairs = bytes.chunks_exact(2);
    let is_complete = pairs.remainder().is_empty();
    Some((pairs.map(move |pair| read([pair[0], pair[1]])), is_complete))
}

/// Rejects control characters and others that a YAML stream cannot contain.
pub(super) fn check(text: &str) -> Result<(), Error> {
    let bytes = text.as_bytes();
    let suspicious = |byte: &u8| (*byte < 0x20 && !matches!(byte, b'\t' | b'\n' | b'\r')) || *byte >= 0x7F;
    let mut offset = 0;
    while let Some(found) = bytes[offset..].iter().position(suspicious) {
        offset += found;
        let Some(character) = text[offset..].chars().next() else {
            break;
        };
        let allowed = match character {
            '\u{85}' => true,
            '\0'..='\u{9F}' | '\u{FFFE}' | '\u{FFFF}' => false,
            _ => true,
        };
        if !allowed {
            let message = format!("character that YAML does not allow: U+{:04X}", u32::from(character));
            return Err(Error::new(ErrorKind::Reader, message, position_at_end(&text[..offset])));
        }
        offset += character.len_utf8();
    }
    Ok(())
}

/// The position after a string.
fn position_at_end(text: &str) -> Position {
    let body = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut position = Position { line: 0, column: 0, offset: text.len() };
    let mut characters = body.chars().peekable();
    while let Some(character) = characters.next() {
        let line_break = match character {
            '\r' => characters.peek() != Some(&'\n'),
            '\n' | '\u{85}' | '\u{2028}' | '\u{2029}' => true,
            _ => false,
        };
        if line_break {
            position.line += 1;
            position.column = 0;
        } else {
            position.column += 1;
        }
    }
    position
}

//! Bytes to text: encodings and the characters that YAML allows.

use std::borrow::Cow;

use super::{Error, ErrorKind, Position};

/// Decodes by the byte order mark, UTF-8 where there is none. The mark itself stays in the text.
pub(super) fn decode(bytes: &[u8]) -> Result<Cow<'_, str>, Error> {
    let units = |read: fn([u8; 2]) -> u16| {
        let pairs = bytes.chunks_exact(2);
        let whole = pairs.remainder().is_empty();
        let text: Result<String, _> =
            char::decode_utf16(pairs.map(|pair| read([pair[0], pair[1]]))).collect();
        match text {
            Ok(text) if whole => Ok(Cow::Owned(text)),
            _ => Err(Error::new(
                ErrorKind::Reader,
                "invalid UTF-16",
                Position::default(),
            )),
        }
    };
    match bytes {
        [0xFF, 0xFE, ..] => units(u16::from_le_bytes),
        [0xFE, 0xFF, ..] => units(u16::from_be_bytes),
        _ => match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Cow::Borrowed(text)),
            Err(error) => {
                let valid = std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default();
                Err(Error::new(
                    ErrorKind::Reader,
                    "invalid UTF-8",
                    position_at_end(valid),
                ))
            }
        },
    }
}

/// Refuses control characters and what else a YAML stream cannot hold.
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
            let message = format!(
                "character that YAML does not allow: `{}`",
                character.escape_unicode()
            );
            return Err(Error::new(
                ErrorKind::Reader,
                message,
                position_at_end(&text[..offset]),
            ));
        }
        offset += character.len_utf8();
    }
    Ok(())
}

/// The position behind a text.
fn position_at_end(text: &str) -> Position {
    let body = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut position = Position {
        line: 0,
        column: 0,
        offset: text.len(),
    };
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

//! Numbers in literals.

use super::Failure;
use crate::float::{parse_digits, parse_float};
use crate::value::Value;

/// Parses the number at `start`, which is a digit or a point and a digit; also returns where it ends.
pub(super) fn read(source: &str, start: usize) -> Result<(Value, usize), Failure> {
    let bytes = source.as_bytes();
    let radix = match (bytes[start], bytes.get(start + 1).map(u8::to_ascii_lowercase)) {
        (b'0', Some(b'x')) => Some(16),
        (b'0', Some(b'o')) => Some(8),
        (b'0', Some(b'b')) => Some(2),
        _ => None,
    };
    // Consume every byte that could belong to the number; a stray one makes it invalid.
    let mut end = start;
    let mut is_float = false;
    while let Some(&byte) = bytes.get(end) {
        let belongs = match byte {
            b'.' => radix.is_none(),
            b'+' | b'-' => radix.is_none() && end > start && matches!(bytes[end - 1], b'e' | b'E'),
            _ => byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii(),
        };
        if !belongs {
            break;
        }
        is_float |= radix.is_none() && matches!(byte, b'.' | b'e' | b'E');
        end += 1;
    }
    let text = &source[start..end];
    let shown = super::start(text);
    let invalid = || Failure::new(format!("Invalid number: `{shown}`"), start);
    if !text.is_ascii() {
        return Err(invalid());
    }
    if radix.is_none() && text.ends_with(['j', 'J']) {
        return Err(Failure::new(format!("Complex numbers are not supported: `{shown}`"), start));
    }
    let value = match radix {
        Some(radix) => {
            let digits = &text[2..];
            parse_digits(digits.strip_prefix('_').unwrap_or(digits), radix).ok_or_else(invalid)?
        }
        None if is_float => Value::Float(parse_float(text).ok_or_else(invalid)?),
        None => {
            let value = parse_digits(text, 10).ok_or_else(invalid)?;
            if text.starts_with('0') && value.is_truthy() {
                let message = format!("An integer does not start with a zero: `{shown}`");
                return Err(Failure::new(message, start));
            }
            value
        }
    };
    Ok((value, end))
}

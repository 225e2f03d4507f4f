//! Cells that are numbers, as the reference's CSV parser reads them.

/// Significant digits that count; later ones only move the decimal point.
const DIGITS: u32 = 17;

/// An integer of up to 64 bits with or without sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Integer {
    Signed(i64),
    Unsigned(u64),
    TooLong,
}

/// An integer with blanks around it.
pub(super) fn integer(cell: &str) -> Option<Integer> {
    let text = cell.trim_matches(is_blank);
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let text = text.strip_prefix('+').unwrap_or(text);
    let signed = text.parse().map(Integer::Signed);
    let number = signed.or_else(|_| text.parse().map(Integer::Unsigned));
    Some(number.unwrap_or(Integer::TooLong))
}

fn is_blank(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c')
}

/// A float. The parser is fast rather than exact: it gathers digits in a float and scales once, so that the
/// last bit may differ from the nearest float.
pub(super) fn float(cell: &str) -> Option<f64> {
    if let Some(number) = infinity(cell) {
        return Some(number);
    }
    let bytes = cell.trim_matches(is_blank).as_bytes();
    let negative = bytes.first() == Some(&b'-');
    let mut at = usize::from(matches!(bytes.first(), Some(b'+' | b'-')));
    let digit = |at: usize| bytes.get(at).filter(|byte| byte.is_ascii_digit()).map(|byte| f64::from(byte - b'0'));
    let (mut number, mut exponent, mut count) = (0.0_f64, 0_i64, 0);
    while let Some(digit) = digit(at) {
        if count < DIGITS {
            number = number * 10.0 + digit;
            count += 1;
        } else {
            exponent += 1;
        }
        at += 1;
    }
    if bytes.get(at) == Some(&b'.') {
        at += 1;
        while let Some(digit) = digit(at) {
            if count < DIGITS {
                number = number * 10.0 + digit;
                count += 1;
                exponent -= 1;
            }
            at += 1;
        }
    }
    if count == 0 {
        return None;
    }
    if let Some(b'e' | b'E') = bytes.get(at) {
        at += 1;
        let down = bytes.get(at) == Some(&b'-');
        at += usize::from(matches!(bytes.get(at), Some(b'+' | b'-')));
        digit(at)?;
        let mut power = 0_i64;
        while let Some(digit) = digit(at) {
            power = (power * 10 + digit as i64).min(100_000);
            at += 1;
        }
        exponent += if down { -power } else { power };
    }
    if at != bytes.len() {
        return None;
    }
    let scaled = match exponent {
        309.. => f64::INFINITY,
        0.. => number * power_of_ten(exponent),
        -308..0 => number / power_of_ten(-exponent),
        _ => number / power_of_ten((-308 - exponent).min(308)) / 1e308,
    };
    Some(if negative { -scaled } else { scaled })
}

/// Powers of ten as the nearest floats, which repeated multiplication would not give.
fn power_of_ten(exponent: i64) -> f64 {
    format!("1e{exponent}").parse().unwrap_or(f64::INFINITY)
}

fn infinity(cell: &str) -> Option<f64> {
    let (sign, word) = match cell.strip_prefix('-') {
        Some(word) => (-1.0, word),
        None => (1.0, cell.strip_prefix('+').unwrap_or(cell)),
    };
    let is_infinity = word.eq_ignore_ascii_case("inf") || word.eq_ignore_ascii_case("infinity");
    is_infinity.then_some(sign * f64::INFINITY)
}

/// A truth value in any mix of cases.
pub(super) fn boolean(cell: &str) -> Option<bool> {
    if cell.eq_ignore_ascii_case("true") {
        Some(true)
    } else if cell.eq_ignore_ascii_case("false") {
        Some(false)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats() {
        for (cell, expected) in [
            ("0.1", 0.1),
            ("0.12345678901234567", 0.12345678901234566),
            ("123456789.123456789", 123456789.12345679),
            ("1e-320", 1e-320),
            ("1e400", f64::INFINITY),
            ("5e-324", 5e-324),
            (".5", 0.5),
            ("-.5", -0.5),
            ("5.", 5.0),
            (" 1.5 ", 1.5),
            ("+inf", f64::INFINITY),
            ("-Infinity", f64::NEG_INFINITY),
        ] {
            assert_eq!(float(cell), Some(expected), "{cell}");
        }
        for cell in ["", ".", "1e", "1d5", "--1", "0x10", "1_0", " inf", "1 2", "nan"] {
            assert_eq!(float(cell), None, "{cell}");
        }
    }

    #[test]
    fn integers() {
        assert_eq!(integer(" 007 "), Some(Integer::Signed(7)));
        assert_eq!(integer("+1"), Some(Integer::Signed(1)));
        assert_eq!(integer("18446744073709551615"), Some(Integer::Unsigned(u64::MAX)));
        assert_eq!(integer("-9223372036854775809"), Some(Integer::TooLong));
        assert_eq!(integer("1.0"), None);
        assert_eq!(integer("-"), None);
    }
}

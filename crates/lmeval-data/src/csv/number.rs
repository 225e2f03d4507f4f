//! Numeric cells, parsed like the reference's CSV parser.

/// A signed or unsigned 64-bit integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Integer {
    Signed(i64),
    Unsigned(u64),
    TooLong,
}

/// Parses an integer surrounded by optional whitespace.
pub(super) fn integer(cell: &str) -> Option<Integer> {
    let text = cell.trim_matches(is_whitespace);
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let text = text.strip_prefix('+').unwrap_or(text);
    let signed = text.parse().map(Integer::Signed);
    let number = signed.or_else(|_| text.parse().map(Integer::Unsigned));
    Some(number.unwrap_or(Integer::TooLong))
}

fn is_whitespace(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c')
}

/// Parses a float surrounded by optional whitespace, correctly rounded.
pub(super) fn float(cell: &str) -> Option<f64> {
    if let Some(number) = infinity(cell) {
        return Some(number);
    }
    let text = cell.trim_matches(is_whitespace);
    // Rust accepts more words than the reference.
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    if is_number { text.parse().ok() } else { None }
}

fn infinity(cell: &str) -> Option<f64> {
    let (sign, word) = match cell.strip_prefix('-') {
        Some(word) => (-1.0, word),
        None => (1.0, cell.strip_prefix('+').unwrap_or(cell)),
    };
    let is_infinity = word.eq_ignore_ascii_case("inf") || word.eq_ignore_ascii_case("infinity");
    is_infinity.then_some(sign * f64::INFINITY)
}

/// Parses a boolean, ignoring case.
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
    fn parses_floats() {
        for (cell, expected) in [
            ("0.1", 0.1),
            ("0.30000000000000004", 0.30000000000000004),
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
    fn parses_integers() {
        assert_eq!(integer(" 007 "), Some(Integer::Signed(7)));
        assert_eq!(integer("+1"), Some(Integer::Signed(1)));
        assert_eq!(integer("18446744073709551615"), Some(Integer::Unsigned(u64::MAX)));
        assert_eq!(integer("-9223372036854775809"), Some(Integer::TooLong));
        assert_eq!(integer("1.0"), None);
        assert_eq!(integer("-"), None);
    }
}

//! Character classes.

use super::tables;

/// Membership in a set given by the code points at which membership flips.
pub(super) fn contains(flips: &[u32], character: char) -> bool {
    flips.partition_point(|&flip| flip <= u32::from(character)) % 2 == 1
}

/// `str.isspace` for one character: whether `strip` and `split` treat it as whitespace.
///
/// Unlike [`char::is_whitespace`] it includes the separators U+001C to U+001F.
pub fn is_space(character: char) -> bool {
    match character {
        '\t'..='\r' | '\x1c'..=' ' => true,
        '\0'..='\x7f' => false,
        _ => character.is_whitespace(),
    }
}

/// `str.isprintable` for one character: whether `repr` shows it unescaped.
pub fn is_printable(character: char) -> bool {
    match character {
        '\0'..='\x7f' => (' '..='~').contains(&character),
        _ => contains(&tables::PRINTABLE, character),
    }
}

/// `str.isalpha` for one character: any letter.
pub fn is_alpha(character: char) -> bool {
    match character {
        '\0'..='\x7f' => character.is_ascii_alphabetic(),
        _ => contains(&tables::ALPHA, character),
    }
}

/// `str.isdecimal` for one character: a digit that `int` reads.
pub fn is_decimal(character: char) -> bool {
    decimal_value(character).is_some()
}

/// `str.isdigit` for one character: decimal digits, and others such as `²` and `①`.
pub fn is_digit(character: char) -> bool {
    digit_value(character).is_some()
}

/// `str.isnumeric` for one character: digits, fractions, Roman numerals, numeric ideographs.
pub fn is_numeric(character: char) -> bool {
    match character {
        '\0'..='\x7f' => character.is_ascii_digit(),
        _ => contains(&tables::NUMERIC, character),
    }
}

/// `str.isalnum` for one character: a letter, or numeric in any sense.
pub fn is_alnum(character: char) -> bool {
    is_alpha(character) || is_numeric(character)
}

/// Whether `unicodedata.category` of a character is punctuation; symbols such as `$`, `+` and `~` are not.
pub fn is_punctuation(character: char) -> bool {
    contains(&tables::PUNCTUATION, character)
}

/// The value of a decimal digit of any script, as `int` reads it.
pub fn decimal_value(character: char) -> Option<u32> {
    if character.is_ascii() {
        return character.to_digit(10);
    }
    let code = u32::from(character);
    let next = tables::ZEROS.partition_point(|&zero| zero <= code);
    let value = code - tables::ZEROS[next.checked_sub(1)?];
    (value < 10).then_some(value)
}

/// The value of a digit as in `unicodedata.digit`: decimal digits and others such as `²`.
pub fn digit_value(character: char) -> Option<u32> {
    decimal_value(character).or_else(|| {
        let index = tables::DIGITS.binary_search_by_key(&character, |&(digit, _)| digit).ok()?;
        Some(u32::from(tables::DIGITS[index].1))
    })
}

/// `str.isidentifier`.
pub fn is_identifier(text: &str) -> bool {
    let mut characters = text.chars();
    let starts = |character| contains(&tables::IDENTIFIER_START, character) != is_alpha(character);
    let continues = |character| {
        if is_alnum(character) {
            !contains(&tables::NOT_IDENTIFIER_PART, character)
        } else {
            contains(&tables::IDENTIFIER_PART, character)
        }
    };
    characters.next().is_some_and(starts) && characters.all(continues)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_are_not_punctuation() {
        let of_ascii: String = ('\0'..='\x7f').filter(|&character| is_punctuation(character)).collect();
        assert_eq!(of_ascii, "!\"#%&'()*,-./:;?@[\\]_{}");
        assert!("¿«»—…、「」".chars().all(is_punctuation));
        assert!(!"$+<=>^`|~€´aé1 ".chars().any(is_punctuation));
    }
}

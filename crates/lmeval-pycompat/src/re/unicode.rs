//! Character properties in CPython 3.11.

use std::cmp::Ordering;

use super::tables::{ALIKE, DIGIT, LOWER, NAME_CONTINUE, NAME_START, SPACE, WORD};

fn in_table(table: &[(u32, u32)], code: u32) -> bool {
    table.binary_search_by(|&(first, last)| compare(first, last, code)).is_ok()
}

fn compare(first: u32, last: u32, code: u32) -> Ordering {
    if last < code {
        Ordering::Less
    } else if first > code {
        Ordering::Greater
    } else {
        Ordering::Equal
    }
}

/// Whether `\w` matches, without the ASCII flag.
pub(super) fn is_word(code: u32) -> bool {
    if code < 128 { is_ascii_word(code) } else { in_table(WORD, code) }
}

/// Whether `\w` matches under the ASCII flag.
pub(super) fn is_ascii_word(code: u32) -> bool {
    u8::try_from(code).is_ok_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// A category of characters that an escape such as `\d` matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Category {
    /// `\d`.
    Digit,
    /// `\s`.
    Space,
    /// `\w`.
    Word,
}

impl Category {
    /// Whether `code` belongs to the category, Unicode-wide or in ASCII only.
    pub(super) fn contains(self, code: u32, ascii: bool) -> bool {
        if ascii && code >= 128 {
            return false;
        }
        match self {
            // With the ASCII flag, the information separators are not whitespace.
            Self::Space if ascii => matches!(code, 0x09..=0x0d | 0x20),
            Self::Word => is_word(code),
            Self::Digit | Self::Space => in_table(self.ranges(), code),
        }
    }

    /// The sorted ranges of the category.
    pub(super) fn ranges(self) -> &'static [(u32, u32)] {
        match self {
            Self::Digit => DIGIT,
            Self::Space => SPACE,
            Self::Word => WORD,
        }
    }
}

/// The simple lower-case form of a character.
pub(super) fn lower(code: u32) -> u32 {
    if code < 128 {
        return lower_ascii(code);
    }
    let Ok(index) = LOWER.binary_search_by(|&(first, last, _, _)| compare(first, last, code)) else {
        return code;
    };
    match LOWER.get(index) {
        Some(&(first, _, step, delta)) if (code - first).is_multiple_of(step) => {
            code.wrapping_add_signed(delta)
        }
        _ => code,
    }
}

/// The lower-case form of an ASCII letter; other characters stay the same.
pub(super) fn lower_ascii(code: u32) -> u32 {
    if (0x41..=0x5a).contains(&code) { code + 32 } else { code }
}

/// The simple upper-case form of a character, or the first character of a longer one.
pub(super) fn upper(code: u32) -> u32 {
    char::from_u32(code).and_then(|character| character.to_uppercase().next()).map_or(code, u32::from)
}

/// The characters of a range that are not lower case, each with its lower-case form.
pub(super) fn lower_pairs(first: u32, last: u32) -> impl Iterator<Item = (u32, u32)> {
    LOWER
        .iter()
        .filter(move |&&(run_first, run_last, _, _)| run_first <= last && first <= run_last)
        .flat_map(|&(run_first, run_last, step, delta)| {
            (run_first..=run_last)
                .step_by(step as usize)
                .map(move |code| (code, code.wrapping_add_signed(delta)))
        })
        .filter(move |&(code, _)| (first..=last).contains(&code))
}

/// The characters of a range that match others when case is ignored, with those others.
pub(super) fn alike_in(first: u32, last: u32) -> impl Iterator<Item = &'static (u32, &'static [u32])> {
    ALIKE.iter().filter(move |(code, _)| (first..=last).contains(code))
}

/// The other lower-case characters that match a lower-case character when case is ignored.
pub(super) fn alike(code: u32) -> &'static [u32] {
    ALIKE
        .binary_search_by_key(&code, |&(lower, _)| lower)
        .ok()
        .and_then(|index| ALIKE.get(index))
        .map_or(&[], |&(_, others)| others)
}

/// `str.isidentifier`.
pub(super) fn is_identifier(name: &str) -> bool {
    let mut characters = name.chars().map(u32::from);
    characters.next().is_some_and(|first| in_table(NAME_START, first))
        && characters.all(|code| in_table(NAME_CONTINUE, code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_letters_digits_and_underscores() {
        for character in "aZ9_é字²½Ⅷ٣ªʰ".chars() {
            assert!(is_word(character.into()), "{character}");
        }
        for character in " -.\u{301}\u{200d}‿\u{93e}".chars() {
            assert!(!is_word(character.into()), "{character:?}");
        }
    }

    #[test]
    fn information_separators_are_whitespace_unless_ascii() {
        assert!(Category::Space.contains(0x1c, false));
        assert!(!Category::Space.contains(0x1c, true));
        assert!(Category::Space.contains(0x3000, false));
        assert!(!Category::Space.contains(0x200b, false));
    }

    #[test]
    fn lower_case_is_one_to_one() {
        assert_eq!(lower('É'.into()), u32::from('é'));
        assert_eq!(lower(0x130), u32::from('i'));
        assert_eq!(lower(0x212a), u32::from('k'));
        assert_eq!(lower('ß'.into()), u32::from('ß'));
        assert_eq!(lower(0x101), 0x101);
        assert_eq!(upper(0x10428), 0x10400);
        assert_eq!(lower_pairs(0x40, 0x42).collect::<Vec<_>>(), [(0x41, 0x61), (0x42, 0x62)]);
    }
}

//! Stripping, splitting and searching.

use super::class::is_space;

/// `str.strip()`.
pub fn strip(text: &str) -> &str {
    text.trim_matches(is_space)
}

/// `str.lstrip()`.
pub fn lstrip(text: &str) -> &str {
    text.trim_start_matches(is_space)
}

/// `str.rstrip()`.
pub fn rstrip(text: &str) -> &str {
    text.trim_end_matches(is_space)
}

/// `str.strip(characters)`: removes any of them at both ends.
pub fn strip_chars<'a>(text: &'a str, characters: &str) -> &'a str {
    text.trim_matches(|character| characters.contains(character))
}

/// `str.lstrip(characters)`.
pub fn lstrip_chars<'a>(text: &'a str, characters: &str) -> &'a str {
    text.trim_start_matches(|character| characters.contains(character))
}

/// `str.rstrip(characters)`.
pub fn rstrip_chars<'a>(text: &'a str, characters: &str) -> &'a str {
    text.trim_end_matches(|character| characters.contains(character))
}

/// `str.split(maxsplit=…)`: words between runs of whitespace; `None` means no limit.
///
/// The remainder after the last split keeps its trailing whitespace.
pub fn split_whitespace(text: &str, max_split: Option<usize>) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = lstrip(text);
    while !rest.is_empty() {
        if max_split.is_some_and(|limit| words.len() >= limit) {
            words.push(rest);
            break;
        }
        let end = rest.find(is_space).unwrap_or(rest.len());
        words.push(&rest[..end]);
        rest = lstrip(&rest[end..]);
    }
    words
}

/// `str.rsplit(maxsplit=…)`: like [`split_whitespace`], but splits from the end.
pub fn rsplit_whitespace(text: &str, max_split: Option<usize>) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = rstrip(text);
    while !rest.is_empty() {
        if max_split.is_some_and(|limit| words.len() >= limit) {
            words.push(rest);
            break;
        }
        let start = rest
            .char_indices()
            .rev()
            .find(|&(_, character)| is_space(character))
            .map_or(0, |(at, character)| at + character.len_utf8());
        words.push(&rest[start..]);
        rest = rstrip(&rest[..start]);
    }
    words.reverse();
    words
}

/// `str.split(separator, maxsplit)`; `None` if the separator is empty, which is an error in Python.
pub fn split<'a>(text: &'a str, separator: &str, max_split: Option<usize>) -> Option<Vec<&'a str>> {
    if separator.is_empty() {
        return None;
    }
    Some(match max_split.and_then(|limit| limit.checked_add(1)) {
        Some(pieces) => text.splitn(pieces, separator).collect(),
        None => text.split(separator).collect(),
    })
}

/// `str.rsplit(separator, maxsplit)`; `None` if the separator is empty, which is an error in Python.
pub fn rsplit<'a>(text: &'a str, separator: &str, max_split: Option<usize>) -> Option<Vec<&'a str>> {
    if separator.is_empty() {
        return None;
    }
    let mut pieces: Vec<&str> = match max_split.and_then(|limit| limit.checked_add(1)) {
        Some(pieces) => text.rsplitn(pieces, separator).collect(),
        None => text.rsplit(separator).collect(),
    };
    pieces.reverse();
    Some(pieces)
}

/// `str.splitlines(keepends)`: splits at `\n`, `\r`, `\r\n`, `\v`, `\f`, U+001C to U+001E, U+0085, U+2028 and U+2029.
pub fn splitlines(text: &str, keep_ends: bool) -> Vec<&str> {
    let is_end = |character: char| matches!(character, '\n'..='\r' | '\x1c'..='\x1e' | '\u{85}' | '\u{2028}' | '\u{2029}');
    let mut lines = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (line, end) = match rest.char_indices().find(|&(_, character)| is_end(character)) {
            Some((at, '\r')) if rest[at..].starts_with("\r\n") => (at, at + 2),
            Some((at, character)) => (at, at + character.len_utf8()),
            None => (rest.len(), rest.len()),
        };
        lines.push(&rest[..if keep_ends { end } else { line }]);
        rest = &rest[end..];
    }
    lines
}

/// `str.find`: the position of the first occurrence, in characters.
pub fn find(text: &str, needle: &str) -> Option<usize> {
    text.find(needle).map(|at| text[..at].chars().count())
}

/// `str.rfind`: the position of the last occurrence, in characters.
pub fn rfind(text: &str, needle: &str) -> Option<usize> {
    text.rfind(needle).map(|at| text[..at].chars().count())
}

/// `str.count`: non-overlapping occurrences; the empty string occurs at every position.
pub fn count(text: &str, needle: &str) -> usize {
    text.matches(needle).count()
}

/// `str.partition`: splits around the first separator; without one, the entire string and two empty ones. `None` if the
/// separator is empty, which is an error in Python.
pub fn partition<'a>(text: &'a str, separator: &str) -> Option<(&'a str, &'a str, &'a str)> {
    if separator.is_empty() {
        return None;
    }
    Some(match text.find(separator) {
        Some(at) => (&text[..at], &text[at..at + separator.len()], &text[at + separator.len()..]),
        None => (text, "", ""),
    })
}

/// `str.rpartition`: splits around the last separator; without one, two empty strings and the entire one. `None` if the
/// separator is empty, which is an error in Python.
pub fn rpartition<'a>(text: &'a str, separator: &str) -> Option<(&'a str, &'a str, &'a str)> {
    if separator.is_empty() {
        return None;
    }
    Some(match text.rfind(separator) {
        Some(at) => (&text[..at], &text[at..at + separator.len()], &text[at + separator.len()..]),
        None => ("", "", text),
    })
}

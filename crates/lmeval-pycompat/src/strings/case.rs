//! Upper, lower and title case.
//!
//! Uses the mappings of the standard library if both ends exist in Python's version of Unicode; characters that Unicode
//! added later map to themselves.

use super::class::contains;
use super::tables;

fn is_assigned(character: char) -> bool {
    character.is_ascii() || !contains(&tables::UNASSIGNED, character)
}

/// Appends the mapping of a character, or the character itself if Python has no such mapping.
fn push_known(out: &mut String, character: char, mapped: impl Iterator<Item = char> + Clone) {
    if is_assigned(character) && mapped.clone().all(is_assigned) {
        out.extend(mapped);
    } else {
        out.push(character);
    }
}

fn push_upper(out: &mut String, character: char) {
    push_known(out, character, character.to_uppercase());
}

fn push_title(out: &mut String, character: char) {
    match tables::TITLE.binary_search_by_key(&character, |&(from, _)| from) {
        Ok(index) => out.push_str(tables::TITLE[index].1),
        Err(_) => push_upper(out, character),
    }
}

/// Appends the lower case of the first character of `text[at..]`; a capital sigma depends on its neighbours.
fn push_lower(out: &mut String, text: &str, at: usize, character: char) {
    if character == 'Σ' {
        out.push(if is_final_sigma(text, at) { 'ς' } else { 'σ' });
    } else {
        push_known(out, character, character.to_lowercase());
    }
}

/// Whether the sigma at `at` follows a cased letter and does not precede one, skipping ignorable characters.
fn is_final_sigma(text: &str, at: usize) -> bool {
    let has_case = |character: Option<char>| character.is_some_and(|c| contains(&tables::CASED, c));
    let counts = |character: &char| !contains(&tables::IGNORABLE, *character);
    has_case(text[..at].chars().rev().find(counts))
        && !has_case(text[at + 'Σ'.len_utf8()..].chars().find(counts))
}

fn is_upper(character: char) -> bool {
    character.is_uppercase() && is_assigned(character)
}

fn is_lower(character: char) -> bool {
    match character {
        // Later versions of Unicode changed the class of these.
        '\u{295}' => true,
        '\u{10fc}' | '\u{a7f2}'..='\u{a7f4}' | '\u{ab69}' => false,
        _ => character.is_lowercase() && is_assigned(character),
    }
}

/// Whether the character has title case, such as `ǅ`.
fn is_title(character: char) -> bool {
    matches!(character,
        '\u{1c5}' | '\u{1c8}' | '\u{1cb}' | '\u{1f2}' | '\u{1f88}'..='\u{1f8f}' | '\u{1f98}'..='\u{1f9f}'
        | '\u{1fa8}'..='\u{1faf}' | '\u{1fbc}' | '\u{1fcc}' | '\u{1ffc}')
}

/// `str.upper`.
pub fn upper(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_uppercase();
    }
    let mut out = String::with_capacity(text.len());
    text.chars().for_each(|character| push_upper(&mut out, character));
    out
}

/// `str.lower`.
pub fn lower(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    let mut out = String::with_capacity(text.len());
    for (at, character) in text.char_indices() {
        push_lower(&mut out, text, at, character);
    }
    out
}

/// `str.casefold`.
pub fn casefold(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match tables::FOLD.binary_search_by_key(&character, |&(from, _)| from) {
            Ok(index) => out.push_str(tables::FOLD[index].1),
            Err(_) => push_known(&mut out, character, character.to_lowercase()),
        }
    }
    out
}

/// `str.capitalize`: the first character in title case, the others in lower case.
pub fn capitalize(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (at, character) in text.char_indices() {
        if at == 0 {
            push_title(&mut out, character);
        } else {
            push_lower(&mut out, text, at, character);
        }
    }
    out
}

/// `str.title`: every run of cased characters starts in title case and continues in lower case.
pub fn title(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut in_word = false;
    for (at, character) in text.char_indices() {
        if in_word {
            push_lower(&mut out, text, at, character);
        } else {
            push_title(&mut out, character);
        }
        in_word = contains(&tables::CASED, character);
    }
    out
}

/// `str.swapcase`.
pub fn swapcase(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (at, character) in text.char_indices() {
        if is_upper(character) {
            push_lower(&mut out, text, at, character);
        } else if is_lower(character) {
            push_upper(&mut out, character);
        } else {
            out.push(character);
        }
    }
    out
}

/// `str.isupper`: some upper case, no lower or title case.
pub fn is_upper_text(text: &str) -> bool {
    text.chars().any(is_upper) && !text.chars().any(|character| is_lower(character) || is_title(character))
}

/// `str.islower`: some lower case, no upper or title case.
pub fn is_lower_text(text: &str) -> bool {
    text.chars().any(is_lower) && !text.chars().any(|character| is_upper(character) || is_title(character))
}

/// `str.istitle`: upper case only after uncased characters, lower case only after cased ones, and some case.
pub fn is_title_text(text: &str) -> bool {
    let mut any = false;
    let mut in_word = false;
    for character in text.chars() {
        let starts = is_upper(character) || is_title(character);
        let continues = is_lower(character);
        if (starts && in_word) || (continues && !in_word) {
            return false;
        }
        in_word = starts || continues;
        any |= in_word;
    }
    any
}

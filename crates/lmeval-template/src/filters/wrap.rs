//! `wordwrap`.

use lmeval_pycompat::strings;

use crate::arguments::{Args, integer, text};
use crate::error::Error;
use crate::eval::Vm;
use crate::value::Val;

/// `wordwrap(width, break_long_words, wrapstring, break_on_hyphens)`.
pub(super) fn wordwrap(vm: &mut Vm<'_>, value: &Val, args: Args) -> Result<Val, Error> {
    let names = ["width", "break_long_words", "wrapstring", "break_on_hyphens"];
    let [width, break_long, wrap, hyphens] = args.bind("wordwrap", names, 0)?;
    let width = width.map_or(Ok(79), |width| integer(&width))?;
    let truth = |value: Option<Val>| value.map_or(Ok(true), |value| value.truth());
    let (break_long, hyphens) = (truth(break_long)?, truth(hyphens)?);
    let wrap = match wrap {
        None | Some(Val::None) => "\n".into(),
        Some(wrap) => text(&wrap)?.clone(),
    };
    let source = text(value)?;
    vm.spend(source.len() as u64)?;
    let mut paragraphs = Vec::new();
    for line in strings::splitlines(source, false) {
        let width = usize::try_from(width)
            .ok()
            .filter(|width| *width > 0)
            .ok_or_else(|| Error::value_error("The width of lines must be positive"))?;
        let characters: Vec<char> = line.chars().collect();
        let chunks = if hyphens { chunks(&characters) } else { words(&characters) };
        paragraphs.push(fill(chunks, width, break_long, hyphens).join(&wrap));
    }
    Ok(Val::text_like(value, paragraphs.join(&wrap)))
}

fn is_blank(character: char) -> bool {
    matches!(character, '\t' | '\n' | '\x0b' | '\x0c' | '\r' | ' ')
}

fn is_word(character: char) -> bool {
    character == '_' || strings::is_alnum(character)
}

fn is_letter(character: Option<&char>) -> bool {
    character.is_some_and(|character| is_word(*character) && !strings::is_decimal(*character))
}

fn is_word_or_mark(character: Option<&char>) -> bool {
    character.is_some_and(|c| is_word(*c) || matches!(c, '!' | '"' | '\'' | '&' | '.' | ',' | '?'))
}

/// Runs of blanks and runs of everything else.
fn words(text: &[char]) -> Vec<Vec<char>> {
    text.chunk_by(|left, right| is_blank(*left) == is_blank(*right)).map(<[char]>::to_vec).collect()
}

/// The length of dashes at a place that part two words.
fn dashes(text: &[char], at: usize) -> Option<usize> {
    let before = at.checked_sub(1).and_then(|before| text.get(before));
    let count = text[at..].iter().take_while(|character| **character == '-').count();
    let after = text.get(at + count).is_some_and(|character| is_word(*character));
    (count >= 2 && is_word_or_mark(before) && after).then_some(count)
}

/// The pieces between which a line may break: blanks, words, parts of hyphenated words, and dashes.
fn chunks(text: &[char]) -> Vec<Vec<char>> {
    let mut chunks = Vec::new();
    let mut start = 0;
    while start < text.len() {
        let end = if is_blank(text[start]) {
            start + text[start..].iter().take_while(|character| is_blank(**character)).count()
        } else if let Some(count) = dashes(text, start) {
            start + count
        } else {
            word_end(text, start)
        };
        chunks.push(text[start..end].to_vec());
        start = end;
    }
    chunks
}

fn word_end(text: &[char], start: usize) -> usize {
    let mut end = start + 1;
    loop {
        let back = |distance: usize| end.checked_sub(distance).and_then(|index| text.get(index));
        if text.get(end) == Some(&'-') {
            let two_letters = is_letter(back(1)) && is_letter(back(2));
            let hyphenated = is_word_or_mark(back(1)) && back(2) == Some(&'-') && is_letter(back(3));
            let next = text.get(end + 1);
            let goes_on = is_letter(next)
                && (is_letter(text.get(end + 2))
                    || (text.get(end + 2) == Some(&'-') && is_letter(text.get(end + 3))));
            if (two_letters || hyphenated) && goes_on {
                return end + 1;
            }
        }
        match text.get(end) {
            None => return end,
            Some(character) if is_blank(*character) => return end,
            _ => {}
        }
        if dashes(text, end).is_some() {
            return end;
        }
        end += 1;
    }
}

/// Fills lines with chunks.
fn fill(chunks: Vec<Vec<char>>, width: usize, break_long: bool, hyphens: bool) -> Vec<String> {
    let is_space = |chunk: &Vec<char>| chunk.iter().all(|character| strings::is_space(*character));
    let mut lines = Vec::new();
    let mut rest = chunks;
    rest.reverse();
    while !rest.is_empty() {
        let mut line: Vec<Vec<char>> = Vec::new();
        let mut length = 0;
        if !lines.is_empty() && rest.last().is_some_and(is_space) {
            rest.pop();
        }
        while let Some(chunk) = rest.last() {
            if length + chunk.len() > width {
                break;
            }
            length += chunk.len();
            line.extend(rest.pop());
        }
        if rest.last().is_some_and(|chunk| chunk.len() > width) {
            split_long(&mut rest, &mut line, width - length, break_long, hyphens);
        }
        if line.last().is_some_and(is_space) {
            line.pop();
        }
        if !line.is_empty() {
            lines.push(line.into_iter().flatten().collect());
        }
    }
    lines
}

/// Puts what fits of a chunk longer than a line, or all of it where words may not be broken.
fn split_long(
    rest: &mut Vec<Vec<char>>,
    line: &mut Vec<Vec<char>>,
    room: usize,
    break_long: bool,
    hyphens: bool,
) {
    let Some(chunk) = rest.pop() else { return };
    if break_long {
        let mut end = room;
        if hyphens && chunk.len() > room {
            let hyphen = chunk[..room].iter().rposition(|character| *character == '-');
            if let Some(hyphen) = hyphen.filter(|hyphen| *hyphen > 0)
                && chunk[..hyphen].iter().any(|character| *character != '-')
            {
                end = hyphen + 1;
            }
        }
        let tail = chunk[end..].to_vec();
        line.push(chunk[..end].to_vec());
        rest.push(tail);
    } else if line.is_empty() {
        line.push(chunk);
    } else {
        rest.push(chunk);
    }
}

//! Escapes inside patterns, inside and outside character sets.

use super::ast::{Anchor, Member, Node};
use super::error::{Error, ErrorKind};
use super::parse::Parser;
use super::token::{Token, Tokenizer};
use super::unicode::Category;

/// The character that a simple escape such as `\n` stands for.
pub(super) fn simple_escape(character: char) -> Option<u32> {
    Some(match character {
        'a' => 7,
        'b' => 8,
        'f' => 12,
        'n' => 10,
        'r' => 13,
        't' => 9,
        'v' => 11,
        '\\' => 92,
        _ => return None,
    })
}

pub(super) fn is_octal(character: char) -> bool {
    ('0'..='7').contains(&character)
}

fn category(character: char) -> Option<Member> {
    let category = match character.to_ascii_lowercase() {
        'd' => Category::Digit,
        's' => Category::Space,
        'w' => Category::Word,
        _ => return None,
    };
    Some(Member::Category { category, negated: character.is_ascii_uppercase() })
}

fn anchor(character: char) -> Option<Anchor> {
    Some(match character {
        'A' => Anchor::TextStart,
        'Z' => Anchor::TextEnd,
        'b' => Anchor::Boundary,
        'B' => Anchor::NotBoundary,
        _ => return None,
    })
}

/// An escape inside a character set.
pub(super) fn set_escape(source: &mut Tokenizer, token: Token) -> Result<Member, Error> {
    let character = token.character;
    if let Some(code) = simple_escape(character) {
        return Ok(Member::Literal(code));
    }
    if let Some(member) = category(character) {
        return Ok(member);
    }
    let mut text = token.text();
    if let Some(code) = coded_escape(source, character, &mut text)? {
        return Ok(Member::Literal(code));
    }
    if is_octal(character) {
        source.get_while(2, is_octal, &mut text)?;
        return octal(source, &text).map(Member::Literal);
    }
    if character.is_ascii_alphanumeric() {
        return Err(bad_escape(source, &text));
    }
    Ok(Member::Literal(character.into()))
}

/// An escape outside character sets.
pub(super) fn pattern_escape(parser: &mut Parser, token: Token) -> Result<Node, Error> {
    let character = token.character;
    if let Some(anchor) = anchor(character) {
        return Ok(Node::At(anchor));
    }
    if let Some(member) = category(character) {
        return Ok(Node::Set { negated: false, members: vec![member] });
    }
    if let Some(code) = simple_escape(character) {
        return Ok(Node::Literal(code));
    }
    let mut text = token.text();
    if let Some(code) = coded_escape(&mut parser.source, character, &mut text)? {
        return Ok(Node::Literal(code));
    }
    if character == '0' {
        parser.source.get_while(2, is_octal, &mut text)?;
        return octal(&parser.source, &text).map(Node::Literal);
    }
    if character.is_ascii_digit() {
        return octal_or_reference(parser, text);
    }
    if character.is_ascii_alphabetic() {
        return Err(bad_escape(&parser.source, &text));
    }
    Ok(Node::Literal(character.into()))
}

fn octal_or_reference(parser: &mut Parser, mut text: String) -> Result<Node, Error> {
    let before = text.len();
    parser.source.get_while(1, |character| character.is_ascii_digit(), &mut text)?;
    if text.len() > before && text.chars().skip(1).all(is_octal) {
        let before = text.len();
        parser.source.get_while(1, is_octal, &mut text)?;
        if text.len() > before {
            return octal(&parser.source, &text).map(Node::Literal);
        }
    }
    let group: usize = text.trim_start_matches('\\').parse().unwrap_or(usize::MAX);
    if group >= parser.group_count() {
        return Err(parser.source.error(format!("invalid group reference {group}"), text.len() - 1));
    }
    parser.check_reference(group, text.len())?;
    Ok(Node::Reference(group))
}

/// `\x41`, `\u0041`, `\U00000041` and `\N{…}`; `None` for any other escape.
fn coded_escape(source: &mut Tokenizer, character: char, text: &mut String) -> Result<Option<u32>, Error> {
    let digits = match character {
        'x' => 2,
        'u' => 4,
        'U' => 8,
        'N' => return named_escape(source),
        _ => return Ok(None),
    };
    source.get_while(digits, |character| character.is_ascii_hexdigit(), text)?;
    if text.len() != digits + 2 {
        return Err(source.error(format!("incomplete escape {text}"), text.len()));
    }
    match u32::from_str_radix(text.trim_start_matches(['\\', character]), 16) {
        Ok(code) if code <= u32::from(char::MAX) => Ok(Some(code)),
        _ => Err(bad_escape(source, text)),
    }
}

fn named_escape(source: &mut Tokenizer) -> Result<Option<u32>, Error> {
    if !source.accept('{')? {
        return Err(source.error("missing {", 0));
    }
    let name = source.get_until('}', "character name")?;
    let message = format!("the escape \\N{{{name}}} is not supported, write the character or its \\u code");
    Err(Error::new(ErrorKind::NotSupported, message, Some(source.tell()), source.source()))
}

fn octal(source: &Tokenizer, text: &str) -> Result<u32, Error> {
    match u32::from_str_radix(text.trim_start_matches('\\'), 8) {
        Ok(code) if code <= 0o377 => Ok(code),
        _ => Err(source.error(format!("octal escape value {text} outside of range 0-0o377"), text.len())),
    }
}

fn bad_escape(source: &Tokenizer, text: &str) -> Error {
    source.error(format!("bad escape {text}"), text.chars().count())
}

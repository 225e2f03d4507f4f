//! The fast matcher: the same pattern for the `regex` crate, where that gives the same answers.
//!
//! A pattern is written twice in that crate's dialect. The first form is for ASCII text, where every set of
//! characters is a handful of ranges and word boundaries are the same; the second is for any text, with the exact
//! ranges of Python's classes. What the crate has no equal for is left to the [machine](super::machine):
//! look-around, back-references, conditionals, atomic groups, possessive repeats, and repeats whose contents can be
//! empty, because both count empty rounds differently.

use std::fmt::Write as _;
use std::sync::OnceLock;

use regex::{Regex, RegexBuilder};

use super::ast::{Greed, Node, Repeat, Role, Sequence, UNBOUNDED};
use super::charset::Matcher;
use super::flags::Flags;
use super::grammar::Parsed;
use super::own::{FormId, OwnForm};
use super::program::Place;

/// Larger compiled forms are not worth their time.
const SIZE_LIMIT: usize = 1 << 20;
/// Bigger counted repeats are unrolled to forms that are too large.
const MOST_ROUNDS: u32 = 200;

/// The forms of a pattern for the `regex` crate, written and compiled when first used.
#[derive(Debug)]
pub(super) struct FastForms {
    parsed: Parsed,
    ascii: OnceLock<Option<Form>>,
    any: OnceLock<Option<Form>>,
}

#[derive(Debug)]
struct Form {
    id: FormId,
    compiled: Regex,
    /// Whether the form differs from the pattern in a text that ends with a line feed.
    minds_final_line_feed: bool,
}

impl FastForms {
    /// The forms of a pattern.
    pub(super) fn new(parsed: Parsed) -> Self {
        Self { parsed, ascii: OnceLock::new(), any: OnceLock::new() }
    }

    /// This thread's copy of the form that is right for a text, or `None` where there is none.
    pub(super) fn for_text(&self, text: &str) -> Option<OwnForm> {
        // In an empty text Python has no word boundaries and no opposites of them.
        if text.is_empty() {
            return None;
        }
        let is_ascii = text.is_ascii();
        let form = if is_ascii { &self.ascii } else { &self.any };
        let form = form.get_or_init(|| self.write(is_ascii)).as_ref()?;
        let is_right = !form.minds_final_line_feed || !text.ends_with('\n');
        is_right.then(|| OwnForm::of(form.id, &form.compiled))
    }

    fn write(&self, ascii: bool) -> Option<Form> {
        let mut writer = Writer::new(ascii);
        writer.sequence(&self.parsed.body, self.parsed.flags)?;
        let compiled = RegexBuilder::new(&writer.out).size_limit(SIZE_LIMIT).build().ok()?;
        Some(Form { id: FormId::new(), compiled, minds_final_line_feed: writer.has_final_line_end })
    }
}

struct Writer {
    out: String,
    ascii: bool,
    has_final_line_end: bool,
}

impl Writer {
    fn new(ascii: bool) -> Self {
        Self { out: String::new(), ascii, has_final_line_end: false }
    }

    fn sequence(&mut self, sequence: &Sequence, flags: Flags) -> Option<()> {
        sequence.nodes.iter().try_for_each(|node| self.node(node, flags))
    }

    fn node(&mut self, node: &Node, flags: Flags) -> Option<()> {
        // A `\w` is two bytes in the pattern and thousands here.
        if self.out.len() > SIZE_LIMIT {
            return None;
        }
        if let Some(matcher) = Matcher::from_node(node, flags) {
            return self.matcher(&matcher);
        }
        match node {
            Node::Anchor(anchor) => self.place(Place::from_anchor(*anchor, flags)),
            Node::Alternatives(branches) => {
                self.out.push_str("(?:");
                for (index, branch) in branches.iter().enumerate() {
                    if index > 0 {
                        self.out.push('|');
                    }
                    self.sequence(branch, flags)?;
                }
                self.out.push(')');
                Some(())
            }
            Node::Group(group) => {
                self.out.push_str(match group.role {
                    Role::Capture(_) => "(",
                    Role::Plain => "(?:",
                    Role::Atomic => return None,
                });
                self.sequence(&group.body, flags.combine(group.added, group.removed))?;
                self.out.push(')');
                Some(())
            }
            Node::Repeat(repeat) => self.repeat(repeat, flags),
            _ => None,
        }
    }

    fn repeat(&mut self, repeat: &Repeat, flags: Flags) -> Option<()> {
        let Repeat { min, max, greed, ref body } = *repeat;
        let can_be_empty = body.width.least == 0;
        let is_large = min > MOST_ROUNDS || (max != UNBOUNDED && max > MOST_ROUNDS);
        // The crate forgets the groups of what is repeated no times, and with it their numbers.
        if greed == Greed::Possessive || is_large || max == 0 || (can_be_empty && max > 1) {
            return None;
        }
        self.out.push_str("(?:");
        self.sequence(body, flags)?;
        self.out.push(')');
        match (min, max) {
            (0, UNBOUNDED) => self.out.push('*'),
            (1, UNBOUNDED) => self.out.push('+'),
            (0, 1) => self.out.push('?'),
            (_, UNBOUNDED) => write!(self.out, "{{{min},}}").ok()?,
            _ => write!(self.out, "{{{min},{max}}}").ok()?,
        }
        if greed == Greed::Lazy {
            self.out.push('?');
        }
        Some(())
    }

    fn place(&mut self, place: Place) -> Option<()> {
        self.out.push_str(match place {
            Place::TextStart => r"\A",
            Place::LineStart => r"(?m:^)",
            Place::TextEnd => r"\z",
            Place::FinalLineEnd => {
                self.has_final_line_end = true;
                r"\z"
            }
            Place::LineEnd => r"(?m:$)",
            Place::Boundary { .. } if self.ascii => r"\b",
            Place::NotBoundary { .. } if self.ascii => r"\B",
            Place::Boundary { .. } | Place::NotBoundary { .. } => return None,
        });
        Some(())
    }

    fn matcher(&mut self, matcher: &Matcher) -> Option<()> {
        if let Matcher::Character(character) = matcher {
            write!(self.out, r"\x{{{:x}}}", u32::from(*character)).ok()?;
            return Some(());
        }
        let ranges = if self.ascii { ascii_ranges(matcher.ascii_bits()) } else { matcher.ranges()? };
        let before = self.out.len();
        self.out.push('[');
        for (first, last) in ranges {
            // A lone surrogate cannot be in a text, nor in a set of the crate.
            for (first, last) in [(first, last.min(0xd7ff)), (first.max(0xe000), last)] {
                if first <= last {
                    write!(self.out, r"\x{{{first:x}}}-\x{{{last:x}}}").ok()?;
                }
            }
        }
        if self.out.len() == before + 1 {
            self.out.push_str(r"^\x{0}-\x{10ffff}");
        }
        self.out.push(']');
        Some(())
    }
}

fn ascii_ranges(bits: u128) -> Vec<(u32, u32)> {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for code in (0..128).filter(|code| bits >> code & 1 == 1) {
        match ranges.last_mut() {
            Some(open) if open.1 + 1 == code => open.1 = code,
            _ => ranges.push((code, code)),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::re::grammar::parse;

    #[test]
    fn forms_that_grow_too_large_are_given_up() {
        let parsed = parse(&r"\w".repeat(5000), Flags::NONE).expect("pattern");
        let mut writer = Writer::new(false);
        assert!(writer.sequence(&parsed.body, parsed.flags).is_none());
        assert!(writer.out.len() < 2 * SIZE_LIMIT);
    }
}

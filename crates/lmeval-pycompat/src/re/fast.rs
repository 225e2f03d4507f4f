//! The fast matcher: translates a pattern for the `regex` crate if the results are the same.
//!
//! A pattern is translated twice into that crate's dialect. The first form is for ASCII strings, where every set of
//! characters is a handful of ranges and word boundaries are the same; the second is for any string, with the exact
//! ranges of Python's classes. Features that the crate lacks are left to the [machine](super::machine): lookaround,
//! back-references, conditionals, atomic groups, possessive repeats, and repeats whose contents can be empty, because
//! both handle empty rounds differently.

use std::fmt::Write as _;
use std::sync::OnceLock;

use regex::{Regex, RegexBuilder};

use super::ast::{Greed, Node, Repeat, Role, Sequence, UNBOUNDED};
use super::charset::Matcher;
use super::flags::Flags;
use super::grammar::Parsed;
use super::local::{FormId, LocalForm};
use super::program::Assertion;

/// Larger compiled forms do not pay off.
const SIZE_LIMIT: usize = 1 << 20;
/// Larger counted repeats unroll to forms that are too large.
const MAX_ROUNDS: u32 = 200;

/// The forms of a pattern for the `regex` crate, translated and compiled on first use.
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
    /// Whether the form is wrong for a string that ends with a line feed.
    excludes_final_line_feed: bool,
}

impl FastForms {
    pub(super) fn new(parsed: Parsed) -> Self {
        Self { parsed, ascii: OnceLock::new(), any: OnceLock::new() }
    }

    /// This thread's copy of the form that is valid for a string, if there is one.
    pub(super) fn for_text(&self, text: &str) -> Option<LocalForm> {
        // In an empty string Python has neither word boundaries nor non-boundaries.
        if text.is_empty() {
            return None;
        }
        let is_ascii = text.is_ascii();
        let form = if is_ascii { &self.ascii } else { &self.any };
        let form = form.get_or_init(|| self.write(is_ascii)).as_ref()?;
        let is_right = !form.excludes_final_line_feed || !text.ends_with('\n');
        is_right.then(|| LocalForm::of(form.id, &form.compiled))
    }

    fn write(&self, ascii: bool) -> Option<Form> {
        let mut writer = Writer::new(ascii);
        writer.sequence(&self.parsed.body, self.parsed.flags)?;
        let compiled = RegexBuilder::new(&writer.out).size_limit(SIZE_LIMIT).build().ok()?;
        Some(Form { id: FormId::new(), compiled, excludes_final_line_feed: writer.has_final_line_end })
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
            Node::Anchor(anchor) => self.assertion(Assertion::from_anchor(*anchor, flags)),
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
        let is_large = min > MAX_ROUNDS || (max != UNBOUNDED && max > MAX_ROUNDS);
        // The crate drops groups that are repeated zero times, which shifts the indices of others.
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

    fn assertion(&mut self, assertion: Assertion) -> Option<()> {
        self.out.push_str(match assertion {
            Assertion::TextStart => r"\A",
            Assertion::LineStart => r"(?m:^)",
            Assertion::TextEnd => r"\z",
            Assertion::FinalLineEnd => {
                self.has_final_line_end = true;
                r"\z"
            }
            Assertion::LineEnd => r"(?m:$)",
            Assertion::Boundary { .. } if self.ascii => r"\b",
            Assertion::NotBoundary { .. } if self.ascii => r"\B",
            Assertion::Boundary { .. } | Assertion::NotBoundary { .. } => return None,
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
            // Neither a string nor a set of the crate can contain a lone surrogate.
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
    fn large_forms_are_rejected() {
        let parsed = parse(&r"\w".repeat(5000), Flags::NONE).expect("pattern");
        let mut writer = Writer::new(false);
        assert!(writer.sequence(&parsed.body, parsed.flags).is_none());
        assert!(writer.out.len() < 2 * SIZE_LIMIT);
    }
}

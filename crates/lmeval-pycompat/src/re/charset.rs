//! Single-character matchers.

use super::ast::{Member, Node, Set};
use super::flags::Flags;
use super::unicode::{Category, alike, alike_in, lower, lower_ascii, lower_pairs, upper};

/// The first code point that a set leaves unfolded under IGNORECASE.
const BEYOND_BMP: u32 = 0x10000;

/// How characters are folded before they are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fold {
    /// No folding.
    None,
    /// ASCII letters to lower case.
    Ascii,
    /// All letters to lower case, one to one.
    Unicode,
}

impl Fold {
    /// The folding that the flags require.
    pub(super) fn from_flags(flags: Flags) -> Self {
        match (flags.contains(Flags::IGNORECASE), flags.contains(Flags::UNICODE)) {
            (false, _) => Self::None,
            (true, true) => Self::Unicode,
            (true, false) => Self::Ascii,
        }
    }

    /// Folds a character.
    pub(super) fn apply(self, code: u32) -> u32 {
        match self {
            Self::None => code,
            Self::Ascii => lower_ascii(code),
            Self::Unicode => lower(code),
        }
    }
}

/// Matches one character.
#[derive(Clone, Debug)]
pub(super) enum Matcher {
    /// Exactly this character.
    Character(char),
    /// Any character but a line feed.
    NotLineFeed,
    /// Any character, line feeds included.
    Anything,
    Class(Box<CharacterClass>),
}

impl Matcher {
    /// The matcher of a single-character item; `None` for other items.
    pub(super) fn from_node(node: &Node, flags: Flags) -> Option<Self> {
        let fold = Fold::from_flags(flags);
        Some(match node {
            Node::Character(code) => match char::from_u32(*code) {
                Some(character) if fold == Fold::None || !is_cased(character) => Self::Character(character),
                _ => Self::single(*code, false, flags),
            },
            Node::Dot if flags.contains(Flags::DOTALL) => Self::Anything,
            Node::Dot => Self::NotLineFeed,
            Node::Set(set) => Self::from_set(set, flags),
            _ => return None,
        })
    }

    fn from_set(set: &Set, flags: Flags) -> Self {
        // Reference: with IGNORECASE, a set of one character folds it like a bare character.
        if let [Member::Character(code)] = set.members.as_slice() {
            return Self::single(*code, set.negated, flags);
        }
        let mut class = CharacterClass::new(set.negated, flags);
        // Ranges are folded after they are merged: folding a wide one is expensive, and a set may repeat it.
        let (mut near, mut far) = (Vec::new(), Vec::new());
        for member in &set.members {
            match *member {
                Member::Range(first, last) if last < BEYOND_BMP => near.push((first, last)),
                Member::Range(first, last) => far.push((first, last)),
                Member::Character(code) => class.add_character(code),
                Member::Category { category, negated } => class.add_category((category, negated)),
            }
        }
        for (first, last) in merge(near).into_iter().chain(merge(far)) {
            class.add_range(first, last);
        }
        Self::Class(Box::new(class.finish()))
    }

    /// A matcher for one character in all its cases, or for everything else.
    fn single(code: u32, negated: bool, flags: Flags) -> Self {
        let mut class = CharacterClass::new(negated, flags);
        class.add_folded(code);
        Self::Class(Box::new(class.finish()))
    }

    #[inline]
    pub(super) fn matches(&self, code: u32) -> bool {
        match self {
            Self::Character(character) => code == u32::from(*character),
            Self::NotLineFeed => code != 10,
            Self::Anything => true,
            Self::Class(class) => class.matches(code),
        }
    }

    /// The ASCII characters that match, one bit each.
    pub(super) fn ascii_bits(&self) -> u128 {
        match self {
            Self::Class(class) => class.ascii,
            other => (0..128).filter(|&code| other.matches(code)).fold(0, |bits, code| bits | 1 << code),
        }
    }

    /// Whether a character outside ASCII may match.
    pub(super) fn may_match_beyond_ascii(&self) -> bool {
        match self {
            Self::Character(character) => !character.is_ascii(),
            Self::NotLineFeed | Self::Anything => true,
            Self::Class(class) => {
                class.negated
                    || class.fold == Fold::Unicode
                    || !class.folded_ranges.is_empty()
                    || !class.categories.is_empty()
                    || class.ranges.last().is_some_and(|range| range.1 >= 128)
            }
        }
    }

    /// The matching characters as sorted ranges; `None` if they are not known as ranges.
    pub(super) fn ranges(&self) -> Option<Vec<(u32, u32)>> {
        Some(match self {
            Self::Character(character) => vec![((*character).into(), (*character).into())],
            Self::NotLineFeed => complement(&[(10, 10)]),
            Self::Anything => complement(&[]),
            Self::Class(class) => return class.all_ranges(),
        })
    }
}

fn is_cased(character: char) -> bool {
    if character.is_ascii() {
        return character.is_ascii_alphabetic();
    }
    let code = u32::from(character);
    character.is_lowercase()
        || character.is_uppercase()
        || lower(code) != code
        || upper(code) != code
        || !alike(code).is_empty()
}

#[derive(Clone, Debug)]
pub(super) struct CharacterClass {
    negated: bool,
    fold: Fold,
    ascii_only: bool,
    ascii: u128,
    ranges: Vec<(u32, u32)>,
    folded_ranges: Vec<(u32, u32)>,
    categories: Vec<(Category, bool)>,
}

impl CharacterClass {
    fn new(negated: bool, flags: Flags) -> Self {
        Self {
            negated,
            fold: Fold::from_flags(flags),
            ascii_only: !flags.contains(Flags::UNICODE),
            ascii: 0,
            ranges: Vec::new(),
            folded_ranges: Vec::new(),
            categories: Vec::new(),
        }
    }

    fn add_category(&mut self, category: (Category, bool)) {
        if !self.categories.contains(&category) {
            self.categories.push(category);
        }
    }

    fn add_character(&mut self, code: u32) {
        // Reference: a set does not fold characters beyond the BMP although the input is folded, so an upper-case one
        // never matches.
        if self.fold == Fold::None || self.fold.apply(code) >= BEYOND_BMP {
            self.ranges.push((code, code));
        } else {
            self.add_folded(code);
        }
    }

    fn add_range(&mut self, first: u32, last: u32) {
        if self.fold == Fold::None {
            self.ranges.push((first, last));
            return;
        }
        if first < BEYOND_BMP {
            self.add_folded_range(first, last.min(BEYOND_BMP - 1));
        }
        if last >= BEYOND_BMP {
            self.folded_ranges.push((first, last));
        }
    }

    fn add_folded(&mut self, code: u32) {
        let folded = self.fold.apply(code);
        self.push(folded);
        if self.fold == Fold::Unicode {
            for &other in alike(folded) {
                self.push(other);
            }
        }
    }

    /// Adds a range with the lower-case forms of its members. Members that are not lower case stay in it, which does no
    /// harm, since the input is folded before it is compared.
    fn add_folded_range(&mut self, first: u32, last: u32) {
        self.ranges.push((first, last));
        if self.fold == Fold::Ascii {
            let (first, last) = (first.max('A'.into()), last.min('Z'.into()));
            if first <= last {
                self.ranges.push((lower_ascii(first), lower_ascii(last)));
            }
            return;
        }
        for (_, lower) in lower_pairs(first, last) {
            self.add_folded(lower);
        }
        for (_, others) in alike_in(first, last) {
            for &other in *others {
                self.push(other);
            }
        }
    }

    fn push(&mut self, code: u32) {
        match self.ranges.last_mut() {
            Some(last) if last.1 + 1 == code => last.1 = code,
            Some(last) if (last.0..=last.1).contains(&code) => {}
            _ => self.ranges.push((code, code)),
        }
    }

    fn finish(mut self) -> Self {
        self.ranges = merge(std::mem::take(&mut self.ranges));
        self.ascii = (0..128).filter(|&code| self.contains(code)).fold(0, |bits, code| bits | 1 << code);
        self
    }

    #[inline]
    fn matches(&self, code: u32) -> bool {
        if code < 128 { self.ascii >> code & 1 == 1 } else { self.contains(code) }
    }

    fn contains(&self, code: u32) -> bool {
        let code = self.fold.apply(code);
        let after = self.ranges.partition_point(|&(first, _)| first <= code);
        let found =
            after.checked_sub(1).and_then(|index| self.ranges.get(index)).is_some_and(|r| code <= r.1)
                || self
                    .categories
                    .iter()
                    .any(|&(category, negated)| category.contains(code, self.ascii_only) != negated)
                || self.folded_ranges.iter().any(|&(first, last)| {
                    (first..=last).contains(&code) || (first..=last).contains(&upper(code))
                });
        found != self.negated
    }

    fn all_ranges(&self) -> Option<Vec<(u32, u32)>> {
        if self.fold != Fold::None || !self.folded_ranges.is_empty() || self.ascii_only {
            return None;
        }
        let mut ranges = self.ranges.clone();
        for &(category, negated) in &self.categories {
            if negated {
                ranges.extend(complement(category.ranges()));
            } else {
                ranges.extend(category.ranges());
            }
        }
        let merged = merge(ranges);
        Some(if self.negated { complement(&merged) } else { merged })
    }
}

fn merge(mut ranges: Vec<(u32, u32)>) -> Vec<(u32, u32)> {
    ranges.sort_unstable();
    let mut merged: Vec<(u32, u32)> = Vec::with_capacity(ranges.len());
    for (first, last) in ranges {
        match merged.last_mut() {
            Some(open) if first <= open.1.saturating_add(1) => open.1 = open.1.max(last),
            _ => merged.push((first, last)),
        }
    }
    merged
}

/// Everything outside sorted ranges.
fn complement(ranges: &[(u32, u32)]) -> Vec<(u32, u32)> {
    let mut gaps = Vec::with_capacity(ranges.len() + 1);
    let mut next = 0;
    for &(first, last) in ranges {
        if first > next {
            gaps.push((next, first - 1));
        }
        next = last + 1;
    }
    if next <= u32::from(char::MAX) {
        gaps.push((next, char::MAX.into()));
    }
    gaps
}

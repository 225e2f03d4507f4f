//! The parsed form of a pattern.
//!
//! A pattern is a [`Sequence`] of [`Node`]s, one for each item that "Regular Expression Syntax" in the `re`
//! documentation describes. A sequence is summed up when it is made, so that no later question about it walks the
//! tree: patterns may be large, and such questions are asked at every level.

use super::flags::Flags;
use super::unicode::Category;

/// No upper bound of a repeat.
pub(super) const UNBOUNDED: u32 = u32::MAX;

/// One member of a character set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Member {
    /// One character; a number because a pattern may name a lone surrogate.
    Character(u32),
    /// A range with both ends.
    Range(u32, u32),
    /// A category, or everything outside it.
    Category {
        /// Which category.
        category: Category,
        /// Whether its complement is meant.
        negated: bool,
    },
}

/// A character set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Set {
    /// Whether the set is complemented.
    pub(super) negated: bool,
    /// The members.
    pub(super) members: Vec<Member>,
}

/// A place that matches without taking a character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    /// `^`.
    Start,
    /// `$`.
    End,
    /// `\A`.
    TextStart,
    /// `\Z`.
    TextEnd,
    /// `\b`.
    Boundary,
    /// `\B`.
    NotBoundary,
}

/// How a repeat gives characters back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Greed {
    /// As many as possible first.
    Greedy,
    /// As few as possible first.
    Lazy,
    /// As many as possible, never giving one back.
    Possessive,
}

/// What a pair of parentheses does beside holding a part together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Nothing, or it changes flags.
    Plain,
    /// Captures what it matches under a number.
    Capture(usize),
    /// Never gives anything back: `(?>…)`.
    Atomic,
}

/// A group.
#[derive(Clone, Debug)]
pub(super) struct Group {
    /// What the parentheses do.
    pub(super) role: Role,
    /// Flags switched on inside.
    pub(super) added: Flags,
    /// Flags switched off inside.
    pub(super) removed: Flags,
    /// The contents.
    pub(super) body: Sequence,
}

/// A repeat.
#[derive(Clone, Debug)]
pub(super) struct Repeat {
    /// Fewest rounds.
    pub(super) min: u32,
    /// Most rounds, [`UNBOUNDED`] for no limit.
    pub(super) max: u32,
    /// Greedy, lazy or possessive.
    pub(super) greed: Greed,
    /// What is repeated.
    pub(super) body: Sequence,
}

/// `(?(1)yes|no)`.
#[derive(Clone, Debug)]
pub(super) struct Conditional {
    /// The group that decides.
    pub(super) group: usize,
    /// Taken where the group has matched.
    pub(super) yes: Sequence,
    /// Taken otherwise; empty where the pattern names nothing.
    pub(super) no: Sequence,
}

/// Look-ahead or look-behind.
#[derive(Clone, Debug)]
pub(super) struct Look {
    /// Whether it looks back.
    pub(super) behind: bool,
    /// Whether its contents must not match.
    pub(super) negated: bool,
    /// The contents.
    pub(super) body: Sequence,
}

/// One item of a pattern.
#[derive(Clone, Debug)]
pub(super) enum Node {
    /// One character.
    Character(u32),
    /// `.`.
    Dot,
    /// A character set.
    Set(Box<Set>),
    /// An anchor.
    Anchor(Anchor),
    /// What a group matched, with the width of that group.
    Backreference(usize, Width),
    /// The first alternative that matches.
    Alternatives(Vec<Sequence>),
    /// A pair of parentheses.
    Group(Box<Group>),
    /// A repeat.
    Repeat(Box<Repeat>),
    /// A choice that depends on a group.
    Conditional(Box<Conditional>),
    /// Look-ahead or look-behind.
    Look(Box<Look>),
}

/// The fewest and the most characters that something matches; `u64::MAX` is "no limit".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Width {
    /// The fewest.
    pub(super) least: u64,
    /// The most.
    pub(super) most: u64,
}

impl Width {
    const ONE: Self = Self { least: 1, most: 1 };

    fn then(self, next: Self) -> Self {
        Self { least: self.least.saturating_add(next.least), most: self.most.saturating_add(next.most) }
    }

    fn or(self, other: Self) -> Self {
        Self { least: self.least.min(other.least), most: self.most.max(other.most) }
    }

    fn times(self, min: u32, max: u32) -> Self {
        let most = match max {
            UNBOUNDED if self.most > 0 => u64::MAX,
            _ => self.most.saturating_mul(u64::from(max)),
        };
        Self { least: self.least.saturating_mul(u64::from(min)), most }
    }
}

/// A sequence of items, and what is known about all of them together.
#[derive(Clone, Debug)]
pub(super) struct Sequence {
    /// The items.
    pub(super) nodes: Vec<Node>,
    /// How many characters a match takes.
    pub(super) width: Width,
    /// Whether there is a capturing group inside.
    pub(super) captures: bool,
    /// Whether every match goes through all groups inside.
    pub(super) is_straight: bool,
}

impl Sequence {
    /// A sequence of items.
    pub(super) fn new(nodes: Vec<Node>) -> Self {
        let mut sequence =
            Self { nodes: Vec::new(), width: Width::default(), captures: false, is_straight: true };
        for node in &nodes {
            sequence.width = sequence.width.then(node.width());
            sequence.captures |= node.captures();
            sequence.is_straight &= node.is_straight();
        }
        sequence.nodes = nodes;
        sequence
    }

    /// Whether the sequence is one character matcher, bare or in groups that only set flags.
    pub(super) fn is_single_character(&self) -> bool {
        match self.nodes.as_slice() {
            [Node::Character(_) | Node::Dot | Node::Set(_)] => true,
            [Node::Group(group)] => group.role == Role::Plain && group.body.is_single_character(),
            _ => false,
        }
    }
}

impl Node {
    fn width(&self) -> Width {
        match self {
            Self::Character(_) | Self::Dot | Self::Set(_) => Width::ONE,
            Self::Anchor(_) | Self::Look(_) => Width::default(),
            Self::Backreference(_, width) => *width,
            Self::Alternatives(branches) => {
                branches.iter().map(|branch| branch.width).reduce(Width::or).unwrap_or_default()
            }
            Self::Group(group) => group.body.width,
            Self::Repeat(repeat) => repeat.body.width.times(repeat.min, repeat.max),
            Self::Conditional(conditional) => conditional.yes.width.or(conditional.no.width),
        }
    }

    fn captures(&self) -> bool {
        match self {
            Self::Group(group) => matches!(group.role, Role::Capture(_)) || group.body.captures,
            Self::Repeat(repeat) => repeat.body.captures,
            Self::Look(look) => look.body.captures,
            Self::Alternatives(branches) => branches.iter().any(|branch| branch.captures),
            Self::Conditional(conditional) => conditional.yes.captures || conditional.no.captures,
            _ => false,
        }
    }

    fn is_straight(&self) -> bool {
        match self {
            Self::Group(group) => group.role != Role::Atomic && group.body.is_straight,
            Self::Repeat(repeat) => repeat.body.is_single_character(),
            Self::Alternatives(_) | Self::Look(_) | Self::Conditional(_) => false,
            _ => true,
        }
    }

    /// Whether both are the same item, for items that hold no others.
    pub(super) fn is_same_leaf(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Character(one), Self::Character(two)) => one == two,
            (Self::Dot, Self::Dot) => true,
            (Self::Set(one), Self::Set(two)) => one == two,
            (Self::Anchor(one), Self::Anchor(two)) => one == two,
            (Self::Backreference(one, _), Self::Backreference(two, _)) => one == two,
            _ => false,
        }
    }
}

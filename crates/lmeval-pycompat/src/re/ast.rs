//! The parsed form of a pattern.
//!
//! A pattern is a [`Sequence`] of [`Node`]s, one for each item that "Regular Expression Syntax" in the `re`
//! documentation describes. A sequence is summarised when it is created, so that later queries never walk the tree:
//! patterns may be large, and every level makes such queries.

use super::flags::Flags;
use super::unicode::Category;

/// The upper bound of a repeat without one.
pub(super) const UNBOUNDED: u32 = u32::MAX;

/// One member of a character set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Member {
    /// One character; an integer because a pattern may name a lone surrogate.
    Character(u32),
    /// A range, both ends included.
    Range(u32, u32),
    /// A category, or everything outside it.
    Category {
        category: Category,
        /// Whether the complement is meant.
        negated: bool,
    },
}

/// A character set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Set {
    /// Whether the set is complemented.
    pub(super) negated: bool,
    pub(super) members: Vec<Member>,
}

/// A zero-width assertion.
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

/// How a repeat gives back characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Greed {
    /// As many as possible first.
    Greedy,
    /// As few as possible first.
    Lazy,
    /// As many as possible, never giving one back.
    Possessive,
}

/// The role of a pair of parentheses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Grouping only, or changing flags.
    Plain,
    /// Captures its match as the group with this index.
    Capture(usize),
    /// Never gives anything back: `(?>…)`.
    Atomic,
}

#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) role: Role,
    /// Flags switched on inside.
    pub(super) added: Flags,
    /// Flags switched off inside.
    pub(super) removed: Flags,
    pub(super) body: Sequence,
}

#[derive(Clone, Debug)]
pub(super) struct Repeat {
    /// The minimum number of rounds.
    pub(super) min: u32,
    /// The maximum number of rounds, or [`UNBOUNDED`].
    pub(super) max: u32,
    pub(super) greed: Greed,
    pub(super) body: Sequence,
}

/// `(?(1)yes|no)`.
#[derive(Clone, Debug)]
pub(super) struct Conditional {
    /// The group that decides.
    pub(super) group: usize,
    /// Used if the group has matched.
    pub(super) yes: Sequence,
    /// Used otherwise; empty if the pattern has no second alternative.
    pub(super) no: Sequence,
}

/// Lookahead or lookbehind.
#[derive(Clone, Debug)]
pub(super) struct Look {
    /// Whether it is a lookbehind.
    pub(super) behind: bool,
    /// Whether its contents must not match.
    pub(super) negated: bool,
    pub(super) body: Sequence,
}

/// One item of a pattern.
#[derive(Clone, Debug)]
pub(super) enum Node {
    /// One character, which may be a lone surrogate.
    Character(u32),
    /// `.`.
    Dot,
    Set(Box<Set>),
    Anchor(Anchor),
    /// The match of a group, with the width of that group.
    Backreference(usize, Width),
    /// The first alternative that matches.
    Alternatives(Vec<Sequence>),
    Group(Box<Group>),
    Repeat(Box<Repeat>),
    Conditional(Box<Conditional>),
    Look(Box<Look>),
}

/// The minimum and maximum number of characters that an item matches; `u64::MAX` means unbounded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Width {
    pub(super) least: u64,
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

/// A sequence of items, with a summary of their properties.
#[derive(Clone, Debug)]
pub(super) struct Sequence {
    pub(super) nodes: Vec<Node>,
    /// The number of characters that a match takes.
    pub(super) width: Width,
    /// Whether there is a capturing group inside.
    pub(super) captures: bool,
    /// Whether every match passes through all groups inside.
    pub(super) is_straight: bool,
}

impl Sequence {
    /// Creates a sequence and its summary.
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

    /// Whether the sequence is a single character matcher, bare or in groups that only set flags.
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

    /// Whether both are the same item, for items that contain no others.
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

//! The parsed form of a pattern.

use super::flags::Flags;
use super::unicode::Category;

/// No upper bound of a repeat.
pub(super) const UNBOUNDED: u32 = u32::MAX;
/// The width of what has no greatest width.
pub(super) const MAX_WIDTH: u128 = 1 << 64;

/// One member of a character set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Member {
    /// One character; a number because a pattern may name a lone surrogate.
    Literal(u32),
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

/// One item of a pattern.
#[derive(Clone, Debug)]
pub(super) enum Node {
    /// One character.
    Literal(u32),
    /// Any character but one.
    NotLiteral(u32),
    /// `.`.
    Any,
    /// A character set.
    Set {
        /// Whether the set is complemented.
        negated: bool,
        /// The members.
        members: Vec<Member>,
    },
    /// An anchor.
    At(Anchor),
    /// Alternatives.
    Branch(Vec<Sequence>),
    /// A group, capturing or not, perhaps with flags of its own.
    Group {
        /// The number, where it captures.
        index: Option<usize>,
        /// Flags switched on inside.
        added: Flags,
        /// Flags switched off inside.
        removed: Flags,
        /// The contents.
        body: Sequence,
    },
    /// `(?>…)`.
    Atomic(Sequence),
    /// A repeat.
    Repeat {
        /// Fewest rounds.
        min: u32,
        /// Most rounds, [`UNBOUNDED`] for no limit.
        max: u32,
        /// Greedy, lazy or possessive.
        greed: Greed,
        /// What is repeated.
        body: Sequence,
    },
    /// A back-reference.
    Reference(usize),
    /// `(?(1)yes|no)`.
    Conditional {
        /// The group that decides.
        group: usize,
        /// Taken where the group has matched.
        yes: Sequence,
        /// Taken otherwise.
        no: Option<Sequence>,
    },
    /// Look-ahead or look-behind.
    Look {
        /// Whether it looks back.
        behind: bool,
        /// Whether its contents must not match.
        negated: bool,
        /// The contents.
        body: Sequence,
    },
}

/// A sequence of items with its least and greatest width in characters.
#[derive(Clone, Debug, Default)]
pub(super) struct Sequence {
    /// The items.
    pub(super) nodes: Vec<Node>,
}

/// Least and greatest width.
pub(super) type Width = (u128, u128);

impl Sequence {
    /// The width of the sequence; `groups` holds the widths of closed groups by number.
    pub(super) fn width(&self, groups: &[Option<Width>]) -> Width {
        let (mut low, mut high) = (0_u128, 0_u128);
        for node in &self.nodes {
            let (least, greatest) = node.width(groups);
            low = low.saturating_add(least);
            high = high.saturating_add(greatest);
        }
        (low.min(MAX_WIDTH), high.min(MAX_WIDTH))
    }

    /// Whether there is a capturing group inside.
    pub(super) fn captures(&self) -> bool {
        self.nodes.iter().any(|node| match node {
            Node::Group { index: Some(_), .. } => true,
            Node::Group { body, .. }
            | Node::Atomic(body)
            | Node::Repeat { body, .. }
            | Node::Look { body, .. } => body.captures(),
            Node::Branch(branches) => branches.iter().any(Self::captures),
            Node::Conditional { yes, no, .. } => yes.captures() || no.as_ref().is_some_and(Self::captures),
            _ => false,
        })
    }

    /// Whether every match goes through all groups inside.
    pub(super) fn is_straight(&self) -> bool {
        self.nodes.iter().all(|node| match node {
            Node::Group { body, .. } => body.is_straight(),
            Node::Repeat { body, .. } => body.is_single_character(),
            Node::Branch(_) | Node::Atomic(_) | Node::Look { .. } | Node::Conditional { .. } => false,
            _ => true,
        })
    }

    /// Whether the sequence is one character matcher, bare or in groups that only set flags.
    pub(super) fn is_single_character(&self) -> bool {
        match self.nodes.as_slice() {
            [Node::Literal(_) | Node::NotLiteral(_) | Node::Any | Node::Set { .. }] => true,
            [Node::Group { index: None, body, .. }] => body.is_single_character(),
            _ => false,
        }
    }
}

impl Node {
    fn width(&self, groups: &[Option<Width>]) -> Width {
        match self {
            Self::Literal(_) | Self::NotLiteral(_) | Self::Any | Self::Set { .. } => (1, 1),
            Self::At(_) | Self::Look { .. } => (0, 0),
            Self::Branch(branches) => {
                let widths: Vec<Width> = branches.iter().map(|branch| branch.width(groups)).collect();
                let low = widths.iter().map(|width| width.0).min().unwrap_or(0);
                let high = widths.iter().map(|width| width.1).max().unwrap_or(0);
                (low, high)
            }
            Self::Group { body, .. } | Self::Atomic(body) => body.width(groups),
            Self::Repeat { min, max, body, .. } => {
                let (low, high) = body.width(groups);
                let greatest = if *max == UNBOUNDED && high > 0 {
                    MAX_WIDTH
                } else {
                    high.saturating_mul(u128::from(*max))
                };
                (low.saturating_mul(u128::from(*min)), greatest)
            }
            Self::Reference(group) => groups.get(*group).copied().flatten().unwrap_or((0, MAX_WIDTH)),
            Self::Conditional { yes, no, .. } => {
                let (low, high) = yes.width(groups);
                let (other_low, other_high) = no.as_ref().map_or((0, 0), |no| no.width(groups));
                (low.min(other_low), high.max(other_high))
            }
        }
    }

    /// Whether both are the same item, for items that hold no others.
    pub(super) fn is_same_simple(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Literal(one), Self::Literal(two)) | (Self::NotLiteral(one), Self::NotLiteral(two)) => {
                one == two
            }
            (Self::Any, Self::Any) => true,
            (Self::At(one), Self::At(two)) => one == two,
            (Self::Reference(one), Self::Reference(two)) => one == two,
            (Self::Set { negated: a, members: one }, Self::Set { negated: b, members: two }) => {
                a == b && one == two
            }
            _ => false,
        }
    }
}

//! Compilation flags.

use std::ops::{BitOr, BitOrAssign};

/// Compilation flags of a pattern, combined with `|`.
///
/// ```
/// use lmeval_pycompat::re::Flags;
///
/// let flags = Flags::IGNORECASE | Flags::DOTALL;
/// assert!(flags.contains(Flags::DOTALL) && !flags.contains(Flags::MULTILINE));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags(u8);

impl Flags {
    /// No flags.
    pub const NONE: Self = Self(0);
    /// `re.IGNORECASE`, `(?i)`.
    pub const IGNORECASE: Self = Self(1);
    /// `re.MULTILINE`, `(?m)`.
    pub const MULTILINE: Self = Self(2);
    /// `re.DOTALL`, `(?s)`.
    pub const DOTALL: Self = Self(4);
    /// `re.VERBOSE`, `(?x)`.
    pub const VERBOSE: Self = Self(8);
    /// `re.ASCII`, `(?a)`.
    pub const ASCII: Self = Self(16);
    /// `re.UNICODE`, `(?u)`: the default; mutually exclusive with [`Flags::ASCII`].
    pub const UNICODE: Self = Self(32);
    /// `re.TEMPLATE`, `(?t)`: forbids repeats; present because the syntax still accepts it.
    pub(super) const TEMPLATE: Self = Self(64);

    /// The mutually exclusive flags that define letters, digits and whitespace.
    pub(super) const ALPHABETS: Self = Self(16 | 32);

    /// Whether every flag of `other` is set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether some flag of `other` is set.
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// These flags without those of `other`.
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether no flag is set.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The flags inside a group such as `(?a-i:…)`, given those around it.
    pub(super) fn combine(self, added: Self, removed: Self) -> Self {
        let kept = if added.intersects(Self::ALPHABETS) { self.without(Self::ALPHABETS) } else { self };
        (kept | added).without(removed)
    }

    /// The flag of an inline letter, except `L`.
    pub(super) fn from_letter(letter: char) -> Option<Self> {
        Some(match letter {
            'i' => Self::IGNORECASE,
            'm' => Self::MULTILINE,
            's' => Self::DOTALL,
            'x' => Self::VERBOSE,
            'a' => Self::ASCII,
            'u' => Self::UNICODE,
            't' => Self::TEMPLATE,
            _ => return None,
        })
    }
}

impl BitOr for Flags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Flags {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

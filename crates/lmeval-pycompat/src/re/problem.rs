//! All errors in patterns and replacement templates, in one list.
//!
//! Each problem has a message and an [`ErrorKind`]; the position comes from the [cursor](super::cursor). The wording is
//! ours: programs depend on kind and position ("Exceptions" in the `re` documentation), not on the message.

use super::error::{Error, ErrorKind, shortened};

#[derive(Debug, thiserror::Error)]
pub(super) enum Problem {
    // Repeats.
    #[error("there is nothing here to repeat")]
    NothingToRepeat,
    #[error("a repeat cannot be repeated; put it in a group first")]
    RepeatOfRepeat,
    #[error("the lower bound of the repeat is above its upper bound")]
    BoundsReversed,
    #[error("the repeat count is too large; the limit is 4294967294")]
    CountTooLarge,
    #[error("no repeats are allowed under the flag `t`")]
    RepeatUnderTemplate,
    #[error("a possessive repeat with groups inside alternatives, repeats or lookaround")]
    PossessiveGroups,

    // Sets and escapes.
    #[error("the range `{0}` is reversed or does not connect two characters")]
    BadRange(String),
    #[error("the escape `{0}` has no meaning here")]
    UnknownEscape(String),
    #[error("the escape `{0}` needs more hexadecimal digits")]
    ShortEscape(String),
    #[error("the octal escape `{0}` is larger than `\\377`")]
    LargeOctal(String),
    #[error("the backslash at the end has nothing to escape")]
    LoneBackslash,
    #[error("`\\N` takes a name in braces")]
    NoBrace,
    #[error("characters cannot be given by name; write `\\uXXXX` instead")]
    CharacterName,

    // Groups and references to them.
    #[error("the {0} is never closed")]
    Unclosed(&'static str),
    #[error("the parenthesis was never opened")]
    Unopened,
    #[error("the pattern stops in the middle of `(?…`")]
    CutShort,
    #[error("no kind of group starts with `({0}`")]
    UnknownGroupKind(String),
    #[error("groups nested more than {0} deep")]
    TooDeep(usize),
    #[error("more than {0} items")]
    TooLarge(usize),
    #[error("the name is empty")]
    EmptyName,
    #[error("`{0}` cannot name a group")]
    BadName(String),
    #[error("the name `{name}` already belongs to group `{first}`")]
    NameTaken { name: String, first: usize },
    #[error("no group is named `{0}`")]
    UnknownName(String),
    #[error("there is no group `{0}`")]
    NoSuchGroup(String),
    #[error("a conditional cannot refer to group 0")]
    GroupZero,
    #[error("the group referred to is not closed yet")]
    OpenGroup,
    #[error("a lookbehind cannot refer to a group inside it")]
    GroupOfLookBehind,
    #[error("a conditional inside the group it refers to")]
    ConditionInside,
    #[error("a conditional has at most two alternatives")]
    ThirdAlternative,
    #[error("a lookbehind must match a fixed number of characters")]
    VariableLookBehind,
    #[error("the lookbehind reaches too far back")]
    FarLookBehind,
    #[error("`\\g` takes a group in angle brackets")]
    NoAngleBracket,

    // Flags.
    #[error("flags for the entire pattern must be at its start; for a part, write `(?flags:…)`")]
    LateFlags,
    #[error("flags are written `(?flags)`, `(?flags:…)` or `(?flags-flags:…)`")]
    BadFlags,
    #[error("the flag `L` is for byte patterns")]
    LocaleFlag,
    #[error("`a` and `u` exclude each other")]
    TwoAlphabets,
    #[error("`a`, `L`, `t` and `u` cannot be switched off")]
    AlwaysOn,
    #[error("`t` can only be set for the entire pattern")]
    GlobalOnly,
    #[error("a flag cannot be switched on and off at once")]
    OnAndOff,
    #[error("the flags ASCII and UNICODE exclude each other")]
    FlagConflict,
}

impl Problem {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::CountTooLarge => ErrorKind::Overflow,
            Self::PossessiveGroups
            | Self::ConditionInside
            | Self::CharacterName
            | Self::TooDeep(_)
            | Self::TooLarge(_) => ErrorKind::NotSupported,
            _ => ErrorKind::Pattern,
        }
    }

    /// Converts the problem into an error at a position in a pattern or template.
    pub(super) fn into_error(self, position: Option<usize>, text: &str) -> Error {
        Error::new(self.kind(), self.to_string(), position, text)
    }
}

/// Quotes part of a pattern in a message, truncated if it is very long.
pub(super) fn quoted(part: &str) -> String {
    shortened(part, 60).into_owned()
}

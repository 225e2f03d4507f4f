//! Everything that can be wrong with a pattern or a replacement template, in one list.
//!
//! Each problem knows its words and its [`ErrorKind`]; the place comes from the [cursor](super::cursor). The words are
//! ours: programs depend on the kind and the place ("Exceptions" in the `re` documentation), not on the sentence.

use super::error::{Error, ErrorKind, shortened};

/// What is wrong.
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
    #[error("a possessive repeat with groups inside alternatives, repeats or look-around")]
    PossessiveGroups,

    // Sets and escapes.
    #[error("the range `{0}` runs backwards or does not run between two characters")]
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

    // Groups and what refers to them.
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
    #[error("a conditional cannot ask for group 0")]
    GroupZero,
    #[error("the group referred to is not closed yet")]
    OpenGroup,
    #[error("a look-behind cannot refer to a group of its own")]
    GroupOfLookBehind,
    #[error("a conditional inside the group it asks for")]
    ConditionInside,
    #[error("a conditional has at most two alternatives")]
    ThirdAlternative,
    #[error("a look-behind must match a fixed number of characters")]
    VariableLookBehind,
    #[error("the look-behind reaches too far back")]
    FarLookBehind,
    #[error("`\\g` takes a group in angle brackets")]
    NoAngleBracket,

    // Flags.
    #[error("flags for the whole pattern must stand at its start; for a part, write `(?flags:…)`")]
    LateFlags,
    #[error("flags are written `(?flags)`, `(?flags:…)` or `(?flags-flags:…)`")]
    BadFlags,
    #[error("the flag `L` is for patterns of bytes")]
    LocaleFlag,
    #[error("`a` and `u` exclude each other")]
    TwoAlphabets,
    #[error("`a`, `L`, `t` and `u` cannot be switched off")]
    AlwaysOn,
    #[error("`t` can only be set for the whole pattern")]
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

    /// The error about this problem at a place in a text.
    pub(super) fn into_error(self, position: Option<usize>, text: &str) -> Error {
        Error::new(self.kind(), self.to_string(), position, text)
    }
}

/// A part of a pattern as messages quote it, without the end of a very long one.
pub(super) fn quoted(part: &str) -> String {
    shortened(part, 60).into_owned()
}

//! The tokens of YAML.

use std::borrow::Cow;

use super::super::Position;

/// How a scalar is written, as far as its meaning depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Style {
    Plain,
    Quoted,
    Block,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum TokenKind<'a> {
    StreamEnd,
    VersionDirective { major: u32, minor: u32 },
    TagDirective { handle: String, prefix: String },
    DocumentStart,
    DocumentEnd,
    BlockSequenceStart,
    BlockMappingStart,
    BlockEnd,
    FlowSequenceStart,
    FlowSequenceEnd,
    FlowMappingStart,
    FlowMappingEnd,
    BlockEntry,
    FlowEntry,
    Key,
    Value,
    Alias(&'a str),
    Anchor(&'a str),
    Tag { handle: String, suffix: String },
    Scalar { text: Cow<'a, str>, style: Style },
}

#[derive(Clone, Debug)]
pub(in super::super) struct Token<'a> {
    pub(in super::super) kind: TokenKind<'a>,
    pub(in super::super) start: Position,
    pub(in super::super) end: Position,
}

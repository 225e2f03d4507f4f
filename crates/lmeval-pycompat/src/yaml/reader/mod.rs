//! Parses a document into nodes: a recursive-descent reader of YAML 1.1.
//!
//! Each construct of the specification is one function: it starts at the cursor, reads exactly that construct and
//! returns its node. The characters at the cursor decide what to read next; no token is queued or put back.
//!
//! The only state besides the cursor is two facts about its position. `flow` counts the open brackets: inside them
//! indentation does not matter and indicators need no whitespace around them. `fresh` means that only indentation and
//! block indicators precede the cursor on its line; block collections only start there (section 8.5.2).
//!
//! The one construct that cannot be recognised by its first character is a mapping without `?`: its first key looks
//! like any other node. So the node is read first, and a `:` after it on the same line makes it a key
//! ([`Reader::is_value_of`]). The specification limits such a key to one line and 1024 characters (section 10.2.1), so
//! that a reader never has to look far ahead; this one does not look ahead at all, and never reads anything twice.
//!
//! | file | sections |
//! |---|---|
//! | `cursor` | 5 Characters |
//! | `stream` | 7 YAML character stream |
//! | `properties` | 7.1.2 Tag prefixes and handles, 8.1 Node anchors, 8.2 Node tags |
//! | `block` | 8.5.2, 10.1.2, 10.2.2 Block nodes, sequences and mappings |
//! | `flow` | 8.5.1, 10.1.1, 10.2.1 Flow nodes, sequences and mappings |
//! | `scalar` | 6.5 Line folding, 9.1 Flow scalar styles |
//! | `block_scalar` | 9.2, 9.3 Block scalars |

mod block;
mod block_scalar;
mod cursor;
mod flow;
mod properties;
mod scalar;
mod stream;

use std::borrow::Cow;

use rustc_hash::FxHashMap;

use self::cursor::Cursor;
use super::graph::{Builder, Child, NodeId, Properties, TagProperty};
use super::resolve::Tag;
use super::{Error, ErrorKind, Loader, Position};

/// The maximum length of a key without a question mark, in characters up to its colon.
const MAX_KEY_LENGTH: u32 = 1024;

pub(super) struct Reader<'a, 'o> {
    at: Cursor<'a>,
    graph: Builder<'a, 'o>,
    /// The number of open flow collections.
    flow: usize,
    /// Whether a block collection could start here.
    fresh: bool,
    /// The handles that `%TAG` directives define.
    handles: FxHashMap<&'a str, String>,
}

/// The content of a node, without its properties.
struct Body {
    is_plain: bool,
    /// The offset where it ends.
    end: usize,
}

impl<'a, 'o> Reader<'a, 'o> {
    pub(super) fn new(text: &'a str, loader: &'o Loader) -> Self {
        Self {
            at: Cursor::new(text),
            graph: Builder::new(loader),
            flow: 0,
            fresh: true,
            handles: FxHashMap::default(),
        }
    }

    /// Skips whitespace, comments and line breaks (sections 6.1 to 6.3). A tab is whitespace only where it cannot be
    /// mistaken for indentation.
    fn skip_gap(&mut self) {
        loop {
            // Reference: a byte order mark may start any line, and takes a column.
            if self.at.column == 0 && self.at.text[self.at.offset..].starts_with('\u{feff}') {
                self.at.move_to(self.at.offset + '\u{feff}'.len_utf8());
            }
            if self.flow > 0 || !self.fresh {
                self.at.skip_white();
            } else {
                self.at.skip_spaces();
            }
            if self.at.byte() == b'#' {
                self.at.move_to(self.at.line_end());
            }
            if self.at.take_break().is_none() {
                return;
            }
            if self.flow == 0 {
                self.fresh = true;
            }
        }
    }

    /// Whether the cursor is at `?` as an indicator.
    fn is_key_indicator(&self) -> bool {
        self.at.byte() == b'?' && (self.flow > 0 || self.at.is_indicator(b'?'))
    }

    /// Whether the cursor is at `:` as an indicator.
    fn is_value_indicator(&self) -> bool {
        self.at.byte() == b':' && (self.flow > 0 || self.at.is_indicator(b':'))
    }

    /// Whether the cursor is at a `:` that makes the node that started at `start` a key.
    fn is_value_of(&self, start: Position) -> bool {
        self.is_value_indicator()
            && self.at.line == start.line
            && self.at.column - start.column <= MAX_KEY_LENGTH
    }

    /// A node without content.
    fn empty(&mut self, mut properties: Properties<'a>, position: Position) -> Result<Child, Error> {
        // Reference: `!` without content is an empty string, not null.
        if matches!(properties.tag, Some(TagProperty::NonSpecific)) {
            properties.tag = Some(TagProperty::Named(Tag::Str));
        }
        let (start, end) = properties.location.unwrap_or((position, position.offset));
        let id = self.graph.reserve(start)?;
        self.graph.bind(properties.anchor, id);
        Ok(self.graph.close(id, properties, true, end))
    }

    /// Reads an alias (section 8.4).
    fn alias(&mut self) -> Result<Child, Error> {
        let start = self.at.position();
        let name = self.name("an alias")?;
        self.fresh = false;
        self.graph.alias(name, start, self.at.offset)
    }

    /// Reads a scalar or a flow collection into a node; `parent` is the indentation around it.
    fn body(&mut self, id: NodeId, parent: i32) -> Result<Body, Error> {
        self.fresh = false;
        let (text, end) = match self.at.byte() {
            b'[' => return self.flow_sequence(id, parent),
            b'{' => return self.flow_mapping(id, parent),
            quote @ (b'"' | b'\'') => self.quoted(quote)?,
            b'|' | b'>' if self.flow == 0 => {
                let (text, end) = self.block_scalar(parent)?;
                (Cow::Owned(text), end)
            }
            _ if self.is_plain_start() => {
                let (text, end) = self.plain(parent)?;
                self.graph.fill(id, text);
                return Ok(Body { is_plain: true, end });
            }
            _ => return Err(self.unexpected("a value")),
        };
        self.graph.fill(id, text);
        Ok(Body { is_plain: false, end })
    }

    /// The error for the character at the cursor, if `wanted` was expected.
    fn unexpected(&self, wanted: &str) -> Error {
        let scanner = |message: String| Error::new(ErrorKind::Scanner, message, self.at.position());
        match self.at.byte() {
            b'\t' => scanner("a tab cannot indent".to_owned()),
            b':' if self.flow == 0 && self.at.is_indented_by_tab() => {
                scanner("a tab cannot indent".to_owned())
            }
            b':' if self.flow == 0 && self.is_value_indicator() => scanner(
                "a `:` without a key before it on the line; quote a scalar that contains `: `".to_owned(),
            ),
            byte @ (b'-' | b'?') if self.flow == 0 && self.at.is_indicator(byte) => {
                scanner(format!("`{}` must begin a line to begin a collection", char::from(byte)))
            }
            byte @ (b'@' | b'`' | b'%') => {
                scanner(format!("a scalar that starts with `{}` needs quotes", char::from(byte)))
            }
            _ => Error::new(ErrorKind::Parser, format!("expected {wanted}"), self.at.position()),
        }
    }

    /// Like [`unexpected`](Self::unexpected), with the enclosing construct if that explains the error.
    fn unexpected_in(&self, wanted: &str, context: &'static str, start: Position) -> Error {
        let error = self.unexpected(wanted);
        if error.kind() == ErrorKind::Parser { error.during(context, start) } else { error }
    }
}

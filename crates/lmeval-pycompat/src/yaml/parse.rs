//! Tokens to events: the grammar of YAML as libyaml 0.2.5 accepts it.

use std::borrow::Cow;

use rustc_hash::FxHashMap;

use super::scan::{Scanner, Style, Token, TokenKind};
use super::{Error, ErrorKind, Position};

/// The prefix of the tags that `!!` stands for.
pub(super) const CORE_PREFIX: &str = "tag:yaml.org,2002:";

/// Anchor and tag of a node.
#[derive(Debug, Default)]
pub(super) struct Properties<'a> {
    pub(super) anchor: Option<&'a str>,
    pub(super) tag: Option<String>,
}

#[derive(Debug)]
pub(super) enum EventKind<'a> {
    StreamEnd,
    DocumentStart,
    DocumentEnd,
    Alias(&'a str),
    /// `implicit` says that the text decides the type.
    Scalar {
        properties: Properties<'a>,
        text: Cow<'a, str>,
        style: Style,
        implicit: bool,
    },
    SequenceStart {
        properties: Properties<'a>,
        flow: bool,
    },
    SequenceEnd,
    MappingStart {
        properties: Properties<'a>,
        flow: bool,
    },
    MappingEnd,
}

#[derive(Debug)]
pub(super) struct Event<'a> {
    pub(super) kind: EventKind<'a>,
    pub(super) start: Position,
    pub(super) end: Position,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    FirstDocumentStart,
    DocumentStart,
    DocumentContent,
    DocumentEnd,
    BlockNode,
    BlockSequenceFirst,
    BlockSequenceEntry,
    IndentlessSequenceEntry,
    BlockMappingFirst,
    BlockMappingKey,
    BlockMappingValue,
    FlowSequenceFirst,
    FlowSequenceEntry,
    FlowPairKey,
    FlowPairValue,
    FlowPairEnd,
    FlowMappingFirst,
    FlowMappingKey,
    FlowMappingValue,
    FlowMappingEmptyValue,
    End,
}

type Parsed<'a> = Result<Event<'a>, Error>;

/// The events of one text.
pub(super) struct Parser<'a> {
    scanner: Scanner<'a>,
    state: State,
    states: Vec<State>,
    /// Where the open collections began, for messages.
    starts: Vec<Position>,
    tag_prefixes: FxHashMap<String, String>,
}

impl<'a> Parser<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            scanner: Scanner::new(text),
            state: State::FirstDocumentStart,
            states: Vec::new(),
            starts: Vec::new(),
            tag_prefixes: FxHashMap::default(),
        }
    }

    /// The next event; after the end of the stream, that event again.
    pub(super) fn next(&mut self) -> Parsed<'a> {
        match self.state {
            State::FirstDocumentStart => self.document_start(true),
            State::DocumentStart => self.document_start(false),
            State::DocumentContent => self.document_content(),
            State::DocumentEnd => self.document_end(),
            State::BlockNode => self.node(true, false),
            State::BlockSequenceFirst => self.first(Self::block_sequence_entry),
            State::BlockSequenceEntry => self.block_sequence_entry(),
            State::IndentlessSequenceEntry => self.indentless_sequence_entry(),
            State::BlockMappingFirst => self.first(Self::block_mapping_key),
            State::BlockMappingKey => self.block_mapping_key(),
            State::BlockMappingValue => self.block_mapping_value(),
            State::FlowSequenceFirst => self.first(|parser| parser.flow_sequence_entry(true)),
            State::FlowSequenceEntry => self.flow_sequence_entry(false),
            State::FlowPairKey => self.flow_pair_key(),
            State::FlowPairValue => self.flow_pair_value(),
            State::FlowPairEnd => self.flow_pair_end(),
            State::FlowMappingFirst => self.first(|parser| parser.flow_mapping_key(true)),
            State::FlowMappingKey => self.flow_mapping_key(false),
            State::FlowMappingValue => self.flow_mapping_value(),
            State::FlowMappingEmptyValue => {
                let position = self.scanner.peek()?.start;
                self.empty_scalar(State::FlowMappingKey, position)
            }
            State::End => {
                let position = self.scanner.peek()?.start;
                Ok(Event { kind: EventKind::StreamEnd, start: position, end: position })
            }
        }
    }

    fn next_is(&mut self, kinds: &[TokenKind<'_>]) -> Result<bool, Error> {
        let kind = &self.scanner.peek()?.kind;
        Ok(kinds.contains(kind))
    }

    /// Drops the token that opened a collection, remembering where it was.
    fn first(&mut self, then: impl FnOnce(&mut Self) -> Parsed<'a>) -> Parsed<'a> {
        let start = self.scanner.peek()?.start;
        self.starts.push(start);
        self.scanner.skip();
        then(self)
    }

    fn pop_state(&mut self) {
        self.state = self.states.pop().unwrap_or(State::End);
    }

    /// An event for the next token, which is consumed.
    fn take(&mut self, kind: EventKind<'a>) -> Parsed<'a> {
        let Token { start, end, .. } = *self.scanner.peek()?;
        self.scanner.skip();
        Ok(Event { kind, start, end })
    }

    /// Ends the innermost collection with the next token.
    fn close(&mut self, kind: EventKind<'a>) -> Parsed<'a> {
        self.pop_state();
        self.starts.pop();
        self.take(kind)
    }

    /// A node that is not written.
    #[expect(clippy::unnecessary_wraps, reason = "every state returns a result")]
    fn empty_scalar(&mut self, state: State, position: Position) -> Parsed<'a> {
        self.state = state;
        let kind = EventKind::Scalar {
            properties: Properties::default(),
            text: Cow::Borrowed(""),
            style: Style::Plain,
            implicit: true,
        };
        Ok(Event { kind, start: position, end: position })
    }

    fn error<T>(&mut self, message: &'static str) -> Result<T, Error> {
        let position = self.scanner.peek()?.start;
        Err(Error::new(ErrorKind::Parser, message, position))
    }

    /// An error inside the innermost collection.
    fn collection_error<T>(&mut self, context: &'static str, message: &'static str) -> Result<T, Error> {
        let start = self.starts.last().copied().unwrap_or_default();
        self.error(message).map_err(|error| error.during(context, start))
    }

    fn document_start(&mut self, first: bool) -> Parsed<'a> {
        if !first {
            while self.next_is(&[TokenKind::DocumentEnd])? {
                self.scanner.skip();
            }
        }
        let Token { kind, start, end } = self.scanner.peek()?;
        let (start, mut end) = (*start, *end);
        match kind {
            TokenKind::StreamEnd => {
                self.state = State::End;
                return Ok(Event { kind: EventKind::StreamEnd, start, end });
            }
            TokenKind::VersionDirective { .. }
            | TokenKind::TagDirective { .. }
            | TokenKind::DocumentStart => {
                self.directives()?;
                end = self.scanner.peek()?.end;
                if !self.next_is(&[TokenKind::DocumentStart])? {
                    return self.error("more text after the end of the document");
                }
                self.scanner.skip();
                self.state = State::DocumentContent;
            }
            _ if first => {
                self.directives()?;
                self.state = State::BlockNode;
            }
            _ => return self.error("more text after the end of the document"),
        }
        self.states.push(State::DocumentEnd);
        Ok(Event { kind: EventKind::DocumentStart, start, end })
    }

    fn directives(&mut self) -> Result<(), Error> {
        let mut version_seen = false;
        loop {
            match &mut self.scanner.peek()?.kind {
                TokenKind::VersionDirective { major, minor } => {
                    let known = *major == 1 && matches!(*minor, 1 | 2);
                    if version_seen {
                        return self.error("a second %YAML directive");
                    }
                    if !known {
                        return self.error("only YAML 1.1 and 1.2 can be read");
                    }
                    version_seen = true;
                }
                TokenKind::TagDirective { handle, prefix } => {
                    let (handle, prefix) = (std::mem::take(handle), std::mem::take(prefix));
                    if self.tag_prefixes.insert(handle, prefix).is_some() {
                        return self.error("a second %TAG directive for the same handle");
                    }
                }
                _ => break,
            }
            self.scanner.skip();
        }
        for (handle, prefix) in [("!", "!"), ("!!", CORE_PREFIX)] {
            self.tag_prefixes.entry(handle.to_owned()).or_insert_with(|| prefix.to_owned());
        }
        Ok(())
    }

    fn document_content(&mut self) -> Parsed<'a> {
        let Token { kind, start, .. } = self.scanner.peek()?;
        let start = *start;
        match kind {
            TokenKind::VersionDirective { .. }
            | TokenKind::TagDirective { .. }
            | TokenKind::DocumentStart
            | TokenKind::DocumentEnd
            | TokenKind::StreamEnd => {
                self.pop_state();
                self.empty_scalar(self.state, start)
            }
            _ => self.node(true, false),
        }
    }

    fn document_end(&mut self) -> Parsed<'a> {
        let Token { kind, start, end } = self.scanner.peek()?;
        let (start, mut end) = (*start, *end);
        if *kind == TokenKind::DocumentEnd {
            self.scanner.skip();
        } else {
            end = start;
        }
        self.tag_prefixes.clear();
        self.state = State::DocumentStart;
        Ok(Event { kind: EventKind::DocumentEnd, start, end })
    }

    /// Anchor and tag in either order, with the place where the tag is.
    fn properties(&mut self) -> Result<(Properties<'a>, Position, Position), Error> {
        let start = self.scanner.peek()?.start;
        let mut end = start;
        let mut tag_position = start;
        let mut anchor = None;
        let mut tag: Option<(String, String)> = None;
        loop {
            let token = self.scanner.peek()?;
            match &mut token.kind {
                TokenKind::Anchor(name) if anchor.is_none() => anchor = Some(*name),
                TokenKind::Tag { handle, suffix } if tag.is_none() => {
                    tag = Some((std::mem::take(handle), std::mem::take(suffix)));
                    tag_position = token.start;
                }
                _ => break,
            }
            end = token.end;
            self.scanner.skip();
        }
        let tag = match tag {
            None => None,
            Some((handle, suffix)) if handle.is_empty() => Some(suffix),
            Some((handle, suffix)) => {
                let Some(prefix) = self.tag_prefixes.get(&handle) else {
                    let message = format!("unknown tag handle `{handle}`");
                    return Err(
                        Error::new(ErrorKind::Parser, message, tag_position).during("in a node", start)
                    );
                };
                Some(format!("{prefix}{suffix}"))
            }
        };
        Ok((Properties { anchor, tag }, start, end))
    }

    fn node(&mut self, block: bool, indentless: bool) -> Parsed<'a> {
        if let TokenKind::Alias(name) = self.scanner.peek()?.kind {
            self.pop_state();
            return self.take(EventKind::Alias(name));
        }
        let (properties, start, properties_end) = self.properties()?;
        let token = self.scanner.peek()?;
        let token_end = token.end;
        let (kind, state) = match &mut token.kind {
            TokenKind::BlockEntry if indentless => {
                (EventKind::SequenceStart { properties, flow: false }, State::IndentlessSequenceEntry)
            }
            TokenKind::Scalar { text, style } => {
                let implicit = match properties.tag.as_deref() {
                    None => *style == Style::Plain,
                    Some(tag) => tag == "!",
                };
                let (text, style) = (std::mem::take(text), *style);
                self.pop_state();
                self.scanner.skip();
                let kind = EventKind::Scalar { properties, text, style, implicit };
                return Ok(Event { kind, start, end: token_end });
            }
            TokenKind::FlowSequenceStart => {
                (EventKind::SequenceStart { properties, flow: true }, State::FlowSequenceFirst)
            }
            TokenKind::FlowMappingStart => {
                (EventKind::MappingStart { properties, flow: true }, State::FlowMappingFirst)
            }
            TokenKind::BlockSequenceStart if block => {
                (EventKind::SequenceStart { properties, flow: false }, State::BlockSequenceFirst)
            }
            TokenKind::BlockMappingStart if block => {
                (EventKind::MappingStart { properties, flow: false }, State::BlockMappingFirst)
            }
            _ if properties.anchor.is_some() || properties.tag.is_some() => {
                self.pop_state();
                let implicit = properties.tag.is_none();
                let kind =
                    EventKind::Scalar { properties, text: Cow::Borrowed(""), style: Style::Plain, implicit };
                return Ok(Event { kind, start, end: properties_end });
            }
            _ => {
                let context = if block { "in a block" } else { "in a flow collection" };
                return self.error("a value is missing").map_err(|error| error.during(context, start));
            }
        };
        self.state = state;
        Ok(Event { kind, start, end: token_end })
    }

    /// A node, after which the parser goes on in a state.
    fn node_then(&mut self, state: State, block: bool, indentless: bool) -> Parsed<'a> {
        self.states.push(state);
        self.node(block, indentless)
    }

    fn block_sequence_entry(&mut self) -> Parsed<'a> {
        if self.next_is(&[TokenKind::BlockEntry])? {
            let end = self.scanner.peek()?.end;
            self.scanner.skip();
            if self.next_is(&[TokenKind::BlockEntry, TokenKind::BlockEnd])? {
                return self.empty_scalar(State::BlockSequenceEntry, end);
            }
            return self.node_then(State::BlockSequenceEntry, true, false);
        }
        if self.next_is(&[TokenKind::BlockEnd])? {
            return self.close(EventKind::SequenceEnd);
        }
        self.collection_error("in a block sequence", "expected `-` or the end of the list")
    }

    fn indentless_sequence_entry(&mut self) -> Parsed<'a> {
        let Token { start, end, .. } = *self.scanner.peek()?;
        if !self.next_is(&[TokenKind::BlockEntry])? {
            self.pop_state();
            return Ok(Event { kind: EventKind::SequenceEnd, start, end });
        }
        self.scanner.skip();
        let ends = [TokenKind::BlockEntry, TokenKind::Key, TokenKind::Value, TokenKind::BlockEnd];
        if self.next_is(&ends)? {
            return self.empty_scalar(State::IndentlessSequenceEntry, end);
        }
        self.node_then(State::IndentlessSequenceEntry, true, false)
    }

    fn block_mapping_key(&mut self) -> Parsed<'a> {
        if self.next_is(&[TokenKind::Key])? {
            let end = self.scanner.peek()?.end;
            self.scanner.skip();
            if self.next_is(&[TokenKind::Key, TokenKind::Value, TokenKind::BlockEnd])? {
                return self.empty_scalar(State::BlockMappingValue, end);
            }
            return self.node_then(State::BlockMappingValue, true, true);
        }
        if self.next_is(&[TokenKind::BlockEnd])? {
            return self.close(EventKind::MappingEnd);
        }
        self.collection_error("in a block mapping", "expected a key or the end of the mapping")
    }

    fn block_mapping_value(&mut self) -> Parsed<'a> {
        let Token { start, end, .. } = *self.scanner.peek()?;
        if !self.next_is(&[TokenKind::Value])? {
            return self.empty_scalar(State::BlockMappingKey, start);
        }
        self.scanner.skip();
        if self.next_is(&[TokenKind::Key, TokenKind::Value, TokenKind::BlockEnd])? {
            return self.empty_scalar(State::BlockMappingKey, end);
        }
        self.node_then(State::BlockMappingKey, true, true)
    }

    fn flow_sequence_entry(&mut self, first: bool) -> Parsed<'a> {
        if !first && !self.next_is(&[TokenKind::FlowSequenceEnd])? {
            if !self.next_is(&[TokenKind::FlowEntry])? {
                let message = "expected `,` or `]`";
                return self.collection_error("in a flow sequence", message);
            }
            self.scanner.skip();
        }
        match self.scanner.peek()?.kind {
            TokenKind::FlowSequenceEnd => self.close(EventKind::SequenceEnd),
            TokenKind::Key => {
                self.state = State::FlowPairKey;
                self.take(EventKind::MappingStart { properties: Properties::default(), flow: true })
            }
            _ => self.node_then(State::FlowSequenceEntry, false, false),
        }
    }

    fn flow_pair_key(&mut self) -> Parsed<'a> {
        if self.next_is(&[TokenKind::Value, TokenKind::FlowEntry, TokenKind::FlowSequenceEnd])? {
            // libyaml drops the token that ends the missing key, so `[? ]` and `[? , a]` are errors.
            let end = self.scanner.peek()?.end;
            self.scanner.skip();
            return self.empty_scalar(State::FlowPairValue, end);
        }
        self.node_then(State::FlowPairValue, false, false)
    }

    fn flow_pair_value(&mut self) -> Parsed<'a> {
        if self.next_is(&[TokenKind::Value])? {
            self.scanner.skip();
            if !self.next_is(&[TokenKind::FlowEntry, TokenKind::FlowSequenceEnd])? {
                return self.node_then(State::FlowPairEnd, false, false);
            }
        }
        let position = self.scanner.peek()?.start;
        self.empty_scalar(State::FlowPairEnd, position)
    }

    fn flow_pair_end(&mut self) -> Parsed<'a> {
        let start = self.scanner.peek()?.start;
        self.state = State::FlowSequenceEntry;
        Ok(Event { kind: EventKind::MappingEnd, start, end: start })
    }

    fn flow_mapping_key(&mut self, first: bool) -> Parsed<'a> {
        if !first && !self.next_is(&[TokenKind::FlowMappingEnd])? {
            if !self.next_is(&[TokenKind::FlowEntry])? {
                let message = "expected `,` or `}`";
                return self.collection_error("in a flow mapping", message);
            }
            self.scanner.skip();
        }
        match self.scanner.peek()?.kind {
            TokenKind::FlowMappingEnd => self.close(EventKind::MappingEnd),
            TokenKind::Key => {
                self.scanner.skip();
                if self.next_is(&[TokenKind::Value, TokenKind::FlowEntry, TokenKind::FlowMappingEnd])? {
                    let position = self.scanner.peek()?.start;
                    return self.empty_scalar(State::FlowMappingValue, position);
                }
                self.node_then(State::FlowMappingValue, false, false)
            }
            _ => self.node_then(State::FlowMappingEmptyValue, false, false),
        }
    }

    fn flow_mapping_value(&mut self) -> Parsed<'a> {
        if self.next_is(&[TokenKind::Value])? {
            self.scanner.skip();
            if !self.next_is(&[TokenKind::FlowEntry, TokenKind::FlowMappingEnd])? {
                return self.node_then(State::FlowMappingKey, false, false);
            }
        }
        let position = self.scanner.peek()?.start;
        self.empty_scalar(State::FlowMappingKey, position)
    }
}

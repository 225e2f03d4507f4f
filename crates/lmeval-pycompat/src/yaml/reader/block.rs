//! Block nodes, sequences and mappings, whose structure is indentation (YAML 1.1, sections 8.5.2, 10.1.2, 10.2.2).
//!
//! A block collection is the column of its entries: an entry starts on a fresh line in that column, and a line that
//! starts further left ends the collection. Each function gets the column of the enclosing collection as `parent`, −1
//! at the top, and reads only what is to the right of it. One exception: a sequence that is the key or the value of a
//! mapping may share the mapping's column, because a key cannot start with `- `.

use super::Reader;
use crate::yaml::graph::{Child, Content, NodeId, Properties};
use crate::yaml::{Error, ErrorKind, Position};

/// The part of a node that is on one line.
enum Line<'a> {
    /// Anchor and tag alone; the content is on a later line.
    Properties(Properties<'a>),
    /// A complete node.
    Node(Child),
    /// A node followed by `:`, where the cursor is.
    Key(Child),
}

impl<'a> Reader<'a, '_> {
    /// Reads a node to the right of `parent`; the node is empty if there is nothing.
    pub(super) fn block_node(&mut self, parent: i32, sequence_at_parent: bool) -> Result<Child, Error> {
        let position = self.at.position();
        let mut properties = Properties::default();
        loop {
            self.skip_gap();
            let column = self.at.column as i32;
            if self.at.is_end() || self.at.is_marker() || column < parent {
                return self.empty(properties, position);
            }
            let is_sequence = self.fresh && self.at.is_indicator(b'-');
            // Reference: a block scalar may share its parent's column, too.
            let is_block_scalar = matches!(self.at.byte(), b'|' | b'>');
            if column == parent && !(is_sequence && sequence_at_parent) && !is_block_scalar {
                return self.empty(properties, position);
            }
            if is_sequence {
                return self.block_sequence(properties, column == parent);
            }
            if self.fresh && self.is_key_indicator() {
                return self.block_mapping(properties, None);
            }
            match self.line(&mut properties, parent)? {
                Line::Properties(found) => properties.add(found)?,
                Line::Node(child) => return Ok(child),
                Line::Key(key) => return self.block_mapping(properties, Some(key)),
            }
        }
    }

    /// Reads the part of a node that is on this line: properties, content, or both. Properties on earlier lines
    /// (`outer`) apply to this node, unless it is the first key of a mapping: then they apply to the mapping.
    fn line(&mut self, outer: &mut Properties<'a>, parent: i32) -> Result<Line<'a>, Error> {
        let start = self.at.position();
        let may_be_key = self.fresh;
        let mut own = Properties::default();
        while matches!(self.at.byte(), b'&' | b'!') {
            let property = self.property()?;
            own.add(property)?;
            self.at.skip_white();
            if self.at.byte() == b'#' || self.at.is_whitespace_at(self.at.offset) {
                return Ok(Line::Properties(own));
            }
        }
        if self.at.byte() == b'*' && own.is_empty() {
            let alias = self.alias()?;
            self.at.skip_white();
            return match may_be_key && self.is_value_of(start) {
                true => Ok(Line::Key(alias)),
                false if outer.is_empty() => Ok(Line::Node(alias)),
                false => Err(Error::new(ErrorKind::Parser, "an alias has no anchor and no tag", start)),
            };
        }
        if !own.is_empty() && may_be_key && self.is_value_of(start) {
            return Ok(Line::Key(self.empty(own, start)?));
        }
        let id = self.graph.reserve(start)?;
        self.graph.bind(outer.anchor, id);
        self.graph.bind(own.anchor, id);
        let body = self.body(id, parent)?;
        if self.at.line == start.line {
            self.at.skip_white();
            if may_be_key && self.is_value_of(start) {
                return Ok(Line::Key(self.graph.close(id, own, body.is_plain, body.end)));
            }
        }
        let mut properties = std::mem::take(outer);
        properties.add(own)?;
        Ok(Line::Node(self.graph.close(id, properties, body.is_plain, body.end)))
    }

    /// Reads a sequence; the cursor is at its first `-` (section 10.1.2).
    fn block_sequence(&mut self, properties: Properties<'a>, is_in_mapping: bool) -> Result<Child, Error> {
        let column = self.at.column;
        let id = self.collection(&properties, self.at.position())?;
        let mut sequence = self.graph.open(id)?;
        loop {
            self.at.skip(1);
            self.fresh = true;
            let item = self.block_node(column as i32, false)?;
            self.graph.add_item(&mut sequence, item)?;
            self.skip_gap();
            let is_here = self.fresh && self.at.column == column;
            if is_here && !self.at.is_marker() && self.at.is_indicator(b'-') {
                continue;
            }
            if self.ends_before(column) || (is_here && is_in_mapping) {
                break;
            }
            let wanted = "`-` or the end of the list";
            return Err(self.unexpected_in(wanted, "in a block sequence", sequence.start));
        }
        let end = sequence.end;
        self.graph.fold_in(sequence, Content::Sequence);
        Ok(self.graph.close(id, properties, false, end))
    }

    /// Reads a mapping; the cursor is at its first `?`, or at the `:` after its first key (section 10.2.2).
    fn block_mapping(&mut self, properties: Properties<'a>, first: Option<Child>) -> Result<Child, Error> {
        let start = first.map_or(self.at.position(), |key| key.start);
        let column = start.column;
        let id = self.collection(&properties, start)?;
        let mut mapping = self.graph.open(id)?;
        let mut first = first;
        loop {
            let (key, value) = self.block_entry(first.take(), column)?;
            self.graph.add_entry(&mut mapping, key, value)?;
            self.skip_gap();
            if self.ends_before(column) {
                break;
            }
            if !self.fresh || self.at.column != column {
                let wanted = "a key or the end of the mapping";
                return Err(self.unexpected_in(wanted, "in a block mapping", mapping.start));
            }
        }
        let end = mapping.end;
        self.graph.fold_in(mapping, Content::Mapping);
        Ok(self.graph.close(id, properties, false, end))
    }

    fn block_entry(&mut self, key: Option<Child>, column: u32) -> Result<(Child, Child), Error> {
        let parent = column as i32;
        let is_explicit = key.is_none() && self.is_key_indicator();
        let key = match key {
            Some(key) => key,
            None if is_explicit => {
                self.at.skip(1);
                self.fresh = true;
                let key = self.block_node(parent, true)?;
                let position = self.at.position();
                self.skip_gap();
                let has_value = self.fresh && self.at.column == column && self.is_value_indicator();
                if !has_value {
                    return Ok((key, self.empty(Properties::default(), position)?));
                }
                key
            }
            None => self.implicit_key(parent)?,
        };
        self.at.skip(1);
        self.fresh = is_explicit;
        Ok((key, self.block_node(parent, true)?))
    }

    /// Reads a key without `?`, where only a key can follow.
    fn implicit_key(&mut self, parent: i32) -> Result<Child, Error> {
        let start = self.at.position();
        if self.at.is_indicator(b'-') {
            return Err(Error::new(ErrorKind::Parser, "expected a key, but found `-`", start));
        }
        if let Line::Key(key) = self.line(&mut Properties::default(), parent)? {
            return Ok(key);
        }
        self.skip_gap();
        if self.is_value_indicator() {
            return Err(self.unexpected("a key"));
        }
        let message = "expected a `:` on the same line";
        Err(Error::new(ErrorKind::Scanner, message, self.at.position()).during("after a key", start))
    }

    /// Reserves the node of a collection.
    fn collection(&mut self, properties: &Properties<'a>, start: Position) -> Result<NodeId, Error> {
        let id = self.graph.reserve(properties.location.map_or(start, |(start, _)| start))?;
        self.graph.bind(properties.anchor, id);
        Ok(id)
    }

    /// Whether a collection in this column has ended.
    fn ends_before(&self, column: u32) -> bool {
        self.at.is_end() || self.at.is_marker() || (self.fresh && self.at.column < column)
    }
}

//! Flow nodes, sequences and mappings, whose structure is brackets (YAML 1.1, sections 8.5.1, 10.1.1, 10.2.1).
//!
//! Inside brackets, lines and indentation do not matter, with one exception: a key without `?` must end on the line
//! where it starts. An entry is read as a node; a `:` after it makes it a key. In a sequence, such an entry is a
//! mapping with one entry.

use super::{Body, Reader};
use crate::yaml::graph::{Child, Content, NodeId, Properties};
use crate::yaml::{Error, ErrorKind, Position};

impl Reader<'_, '_> {
    /// Reads a node inside brackets.
    fn flow_node(&mut self, parent: i32) -> Result<Child, Error> {
        let start = self.at.position();
        let mut properties = Properties::default();
        while matches!(self.at.byte(), b'&' | b'!') {
            let property = self.property()?;
            properties.add(property)?;
            self.skip_gap();
        }
        if self.at.byte() == b'*' && properties.is_empty() {
            return self.alias();
        }
        if self.at.is_marker() {
            return Err(Error::new(
                ErrorKind::Parser,
                "a document marker inside brackets",
                self.at.position(),
            ));
        }
        if !properties.is_empty() && matches!(self.at.byte(), b',' | b']' | b'}' | b':' | b'?') {
            return self.empty(properties, start);
        }
        let id = self.graph.reserve(start)?;
        self.graph.bind(properties.anchor, id);
        let body = self.body(id, parent)?;
        Ok(self.graph.close(id, properties, body.is_plain, body.end))
    }

    /// Reads the key after `?` or the value after `:`, either of which may be missing.
    fn flow_node_or_empty(&mut self, parent: i32, after: &[u8]) -> Result<Child, Error> {
        let position = self.at.position();
        self.skip_gap();
        if after.contains(&self.at.byte()) {
            return self.empty(Properties::default(), position);
        }
        self.flow_node(parent)
    }

    /// Reads `[…]` into a node.
    pub(super) fn flow_sequence(&mut self, id: NodeId, parent: i32) -> Result<Body, Error> {
        let mut sequence = self.graph.open(id)?;
        self.at.skip(1);
        self.flow += 1;
        loop {
            self.skip_gap();
            if self.at.byte() == b']' {
                break;
            }
            let item = self.flow_item(parent)?;
            self.graph.add_item(&mut sequence, item)?;
            self.skip_gap();
            // Indentation matters here only after a lost bracket (see `flow_item`).
            let is_left = self.flow == 0 && (self.at.column as i32) < parent;
            match self.at.byte() {
                b',' if !is_left => self.at.skip(1),
                b']' if !is_left => break,
                _ => return Err(self.unclosed("`,` or `]`").during("in a flow sequence", sequence.start)),
            }
        }
        self.graph.fold_in(sequence, Content::Sequence);
        Ok(self.close_bracket())
    }

    /// Reads `{…}` into a node.
    pub(super) fn flow_mapping(&mut self, id: NodeId, parent: i32) -> Result<Body, Error> {
        let mut mapping = self.graph.open(id)?;
        self.at.skip(1);
        self.flow += 1;
        loop {
            self.skip_gap();
            if self.at.byte() == b'}' {
                break;
            }
            let start = self.at.position();
            let is_explicit = self.flow > 0 && self.is_key_indicator();
            let key = if is_explicit {
                self.at.skip(1);
                self.flow_node_or_empty(parent, b":,}")?
            } else {
                self.flow_node(parent)?
            };
            let position = self.at.position();
            self.skip_gap();
            let has_value = self.has_flow_value(is_explicit, start);
            let value = if has_value {
                self.at.skip(1);
                self.flow_node_or_empty(parent, b",}")?
            } else {
                self.empty(Properties::default(), position)?
            };
            self.graph.add_entry(&mut mapping, key, value)?;
            self.skip_gap();
            match self.at.byte() {
                b',' => self.at.skip(1),
                b'}' => break,
                _ => return Err(self.unclosed("`,` or `}`").during("in a flow mapping", mapping.start)),
            }
        }
        self.graph.fold_in(mapping, Content::Mapping);
        Ok(self.close_bracket())
    }

    /// Reads an item of a sequence: a node, or a key and value that form a mapping.
    fn flow_item(&mut self, parent: i32) -> Result<Child, Error> {
        let start = self.at.position();
        let is_explicit = self.flow > 0 && self.is_key_indicator();
        let key = if is_explicit {
            self.at.skip(1);
            self.skip_gap();
            match self.at.byte() {
                // Reference: after a `?` without a key the next indicator is lost, even the closing bracket.
                byte @ (b':' | b',' | b']') => {
                    let key = self.empty(Properties::default(), start)?;
                    self.at.skip(1);
                    if byte == b']' {
                        self.flow = self.flow.saturating_sub(1);
                    }
                    key
                }
                _ => self.flow_node(parent)?,
            }
        } else {
            self.flow_node(parent)?
        };
        let position = self.at.position();
        self.skip_gap();
        let has_value = self.has_flow_value(is_explicit, start);
        if !is_explicit && !has_value {
            return Ok(key);
        }
        let id = self.graph.reserve(start)?;
        let mut pair = self.graph.open(id)?;
        let value = if has_value {
            self.at.skip(1);
            self.flow_node_or_empty(parent, b",]")?
        } else {
            self.empty(Properties::default(), position)?
        };
        self.graph.add_entry(&mut pair, key, value)?;
        let end = pair.end;
        self.graph.fold_in(pair, Content::Mapping);
        Ok(self.graph.close(id, Properties::default(), false, end))
    }

    /// Whether a value follows the key that started at `start`. After a lost bracket only `?` can make a key.
    fn has_flow_value(&self, is_explicit: bool, start: Position) -> bool {
        if is_explicit { self.is_value_indicator() } else { self.flow > 0 && self.is_value_of(start) }
    }

    fn unclosed(&self, wanted: &str) -> Error {
        Error::new(ErrorKind::Parser, format!("expected {wanted}"), self.at.position())
    }

    fn close_bracket(&mut self) -> Body {
        self.at.skip(1);
        self.flow = self.flow.saturating_sub(1);
        self.fresh = false;
        Body { is_plain: false, end: self.at.offset }
    }
}

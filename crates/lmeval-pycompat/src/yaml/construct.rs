//! Constructs values from nodes, like PyYAML's `SafeConstructor`, and handles the `!function` tag.

use std::collections::VecDeque;
use std::sync::Arc;

use super::graph::{Content, Graph, Node, NodeId};
use super::marks::{self, Below, KeyName, Marks};
use super::number::{float, integer, shortened};
use super::resolve::Tag;
use super::timestamp::Timestamp;
use super::{Error, ErrorKind, Loader, base64};
use crate::dict::Dict;
use crate::repr::repr;
use crate::value::{Function, Value};

pub(super) struct Constructor<'a, 'o> {
    loader: &'o Loader,
    nodes: Vec<Node<'a>>,
    /// The values built so far, so that an alias is the same object as its anchor.
    values: Vec<Option<Value>>,
    merged: usize,
}

impl<'a, 'o> Constructor<'a, 'o> {
    /// Builds the document's value and the locations of its parts.
    pub(super) fn construct(graph: Graph<'a>, loader: &'o Loader) -> Result<(Value, Marks), Error> {
        let values = vec![None; graph.nodes.len()];
        let mut constructor = Self { loader, nodes: graph.nodes, values, merged: 0 };
        if constructor.nodes.iter().any(|node| node.tag == Tag::Value) {
            constructor.check_value_keys(graph.root)?;
        }
        let value = constructor.value(graph.root)?;
        Ok((value, constructor.into_marks(graph.root)))
    }

    fn into_marks(self, root: NodeId) -> Marks {
        let values = self.values;
        let name = |id: NodeId| match &values[id as usize] {
            Some(Value::Str(text)) => Some(KeyName::Text(text.clone())),
            Some(Value::Dict(_) | Value::List(_) | Value::Tuple(_) | Value::Set(_)) | None => None,
            Some(other) => Some(KeyName::Other(repr(other).into())),
        };
        let nodes = self.nodes.into_iter().map(|node| {
            let below = match node.content {
                Content::Scalar(_) => Below::Nothing,
                Content::Sequence(items) => Below::Items(items),
                Content::Mapping(entries) => Below::Entries(
                    entries.into_iter().filter_map(|(key, value)| Some((name(key)?, key, value))).collect(),
                ),
            };
            marks::Node { span: node.span, below }
        });
        Marks::new(nodes.collect(), root)
    }

    /// Rejects `=` except as a key. Reference: `=` becomes a string when the first mapping with that key is built, and
    /// collections are built level by level; so an alias to such a key only has a value on later levels.
    fn check_value_keys(&mut self, root: NodeId) -> Result<(), Error> {
        let mut is_known = vec![false; self.nodes.len()];
        let mut queue = VecDeque::from([root]);
        while let Some(id) = queue.pop_front() {
            let tag = &self.node(id).tag;
            if *tag == Tag::Value {
                return Err(self.misplaced(id));
            }
            if matches!(tag, Tag::Map | Tag::Set) {
                self.flatten(id)?;
            }
            let has_pairs = matches!(self.node(id).tag, Tag::OrderedMap | Tag::Pairs);
            let children: Vec<NodeId> = match &self.node(id).content {
                _ if !is_collection(&self.node(id).tag) => continue,
                Content::Scalar(_) => continue,
                Content::Sequence(items) if has_pairs => {
                    items.iter().flat_map(|item| self.node(*item).content.children()).collect()
                }
                content => content.children(),
            };
            for child in children {
                if self.node(child).tag == Tag::Value {
                    return Err(self.misplaced(child));
                }
                if !std::mem::replace(&mut is_known[child as usize], true) {
                    queue.push_back(child);
                }
            }
        }
        Ok(())
    }

    fn misplaced(&self, id: NodeId) -> Error {
        let name = shortened(self.node(id).tag.name());
        self.error(id, format!("unknown tag or misplaced indicator: {name}"))
    }

    fn node(&self, id: NodeId) -> &Node<'a> {
        &self.nodes[id as usize]
    }

    fn error(&self, id: NodeId, message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Constructor, message, self.node(id).span.start)
    }

    fn value_error(&self, id: NodeId, message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Value, message, self.node(id).span.start)
    }

    fn value(&mut self, id: NodeId) -> Result<Value, Error> {
        if let Some(value) = &self.values[id as usize] {
            return Ok(value.clone());
        }
        let value = self.build(id)?;
        self.values[id as usize] = Some(value.clone());
        Ok(value)
    }

    fn build(&mut self, id: NodeId) -> Result<Value, Error> {
        Ok(match &self.node(id).tag {
            Tag::Str => Value::str(self.scalar(id)?),
            Tag::Map => Value::from(self.mapping(id)?),
            Tag::Seq => Value::from(self.sequence(id)?),
            Tag::Set => Value::Set(Arc::new(self.mapping(id)?.into_entries().map(|(key, _)| key).collect())),
            Tag::OrderedMap => self.pairs(id, "an ordered map")?,
            Tag::Pairs => self.pairs(id, "pairs")?,
            Tag::Function if self.loader.functions => {
                let reference = self.scalar(id)?.to_owned();
                Value::Function(Arc::new(Function { reference, directory: self.loader.directory.clone() }))
            }
            Tag::Merge | Tag::Value | Tag::Function | Tag::Other(_) => {
                return Err(self.misplaced(id));
            }
            Tag::Null | Tag::Bool | Tag::Int | Tag::Float | Tag::Binary | Tag::Timestamp => {
                let text = self.scalar(id)?;
                if self.node(id).tag == Tag::Timestamp && !matches!(self.node(id).content, Content::Scalar(_))
                {
                    return Err(self.value_error(id, "expected a timestamp"));
                }
                typed_scalar(&self.node(id).tag, text).map_err(|message| self.value_error(id, message))?
            }
        })
    }

    /// The string of a scalar. Reference: a mapping with the key `=` represents that key's value.
    fn scalar(&self, id: NodeId) -> Result<&str, Error> {
        match &self.node(id).content {
            Content::Scalar(text) => Ok(text),
            Content::Mapping(entries) => {
                match entries.iter().find(|(key, _)| self.node(*key).tag == Tag::Value) {
                    Some((_, value)) => self.scalar(*value),
                    None => Err(self.error(id, "expected a scalar, but found a mapping")),
                }
            }
            Content::Sequence(_) => Err(self.error(id, "expected a scalar, but found a sequence")),
        }
    }

    fn sequence(&mut self, id: NodeId) -> Result<Vec<Value>, Error> {
        let items = self.take_items(id)?;
        let values = items.iter().map(|item| self.value(*item)).collect();
        self.nodes[id as usize].content = Content::Sequence(items);
        values
    }

    /// Moves the items out, to be put back later: no descendant can lead back here.
    fn take_items(&mut self, id: NodeId) -> Result<Vec<NodeId>, Error> {
        match &mut self.nodes[id as usize].content {
            Content::Sequence(items) => Ok(std::mem::take(items)),
            other => {
                let name = other.name();
                Err(self.error(id, format!("expected a sequence, but found a {name}")))
            }
        }
    }

    fn take_entries(&mut self, id: NodeId) -> Result<Vec<(NodeId, NodeId)>, Error> {
        match &mut self.nodes[id as usize].content {
            Content::Mapping(entries) => Ok(std::mem::take(entries)),
            other => {
                let name = other.name();
                Err(self.error(id, format!("expected a mapping, but found a {name}")))
            }
        }
    }

    fn mapping(&mut self, id: NodeId) -> Result<Dict, Error> {
        self.flatten(id)?;
        let entries = self.take_entries(id)?;
        let mut dict = Dict::with_capacity(entries.len());
        for (key_id, value_id) in &entries {
            // A collection as a key is rejected before it is built, since PyYAML builds it later.
            if is_collection(&self.node(*key_id).tag) {
                let start = self.node(id).span.start;
                return Err(self
                    .error(*key_id, "a list or mapping cannot be a key")
                    .during("in a mapping", start));
            }
            let key = self.value(*key_id)?;
            let value = self.value(*value_id)?;
            dict.insert(key, value);
        }
        self.nodes[id as usize].content = Content::Mapping(entries);
        Ok(dict)
    }

    /// Replaces `<<` entries by the entries they merge, which precede the mapping's own.
    fn flatten(&mut self, id: NodeId) -> Result<(), Error> {
        let Content::Mapping(entries) = &self.node(id).content else {
            return Ok(());
        };
        if !entries.iter().any(|(key, _)| matches!(self.node(*key).tag, Tag::Merge | Tag::Value)) {
            return Ok(());
        }
        let start = self.node(id).span.start;
        let context = "in a mapping";
        let mut merged = Vec::new();
        let mut own = Vec::new();
        for (key, value) in self.take_entries(id)? {
            match self.node(key).tag {
                Tag::Merge => {
                    let sources = match &self.node(value).content {
                        Content::Mapping(_) => vec![value],
                        // Reference: the first mapping of a list wins, so it is merged last.
                        Content::Sequence(items) => items.iter().rev().copied().collect(),
                        Content::Scalar(_) => {
                            let message = "`<<` merges mappings, not a scalar";
                            return Err(self.error(value, message).during(context, start));
                        }
                    };
                    for source in sources {
                        self.flatten(source)?;
                        match &self.node(source).content {
                            Content::Mapping(entries) => merged.extend_from_slice(entries),
                            other => {
                                let name = other.name();
                                let message = format!("`<<` merges mappings, not a {name}");
                                return Err(self.error(source, message).during(context, start));
                            }
                        }
                        if self.merged + merged.len() > self.loader.max_nodes {
                            let message = format!("more than {} merged entries", self.loader.max_nodes);
                            return Err(Error::new(ErrorKind::Limit, message, start));
                        }
                    }
                }
                Tag::Value => {
                    self.nodes[key as usize].tag = Tag::Str;
                    own.push((key, value));
                }
                _ => own.push((key, value)),
            }
        }
        self.merged += merged.len();
        merged.append(&mut own);
        self.nodes[id as usize].content = Content::Mapping(merged);
        Ok(())
    }

    /// `!!omap` and `!!pairs`: a list of mappings with one entry each becomes a list of tuples.
    fn pairs(&mut self, id: NodeId, name: &str) -> Result<Value, Error> {
        let items = self.take_items(id)?;
        let mut pairs = Vec::with_capacity(items.len());
        for item in &items {
            match &self.node(*item).content {
                Content::Mapping(entries) if entries.len() == 1 => {
                    let (key, value) = entries[0];
                    pairs.push(Value::tuple([self.value(key)?, self.value(value)?]));
                }
                Content::Mapping(entries) => {
                    let count = entries.len();
                    let message = format!("expected one entry in an item of {name}, but found {count}");
                    return Err(self.error(*item, message));
                }
                other => {
                    let found = other.name();
                    let message = format!("expected a mapping as an item of {name}, but found a {found}");
                    return Err(self.error(*item, message));
                }
            }
        }
        self.nodes[id as usize].content = Content::Sequence(items);
        Ok(Value::from(pairs))
    }
}

/// Whether values with this tag cannot be keys.
fn is_collection(tag: &Tag) -> bool {
    matches!(tag, Tag::Seq | Tag::Map | Tag::Set | Tag::OrderedMap | Tag::Pairs)
}

/// Constructs a scalar with one of the typed tags.
pub(super) fn typed_scalar(tag: &Tag, text: &str) -> Result<Value, String> {
    match tag {
        Tag::Null => Ok(Value::None),
        Tag::Bool => match text.to_lowercase().as_str() {
            "yes" | "true" | "on" => Ok(Value::Bool(true)),
            "no" | "false" | "off" => Ok(Value::Bool(false)),
            _ => Err(format!("not a boolean: {}", shortened(text))),
        },
        Tag::Int => integer(text),
        Tag::Float => float(text).map(Value::Float),
        Tag::Binary => base64::decode(text).map(|bytes| Value::Bytes(bytes.into())),
        Tag::Timestamp => {
            let body = text.strip_suffix('\n').unwrap_or(text);
            let timestamp = Timestamp::parse(body).and_then(|timestamp| timestamp.value());
            timestamp.ok_or_else(|| format!("invalid date or time: {}", shortened(text)))
        }
        _ => Ok(Value::str(text)),
    }
}

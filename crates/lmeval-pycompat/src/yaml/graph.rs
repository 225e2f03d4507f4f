//! The node graph of a document (YAML 1.1, section 3.2.1), and limits on its size.
//!
//! Nodes live in one vector and refer to each other by index, so an alias is simply the index of the anchored node and
//! dropping a graph needs no recursion. A node is reserved when its source starts and closed when it ends; an alias to
//! it in between would be a value inside itself. Depth and size of a node include what aliases refer to, so a small
//! file that expands to a huge value is rejected while it is being read.

use std::borrow::Cow;

use rustc_hash::FxHashMap;

use super::number::shortened;
use super::resolve::{Tag, resolve};
use super::{Error, ErrorKind, Loader, Position, Span};

/// A node's index in [`Graph::nodes`].
pub(super) type NodeId = u32;

#[derive(Debug)]
pub(super) enum Content<'a> {
    Scalar(Cow<'a, str>),
    Sequence(Vec<NodeId>),
    Mapping(Vec<(NodeId, NodeId)>),
}

impl Content<'_> {
    /// The name of the node in messages.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Scalar(_) => "scalar",
            Self::Sequence(_) => "sequence",
            Self::Mapping(_) => "mapping",
        }
    }

    /// The direct children.
    pub(super) fn children(&self) -> Vec<NodeId> {
        match self {
            Self::Scalar(_) => Vec::new(),
            Self::Sequence(items) => items.clone(),
            Self::Mapping(entries) => entries.iter().flat_map(|(key, value)| [*key, *value]).collect(),
        }
    }
}

#[derive(Debug)]
pub(super) struct Node<'a> {
    pub(super) tag: Tag,
    pub(super) content: Content<'a>,
    pub(super) span: Span,
    /// The number of collections on the longest path down, this node included, with aliases expanded.
    depth: u32,
    /// The number of nodes from here down, with aliases expanded.
    size: usize,
    /// Whether the node is still being read.
    open: bool,
}

/// The nodes of one document.
pub(super) struct Graph<'a> {
    pub(super) nodes: Vec<Node<'a>>,
    pub(super) root: NodeId,
}

/// A tag as written.
#[derive(Debug)]
pub(super) enum TagProperty {
    /// `!`: the node is typed as a plain one, whatever its style.
    NonSpecific,
    Named(Tag),
}

/// The properties of a node (sections 8.1 and 8.2), and where they are.
#[derive(Debug, Default)]
pub(super) struct Properties<'a> {
    pub(super) anchor: Option<&'a str>,
    pub(super) tag: Option<TagProperty>,
    /// Where the first one starts, and the offset where the last one ends.
    pub(super) location: Option<(Position, usize)>,
}

impl Properties<'_> {
    pub(super) fn is_empty(&self) -> bool {
        self.location.is_none()
    }

    /// Adds properties that follow these. A node has at most one anchor and one tag.
    pub(super) fn add(&mut self, inner: Self) -> Result<(), Error> {
        let Some((start, end)) = inner.location else {
            return Ok(());
        };
        let twice = match (&self.anchor, &self.tag) {
            (Some(_), _) if inner.anchor.is_some() => Some("a node cannot have two anchors"),
            (_, Some(_)) if inner.tag.is_some() => Some("a node cannot have two tags"),
            _ => None,
        };
        if let Some(message) = twice {
            return Err(Error::new(ErrorKind::Parser, message, start));
        }
        self.anchor = self.anchor.or(inner.anchor);
        self.tag = self.tag.take().or(inner.tag);
        self.location = Some((self.location.map_or(start, |(first, _)| first), end));
        Ok(())
    }
}

/// A node as a child, with its location or that of its alias.
#[derive(Clone, Copy, Debug)]
pub(super) struct Child {
    pub(super) id: NodeId,
    pub(super) start: Position,
    /// The offset where its source ends.
    pub(super) end: usize,
}

/// A collection that is being read; `T` is an item or an entry.
pub(super) struct Collection<T> {
    pub(super) id: NodeId,
    pub(super) start: Position,
    /// The offset where the last child ends.
    pub(super) end: usize,
    children: Vec<T>,
    depth: u32,
    size: usize,
}

struct Anchor {
    position: Position,
    node: Option<NodeId>,
}

/// A graph under construction.
pub(super) struct Builder<'a, 'o> {
    pub(super) nodes: Vec<Node<'a>>,
    loader: &'o Loader,
    anchors: FxHashMap<&'a str, Anchor>,
    /// The number of open collections.
    depth: usize,
}

fn limit(message: String, position: Position) -> Error {
    Error::new(ErrorKind::Limit, message, position)
}

impl<'a, 'o> Builder<'a, 'o> {
    pub(super) fn new(loader: &'o Loader) -> Self {
        Self { nodes: Vec::new(), loader, anchors: FxHashMap::default(), depth: 0 }
    }

    /// Adds a node that starts here.
    pub(super) fn reserve(&mut self, start: Position) -> Result<NodeId, Error> {
        if self.nodes.len() >= self.loader.max_nodes {
            return Err(limit(format!("more than {} nodes", self.loader.max_nodes), start));
        }
        let id = self.nodes.len() as NodeId;
        let content = Content::Scalar(Cow::Borrowed(""));
        let span = Span { start, end: start.offset };
        self.nodes.push(Node { tag: Tag::Null, content, span, depth: 0, size: 1, open: true });
        Ok(id)
    }

    /// Records an anchor; [`bind`](Self::bind) sets its node once that is known.
    pub(super) fn declare(&mut self, anchor: &'a str, position: Position) -> Result<(), Error> {
        match self.anchors.insert(anchor, Anchor { position, node: None }) {
            None => Ok(()),
            Some(first) => {
                let message = format!("anchor {} is used twice, first", shortened(anchor));
                Err(Error::new(ErrorKind::Composer, message, position).during("in a node", first.position))
            }
        }
    }

    /// Makes an anchor refer to a node, replacing an earlier one.
    pub(super) fn bind(&mut self, anchor: Option<&str>, id: NodeId) {
        if let Some(anchor) = anchor.and_then(|anchor| self.anchors.get_mut(anchor)) {
            anchor.node = Some(id);
        }
    }

    /// The node that an alias refers to.
    pub(super) fn alias(&self, name: &str, start: Position, end: usize) -> Result<Child, Error> {
        let message = match self.anchors.get(name).map(|anchor| anchor.node) {
            Some(Some(id)) if !self.nodes[id as usize].open => return Ok(Child { id, start, end }),
            Some(_) => format!("alias {} is inside the value it names", shortened(name)),
            None => format!("no anchor for alias {}", shortened(name)),
        };
        Err(Error::new(ErrorKind::Composer, message, start))
    }

    /// Sets the content of a scalar node.
    pub(super) fn fill(&mut self, id: NodeId, text: Cow<'a, str>) {
        self.nodes[id as usize].content = Content::Scalar(text);
    }

    /// Closes a node. Its tag is the given property, or else follows from its kind and style (section 3.3.2).
    pub(super) fn close(
        &mut self,
        id: NodeId,
        properties: Properties<'a>,
        is_plain: bool,
        end: usize,
    ) -> Child {
        let node = &mut self.nodes[id as usize];
        node.tag = match (properties.tag, &node.content) {
            (Some(TagProperty::Named(tag)), _) => tag,
            (_, Content::Sequence(_)) => Tag::Seq,
            (_, Content::Mapping(_)) => Tag::Map,
            (None, Content::Scalar(_)) if !is_plain => Tag::Str,
            (_, Content::Scalar(text)) => resolve(text),
        };
        if let Some((start, _)) = properties.location {
            node.span.start = start;
        }
        node.span.end = end;
        node.open = false;
        Child { id, start: node.span.start, end }
    }

    /// Opens a collection for a reserved node.
    pub(super) fn open<T>(&mut self, id: NodeId) -> Result<Collection<T>, Error> {
        let start = self.nodes[id as usize].span.start;
        if self.depth >= self.loader.max_depth {
            return Err(limit(format!("nested more than {} deep", self.loader.max_depth), start));
        }
        self.depth += 1;
        Ok(Collection { id, start, end: start.offset, children: Vec::new(), depth: 1, size: 1 })
    }

    fn count<T>(&self, parent: &mut Collection<T>, child: Child) -> Result<(), Error> {
        let node = &self.nodes[child.id as usize];
        parent.end = child.end;
        parent.depth = parent.depth.max(node.depth + 1);
        parent.size = parent.size.saturating_add(node.size);
        if parent.depth as usize > self.loader.max_depth {
            return Err(limit(format!("nested more than {} deep", self.loader.max_depth), child.start));
        }
        if parent.size > self.loader.max_nodes {
            let message = format!("more than {} nodes with aliases followed", self.loader.max_nodes);
            return Err(limit(message, child.start));
        }
        Ok(())
    }

    pub(super) fn add_item(&self, sequence: &mut Collection<NodeId>, item: Child) -> Result<(), Error> {
        self.count(sequence, item)?;
        sequence.children.push(item.id);
        Ok(())
    }

    pub(super) fn add_entry(
        &self,
        mapping: &mut Collection<(NodeId, NodeId)>,
        key: Child,
        value: Child,
    ) -> Result<(), Error> {
        self.count(mapping, key)?;
        self.count(mapping, value)?;
        mapping.children.push((key.id, value.id));
        Ok(())
    }

    /// Moves a finished collection into its node; [`close`](Self::close) follows.
    pub(super) fn fold_in<T>(
        &mut self,
        collection: Collection<T>,
        content: impl FnOnce(Vec<T>) -> Content<'a>,
    ) {
        self.depth -= 1;
        let node = &mut self.nodes[collection.id as usize];
        node.depth = collection.depth;
        node.size = collection.size;
        node.content = content(collection.children);
    }
}

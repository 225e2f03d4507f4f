//! Events to a graph of nodes: tags resolved, aliases bound, limits kept.

use std::borrow::Cow;

use rustc_hash::FxHashMap;

use super::parse::{EventKind, Parser, Properties};
use super::resolve::{Tag, resolve};
use super::scan::Style;
use super::{Error, ErrorKind, Loader, Position, Span};

/// A node's place in [`Graph::nodes`].
pub(super) type NodeId = u32;

#[derive(Debug)]
pub(super) enum Content<'a> {
    Scalar(Cow<'a, str>),
    Sequence(Vec<NodeId>),
    Mapping(Vec<(NodeId, NodeId)>),
}

impl Content<'_> {
    /// What messages call the node.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Scalar(_) => "scalar",
            Self::Sequence(_) => "sequence",
            Self::Mapping(_) => "mapping",
        }
    }
}

#[derive(Debug)]
pub(super) struct Node<'a> {
    pub(super) tag: Tag,
    pub(super) content: Content<'a>,
    pub(super) span: Span,
    /// The number of collections on the longest way down, this node included; aliases are followed.
    depth: u32,
    /// The number of nodes from here down, with aliased ones counted each time.
    size: usize,
    open: bool,
}

/// The nodes of one document.
pub(super) struct Graph<'a> {
    pub(super) nodes: Vec<Node<'a>>,
    pub(super) root: NodeId,
}

/// A collection whose end has not come.
struct Frame {
    node: NodeId,
    key: Option<NodeId>,
    flow: bool,
    /// Where the last child ended in the text.
    end: usize,
}

pub(super) struct Composer<'a, 'o> {
    text: &'a str,
    loader: &'o Loader,
    parser: Parser<'a>,
    nodes: Vec<Node<'a>>,
    stack: Vec<Frame>,
    anchors: FxHashMap<&'a str, NodeId>,
    root: Option<NodeId>,
}

impl<'a, 'o> Composer<'a, 'o> {
    pub(super) fn new(text: &'a str, loader: &'o Loader) -> Self {
        Self {
            text,
            loader,
            parser: Parser::new(text),
            nodes: Vec::new(),
            stack: Vec::new(),
            anchors: FxHashMap::default(),
            root: None,
        }
    }

    /// The only document of the text; `None` where there is none.
    pub(super) fn compose(mut self) -> Result<Option<Graph<'a>>, Error> {
        loop {
            let event = self.parser.next()?;
            let (start, end) = (event.start, event.end);
            match event.kind {
                EventKind::StreamEnd => {
                    let nodes = self.nodes;
                    return Ok(self.root.map(|root| Graph { nodes, root }));
                }
                EventKind::DocumentStart => {
                    if let Some(root) = self.root {
                        let message = "expected a single document, but another begins";
                        let first = self.nodes[root as usize].span.start;
                        return Err(
                            Error::new(ErrorKind::Composer, message, start).during("after one", first)
                        );
                    }
                }
                EventKind::DocumentEnd => {}
                EventKind::Alias(name) => self.alias(name, start, end)?,
                EventKind::Scalar { properties, text, style, implicit } => {
                    let tag = match properties.tag.as_deref() {
                        None | Some("!") if implicit => resolve(&text),
                        None | Some("!") => Tag::Str,
                        Some(tag) => Tag::named(tag),
                    };
                    let end =
                        if style == Style::Block { self.trimmed(start, end.offset) } else { end.offset };
                    let id = self.add(tag, Content::Scalar(text), &properties, start)?;
                    self.finish(id, end)?;
                }
                EventKind::SequenceStart { properties, flow } => {
                    self.open(Tag::Seq, Content::Sequence(Vec::new()), &properties, flow, start)?;
                }
                EventKind::MappingStart { properties, flow } => {
                    self.open(Tag::Map, Content::Mapping(Vec::new()), &properties, flow, start)?;
                }
                EventKind::SequenceEnd | EventKind::MappingEnd => {
                    if let Some(frame) = self.stack.pop() {
                        self.finish(frame.node, if frame.flow { end.offset } else { frame.end })?;
                    }
                }
            }
        }
    }

    fn limit<T>(message: String, position: Position) -> Result<T, Error> {
        Err(Error::new(ErrorKind::Limit, message, position))
    }

    /// The end of a span without blanks and line breaks at its end.
    fn trimmed(&self, start: Position, end: usize) -> usize {
        start.offset + self.text.get(start.offset..end).map_or(0, |text| text.trim_end().len())
    }

    fn add(
        &mut self,
        tag: Tag,
        content: Content<'a>,
        properties: &Properties<'a>,
        start: Position,
    ) -> Result<NodeId, Error> {
        if self.nodes.len() >= self.loader.max_nodes {
            return Self::limit(format!("more than {} nodes", self.loader.max_nodes), start);
        }
        let id = self.nodes.len() as NodeId;
        if let Some(anchor) = properties.anchor
            && let Some(first) = self.anchors.insert(anchor, id)
        {
            let first = self.nodes[first as usize].span.start;
            let message = format!("anchor `{anchor}` is used twice, first");
            return Err(Error::new(ErrorKind::Composer, message, start).during("in a node", first));
        }
        let span = Span { start, end: start.offset };
        self.nodes.push(Node { tag, content, span, depth: 0, size: 1, open: true });
        Ok(id)
    }

    fn open(
        &mut self,
        default: Tag,
        content: Content<'a>,
        properties: &Properties<'a>,
        flow: bool,
        start: Position,
    ) -> Result<(), Error> {
        if self.stack.len() >= self.loader.max_depth {
            return Self::limit(format!("nested more than {} deep", self.loader.max_depth), start);
        }
        let tag = match properties.tag.as_deref() {
            None | Some("!") => default,
            Some(tag) => Tag::named(tag),
        };
        let node = self.add(tag, content, properties, start)?;
        self.nodes[node as usize].depth = 1;
        self.stack.push(Frame { node, key: None, flow, end: start.offset });
        Ok(())
    }

    fn alias(&mut self, name: &str, start: Position, end: Position) -> Result<(), Error> {
        let Some(&id) = self.anchors.get(name) else {
            return Err(Error::new(ErrorKind::Composer, format!("no anchor for alias `{name}`"), start));
        };
        if self.nodes[id as usize].open {
            let message = format!("alias `{name}` stands inside the value it names");
            return Err(Error::new(ErrorKind::Composer, message, start));
        }
        self.attach(id, start, end.offset)
    }

    /// Closes a node and hangs it into the collection that is open.
    fn finish(&mut self, id: NodeId, end: usize) -> Result<(), Error> {
        let node = &mut self.nodes[id as usize];
        node.span.end = end;
        node.open = false;
        let start = node.span.start;
        self.attach(id, start, end)
    }

    fn attach(&mut self, id: NodeId, start: Position, end: usize) -> Result<(), Error> {
        let Some(frame) = self.stack.last_mut() else {
            self.root = Some(id);
            return Ok(());
        };
        frame.end = end;
        let (depth, size) = (self.nodes[id as usize].depth, self.nodes[id as usize].size);
        let parent = &mut self.nodes[frame.node as usize];
        match &mut parent.content {
            Content::Scalar(_) => {}
            Content::Sequence(items) => items.push(id),
            Content::Mapping(entries) => match frame.key.take() {
                None => frame.key = Some(id),
                Some(key) => entries.push((key, id)),
            },
        }
        parent.depth = parent.depth.max(depth + 1);
        parent.size = parent.size.saturating_add(size);
        if parent.depth as usize > self.loader.max_depth {
            return Self::limit(format!("nested more than {} deep", self.loader.max_depth), start);
        }
        if parent.size > self.loader.max_nodes {
            let message = format!("more than {} nodes with aliases followed", self.loader.max_nodes);
            return Self::limit(message, start);
        }
        Ok(())
    }
}

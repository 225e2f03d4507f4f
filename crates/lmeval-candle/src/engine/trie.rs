//! A trie of token sequences, in which common prefixes are stored once.

use crate::batch::Span;

/// Tokens shared by all sequences that pass through the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) parent: Option<usize>,
    /// The position of its first token in the sequences.
    pub(crate) start: usize,
    /// The position after its last token.
    pub(crate) end: usize,
    /// The index of a sequence that contains its tokens.
    pub(crate) sequence: usize,
}

impl Node {
    /// The number of tokens.
    pub(crate) fn len(&self) -> usize {
        self.end - self.start
    }
}

/// A trie. Nodes are in depth-first order: parents before their descendants.
#[derive(Debug, Default)]
pub(crate) struct Trie {
    pub(crate) nodes: Vec<Node>,
    /// The last node of each sequence.
    pub(crate) ends: Vec<usize>,
}

/// A range of sorted sequences with a common prefix.
struct Group {
    first: usize,
    end: usize,
    /// The length of the prefix that already has nodes.
    depth: usize,
    parent: Option<usize>,
    /// The length of the source that the next node consists of.
    source: usize,
}

/// A sequence of tokens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line<'a> {
    pub(crate) tokens: &'a [u32],
    /// The number of tokens at the start that are only shared as a whole, with sequences that have the same ones: the input
    /// of an encoder.
    pub(crate) source: usize,
}

impl<'a> Line<'a> {
    /// The source and the other tokens. Orders sequences so that those with the same source are together.
    fn parts(&self) -> (&'a [u32], &'a [u32]) {
        self.tokens.split_at(self.source)
    }
}

impl Trie {
    /// Builds the trie of non-empty sequences.
    ///
    /// Nodes have at most `longest` tokens, unless they are a source. Prefixes shorter than `shortest` are not shared, because
    /// a node has a cost too.
    pub(crate) fn new(lines: &[Line<'_>], shortest: usize, longest: usize) -> Self {
        let mut order: Vec<usize> = (0..lines.len()).collect();
        order.sort_by(|a, b| lines[*a].parts().cmp(&lines[*b].parts()));
        let sequences: Vec<&[u32]> = lines.iter().map(|line| line.tokens).collect();
        let mut trie = Self { nodes: Vec::new(), ends: vec![0; sequences.len()] };
        let mut groups = Vec::new();
        let sources = order.chunk_by(|a, b| lines[*a].parts().0 == lines[*b].parts().0);
        let mut first = 0;
        for members in sources {
            let end = first + members.len();
            groups.push(Group { first, end, depth: 0, parent: None, source: lines[members[0]].source });
            first = end;
        }
        while let Some(mut group) = groups.pop() {
            let members = &order[group.first..group.end];
            if group.source > 0 {
                let source = std::mem::take(&mut group.source);
                group.parent = trie.chain(None, 0, source, members[0], source);
                group.depth = source;
            }
            let common = common(sequences[members[0]], sequences[members[members.len() - 1]]);
            let is_whole = sequences[members[members.len() - 1]].len() == common;
            let mut below = Group { ..group };
            if is_whole || common - group.depth >= shortest {
                below.parent = trie.chain(group.parent, group.depth, common, members[0], longest);
                below.depth = common;
            }
            // Sequences that end here sort first. If the prefix is not shared, they get their own node.
            let mut first = group.first;
            let mut own = None;
            while first < group.end && sequences[order[first]].len() == common {
                let end = if below.depth == common {
                    below.parent
                } else {
                    own.or_else(|| trie.chain(below.parent, below.depth, common, order[first], longest))
                };
                own = end;
                trie.ends[order[first]] = end.unwrap_or_default();
                first += 1;
            }
            let mut parts = Vec::new();
            while first < group.end {
                let token = sequences[order[first]][common];
                let count =
                    order[first..group.end].partition_point(|sequence| sequences[*sequence][common] == token);
                parts.push(Group { first, end: first + count, ..below });
                first += count;
            }
            // Sort by length, so that less padding is needed.
            parts.sort_by_key(|part| sequences[order[part.first]].len());
            groups.extend(parts);
        }
        trie
    }

    /// Adds a chain of nodes for the tokens `start..end` of a sequence. Returns the last one, or `parent` if there are none.
    fn chain(
        &mut self,
        mut parent: Option<usize>,
        start: usize,
        end: usize,
        sequence: usize,
        longest: usize,
    ) -> Option<usize> {
        let mut first = start;
        while first < end {
            let last = end.min(first + longest);
            self.nodes.push(Node { parent, start: first, end: last, sequence });
            parent = Some(self.nodes.len() - 1);
            first = last;
        }
        parent
    }

    /// The nodes of a sequence from its end to its start.
    pub(crate) fn path(&self, sequence: usize) -> impl Iterator<Item = usize> + '_ {
        self.ancestors(self.ends[sequence])
    }

    /// A node and its ancestors up to the root.
    pub(crate) fn ancestors(&self, node: usize) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(Some(node), |node| self.nodes[*node].parent)
    }

    /// The cache rows of a node and its ancestors, from the root, given the rows of each node.
    pub(crate) fn spans(&self, node: usize, rows: &[Vec<Span>]) -> Vec<Span> {
        let mut path: Vec<usize> = self.ancestors(node).collect();
        path.reverse();
        path.into_iter().flat_map(|node| rows[node].iter().copied()).collect()
    }

    /// The number of tokens in all nodes.
    #[cfg(test)]
    pub(crate) fn tokens(&self) -> usize {
        self.nodes.iter().map(Node::len).sum()
    }
}

/// The length of the common prefix.
fn common(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(sequences: &[&[u32]], shortest: usize, longest: usize) -> Trie {
        check_lines(
            &sequences.iter().map(|tokens| Line { tokens, source: 0 }).collect::<Vec<_>>(),
            shortest,
            longest,
        )
    }

    fn check_lines(lines: &[Line<'_>], shortest: usize, longest: usize) -> Trie {
        let trie = Trie::new(lines, shortest, longest);
        for (index, line) in lines.iter().enumerate() {
            let sequence = line.tokens;
            let mut path: Vec<usize> = trie.path(index).collect();
            path.reverse();
            let mut found: Vec<u32> = Vec::new();
            for node in path {
                let node = &trie.nodes[node];
                assert_eq!(node.start, found.len());
                let is_source = node.start == 0 && line.source > 0;
                assert!(node.len() > 0 && (node.len() <= longest || is_source));
                assert!(!is_source || node.len() == line.source);
                found.extend(&lines[node.sequence].tokens[node.start..node.end]);
            }
            assert_eq!(found, sequence);
        }
        for (index, node) in trie.nodes.iter().enumerate() {
            assert!(node.parent.is_none_or(|parent| parent < index));
        }
        trie
    }

    #[test]
    fn stores_common_prefixes_once() {
        let sequences: [&[u32]; 5] = [&[1, 2, 3, 4], &[1, 2, 3, 5], &[1, 2], &[1, 2, 3, 4], &[7]];
        assert_eq!(check(&sequences, 1, 100).tokens(), 6);
        assert_eq!(check(&sequences, 1, 2).tokens(), 6);
        assert_eq!(check(&sequences, 3, 100).tokens(), 2 + 3 + 1 + 1 + 1);
        assert!(Trie::new(&[], 1, 100).nodes.is_empty());
    }

    #[test]
    fn shares_sources_as_a_whole() {
        let line = |tokens: &'static [u32], source| Line { tokens, source };
        let lines = [
            line(&[1, 2, 3, 9, 4], 3),
            line(&[1, 2, 5, 9, 4], 3),
            line(&[1, 2, 3, 9, 5], 3),
            line(&[1, 2, 3, 9, 4], 3),
            line(&[1, 2, 3, 9], 2),
        ];
        // The last three tokens belong to the source of two tokens.
        assert_eq!(check_lines(&lines, 1, 100).tokens(), (3 + 1 + 1 + 1) + (3 + 2) + (2 + 2));
        check_lines(&lines, 1, 2);
    }

    #[test]
    fn reconstructs_random_sequences() {
        let mut state = 7_u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for _ in 0..200 {
            let count = draw(30);
            let sequences: Vec<Vec<u32>> = (0..count)
                .map(|_| {
                    let length = 1 + draw(12);
                    (0..length).map(|_| draw(2) as u32).collect()
                })
                .collect();
            let sequences: Vec<&[u32]> = sequences.iter().map(Vec::as_slice).collect();
            for shortest in [1, 2, 5] {
                for longest in [1, 3, 100] {
                    check(&sequences, shortest, longest);
                }
            }
        }
    }
}

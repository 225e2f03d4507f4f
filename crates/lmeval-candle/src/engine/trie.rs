//! Texts as a trie of their tokens: what texts begin with in common stands there once.

use crate::batch::Span;

/// Tokens that all texts of a part of the trie have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    /// What stands before it.
    pub(crate) parent: Option<usize>,
    /// The place of its first token in the texts.
    pub(crate) start: usize,
    /// The place behind its last token.
    pub(crate) end: usize,
    /// A text that holds its tokens.
    pub(crate) text: usize,
}

impl Node {
    /// How many tokens it has.
    pub(crate) fn len(&self) -> usize {
        self.end - self.start
    }
}

/// A trie. Nodes stand in the order of a walk: each before what is below it.
#[derive(Debug, Default)]
pub(crate) struct Trie {
    pub(crate) nodes: Vec<Node>,
    /// For each text the node that it ends with.
    pub(crate) ends: Vec<usize>,
}

/// Neighbouring texts, in order, that have their first tokens in common.
struct Group {
    first: usize,
    end: usize,
    /// How many of the tokens stand in nodes.
    depth: usize,
    parent: Option<usize>,
}

impl Trie {
    /// The trie of texts that have a token at least.
    ///
    /// Nodes have at most `longest` tokens. What fewer than `shortest` tokens have in common is not shared, because a
    /// node costs something as well.
    pub(crate) fn new(texts: &[&[u32]], shortest: usize, longest: usize) -> Self {
        let mut order: Vec<usize> = (0..texts.len()).collect();
        order.sort_by(|a, b| texts[*a].cmp(texts[*b]));
        let mut trie = Self { nodes: Vec::new(), ends: vec![0; texts.len()] };
        let mut groups = Vec::new();
        if !order.is_empty() {
            groups.push(Group { first: 0, end: order.len(), depth: 0, parent: None });
        }
        while let Some(group) = groups.pop() {
            let members = &order[group.first..group.end];
            let common = common(texts[members[0]], texts[members[members.len() - 1]]);
            let is_whole = texts[members[members.len() - 1]].len() == common;
            let mut below = Group { ..group };
            if is_whole || common - group.depth >= shortest {
                below.parent = trie.chain(group.parent, group.depth, common, members[0], longest);
                below.depth = common;
            }
            // Texts that end here come first; where nothing is shared, they get a node of their own.
            let mut first = group.first;
            let mut own = None;
            while first < group.end && texts[order[first]].len() == common {
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
                let token = texts[order[first]][common];
                let count = order[first..group.end].partition_point(|text| texts[*text][common] == token);
                parts.push(Group { first, end: first + count, ..below });
                first += count;
            }
            // Parts of about the same length stand together, so that little is filled up.
            parts.sort_by_key(|part| texts[order[part.first]].len());
            groups.extend(parts);
        }
        trie
    }

    /// Adds nodes for the tokens `start..end` of a text, one below the other; the last of them, or `parent`.
    fn chain(
        &mut self,
        mut parent: Option<usize>,
        start: usize,
        end: usize,
        text: usize,
        longest: usize,
    ) -> Option<usize> {
        let mut first = start;
        while first < end {
            let last = end.min(first + longest);
            self.nodes.push(Node { parent, start: first, end: last, text });
            parent = Some(self.nodes.len() - 1);
            first = last;
        }
        parent
    }

    /// The nodes of a text from its end to its beginning.
    pub(crate) fn path(&self, text: usize) -> impl Iterator<Item = usize> + '_ {
        self.above(self.ends[text])
    }

    /// A node and what stands before it, up to the beginning.
    pub(crate) fn above(&self, node: usize) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(Some(node), |node| self.nodes[*node].parent)
    }

    /// The rows of the cache that hold a node and what stands before it, from the beginning; `rows` has those of each node.
    pub(crate) fn spans(&self, node: usize, rows: &[Vec<Span>]) -> Vec<Span> {
        let mut above: Vec<usize> = self.above(node).collect();
        above.reverse();
        above.into_iter().flat_map(|node| rows[node].iter().copied()).collect()
    }

    /// How many tokens the nodes have.
    #[cfg(test)]
    pub(crate) fn tokens(&self) -> usize {
        self.nodes.iter().map(Node::len).sum()
    }
}

/// How many tokens two texts begin with in common.
fn common(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(texts: &[&[u32]], shortest: usize, longest: usize) -> Trie {
        let trie = Trie::new(texts, shortest, longest);
        for (index, text) in texts.iter().enumerate() {
            let mut path: Vec<usize> = trie.path(index).collect();
            path.reverse();
            let mut found: Vec<u32> = Vec::new();
            for node in path {
                let node = &trie.nodes[node];
                assert_eq!(node.start, found.len());
                assert!(node.len() > 0 && node.len() <= longest);
                found.extend(&texts[node.text][node.start..node.end]);
            }
            assert_eq!(found, *text);
        }
        for (index, node) in trie.nodes.iter().enumerate() {
            assert!(node.parent.is_none_or(|parent| parent < index));
        }
        trie
    }

    #[test]
    fn what_is_common_stands_once() {
        let texts: [&[u32]; 5] = [&[1, 2, 3, 4], &[1, 2, 3, 5], &[1, 2], &[1, 2, 3, 4], &[7]];
        assert_eq!(check(&texts, 1, 100).tokens(), 6);
        assert_eq!(check(&texts, 1, 2).tokens(), 6);
        assert_eq!(check(&texts, 3, 100).tokens(), 2 + 3 + 1 + 1 + 1);
        assert!(Trie::new(&[], 1, 100).nodes.is_empty());
    }

    #[test]
    fn any_texts_are_found_again() {
        let mut state = 7_u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for _ in 0..200 {
            let count = draw(30);
            let texts: Vec<Vec<u32>> = (0..count)
                .map(|_| {
                    let length = 1 + draw(12);
                    (0..length).map(|_| draw(2) as u32).collect()
                })
                .collect();
            let texts: Vec<&[u32]> = texts.iter().map(Vec::as_slice).collect();
            for shortest in [1, 2, 5] {
                for longest in [1, 3, 100] {
                    check(&texts, shortest, longest);
                }
            }
        }
    }
}

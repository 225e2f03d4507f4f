//! The pattern parser: a method for each rule of the grammar, each reading from where the one before stopped.
//!
//! ```text
//! alternatives = sequence ("|" sequence)*
//! sequence     = (atom quantifier?)*
//! atom         = "." | "^" | "$" | escape | set | group | character
//! ```
//!
//! This file has the rules above and skips what has no meaning: comments, and whitespace under VERBOSE. The other rules
//! are in separate files: [quantifiers](super::quantifier), [escapes](super::backslash), [sets](super::set) and
//! [groups](super::paren). See "Regular Expression Syntax" in the `re` documentation.
//!
//! Only groups recurse, up to [`MAX_DEPTH`]; a pattern has at most [`MAX_ITEMS`] items. Both limits protect stack and
//! memory from hostile patterns.

use indexmap::IndexMap;

use super::ast::{Anchor, Member, Node, Sequence, Set, Width};
use super::cursor::Cursor;
use super::error::Error;
use super::flags::Flags;
use super::problem::Problem;

/// The maximum nesting of groups.
const MAX_DEPTH: usize = 200;
/// The maximum number of items in a pattern, members of sets included.
const MAX_ITEMS: usize = 1_000_000;

/// The indices of named groups, in the order of the pattern.
pub(super) type Names = IndexMap<String, usize, rustc_hash::FxBuildHasher>;

/// A parsed pattern.
#[derive(Debug)]
pub(super) struct Parsed {
    pub(super) body: Sequence,
    /// The flags that apply to all of it, including UNICODE or ASCII.
    pub(super) flags: Flags,
    pub(super) names: Names,
    /// The number of groups, without group 0.
    pub(super) groups: usize,
}

/// Parses a pattern.
pub(super) fn parse(pattern: &str, flags: Flags) -> Result<Parsed, Error> {
    let mut parser = Parser {
        cursor: Cursor::new(pattern),
        flags,
        verbose: flags.contains(Flags::VERBOSE),
        at_start: true,
        names: Names::default(),
        groups: Vec::new(),
        tested: Vec::new(),
        behind: None,
        depth: 0,
        items: 0,
    };
    let result = parser.pattern();
    let (body, flags) = parser.cursor.finish(result)?;
    Ok(Parsed { body, flags, names: parser.names, groups: parser.groups.len() })
}

/// A pattern that is being parsed.
pub(super) struct Parser<'p> {
    pub(super) cursor: Cursor<'p>,
    /// The flags for the entire pattern that are known so far.
    pub(super) flags: Flags,
    /// Whether whitespace is ignored here.
    pub(super) verbose: bool,
    /// Whether only flags and comments have been read.
    pub(super) at_start: bool,
    pub(super) names: Names,
    /// The width of each group so far, `None` while it is open.
    pub(super) groups: Vec<Option<Width>>,
    /// The groups that conditionals test, with the position of each conditional.
    pub(super) tested: Vec<(usize, usize)>,
    /// The number of groups before the outermost lookbehind at the cursor.
    pub(super) behind: Option<usize>,
    depth: usize,
    items: usize,
}

impl Parser<'_> {
    /// An error at a position.
    pub(super) fn error(&self, position: usize, problem: Problem) -> Error {
        self.cursor.error(position, problem)
    }

    /// An error at the cursor.
    pub(super) fn error_here(&self, problem: Problem) -> Error {
        self.error(self.cursor.index(), problem)
    }

    /// Counts an item.
    pub(super) fn count(&mut self) -> Result<(), Error> {
        self.items += 1;
        if self.items > MAX_ITEMS {
            return Err(self.error_here(Problem::TooLarge(MAX_ITEMS)));
        }
        Ok(())
    }

    /// Enters a level of nesting that starts at a position; [`Parser::leave`] ends it.
    pub(super) fn enter(&mut self, position: usize) -> Result<(), Error> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.error(position, Problem::TooDeep(MAX_DEPTH)));
        }
        Ok(())
    }

    /// Ends a level of nesting.
    pub(super) fn leave(&mut self) {
        self.depth -= 1;
    }

    /// Parses the entire pattern, with its flags.
    fn pattern(&mut self) -> Result<(Sequence, Flags), Error> {
        let body = join(self.alternatives(usize::MAX)?);
        if self.flags.contains(Flags::ASCII | Flags::UNICODE) {
            return Err(Problem::FlagConflict.into_error(None, self.cursor.source()));
        }
        // Only a closing parenthesis stops the alternatives before the end.
        if self.cursor.peek().is_some() {
            return Err(self.error_here(Problem::Unopened));
        }
        if let Some(&(group, position)) = self.tested.iter().find(|(group, _)| *group > self.groups.len()) {
            return Err(self.error(position, Problem::NoSuchGroup(group.to_string())));
        }
        let alphabet = if self.flags.contains(Flags::ASCII) { Flags::NONE } else { Flags::UNICODE };
        Ok((body, self.flags | alphabet))
    }

    /// Parses alternatives up to a closing parenthesis or the end; at most `most` are allowed.
    pub(super) fn alternatives(&mut self, most: usize) -> Result<Vec<Sequence>, Error> {
        let mut branches = vec![self.sequence()?];
        while self.cursor.peek() == Some('|') {
            if branches.len() == most {
                let position = self.cursor.index();
                self.cursor.step();
                return Err(self.error(position, Problem::ThirdAlternative));
            }
            self.cursor.step();
            self.at_start = false;
            self.count()?;
            branches.push(self.sequence()?);
        }
        Ok(branches)
    }

    /// Parses items up to a `|`, a closing parenthesis or the end.
    fn sequence(&mut self) -> Result<Sequence, Error> {
        let mut nodes = Vec::new();
        loop {
            self.skip_trivia()?;
            let node = match self.cursor.peek() {
                None | Some('|' | ')') => return Ok(Sequence::new(nodes)),
                Some('(') => match self.group()? {
                    Some(node) => node,
                    None => continue,
                },
                Some(character) => self.leaf(character)?,
            };
            self.at_start = false;
            self.count()?;
            let node = self.quantified(node)?;
            nodes.push(node);
        }
    }

    /// Parses an item that contains no other items.
    fn leaf(&mut self, character: char) -> Result<Node, Error> {
        Ok(match character {
            '[' => return self.set(),
            '\\' => return self.escape(),
            '*' | '+' | '?' | '{' => {
                let position = self.cursor.index();
                if self.rounds()?.is_some() {
                    return Err(self.error(position, Problem::NothingToRepeat));
                }
                self.cursor.step();
                Node::Character(character.into())
            }
            _ => {
                self.cursor.step();
                match character {
                    '.' => Node::Dot,
                    '^' => Node::Anchor(Anchor::Start),
                    '$' => Node::Anchor(Anchor::End),
                    _ => Node::Character(character.into()),
                }
            }
        })
    }

    /// Skips comments, and whitespace where it has no meaning.
    pub(super) fn skip_trivia(&mut self) -> Result<(), Error> {
        loop {
            match self.cursor.peek() {
                Some(' ' | '\t' | '\n' | '\r' | '\u{b}' | '\u{c}') if self.verbose => {
                    self.cursor.step();
                }
                Some('#') if self.verbose => {
                    self.cursor.take_until('\n');
                }
                Some('(') if self.cursor.rest().starts_with("(?#") => {
                    let position = self.cursor.index();
                    if self.cursor.take_until(')').is_none() {
                        return Err(self.error(position, Problem::Unclosed("comment")));
                    }
                }
                _ => return Ok(()),
            }
        }
    }
}

/// Combines alternatives into one sequence.
///
/// A common prefix moves in front of them, where a search can look for it. Single-character alternatives become a set,
/// which is observable: with IGNORECASE, Python compares sets beyond the BMP differently.
pub(super) fn join(mut branches: Vec<Sequence>) -> Sequence {
    if branches.len() == 1 {
        return branches.pop().unwrap_or_else(|| Sequence::new(Vec::new()));
    }
    let shared = shared_start(&branches);
    let mut nodes = Vec::with_capacity(shared + 1);
    if shared > 0 {
        for branch in &mut branches {
            let rest = branch.nodes.split_off(shared);
            nodes = std::mem::replace(&mut branch.nodes, rest);
            *branch = Sequence::new(std::mem::take(&mut branch.nodes));
        }
    }
    nodes.push(match one_set(&branches) {
        Some(members) => set_node(Set { negated: false, members }),
        None => Node::Alternatives(branches),
    });
    Sequence::new(nodes)
}

/// The number of items that all alternatives start with.
fn shared_start(branches: &[Sequence]) -> usize {
    let Some((first, others)) = branches.split_first() else { return 0 };
    others.iter().fold(first.nodes.len(), |shared, other| {
        let pairs = first.nodes.iter().zip(&other.nodes).take(shared);
        pairs.take_while(|(one, two)| one.is_same_leaf(two)).count()
    })
}

/// The members of a set, if all alternatives are single characters.
fn one_set(branches: &[Sequence]) -> Option<Vec<Member>> {
    let mut members = Vec::with_capacity(branches.len());
    for branch in branches {
        match branch.nodes.as_slice() {
            [Node::Character(code)] => members.push(Member::Character(*code)),
            [Node::Set(set)] if !set.negated => members.extend_from_slice(&set.members),
            _ => return None,
        }
    }
    Some(members)
}

/// The item for a set: a plain character if it has no other member.
pub(super) fn set_node(mut set: Set) -> Node {
    if let Some((first, others)) = set.members.split_first()
        && others.iter().all(|other| other == first)
    {
        set.members.truncate(1);
    }
    match (set.negated, set.members.as_slice()) {
        (false, [Member::Character(code)]) => Node::Character(*code),
        _ => Node::Set(Box::new(set)),
    }
}

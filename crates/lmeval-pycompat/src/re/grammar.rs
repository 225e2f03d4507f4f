//! The parser of patterns: a method for each rule of the grammar, each reading from where the one before stopped.
//!
//! ```text
//! alternatives = sequence ("|" sequence)*
//! sequence     = (atom quantifier?)*
//! atom         = "." | "^" | "$" | escape | set | group | character
//! ```
//!
//! This file has the rules above and the parts between them that mean nothing: comments, and white space under
//! VERBOSE. The other rules have files of their own: [quantifiers](super::quantifier), [escapes](super::backslash),
//! [sets](super::set) and [groups](super::paren). See "Regular Expression Syntax" in the `re` documentation.
//!
//! Recursion happens only from group to group and ends at [`MOST_NESTED`]; a pattern has at most [`MOST_ITEMS`] items.
//! Both keep hostile patterns from taking the stack or the memory.

use indexmap::IndexMap;

use super::ast::{Anchor, Member, Node, Sequence, Set, Width};
use super::cursor::Cursor;
use super::error::Error;
use super::flags::Flags;
use super::problem::Problem;

/// The deepest nesting of groups.
const MOST_NESTED: usize = 200;
/// The most items of a pattern, members of sets included.
const MOST_ITEMS: usize = 1_000_000;

/// The numbers of named groups, in the order of the pattern.
pub(super) type Names = IndexMap<String, usize, rustc_hash::FxBuildHasher>;

/// A parsed pattern.
#[derive(Debug)]
pub(super) struct Parsed {
    /// The items.
    pub(super) body: Sequence,
    /// The flags that hold for all of it, UNICODE or ASCII among them.
    pub(super) flags: Flags,
    /// The named groups.
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
        asked: Vec::new(),
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
    /// Where it is read.
    pub(super) cursor: Cursor<'p>,
    /// The flags for the whole pattern that are known so far.
    pub(super) flags: Flags,
    /// Whether white space means nothing here.
    pub(super) verbose: bool,
    /// Whether nothing but flags and comments has been read.
    pub(super) at_start: bool,
    /// The named groups so far.
    pub(super) names: Names,
    /// The width of each group so far, `None` while it is open.
    pub(super) groups: Vec<Option<Width>>,
    /// The groups that conditionals ask for, with the place where each does.
    pub(super) asked: Vec<(usize, usize)>,
    /// How many groups there were when the outermost look-behind around this place began.
    pub(super) behind: Option<usize>,
    depth: usize,
    items: usize,
}

impl Parser<'_> {
    /// An error at a place.
    pub(super) fn error(&self, position: usize, problem: Problem) -> Error {
        self.cursor.error(position, problem)
    }

    /// An error at the place where the cursor is.
    pub(super) fn error_here(&self, problem: Problem) -> Error {
        self.error(self.cursor.index(), problem)
    }

    /// Counts an item.
    pub(super) fn count(&mut self) -> Result<(), Error> {
        self.items += 1;
        if self.items > MOST_ITEMS {
            return Err(self.error_here(Problem::TooLarge(MOST_ITEMS)));
        }
        Ok(())
    }

    /// Counts a level of nesting that starts at a place; [`Parser::leave`] ends it.
    pub(super) fn enter(&mut self, position: usize) -> Result<(), Error> {
        self.depth += 1;
        if self.depth > MOST_NESTED {
            return Err(self.error(position, Problem::TooDeep(MOST_NESTED)));
        }
        Ok(())
    }

    /// Ends a level of nesting.
    pub(super) fn leave(&mut self) {
        self.depth -= 1;
    }

    /// The whole pattern, with its flags.
    fn pattern(&mut self) -> Result<(Sequence, Flags), Error> {
        let body = join(self.alternatives(usize::MAX)?);
        if self.flags.contains(Flags::ASCII | Flags::UNICODE) {
            return Err(Problem::FlagConflict.into_error(None, self.cursor.whole()));
        }
        // Only a closing parenthesis stops the alternatives before the end.
        if self.cursor.peek().is_some() {
            return Err(self.error_here(Problem::Unopened));
        }
        if let Some(&(group, position)) = self.asked.iter().find(|(group, _)| *group > self.groups.len()) {
            return Err(self.error(position, Problem::NoSuchGroup(group.to_string())));
        }
        let alphabet = if self.flags.contains(Flags::ASCII) { Flags::NONE } else { Flags::UNICODE };
        Ok((body, self.flags | alphabet))
    }

    /// Alternatives up to a closing parenthesis or the end; no more than `most` are allowed.
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

    /// Items up to a `|`, a closing parenthesis or the end.
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

    /// An item that starts with a character and holds no other items.
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

    /// Steps over comments, and over white space where it means nothing.
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

/// Alternatives as one sequence.
///
/// What all of them start with moves in front of them, where a search can look for it. Alternatives of one character
/// each become a set, and that shows: without case, Python compares sets beyond the BMP in a way of their own.
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

/// How many items all alternatives start with.
fn shared_start(branches: &[Sequence]) -> usize {
    let Some((first, others)) = branches.split_first() else { return 0 };
    others.iter().fold(first.nodes.len(), |shared, other| {
        let pairs = first.nodes.iter().zip(&other.nodes).take(shared);
        pairs.take_while(|(one, two)| one.is_same_leaf(two)).count()
    })
}

/// The members of the set that alternatives of one character each are.
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

/// The item that a set is: a plain character where it has no other member.
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

//! The parser: Python's pattern syntax, with Python's errors.

use super::ast::{Anchor, Greed, Member, Node, Sequence, UNBOUNDED, Width};
use super::error::{Error, ErrorKind};
use super::escape::{pattern_escape, set_escape};
use super::flags::Flags;
use super::token::{Token, Tokenizer};

/// Nesting beyond this is refused, so that no pattern can exhaust the stack.
const MOST_NESTED: usize = 200;

/// A parsed pattern.
#[derive(Debug)]
pub(super) struct Parsed {
    /// The items.
    pub(super) body: Sequence,
    /// The flags of the whole pattern.
    pub(super) flags: Flags,
    /// The widths of all groups, with an unused one for group 0.
    pub(super) widths: Vec<Option<Width>>,
    /// Group names with their numbers, in the order of the pattern.
    pub(super) names: Vec<(String, usize)>,
}

/// The state of parsing.
pub(super) struct Parser<'p> {
    /// The tokens.
    pub(super) source: Tokenizer<'p>,
    /// The global flags so far.
    pub(super) flags: Flags,
    /// Group names with their numbers.
    pub(super) names: Vec<(String, usize)>,
    /// Widths of the groups; `None` while a group is open.
    pub(super) widths: Vec<Option<Width>>,
    /// How many groups there were at the start of the look-behind being read.
    pub(super) look_behind_groups: Option<usize>,
    /// Groups that conditionals name by number, with where they do.
    pub(super) conditional_groups: Vec<(usize, usize)>,
}

/// Parses a pattern.
pub(super) fn parse(pattern: &str, flags: Flags) -> Result<Parsed, Error> {
    let mut parser = Parser {
        source: Tokenizer::new(pattern, ErrorKind::Pattern)?,
        flags,
        names: Vec::new(),
        widths: vec![None],
        look_behind_groups: None,
        conditional_groups: Vec::new(),
    };
    let body = parser.alternatives(flags.contains(Flags::VERBOSE), 0)?;
    if !parser.flags.contains(Flags::ASCII) {
        parser.flags |= Flags::UNICODE;
    } else if parser.flags.contains(Flags::UNICODE) {
        let message = "ASCII and UNICODE flags are incompatible";
        return Err(Error::new(ErrorKind::Pattern, message, None, pattern));
    }
    if parser.source.next.is_some() {
        return Err(parser.source.error("unbalanced parenthesis", 0));
    }
    for &(group, position) in &parser.conditional_groups {
        if group >= parser.widths.len() {
            return Err(parser.source.error_at(format!("invalid group reference {group}"), position));
        }
    }
    Ok(Parsed { body, flags: parser.flags, widths: parser.widths, names: parser.names })
}

impl Parser<'_> {
    /// The number of groups so far, with group 0.
    pub(super) fn group_count(&self) -> usize {
        self.widths.len()
    }

    /// Checks that a group may be referred to here; `offset` is the length of the reference.
    pub(super) fn check_reference(&self, group: usize, offset: usize) -> Result<(), Error> {
        if !self.is_closed(group) {
            return Err(self.source.error("cannot refer to an open group", offset));
        }
        self.check_look_behind(group)
    }

    /// Checks that a look-behind does not refer to its own groups.
    pub(super) fn check_look_behind(&self, group: usize) -> Result<(), Error> {
        let Some(outer_groups) = self.look_behind_groups else {
            return Ok(());
        };
        if !self.is_closed(group) {
            return Err(self.source.error("cannot refer to an open group", 0));
        }
        if group >= outer_groups {
            let message = "cannot refer to group defined in the same lookbehind subpattern";
            return Err(self.source.error(message, 0));
        }
        Ok(())
    }

    /// Whether a group exists and is complete.
    pub(super) fn is_closed(&self, group: usize) -> bool {
        self.widths.get(group).is_some_and(Option::is_some)
    }

    /// Refuses what is nested too deeply.
    pub(super) fn check_nesting(&self, nesting: usize) -> Result<(), Error> {
        if nesting <= MOST_NESTED {
            return Ok(());
        }
        let message = format!("groups are nested more than {MOST_NESTED} deep");
        Err(Error::new(ErrorKind::NotSupported, message, Some(self.source.tell()), self.source.source()))
    }

    /// Reads alternatives up to a closing parenthesis or the end.
    pub(super) fn alternatives(&mut self, mut verbose: bool, nesting: usize) -> Result<Sequence, Error> {
        self.check_nesting(nesting)?;
        let mut branches = Vec::new();
        loop {
            let first = nesting == 0 && branches.is_empty();
            branches.push(self.sequence(verbose, nesting, first)?);
            if !self.source.accept('|')? {
                break;
            }
            if nesting == 0 {
                verbose = self.flags.contains(Flags::VERBOSE);
            }
        }
        Ok(join_branches(branches))
    }

    /// Reads one alternative.
    pub(super) fn sequence(
        &mut self,
        mut verbose: bool,
        nesting: usize,
        first: bool,
    ) -> Result<Sequence, Error> {
        let mut nodes: Vec<Node> = Vec::new();
        while let Some(token) = self.source.next {
            if token.is('|') || token.is(')') {
                break;
            }
            self.source.get()?;
            if token.escaped {
                nodes.push(pattern_escape(self, token)?);
                continue;
            }
            match token.character {
                ' ' | '\t' | '\n' | '\r' | '\u{b}' | '\u{c}' if verbose => {}
                '#' if verbose => self.skip_comment()?,
                '[' => nodes.push(self.set()?),
                '*' | '+' | '?' | '{' => self.repeat(token.character, &mut nodes)?,
                '.' => nodes.push(Node::Any),
                '(' => {
                    let at_start = first && nodes.is_empty();
                    self.group(&mut verbose, nesting, at_start, &mut nodes)?;
                }
                '^' => nodes.push(Node::At(Anchor::Start)),
                '$' => nodes.push(Node::At(Anchor::End)),
                other => nodes.push(Node::Literal(other.into())),
            }
        }
        Ok(Sequence { nodes: unpack(nodes) })
    }

    fn skip_comment(&mut self) -> Result<(), Error> {
        // An escaped line break does not end the comment.
        while let Some(token) = self.source.get()? {
            if token.is('\n') {
                break;
            }
        }
        Ok(())
    }

    fn repeat(&mut self, character: char, nodes: &mut Vec<Node>) -> Result<(), Error> {
        let here = self.source.tell();
        let bounds = match character {
            '?' => Some((0, 1)),
            '*' => Some((0, UNBOUNDED)),
            '+' => Some((1, UNBOUNDED)),
            _ => self.counted(here)?,
        };
        let Some((min, max)) = bounds else {
            nodes.push(Node::Literal(character.into()));
            return Ok(());
        };
        let offset = self.source.tell() - here + 1;
        match nodes.last() {
            None | Some(Node::At(_)) => return Err(self.source.error("nothing to repeat", offset)),
            Some(Node::Repeat { .. }) => return Err(self.source.error("multiple repeat", offset)),
            Some(_) => {}
        }
        let greed = if self.source.accept('?')? {
            Greed::Lazy
        } else if self.source.accept('+')? {
            Greed::Possessive
        } else {
            Greed::Greedy
        };
        let body = match nodes.pop() {
            Some(Node::Group { index: None, added, removed, body })
                if added.is_empty() && removed.is_empty() =>
            {
                body
            }
            item => Sequence { nodes: item.into_iter().collect() },
        };
        nodes.push(Node::Repeat { min, max, greed, body });
        Ok(())
    }

    /// The bounds after `{`, or `None` where the brace is a plain character.
    fn counted(&mut self, here: usize) -> Result<Option<(u32, u32)>, Error> {
        if self.source.next.is_some_and(|token| token.is('}')) {
            return Ok(None);
        }
        let (mut low, mut high) = (String::new(), String::new());
        let is_digit = |character: char| character.is_ascii_digit();
        self.source.get_while(usize::MAX, is_digit, &mut low)?;
        if self.source.accept(',')? {
            self.source.get_while(usize::MAX, is_digit, &mut high)?;
        } else {
            high.clone_from(&low);
        }
        if !self.source.accept('}')? {
            self.source.seek(here)?;
            return Ok(None);
        }
        let min = self.bound(&low)?.unwrap_or(0);
        let max = self.bound(&high)?.unwrap_or(UNBOUNDED);
        if max < min {
            let offset = self.source.tell() - here;
            return Err(self.source.error("min repeat greater than max repeat", offset));
        }
        Ok(Some((min, max)))
    }

    fn bound(&self, digits: &str) -> Result<Option<u32>, Error> {
        if digits.is_empty() {
            return Ok(None);
        }
        match digits.parse::<u32>() {
            Ok(number) if number < UNBOUNDED => Ok(Some(number)),
            _ => {
                let message = "the repetition number is too large";
                Err(Error::new(ErrorKind::Overflow, message, None, self.source.source()))
            }
        }
    }

    fn set(&mut self) -> Result<Node, Error> {
        let here = self.source.tell() - 1;
        let negated = self.source.accept('^')?;
        let mut members: Vec<Member> = Vec::new();
        loop {
            let this = self.set_token(here)?;
            if this.is(']') && !members.is_empty() {
                break;
            }
            let member = self.set_member(this)?;
            if !self.source.accept('-')? {
                add_member(&mut members, member);
                continue;
            }
            let that = self.set_token(here)?;
            if that.is(']') {
                add_member(&mut members, member);
                add_member(&mut members, Member::Literal('-'.into()));
                break;
            }
            match (member, self.set_member(that)?) {
                (Member::Literal(low), Member::Literal(high)) if low <= high => {
                    add_member(&mut members, Member::Range(low, high));
                }
                _ => {
                    let message = format!("bad character range {}-{}", this.text(), that.text());
                    return Err(self.source.error(message, this.length() + 1 + that.length()));
                }
            }
        }
        Ok(match (members.as_slice(), negated) {
            (&[Member::Literal(code)], true) => Node::NotLiteral(code),
            (&[Member::Literal(code)], false) => Node::Literal(code),
            _ => Node::Set { negated, members },
        })
    }

    fn set_token(&mut self, here: usize) -> Result<Token, Error> {
        match self.source.get()? {
            Some(token) => Ok(token),
            None => Err(self.source.error("unterminated character set", self.source.tell() - here)),
        }
    }

    fn set_member(&mut self, token: Token) -> Result<Member, Error> {
        if token.escaped {
            set_escape(&mut self.source, token)
        } else {
            Ok(Member::Literal(token.character.into()))
        }
    }
}

fn add_member(members: &mut Vec<Member>, member: Member) {
    // A set with one distinct character is that character, so a repeated one must not count twice.
    if members.len() > 8 || !members.contains(&member) {
        members.push(member);
    }
}

/// Puts the contents of plain groups in their place.
fn unpack(nodes: Vec<Node>) -> Vec<Node> {
    let mut unpacked = Vec::with_capacity(nodes.len());
    for node in nodes {
        match node {
            Node::Group { index: None, added, removed, body } if added.is_empty() && removed.is_empty() => {
                unpacked.extend(body.nodes);
            }
            other => unpacked.push(other),
        }
    }
    unpacked
}

/// Takes a common start out of the alternatives, and turns single characters into a set.
fn join_branches(mut branches: Vec<Sequence>) -> Sequence {
    if branches.len() == 1 {
        return branches.pop().unwrap_or_default();
    }
    let shared = shared_start(&branches);
    let mut nodes: Vec<Node> =
        branches.first().map(|first| first.nodes[..shared].to_vec()).unwrap_or_default();
    if shared > 0 {
        for branch in &mut branches {
            branch.nodes.drain(..shared);
        }
    }
    nodes.push(match as_set(&branches) {
        Some(members) => Node::Set { negated: false, members },
        None => Node::Branch(branches),
    });
    Sequence { nodes }
}

fn shared_start(branches: &[Sequence]) -> usize {
    let Some((first, rest)) = branches.split_first() else {
        return 0;
    };
    first
        .nodes
        .iter()
        .enumerate()
        .take_while(|(index, node)| {
            rest.iter().all(|branch| branch.nodes.get(*index).is_some_and(|other| node.is_same_simple(other)))
        })
        .count()
}

fn as_set(branches: &[Sequence]) -> Option<Vec<Member>> {
    let mut set = Vec::new();
    for branch in branches {
        match branch.nodes.as_slice() {
            [Node::Literal(code)] => add_member(&mut set, Member::Literal(*code)),
            [Node::Set { negated: false, members }] => {
                for member in members {
                    add_member(&mut set, member.clone());
                }
            }
            _ => return None,
        }
    }
    Some(set)
}

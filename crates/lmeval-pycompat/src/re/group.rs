//! Everything that starts with a parenthesis.

use super::ast::{Node, Sequence};
use super::error::{Error, ErrorKind};
use super::flags::Flags;
use super::parse::Parser;
use super::token::{Token, parse_group_number};
use super::unicode::{is_alphabetic, is_identifier};
use crate::{Value, repr::repr};

/// Python's greatest number of groups.
pub(super) const MOST_GROUPS: u64 = (i32::MAX / 2) as u64;

/// What the characters after an opening parenthesis announce.
enum Opening {
    /// A group whose contents follow.
    Group { capture: bool, name: Option<String>, atomic: bool, added: Flags, removed: Flags },
    /// An item that is complete.
    Item(Node),
    /// A comment, or flags for the whole pattern.
    Nothing,
}

impl Opening {
    fn group(capture: bool, name: Option<String>) -> Self {
        Self::Group { capture, name, atomic: false, added: Flags::NONE, removed: Flags::NONE }
    }
}

impl Parser<'_> {
    /// Reads what follows an opening parenthesis and adds it to the items.
    pub(super) fn group(
        &mut self,
        verbose: &mut bool,
        nesting: usize,
        at_start: bool,
        nodes: &mut Vec<Node>,
    ) -> Result<(), Error> {
        let start = self.source.tell() - 1;
        let opening = if self.source.accept('?')? {
            self.extension(start, verbose, nesting, at_start)?
        } else {
            Opening::group(true, None)
        };
        let (capture, name, atomic, added, removed) = match opening {
            Opening::Nothing => return Ok(()),
            Opening::Item(node) => {
                nodes.push(node);
                return Ok(());
            }
            Opening::Group { capture, name, atomic, added, removed } => {
                (capture, name, atomic, added, removed)
            }
        };
        let index = if capture { Some(self.open_group(name)?) } else { None };
        let inner_verbose = (*verbose || added.contains(Flags::VERBOSE)) && !removed.contains(Flags::VERBOSE);
        let body = self.alternatives(inner_verbose, nesting + 1)?;
        self.expect_closing(start)?;
        if let Some(index) = index {
            let width = body.width(&self.widths);
            if let Some(slot) = self.widths.get_mut(index) {
                *slot = Some(width);
            }
        }
        nodes.push(if atomic { Node::Atomic(body) } else { Node::Group { index, added, removed, body } });
        Ok(())
    }

    fn open_group(&mut self, name: Option<String>) -> Result<usize, Error> {
        let index = self.widths.len();
        self.widths.push(None);
        if let Some(name) = name {
            if let Some(&(_, known)) = self.names.iter().find(|(other, _)| *other == name) {
                let quoted = quote(&name);
                let message =
                    format!("redefinition of group name {quoted} as group {index}; was group {known}");
                return Err(self.source.error(message, name.chars().count() + 1));
            }
            self.names.push((name, index));
        }
        Ok(index)
    }

    fn expect_closing(&mut self, start: usize) -> Result<(), Error> {
        if self.source.accept(')')? {
            return Ok(());
        }
        Err(self.source.error("missing ), unterminated subpattern", self.source.tell() - start))
    }

    fn extension(
        &mut self,
        start: usize,
        verbose: &mut bool,
        nesting: usize,
        at_start: bool,
    ) -> Result<Opening, Error> {
        let token = self.extension_token()?;
        let unknown = |parser: &Self| {
            parser.source.error(format!("unknown extension ?{}", token.text()), token.length() + 1)
        };
        let Some(character) = token.bare() else {
            return Err(unknown(self));
        };
        match character {
            'P' => self.named(),
            ':' => Ok(Opening::group(false, None)),
            '#' => self.comment(start),
            '=' | '!' => self.look(start, false, character == '!', *verbose, nesting),
            '<' => {
                let token = self.extension_token()?;
                if !token.is('=') && !token.is('!') {
                    let message = format!("unknown extension ?<{}", token.text());
                    return Err(self.source.error(message, token.length() + 2));
                }
                self.look(start, true, token.is('!'), *verbose, nesting)
            }
            '(' => self.conditional(start, *verbose, nesting),
            '>' => Ok(Opening::Group {
                capture: false,
                name: None,
                atomic: true,
                added: Flags::NONE,
                removed: Flags::NONE,
            }),
            'L' | '-' => self.flag_group(token, start, verbose, at_start),
            _ if Flags::from_letter(character).is_some() => self.flag_group(token, start, verbose, at_start),
            _ => Err(unknown(self)),
        }
    }

    fn extension_token(&mut self) -> Result<Token, Error> {
        match self.source.get()? {
            Some(token) => Ok(token),
            None => Err(self.source.error("unexpected end of pattern", 0)),
        }
    }

    fn named(&mut self) -> Result<Opening, Error> {
        if self.source.accept('<')? {
            let name = self.source.get_until('>', "group name")?;
            self.check_name(&name)?;
            return Ok(Opening::group(true, Some(name)));
        }
        if self.source.accept('=')? {
            let name = self.source.get_until(')', "group name")?;
            self.check_name(&name)?;
            let group = self.group_by_name(&name)?;
            self.check_reference(group, name.chars().count() + 1)?;
            return Ok(Opening::Item(Node::Reference(group)));
        }
        let token = self.extension_token()?;
        Err(self.source.error(format!("unknown extension ?P{}", token.text()), token.length() + 2))
    }

    fn check_name(&self, name: &str) -> Result<(), Error> {
        if is_identifier(name) {
            return Ok(());
        }
        Err(self.bad_name(name))
    }

    fn bad_name(&self, name: &str) -> Error {
        let message = format!("bad character in group name {}", quote(name));
        self.source.error(message, name.chars().count() + 1)
    }

    fn group_by_name(&self, name: &str) -> Result<usize, Error> {
        match self.names.iter().find(|(known, _)| known == name) {
            Some(&(_, group)) => Ok(group),
            None => {
                let message = format!("unknown group name {}", quote(name));
                Err(self.source.error(message, name.chars().count() + 1))
            }
        }
    }

    fn comment(&mut self, start: usize) -> Result<Opening, Error> {
        loop {
            if self.source.next.is_none() {
                let offset = self.source.tell() - start;
                return Err(self.source.error("missing ), unterminated comment", offset));
            }
            if self.source.get()?.is_some_and(|token| token.is(')')) {
                return Ok(Opening::Nothing);
            }
        }
    }

    fn look(
        &mut self,
        start: usize,
        behind: bool,
        negated: bool,
        verbose: bool,
        nesting: usize,
    ) -> Result<Opening, Error> {
        let outer = self.look_behind_groups;
        if behind && outer.is_none() {
            self.look_behind_groups = Some(self.group_count());
        }
        let body = self.alternatives(verbose, nesting + 1)?;
        self.look_behind_groups = outer;
        self.expect_closing(start)?;
        Ok(Opening::Item(Node::Look { behind, negated, body }))
    }

    fn conditional(&mut self, start: usize, verbose: bool, nesting: usize) -> Result<Opening, Error> {
        let name = self.source.get_until(')', "group name")?;
        let offset = name.chars().count() + 1;
        let group = if is_identifier(&name) {
            self.group_by_name(&name)?
        } else {
            let (number, digits) = parse_group_number(&name).ok_or_else(|| self.bad_name(&name))?;
            if number == 0 {
                return Err(self.source.error("bad group number", offset));
            }
            if number >= MOST_GROUPS {
                return Err(self.source.error(format!("invalid group reference {digits}"), offset));
            }
            let group = number as usize;
            if self.conditional_groups.iter().all(|&(known, _)| known != group) {
                self.conditional_groups.push((group, self.source.tell().saturating_sub(offset)));
            }
            group
        };
        self.check_look_behind(group)?;
        if group < self.group_count() && !self.is_closed(group) {
            // Reference: whether an open group counts as matched depends on attempts that failed before.
            let message = "a conditional inside the group that it asks for";
            let position = self.source.tell().saturating_sub(offset);
            return Err(Error::new(ErrorKind::NotSupported, message, Some(position), self.source.source()));
        }
        let yes = self.conditional_branch(verbose, nesting)?;
        let mut no = None;
        if self.source.accept('|')? {
            no = Some(self.conditional_branch(verbose, nesting)?);
            if self.source.next.is_some_and(|token| token.is('|')) {
                return Err(self.source.error("conditional backref with more than two branches", 0));
            }
        }
        self.expect_closing(start)?;
        Ok(Opening::Item(Node::Conditional { group, yes, no }))
    }

    fn conditional_branch(&mut self, verbose: bool, nesting: usize) -> Result<Sequence, Error> {
        self.check_nesting(nesting + 1)?;
        self.sequence(verbose, nesting + 1, false)
    }

    fn flag_group(
        &mut self,
        first: Token,
        start: usize,
        verbose: &mut bool,
        at_start: bool,
    ) -> Result<Opening, Error> {
        let Some((added, removed)) = self.inline_flags(first)? else {
            if !at_start {
                let offset = self.source.tell() - start;
                return Err(self.source.error("global flags not at the start of the expression", offset));
            }
            *verbose = self.flags.contains(Flags::VERBOSE);
            return Ok(Opening::Nothing);
        };
        Ok(Opening::Group { capture: false, name: None, atomic: false, added, removed })
    }

    /// Reads inline flags: `None` for global ones, which are set at once, else those switched on and off.
    fn inline_flags(&mut self, first: Token) -> Result<Option<(Flags, Flags)>, Error> {
        let (mut added, mut removed) = (Flags::NONE, Flags::NONE);
        let mut token = first;
        if !token.is('-') {
            loop {
                let flag = self.flag(token)?;
                added |= flag;
                if flag.intersects(Flags::TYPES) && added.contains(Flags::TYPES) {
                    let message = "bad inline flags: flags 'a', 'u' and 'L' are incompatible";
                    return Err(self.source.error(message, 0));
                }
                token = self.flag_token("missing -, : or )")?;
                if token.is(')') || token.is('-') || token.is(':') {
                    break;
                }
                self.check_flag(token, "missing -, : or )")?;
            }
        }
        if token.is(')') {
            self.flags |= added;
            return Ok(None);
        }
        if added.contains(Flags::TEMPLATE) {
            return Err(self.source.error("bad inline flags: cannot turn on global flag", 1));
        }
        if token.is('-') {
            token = self.flag_token("missing flag")?;
            self.check_flag(token, "missing flag")?;
            loop {
                if token.is('L') || self.flag(token)?.intersects(Flags::TYPES) {
                    let message = "bad inline flags: cannot turn off flags 'a', 'u' and 'L'";
                    return Err(self.source.error(message, 0));
                }
                removed |= self.flag(token)?;
                token = self.flag_token("missing :")?;
                if token.is(':') {
                    break;
                }
                self.check_flag(token, "missing :")?;
            }
        }
        if removed.contains(Flags::TEMPLATE) {
            return Err(self.source.error("bad inline flags: cannot turn off global flag", 1));
        }
        if added.intersects(removed) {
            return Err(self.source.error("bad inline flags: flag turned on and off", 1));
        }
        Ok(Some((added, removed)))
    }

    fn flag(&self, token: Token) -> Result<Flags, Error> {
        token
            .bare()
            .and_then(Flags::from_letter)
            .ok_or_else(|| self.source.error("bad inline flags: cannot use 'L' flag with a str pattern", 0))
    }

    fn flag_token(&mut self, missing: &str) -> Result<Token, Error> {
        match self.source.get()? {
            Some(token) => Ok(token),
            None => Err(self.source.error(missing, 0)),
        }
    }

    fn check_flag(&self, token: Token, missing: &str) -> Result<(), Error> {
        match token.bare() {
            Some('L') => Ok(()),
            Some(letter) if Flags::from_letter(letter).is_some() => Ok(()),
            Some(letter) if is_alphabetic(letter) => Err(self.source.error("unknown flag", token.length())),
            _ => Err(self.source.error(missing, token.length())),
        }
    }
}

/// The text as Python's `repr` writes it.
pub(super) fn quote(text: &str) -> String {
    repr(&Value::str(text))
}

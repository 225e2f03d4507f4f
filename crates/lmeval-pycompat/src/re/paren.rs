//! Groups: everything that starts with an opening parenthesis.
//!
//! The characters after the parenthesis decide its meaning. [`Parser::opening`] reads them into one value;
//! [`Parser::group`] then reads the contents of all kinds of groups alike and creates the item. Comments are handled
//! elsewhere, as they occur between items. See the entries from `(…)` to `(?(id/name)yes|no)` in "Regular Expression
//! Syntax" of the `re` documentation.

use super::ast::{Conditional, Group, Look, Node, Role, Sequence};
use super::cursor::Cursor;
use super::error::Error;
use super::flags::Flags;
use super::grammar::{Parser, join};
use super::name::{Label, label, name};
use super::problem::{Problem, quoted};

/// The first index that no group can have.
const GROUP_LIMIT: u64 = (1 << 30) - 1;

/// The meaning of parentheses with contents.
#[derive(Clone, Copy)]
enum Opening {
    Group {
        role: Role,
        added: Flags,
        removed: Flags,
    },
    Look {
        behind: bool,
        negated: bool,
    },
    /// A conditional that tests a group.
    Conditional {
        group: usize,
    },
}

/// The syntax after an opening parenthesis.
enum Opened {
    /// Contents, followed by a closing parenthesis.
    Contents(Opening),
    /// Nothing more: it was a reference, or flags for the entire pattern, which add nothing to the sequence.
    Complete(Option<Node>),
}

impl Opened {
    fn group(role: Role, added: Flags, removed: Flags) -> Self {
        Self::Contents(Opening::Group { role, added, removed })
    }

    fn with_role(role: Role) -> Self {
        Self::group(role, Flags::NONE, Flags::NONE)
    }

    fn look(behind: bool, sign: char) -> Self {
        Self::Contents(Opening::Look { behind, negated: sign == '!' })
    }
}

impl Parser<'_> {
    /// Parses a group; the cursor is at its opening parenthesis. `None` if it only sets flags of the entire pattern.
    pub(super) fn group(&mut self) -> Result<Option<Node>, Error> {
        let position = self.cursor.index();
        let opening = match self.opening()? {
            Opened::Contents(opening) => opening,
            Opened::Complete(node) => return Ok(node),
        };
        self.at_start = false;
        self.enter(position)?;
        let outer = (self.verbose, self.behind);
        let mut most = usize::MAX;
        match opening {
            Opening::Group { added, removed, .. } => {
                let verbose = self.verbose || added.contains(Flags::VERBOSE);
                self.verbose = verbose && !removed.contains(Flags::VERBOSE);
            }
            Opening::Look { behind: true, .. } => {
                self.behind = self.behind.or(Some(self.groups.len()));
            }
            Opening::Look { .. } => {}
            Opening::Conditional { .. } => most = 2,
        }
        let branches = self.alternatives(most)?;
        if !self.cursor.take(')') {
            return Err(self.error(position, Problem::Unclosed("parenthesis")));
        }
        (self.verbose, self.behind) = outer;
        self.leave();
        Ok(Some(self.close(opening, branches)))
    }

    /// Creates the item for a group with its contents.
    fn close(&mut self, opening: Opening, branches: Vec<Sequence>) -> Node {
        match opening {
            Opening::Group { role, added, removed } => {
                let body = join(branches);
                if let Role::Capture(number) = role
                    && let Some(width) = self.groups.get_mut(number - 1)
                {
                    *width = Some(body.width);
                }
                Node::Group(Box::new(Group { role, added, removed, body }))
            }
            Opening::Look { behind, negated } => {
                Node::Look(Box::new(Look { behind, negated, body: join(branches) }))
            }
            Opening::Conditional { group } => {
                let mut branches = branches.into_iter();
                let mut next = || branches.next().unwrap_or_else(|| Sequence::new(Vec::new()));
                Node::Conditional(Box::new(Conditional { group, yes: next(), no: next() }))
            }
        }
    }

    /// Parses the syntax after the parenthesis at the cursor, up to the contents or past the closing parenthesis.
    fn opening(&mut self) -> Result<Opened, Error> {
        let start = self.cursor;
        self.cursor.step();
        if !self.cursor.take('?') {
            return Ok(Opened::with_role(self.capture()));
        }
        let letter = self.kind_letter()?;
        Ok(match letter {
            ':' => Opened::with_role(Role::Plain),
            '>' => Opened::with_role(Role::Atomic),
            '=' | '!' => Opened::look(false, letter),
            '<' => match self.kind_letter()? {
                sign @ ('=' | '!') => Opened::look(true, sign),
                _ => return Err(self.unknown_kind(start)),
            },
            'P' => match self.kind_letter()? {
                '<' => Opened::with_role(self.named_capture()?),
                '=' => Opened::Complete(Some(self.named_reference()?)),
                _ => return Err(self.unknown_kind(start)),
            },
            '(' => Opened::Contents(Opening::Conditional { group: self.condition()? }),
            '-' | 'L' => return self.flags(letter, start.index()),
            _ if Flags::from_letter(letter).is_some() => return self.flags(letter, start.index()),
            _ => return Err(self.unknown_kind(start)),
        })
    }

    /// The next of the characters that determine the kind of a group.
    fn kind_letter(&mut self) -> Result<char, Error> {
        match self.cursor.step_unit() {
            Some(letter) => Ok(letter),
            None => Err(self.error_here(Problem::CutShort)),
        }
    }

    fn unknown_kind(&self, start: Cursor<'_>) -> Error {
        let mut after = start;
        after.step();
        self.error(after.index(), Problem::UnknownGroupKind(quoted(self.cursor.since(after))))
    }

    /// Registers a new capturing group.
    fn capture(&mut self) -> Role {
        self.groups.push(None);
        Role::Capture(self.groups.len())
    }

    fn named_capture(&mut self) -> Result<Role, Error> {
        let position = self.cursor.index();
        let name = name(&mut self.cursor, '>')?;
        if let Some(&first) = self.names.get(name) {
            return Err(self.error(position, Problem::NameTaken { name: quoted(name), first }));
        }
        self.names.insert(name.to_owned(), self.groups.len() + 1);
        Ok(self.capture())
    }

    fn named_reference(&mut self) -> Result<Node, Error> {
        let position = self.cursor.index();
        let name = name(&mut self.cursor, ')')?;
        match self.names.get(name) {
            Some(&group) => self.reference(group, position),
            None => Err(self.error(position, Problem::UnknownName(quoted(name)))),
        }
    }

    /// The group that a conditional tests; it may be a later group if given by index.
    fn condition(&mut self) -> Result<usize, Error> {
        let position = self.cursor.index();
        let group = match label(&mut self.cursor, ')')? {
            Label::Name(name) => match self.names.get(name) {
                Some(&group) => group,
                None => return Err(self.error(position, Problem::UnknownName(quoted(name)))),
            },
            Label::Number(0, _) => return Err(self.error(position, Problem::GroupZero)),
            Label::Number(number, written) if number >= GROUP_LIMIT => {
                return Err(self.error(position, Problem::NoSuchGroup(quoted(written))));
            }
            Label::Number(number, _) => number as usize,
        };
        self.check_look_behind(group)?;
        if self.groups.get(group - 1).is_some_and(Option::is_none) {
            // Reference: the contents of the group then depend on failed attempts.
            return Err(self.error(position, Problem::ConditionInside));
        }
        self.tested.push((group, position));
        Ok(group)
    }

    /// Parses flags, for the entire pattern or for a group; the first letter or the minus sign has been read.
    fn flags(&mut self, first: char, position: usize) -> Result<Opened, Error> {
        let mut added = Flags::NONE;
        let mut letter = first;
        while letter != '-' {
            added |= self.flag_on(letter, added)?;
            let here = self.cursor.index();
            letter = match self.cursor.step_unit() {
                Some(')') => return self.global_flags(added, position),
                Some(':') => {
                    self.check_global(added, here)?;
                    return Ok(Opened::group(Role::Plain, added, Flags::NONE));
                }
                Some('-') => '-',
                next => self.flag_letter(next, here)?,
            };
        }
        self.check_global(added, self.cursor.index() - 1)?;
        let mut removed = Flags::NONE;
        loop {
            let here = self.cursor.index();
            match self.cursor.step_unit() {
                Some(':') if !removed.is_empty() => {
                    if removed.contains(Flags::TEMPLATE) {
                        return Err(self.error(here, Problem::AlwaysOn));
                    }
                    if added.intersects(removed) {
                        return Err(self.error(here, Problem::OnAndOff));
                    }
                    return Ok(Opened::group(Role::Plain, added, removed));
                }
                next => {
                    let letter = self.flag_letter(next, here)?;
                    removed |= self.flag_off(letter)?;
                }
            }
        }
    }

    /// The letter of a flag, or the error for anything else.
    fn flag_letter(&self, next: Option<char>, position: usize) -> Result<char, Error> {
        let is_flag = |letter: &char| *letter == 'L' || Flags::from_letter(*letter).is_some();
        next.filter(is_flag).ok_or_else(|| self.error(position, Problem::BadFlags))
    }

    fn flag_on(&self, letter: char, added: Flags) -> Result<Flags, Error> {
        let Some(flag) = Flags::from_letter(letter) else {
            return Err(self.error_here(Problem::LocaleFlag));
        };
        if (added | flag).contains(Flags::ALPHABETS) {
            return Err(self.error_here(Problem::TwoAlphabets));
        }
        Ok(flag)
    }

    fn flag_off(&self, letter: char) -> Result<Flags, Error> {
        match Flags::from_letter(letter) {
            Some(Flags::TEMPLATE) => Ok(Flags::TEMPLATE),
            Some(flag) if !flag.intersects(Flags::ALPHABETS) => Ok(flag),
            _ => Err(self.error_here(Problem::AlwaysOn)),
        }
    }

    fn check_global(&self, added: Flags, position: usize) -> Result<(), Error> {
        if added.contains(Flags::TEMPLATE) {
            return Err(self.error(position, Problem::GlobalOnly));
        }
        Ok(())
    }

    fn global_flags(&mut self, added: Flags, position: usize) -> Result<Opened, Error> {
        if !self.at_start {
            return Err(self.error(position, Problem::LateFlags));
        }
        self.flags |= added;
        self.verbose |= added.contains(Flags::VERBOSE);
        Ok(Opened::Complete(None))
    }
}

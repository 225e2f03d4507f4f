//! Compiles a parsed pattern for the matcher.

use super::ast::{Anchor, Greed, Look, Node, Repeat, Role, Sequence};
use super::charset::{Fold, Matcher};
use super::error::Error;
use super::flags::Flags;
use super::grammar::Parsed;
use super::problem::Problem;

/// A zero-width assertion, with the flags applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Assertion {
    /// The start of the string.
    TextStart,
    /// The start of a line.
    LineStart,
    /// The end of the string.
    TextEnd,
    /// The end of the string, or before a final line feed.
    FinalLineEnd,
    /// The end of a line.
    LineEnd,
    /// Between a word character and a non-word character.
    Boundary {
        /// Whether words are ASCII only.
        ascii: bool,
    },
    /// Anywhere in a non-empty string except at a boundary.
    NotBoundary {
        /// Whether words are ASCII only.
        ascii: bool,
    },
}

impl Assertion {
    /// The assertion of an anchor under the flags.
    pub(super) fn from_anchor(anchor: Anchor, flags: Flags) -> Self {
        let lines = flags.contains(Flags::MULTILINE);
        let ascii = !flags.contains(Flags::UNICODE);
        match anchor {
            Anchor::Start if lines => Self::LineStart,
            Anchor::Start | Anchor::TextStart => Self::TextStart,
            Anchor::End if lines => Self::LineEnd,
            Anchor::End => Self::FinalLineEnd,
            Anchor::TextEnd => Self::TextEnd,
            Anchor::Boundary => Self::Boundary { ascii },
            Anchor::NotBoundary => Self::NotBoundary { ascii },
        }
    }
}

/// One instruction. A register holds two numbers, whose meaning depends on the instruction.
#[derive(Clone, Debug)]
pub(super) enum Instruction {
    /// Matches a literal string.
    Text(Box<str>),
    /// Matches one character.
    One(Matcher),
    /// Matches a run of characters.
    Run { matcher: Matcher, min: u32, max: u32, greed: Greed },
    /// Tests an assertion.
    Assert(Assertion),
    /// Stores the position in a slot.
    Save(usize),
    /// Continues with the next instruction; on failure with the given one.
    Split(usize),
    /// Continues at another instruction.
    Jump(usize),
    /// Starts a loop: register = (rounds, position of the last round).
    LoopStart(usize),
    /// The end of a greedy or lazy loop, which decides whether to do another round.
    Loop {
        register: usize,
        min: u32,
        max: u32,
        /// Whether fewer rounds are preferred.
        lazy: bool,
        /// The first instruction of the loop.
        body: usize,
    },
    /// Another round of the lazy loop that ends just before.
    LazyRound {
        register: usize,
        /// The first instruction of the loop.
        body: usize,
    },
    /// The head of a possessive loop; a second register holds the stack height.
    PossessiveLoop {
        register: usize,
        min: u32,
        max: u32,
        /// The first instruction after the loop.
        exit: usize,
    },
    /// The end of a round of a possessive loop.
    PossessiveRound {
        register: usize,
        /// The head of the loop.
        head: usize,
    },
    /// Matches the string that a group matched.
    Reference {
        group: usize,
        /// How characters are compared.
        fold: Fold,
    },
    /// Continues with the next instruction if a group has matched, otherwise at the given one.
    Conditional { group: usize, otherwise: usize },
    /// Starts an atomic group: register = (stack height, unused).
    AtomicStart(usize),
    /// Ends an atomic group, and drops its alternatives.
    AtomicEnd(usize),
    /// Tests whether a literal precedes the position.
    LiteralBehind {
        text: Box<str>,
        /// Whether it must not precede the position.
        negated: bool,
    },
    /// Starts a lookaround: register = (stack height, position).
    LookStart {
        register: usize,
        /// The number of characters to step back.
        back: usize,
    },
    /// Ends a lookaround that matched.
    LookEnd(usize),
    /// Starts a negative lookaround.
    NotLookStart {
        register: usize,
        /// The number of characters to step back.
        back: usize,
        /// Where to continue if the contents do not match.
        after: usize,
    },
    /// Ends the contents of a negative lookaround: they matched, so it fails.
    NotLookEnd(usize),
    /// Never matches.
    Fail,
    /// The end of the pattern.
    Match,
}

/// A compiled pattern.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) instructions: Vec<Instruction>,
    /// The number of registers that loops and groups need.
    pub(super) registers: usize,
    /// The number of group positions, without group 0.
    pub(super) slots: usize,
    /// The characters that a match can start with, if known.
    pub(super) start: Option<StartSet>,
}

/// The characters that a match can start with.
#[derive(Clone, Copy, Debug)]
pub(super) struct StartSet {
    /// ASCII characters, one bit each.
    pub(super) ascii: u128,
    /// Whether a character outside ASCII is possible.
    pub(super) beyond_ascii: bool,
}

/// Compiles a parsed pattern.
pub(super) fn compile(parsed: &Parsed, pattern: &str) -> Result<Program, Error> {
    let mut compiler = Compiler { instructions: Vec::new(), registers: 0, pattern };
    compiler.sequence(&parsed.body, parsed.flags)?;
    compiler.instructions.push(Instruction::Match);
    let mut set = StartSet { ascii: 0, beyond_ascii: false };
    let known = start_of_sequence(&parsed.body, parsed.flags, &mut set);
    Ok(Program {
        instructions: compiler.instructions,
        registers: compiler.registers,
        slots: 2 * parsed.groups,
        start: known.then_some(set),
    })
}

struct Compiler<'a> {
    instructions: Vec<Instruction>,
    registers: usize,
    pattern: &'a str,
}

impl Compiler<'_> {
    fn here(&self) -> usize {
        self.instructions.len()
    }

    fn register(&mut self) -> usize {
        self.registers += 1;
        self.registers - 1
    }

    /// Reserves an instruction whose target is not known yet.
    fn reserve(&mut self) -> usize {
        self.instructions.push(Instruction::Fail);
        self.here() - 1
    }

    fn fill(&mut self, index: usize, instruction: Instruction) {
        if let Some(reserved) = self.instructions.get_mut(index) {
            *reserved = instruction;
        }
    }

    fn error(&self, problem: Problem) -> Error {
        problem.into_error(None, self.pattern)
    }

    fn sequence(&mut self, sequence: &Sequence, flags: Flags) -> Result<(), Error> {
        let mut text = String::new();
        for node in &sequence.nodes {
            let matcher = Matcher::from_node(node, flags);
            if let Some(Matcher::Character(character)) = matcher {
                text.push(character);
                continue;
            }
            self.text(&mut text);
            match matcher {
                Some(matcher) => self.instructions.push(Instruction::One(matcher)),
                None => self.node(node, flags)?,
            }
        }
        self.text(&mut text);
        Ok(())
    }

    fn text(&mut self, text: &mut String) {
        if !text.is_empty() {
            self.instructions.push(Instruction::Text(std::mem::take(text).into_boxed_str()));
        }
    }

    fn node(&mut self, node: &Node, flags: Flags) -> Result<(), Error> {
        match node {
            Node::Character(_) | Node::Dot | Node::Set(_) => {}
            Node::Anchor(anchor) => {
                self.instructions.push(Instruction::Assert(Assertion::from_anchor(*anchor, flags)));
            }
            Node::Alternatives(branches) => self.branches(branches, flags)?,
            Node::Group(group) => {
                let inner = flags.combine(group.added, group.removed);
                let (before, after) = match group.role {
                    Role::Plain => return self.sequence(&group.body, inner),
                    Role::Capture(number) => {
                        (Instruction::Save(2 * number - 2), Instruction::Save(2 * number - 1))
                    }
                    Role::Atomic => {
                        let register = self.register();
                        (Instruction::AtomicStart(register), Instruction::AtomicEnd(register))
                    }
                };
                self.instructions.push(before);
                self.sequence(&group.body, inner)?;
                self.instructions.push(after);
            }
            Node::Repeat(repeat) => self.repeat(repeat, flags)?,
            Node::Backreference(group, _) => {
                self.instructions
                    .push(Instruction::Reference { group: *group, fold: Fold::from_flags(flags) });
            }
            Node::Conditional(conditional) => {
                let test = self.reserve();
                self.sequence(&conditional.yes, flags)?;
                let jump = self.reserve();
                let group = conditional.group;
                self.fill(test, Instruction::Conditional { group, otherwise: self.here() });
                self.sequence(&conditional.no, flags)?;
                self.fill(jump, Instruction::Jump(self.here()));
            }
            Node::Look(look) => self.look(look, flags)?,
        }
        Ok(())
    }

    fn branches(&mut self, branches: &[Sequence], flags: Flags) -> Result<(), Error> {
        let mut jumps = Vec::new();
        for (index, branch) in branches.iter().enumerate() {
            let is_last = index + 1 == branches.len();
            let split = (!is_last).then(|| self.reserve());
            self.sequence(branch, flags)?;
            if let Some(split) = split {
                jumps.push(self.reserve());
                self.fill(split, Instruction::Split(self.here()));
            }
        }
        for jump in jumps {
            self.fill(jump, Instruction::Jump(self.here()));
        }
        Ok(())
    }

    fn repeat(&mut self, repeat: &Repeat, flags: Flags) -> Result<(), Error> {
        let Repeat { min, max, greed, ref body } = *repeat;
        if flags.contains(Flags::TEMPLATE) {
            return Err(self.error(Problem::RepeatUnderTemplate));
        }
        if let Some(matcher) = single_matcher(body, flags) {
            self.instructions.push(Instruction::Run { matcher, min, max, greed });
            return Ok(());
        }
        if greed == Greed::Possessive && body.captures && !body.is_straight {
            // Reference: in CPython 3.11 the groups are then wrong, or the match fails with a SystemError.
            return Err(self.error(Problem::PossessiveGroups));
        }
        let register = self.register();
        self.instructions.push(Instruction::LoopStart(register));
        if greed == Greed::Possessive {
            self.register();
            let head = self.reserve();
            self.sequence(body, flags)?;
            self.instructions.push(Instruction::PossessiveRound { register, head });
            self.fill(head, Instruction::PossessiveLoop { register, min, max, exit: self.here() });
        } else {
            let jump = self.reserve();
            let first = self.here();
            self.sequence(body, flags)?;
            self.fill(jump, Instruction::Jump(self.here()));
            let lazy = greed == Greed::Lazy;
            self.instructions.push(Instruction::Loop { register, min, max, lazy, body: first });
            if lazy {
                self.instructions.push(Instruction::LazyRound { register, body: first });
            }
        }
        Ok(())
    }

    fn look(&mut self, look: &Look, flags: Flags) -> Result<(), Error> {
        let Look { behind, negated, ref body } = *look;
        let mut back = 0;
        if behind {
            if body.width.least > u64::from(u32::MAX) {
                return Err(self.error(Problem::FarLookBehind));
            }
            if body.width.least != body.width.most {
                return Err(self.error(Problem::VariableLookBehind));
            }
            back = body.width.least as usize;
            if let Some(text) = plain_text(body, flags) {
                self.instructions.push(Instruction::LiteralBehind { text, negated });
                return Ok(());
            }
        }
        let register = self.register();
        let start = self.reserve();
        self.sequence(body, flags)?;
        if negated {
            self.instructions.push(Instruction::NotLookEnd(register));
            self.fill(start, Instruction::NotLookStart { register, back, after: self.here() });
        } else {
            self.instructions.push(Instruction::LookEnd(register));
            self.fill(start, Instruction::LookStart { register, back });
        }
        Ok(())
    }
}

/// The literal string that a sequence of characters matches.
fn plain_text(sequence: &Sequence, flags: Flags) -> Option<Box<str>> {
    let mut text = String::new();
    for node in &sequence.nodes {
        match Matcher::from_node(node, flags)? {
            Matcher::Character(character) => text.push(character),
            _ => return None,
        }
    }
    Some(text.into_boxed_str())
}

/// The matcher of a single-character sequence.
pub(super) fn single_matcher(sequence: &Sequence, flags: Flags) -> Option<Matcher> {
    if !sequence.is_single_character() {
        return None;
    }
    match sequence.nodes.first()? {
        Node::Group(group) => single_matcher(&group.body, flags.combine(group.added, group.removed)),
        node => Matcher::from_node(node, flags),
    }
}

/// Collects the characters that a sequence can start with; `false` if it can match an empty string.
fn start_of_sequence(sequence: &Sequence, flags: Flags, set: &mut StartSet) -> bool {
    sequence.nodes.iter().any(|node| start_of_node(node, flags, set))
}

fn start_of_node(node: &Node, flags: Flags, set: &mut StartSet) -> bool {
    if let Some(matcher) = Matcher::from_node(node, flags) {
        set.ascii |= matcher.ascii_bits();
        set.beyond_ascii |= matcher.may_match_beyond_ascii();
        return true;
    }
    match node {
        Node::Alternatives(branches) => {
            let mut all = true;
            for branch in branches {
                all &= start_of_sequence(branch, flags, set);
            }
            all
        }
        Node::Group(group) => start_of_sequence(&group.body, flags.combine(group.added, group.removed), set),
        Node::Repeat(repeat) => start_of_sequence(&repeat.body, flags, set) && repeat.min > 0,
        Node::Backreference(..) => {
            *set = StartSet { ascii: u128::MAX, beyond_ascii: true };
            false
        }
        Node::Conditional(conditional) => {
            let yes = start_of_sequence(&conditional.yes, flags, set);
            start_of_sequence(&conditional.no, flags, set) && yes
        }
        _ => false,
    }
}

//! The backtracking matcher.
//!
//! It follows CPython's matcher in everything that is observable: the order of alternatives, when a loop stops at an
//! empty round, and the contents of groups after a failed attempt. Alternatives and old values are on an explicit
//! stack, so no pattern can overflow the thread's stack, and a step budget bounds the time.

use memchr::memmem;

use super::ast::UNBOUNDED;
use super::charset::Fold;
use super::program::{Instruction, Program};
use super::text::{character_at, holds_at, step_back};

/// The value of an unset position.
pub(super) const UNSET: usize = usize::MAX;

/// The maximum size of the stack, about 200 MB; more entries count as too many steps.
const MAX_ENTRIES: usize = 6_000_000;

/// The number of bytes compared in one step.
const CHUNK: usize = 64;

/// The step budget is spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Exhausted;

/// Constraints on the position of a match.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Constraints {
    /// The match must start where the search starts.
    pub(super) anchored: bool,
    /// The match must reach the end of the string.
    pub(super) to_the_end: bool,
    /// The match must not be empty at the start of the search.
    pub(super) must_advance: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Entry {
    /// Continue at an instruction.
    Choice { instruction: usize, position: usize },
    /// Give back one character of a greedy run.
    GreedyRun { instruction: usize, least: usize, position: usize },
    /// Take one more character in a lazy run.
    LazyRun { instruction: usize, position: usize, count: u32 },
    /// Restore a group position.
    Slot { slot: usize, old: usize },
    /// Restore a register.
    Register { register: usize, old: [usize; 2] },
}

/// The state of one search.
pub(super) struct Machine<'a> {
    pub(super) program: &'a Program,
    pub(super) text: &'a str,
    /// Remaining alternatives and old values.
    pub(super) stack: Vec<Entry>,
    slots: Vec<usize>,
    registers: Vec<[usize; 2]>,
    steps_left: u64,
}

impl<'a> Machine<'a> {
    /// Creates a machine for searches in one string that share a step budget.
    pub(super) fn new(program: &'a Program, text: &'a str, steps: u64) -> Self {
        Self {
            program,
            text,
            slots: vec![UNSET; program.slots],
            registers: vec![[UNSET; 2]; program.registers],
            stack: Vec::new(),
            steps_left: steps,
        }
    }

    /// The group positions after a match: start and end of group 1, of group 2, and so on.
    pub(super) fn slots(&self) -> &[usize] {
        &self.slots
    }

    /// Finds the first match at or after a position; returns its start and end.
    pub(super) fn search(
        &mut self,
        from: usize,
        constraints: Constraints,
    ) -> Result<Option<(usize, usize)>, Exhausted> {
        self.clear();
        let mut start = from;
        loop {
            if !constraints.anchored {
                match self.next_start(start)? {
                    Some(candidate) => start = candidate,
                    None => return Ok(None),
                }
            }
            let forbidden_end = if constraints.must_advance && start == from { Some(start) } else { None };
            if let Some(end) = self.attempt(start, forbidden_end, constraints.to_the_end)? {
                return Ok(Some((start, end)));
            }
            if constraints.anchored {
                return Ok(None);
            }
            match character_at(self.text, start) {
                Some((_, next)) => start = next,
                None => return Ok(None),
            }
        }
    }

    fn clear(&mut self) {
        self.slots.fill(UNSET);
        self.stack.clear();
    }

    /// The next position at or after `from` where a match can start.
    fn next_start(&mut self, from: usize) -> Result<Option<usize>, Exhausted> {
        let rest = self.text.as_bytes().get(from..).unwrap_or_default();
        if let Some(Instruction::Text(prefix)) = self.program.instructions.first() {
            // Building the searcher reads the prefix.
            self.spend(prefix.len() / 8)?;
            return Ok(memmem::find(rest, prefix.as_bytes()).map(|offset| from + offset));
        }
        let Some(set) = self.program.start else {
            return Ok(Some(from));
        };
        let offset = rest.iter().position(|&byte| {
            if byte < 128 { set.ascii >> byte & 1 == 1 } else { set.beyond_ascii && byte >= 0xc0 }
        });
        Ok(offset.map(|offset| from + offset))
    }

    /// Whether a string occurs at a position. Long comparisons take steps, so that they cannot exceed the budget.
    fn matches_at(&mut self, wanted: &[u8], position: usize) -> Result<bool, Exhausted> {
        let rest = self.text.as_bytes().get(position..).unwrap_or_default();
        if rest.len() < wanted.len() {
            return Ok(false);
        }
        for (index, part) in wanted.chunks(CHUNK).enumerate() {
            if index > 0 {
                self.spend(CHUNK / 8)?;
            }
            if !rest.get(index * CHUNK..).is_some_and(|rest| rest.starts_with(part)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Takes steps from the budget.
    pub(super) fn spend(&mut self, steps: usize) -> Result<(), Exhausted> {
        self.steps_left = self.steps_left.checked_sub(steps as u64).ok_or(Exhausted)?;
        Ok(())
    }

    fn save(&mut self, slot: usize, position: usize) {
        if let Some(value) = self.slots.get_mut(slot) {
            self.stack.push(Entry::Slot { slot, old: *value });
            *value = position;
        }
    }

    fn register(&self, register: usize) -> [usize; 2] {
        self.registers.get(register).copied().unwrap_or([UNSET; 2])
    }

    fn set_register(&mut self, register: usize, new: [usize; 2]) {
        if let Some(value) = self.registers.get_mut(register) {
            self.stack.push(Entry::Register { register, old: *value });
            *value = new;
        }
    }

    fn group(&self, group: usize) -> Option<(usize, usize)> {
        let start = *self.slots.get(2 * group - 2)?;
        let end = *self.slots.get(2 * group - 1)?;
        (start != UNSET && end != UNSET && start <= end).then_some((start, end))
    }

    /// Drops the alternatives above a stack height, but keeps the old values.
    fn commit(&mut self, height: usize) {
        let mut kept = height;
        for index in height..self.stack.len() {
            let entry = self.stack[index];
            if matches!(entry, Entry::Slot { .. } | Entry::Register { .. }) {
                self.stack[kept] = entry;
                kept += 1;
            }
        }
        self.stack.truncate(kept);
    }

    /// Restores the old values above a stack height.
    fn unwind(&mut self, height: usize) {
        while self.stack.len() > height {
            match self.stack.pop() {
                Some(Entry::Slot { slot, old }) => self.slots[slot] = old,
                Some(Entry::Register { register, old }) => self.registers[register] = old,
                _ => {}
            }
        }
    }

    /// Pops the newest alternative; returns where to continue, `None` if there is none.
    fn backtrack(&mut self) -> Result<Option<(usize, usize)>, Exhausted> {
        while let Some(entry) = self.stack.pop() {
            match entry {
                Entry::Choice { instruction, position } => return Ok(Some((instruction, position))),
                Entry::Slot { slot, old } => self.slots[slot] = old,
                Entry::Register { register, old } => self.registers[register] = old,
                Entry::GreedyRun { instruction, least, position } => {
                    if let Some(position) = self.give_back(instruction, least, position)? {
                        return Ok(Some((instruction + 1, position)));
                    }
                }
                Entry::LazyRun { instruction, position, count } => {
                    if let Some(position) = self.take_more(instruction, position, count)? {
                        return Ok(Some((instruction + 1, position)));
                    }
                }
            }
        }
        Ok(None)
    }

    /// Tries to match at one position; returns the end of the match.
    fn attempt(
        &mut self,
        start: usize,
        forbidden_end: Option<usize>,
        to_the_end: bool,
    ) -> Result<Option<usize>, Exhausted> {
        let program = self.program;
        let mut state = Some((0, start));
        loop {
            let Some((current, position)) = state else {
                match self.backtrack()? {
                    Some(next) => state = Some(next),
                    None => return Ok(None),
                }
                continue;
            };
            self.spend(1)?;
            if self.stack.len() > MAX_ENTRIES {
                return Err(Exhausted);
            }
            let Some(instruction) = program.instructions.get(current) else {
                return Ok(None);
            };
            if let Instruction::Match = instruction {
                if forbidden_end != Some(position) && (!to_the_end || position == self.text.len()) {
                    return Ok(Some(position));
                }
                state = None;
                continue;
            }
            state = self.step(instruction, current, position)?;
        }
    }

    /// Executes one instruction; returns where to continue, `None` on failure.
    fn step(
        &mut self,
        instruction: &Instruction,
        current: usize,
        position: usize,
    ) -> Result<Option<(usize, usize)>, Exhausted> {
        let text = self.text;
        let next = current + 1;
        Ok(match *instruction {
            Instruction::Text(ref wanted) => {
                self.matches_at(wanted.as_bytes(), position)?.then(|| (next, position + wanted.len()))
            }
            Instruction::One(ref matcher) => character_at(text, position)
                .filter(|&(code, _)| matcher.matches(code))
                .map(|(_, after)| (next, after)),
            Instruction::Run { .. } => self.run(current, position)?.map(|end| (next, end)),
            Instruction::Assert(assertion) => holds_at(text, position, assertion).then_some((next, position)),
            Instruction::Save(slot) => {
                self.save(slot, position);
                Some((next, position))
            }
            Instruction::Split(other) => {
                self.stack.push(Entry::Choice { instruction: other, position });
                Some((next, position))
            }
            Instruction::Jump(target) => Some((target, position)),
            Instruction::LoopStart(register) => {
                self.set_register(register, [0, UNSET]);
                Some((next, position))
            }
            Instruction::Loop { register, min, max, lazy, body } => {
                Some(self.loop_round(register, (min, max), lazy, body, current, position))
            }
            Instruction::LazyRound { register, body } => {
                let [count, _] = self.register(register);
                self.set_register(register, [count + 1, position]);
                Some((body, position))
            }
            Instruction::PossessiveLoop { register, min, max, exit } => {
                Some(self.possessive_round(register, (min, max), next, exit, position))
            }
            Instruction::PossessiveRound { register, head } => {
                self.commit(self.register(register + 1)[0]);
                let [count, last] = self.register(register);
                self.set_register(register, [count + 1, last]);
                Some((head, position))
            }
            Instruction::Reference { group, fold } => {
                self.reference(group, fold, position)?.map(|end| (next, end))
            }
            Instruction::Conditional { group, otherwise } => {
                Some((if self.group(group).is_some() { next } else { otherwise }, position))
            }
            Instruction::AtomicStart(register) => {
                self.set_register(register, [self.stack.len(), UNSET]);
                Some((next, position))
            }
            Instruction::AtomicEnd(register) => {
                self.commit(self.register(register)[0]);
                Some((next, position))
            }
            Instruction::LiteralBehind { text: ref wanted, negated } => {
                let found = match position.checked_sub(wanted.len()) {
                    Some(start) => self.matches_at(wanted.as_bytes(), start)?,
                    None => false,
                };
                (found != negated).then_some((next, position))
            }
            Instruction::LookStart { register, back } => {
                self.set_register(register, [self.stack.len(), position]);
                self.spend(back / 8)?;
                step_back(text, position, back).map(|start| (next, start))
            }
            Instruction::LookEnd(register) => {
                let [height, start] = self.register(register);
                self.commit(height);
                Some((next, start))
            }
            Instruction::NotLookStart { register, back, after } => {
                self.spend(back / 8)?;
                let Some(start) = step_back(text, position, back) else {
                    return Ok(Some((after, position)));
                };
                let height = self.stack.len();
                self.stack.push(Entry::Choice { instruction: after, position });
                self.set_register(register, [height, UNSET]);
                Some((next, start))
            }
            Instruction::NotLookEnd(register) => {
                self.unwind(self.register(register)[0]);
                None
            }
            Instruction::Fail | Instruction::Match => None,
        })
    }

    fn loop_round(
        &mut self,
        register: usize,
        (min, max): (u32, u32),
        lazy: bool,
        body: usize,
        current: usize,
        position: usize,
    ) -> (usize, usize) {
        let [count, last] = self.register(register);
        if count < min as usize {
            self.set_register(register, [count + 1, last]);
            return (body, position);
        }
        // A round that starts where the last one started would repeat forever.
        let may_repeat = (max == UNBOUNDED || count < max as usize) && last != position;
        let exit = if lazy { current + 2 } else { current + 1 };
        if !may_repeat {
            return (exit, position);
        }
        if lazy {
            self.stack.push(Entry::Choice { instruction: current + 1, position });
            return (exit, position);
        }
        self.stack.push(Entry::Choice { instruction: exit, position });
        self.set_register(register, [count + 1, position]);
        (body, position)
    }

    fn possessive_round(
        &mut self,
        register: usize,
        (min, max): (u32, u32),
        body: usize,
        exit: usize,
        position: usize,
    ) -> (usize, usize) {
        let [count, last] = self.register(register);
        let height = self.stack.len();
        if count < min as usize {
            self.set_register(register + 1, [height, UNSET]);
            return (body, position);
        }
        if (max != UNBOUNDED && count >= max as usize) || last == position {
            return (exit, position);
        }
        self.stack.push(Entry::Choice { instruction: exit, position });
        self.set_register(register, [count, position]);
        self.set_register(register + 1, [height, UNSET]);
        (body, position)
    }

    /// The position after a repetition of a group's match, if it occurs here.
    fn reference(&mut self, group: usize, fold: Fold, position: usize) -> Result<Option<usize>, Exhausted> {
        let text = self.text;
        let Some(taken) = self.group(group).and_then(|(start, end)| text.get(start..end)) else {
            return Ok(None);
        };
        if fold == Fold::None {
            return Ok(self.matches_at(taken.as_bytes(), position)?.then(|| position + taken.len()));
        }
        let mut end = position;
        for character in taken.chars() {
            match character_at(text, end) {
                Some((code, after)) if fold.apply(code) == fold.apply(character.into()) => end = after,
                _ => {
                    self.spend(end - position)?;
                    return Ok(None);
                }
            }
        }
        self.spend(end - position)?;
        Ok(Some(end))
    }
}

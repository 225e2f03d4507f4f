//! Runs of one kind of character: repeats of a single matcher, which need no instruction per round.

use memchr::memchr;

use super::ast::{Greed, UNBOUNDED};
use super::charset::Matcher;
use super::machine::{Entry, Exhausted, Machine};
use super::program::Instruction;
use super::text::{character_at, position_before};

impl Machine<'_> {
    /// Shortens a greedy run, skipping positions where the literal that must follow does not occur.
    pub(super) fn give_back(
        &mut self,
        instruction: usize,
        least: usize,
        position: usize,
    ) -> Result<Option<usize>, Exhausted> {
        let program = self.program;
        let text = self.text;
        let mut end = position;
        let wanted = match program.instructions.get(instruction + 1) {
            Some(Instruction::Text(following)) => following.as_bytes().first().copied(),
            _ => None,
        };
        while end > least {
            let Some(shorter) = position_before(text, end) else {
                break;
            };
            end = shorter;
            if wanted.is_none() || wanted == text.as_bytes().get(end).copied() {
                self.spend((position - end) / 8)?;
                if end > least {
                    self.stack.push(Entry::GreedyRun { instruction, least, position: end });
                }
                return Ok(Some(end));
            }
        }
        self.spend((position - end) / 8)?;
        Ok(None)
    }

    /// Extends a lazy run, skipping positions where the literal that must follow does not occur.
    pub(super) fn take_more(
        &mut self,
        instruction: usize,
        position: usize,
        count: u32,
    ) -> Result<Option<usize>, Exhausted> {
        let program = self.program;
        let Some(Instruction::Run { matcher, max, .. }) = program.instructions.get(instruction) else {
            return Ok(None);
        };
        let wanted = match program.instructions.get(instruction + 1) {
            Some(Instruction::Text(following)) => following.as_bytes().first().copied(),
            _ => None,
        };
        let (mut end, mut count) = (position, count);
        while *max == UNBOUNDED || count < *max {
            let Some((code, after)) = character_at(self.text, end) else {
                break;
            };
            if !matcher.matches(code) {
                break;
            }
            end = after;
            count = count.saturating_add(1);
            if wanted.is_none() || wanted == self.text.as_bytes().get(end).copied() {
                self.spend((end - position) / 8)?;
                self.stack.push(Entry::LazyRun { instruction, position: end, count });
                return Ok(Some(end));
            }
        }
        self.spend((end - position) / 8)?;
        Ok(None)
    }

    /// Takes a run of characters; returns the end of the minimum and of the entire run.
    fn run_ends(
        &mut self,
        matcher: &Matcher,
        min: u32,
        max: u32,
        position: usize,
    ) -> Result<Option<(usize, usize)>, Exhausted> {
        let text = self.text;
        let (mut end, mut count) = (position, 0);
        if text.len() - position < min as usize {
            return Ok(None);
        }
        while count < min {
            match character_at(text, end) {
                Some((code, after)) if matcher.matches(code) => end = after,
                _ => {
                    self.spend((end - position) / 8)?;
                    return Ok(None);
                }
            }
            count += 1;
        }
        let least = end;
        match matcher {
            Matcher::Anything if max == UNBOUNDED => end = text.len(),
            Matcher::NotLineFeed if max == UNBOUNDED => {
                let rest = text.as_bytes().get(end..).unwrap_or_default();
                end = memchr(b'\n', rest).map_or(text.len(), |offset| end + offset);
            }
            _ => {
                while max == UNBOUNDED || count < max {
                    let Some((code, after)) = character_at(text, end) else {
                        break;
                    };
                    if !matcher.matches(code) {
                        break;
                    }
                    end = after;
                    count += 1;
                }
            }
        }
        self.spend((end - position) / 8)?;
        Ok(Some((least, end)))
    }

    /// Starts a run; returns the end of its first attempt.
    pub(super) fn run(&mut self, instruction: usize, position: usize) -> Result<Option<usize>, Exhausted> {
        let program = self.program;
        let Some(Instruction::Run { matcher, min, max, greed }) = program.instructions.get(instruction)
        else {
            return Ok(None);
        };
        if *greed == Greed::Lazy {
            let Some((end, _)) = self.run_ends(matcher, *min, *min, position)? else {
                return Ok(None);
            };
            self.stack.push(Entry::LazyRun { instruction, position: end, count: *min });
            return Ok(Some(end));
        }
        let Some((least, end)) = self.run_ends(matcher, *min, *max, position)? else {
            return Ok(None);
        };
        if *greed == Greed::Greedy && end > least {
            self.stack.push(Entry::GreedyRun { instruction, least, position: end });
        }
        Ok(Some(end))
    }
}

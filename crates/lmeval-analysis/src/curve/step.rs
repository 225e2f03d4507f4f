//! The step of a checkpoint, from its name.

use lmeval_core::Diagnostic;
use regex::Regex;

use crate::Error;

/// Words before a number, the most telling first: in `epoch=3-step=1000`, the step counts.
const WORDS: [&[&str]; 3] = [
    &["globalstep", "step", "steps"],
    &["checkpoint", "ckpt", "iter", "iters", "iteration", "iterations", "batch", "ba", "update", "updates"],
    &["epoch", "ep"],
];

/// A regular expression whose first group is the step.
#[derive(Clone, Debug)]
pub struct StepPattern(Regex);

impl StepPattern {
    /// Compiles an expression, which needs a group.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let wrong = |problem: String| {
            Box::new(Diagnostic::new(format!("`{text}` is not a pattern of steps: {problem}")))
        };
        let pattern = Regex::new(text).map_err(|error| wrong(error.to_string()))?;
        if pattern.captures_len() < 2 {
            let mut error = wrong("it has no group".to_owned());
            *error = error.hint("Put the number into parentheses, for example 'run7-(\\d+)'");
            return Err(error);
        }
        Ok(Self(pattern))
    }

    /// The step in a name.
    pub fn find(&self, name: &str) -> Option<u64> {
        self.0.captures(name)?.get(1)?.as_str().parse().ok()
    }
}

/// The step that a path names: its last part with one decides.
///
/// ```
/// use lmeval_analysis::curve::step_in;
///
/// assert_eq!(step_in("checkpoint-1000"), Some(1000));
/// assert_eq!(step_in("run7/global_step143000/hf"), Some(143_000));
/// assert_eq!(step_in("epoch=3-step=2000"), Some(2000));
/// assert_eq!(step_in("intermediate-step-1431k-3T"), Some(1_431_000));
/// assert_eq!(step_in("pythia-160m"), None);
/// ```
pub fn step_in(path: &str) -> Option<u64> {
    path.split(['/', '\\']).rev().find_map(step_in_name)
}

fn step_in_name(name: &str) -> Option<u64> {
    if !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit()) {
        return name.parse().ok();
    }
    let found = numbers(name);
    let of = |words: &[&str]| {
        let mut last = found.iter().rev();
        last.find(|(word, _)| words.contains(&word.as_str())).map(|(_, number)| *number)
    };
    WORDS.into_iter().find_map(of)
}

/// The numbers of a name with the words before them, in lower case and without separators.
fn numbers(name: &str) -> Vec<(String, u64)> {
    let bytes = name.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        if !bytes[at].is_ascii_digit() {
            at += 1;
            continue;
        }
        let start = at;
        while bytes.get(at).is_some_and(u8::is_ascii_digit) {
            at += 1;
        }
        let digits = &name[start..at];
        let ends = |at: usize| bytes.get(at).is_none_or(|byte| !byte.is_ascii_alphabetic());
        let factor = match bytes.get(at) {
            Some(b'k' | b'K') if ends(at + 1) => 1_000,
            Some(b'm' | b'M') if ends(at + 1) => 1_000_000,
            _ if ends(at) => 1,
            // The number is part of a word, as in `7b`.
            _ => continue,
        };
        let before = name[..start].trim_end_matches(['-', '_', '=', ' ']);
        let word = before.rsplit(|letter: char| !letter.is_ascii_alphabetic()).next().unwrap_or_default();
        let rest = before[..before.len() - word.len()].trim_end_matches(['-', '_']).to_lowercase();
        let word = match word.to_lowercase() {
            word if word == "step" && rest.ends_with("global") => "globalstep".to_owned(),
            word => word,
        };
        if let Some(number) = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(factor)) {
            found.push((word, number));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_names_of_checkpoints() {
        for (name, step) in [
            ("checkpoint-500", 500),
            ("step_2000", 2000),
            ("step1000-unsharded", 1000),
            ("global_step10", 10),
            ("globalstep-10", 10),
            ("iter_0001000", 1000),
            ("iter_0001000/hf", 1000),
            ("0001000", 1000),
            ("ep0-ba1000", 1000),
            ("epoch_3", 3),
            ("run-7b-checkpoint-500", 500),
            ("model-step1000-Q4_0.gguf", 1000),
            ("ckpt_20k", 20_000),
            ("step-2M", 2_000_000),
        ] {
            assert_eq!(step_in(name), Some(step), "{name}");
        }
        for name in ["", "final", "llama-7b", "model-00001-of-00003", "step", "checkpoint-", "step1x", "v2"] {
            assert_eq!(step_in(name), None, "{name}");
        }
        assert_eq!(step_in("step99999999999999999999"), None);
    }

    #[test]
    fn patterns_need_a_group() {
        let pattern = StepPattern::parse(r"run(\d+)$").unwrap();
        assert_eq!(pattern.find("x-run12"), Some(12));
        assert_eq!(pattern.find("x-run12b"), None);
        assert!(StepPattern::parse(r"run\d+").unwrap_err().to_string().contains("no group"));
        assert!(StepPattern::parse("(").is_err());
    }
}

//! Prompts that differ between runs.

use std::io::BufReader;
use std::path::Path;

use fs_err as fs;
use lmeval_core::Diagnostic;
use lmeval_pycompat::Value;

use super::align::Alignment;
use super::task::text;
use crate::Error;
use crate::read::{Fields, Pipeline, read_line};

/// Refuses to compare documents whose prompts differ, and shows the first such pair.
pub(super) fn check_prompts(
    task: &str,
    left: &Pipeline,
    right: &Pipeline,
    alignment: &Alignment,
    base_path: &Path,
    new_path: &Path,
) -> Result<(), Error> {
    let differs = |&&(a, b): &&(u32, u32)| {
        let (a, b) = (left.rows[a as usize].prompt, right.rows[b as usize].prompt);
        a != 0 && b != 0 && a != b
    };
    let count = alignment.pairs.iter().filter(differs).count();
    let Some(&(a, b)) = alignment.pairs.iter().find(differs) else { return Ok(()) };
    let (a, b) = (&left.rows[a as usize], &right.rows[b as usize]);
    let prompts = first_difference(&prompt(base_path, a.offset), &prompt(new_path, b.offset));
    Err(Diagnostic::new(format!(
        "{count} of {} documents of `{task}` have different prompts, first document {}:\n{prompts}",
        alignment.pairs.len(),
        a.doc_id
    ))
    .hint("Runs with different prompts are different experiments; --allow-different-prompts compares them anyway").into())
}

/// The first prompt of a sample.
fn prompt(path: &Path, offset: u64) -> String {
    let read = || {
        let mut file = BufReader::new(fs::File::open(path).ok()?);
        let line = read_line(&mut file, offset).ok()?;
        let fields = Fields::parse(line.trim_end()).ok()?;
        let Some(Value::Dict(arguments)) = fields.value("arguments") else { return None };
        let (_, first) = arguments.iter().next()?;
        let Value::Dict(first) = first else { return None };
        text(first, "arg_0").map(str::to_owned)
    };
    read().unwrap_or_default()
}

/// The prompts of a base run and a new one from a little before the first difference.
pub fn first_difference(base: &str, new: &str) -> String {
    first_difference_of(("base: ", base), ("new:  ", new))
}

/// Two strings, each after its label, from a little before the first difference.
pub fn first_difference_of((of_base, base): (&str, &str), (of_new, new): (&str, &str)) -> String {
    let same = base.chars().zip(new.chars()).take_while(|(a, b)| a == b).count();
    let excerpt = |prompt: &str| -> String {
        let start = same.saturating_sub(40);
        let shown: String = prompt.chars().skip(start).take(160).collect();
        let before = if start > 0 { "…" } else { "" };
        let after = if prompt.chars().count() > start + 160 { "…" } else { "" };
        format!("{before}{}{after}", shown.escape_debug())
    };
    format!("  {of_base}{}\n  {of_new}{}", excerpt(base), excerpt(new))
}

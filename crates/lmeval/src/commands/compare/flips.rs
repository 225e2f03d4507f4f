//! Documents whose score changed, with both answers.

use std::fmt::Write as _;
use std::io::BufReader;
use std::path::Path;

use anyhow::{Context as _, Result};
use fs_err as fs;
use lmeval_analysis::compare::{Compared, Comparison, Flip};
use lmeval_analysis::read::{Fields, Run, read_line};
use lmeval_pycompat::Value;

use super::arguments::Format;
use super::formats::object;
use crate::excerpt::{Folding, shown};
use crate::json_line;
use crate::printer::{Printer, escape_controls};

/// Characters of a long string that are shown at its start and its end.
const ENDS: usize = 400;

/// The value of `--flips`.
pub(super) fn count(text: &str) -> Result<usize> {
    match text {
        "all" => Ok(usize::MAX),
        number => {
            number.parse().map_err(|_| anyhow::anyhow!("--flips takes a number or `all`, not `{number}`"))
        }
    }
}

/// The first `count` flips of each score, as one list per run.
pub(super) fn values(
    base: &Run,
    runs: &[Run],
    comparisons: &[Comparison],
    count: usize,
) -> Result<Vec<Vec<Value>>> {
    let mut all = Vec::new();
    for (run, comparison) in runs.iter().zip(comparisons) {
        let mut of_run = Vec::new();
        for score in comparison.scores.iter().filter(|score| !score.is_group) {
            let (Some(left), Some(right)) = (base.samples_of(&score.task), run.samples_of(&score.task))
            else {
                continue;
            };
            let mut files = Files { base: open(&left.path)?, new: open(&right.path)? };
            for flip in score.flips.iter().take(count) {
                of_run.push(files.value(score, run, flip)?);
            }
        }
        all.push(of_run);
    }
    Ok(all)
}

/// Prints the first `count` flips of each score.
pub(super) fn print(
    base: &Run,
    runs: &[Run],
    comparisons: &[Comparison],
    count: usize,
    format: Format,
    printer: &mut Printer,
) -> Result<()> {
    for (run, comparison) in runs.iter().zip(comparisons) {
        for score in comparison.scores.iter().filter(|score| !score.is_group) {
            let (Some(left), Some(right)) = (base.samples_of(&score.task), run.samples_of(&score.task))
            else {
                continue;
            };
            let mut files = Files { base: open(&left.path)?, new: open(&right.path)? };
            for flip in score.flips.iter().take(count) {
                let mut text = String::new();
                if format == Format::Jsonl {
                    json_line::write(&mut text, &files.value(score, run, flip)?)?;
                    printer.exact(&text)?;
                } else {
                    printer.exact(&files.block(score, flip)?)?;
                }
            }
        }
    }
    Ok(())
}

fn open(path: &Path) -> Result<BufReader<fs::File>> {
    Ok(BufReader::new(fs::File::open(path)?))
}

struct Files {
    base: BufReader<fs::File>,
    new: BufReader<fs::File>,
}

impl Files {
    fn lines(&mut self, flip: &Flip) -> Result<(String, String)> {
        Ok((read_line(&mut self.base, flip.base_offset)?, read_line(&mut self.new, flip.new_offset)?))
    }

    /// A flip as one object.
    fn value(&mut self, score: &Compared, run: &Run, flip: &Flip) -> Result<Value> {
        let (base, new) = self.lines(flip)?;
        let (base, new) = (parse(&base)?, parse(&new)?);
        let field = |fields: &Fields<'_>, name| fields.value(name).unwrap_or(Value::None);
        Ok(object([
            ("run", Value::str(run.name.as_str())),
            ("task", Value::str(score.task.as_str())),
            ("filter", Value::str(score.filter.as_str())),
            ("metric", Value::str(score.metric.as_str())),
            ("doc_id", Value::from(flip.doc_id)),
            ("base", Value::Float(flip.base)),
            ("new", Value::Float(flip.new)),
            ("doc", field(&base, "doc")),
            ("target", field(&base, "target")),
            ("arguments", field(&base, "arguments")),
            ("base_resps", field(&base, "resps")),
            ("new_resps", field(&new, "resps")),
            ("base_filtered_resps", field(&base, "filtered_resps")),
            ("new_filtered_resps", field(&new, "filtered_resps")),
        ]))
    }

    /// A flip for reading.
    fn block(&mut self, score: &Compared, flip: &Flip) -> Result<String> {
        let (base, new) = self.lines(flip)?;
        let (base, new) = (parse(&base)?, parse(&new)?);
        let mut text = format!(
            "\n{} document {}, {} ({}): {} → {}\n",
            score.task, flip.doc_id, score.metric, score.filter, flip.base, flip.new
        );
        let mut folding = Folding::new(Some(ENDS));
        for (title, value) in [
            ("prompt", prompt(&base)),
            ("target", base.value("target").map(|target| shown(&target))),
            ("base answer", base.value("resps").map(|answers| shown(&answers))),
            ("new answer", new.value("resps").map(|answers| shown(&answers))),
            ("base filtered", base.value("filtered_resps").map(|answers| shown(&answers))),
            ("new filtered", new.value("filtered_resps").map(|answers| shown(&answers))),
        ] {
            let _ = writeln!(text, "  {title}: {}", indented(&folding.fold(value.unwrap_or_default())));
        }
        Ok(text)
    }
}

fn parse(line: &str) -> Result<Fields<'_>> {
    let malformed = |_| anyhow::anyhow!("A sample changed while it was read");
    Fields::parse(line.trim_end()).map_err(malformed).context("Cannot show a document")
}

/// The first prompt of a sample.
fn prompt(fields: &Fields<'_>) -> Option<String> {
    let Some(Value::Dict(arguments)) = fields.value("arguments") else { return None };
    match arguments.iter().next()? {
        (_, Value::Dict(first)) => first.get_str("arg_0").map(shown),
        _ => None,
    }
}

fn indented(text: &str) -> String {
    escape_controls(text).replace('\n', "\n    ")
}

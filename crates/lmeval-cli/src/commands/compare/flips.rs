//! Documents whose score changed, with both answers.

use std::fmt::Write as _;
use std::io::BufReader;
use std::path::Path;

use anyhow::{Context as _, Result};
use fs_err as fs;
use lmeval_analysis::compare::{Compared, Comparison, Flip};
use lmeval_analysis::read::{Fields, Run, read_line};
use lmeval_analysis::samples::parts::{continuations, prompt, unwrapped};
use lmeval_pycompat::Value;

use super::arguments::Format;
use super::formats::object;
use crate::excerpt::{Folding, likelihood_lines, shown, target_text};
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
        let (arguments, target) = (base.value("arguments").unwrap_or_default(), base.value("target"));
        let options = continuations(&arguments);
        let mut add = |title: &str, value: String| {
            let space = if value.starts_with('\n') { "" } else { " " };
            let _ = writeln!(text, "  {title}:{space}{}", indented(&folding.fold(value)));
        };
        add("prompt", shown(&prompt(&arguments)));
        add("target", target.as_ref().map(|target| target_text(target, &options)).unwrap_or_default());
        for (run, fields) in [("base", &base), ("new", &new)] {
            let responses = fields.value("resps").unwrap_or_default();
            if let Some(lines) = likelihood_lines(&options, &responses, target.as_ref()) {
                add(&format!("{run} answer"), format!("\n{}", lines.join("\n")));
                continue;
            }
            let answer = unwrapped(responses);
            let filtered = unwrapped(fields.value("filtered_resps").unwrap_or_default());
            add(&format!("{run} answer"), shown(&answer));
            if filtered != answer {
                add(&format!("{run} filtered"), shown(&filtered));
            }
        }
        Ok(text)
    }
}

fn parse(line: &str) -> Result<Fields<'_>> {
    let malformed = |_| anyhow::anyhow!("A sample changed while it was read");
    Fields::parse(line.trim_end()).map_err(malformed).context("Cannot show a document")
}

fn indented(text: &str) -> String {
    escape_controls(text).replace('\n', "\n    ")
}

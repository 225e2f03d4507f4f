//! Samples as blocks of text: prompt, target, answer.

use std::fmt::Write as _;

use anyhow::Result;
use lmeval_analysis::samples::Sample;
use lmeval_pycompat::{Value, repr};

use crate::excerpt::{Folding, shown};
use crate::printer::Printer;

/// Characters shown at the start and at the end of a long value.
const ENDS: usize = 400;

/// Prints samples as blocks.
pub(super) struct Blocks {
    folding: Folding,
    printed: usize,
}

impl Blocks {
    pub(super) fn new(full: bool) -> Self {
        Self { folding: Folding::new((!full).then_some(ENDS)), printed: 0 }
    }

    /// The number of folded values.
    pub(super) fn folded(&self) -> usize {
        self.folding.folded()
    }

    pub(super) fn write(&mut self, sample: &Sample<'_>, printer: &mut Printer) -> Result<()> {
        let mut text = String::new();
        if self.printed > 0 {
            text.push('\n');
        }
        self.printed += 1;
        text.push_str(&headline(sample)?);
        self.add(&mut text, "prompt", shown(&sample.prompt()?));
        if let Some(target) = sample.value("target")? {
            self.add(&mut text, "target", shown(&target));
        }
        let answer = sample.answer()?;
        match likelihoods(sample)? {
            Some(lines) => {
                text.push_str("  answer:\n");
                for line in lines {
                    let _ = writeln!(text, "    {}", indented(&self.folding.fold(line)));
                }
            }
            None => self.add(&mut text, "answer", shown(&answer)),
        }
        if let Some(filtered) = sample.value("filtered_resps")?
            && !is_unchanged(&filtered, &sample.value("resps")?.unwrap_or_default())
        {
            self.add(&mut text, "filtered", shown(&filtered));
        }
        Ok(printer.result(&text)?)
    }

    fn add(&mut self, text: &mut String, title: &str, value: String) {
        let _ = writeln!(text, "  {title}: {}", indented(&self.folding.fold(value)));
    }
}

/// Whether the filters took the only answer of each request and left it as it is.
fn is_unchanged(filtered: &Value, responses: &Value) -> bool {
    let first = |response: &Value| response.as_list().and_then(<[Value]>::first).cloned().unwrap_or_default();
    let firsts = Value::list(responses.as_list().unwrap_or_default().iter().map(first));
    filtered == responses || *filtered == firsts || shown(filtered) == shown(responses)
}

/// Task, document, pipeline, outcome and scores.
fn headline(sample: &Sample<'_>) -> Result<String> {
    let id = sample.fields().raw("doc_id").unwrap_or("?");
    let filter = match &*sample.filter() {
        "none" => String::new(),
        other => format!(" ({other})"),
    };
    let scores = sample.scores()?.into_iter().filter(|(_, value)| value.to_f64().is_some());
    let scores: Vec<String> = scores.map(|(name, value)| format!("{name} {}", repr::repr(&value))).collect();
    let parts: Vec<String> = std::iter::once(sample.outcome().name().to_owned()).chain(scores).collect();
    Ok(format!("{} document {id}{filter}: {}\n", sample.task(), parts.join(", ")))
}

/// Log-likelihoods beside their continuations, if these are the answer. A `*` marks the largest.
fn likelihoods(sample: &Sample<'_>) -> Result<Option<Vec<String>>> {
    let continuations = sample.continuations()?;
    let Some(Value::List(responses)) = sample.value("resps")? else { return Ok(None) };
    if continuations.is_empty() || continuations.len() != responses.len() {
        return Ok(None);
    }
    let mut answers = Vec::with_capacity(responses.len());
    for response in responses.iter() {
        let Some(pair) = pair(response) else { return Ok(None) };
        answers.push(pair);
    }
    let largest = answers.iter().map(|(number, _)| *number).fold(f64::NEG_INFINITY, f64::max);
    let width = answers.iter().map(|(_, shown)| shown.len()).max().unwrap_or(0);
    let lines = answers.iter().zip(&continuations).map(|((number, shown), continuation)| {
        let mark = if number.total_cmp(&largest).is_eq() { '*' } else { ' ' };
        format!("{mark} {shown:>width$}  {}", repr::repr(continuation))
    });
    Ok(Some(lines.collect()))
}

/// The log-likelihood in a response such as `[["-3.2", "False"]]`; samples files have it as a string or as a number.
fn pair(response: &Value) -> Option<(f64, String)> {
    let pair = match response.as_list()? {
        [Value::List(inner)] => inner.as_slice(),
        other => other,
    };
    let [likelihood, _] = pair else { return None };
    let number = match likelihood {
        Value::Str(text) => text.parse().ok()?,
        other => other.to_f64()?,
    };
    Some((number, format!("{number:.4}")))
}

fn indented(text: &str) -> String {
    text.replace('\n', "\n    ")
}

//! Samples as blocks of text: prompt, target, answer.

use std::fmt::Write as _;

use anyhow::Result;
use lmeval_analysis::samples::Sample;
use lmeval_pycompat::{Value, repr};

use crate::excerpt::{Folding, likelihood_lines, shown, target_text};
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
        let (target, responses) = (sample.value("target")?, sample.value("resps")?.unwrap_or_default());
        let continuations = sample.continuations()?;
        if let Some(target) = &target {
            self.add(&mut text, "target", target_text(target, &continuations));
        }
        let answer = sample.answer()?;
        match likelihood_lines(&continuations, &responses, target.as_ref()) {
            Some(lines) => {
                text.push_str("  answer:\n");
                for line in lines {
                    let _ = writeln!(text, "    {}", indented(&self.folding.fold(line)));
                }
            }
            None => self.add(&mut text, "answer", shown(&answer)),
        }
        if let Some(filtered) = sample.value("filtered_resps")?
            && !is_unchanged(&filtered, &responses)
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

fn indented(text: &str) -> String {
    text.replace('\n', "\n    ")
}

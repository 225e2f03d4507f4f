//! `--explain`: which setting closes the gap between a claim and a run.
//!
//! What the files of the run tell comes first, because it costs nothing and is about all documents: other scores, the first documents, answers
//! that end elsewhere, other filters. If the claim is a run, its files are compared with those of the other one. Then a sample of documents is
//! asked in every form that differs in one known trap; a form that looks different has to confirm it on other documents.

mod compared;
mod forms;
mod stored;

use anyhow::Result;
use lmeval_analysis::read::Run;
use lmeval_analysis::stats::Sampled;
use lmeval_claims::claim::{Checked, Claims, Verdict, judge};

use self::compared::Compared;
use self::forms::{TRAPS, Tried};
use self::stored::Answers;
use crate::printer::Printer;
use crate::settings::RunSettings;
use crate::stored::StoredArgs;

/// What an explanation is made from.
pub(super) struct Evidence<'a> {
    /// The claims, with the run that made them if it exists.
    pub(super) claims: &'a Claims,
    /// The run that is to reproduce them.
    pub(super) run: &'a Run,
    /// Its stored answers.
    pub(super) answers: StoredArgs,
    /// The settings of a model that can be asked; `None` of a finished run.
    pub(super) asked: Option<&'a RunSettings>,
    /// The claim as it is on the command line.
    pub(super) words: &'a str,
}

/// Something that explains a gap.
#[derive(Clone, Debug)]
pub(super) struct Cause {
    text: String,
    /// How far it leaves the score from the claim.
    residual: f64,
    /// The sampling error of the score.
    error: f64,
}

impl Cause {
    fn new(one: &Checked, score: Sampled, text: String) -> Self {
        let residual = (score.value - one.claim.score.value).abs();
        Self { text, residual, error: score.error().unwrap_or_default() }
    }
}

/// Says of each claim that is different which setting closes the gap, or that none does.
pub(super) fn explain(checked: &[Checked], evidence: &Evidence<'_>, printer: &mut Printer) -> Result<()> {
    for one in checked.iter().filter(|one| one.judgement.verdict == Verdict::Different) {
        printer.result(&format!("\nWhy is {} different?\n", one.claim.name()))?;
        let mut compared = Compared::default();
        if let Some(claimed) = &evidence.claims.run {
            compared = compared::compare(one, claimed, evidence.run)?;
            for line in &compared.lines {
                printer.result(&format!("{line}\n"))?;
            }
        }
        printer.flush()?;
        let mut causes = of_files(one, evidence, printer)?;
        let mut tried = Tried::default();
        if let Some(settings) = evidence.asked {
            tried = forms::asked(one, settings, printer)?;
            causes.append(&mut tried.causes);
        }
        for cause in in_order(causes.clone()) {
            printer.result(&format!("→ {}\n", cause.text))?;
        }
        match evidence.asked {
            None => {
                if causes.is_empty() {
                    printer.result("Nothing in the stored answers closes the gap.\n")?;
                }
                // Equal prompts leave nothing to try.
                if !compared.are_prompts_equal {
                    printer.result(&format!("Only the model can tell about {TRAPS}. Ask it:\n  "))?;
                    printer.result(&format!("{}\n", compared::command(evidence.words, evidence.run)))?;
                }
            }
            Some(_) if causes.is_empty() => printer.result(&format!(
                "No setting that was tried closes the gap: {}\n",
                tried.others.join(", ")
            ))?,
            Some(_) => {}
        }
        if !tried.impossible.is_empty() {
            printer.result(&format!("Could not be asked: {}\n", tried.impossible.join("; ")))?;
        }
        printer.flush()?;
    }
    Ok(())
}

/// The causes that the files of the run show.
fn of_files(one: &Checked, evidence: &Evidence<'_>, printer: &mut Printer) -> Result<Vec<Cause>> {
    let mut causes = stored::of_other_scores(one, evidence.run);
    causes.extend(stored::of_first_documents(one, evidence.run)?);
    if evidence.run.samples.is_empty() {
        return Ok(causes);
    }
    let opened = Answers::open(one, &evidence.answers, evidence.run, printer);
    match opened.and_then(|answers| answers.map(|mut answers| answers.causes(one, printer)).transpose()) {
        Ok(found) => causes.extend(found.into_iter().flatten()),
        // The task may not be here. What else can be tried is.
        Err(error) => printer.warn(&format!("The stored answers cannot be scored again: {error:#}")),
    }
    Ok(causes)
}

/// The causes in the order in which they were tried, the smallest change first, but behind those that come clearly nearer to the claim.
fn in_order(mut causes: Vec<Cause>) -> Vec<Cause> {
    let nearest = causes.iter().map(|cause| cause.residual).fold(f64::INFINITY, f64::min);
    causes.sort_by(|a, b| {
        let is_far = |cause: &Cause| cause.residual > nearest + 2.0 * cause.error;
        let far = is_far(a).cmp(&is_far(b));
        far.then_with(
            || if is_far(a) { a.residual.total_cmp(&b.residual) } else { std::cmp::Ordering::Equal },
        )
    });
    causes
}

/// Whether another score agrees with the claim, and is much nearer to it than the measured one.
fn closes(one: &Checked, score: Sampled) -> bool {
    let judgement = judge(one.claim.score, score, one.judgement.margin);
    judgement.verdict != Verdict::Different
        && judgement.difference.abs() <= 0.5 * one.judgement.difference.abs()
}

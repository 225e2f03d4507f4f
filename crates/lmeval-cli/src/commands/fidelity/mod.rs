//! `lm-eval fidelity`: whether a quantised, converted or newly served model is the same model.
//!
//! Both models are run on the same tasks; the paired comparison of the documents decides. Then both are asked for the distributions over
//! the tokens of the requests, one model after the other, and divergences explain what the documents show.

mod arguments;
mod findings;
mod output;
mod requests;
mod summary;
mod tokens;

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use lmeval_analysis::compare::{Comparison, Settings, adjust, compare};
use lmeval_analysis::condition::Condition;
use lmeval_analysis::fidelity::{Judgement, judge};
use lmeval_analysis::read::{Run, parent};
use lmeval_core::{Arguments, Diagnostic};
use lmeval_scoring::registry::Registry;

pub(crate) use self::arguments::FidelityArgs;
use self::requests::Requests;
use self::tokens::{Refused, Tokens};
use crate::commands::compare::{Decision, decide, status};
use crate::commands::run::Finished;
use crate::commands::{Status, run as evaluation};
use crate::printer::Printer;
use crate::settings::{Options, RunSettings};
use crate::tokenizer::LazyTokenizer;

/// The confidence of intervals and tests, and the power that document counts are for.
const CONFIDENCE: f64 = 0.95;
const POWER: f64 = 0.8;
/// The folders of the two runs in the output folder.
const BASE: &str = "base";
const NEW: &str = "new";
/// The texts whose tokens tell whether two tokenizers are the same before the models are asked.
const TRIED: usize = 200;

/// Everything that is known about two models.
struct Found {
    base: Run,
    new: Run,
    comparison: Comparison,
    /// One for each score of the comparison.
    judgements: Vec<Judgement>,
    decisions: Vec<Decision>,
    base_requests: Requests,
    requests: Requests,
    /// For each request of the new model, the index of the same one of the base model.
    matched: Vec<Option<usize>>,
    tokens: Option<Tokens>,
    /// Why there are no distributions.
    refused: Option<String>,
}

impl Found {
    /// The verdict over all scores.
    fn verdict(&self) -> Judgement {
        self.judgements.iter().copied().max().unwrap_or(Judgement::Undecided)
    }
}

/// Runs both models and compares them.
pub(super) fn run(arguments: &FidelityArgs, printer: &mut Printer) -> Result<Status> {
    let gates: Vec<Condition> =
        arguments.gate.iter().map(|text| Condition::parse(text)).collect::<Result<_, _>>()?;
    let options = &arguments.settings;
    let Some(folder) = options.output_path.as_deref().filter(|path| !path.is_empty()).map(PathBuf::from)
    else {
        bail!(
            Diagnostic::new("The runs and the distributions of the reference need a folder")
                .hint("Name one with `--output_path`")
        );
    };
    let given = settings(options.clone(), &folder.join(BASE))?;
    let other = options.clone().with_model(arguments.against.clone(), arguments.against_args.clone());
    // Before hours are spent on the first model.
    let other = settings(other, &folder.join(NEW))?;
    let tokenizers = [&given, &other].map(|settings| LazyTokenizer::of_model(&settings.model.args));
    evaluation::print_given(&given, printer)?;
    printer.notes().info("Running the reference");
    let finished = match ran(given, printer)? {
        Ok(finished) => finished,
        Err(status) => return Ok(status),
    };
    let base = Run::open(&path_of(&finished)?)?;
    let base_requests = Requests::read(&base, None)?;
    let mut refused = None;
    let mut store = None;
    if !arguments.documents_only {
        refused = other_tokenizer(&base_requests, &tokenizers);
        if refused.is_none() {
            let path = parent(&base.path).join("fidelity.distributions");
            let asked = (&finished.model, &finished.cancel);
            printer.notes().info("Asking the reference for the distributions of its tokens");
            match tokens::of_base(asked, &base_requests, arguments.kept(), &path, &printer.notes())? {
                Ok(found) => store = Some(found),
                Err(Refused::Stopped) => return Ok(Status::Interrupted),
                Err(other) => refused = Some(reason(&other, "the reference")),
            }
        }
    }
    // The memory of the first model is needed for the second one.
    drop(finished);
    printer.notes().info("Running the model to check");
    let finished = match ran(other, printer)? {
        Ok(finished) => finished,
        Err(status) => return Ok(status),
    };
    let new = Run::open(&path_of(&finished)?)?;
    let requests = Requests::read(&new, Some(&base_requests))?;
    let matched = requests.matched(&base_requests);
    let mut tokens = None;
    if let Some(store) = store {
        let asked = (&finished.model, &finished.cancel);
        let both = (&requests, &base_requests, matched.clone());
        printer.notes().info("Asking the model to check for the distributions of its tokens");
        match tokens::of_new(asked, both, arguments.kept(), (store, arguments.worst), &printer.notes())? {
            Ok(found) => tokens = Some(found),
            Err(Refused::Stopped) => return Ok(Status::Interrupted),
            Err(other) => refused = Some(reason(&other, "the model to check")),
        }
    }
    drop(finished);
    let mut comparisons = [compared(&base, &new)?];
    let decisions = decide(&gates, std::slice::from_ref(&new), &comparisons, (CONFIDENCE, POWER))?;
    let [comparison] = &mut comparisons;
    let comparison = std::mem::take(comparison);
    let judgements =
        comparison.scores.iter().map(|score| judge(score, arguments.margin, CONFIDENCE)).collect();
    let found = Found {
        base,
        new,
        comparison,
        judgements,
        decisions,
        base_requests,
        requests,
        matched,
        tokens,
        refused,
    };
    output::publish(&found, arguments, &tokenizers[0], &folder, printer)?;
    if !arguments.gate.is_empty() {
        return Ok(status(&found.decisions));
    }
    Ok(match found.verdict() {
        Judgement::Same | Judgement::Equivalent => Status::Success,
        Judgement::Undecided => Status::GateInconclusive,
        Judgement::Different => Status::GateFailed,
    })
}

/// The settings of one of the runs.
fn settings(mut options: Options, folder: &Path) -> Result<RunSettings> {
    options.output_path = Some(folder.display().to_string());
    options.log_samples = Some(true);
    let mut settings = RunSettings::from_flags(&options)?;
    if settings.documents.shard.is_some() {
        bail!("`--shard` cannot be used here: the shards of a run are compared after `lm-eval merge`");
    }
    if settings.scoring.predict_only {
        bail!("`--predict_only` leaves no scores to compare");
    }
    settings.output.prints_scores = false;
    Ok(settings)
}

/// Runs a model; without all its answers, there is nothing to compare.
fn ran(settings: RunSettings, printer: &mut Printer) -> Result<std::result::Result<Finished, Status>> {
    let finished = evaluation::evaluate(settings, printer, None)?;
    let is_scored =
        matches!(finished.status, Status::Success | Status::GateFailed | Status::GateInconclusive);
    Ok(if is_scored { Ok(finished) } else { Err(finished.status) })
}

fn path_of(finished: &Finished) -> Result<PathBuf> {
    finished.path.clone().ok_or_else(|| anyhow::anyhow!("The run has written no results"))
}

/// Compares the documents. Prompts may differ: that is one of the findings.
fn compared(base: &Run, new: &Run) -> Result<Comparison> {
    let settings = Settings { flips: true, allow_different_prompts: true, ..Settings::default() };
    let mut comparisons = [compare(base, new, &settings, &Registry::default())?];
    adjust(&mut comparisons);
    let [comparison] = comparisons;
    Ok(comparison)
}

/// Why the distributions are not compared.
fn reason(refused: &Refused, whose: &str) -> String {
    match refused {
        Refused::Unsupported(error) => format!("{error}. That is {whose}"),
        Refused::Tokenizers(what) => of_tokenizers(what),
        Refused::Stopped => "The command was stopped".to_owned(),
    }
}

fn of_tokenizers(what: &str) -> String {
    format!(
        "The models have different tokenizers, so the distributions of their tokens cannot be compared: {what}. The documents are compared"
    )
}

/// Why distributions cannot be compared, if both tokenizers are on this machine and split a text differently.
fn other_tokenizer(requests: &Requests, tokenizers: &[LazyTokenizer; 2]) -> Option<String> {
    let [base, new] = [tokenizers[0].get()?, tokenizers[1].get()?];
    for (index, asked) in requests.all.iter().take(TRIED).enumerate() {
        let text = match &asked.arguments {
            Arguments::Rolling { text } => text,
            Arguments::Loglikelihood { continuation, .. } => continuation,
            Arguments::Generate { .. } | Arguments::Letters { .. } => continue,
        };
        let [of_base, of_new] = [base.encode(text, false).ok()?, new.encode(text, false).ok()?];
        if of_base != of_new {
            let what = tokens::differing(&of_base, &of_new);
            return Some(of_tokenizers(&format!("{}: {what}", requests.name(index))));
        }
    }
    None
}

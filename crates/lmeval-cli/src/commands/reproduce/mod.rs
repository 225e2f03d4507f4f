//! `lm-eval reproduce`: whether a reported score is reproduced, by a finished run or a new one.

mod explain;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use anyhow::{Result, bail};
use clap::Args;
use lmeval_analysis::read::Run;
use lmeval_claims::claim::Claims;
use lmeval_core::Diagnostic;
use lmeval_pycompat::Value;
use lmeval_report::ModelName;

use self::explain::Evidence;
use crate::commands::{Status, run as evaluation};
use crate::foreign;
use crate::printer::Printer;
use crate::run::verdicts::{Reproduction, report_claims};
use crate::settings::{Options, RunSettings, over};
use crate::stored::StoredArgs;

/// Arguments of `reproduce`.
#[derive(Args, Debug)]
#[command(
    after_help = "Exit status: 0 if every claim is reproduced, 3 if one is different, 4 if the documents do not tell, 1 on an error, 2 for a usage error.\n\nExamples:\n  lm-eval reproduce 'gsm8k:5=exact_match,strict-match=0.54@1319' out/model\n  lm-eval reproduce results_2026-03-01T09-30-00.123456.json out/model\n  lm-eval reproduce pythia --model hf --model_args pretrained=EleutherAI/pythia-160m --of pythia-160m"
)]
pub(crate) struct ReproduceArgs {
    /// The claim: `TASK=METRIC=VALUE[±STDERR][@DOCUMENTS]`, a results file of any harness release or a folder of them, a recipe, or
    /// a file of expectations.
    #[arg(value_name = "CLAIM")]
    pub claim: String,

    /// The run that is to reproduce it: a results file or a folder. Without it, a run is made with the settings of the claim and those
    /// that are given.
    #[arg(value_name = "RUN")]
    pub run: Option<PathBuf>,

    /// The model whose published scores of a recipe are claimed. [default: the model of the run]
    #[arg(long, value_name = "MODEL")]
    pub of: Option<String>,

    /// The difference that does not matter. [default: 0.03 of a score between 0 and 1, else 3 % of the claim]
    #[arg(long, value_name = "DIFFERENCE")]
    pub margin: Option<f64>,

    /// Print one JSON object per claim.
    #[arg(long)]
    pub json: bool,

    /// If a claim is different, find the setting that closes the gap: in the files of the runs, and, of a new run, by asking a sample of
    /// documents in other forms of the prompts, with other numbers of examples, token limits and the other release line.
    #[arg(long, conflicts_with = "json")]
    pub explain: bool,

    /// The settings of a new run.
    #[command(flatten)]
    pub settings: Options,
}

/// Judges claims.
pub(super) fn run(arguments: &ReproduceArgs, printer: &mut Printer) -> Result<Status> {
    if arguments.margin.is_some_and(|margin| !(margin > 0.0 && margin.is_finite())) {
        bail!("--margin has to be a number above 0");
    }
    match &arguments.run {
        Some(path) => by_finished_run(arguments, path, printer),
        None => by_new_run(arguments, printer),
    }
}

fn reproduction(arguments: &ReproduceArgs, claims: Claims) -> Reproduction {
    Reproduction { claims, margin: arguments.margin, json: arguments.json, judged: OnceLock::new() }
}

fn by_finished_run(arguments: &ReproduceArgs, path: &Path, printer: &mut Printer) -> Result<Status> {
    if arguments.settings.model.is_some() {
        bail!(
            Diagnostic::new("Both RUN and `--model` are given")
                .hint("RUN is a finished run; leave it out to make one with `--model`")
        );
    }
    let run = Run::open(&foreign::run(path)?)?;
    if run.results.is_none() {
        bail!(
            Diagnostic::new(format!("`{}` has samples, but no scores", path.display()))
                .hint("Name the `results_….json` file or the folder of the run")
        );
    }
    let claims = Claims::open(&arguments.claim, Some(arguments.of.as_deref().unwrap_or(&run.name)))?;
    let reproduction = reproduction(arguments, claims);
    let status = report_claims(&reproduction, &run, printer)?;
    if let Some((checked, run)) = reproduction.judged.get().filter(|_| arguments.explain) {
        let answers = StoredArgs {
            library: arguments.settings.library.clone(),
            python: arguments.settings.python.clone(),
            ..StoredArgs::of(&run.path)
        };
        let (claims, words) = (&reproduction.claims, &arguments.claim);
        explain::explain(checked, &Evidence { claims, run, answers, asked: None, words }, printer)?;
    }
    Ok(status)
}

fn by_new_run(arguments: &ReproduceArgs, printer: &mut Printer) -> Result<Status> {
    let mut options = arguments.settings.clone();
    let of = match &arguments.of {
        Some(of) => of.clone(),
        None => {
            let settings = RunSettings::from_flags(&options)?;
            let args = Value::from(settings.model.args.clone());
            ModelName::of(&settings.model.name, &args, settings.prompts.seeds[0]).name
        }
    };
    let claims = Claims::open(&arguments.claim, Some(&of))?;
    let options = match &claims.recipe {
        Some(_) => {
            let name = arguments.claim.strip_prefix("recipe:").unwrap_or(&arguments.claim);
            options.recipe.get_or_insert_with(|| name.to_owned());
            options
        }
        None => over(options, &claims.settings, &arguments.claim)?,
    };
    let mut settings = RunSettings::from_flags(&options)?;
    // The answers of the run tell much of what an explanation would otherwise ask for.
    let folder = (arguments.explain && settings.output.path.is_none()).then(tempfile::tempdir).transpose()?;
    if let Some(folder) = &folder {
        settings.output.path = Some(folder.path().to_owned());
        settings.output.is_temporary = true;
    }
    settings.output.log_samples |= arguments.explain;
    let reproduction = Arc::new(reproduction(arguments, claims));
    settings.claims = Some(Arc::clone(&reproduction));
    evaluation::print_given(&settings, printer)?;
    let status = evaluation::run_with(settings.clone(), printer, None)?;
    if let Some((checked, run)) = reproduction.judged.get().filter(|_| arguments.explain) {
        let answers = StoredArgs::of_run(&run.path, &settings);
        let (claims, words) = (&reproduction.claims, &arguments.claim);
        explain::explain(
            checked,
            &Evidence { claims, run, answers, asked: Some(&settings), words },
            printer,
        )?;
    }
    Ok(status)
}

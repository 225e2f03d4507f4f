//! The judges of a rescoring run. Their answers are read from and added to the journal of the stored run.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use lmeval::settings::RunSettings;
use lmeval_analysis::read::Run;
use lmeval_engine::{Baseline, EvaluateOptions, Evaluated, JournalOptions, JudgeModel};

use crate::printer::Printer;
use crate::python;
use crate::run::judges::{self, Prices};

/// The judges and everything that they need.
pub(super) struct Judging {
    judges: Vec<JudgeModel>,
    baseline: Option<Arc<Baseline>>,
    prices: Option<Prices>,
    journal: Option<JournalOptions>,
}

impl Judging {
    /// Creates the judges that the arguments bind.
    pub(super) fn new(
        run: &Run,
        settings: &RunSettings,
        roots: &[PathBuf],
        printer: &Printer,
    ) -> Result<Self> {
        let notes = printer.notes();
        let path = if settings.judges.is_empty() { None } else { journal(run, settings) };
        let options = python::options(settings.python.as_deref(), &settings.plugins, roots, &notes)?;
        let has_answers = path.as_ref().is_some_and(|path| path.exists());
        let judges = judges::create(settings, &options, &notes, has_answers)?;
        if path.is_none() && judges.iter().any(|judge| judge.model.is_worth_saving()) {
            notes.info("The run has no journal, so judgements are not saved; `--output_path` makes one");
        }
        Ok(Self {
            judges,
            baseline: judges::baseline(settings)?,
            prices: settings.prices.as_deref().map(Prices::read).transpose()?,
            journal: path.map(|path| JournalOptions { path, ..JournalOptions::default() }),
        })
    }

    /// The journal of judgements.
    pub(super) fn journal(&self) -> Option<&JournalOptions> {
        self.journal.as_ref()
    }

    /// Says how many questions a run that was judged before has asked its judges again.
    pub(super) fn report_asked(&self, run: &Run, asked: usize, printer: &Printer) {
        let was_judged = run.section("judging").is_some_and(|tasks| !tasks.is_empty());
        let is_saved = self.judges.iter().any(|judge| judge.model.is_worth_saving());
        if asked > 0 && was_judged && is_saved {
            printer.notes().info(&format!(
                "{} no stored judgement, so the judges were asked: they or their prompts are not those of the stored run. \
                 Judgements from before the built-in prompts had a marker are not used",
                if asked == 1 { "1 question had".to_owned() } else { format!("{asked} questions had") }
            ));
        }
    }

    /// Gives the judges to a run.
    pub(super) fn apply(&self, options: &mut EvaluateOptions) {
        (options.judges, options.baseline) = (self.judges.clone(), self.baseline.clone());
    }

    /// Adds what the judgements cost.
    pub(super) fn add_costs(&self, evaluation: &mut Evaluated) {
        judges::add_costs(evaluation, self.prices.as_ref());
    }
}

/// The journal of the stored run, or else one in the folder of the new results.
fn journal(run: &Run, settings: &RunSettings) -> Option<PathBuf> {
    let own = || {
        let path = settings.output_path.as_ref()?;
        let is_file = path.extension().is_some_and(|extension| extension == "json");
        Some(if is_file { path.with_extension("journal") } else { path.join("judgements.journal") })
    };
    run.journal().or_else(own)
}

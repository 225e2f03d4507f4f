//! The judges of a rescoring run. Their answers are read from and added to the journal of the stored run.

use std::path::PathBuf;

use anyhow::Result;
use lmeval_analysis::read::Run;
use lmeval_engine::JournalOptions;

use crate::printer::Printer;
use crate::run::judges::Judging;
use crate::run::session::Session;
use crate::settings::RunSettings;

/// Creates the judges that the arguments bind.
pub(crate) fn create(run: &Run, session: &mut Session, printer: &Printer) -> Result<()> {
    let (settings, notes) = (&session.settings, printer.notes());
    let path = if settings.scoring.judges.is_empty() { None } else { journal(run, settings) };
    let has_answers = path.as_ref().is_some_and(|path| path.exists());
    session.judging = Judging::create(settings, &session.python, &notes, has_answers)?;
    if path.is_none() && session.judging.is_worth_saving() {
        notes.info("The run has no journal, so judgements are not saved; set `--output_path` to create one");
    }
    session.journal = path.map(|path| JournalOptions { path, ..JournalOptions::default() });
    Ok(())
}

/// Says how many questions a run that was judged before has asked its judges again.
pub(super) fn report_asked(run: &Run, judging: &Judging, asked: usize, printer: &Printer) {
    let was_judged = run.section("judging").is_some_and(|tasks| !tasks.is_empty());
    if asked > 0 && was_judged && judging.is_worth_saving() {
        printer.notes().info(&format!(
            "{} no stored judgement, so the judges were asked: they or their prompts are not those of the stored run. \
             Judgements from before the built-in prompts had a marker are not used",
            if asked == 1 { "1 question had".to_owned() } else { format!("{asked} questions had") }
        ));
    }
}

/// The journal of the stored run, or else one in the folder of the new results.
fn journal(run: &Run, settings: &RunSettings) -> Option<PathBuf> {
    let own = || {
        let path = settings.output.path.as_ref()?;
        let is_file = path.extension().is_some_and(|extension| extension == "json");
        Some(if is_file { path.with_extension("journal") } else { path.join("judgements.journal") })
    };
    run.journal().or_else(own)
}

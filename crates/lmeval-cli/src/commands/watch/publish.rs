//! The curve of all checkpoints that were evaluated, by this watcher or by others, and everything that follows from it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Result, bail};
use fs_err as fs;
use lmeval_analysis::curve::{Curve, Curves, Goal, Kept, Reached, ScoreCurve, Selection, StepRun, Waiting};
use lmeval_analysis::read::Run;
use lmeval_core::Diagnostic;
use lmeval_journal::{ErrorKind, Lock};
use lmeval_report::write_atomically;
use serde_json::json;

use super::store::{Record, Store};
use super::tensorboard;
use super::tracking::Tracking;
use crate::commands::curve::{FRONT, csv};
use crate::printer::Printer;

/// Everything that follows from the results of checkpoints.
pub(super) struct Publisher {
    pub store: Store,
    pub name: String,
    pub selection: Selection,
    pub goals: Vec<Goal>,
    /// How many links are kept, and the score that decides.
    pub best: Option<(usize, Option<Goal>)>,
    /// The folder for TensorBoard.
    pub tensorboard: Option<PathBuf>,
    pub tracking: Option<Tracking>,
    pub curves: Curves,
    /// Results files that cannot be read.
    pub broken: BTreeSet<PathBuf>,
}

/// The state after an evaluation.
pub(super) struct Published {
    pub curve: Curve,
    /// The goals that are reached, one per goal if all are.
    pub reached: Vec<Reached>,
}

impl Publisher {
    /// Reads new results, and writes the curve, its links and its reports. One process does that at a time.
    pub(super) fn publish(
        &mut self,
        waiting: Vec<Waiting>,
        is_live: bool,
        printer: &mut Printer,
    ) -> Result<Published> {
        let _lock = acquire(&self.store.out.join(FRONT))?;
        let records = self.store.records();
        for record in &records {
            let path = record
                .path
                .as_ref()
                .map_or_else(|| record.checkpoint.clone(), |path| path.display().to_string());
            for results in self.store.results(&record.name) {
                if self.curves.has(&results) || self.broken.contains(&results) {
                    continue;
                }
                let added = Run::open(&results).and_then(|run| {
                    self.curves.add(StepRun { step: record.step, checkpoint: path.clone(), run })
                });
                if let Err(error) = added {
                    // The others are shown, and those to come are evaluated.
                    crate::report::failure(printer, &error.into());
                    self.broken.insert(results);
                }
            }
        }
        let mut curve = self.curves.build(&self.name, &self.selection)?;
        let out = &self.store.out;
        for step in &mut curve.steps {
            let results = step.results.as_deref().map(Path::new);
            let inside =
                results.and_then(|path| path.strip_prefix(out).ok()).map(|path| path.display().to_string());
            step.results = inside.or(step.results.take());
        }
        (curve.waiting, curve.is_live) = (waiting, is_live);
        self.write(&curve)?;
        if let Some(folder) = &self.tensorboard {
            tensorboard::write(&curve, folder)?;
        }
        if let Some(tracking) = &mut self.tracking {
            tracking.report(&self.store, &records, printer);
        }
        self.link(&curve, &records, printer)?;
        if let Some(goal) =
            self.goals.iter().find(|goal| !curve.steps.is_empty() && goal.find(&curve).is_none())
        {
            bail!(
                Diagnostic::new(format!(
                    "`--stop-when {goal}` is about a score that the evaluations do not have"
                ))
                .hint(format!("They have {}", names(&curve)))
            );
        }
        let reached: Vec<Reached> = self.goals.iter().filter_map(|goal| goal.reached(&curve)).collect();
        let reached = if reached.len() == self.goals.len() { reached } else { Vec::new() };
        Ok(Published { curve, reached })
    }

    /// Writes the files that have changed.
    fn write(&self, curve: &Curve) -> Result<()> {
        for (name, content) in curve.files(FRONT, csv(curve)) {
            let path = self.store.out.join(name);
            if fs::read(&path).ok().as_deref() != Some(&content) {
                write_atomically(&path, &content)?;
            }
        }
        Ok(())
    }

    /// Makes the links to the best checkpoints those of the folder `best`.
    fn link(&mut self, curve: &Curve, records: &[Record], printer: &Printer) -> Result<()> {
        let Some((count, by)) = &self.best else { return Ok(()) };
        if curve.steps.is_empty() {
            return Ok(());
        }
        let score = deciding(curve, by.as_ref())?.clone();
        let kept = self.curves.best(curve, &score, *count);
        let folder = self.store.out.join("best");
        fs::create_dir_all(&folder)?;
        let mut wanted: Vec<(String, PathBuf)> = Vec::new();
        for Kept { step, .. } in &kept {
            let of_step = records.iter().filter(|record| record.step == curve.steps[*step].step);
            let paths = of_step.filter_map(|record| Some((record, record.path.clone()?)));
            // A renamed checkpoint is where it is now.
            let (existing, gone): (Vec<_>, Vec<_>) = paths.partition(|(_, path)| path.exists());
            if let Some((record, path)) = existing.first().or(gone.first()) {
                let ending = if path.is_file() { ".gguf" } else { "" };
                wanted.push((format!("{}{ending}", record.name.replace('/', "-")), path.clone()));
            }
        }
        for entry in fs::read_dir(&folder)?.flatten() {
            let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
            if is_link && !wanted.iter().any(|(name, _)| entry.file_name().to_str() == Some(name)) {
                fs::remove_file(entry.path())?;
            }
        }
        for (name, path) in &wanted {
            let link = folder.join(name);
            if fs::read_link(&link).ok().as_ref() != Some(path) && symlink(path, &link).is_err() {
                printer.notes().warn(&format!("Cannot link `{}` to `{}`", link.display(), path.display()));
            }
        }
        let list: Vec<_> = kept
            .iter()
            .map(|Kept { step, value }| json!({"step": curve.steps[*step].step, "checkpoint": curve.steps[*step].checkpoint, "score": value}))
            .collect();
        let text = json!({"task": score.task, "metric": score.label(), "best": list});
        let path = folder.join("best.json");
        let content = serde_json::to_string_pretty(&text)? + "\n";
        if fs::read_to_string(&path).ok().as_deref() != Some(&content) {
            write_atomically(&path, content.as_bytes())?;
        }
        Ok(())
    }
}

/// The score that decides which checkpoints are the best.
fn deciding<'a>(curve: &'a Curve, by: Option<&Goal>) -> Result<&'a ScoreCurve> {
    let mut main = curve.main();
    let found = match (by, main.next(), main.next()) {
        (Some(goal), ..) => goal.find(curve),
        (None, Some(only), None) => Some(only),
        (None, ..) => None,
    };
    match found {
        Some(score) if score.higher_is_better.is_some() => Ok(score),
        Some(score) => bail!(
            "`--best` needs a score whose direction is known, which `{}` of `{}` has not",
            score.label(),
            score.task
        ),
        None => {
            let none = Diagnostic::new("`--best` does not say which score decides");
            bail!(none.hint(format!("Add `--best-by` with one of {}", names(curve))))
        }
    }
}

/// The scores as goals name them.
fn names(curve: &Curve) -> String {
    let names = curve.scores.iter().map(|score| format!("`{}.{}`", score.task, score.label()));
    names.collect::<Vec<_>>().join(", ")
}

/// The exclusive right to write the curve. It is held for moments.
fn acquire(path: &Path) -> Result<Lock> {
    loop {
        match Lock::acquire(path) {
            Ok(lock) => return Ok(lock),
            Err(error) if matches!(error.kind(), ErrorKind::Locked { .. } | ErrorKind::Claimed { .. }) => {
                thread::sleep(Duration::from_millis(50));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(unix)]
fn symlink(target: &Path, link: &Path) -> std::io::Result<()> {
    if fs::symlink_metadata(link).is_ok() {
        fs::remove_file(link)?;
    }
    fs_err::os::unix::fs::symlink(target, link)
}

#[cfg(not(unix))]
fn symlink(_: &Path, _: &Path) -> std::io::Result<()> {
    Err(std::io::Error::other("this system has no links"))
}

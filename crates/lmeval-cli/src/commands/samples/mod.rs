//! `lm-eval samples`: prints the documents of a run.

mod arguments;
mod blocks;
mod fields;
mod rows;

use anyhow::{Result, bail};
use lmeval_analysis::read::{Run, TaskNames};
use lmeval_analysis::samples::{
    Expression, Matches, Outcome, Query, Sample, SampleReader, Seen, Sort, find, visit,
};
use lmeval_core::{Diagnostic, nearest};

pub(crate) use self::arguments::{Format, SamplesArgs};
use self::blocks::Blocks;
use self::rows::Rows;
use crate::commands::Status;
use crate::foreign;
use crate::printer::{self, Printer};
use crate::words::counted;

/// Prints samples one after the other.
enum Writer {
    /// The lines of the file.
    Lines,
    Blocks(Blocks),
    Rows(Rows),
}

impl Writer {
    fn write(&mut self, sample: &Sample<'_>, printer: &mut Printer) -> Result<()> {
        match self {
            Self::Lines => Ok(printer.data(&format!("{}\n", sample.json()), true)?),
            Self::Blocks(blocks) => blocks.write(sample, printer),
            Self::Rows(rows) => rows.write(sample, printer),
        }
    }

    fn finish(&mut self, printer: &mut Printer) -> Result<()> {
        match self {
            Self::Rows(rows) => rows.finish(printer),
            Self::Lines | Self::Blocks(_) => Ok(()),
        }
    }

    fn folded(&self) -> usize {
        match self {
            Self::Lines => 0,
            Self::Blocks(blocks) => blocks.folded(),
            Self::Rows(rows) => rows.folded(),
        }
    }
}

/// Prints the samples that match.
pub(crate) fn run(arguments: &SamplesArgs, printer: &mut Printer) -> Result<Status> {
    let run = Run::open(&foreign::run(&arguments.run)?)?;
    report_lost(&run, arguments, printer);
    let mut readers = readers(&run, arguments)?;
    let names = names(&mut readers, arguments.metric.as_deref())?;
    let known: Vec<&str> = names.all.iter().map(String::as_str).collect();
    let query = query(arguments)?;
    let sort = arguments.sort.as_deref().map(Sort::parse).transpose()?;
    if let Some(sort) = &sort {
        sort.field().check(&known)?;
    }
    let mut writer = writer(arguments, &names)?;
    let limit = arguments.limit.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
    // A search that finds nothing, or fails, needs no pager.
    let found = sort.as_ref().map(|sort| find(&mut readers, &query, Some(sort), limit)).transpose()?;
    if !arguments.no_pager {
        printer.start_pager()?;
    }
    let printed = match &found {
        Some(found) => print_found(found, &mut readers, &mut writer, printer),
        None => visit(&mut readers, &query, limit, |_, sample| writer.write(sample, printer)),
    };
    let printed = printed.and_then(|seen| {
        writer.finish(printer)?;
        Ok(seen)
    });
    printer.end_pager()?;
    let seen = match printed {
        Err(error) if printer::is_broken_pipe(&error) => return Ok(Status::Success),
        other => other?,
    };
    for reader in &readers {
        if let Some(incomplete) = reader.incomplete() {
            printer.warn(&format!("{incomplete}; it is left out"));
        }
        let change = reader.checksum().and_then(|found| run.samples_change(reader.file(), found));
        if let Some(change) = change {
            printer.warn(&change);
        }
    }
    if seen.matching == 0 {
        explain_nothing(&seen, &query)?;
    }
    report(&seen, &query, &writer, limit, found.map_or(0, |found| found.unsorted), printer);
    Ok(Status::Success)
}

/// Warns of tasks whose samples files are gone.
fn report_lost(run: &Run, arguments: &SamplesArgs, printer: &mut Printer) {
    let tasks = TaskNames::new(&arguments.tasks);
    for task in run.lost_samples().into_iter().filter(|task| tasks.accepts(task)) {
        let path = run.path.display();
        printer.warn(&format!("The samples file of `{task}`, which the run wrote, is not beside `{path}`"));
    }
}

/// Reads the samples that were found once more, in their order.
fn print_found(
    found: &Matches,
    readers: &mut [SampleReader],
    writer: &mut Writer,
    printer: &mut Printer,
) -> Result<Seen> {
    for position in &found.positions {
        let sample = readers[position.file].read_at(position.offset)?;
        writer.write(&sample, printer)?;
    }
    Ok(found.seen.clone())
}

/// The samples files of the chosen tasks.
fn readers(run: &Run, arguments: &SamplesArgs) -> Result<Vec<SampleReader>> {
    if run.samples.is_empty() {
        let diagnostic = Diagnostic::new(format!("There are no samples beside `{}`", run.path.display()));
        bail!(diagnostic.hint("`lm-eval run --log_samples` writes them"));
    }
    let tasks = TaskNames::new(&arguments.tasks);
    tasks.check(&run.samples.iter().map(|file| file.task.as_str()).collect::<Vec<_>>())?;
    let chosen = run.samples.iter().filter(|file| tasks.accepts(&file.task));
    chosen.map(|file| Ok(SampleReader::open(run, file, arguments.metric.as_deref())?)).collect()
}

/// The names that samples have, from the first one of each file.
struct Names {
    all: Vec<String>,
    metrics: Vec<String>,
}

fn names(readers: &mut [SampleReader], metric: Option<&str>) -> Result<Names> {
    let mut names = Names { all: Vec::new(), metrics: Vec::new() };
    for reader in readers {
        if let Some(sample) = reader.read_next()? {
            let metrics = sample.scores()?.into_iter().map(|(metric, _)| metric);
            for (known, found) in [
                (&mut names.metrics, metrics.collect::<Vec<String>>()),
                (&mut names.all, sample.names().into_iter().map(str::to_owned).collect()),
            ] {
                for name in found {
                    if !known.contains(&name) {
                        known.push(name);
                    }
                }
            }
        }
        reader.rewind()?;
    }
    if let Some(metric) = metric.filter(|metric| !names.metrics.iter().any(|name| name == metric)) {
        let metrics: Vec<&str> = names.metrics.iter().map(String::as_str).collect();
        let diagnostic = Diagnostic::new(format!("The samples have no metric `{metric}`"))
            .did_you_mean(&nearest(metric, metrics.iter().copied()));
        bail!(diagnostic.hint(format!("They have {}", quoted(&metrics))));
    }
    Ok(names)
}

fn query(arguments: &SamplesArgs) -> Result<Query> {
    let conditions = arguments.conditions.iter().map(|text| Expression::parse(text, "--where"));
    Ok(Query {
        filter: arguments.filter.clone(),
        outcome: match (arguments.wrong, arguments.right) {
            (true, _) => Some(Outcome::Wrong),
            (_, true) => Some(Outcome::Right),
            _ => None,
        },
        conditions: conditions.collect::<Result<_, _>>()?,
    })
}

fn writer(arguments: &SamplesArgs, names: &Names) -> Result<Writer> {
    let known: Vec<&str> = names.all.iter().map(String::as_str).collect();
    let chosen = arguments.fields.as_deref().map(|text| fields::parse(text, &known)).transpose()?;
    Ok(match (arguments.format, chosen) {
        (Format::Table, None) => Writer::Blocks(Blocks::new(arguments.full)),
        (Format::Jsonl, None) => Writer::Lines,
        (format, None) => Writer::Rows(Rows::new(format, fields::usual(&names.metrics), arguments.full)),
        (format, Some(fields)) => Writer::Rows(Rows::new(format, fields, arguments.full)),
    })
}

/// Fails if nothing can match: an unknown filter, or documents without a right and a wrong.
fn explain_nothing(seen: &Seen, query: &Query) -> Result<()> {
    if let Some(filter) = query.filter.as_ref().filter(|filter| !seen.filters.contains(filter))
        && seen.samples > 0
    {
        let filters: Vec<&str> = seen.filters.iter().map(String::as_str).collect();
        let diagnostic = Diagnostic::new(format!("The samples have no filter `{filter}`"));
        bail!(diagnostic.hint(format!("They have {}", quoted(&filters))));
    }
    let [right, wrong, partial, unscored] = seen.outcomes;
    if right + wrong == 0 && partial + unscored > 0 {
        let diagnostic =
            Diagnostic::new("No document has a score of 0 or 1, which --right and --wrong look for");
        bail!(
            diagnostic
                .hint("--metric chooses another metric, and --where 'METRIC < 0.5' any other condition")
        );
    }
    Ok(())
}

/// Notes about what was not printed.
fn report(
    seen: &Seen,
    query: &Query,
    writer: &Writer,
    limit: Option<usize>,
    unsorted: usize,
    printer: &mut Printer,
) {
    let mut notes = Vec::new();
    let shown = limit.map_or(seen.matching, |limit| limit.min(seen.matching));
    if shown < seen.matching {
        notes.push(format!("{shown} of {} matching documents shown (-n)", seen.matching));
    } else if limit == Some(shown) {
        notes.push(format!("Stopped after {} (-n); more may match", counted(shown, "document")));
    } else if seen.matching == 0 {
        notes.push(format!("None of {} matches", counted(seen.samples, "document")));
    }
    let partial = seen.outcomes[Outcome::Partial as usize];
    if query.outcome.is_some() && partial > 0 {
        notes.push(format!(
            "{} with a score other than 0 and 1 left out; --metric or --where can choose them",
            counted(partial, "document")
        ));
    }
    let unscored = seen.outcomes[Outcome::Unscored as usize];
    if query.outcome.is_some() && unscored > 0 {
        notes.push(format!("{} without a score left out", counted(unscored, "document")));
    }
    if unsorted > 0 {
        notes.push(format!("{} without a value to sort by: last", counted(unsorted, "document")));
    }
    if writer.folded() > 0 {
        notes.push(format!("{} folded; --full shows everything", counted(writer.folded(), "long value")));
    }
    for note in notes {
        printer.note(&note);
    }
    if let Writer::Rows(rows) = writer {
        for field in rows.never_set() {
            printer.warn(&format!("no document has a value of `{field}`"));
        }
    }
}

fn quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

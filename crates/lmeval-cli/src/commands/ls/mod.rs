//! `lm-eval ls`: lists tasks and registered extensions.

mod registered;
mod search;

use std::io;
use std::path::Path;

use anyhow::Result;
use clap::CommandFactory;
use lmeval_core::{Diagnostic, nearest};
use lmeval_pycompat::Value;
use lmeval_tasks::index::{Entry, Index, Kind};

use self::registered::Named;
use self::search::{Search, ranked};
use crate::cli::{Cli, Listing, LsArgs};
use crate::commands::Status;
use crate::printer::Printer;
use crate::report::hint_lines;
use crate::table::Table;
use crate::{json_line, roots};

/// Prints the requested names as tables or JSON lines.
pub(crate) fn run(arguments: &LsArgs, printer: &mut Printer) -> Result<Status> {
    let Some(what) = arguments.what else {
        let mut command = Cli::command();
        command.build();
        let help = command.find_subcommand_mut("ls").map(|ls| ls.render_long_help().to_string());
        printer.result(&help.unwrap_or_default())?;
        return Ok(Status::Success);
    };
    let search = arguments.search.as_deref().map(Search::new);
    let found = match what {
        Listing::Models => print_named(&registered::models(search.as_ref()), "Model", arguments, printer)?,
        Listing::Metrics => print_named(&registered::metrics(search.as_ref()), "Metric", arguments, printer)?,
        Listing::Filters => print_named(&registered::filters(search.as_ref()), "Filter", arguments, printer)?,
        Listing::Recipes => {
            print_named(&registered::recipes(search.as_ref())?, "Recipe", arguments, printer)?
        }
        _ => return list_tasks(what, search, arguments, printer),
    };
    if !found && let Some(word) = &arguments.search {
        printer.note(&format!("Nothing matches `{word}`; omit the word to list everything"));
        return Ok(Status::Failure);
    }
    Ok(Status::Success)
}

fn list_tasks(
    what: Listing,
    search: Option<Search>,
    arguments: &LsArgs,
    printer: &mut Printer,
) -> Result<Status> {
    let roots = roots::resolve(&arguments.library, printer)?;
    let index = Index::build(&roots);
    let rows = Rows { index: &index, search };
    let is_empty = rows.of(kinds(what)).is_empty();
    if arguments.names {
        for (name, _) in rows.of(kinds(what)) {
            printer.result(&format!("{name}\n"))?;
        }
    } else if arguments.json {
        printer.exact(&rows.json(what)?)?;
    } else if !is_empty || arguments.search.is_none() {
        rows.tables(what, printer)?;
    }
    note_problems(&index, printer);
    if let (true, Some(word)) = (is_empty, &arguments.search) {
        report_no_match(word, &index, arguments, printer)?;
        return Ok(Status::Failure);
    }
    Ok(Status::Success)
}

/// Reports that no name matches, with hints.
fn report_no_match(word: &str, index: &Index, arguments: &LsArgs, printer: &mut Printer) -> Result<()> {
    let near = nearest(word, index.iter().map(|(name, _)| name));
    let diagnostic = Diagnostic::new(format!("Nothing matches `{word}`")).did_you_mean(&near);
    let diagnostic =
        roots::missing_library(&arguments.library)?.into_iter().fold(diagnostic, Diagnostic::hint);
    printer.note(&(diagnostic.message + &hint_lines(&diagnostic.hints)));
    Ok(())
}

/// Prints registered extensions; returns whether there were any.
fn print_named(named: &[Named], title: &str, arguments: &LsArgs, printer: &mut Printer) -> Result<bool> {
    if arguments.names {
        for name in named.iter().flat_map(|one| &one.names) {
            printer.result(&format!("{name}\n"))?;
        }
    } else if arguments.json {
        let mut text = String::new();
        for one in named {
            json_line::write(&mut text, &one.json(&title.to_lowercase()))?;
        }
        printer.exact(&text)?;
    } else if !named.is_empty() {
        let names: Vec<String> = named.iter().map(|one| one.names.join(", ")).collect();
        let text = if named.iter().any(|one| one.made_for.is_some()) {
            let mut table = Table::new([title, "Output Types", "Description"]);
            for (one, names) in named.iter().zip(&names) {
                table.row([
                    names.as_str(),
                    one.made_for.as_deref().unwrap_or_default(),
                    one.summary.as_str(),
                ]);
            }
            written(&table)?
        } else {
            let mut table = Table::new([title, "Description"]);
            for (one, names) in named.iter().zip(&names) {
                table.row([names.as_str(), one.summary.as_str()]);
            }
            written(&table)?
        };
        printer.table(&String::from_utf8_lossy(&text))?;
    }
    Ok(!named.is_empty())
}

/// Warns about files that are missing from the list.
pub(crate) fn note_problems(index: &Index, printer: &mut Printer) {
    let count = index.problems().iter().filter(|problem| !problem.is_template()).count();
    if count > 0 {
        let files = if count == 1 { "file is" } else { "files are" };
        printer.warn(&format!("{count} {files} not listed because of errors; `lm-eval validate` shows them"));
    }
}

struct Rows<'a> {
    index: &'a Index,
    search: Option<Search>,
}

impl<'a> Rows<'a> {
    fn of(&self, kinds: &[Kind]) -> Vec<(&'a str, &'a Entry)> {
        let names = ranked(self.search.as_ref(), self.index.names(kinds), |name| vec![(*name).to_owned()]);
        names.into_iter().filter_map(|name| Some((name, self.index.get(name)?))).collect()
    }

    /// Prints groups, tags and subtasks, each table followed by two newlines, as scripts expect. A search omits empty
    /// tables.
    fn tables(&self, what: Listing, printer: &mut Printer) -> io::Result<()> {
        printer.result("\n")?;
        let mut print = |is_empty: bool, table: Vec<u8>| -> io::Result<()> {
            if is_empty && self.search.is_some() {
                return Ok(());
            }
            printer.table(&String::from_utf8_lossy(&table))?;
            printer.result("\n\n")
        };
        if matches!(what, Listing::Tasks | Listing::Groups) {
            let rows = self.of(&[Kind::Group]);
            let mut table = Table::new(["Group", "Config Location"]);
            for (name, entry) in &rows {
                table.row([name, location(entry)]);
            }
            print(rows.is_empty(), written(&table)?)?;
        }
        if matches!(what, Listing::Tasks | Listing::Tags) {
            let rows = self.of(&[Kind::Tag]);
            let mut table = Table::new(["Tag"]);
            for (name, _) in &rows {
                table.row([name]);
            }
            print(rows.is_empty(), written(&table)?)?;
        }
        if matches!(what, Listing::Tasks | Listing::Subtasks) {
            let rows = self.of(&[Kind::Task, Kind::PythonTask]);
            let mut table = Table::new(["Task", "Config Location", "Output Type"]);
            for (name, entry) in &rows {
                table.row([name, location(entry), entry.output_type.as_deref().unwrap_or_default()]);
            }
            print(rows.is_empty(), written(&table)?)?;
        }
        printer.result("\n")
    }

    fn json(&self, what: Listing) -> Result<String> {
        let mut text = String::new();
        for (name, entry) in self.of(kinds(what)) {
            let names = |key| (key, Value::list(entry.tags.iter().map(|tag| Value::Str(tag.clone()))));
            let mut fields = vec![("name", Value::from(name)), ("kind", Value::from(entry.kind.name()))];
            fields.push((
                "path",
                Value::from(entry.path.as_deref().map(|path| path.to_string_lossy().into_owned())),
            ));
            match entry.kind {
                Kind::Tag => fields.push(names("tasks")),
                Kind::Group => fields.push(names("tags")),
                Kind::Task | Kind::PythonTask => {
                    fields.push(("output_type", Value::from(entry.output_type.as_deref())));
                    fields.push(names("tags"));
                }
            }
            json_line::write(&mut text, &Value::dict(fields))?;
        }
        Ok(text)
    }
}

/// The kinds of entries in a listing.
fn kinds(what: Listing) -> &'static [Kind] {
    match what {
        Listing::Groups => &[Kind::Group],
        Listing::Tags => &[Kind::Tag],
        Listing::Subtasks => &[Kind::Task, Kind::PythonTask],
        _ => &[Kind::Group, Kind::Tag, Kind::Task, Kind::PythonTask],
    }
}

fn written<const COLUMNS: usize>(table: &Table<'_, COLUMNS>) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    table.write(&mut text)?;
    Ok(text)
}

/// The file of an entry; inside an `lm_eval` package, the part that is the same on every machine.
fn location(entry: &Entry) -> &str {
    const PACKAGE: &str = "lm_eval/tasks/";
    let Some(path) = entry.path.as_deref().and_then(Path::to_str) else {
        return "---";
    };
    path.rfind(PACKAGE).map_or(path, |start| &path[start..])
}

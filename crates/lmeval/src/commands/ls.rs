//! `lm-eval ls`: what there is.

use std::io::{self, Write};
use std::path::Path;

use anyhow::Result;
use clap::CommandFactory;
use lmeval_pycompat::Value;
use lmeval_pycompat::fnmatch::Pattern;
use lmeval_tasks::index::{Entry, Index, Kind};

use crate::cli::{Cli, Listing, LsArgs};
use crate::commands::Status;
use crate::printer::Printer;
use crate::table::Table;
use crate::{json_line, roots};

/// Prints tables or JSON lines of the names that were asked for.
pub(crate) fn run(arguments: &LsArgs, printer: &mut Printer) -> Result<Status> {
    let Some(what) = arguments.what else {
        let mut command = Cli::command();
        command.build();
        let help = command.find_subcommand_mut("ls").map(|ls| ls.render_long_help().to_string());
        printer.result(&help.unwrap_or_default())?;
        return Ok(Status::Success);
    };
    let roots = roots::resolve(&arguments.library, printer)?;
    let index = Index::build(&roots);
    let rows = Rows { index: &index, filter: arguments.search.as_deref().map(Filter::new) };
    if arguments.json {
        printer.exact(&rows.json(what)?)?;
    } else {
        let mut tables = Vec::new();
        rows.tables(what, &mut tables)?;
        printer.result(&String::from_utf8_lossy(&tables))?;
    }
    note_problems(&index, printer);
    Ok(Status::Success)
}

/// Says how many files are missing from the list.
pub(crate) fn note_problems(index: &Index, printer: &mut Printer) {
    let count = index.problems().iter().filter(|problem| !problem.is_template()).count();
    if count > 0 {
        let files = if count == 1 { "file is" } else { "files are" };
        printer.note(&format!(
            "warning: {count} {files} not listed because of errors; `lm-eval validate` explains them"
        ));
    }
}

/// A search word: a pattern, or a part of the name whatever its case.
enum Filter {
    Pattern(Pattern),
    Part(String),
}

impl Filter {
    fn new(word: &str) -> Self {
        if Pattern::is_glob(word) {
            Self::Pattern(Pattern::new(word))
        } else {
            Self::Part(word.to_lowercase())
        }
    }

    fn accepts(&self, name: &str) -> bool {
        match self {
            Self::Pattern(pattern) => pattern.matches(name),
            Self::Part(part) => name.to_lowercase().contains(part),
        }
    }
}

struct Rows<'a> {
    index: &'a Index,
    filter: Option<Filter>,
}

impl<'a> Rows<'a> {
    fn of(&self, kinds: &[Kind]) -> Vec<(&'a str, &'a Entry)> {
        self.index
            .names(kinds)
            .into_iter()
            .filter(|name| self.filter.as_ref().is_none_or(|filter| filter.accepts(name)))
            .filter_map(|name| Some((name, self.index.get(name)?)))
            .collect()
    }

    /// Groups, tags, subtasks: each table followed by two line ends, as scripts expect them.
    fn tables(&self, what: Listing, out: &mut impl Write) -> io::Result<()> {
        out.write_all(b"\n")?;
        if matches!(what, Listing::Tasks | Listing::Groups) {
            let rows = self.of(&[Kind::Group]);
            let mut table = Table::new(["Group", "Config Location"]);
            for (name, entry) in &rows {
                table.row([name, location(entry)]);
            }
            table.write(out)?;
            out.write_all(b"\n\n")?;
        }
        if matches!(what, Listing::Tasks | Listing::Tags) {
            let rows = self.of(&[Kind::Tag]);
            let mut table = Table::new(["Tag"]);
            for (name, _) in &rows {
                table.row([name]);
            }
            table.write(out)?;
            out.write_all(b"\n\n")?;
        }
        if matches!(what, Listing::Tasks | Listing::Subtasks) {
            let rows = self.of(&[Kind::Task, Kind::PythonTask]);
            let mut table = Table::new(["Task", "Config Location", "Output Type"]);
            for (name, entry) in &rows {
                table.row([name, location(entry), entry.output_type.as_deref().unwrap_or_default()]);
            }
            table.write(out)?;
            out.write_all(b"\n\n")?;
        }
        out.write_all(b"\n")
    }

    fn json(&self, what: Listing) -> Result<String> {
        let kinds: &[Kind] = match what {
            Listing::Tasks => &[Kind::Group, Kind::Tag, Kind::Task, Kind::PythonTask],
            Listing::Groups => &[Kind::Group],
            Listing::Tags => &[Kind::Tag],
            Listing::Subtasks => &[Kind::Task, Kind::PythonTask],
        };
        let mut text = String::new();
        for (name, entry) in self.of(kinds) {
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

/// The file of an entry; inside an `lm_eval` package the part that is the same on every machine.
fn location(entry: &Entry) -> &str {
    const PACKAGE: &str = "lm_eval/tasks/";
    let Some(path) = entry.path.as_deref().and_then(Path::to_str) else {
        return "---";
    };
    path.rfind(PACKAGE).map_or(path, |start| &path[start..])
}

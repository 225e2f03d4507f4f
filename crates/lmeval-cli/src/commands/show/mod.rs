//! `lm-eval show`: prints what a name resolves to.

mod recipe;

use std::fmt::Write;
use std::path::Path;

use anyhow::Result;
use lmeval_pycompat::{Dict, Value, yaml};
use lmeval_tasks::config::TaskConfig;
use lmeval_tasks::source::{Mapping, Origin, Step, identity};
use lmeval_tasks::{Group, Task, TaskDict};

use crate::cli::ShowArgs;
use crate::commands::Status;
use crate::printer::Printer;
use crate::words::counted;
use crate::{json_line, roots};

/// Prints the resolved configuration of each name.
pub(crate) fn run(arguments: &ShowArgs, printer: &mut Printer) -> Result<Status> {
    let roots = roots::resolve(&arguments.library, printer)?;
    let manager = roots::manager(&roots, &arguments.library)?;
    let mut names = Vec::new();
    for name in &arguments.names {
        match recipe::named(name, &manager)? {
            Some(found) => recipe::print(&found, arguments, &manager, printer)?,
            None => names.push(name.clone()),
        }
    }
    if names.is_empty() {
        return Ok(Status::Success);
    }
    let loaded = roots::load(&manager, &names, printer)?;
    let text = if arguments.json {
        as_json(&loaded)?
    } else if arguments.yaml {
        lmeval::definitions(&loaded)
    } else {
        as_text(&loaded)
    };
    if arguments.json || arguments.yaml {
        printer.exact(&text)?;
    } else {
        printer.result(&text)?;
    }
    for name in &names {
        recipe::note(name, printer);
    }
    Ok(Status::Success)
}

/// The origins of the values of a task or group.
struct Origins<'a> {
    mapping: &'a Mapping,
    /// The configuration of a task, which knows the keys that its format generated.
    task: Option<&'a TaskConfig>,
}

impl<'a> Origins<'a> {
    fn of_group(group: &'a Group) -> Self {
        Self { mapping: group.mapping(), task: None }
    }

    fn of_task(task: &'a Task) -> Self {
        Self { mapping: task.mapping(), task: Some(&task.config) }
    }

    /// The file and line of a value, or what else set it.
    fn of(&self, key: &str, value: &Value) -> String {
        let given = self.mapping.get(key);
        if let Some(format) = self.task.and_then(|task| task.format_of(key))
            && given != Some(value)
        {
            return format!("format {format}");
        }
        if given.is_none() {
            return "default".to_owned();
        }
        if let Some(location) = self.mapping.locate(&[Step::from(key)]) {
            return location.to_string();
        }
        match self.mapping.origin(key) {
            Some(Origin::File { file, .. }) => file.path().display().to_string(),
            Some(Origin::Override) => "override".to_owned(),
            _ => "inline".to_owned(),
        }
    }

    fn all(&self, config: &Value) -> Value {
        let entries = config.as_dict().into_iter().flat_map(Dict::iter);
        let named = entries.filter_map(|(key, value)| Some((key.as_str()?, value)));
        Value::dict(named.map(|(key, value)| (key, Value::from(self.of(key, value)))))
    }
}

fn as_json(loaded: &TaskDict) -> Result<String> {
    let mut text = String::new();
    let mut line =
        |fields: Vec<(&str, Value)>| -> Result<()> { json_line::write(&mut text, &Value::dict(fields)) };
    for (name, group) in &loaded.groups {
        let config = group.config.to_definition();
        line(vec![
            ("name", Value::from(name.as_str())),
            ("kind", Value::from("group")),
            ("source", source(group.source())),
            ("members", Value::list(loaded.group_map[name].iter().map(|key| Value::from(key.as_str())))),
            ("config", config.clone()),
            ("origins", Origins::of_group(group).all(&config)),
        ])?;
    }
    for (name, task) in &loaded.tasks {
        let config = task.config.to_definition();
        line(vec![
            ("name", Value::from(name.as_str())),
            ("kind", Value::from(if task.config.class.is_some() { "python task" } else { "task" })),
            ("source", source(task.source())),
            ("config", config.clone()),
            ("origins", Origins::of_task(task).all(&config)),
        ])?;
    }
    Ok(text)
}

fn source(path: Option<&Path>) -> Value {
    Value::from(path.map(|path| path.to_string_lossy().into_owned()))
}

fn as_text(loaded: &TaskDict) -> String {
    let mut text = String::new();
    for (name, group) in &loaded.groups {
        describe_group(&mut text, name, group, &loaded.group_map[name]);
    }
    for (name, task) in &loaded.tasks {
        describe_task(&mut text, name, task);
    }
    text
}

fn describe_group(text: &mut String, name: &str, group: &Group, members: &[String]) {
    heading(text, "group", name, group.source());
    let _ = writeln!(text, "# {}: {}", counted(members.len(), "member"), members.join(", "));
    annotated(text, &group.config.to_definition(), &Origins::of_group(group), group.source());
    text.push('\n');
}

fn describe_task(text: &mut String, name: &str, task: &Task) {
    let kind = if task.config.class.is_some() { "python task" } else { "task" };
    heading(text, kind, name, task.source());
    annotated(text, &task.config.to_definition(), &Origins::of_task(task), task.source());
    text.push('\n');
}

fn heading(text: &mut String, kind: &str, name: &str, source: Option<&Path>) {
    let _ = writeln!(text, "# {kind} {name}");
    if let Some(path) = source {
        let _ = writeln!(text, "# defined in {}", path.display());
    }
}

/// Writes each key after a comment with its origin. Files next to the defining one are shown without their
/// folder.
fn annotated(text: &mut String, config: &Value, origins: &Origins<'_>, source: Option<&Path>) {
    let Some(config) = config.as_dict() else { return };
    // The defining file is named as it was found, included files by their real path.
    let folders: Vec<String> = source
        .into_iter()
        .flat_map(|path| [path.to_owned(), identity(path)])
        .filter_map(|path| path.parent().map(|folder| format!("{}/", folder.display())))
        .collect();
    let mut last = None;
    for (key, value) in config.iter() {
        let Some(key) = key.as_str() else { continue };
        let from = origins.of(key, value);
        let from =
            folders.iter().find_map(|folder| from.strip_prefix(folder.as_str())).unwrap_or(&from).to_owned();
        if last.as_ref() != Some(&from) {
            let _ = writeln!(text, "# {from}");
        }
        last = Some(from);
        text.push_str(key);
        text.push(':');
        yaml::emit_after(text, value, 0);
    }
}

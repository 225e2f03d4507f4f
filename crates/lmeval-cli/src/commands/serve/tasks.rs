//! Tasks as the caller specifies them: by name, as mappings, or as previously loaded objects.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Result, anyhow, bail};
use lmeval_data::Settings;
use lmeval_engine::{DataOptions, load_splits};
use lmeval_host::PythonHost;
use lmeval_pycompat::{Dict, Value};
use lmeval_tasks::config::TaskConfig;
use lmeval_tasks::formats::resolve;
use lmeval_tasks::scoring::module_folders;
use lmeval_tasks::source::{Mapping, Origin};
use lmeval_tasks::{Overrides, Spec, Task, TaskDict, TaskManager};
use lmeval_template::Environment;

use super::Request;
use crate::printer::Printer;
use crate::settings::LibraryArgs;
use crate::{python, roots};

/// Lists the names known to a task manager.
pub(super) fn names(request: &Request, printer: &mut Printer) -> Result<Value> {
    let (manager, _) = manager(&request.dict("manager"), printer)?;
    let list = |names: Vec<&str>| Value::list(names.into_iter().map(Value::str));
    let entries = manager.index().iter().map(|(name, entry)| {
        let path = entry.path.as_ref().map_or(Value::None, |path| Value::str(path.to_string_lossy()));
        let tags = Value::list(entry.tags.iter().map(|tag| Value::str(&**tag)));
        (name, Value::list([Value::str(entry.kind.name()), path, tags]))
    });
    Ok(Value::dict([
        ("all_tasks", list(manager.all_tasks())),
        ("all_subtasks", list(manager.all_subtasks())),
        ("all_groups", list(manager.all_groups())),
        ("all_tags", list(manager.all_tags())),
        ("entries", Value::dict(entries)),
    ]))
}

/// The folders of the default libraries; the built-in one is not a folder.
pub(super) fn roots(printer: &mut Printer) -> Result<Value> {
    let roots = roots::resolve(&LibraryArgs::default(), printer)?;
    let folders = roots.iter().filter(|root| root.is_dir());
    Ok(Value::list(folders.map(|root| Value::str(root.to_string_lossy()))))
}

/// Loads tasks and groups, returning their configurations.
pub(super) fn load(request: &Request, printer: &mut Printer) -> Result<Value> {
    let loaded = load_once(&request.dict("load"), printer)?;
    roots::print_warnings(&loaded, printer);
    let tasks = loaded.tasks.iter().map(|(key, task)| {
        let config = config_of(task);
        let class =
            task.config.class.as_ref().map_or(Value::None, |class| Value::Function(Arc::clone(class)));
        let folders = Value::list(module_folders(task).into_iter().map(Value::from));
        let parts = [("config", Value::from(config)), ("class", class), ("folders", folders)];
        (key.as_str(), Value::dict(parts))
    });
    let groups = loaded.groups.iter().map(|(key, group)| (key.as_str(), group.config.to_definition()));
    let members = loaded.group_map.iter().map(|(key, members)| {
        (key.as_str(), Value::list(members.iter().map(|member| Value::str(member.as_str()))))
    });
    Ok(Value::dict([
        ("tasks", Value::dict(tasks)),
        ("groups", Value::dict(groups)),
        ("group_map", Value::dict(members)),
    ]))
}

/// The configuration of a task. Keys with functions are returned as written in the definition; the package fills
/// in the remaining ones.
fn config_of(task: &Task) -> Dict {
    let mut config = match task.config.to_value() {
        Value::Dict(config) => Dict::clone(&config),
        _ => Dict::new(),
    };
    let written = task.mapping().values();
    let mut take = |key: &str| match written.get_str(key) {
        Some(value) => drop(config.insert(key, value.clone())),
        None => drop(config.remove_str(key)),
    };
    let is_formatted = |key: &str| task.config.format.is_some() && FORMATTED.contains(&key);
    let with_functions: Vec<&str> = written
        .iter()
        .filter(|(_, value)| has_function(value))
        .filter_map(|(key, _)| key.as_str())
        .filter(|key| !is_formatted(key))
        .collect();
    for key in &with_functions {
        take(key);
        if *key == "metric_list" {
            take("filter_list");
        }
    }
    if !with_functions.is_empty() {
        take("fewshot_config");
    }
    config.remove_str("class");
    config.update(&task.config.extras);
    config
}

/// The keys set by a prompt format.
const FORMATTED: [&str; 4] = ["doc_to_text", "doc_to_choice", "doc_to_target", "gen_prefix"];

fn has_function(value: &Value) -> bool {
    match value {
        Value::Function(_) => true,
        Value::List(items) | Value::Tuple(items) => items.iter().any(has_function),
        Value::Dict(dict) => dict.values().any(has_function),
        _ => false,
    }
}

/// The documents of the splits a task names, as they come from the dataset.
pub(super) fn splits(request: &Request, printer: &mut Printer) -> Result<Value> {
    let loads = vec![load_once(&request.dict("load"), printer)?];
    let mut tasks = picked(&loads, &request.part("task"))?;
    let (_, task) =
        tasks.tasks.shift_remove_index(0).ok_or_else(|| anyhow!("The request does not name a task"))?;
    let python = request.part("python").as_str().map(PathBuf::from);
    let mut options = python::options(python.as_deref(), &[], &[], &printer.notes())?;
    options.caller = Some(Arc::clone(&request.caller));
    let options = DataOptions {
        settings: Some(Settings::from_environment()),
        python: Some(PythonHost::new(options)),
        ..lmeval::environment::data_options()
    };
    let splits = load_splits(&task, &options)?;
    let config = &task.config;
    let named =
        [&config.training_split, &config.validation_split, &config.test_split, &config.fewshot_config.split];
    let mut found = Dict::new();
    for name in named.into_iter().flatten().filter(|name| !name.is_empty()) {
        if found.contains_str(name) {
            continue;
        }
        let split = splits.split(name).map_err(|error| anyhow!("Split `{name}`: {error}"))?;
        let documents = (0..split.len()).map(|index| split.get(index).map(Value::Dict));
        let documents = documents.collect::<Result<Vec<_>, _>>().map_err(|error| anyhow!("{error}"))?;
        let columns = Value::list(split.columns().iter().map(|column| Value::str(column.as_str())));
        found.insert(
            name.as_str(),
            Value::dict([("columns", columns), ("documents", Value::list(documents))]),
        );
    }
    Ok(Value::from(found))
}

/// Renders a template with the fields of a document.
pub(super) fn render(request: &Request) -> Result<Value> {
    let template = request.part("template");
    let template = template.as_str().ok_or_else(|| anyhow!("The template is not a string"))?;
    let template = Environment::new().compile(template)?;
    Ok(Value::from(template.render(&request.dict("document"))?))
}

/// A prompt format and its pieces and, if fields of a task are given, the keys it sets.
pub(super) fn format(request: &Request) -> Result<Value> {
    let registry = lmeval::registry();
    let mut fields = request.dict("fields");
    let formats = request.part("formats");
    let selection = request.part("selection");
    let mapping = Mapping::from_dict(fields.clone(), &Origin::Inline);
    let selected = resolve(&formats, selection.as_str(), &registry, &mapping)?;
    let mut result = Dict::new();
    result.insert("name", Value::Str(Arc::clone(&selected.name)));
    result.insert("format", selected.format.to_dict());
    if !fields.is_empty() {
        fields.insert("formats", formats);
        fields.insert("_formats_selection", selection);
        let mapping = Mapping::from_dict(fields, &Origin::Inline);
        let config = TaskConfig::from_mapping_with(&mapping, &registry, &mut Vec::new())?.to_value();
        let config = config.as_dict().cloned().unwrap_or_default();
        let made = SET_BY_FORMATS
            .into_iter()
            .map(|key| (Value::str(key), config.get_str(key).cloned().unwrap_or_default()));
        result.insert("task", made.collect::<Dict>());
    }
    Ok(Value::from(result))
}

/// The keys of a task set by a prompt format.
const SET_BY_FORMATS: [&str; 8] = [
    "output_type",
    "doc_to_text",
    "doc_to_choice",
    "doc_to_target",
    "target_delimiter",
    "fewshot_delimiter",
    "gen_prefix",
    "scorer",
];

/// The tasks of a run.
pub(super) fn of_run(request: &Request, printer: &mut Printer) -> Result<(TaskDict, Vec<PathBuf>)> {
    let (manager, roots) = manager(&request.dict("manager"), printer)?;
    let loads = request.part("loads");
    let loads = loads.as_list().unwrap_or_default().iter().map(|load| {
        let load = load.as_dict().ok_or_else(|| anyhow!("A set of loaded tasks is not a mapping"))?;
        load_once(load, printer)
    });
    let loads = loads.collect::<Result<Vec<_>>>()?;
    let tasks = request.part("tasks");
    let tasks = tasks.as_list().unwrap_or_default();
    let mut loaded = if tasks.iter().any(|task| matches!(task, Value::Tuple(_))) {
        let mut merged = TaskDict::default();
        for task in tasks {
            let one = match task {
                Value::Tuple(_) => picked(&loads, task)?,
                other => manager.load(&[spec(other)?], Overrides::default())?,
            };
            merged.tasks.extend(one.tasks);
            merged.groups.extend(one.groups);
            merged.group_map.extend(one.group_map);
            merged.warnings.extend(one.warnings);
        }
        merged
    } else {
        let specs = tasks.iter().map(spec).collect::<Result<Vec<_>>>()?;
        manager.load(&specs, Overrides::default())?
    };
    if let Some(groups) = request.part("groups").as_list() {
        set_groups(&mut loaded, groups, &loads, &manager)?;
    }
    roots::print_warnings(&loaded, printer);
    Ok((loaded, roots))
}

/// A task manager and the folders it searches.
fn manager(fields: &Dict, printer: &mut Printer) -> Result<(TaskManager, Vec<PathBuf>)> {
    let folders = fields.get_str("include_path").and_then(Value::as_list).unwrap_or_default();
    let include_path = folders.iter().filter_map(Value::as_str).map(PathBuf::from).collect();
    let include_path = Some(include_path);
    let defaults = fields.get_str("include_defaults").is_none_or(Value::is_truthy);
    let library = (!defaults).then(|| "none".to_owned());
    let library = LibraryArgs { include_path, library };
    let roots = roots::resolve(&library, printer)?;
    let metadata = fields.get_str("metadata").and_then(Value::as_dict).cloned().unwrap_or_default();
    Ok((roots::manager(&roots, &library)?.with_metadata(metadata), roots))
}

/// The result of one call of the package's `load`.
fn load_once(fields: &Dict, printer: &mut Printer) -> Result<TaskDict> {
    let (manager, _) = manager(fields, printer)?;
    let specs = fields.get_str("specs").and_then(Value::as_list).unwrap_or_default();
    let specs = specs.iter().map(spec).collect::<Result<Vec<_>>>()?;
    let mut overrides = Overrides::default();
    for (name, values) in
        fields.get_str("overrides").and_then(Value::as_dict).into_iter().flat_map(Dict::iter)
    {
        let (Some(name), Some(values)) = (name.as_str(), values.as_dict()) else {
            bail!("`overrides` must map names to mappings");
        };
        overrides.insert(name.to_owned(), values.clone());
    }
    Ok(manager.load(&specs, overrides)?)
}

fn spec(value: &Value) -> Result<Spec> {
    match value {
        Value::Str(name) => Ok(Spec::Name(name.to_string())),
        Value::Dict(mapping) => Ok(Spec::Inline(Dict::clone(mapping))),
        other => bail!("A task must be a name or a mapping, not {}", other.type_name()),
    }
}

/// A previously loaded task with the caller's changes: `(load, key, changes)`, or `(load, key, changes, name)` if the caller has
/// it under another name.
fn picked(loads: &[TaskDict], task: &Value) -> Result<TaskDict> {
    let parts = match task {
        Value::Tuple(parts) => parts.as_slice(),
        _ => &[],
    };
    let [Value::Int(load), Value::Str(key), Value::Dict(changes), name @ ..] = parts else {
        bail!("Malformed reference to a loaded task");
    };
    let name = name.first().and_then(Value::as_str).unwrap_or(key);
    let load = usize::try_from(*load).ok().and_then(|load| loads.get(load));
    let found = load.and_then(|load| load.tasks.get(&**key));
    let mut task = found.cloned().ok_or_else(|| anyhow!("The task `{key}` is no longer loaded"))?;
    let mut picked = TaskDict::default();
    if !changes.is_empty() {
        change(&mut task, changes, &mut picked)?;
    }
    picked.tasks.insert(name.to_owned(), task);
    Ok(picked)
}

/// Replaces keys of a task's definition.
fn change(task: &mut Task, changes: &Dict, picked: &mut TaskDict) -> Result<()> {
    let mut mapping = task.mapping().clone();
    for (key, value) in changes.iter() {
        if let Some(key) = key.as_str() {
            mapping.insert(key, value.clone(), Origin::Override);
        }
    }
    if changes.contains_str("num_fewshot") {
        task.options.num_fewshot = None;
    }
    let registry = Arc::clone(task.registry());
    task.config = if task.config.class.is_some() || changes.contains_str("class") {
        TaskConfig::from_class_mapping(&mapping, &registry, &mut picked.warnings)?
    } else {
        TaskConfig::from_mapping_with(&mapping, &registry, &mut picked.warnings)?
    };
    Ok(())
}

/// Replaces the groups that came with the tasks by the caller's: each `(load, name, definition, members)`.
fn set_groups(
    loaded: &mut TaskDict,
    groups: &[Value],
    loads: &[TaskDict],
    manager: &TaskManager,
) -> Result<()> {
    loaded.groups.clear();
    loaded.group_map.clear();
    for group in groups {
        let parts = match group {
            Value::Tuple(parts) => parts.as_slice(),
            _ => &[],
        };
        let [load, Value::Str(name), definition, members] = parts else {
            bail!("Malformed group");
        };
        let of_load = load.as_i64().and_then(|load| loads.get(usize::try_from(load).ok()?));
        let group = match of_load.and_then(|load| load.groups.get(&**name)) {
            Some(group) => group.clone(),
            None => {
                let made = manager.load(&[spec(definition)?], Overrides::default())?;
                let made = made.groups.into_iter().next();
                made.ok_or_else(|| anyhow!("Cannot create the group `{name}`"))?.1
            }
        };
        let members = members.as_list().unwrap_or_default();
        let members = members.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        loaded.groups.insert(name.to_string(), group);
        loaded.group_map.insert(name.to_string(), members);
    }
    Ok(())
}

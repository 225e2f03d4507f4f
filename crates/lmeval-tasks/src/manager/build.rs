//! Builds trees of tasks and groups from index entries, files and mappings.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lmeval_core::nearest;
use lmeval_pycompat::{Dict, Value};

use super::{Group, Spec, Task, TaskManager, TaskOptions, names};
use crate::config::{GROUP_KEYS, GroupConfig, TaskConfig};
use crate::error::{Diagnostic, Error, ErrorKind};
use crate::index::{Entry, Kind};
use crate::source::{Loader, Mapping, Origin, Step, beside};

/// How deeply groups may be nested. Real groups are nested three or four levels deep; each level takes stack.
const MAX_DEPTH: usize = 100;
/// Limits on the tasks and groups of one load, and on visits of the same group: groups that name others twice double
/// them with every level. The public library has some ten thousand tasks and visits a group a few times at most.
const MAX_NODES: usize = 100_000;
const MAX_VISITS: usize = 1000;

/// A task, or a group with its members.
#[derive(Debug)]
pub(super) enum Node {
    Task(Box<Task>),
    Group(Box<Group>, Vec<Node>),
}

/// Builds the nodes of one load.
pub(super) struct Builder<'a> {
    manager: &'a TaskManager,
    loader: &'a Loader,
    /// The groups being built, outermost first.
    open_groups: Vec<String>,
    /// The number of tasks and groups built so far; `visits` counts each group.
    built: usize,
    visits: HashMap<String, usize>,
    /// The files read so far.
    read: HashSet<PathBuf>,
    warnings: Vec<Diagnostic>,
}

impl<'a> Builder<'a> {
    pub(super) fn new(manager: &'a TaskManager, loader: &'a Loader) -> Self {
        Self {
            manager,
            loader,
            open_groups: Vec::new(),
            built: 0,
            visits: HashMap::new(),
            read: HashSet::new(),
            warnings: Vec::new(),
        }
    }

    pub(super) fn into_warnings(self) -> Vec<Diagnostic> {
        self.warnings
    }

    /// Builds what a spec names; a tag yields several nodes.
    pub(super) fn spec(&mut self, spec: &Spec, overrides: Dict) -> Result<Vec<Node>, Error> {
        let overrides = Mapping::from_dict(overrides, &Origin::Override);
        match spec {
            Spec::Name(word) => self.word(word, overrides, &TaskOptions::default()),
            Spec::File(path) => self.file(path, &overrides),
            Spec::Inline(values) => {
                if let Some((name, options, settings)) = self.changed_settings(values) {
                    let mut settings = Mapping::from_dict(settings, &Origin::Override);
                    settings.update(&overrides);
                    return self.word(name, settings, &options);
                }
                let mapping = Mapping::from_dict(values.clone(), &Origin::Inline);
                self.mapping(mapping, &overrides, None)
            }
        }
    }

    /// Builds a name with the options behind it, which win over those given.
    fn word(&mut self, word: &str, overrides: Mapping, given: &TaskOptions) -> Result<Vec<Node>, Error> {
        // A definition may have any name.
        let (name, own) = match self.manager.index.get(word) {
            Some(_) => (word, TaskOptions::default()),
            None => TaskOptions::split(word)?,
        };
        let options = TaskOptions { num_fewshot: own.num_fewshot.or(given.num_fewshot), ..own };
        let mut nodes = self.name(name, overrides)?;
        if !options.is_empty() {
            for node in &mut nodes {
                names::set_options(node, &options);
            }
        }
        Ok(nodes)
    }

    /// The parts of a mapping that only changes settings of a known task, such as `{task: arc_easy, num_fewshot: 10}`.
    ///
    /// Reference: the 0.4 line did this until 0.4.8; later releases fail for lack of data.
    fn changed_settings<'s>(&self, values: &'s Dict) -> Option<(&'s str, TaskOptions, Dict)> {
        const DEFINING: [&str; 5] = ["dataset_path", "custom_dataset", "class", "include", "group"];
        let name = values.get_str("task")?.as_str()?;
        let base = TaskOptions::split(name).map_or(name, |(base, _)| base);
        let base = base.split('@').next().unwrap_or(base);
        let base = base.split("::").next().unwrap_or(base);
        if self.manager.index.get(base).is_none() || DEFINING.iter().any(|key| values.contains_str(key)) {
            return None;
        }
        let mut settings = values.clone();
        settings.remove_str("task");
        let num_fewshot = settings.get_str("num_fewshot").and_then(Value::as_i64).filter(|count| *count >= 0);
        let options = TaskOptions { num_fewshot, ..TaskOptions::default() };
        Some((name, options, settings))
    }

    fn name(&mut self, name: &str, mut overrides: Mapping) -> Result<Vec<Node>, Error> {
        let manager = self.manager;
        if let Some(entry) = manager.index.get(name) {
            return self.entry(name, entry, &overrides);
        }
        if name.contains("::") {
            return self.path(name, overrides).map(|node| vec![node]);
        }
        if let Some((base, format)) = name.rsplit_once('@')
            && let Some(entry) = manager.index.get(base)
        {
            if !overrides.contains("_formats_selection") {
                overrides.insert("_formats_selection", format, Origin::Override);
            }
            return self.entry(base, entry, &overrides);
        }
        let path = expand_home(name);
        if path.is_file() {
            return self.file(&path, &overrides);
        }
        Err(manager.unknown(name))
    }

    /// Builds an index entry.
    fn entry(&mut self, name: &str, entry: &Entry, overrides: &Mapping) -> Result<Vec<Node>, Error> {
        if entry.kind == Kind::Tag {
            return self.tag(name, entry, overrides);
        }
        let Some(path) = entry.path.as_deref() else {
            return Err(Error::new(ErrorKind::Value, format!("`{name}` has no file")));
        };
        let mapping = self.load(path)?;
        match entry.kind {
            Kind::Group => self.group(name, mapping, overrides, Some(path)).map(|node| vec![node]),
            _ => self.task(mapping, overrides, Some(path)).map(|node| vec![node]),
        }
    }

    fn tag(&mut self, name: &str, entry: &Entry, overrides: &Mapping) -> Result<Vec<Node>, Error> {
        let mut nodes = Vec::new();
        for member in &entry.tags {
            match self.manager.index.get(member) {
                Some(task) if task.kind != Kind::Tag => nodes.extend(self.entry(member, task, overrides)?),
                // A later root may have replaced the task.
                _ => self.warnings.push(Diagnostic::new(format!(
                    "Tag `{name}` names `{member}`, which is not a task; it is skipped"
                ))),
            }
        }
        Ok(nodes)
    }

    fn file(&mut self, path: &Path, overrides: &Mapping) -> Result<Vec<Node>, Error> {
        let mapping = self.load(path)?;
        self.mapping(mapping, overrides, Some(path))
    }

    /// Reads a file with its includes, and warns of keys that they contain twice.
    fn load(&mut self, path: &Path) -> Result<Mapping, Error> {
        let mapping = self.loader.load(path)?;
        for file in mapping.files() {
            if !self.read.insert(file.real_path().to_owned()) {
                continue;
            }
            for (key, location) in file.repeated_keys() {
                let message =
                    format!("The key `{key}` appears twice in the same mapping; the last one is used");
                self.warnings.push(Diagnostic::new(message).at(Some(location)).hint("Remove one of them"));
            }
        }
        Ok(mapping)
    }

    /// Builds a mapping that is not in the index.
    fn mapping(
        &mut self,
        mapping: Mapping,
        overrides: &Mapping,
        source: Option<&Path>,
    ) -> Result<Vec<Node>, Error> {
        if !mapping.contains("class")
            && let Some(name) = mapping.get("group")
        {
            let Some(name) = name.as_str().map(str::to_owned) else {
                return Err(wrong_name("group", name).at(mapping.locate(&[Step::from("group")])));
            };
            return self.group(&name, mapping, overrides, source).map(|node| vec![node]);
        }
        if mapping.contains("task") || mapping.contains("class") {
            return self.task(mapping, overrides, source).map(|node| vec![node]);
        }
        let keys: Vec<String> =
            mapping.values().keys().map(|key| format!("`{}`", lmeval_pycompat::repr::str(key))).collect();
        Err(Error::new(
            ErrorKind::Value,
            format!(
                "A task or group needs one of the keys `task`, `group` and `class`; it has only {}",
                keys.join(", ")
            ),
        ))
    }

    /// Builds the group member that `group::member::…` names.
    fn path(&mut self, name: &str, overrides: Mapping) -> Result<Node, Error> {
        let mut segments = name.split("::");
        let root = segments.next().unwrap_or_default();
        let not_group = |what: &str| {
            Error::new(ErrorKind::UnknownName, format!("`{name}` cannot be found: `{what}` is not a group"))
        };
        if self.manager.index.get(root).is_none() && !root.contains('@') {
            return Err(self.manager.unknown(root).hint(format!("It is the first part of `{name}`")));
        }
        let mut nodes = self.name(root, overrides)?;
        let (Some(mut node @ Node::Group(..)), true) = (nodes.pop(), nodes.is_empty()) else {
            return Err(not_group(root));
        };
        let mut reached = root.to_owned();
        for segment in segments {
            let Node::Group(_, children) = node else { return Err(not_group(&reached)) };
            let parent = std::mem::take(&mut reached);
            reached = format!("{parent}::{segment}");
            node = names::member(children, &reached).map_err(|(problem, keys)| {
                Error::new(ErrorKind::UnknownName, format!("`{name}` cannot be found: {problem}"))
                    .hint(format!("The members of `{parent}` are {}", quoted(&keys)))
            })?;
        }
        Ok(node)
    }

    /// Builds a task from its mapping: overrides, then metadata, then typing.
    pub(super) fn task(
        &mut self,
        mut mapping: Mapping,
        overrides: &Mapping,
        source: Option<&Path>,
    ) -> Result<Node, Error> {
        self.count()?;
        mapping.update(overrides);
        self.merge_metadata(&mut mapping, source);
        mapping.remove("tag");
        mapping.remove("task_list");
        let config = if mapping.contains("class") {
            TaskConfig::from_class_mapping(&mapping, &self.manager.registry, &mut self.warnings)?
        } else {
            TaskConfig::from_mapping_with(&mapping, &self.manager.registry, &mut self.warnings)?
        };
        let name = config.qualified_name.clone().unwrap_or_else(|| config.task.clone());
        let source = source.map(Path::to_owned);
        let registry = Arc::clone(&self.manager.registry);
        Ok(Node::Task(Box::new(Task {
            name,
            config,
            options: TaskOptions::default(),
            mapping,
            source,
            class: None,
            registry,
        })))
    }

    /// Fails before the number of tasks and groups exhausts memory.
    fn count(&mut self) -> Result<(), Error> {
        self.built += 1;
        if self.built <= MAX_NODES {
            return Ok(());
        }
        Err(self.too_many(&format!("expands to more than {MAX_NODES} tasks and groups")))
    }

    fn too_many(&self, what: &str) -> Error {
        let message = match self.open_groups.first() {
            Some(outermost) => format!("The group `{outermost}` {what}"),
            None => format!("The selection {what}"),
        };
        Error::new(ErrorKind::Value, message)
            .hint("A group that is a member of two others loads its tasks twice; name each group once")
    }

    /// `{**own, **manager's, config_source}`: the manager's metadata overrides the file's.
    fn merge_metadata(&self, mapping: &mut Mapping, source: Option<&Path>) {
        let mut metadata = match mapping.get("metadata") {
            None | Some(Value::None) => Dict::new(),
            Some(Value::Dict(own)) => own.as_ref().clone(),
            Some(other) => [(Value::str("_metadata"), other.clone())].into_iter().collect(),
        };
        metadata.update(&self.manager.metadata);
        let config_source =
            source.map_or_else(|| "inline".to_owned(), |path| path.to_string_lossy().into_owned());
        metadata.insert("config_source", config_source);
        let origin = mapping.origin("metadata").cloned().unwrap_or(Origin::Inline);
        mapping.insert("metadata", metadata, origin);
    }

    fn group(
        &mut self,
        name: &str,
        mut mapping: Mapping,
        overrides: &Mapping,
        source: Option<&Path>,
    ) -> Result<Node, Error> {
        if self.open_groups.iter().any(|open| open == name) {
            let mut chain: Vec<&str> = self.open_groups.iter().map(String::as_str).collect();
            chain.push(name);
            return Err(Error::new(
                ErrorKind::Cycle,
                format!("A group contains itself: {}", chain.join(" → ")),
            ));
        }
        if self.open_groups.len() >= MAX_DEPTH {
            let outermost = self.open_groups.first().map_or(name, String::as_str);
            let message = format!("Groups are nested more than {MAX_DEPTH} deep below `{outermost}`");
            return Err(Error::new(ErrorKind::Value, message).hint("Name the inner groups directly"));
        }
        self.count()?;
        let visits = self.visits.entry(name.to_owned()).or_default();
        *visits += 1;
        if *visits > MAX_VISITS {
            return Err(self.too_many(&format!("reaches the group `{name}` more than {MAX_VISITS} times")));
        }
        self.merge_metadata(&mut mapping, source);
        mapping.insert("group", name, mapping.origin("group").cloned().unwrap_or(Origin::Inline));
        let config = GroupConfig::from_mapping(&mapping, &mut self.warnings)?;
        let child_overrides = self.child_overrides(&mapping, overrides)?;
        self.open_groups.push(name.to_owned());
        let members = self.members(name, &mapping, &child_overrides, source);
        self.open_groups.pop();
        let selection = overrides.get("_formats_selection").and_then(Value::as_str).map(str::to_owned);
        let source = source.map(Path::to_owned);
        let options = TaskOptions::default();
        let group = Group { name: name.to_owned(), config, mapping, source, selection, options };
        Ok(Node::Group(Box::new(group), names::without_repeats(members?)))
    }

    /// The overrides that a group passes to its members: its `include`, overlaid with the caller's, without the group's
    /// own keys.
    fn child_overrides(&mut self, mapping: &Mapping, overrides: &Mapping) -> Result<Mapping, Error> {
        let here = mapping.locate(&[Step::from("include")]);
        let mut result = match mapping.get("include") {
            None | Some(Value::None) => Mapping::new(),
            Some(Value::Dict(values)) => {
                let origin = below(mapping.origin("include"), &[Step::from("include")]);
                Mapping::from_dict(values.as_ref().clone(), &origin)
            }
            Some(Value::Str(path)) => {
                let file = match mapping.origin("include") {
                    Some(Origin::File { file, .. }) => file.real_path().to_owned(),
                    _ if Path::new(&**path).is_absolute() => PathBuf::new(),
                    _ => {
                        return Err(Error::new(
                            ErrorKind::Value,
                            format!("`include: {path}` is relative, but the group is not defined in a file"),
                        ));
                    }
                };
                self.load(&beside(&file, path)).map_err(|error| error.at(here))?
            }
            Some(other) => {
                return Err(Error::new(
                    ErrorKind::Type,
                    format!("`include` of a group must be a path or a mapping, not {}", other.type_name()),
                )
                .at(here));
            }
        };
        let mut caller = overrides.clone();
        for field in GROUP_KEYS {
            caller.remove(field);
        }
        result.update(&caller);
        Ok(result)
    }

    fn members(
        &mut self,
        group: &str,
        mapping: &Mapping,
        overrides: &Mapping,
        source: Option<&Path>,
    ) -> Result<Vec<Node>, Error> {
        let Some(Value::List(members)) = mapping.get("task") else { return Ok(Vec::new()) };
        let mut nodes = Vec::new();
        for (position, member) in members.iter().enumerate() {
            let steps = [Step::from("task"), Step::from(position)];
            let here = mapping.locate(&steps);
            let built = match member {
                Value::Str(name) => self.member(group, name, None, overrides, source),
                Value::Dict(item) => {
                    let item =
                        Mapping::from_dict(item.as_ref().clone(), &below(mapping.origin("task"), &steps));
                    self.member_mapping(group, item, overrides, source)
                }
                other => Err(Error::new(
                    ErrorKind::Type,
                    format!(
                        "A member of group `{group}` must be a name or a mapping, not {}",
                        other.type_name()
                    ),
                )),
            };
            nodes.extend(built.map_err(|error| error.at(here))?);
        }
        Ok(nodes)
    }

    fn member_mapping(
        &mut self,
        group: &str,
        mut item: Mapping,
        overrides: &Mapping,
        source: Option<&Path>,
    ) -> Result<Vec<Node>, Error> {
        let manager = self.manager;
        if let Some(name) = item.get("group") {
            let Some(name) = name.as_str().map(str::to_owned) else {
                return Err(wrong_name("group", name));
            };
            // A list of members defines a group, even if a tag of that name exists.
            let defines = matches!(item.get("task"), Some(Value::List(_)));
            if let Some(entry) = manager.index.get(&name)
                && (entry.kind == Kind::Group || !defines)
            {
                item.remove("group");
                let mut merged = overrides.clone();
                merged.update(&item);
                return self.entry(&name, entry, &merged);
            }
            let name = format!("{group}::{name}");
            return self.group(&name, item, overrides, source).map(|node| vec![node]);
        }
        match item.get("task") {
            Some(Value::Str(name)) => {
                let name = name.to_string();
                self.member(group, &name, Some(&item), overrides, source)
            }
            Some(other) => Err(wrong_name("task", other)),
            None => {
                let keys: Vec<&str> = item.values().keys().filter_map(Value::as_str).collect();
                Err(Error::new(
                    ErrorKind::Value,
                    format!(
                        "A member of group `{group}` has neither `task` nor `group`, only {}",
                        quoted(&keys)
                    ),
                ))
            }
        }
    }

    /// Builds a member by name: a task, tag or group of the index, one of its formats, or an inline task.
    fn member(
        &mut self,
        group: &str,
        name: &str,
        item: Option<&Mapping>,
        overrides: &Mapping,
        source: Option<&Path>,
    ) -> Result<Vec<Node>, Error> {
        let manager = self.manager;
        let (base, selection) = match name.rsplit_once('@') {
            Some((base, format))
                if manager.index.get(name).is_none() && manager.index.get(base).is_some() =>
            {
                (base, Some(format))
            }
            _ => (name, None),
        };
        let mut settings = overrides.clone();
        if let Some(format) = selection {
            settings.insert("_formats_selection", format, Origin::Override);
        }
        if let Some(item) = item {
            settings.update(item);
            if selection.is_some() {
                settings.insert("task", base, item.origin("task").cloned().unwrap_or(Origin::Inline));
            }
        }
        let Some(entry) = manager.index.get(base) else {
            return self.inline_task(group, name, settings, source).map(|node| vec![node]);
        };
        match entry.kind {
            Kind::Group => self.entry(base, entry, &settings),
            Kind::Tag => {
                let mut nodes = Vec::new();
                for member in &entry.tags {
                    if let Some(task) = manager.index.get(member) {
                        nodes.extend(self.entry(member, task, &qualified(group, member, &settings))?);
                    }
                }
                Ok(nodes)
            }
            Kind::Task | Kind::PythonTask => self.entry(base, entry, &qualified(group, base, &settings)),
        }
    }

    /// Builds a task defined inline in the group's list. Without data, it is an unknown name.
    fn inline_task(
        &mut self,
        group: &str,
        name: &str,
        mut mapping: Mapping,
        source: Option<&Path>,
    ) -> Result<Node, Error> {
        if mapping.contains("class") {
            let message = format!("`{name}`, defined inline in group `{group}`, cannot have a `class`");
            return Err(Error::new(ErrorKind::Type, message)
                .at(mapping.locate(&[Step::from("class")]))
                .hint("Move it into its own file, and name it in the list"));
        }
        let has = |key: &str| mapping.get(key).is_some_and(|value| !value.is_none());
        if !has("dataset_path") && !has("custom_dataset") {
            let known = self.manager.index.iter().map(|(known, _)| known);
            return Err(Error::new(
                ErrorKind::UnknownName,
                format!("Group `{group}` names `{name}`, which is not a task, group or tag"),
            )
            .did_you_mean(&nearest(name, known))
            .hint("A task defined inline needs `dataset_path` or `custom_dataset`"));
        }
        let key = format!("{group}::{name}");
        let origin = mapping.origin("task").cloned().unwrap_or(Origin::Inline);
        if mapping.get("task_alias").is_none() {
            mapping.insert("task_alias", name, origin.clone());
        }
        mapping.insert("task", key.as_str(), origin.clone());
        mapping.insert("_qualified_name", key, origin);
        self.task(mapping, &Mapping::new(), source)
    }
}

/// The overrides of a member: its qualified name, overlaid with the settings of group and item.
fn qualified(group: &str, member: &str, settings: &Mapping) -> Mapping {
    let mut overrides = Mapping::new();
    overrides.insert("_qualified_name", format!("{group}::{member}"), Origin::Inline);
    overrides.update(settings);
    overrides
}

/// The origin of a mapping nested in another.
fn below(origin: Option<&Origin>, steps: &[Step]) -> Origin {
    match origin {
        Some(Origin::File { file, prefix }) => {
            Origin::File { file: Arc::clone(file), prefix: prefix.iter().chain(steps).cloned().collect() }
        }
        Some(other) => other.clone(),
        None => Origin::Inline,
    }
}

fn wrong_name(key: &str, found: &Value) -> Error {
    Error::new(ErrorKind::Type, format!("`{key}` must be a name, not {}", found.type_name()))
}

fn quoted(names: &[impl AsRef<str>]) -> String {
    if names.is_empty() {
        return "none".to_owned();
    }
    names.iter().map(|name| format!("`{}`", name.as_ref())).collect::<Vec<_>>().join(", ")
}

/// Expands a leading `~` to the home folder.
fn expand_home(path: &str) -> PathBuf {
    match (path.strip_prefix("~/"), std::env::home_dir()) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => path.into(),
    }
}

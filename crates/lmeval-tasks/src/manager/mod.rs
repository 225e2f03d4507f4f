//! The `TaskManager`: from names to tasks and groups.

mod build;
mod class_task;
mod group;
mod names;
mod select;
mod task;

use std::path::PathBuf;
use std::sync::Arc;

use indexmap::IndexMap;
use lmeval_core::nearest;
use lmeval_core::registry::Registry;
use lmeval_pycompat::Dict;
use lmeval_pycompat::fnmatch::Pattern;
use rustc_hash::FxHashMap;

use self::build::{Builder, Node};
pub use self::class_task::ClassTask;
pub use self::group::Group;
pub use self::select::Spec;
pub use self::task::Task;
use crate::error::{Diagnostic, Error, ErrorKind};
use crate::index::{Index, Kind};
use crate::source::Loader;

/// Finds and loads tasks, groups and tags by name.
///
/// ```
/// use lmeval_tasks::{Spec, TaskManager};
///
/// let manager = TaskManager::new(&[lmeval_tasks::BUILTIN_LIBRARY.into()]);
/// let loaded = manager.load(&[Spec::from("demo")], Default::default()).unwrap();
/// assert!(loaded.groups.contains_key("demo"));
/// ```
#[derive(Debug)]
pub struct TaskManager {
    index: Index,
    metadata: Dict,
    registry: Arc<Registry>,
    unknown_hint: Option<String>,
}

/// What [`TaskManager::load`] found.
#[derive(Debug, Default)]
pub struct TaskDict {
    /// Every task by its qualified name, in the order in which the specs name them.
    pub tasks: IndexMap<String, Task>,
    /// Every group by its name: each one that was asked for, followed by those inside it.
    pub groups: IndexMap<String, Group>,
    /// For each group the keys of its direct members.
    pub group_map: IndexMap<String, Vec<String>>,
    /// What is doubtful about the definitions.
    pub warnings: Vec<Diagnostic>,
}

/// Values that replace those of the YAML, by the spec that they are for.
pub type Overrides = FxHashMap<String, Dict>;

impl TaskManager {
    /// Indexes the roots; names of later roots win.
    pub fn new(roots: &[PathBuf]) -> Self {
        Self {
            index: Index::build(roots),
            metadata: Dict::new(),
            registry: Arc::default(),
            unknown_hint: None,
        }
    }

    /// Sets what errors of unknown names advise, beside near names.
    pub fn with_unknown_hint(mut self, hint: impl Into<String>) -> Self {
        self.unknown_hint = Some(hint.into());
        self
    }

    /// Adds metadata that goes into every task and group, over what their files say.
    pub fn with_metadata(mut self, metadata: Dict) -> Self {
        self.metadata = metadata;
        self
    }

    /// Sets what tasks may name: formats, metrics, filters and the like. Every loaded task keeps it, so that validation and
    /// the run look names up in the same place.
    pub fn with_registry(mut self, registry: impl Into<Arc<Registry>>) -> Self {
        self.registry = registry.into();
        self
    }

    /// The index.
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// What tasks may name.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// All names: tasks, groups and tags, in ascending order.
    pub fn all_tasks(&self) -> Vec<&str> {
        self.index.names(&[Kind::Task, Kind::PythonTask, Kind::Group, Kind::Tag])
    }

    /// The names of single tasks.
    pub fn all_subtasks(&self) -> Vec<&str> {
        self.index.names(&[Kind::Task, Kind::PythonTask])
    }

    /// The names of groups.
    pub fn all_groups(&self) -> Vec<&str> {
        self.index.names(&[Kind::Group])
    }

    /// The names of tags.
    pub fn all_tags(&self) -> Vec<&str> {
        self.index.names(&[Kind::Tag])
    }

    /// The names that a pattern matches, in ascending order. `@format` behind the pattern goes to each name. A
    /// pattern that matches nothing gives nothing.
    pub fn matching(&self, pattern: &str) -> Vec<String> {
        let (pattern, suffix) = match pattern.find('@') {
            Some(at) => pattern.split_at(at),
            None => (pattern, ""),
        };
        if !Pattern::is_glob(pattern) {
            return self.index.get(pattern).map(|_| format!("{pattern}{suffix}")).into_iter().collect();
        }
        let compiled = Pattern::new(pattern);
        let mut names: Vec<String> = self
            .index
            .iter()
            .filter(|(name, _)| compiled.matches(name))
            .map(|(name, _)| format!("{name}{suffix}"))
            .collect();
        names.sort_unstable();
        names
    }

    /// Names by patterns, sorted and without repetition. A pattern that matches nothing is kept as it is: it may be a
    /// `group::task` path, or an unknown name that loading explains.
    pub fn match_tasks<S: AsRef<str>>(&self, patterns: &[S]) -> Vec<String> {
        let mut names = std::collections::BTreeSet::new();
        for pattern in patterns {
            let matching = self.matching(pattern.as_ref());
            if matching.is_empty() {
                names.insert(pattern.as_ref().to_owned());
            }
            names.extend(matching);
        }
        names.into_iter().collect()
    }

    /// Builds tasks and groups.
    pub fn load(&self, specs: &[Spec], mut overrides: Overrides) -> Result<TaskDict, Error> {
        let loader = Loader::new();
        let mut builder = Builder::new(self, &loader);
        let mut nodes = Vec::new();
        for spec in specs {
            let given = match spec {
                Spec::Name(name) => overrides.remove(name).unwrap_or_default(),
                _ => Dict::new(),
            };
            nodes.extend(builder.spec(spec, given)?);
        }
        let mut warnings = builder.into_warnings();
        if !overrides.is_empty() {
            let mut unused: Vec<String> = overrides.into_keys().map(|name| format!("`{name}`")).collect();
            unused.sort_unstable();
            warnings.push(Diagnostic::new(format!(
                "Overrides for names that are not loaded: {}",
                unused.join(", ")
            )));
        }
        let mut loaded = flatten(nodes);
        loaded.warnings = warnings;
        Ok(loaded)
    }

    /// Builds one name with files that were read before; for going over many names.
    pub(crate) fn load_with(&self, loader: &Loader, spec: &Spec) -> Result<TaskDict, Error> {
        let mut builder = Builder::new(self, loader);
        let nodes = builder.spec(spec, Dict::new())?;
        let mut loaded = flatten(nodes);
        loaded.warnings = builder.into_warnings();
        Ok(loaded)
    }

    /// The error for a name that the index does not have.
    pub(crate) fn unknown(&self, name: &str) -> Error {
        let base = name.split('@').next().unwrap_or(name);
        let known = self.index.iter().map(|(known, _)| known);
        let mut error = Error::new(
            ErrorKind::UnknownName,
            format!("`{name}` is not the name of a task, group or tag, nor the path of a YAML file"),
        )
        .did_you_mean(&nearest(base, known));
        if let Some(problem) = self
            .index
            .problems()
            .iter()
            .find(|problem| problem.path.file_stem().is_some_and(|stem| stem == base))
        {
            error = error.hint(format!(
                "The file `{}` was left out because it cannot be loaded: {}",
                problem.path.display(),
                problem.error
            ));
        }
        if let Some(hint) = &self.unknown_hint {
            error = error.hint(hint.as_str());
        } else if self.index.is_empty() {
            error = error
                .hint("No task definitions were found; `lm-eval tasks pull` installs the public library");
        }
        error
    }
}

/// Lays the trees out flat. Two formats of one task or group get a row each.
fn flatten(mut nodes: Vec<Node>) -> TaskDict {
    names::separate_formats(&mut nodes);
    let mut dict = TaskDict::default();
    for node in nodes {
        collect(node, &mut dict);
    }
    dict
}

fn collect(node: Node, dict: &mut TaskDict) {
    match node {
        Node::Task(task) => {
            dict.tasks.insert(task.name().to_owned(), *task);
        }
        Node::Group(group, children) => {
            let keys: Vec<String> = children.iter().map(|child| names::key(child).to_owned()).collect();
            dict.group_map.insert(group.name().to_owned(), keys);
            dict.groups.insert(group.name().to_owned(), *group);
            for child in children {
                collect(child, dict);
            }
        }
    }
}

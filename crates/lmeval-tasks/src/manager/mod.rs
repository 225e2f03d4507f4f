//! The `TaskManager`, which loads tasks and groups by name.

mod build;
mod class_task;
mod group;
mod names;
mod options;
mod select;
mod task;

use std::path::PathBuf;
use std::sync::Arc;

use indexmap::IndexMap;
use lmeval_core::nearest;
use lmeval_pycompat::Dict;
use lmeval_pycompat::fnmatch::Pattern;
use lmeval_scoring::registry::Registry;
use rustc_hash::FxHashMap;

use self::build::{Builder, Node};
pub use self::class_task::ClassTask;
pub use self::group::Group;
pub use self::options::TaskOptions;
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

/// The result of [`TaskManager::load`].
#[derive(Debug, Default)]
pub struct TaskDict {
    /// Every task by its qualified name, in the order of the specs.
    pub tasks: IndexMap<String, Task>,
    /// Every group by its name: each requested one, followed by those inside it.
    pub groups: IndexMap<String, Group>,
    /// The keys of each group's direct members.
    pub group_map: IndexMap<String, Vec<String>>,
    /// Questionable settings in the definitions.
    pub warnings: Vec<Diagnostic>,
}

impl TaskDict {
    /// A copy of the tasks and groups.
    pub fn without_warnings(&self) -> Self {
        let Self { tasks, groups, group_map, .. } = self;
        let (tasks, groups, group_map) = (tasks.clone(), groups.clone(), group_map.clone());
        Self { tasks, groups, group_map, warnings: Vec::new() }
    }
}

/// Values that replace those of the YAML file, by spec.
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

    /// Sets an extra hint for errors about unknown names.
    pub fn with_unknown_hint(mut self, hint: impl Into<String>) -> Self {
        self.unknown_hint = Some(hint.into());
        self
    }

    /// Sets metadata that is added to every task and group and overrides the metadata of their files.
    pub fn with_metadata(mut self, metadata: Dict) -> Self {
        self.metadata = metadata;
        self
    }

    /// Sets the registry of formats, metrics, filters, scorers and samplers. Loaded tasks share it, so that validation
    /// and the run look up names in the same registry.
    pub fn with_registry(mut self, registry: impl Into<Arc<Registry>>) -> Self {
        self.registry = registry.into();
        self
    }

    /// Everything found in the roots.
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// The registry in which tasks look up names.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// All tasks, groups and tags, sorted.
    pub fn all_tasks(&self) -> Vec<&str> {
        self.index.names(&[Kind::Task, Kind::PythonTask, Kind::Group, Kind::Tag])
    }

    /// All tasks, without groups and tags.
    pub fn all_subtasks(&self) -> Vec<&str> {
        self.index.names(&[Kind::Task, Kind::PythonTask])
    }

    /// All groups.
    pub fn all_groups(&self) -> Vec<&str> {
        self.index.names(&[Kind::Group])
    }

    /// All tags.
    pub fn all_tags(&self) -> Vec<&str> {
        self.index.names(&[Kind::Tag])
    }

    /// The names that a pattern matches, sorted; none if nothing matches. A trailing `@format`, and options such as `:5`,
    /// are appended to each name.
    pub fn matching(&self, pattern: &str) -> Vec<String> {
        let (pattern, suffix) = match pattern.find('@') {
            Some(at) => pattern.split_at(at),
            None if self.index.get(pattern).is_some() => (pattern, ""),
            None => {
                pattern.split_at(TaskOptions::split(pattern).map_or(pattern.len(), |(name, _)| name.len()))
            }
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

    /// The names that the patterns match, sorted and without duplicates. A pattern without a match is returned
    /// unchanged: it may be a `group::task` path, or an unknown name that fails to load.
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
        warnings.append(&mut loaded.warnings);
        loaded.warnings = warnings;
        Ok(loaded)
    }

    /// Loads one spec with a shared loader, for checking many names.
    pub(crate) fn load_with(&self, loader: &Loader, spec: &Spec) -> Result<TaskDict, Error> {
        let mut builder = Builder::new(self, loader);
        let nodes = builder.spec(spec, Dict::new())?;
        let mut loaded = flatten(nodes);
        loaded.warnings = builder.into_warnings();
        Ok(loaded)
    }

    /// The error for a name that is not in the index.
    pub(crate) fn unknown(&self, name: &str) -> Error {
        let base = name.split('@').next().unwrap_or(name);
        let known = self.index.iter().map(|(known, _)| known);
        let mut error = Error::new(
            ErrorKind::UnknownName,
            format!("`{name}` is not the name of a task, group or tag, nor the path of a YAML file"),
        )
        .did_you_mean(&nearest(base, known));
        if let Some((known, after)) =
            name.split_once(':').filter(|(before, _)| self.index.get(before).is_some())
        {
            error = error.hint(format!(
                "After `{known}:` there may be a number of few-shot examples, as in `{known}:5`, or an option such as `repeats=4`, not `{after}`"
            ));
        }
        if let Some(problem) = self
            .index
            .problems()
            .iter()
            .find(|problem| problem.path.file_stem().is_some_and(|stem| stem == base))
        {
            error = error.hint(format!(
                "The file `{}` was skipped because it cannot be loaded: {}",
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

/// Flattens the trees. Two formats of one task or group get separate entries, and so do two sets of options.
fn flatten(mut nodes: Vec<Node>) -> TaskDict {
    names::separate_variants(&mut nodes);
    let mut dict = TaskDict::default();
    for node in nodes {
        collect(node, &mut dict);
    }
    dict
}

fn collect(node: Node, dict: &mut TaskDict) {
    match node {
        Node::Task(task) => {
            let key = task.name().to_owned();
            let replaced = dict
                .tasks
                .get(&key)
                .is_some_and(|earlier| earlier.mapping().values() != task.mapping().values());
            if replaced {
                dict.warnings.push(Diagnostic::new(format!(
                    "`{key}` is selected twice with different settings; the last ones are used"
                )));
            }
            dict.tasks.insert(key, *task);
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

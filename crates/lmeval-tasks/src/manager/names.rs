//! Keys of tasks and groups that are loaded in several formats, or with several options.

use rustc_hash::{FxHashMap, FxHashSet};

use super::build::Node;
use super::options::TaskOptions;
use super::{Group, Task, TaskDict};

/// The key under which a task or group is found.
pub(super) fn key(node: &Node) -> &str {
    match node {
        Node::Task(task) => task.name(),
        Node::Group(group, _) => group.name(),
    }
}

/// What tells the entries of one name apart.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Variant {
    format: Option<String>,
    options: TaskOptions,
}

/// A name without its variant, and the variant.
type Identity = (String, Variant);

fn identity(node: &Node) -> Identity {
    match node {
        Node::Task(task) => of_task(task),
        Node::Group(group, _) => of_group(group),
    }
}

fn of_task(task: &Task) -> Identity {
    let (base, format) = task_identity(task);
    (base, Variant { format, options: task.options.clone() })
}

fn of_group(group: &Group) -> Identity {
    let (format, options) = (group.selection.clone(), group.options.clone());
    (group.name.clone(), Variant { format, options })
}

impl TaskDict {
    /// Gives tasks and groups the names that they have in a run of several variants, of which this may be one.
    pub fn restore_variants(&mut self, is_known: impl Fn(&str) -> bool) {
        let complete = |(base, variant): Identity| {
            let with_options = format!("{base}{}", variant.options);
            let format = variant.format.map(|format| format!("{base}@{format}"));
            let both = format.as_ref().map(|name| format!("{name}{}", variant.options));
            [both, format, Some(with_options)]
                .into_iter()
                .flatten()
                .find(|name| *name != base && is_known(name))
        };
        let mut renamed: FxHashMap<String, String> = FxHashMap::default();
        for (name, task) in &mut self.tasks {
            if let Some(complete) = complete(of_task(task)).filter(|complete| complete != name) {
                renamed.insert(name.clone(), complete.clone());
                task.name = complete;
            }
        }
        for (name, group) in &mut self.groups {
            if let Some(complete) = complete(of_group(group)).filter(|complete| complete != name) {
                renamed.insert(name.clone(), complete.clone());
                group.name = complete;
            }
        }
        if renamed.is_empty() {
            return;
        }
        let now = |name: String| renamed.get(&name).cloned().unwrap_or(name);
        self.tasks =
            std::mem::take(&mut self.tasks).into_iter().map(|(name, task)| (now(name), task)).collect();
        self.groups =
            std::mem::take(&mut self.groups).into_iter().map(|(name, group)| (now(name), group)).collect();
        let members = std::mem::take(&mut self.group_map).into_iter();
        self.group_map =
            members.map(|(name, members)| (now(name), members.into_iter().map(now).collect())).collect();
    }
}

/// A task file may name its own format (`task: name@format`), which a selection replaces.
fn task_identity(task: &Task) -> (String, Option<String>) {
    let written = task.config.task.rsplit_once('@').map(|(_, format)| format.to_owned());
    let base = match (&written, task.name.rsplit_once('@')) {
        (Some(_), Some((base, _))) => base,
        _ => task.name.as_str(),
    };
    (base.to_owned(), task.config.formats_selection.clone().or(written))
}

/// Drops repeated members; a later one replaces the earlier in its position.
pub(super) fn without_repeats(nodes: Vec<Node>) -> Vec<Node> {
    let mut positions: FxHashMap<Identity, usize> = FxHashMap::default();
    let mut members: Vec<Node> = Vec::with_capacity(nodes.len());
    for node in nodes {
        match positions.get(&identity(&node)) {
            Some(position) => members[*position] = node,
            None => {
                positions.insert(identity(&node), members.len());
                members.push(node);
            }
        }
    }
    members
}

/// Sets the options of a task, or of all tasks of a group.
pub(super) fn set_options(node: &mut Node, options: &TaskOptions) {
    match node {
        Node::Task(task) => task.set_options(options),
        Node::Group(group, children) => {
            group.options = options.clone();
            for child in children {
                set_options(child, options);
            }
        }
    }
}

/// Appends `@format` to every name that is loaded in several formats, and `:5` or the like to those with several options.
pub(super) fn separate_variants(nodes: &mut [Node]) {
    let mut variants = FxHashMap::default();
    collect(nodes, &mut variants);
    variants.retain(|_, variants: &mut FxHashSet<Variant>| variants.len() > 1);
    if !variants.is_empty() {
        rename(nodes, &variants);
    }
}

fn collect(nodes: &[Node], variants: &mut FxHashMap<String, FxHashSet<Variant>>) {
    for node in nodes {
        let (base, variant) = identity(node);
        variants.entry(base).or_default().insert(variant);
        if let Node::Group(_, children) = node {
            collect(children, variants);
        }
    }
}

fn rename(nodes: &mut [Node], variants: &FxHashMap<String, FxHashSet<Variant>>) {
    for node in nodes {
        let (base, variant) = identity(node);
        if let Some(all) = variants.get(&base) {
            let mut name = base;
            if let Some(format) =
                variant.format.as_ref().filter(|own| all.iter().any(|one| one.format.as_ref() != Some(own)))
            {
                name = format!("{name}@{format}");
            }
            if all.iter().any(|one| one.options != variant.options) {
                name = format!("{name}{}", variant.options);
            }
            match node {
                Node::Task(task) => task.name = name,
                Node::Group(group, _) => group.name = name,
            }
        }
        if let Node::Group(_, children) = node {
            rename(children, variants);
        }
    }
}

/// Finds the member that a path segment names: by key, by name if it is loaded in one format only, or by name and
/// format. The error has a message and the available keys.
pub(super) fn member(mut children: Vec<Node>, wanted: &str) -> Result<Node, (String, Vec<String>)> {
    separate_variants(&mut children);
    let (base, format) = match wanted.rsplit_once('@') {
        Some((base, format)) => (base, Some(format)),
        None => (wanted, None),
    };
    let exact: Vec<usize> =
        (0..children.len()).filter(|position| key(&children[*position]) == wanted).collect();
    let loose = |node: &Node| {
        let (name, own) = identity(node);
        name == base && (format.is_none() || own.format.as_deref() == format)
    };
    let found = if exact.is_empty() {
        (0..children.len()).filter(|position| loose(&children[*position])).collect()
    } else {
        exact
    };
    match found.as_slice() {
        [position] => Ok(children.swap_remove(*position)),
        several => {
            let segment = wanted.rsplit("::").next().unwrap_or(wanted);
            let keys: Vec<String> = children.iter().map(|child| key(child).to_owned()).collect();
            let problem = if several.is_empty() {
                format!("there is no member `{segment}`")
            } else {
                let names: Vec<String> =
                    several.iter().map(|position| format!("`{}`", keys[*position])).collect();
                format!("`{segment}` may be {}", names.join(" or "))
            };
            Err((problem, keys))
        }
    }
}

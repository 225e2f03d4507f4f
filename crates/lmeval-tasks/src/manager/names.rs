//! Keys of tasks and groups that are loaded in several formats.

use rustc_hash::{FxHashMap, FxHashSet};

use super::build::Node;
use super::task::Task;

/// The key under which a task or group is found.
pub(super) fn key(node: &Node) -> &str {
    match node {
        Node::Task(task) => task.name(),
        Node::Group(group, _) => group.name(),
    }
}

/// A name without its format, and the format.
type Identity = (String, Option<String>);

fn identity(node: &Node) -> Identity {
    match node {
        Node::Task(task) => task_identity(task),
        Node::Group(group, _) => (group.name.clone(), group.selection.clone()),
    }
}

/// A task file may name its own format (`task: name@format`), which a selection replaces.
fn task_identity(task: &Task) -> Identity {
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

/// Appends `@format` to every name that is loaded in several formats.
pub(super) fn separate_formats(nodes: &mut [Node]) {
    let mut formats = FxHashMap::default();
    collect(nodes, &mut formats);
    formats.retain(|_, formats: &mut FxHashSet<Option<String>>| formats.len() > 1);
    if !formats.is_empty() {
        rename(nodes, &formats);
    }
}

fn collect(nodes: &[Node], formats: &mut FxHashMap<String, FxHashSet<Option<String>>>) {
    for node in nodes {
        let (base, format) = identity(node);
        formats.entry(base).or_default().insert(format);
        if let Node::Group(_, children) = node {
            collect(children, formats);
        }
    }
}

fn rename(nodes: &mut [Node], formats: &FxHashMap<String, FxHashSet<Option<String>>>) {
    for node in nodes {
        let (base, format) = identity(node);
        if formats.contains_key(&base)
            && let Some(format) = format
        {
            let name = format!("{base}@{format}");
            match node {
                Node::Task(task) => task.name = name,
                Node::Group(group, _) => group.name = name,
            }
        }
        if let Node::Group(_, children) = node {
            rename(children, formats);
        }
    }
}

/// Finds the member that a path segment names: by key, by name if it is loaded in one format only, or by name and
/// format. The error has a message and the available keys.
pub(super) fn member(mut children: Vec<Node>, wanted: &str) -> Result<Node, (String, Vec<String>)> {
    separate_formats(&mut children);
    let (base, format) = match wanted.rsplit_once('@') {
        Some((base, format)) => (base, Some(format)),
        None => (wanted, None),
    };
    let exact: Vec<usize> =
        (0..children.len()).filter(|position| key(&children[*position]) == wanted).collect();
    let loose = |node: &Node| {
        let (name, own) = identity(node);
        name == base && (format.is_none() || own.as_deref() == format)
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

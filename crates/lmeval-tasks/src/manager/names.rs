//! The keys of tasks and groups where several formats of one stand together.

use rustc_hash::{FxHashMap, FxHashSet};

use super::build::Node;
use super::task::Task;

/// The name under which a task or group is found.
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

/// A task may be written with a format of its own, `task: name@format`, which another selection replaces.
fn task_identity(task: &Task) -> Identity {
    let written = task.config.task.rsplit_once('@').map(|(_, format)| format.to_owned());
    let base = match (&written, task.name.rsplit_once('@')) {
        (Some(_), Some((base, _))) => base,
        _ => task.name.as_str(),
    };
    (base.to_owned(), task.config.formats_selection.clone().or(written))
}

/// Members by identity; a repeated one replaces the earlier in its place.
pub(super) fn without_repeats(nodes: Vec<Node>) -> Vec<Node> {
    let mut places: FxHashMap<Identity, usize> = FxHashMap::default();
    let mut members: Vec<Node> = Vec::with_capacity(nodes.len());
    for node in nodes {
        match places.get(&identity(&node)) {
            Some(place) => members[*place] = node,
            None => {
                places.insert(identity(&node), members.len());
                members.push(node);
            }
        }
    }
    members
}

/// Puts `@format` behind the names of which several formats are there, in all trees.
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

/// The member that a path means: by its key, by its name if only one format of it is there, or by name and format.
/// Otherwise what is wrong, and the keys there are.
pub(super) fn member(mut children: Vec<Node>, wanted: &str) -> Result<Node, (String, Vec<String>)> {
    separate_formats(&mut children);
    let (base, format) = match wanted.rsplit_once('@') {
        Some((base, format)) => (base, Some(format)),
        None => (wanted, None),
    };
    let exact: Vec<usize> = (0..children.len()).filter(|place| key(&children[*place]) == wanted).collect();
    let loose = |node: &Node| {
        let (name, own) = identity(node);
        name == base && (format.is_none() || own.as_deref() == format)
    };
    let found = if exact.is_empty() {
        (0..children.len()).filter(|place| loose(&children[*place])).collect()
    } else {
        exact
    };
    match found.as_slice() {
        [place] => Ok(children.swap_remove(*place)),
        several => {
            let segment = wanted.rsplit("::").next().unwrap_or(wanted);
            let keys: Vec<String> = children.iter().map(|child| key(child).to_owned()).collect();
            let problem = if several.is_empty() {
                format!("there is no member `{segment}`")
            } else {
                let names: Vec<String> = several.iter().map(|place| format!("`{}`", keys[*place])).collect();
                format!("`{segment}` may be {}", names.join(" or "))
            };
            Err((problem, keys))
        }
    }
}

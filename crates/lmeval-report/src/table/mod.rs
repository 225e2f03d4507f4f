//! Tables of results, in the reference's layout.

mod bounds;
mod cells;
mod latex;
mod layout;

use std::collections::{BTreeMap, BTreeSet};

use lmeval_pycompat::{Dict, Value, repr};

pub use self::bounds::bound_notes;
use self::bounds::{MARK, bounds_of};

/// The part of the results that a table shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// Tasks and groups.
    Results,
    /// Groups with scores.
    Groups,
}

impl Column {
    fn key(self) -> &'static str {
        match self {
            Self::Results => "results",
            Self::Groups => "groups",
        }
    }

    fn headers(self) -> [&'static str; 9] {
        let first = match self {
            Self::Results => "Tasks",
            Self::Groups => "Groups",
        };
        [first, "Version", "Filter", "n-shot", "Metric", "", "Value", "", "Stderr"]
    }
}

/// Keys of an entry that are not metrics.
const NOT_METRICS: [&str; 4] = ["alias", "name", "sample_len", "sample_count"];

/// Renders a result object as a Markdown table, with a trailing newline.
///
/// Rows follow the tree of groups; with `sort` they are sorted by name.
///
/// ```
/// use lmeval_pycompat::json;
/// use lmeval_report::{Column, make_table};
///
/// let object = r#"{"results": {"t": {"alias": "t", "acc,none": 0.5}}, "versions": {"t": 1}, "n-shot": {"t": 0}}"#;
/// let object = json::loads(object).unwrap();
/// let table = make_table(object.as_dict().unwrap(), Column::Results, false);
/// assert_eq!(table.lines().last(), Some("|t    |      1|none  |     0|acc   |   |  0.5|   |      |"));
/// ```
pub fn make_table(object: &Dict, column: Column, sort: bool) -> String {
    layout::markdown(&column.headers(), &rows(object, column, sort))
}

/// Renders the same rows as a LaTeX table.
pub fn make_latex_table(object: &Dict, column: Column, sort: bool) -> String {
    latex::latex(&column.headers(), &rows(object, column, sort))
}

/// The cells of all rows.
fn rows(object: &Dict, column: Column, sort: bool) -> Vec<Vec<Value>> {
    let part = |key: &str| object.get_str(key).and_then(Value::as_dict);
    let Some(entries) = part(column.key()) else { return Vec::new() };
    let names: BTreeSet<&str> = entries.keys().filter_map(Value::as_str).collect();
    let mut tree = Tree::walk(part("group_subtasks"), &names);
    let order: Vec<&str> =
        if sort { names.iter().copied().collect() } else { std::mem::take(&mut tree.order) };
    let mut rows = Vec::new();
    for name in order {
        let Some(entry) = entries.get_str(name).and_then(Value::as_dict) else { continue };
        let alias = entry.get_str("alias").map_or_else(|| name.to_owned(), repr::str);
        let alias = match scored(part("n-samples"), &tree, name) {
            Some((scored, all)) => format!("{alias} ({scored} of {all} documents)"),
            None => alias,
        };
        let display = match tree.depths.get(name) {
            None | Some(0) => alias,
            Some(depth) => format!("{}- {alias}", " ".repeat(*depth)),
        };
        let of = |key: &str| part(key).and_then(|dict| dict.get_str(name));
        let facts = Facts {
            display: Value::from(display),
            version: of("versions").cloned().unwrap_or_else(|| Value::str("    N/A")),
            num_fewshot: Value::from(of("n-shot").map_or_else(|| " ".to_owned(), repr::str)),
            directions: of("higher_is_better").and_then(Value::as_dict),
        };
        rows.extend(rows_of(entry, facts, |key| bounds_of(object, name, key).is_some()));
    }
    rows
}

/// The scored documents of a task or group and all its documents, if some of them have no answer.
fn scored(counts: Option<&Dict>, tree: &Tree<'_>, name: &str) -> Option<(i64, i64)> {
    let counts = counts?;
    let (mut scored, mut failed) = (0, 0);
    for task in tree.leaves(name) {
        let Some(task) = counts.get_str(task).and_then(Value::as_dict) else { continue };
        let count = |key: &str| task.get_str(key).and_then(Value::as_i64).unwrap_or(0);
        scored += count("effective");
        failed += count("failed");
    }
    (failed > 0).then_some((scored, scored + failed))
}

/// Facts shared by all rows of a name.
struct Facts<'a> {
    display: Value,
    version: Value,
    num_fewshot: Value,
    directions: Option<&'a Dict>,
}

/// The rows of a task or group; scores that are not certain get a mark.
fn rows_of(entry: &Dict, facts: Facts<'_>, is_uncertain: impl Fn(&str) -> bool) -> Vec<Vec<Value>> {
    let mut metrics: Vec<(&str, &Value)> = entry
        .iter()
        .filter_map(|(key, value)| Some((key.as_str()?, value)))
        .filter(|(key, _)| !NOT_METRICS.contains(key))
        .collect();
    metrics.sort_unstable_by_key(|(key, _)| *key);
    let Facts { mut display, mut version, num_fewshot, directions } = facts;
    let mut rows = Vec::new();
    for (key, value) in metrics {
        let (metric, filter) = key.split_once(',').unwrap_or((key, ""));
        if metric.ends_with("_stderr") {
            continue;
        }
        let arrow = match directions.and_then(|directions| directions.get_str(metric)) {
            Some(direction) if *direction == Value::Bool(true) => "↑",
            Some(direction) if *direction == Value::Bool(false) => "↓",
            _ => "",
        };
        let error = entry.get_str(&format!("{metric}_stderr,{filter}"));
        let (sign, error) = match error {
            None => ("", String::new()),
            Some(error) if error.as_str() == Some("N/A") => ("±", "   N/A".to_owned()),
            Some(error) => ("±", error.to_f64().map_or_else(|| repr::str(error), four_decimals)),
        };
        rows.push(vec![
            std::mem::replace(&mut display, Value::str("")),
            std::mem::replace(&mut version, Value::str("")),
            Value::str(filter),
            num_fewshot.clone(),
            Value::str(metric),
            Value::from(if is_uncertain(key) { format!("{arrow}{MARK}") } else { arrow.to_owned() }),
            match value {
                Value::Float(number) => Value::from(four_decimals(*number)),
                other => other.clone(),
            },
            Value::str(sign),
            Value::from(error),
        ]);
    }
    rows
}

/// Python's `f"{number:.4f}"`.
fn four_decimals(number: f64) -> String {
    if number.is_nan() { "nan".to_owned() } else { format!("{number:.4}") }
}

/// The order of rows and the depth of each name.
struct Tree<'a> {
    members: BTreeMap<&'a str, Vec<&'a str>>,
    names: &'a BTreeSet<&'a str>,
    order: Vec<&'a str>,
    depths: BTreeMap<&'a str, usize>,
}

impl<'a> Tree<'a> {
    fn walk(subtasks: Option<&'a Dict>, names: &'a BTreeSet<&'a str>) -> Self {
        let members: BTreeMap<&str, Vec<&str>> = subtasks
            .into_iter()
            .flat_map(Dict::iter)
            .filter_map(|(group, members)| {
                let members = members.as_list().unwrap_or_default().iter().filter_map(Value::as_str);
                let mut members: Vec<&str> = members.collect();
                members.sort_unstable();
                Some((group.as_str()?, members))
            })
            .collect();
        let children: BTreeSet<&str> = members.values().flatten().copied().collect();
        let roots: Vec<&str> = members.keys().filter(|group| !children.contains(*group)).copied().collect();
        let mut tree = Self { members, names, order: Vec::new(), depths: BTreeMap::new() };
        for root in roots {
            tree.visit(root, &mut Vec::new());
        }
        let rest = names.iter().filter(|name| !tree.depths.contains_key(*name));
        let rest: Vec<&str> = rest.copied().collect();
        tree.order.extend(rest);
        tree
    }

    /// The tasks of a group, each once, or the task itself.
    fn leaves(&self, name: &'a str) -> BTreeSet<&'a str> {
        let (mut open, mut seen, mut leaves) = (vec![name], BTreeSet::new(), BTreeSet::new());
        while let Some(name) = open.pop() {
            if !seen.insert(name) {
                continue;
            }
            match self.members.get(name).filter(|members| !members.is_empty()) {
                Some(members) => open.extend(members),
                None => {
                    leaves.insert(name);
                }
            }
        }
        leaves
    }

    /// Visits a group and its members. A file may claim that a group contains itself, so ancestors are tracked.
    fn visit(&mut self, name: &'a str, above: &mut Vec<&'a str>) {
        if above.contains(&name) {
            return;
        }
        self.depths.insert(name, above.len());
        if self.names.contains(name) {
            self.order.push(name);
        }
        let members = self.members.get(name).cloned().unwrap_or_default();
        above.push(name);
        for member in members {
            self.visit(member, above);
        }
        above.pop();
    }
}

#[cfg(test)]
mod tests;

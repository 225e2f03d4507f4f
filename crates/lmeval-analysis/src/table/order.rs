//! The order of tasks and groups.

use std::collections::{BTreeMap, BTreeSet};

use lmeval_pycompat::{Dict, Value};

use crate::read::Run;

/// Known names with their depths: groups first, each followed by its members, then tasks without a group by name.
pub(super) fn order(runs: &[Run], known: &BTreeSet<&str>) -> Vec<(String, usize)> {
    let mut members: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (group, of) in runs.iter().filter_map(|run| run.section("group_subtasks")).flat_map(Dict::iter) {
        let of = of.as_list().unwrap_or_default().iter().filter_map(Value::as_str);
        if let Some(group) = group.as_str() {
            members.entry(group).or_default().extend(of);
        }
    }
    members.retain(|_, of| !of.is_empty());
    let inner: BTreeSet<&str> = members.values().flatten().copied().collect();
    let mut walk = Walk { members: &members, known, order: Vec::new(), above: Vec::new() };
    for group in members.keys().filter(|group| !inner.contains(*group)) {
        walk.visit(group);
    }
    let mut order = walk.order;
    for name in known {
        if !order.iter().any(|(placed, _)| placed == name) {
            order.push(((*name).to_owned(), 0));
        }
    }
    order
}

struct Walk<'a> {
    members: &'a BTreeMap<&'a str, BTreeSet<&'a str>>,
    known: &'a BTreeSet<&'a str>,
    order: Vec<(String, usize)>,
    above: Vec<&'a str>,
}

impl<'a> Walk<'a> {
    /// A file may claim that a group contains itself, so the groups above are tracked.
    fn visit(&mut self, name: &'a str) {
        if self.above.contains(&name) || self.order.iter().any(|(placed, _)| placed == name) {
            return;
        }
        if self.known.contains(name) {
            self.order.push((name.to_owned(), self.above.len()));
        }
        let members = self.members;
        self.above.push(name);
        for member in members.get(name).into_iter().flatten() {
            self.visit(member);
        }
        self.above.pop();
    }
}

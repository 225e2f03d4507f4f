//! The definition of groups.

/// A group score: the average of its tasks' scores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMetric {
    /// The metric as it appears in result keys.
    pub metric: String,
    /// The pipelines; `None` means every pipeline under which a task reports the metric.
    pub filter_list: Option<Vec<String>>,
    /// Whether tasks are weighted by document count.
    pub weight_by_size: bool,
}

/// A group, as far as results are concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupSpec {
    /// The result key.
    pub name: String,
    /// The name shown in tables, if different.
    pub alias: Option<String>,
    /// The version as a string.
    pub version: String,
    /// The keys of its direct members, tasks and groups.
    pub members: Vec<String>,
    /// The scores to compute.
    pub metrics: Vec<GroupMetric>,
}

/// The groups of a run, in load order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GroupTree<'a>(&'a [GroupSpec]);

impl<'a> GroupTree<'a> {
    /// Wraps groups in load order.
    pub(crate) fn new(groups: &'a [GroupSpec]) -> Self {
        Self(groups)
    }

    fn get(self, name: &str) -> Option<&'a GroupSpec> {
        self.0.iter().find(|group| group.name == name)
    }

    /// The groups, each after its subgroups.
    pub(crate) fn bottom_up(self) -> Vec<&'a GroupSpec> {
        let is_member = |name: &str| {
            self.0.iter().any(|group| group.name != name && group.members.iter().any(|member| member == name))
        };
        let mut ordered = Vec::with_capacity(self.0.len());
        let mut seen = Vec::new();
        for root in self.0.iter().filter(|group| !is_member(&group.name)) {
            self.visit(root, &mut seen, &mut ordered);
        }
        ordered
    }

    fn visit(self, group: &'a GroupSpec, seen: &mut Vec<&'a str>, ordered: &mut Vec<&'a GroupSpec>) {
        if seen.contains(&group.name.as_str()) {
            return;
        }
        seen.push(&group.name);
        for member in group.members.iter().filter_map(|member| self.get(member)) {
            self.visit(member, seen, ordered);
        }
        ordered.push(group);
    }

    /// The keys of all tasks of a group, including those of its subgroups.
    pub(crate) fn leaf_tasks(self, group: &'a GroupSpec) -> Vec<&'a str> {
        let mut tasks = Vec::new();
        self.collect_leaves(group, &mut Vec::new(), &mut tasks);
        tasks
    }

    fn collect_leaves(self, group: &'a GroupSpec, path: &mut Vec<&'a str>, tasks: &mut Vec<&'a str>) {
        if path.contains(&group.name.as_str()) {
            return;
        }
        path.push(&group.name);
        for member in &group.members {
            match self.get(member) {
                Some(subgroup) => self.collect_leaves(subgroup, path, tasks),
                None => tasks.push(member),
            }
        }
        path.pop();
    }
}

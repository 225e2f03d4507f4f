//! Comparing the groups of two runs.

use lmeval_pycompat::Value;

use super::group::{GroupPart, group_difference};
use super::runs::{Compared, Comparison, Parts, Settings};
use crate::read::Run;

/// Compares the groups that both runs have scores for.
pub(super) fn compare_groups(
    base: &Run,
    new: &Run,
    parts: &Parts,
    settings: &Settings,
    comparison: &mut Comparison,
) {
    let (Some(groups), Some(other)) = (base.section("groups"), new.section("groups")) else { return };
    let is_wanted =
        |group: &str| settings.tasks.is_empty() || settings.tasks.iter().any(|name| name == group);
    for (group, scores) in groups.iter() {
        let (Value::Str(group), Value::Dict(scores)) = (group, scores) else { continue };
        if other.get_str(group).is_none() || !is_wanted(group) {
            continue;
        }
        let leaves = leaves(base, group);
        for (key, score) in scores.iter() {
            let (Value::Str(key), Some(score)) = (key, score.to_f64()) else { continue };
            let Some((metric, filter)) = key.split_once(',') else { continue };
            if metric.ends_with("_stderr") {
                continue;
            }
            let tasks: Option<Vec<GroupPart>> = leaves
                .iter()
                .map(|task| parts.get(&(task.clone(), filter.to_owned(), metric.to_owned())).cloned())
                .collect();
            let Some(tasks) = tasks.filter(|tasks| !tasks.is_empty()) else {
                comparison.notes.push(format!(
                    "`{metric}` of the group `{group}` is not compared: not all of its tasks are"
                ));
                continue;
            };
            // Results do not say how a group weighs its tasks; its own score does.
            let candidates =
                [true, false].map(|by_size| group_difference(&tasks, by_size, &settings.precision));
            let found = candidates
                .into_iter()
                .find(|outcome| (outcome.base - score).abs() <= 1e-9 * score.abs().max(1.0));
            let Some(outcome) = found else {
                comparison.notes.push(format!(
                    "`{metric}` of the group `{group}` is not the mean of its tasks on the shared documents: not compared"
                ));
                continue;
            };
            comparison.scores.push(Compared {
                task: group.to_string(),
                filter: filter.to_owned(),
                metric: metric.to_owned(),
                higher_is_better: base.higher_is_better(group, metric),
                is_group: true,
                outcome,
                benjamini_hochberg: f64::NAN,
                holm: f64::NAN,
                only_base: 0,
                only_new: 0,
                possible: None,
                by: Vec::new(),
                flips: Vec::new(),
            });
        }
    }
}

/// The tasks below a group; a task is its own.
pub(crate) fn leaves(run: &Run, group: &str) -> Vec<String> {
    let Some(subtasks) = run.section("group_subtasks") else { return Vec::new() };
    let mut found = Vec::new();
    let mut open = vec![group.to_owned()];
    while let Some(name) = open.pop() {
        match subtasks.get_str(&name) {
            Some(Value::List(members)) if !members.is_empty() && found.len() < 100_000 => {
                open.extend(members.iter().filter_map(|member| {
                    if let Value::Str(member) = member { Some(member.to_string()) } else { None }
                }));
            }
            _ => found.push(name),
        }
    }
    found
}

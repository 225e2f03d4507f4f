//! Properties that groups inherit from their members.

use std::collections::HashMap;
use std::sync::Arc;

use lmeval_pycompat::{Dict, Value};

use super::spec::GroupSpec;
use crate::scorers::Scores;

/// Whether higher is better, by metric; `None` if unknown.
pub type Directions = Scores<Option<bool>>;

/// Sets each group's number of few-shot examples if its direct members that have one agree.
///
/// Groups are visited in load order, so a group that contains only groups gets none.
pub(crate) fn inherit_num_fewshot(groups: &[GroupSpec], num_fewshot: &mut HashMap<String, i64>) {
    for group in groups {
        let mut values = group.members.iter().filter_map(|member| num_fewshot.get(member));
        let Some(first) = values.next().copied() else { continue };
        if values.all(|value| *value == first) {
            num_fewshot.insert(group.name.clone(), first);
        }
    }
}

/// Sets each group's directions from its direct members that have some. If members disagree, the direction is unknown
/// and a warning is issued.
///
/// Groups are visited in load order, so a group that contains only groups gets none.
pub(crate) fn inherit_higher_is_better(
    groups: &[GroupSpec],
    directions: &mut Vec<(String, Directions)>,
) -> Vec<String> {
    let mut warnings = Vec::new();
    for group in groups {
        let mut united = Directions::new();
        for member in &group.members {
            let Some((_, of_member)) = directions.iter().find(|(name, _)| name == member) else { continue };
            for (metric, direction) in of_member.iter() {
                match united.get(metric) {
                    None => united.insert(Arc::clone(metric), *direction),
                    Some(None) => {}
                    Some(known) if known == direction => {}
                    Some(_) => {
                        warnings.push(format!(
                            "Group `{}`: its members disagree on whether a higher `{metric}` is better",
                            group.name
                        ));
                        united.insert(Arc::clone(metric), None);
                    }
                }
            }
        }
        if united.is_empty() {
            continue;
        }
        match directions.iter_mut().find(|(name, _)| *name == group.name) {
            Some((_, old)) => *old = united,
            None => directions.push((group.name.clone(), united)),
        }
    }
    warnings
}

/// Directions as a dictionary by metric.
pub(crate) fn directions_to_dict(directions: &Directions) -> Dict {
    directions
        .iter()
        .map(|(metric, direction)| (Value::Str(Arc::clone(metric)), Value::from(*direction)))
        .collect()
}

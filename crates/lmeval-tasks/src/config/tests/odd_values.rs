use super::super::check::{Report, names};
use super::super::{GROUP_KEYS, GroupConfig, TASK_KEYS, TaskConfig};
use super::{mapping, value};
use crate::source::Origin;

const VALUES: [&str; 26] = [
    "null",
    "true",
    "0",
    "-3",
    "123456789012345678901234567890",
    "1.5",
    ".nan",
    "''",
    "text",
    "'a@b'",
    "2020-01-01",
    "[]",
    "[null]",
    "[1, [2]]",
    "[a, b]",
    "[{}]",
    "[{metric: acc}]",
    "[{name: a, filter: [{function: regex, regex_pattern: 3}]}]",
    "[{name: a, filter: [{function: regex, 1: 2}], metric_list: 4}]",
    "{}",
    "{1: 2}",
    "{type: mcqa}",
    "{type: 3}",
    "{mcqa: {scorer: [1]}}",
    "{null: null}",
    "!function u.f",
];

#[test]
fn odd_values_never_panic() {
    let tasks = ["{task: t}", "{task: t, output_type: multiple_choice, doc_to_choice: c}", "{task: 't@cot'}"];
    for base in tasks {
        for key in TASK_KEYS {
            for odd in VALUES {
                let mut mapping = mapping(base);
                mapping.insert(key, value(odd), Origin::Inline);
                let Ok(config) = TaskConfig::from_mapping(&mapping, &mut Vec::new()) else {
                    continue;
                };
                names(&config, &mapping, &mut Report::default());
                config.to_value();
            }
        }
    }
    for key in GROUP_KEYS {
        for odd in VALUES {
            let mut mapping = mapping("{group: g, task: [a]}");
            mapping.insert(key, value(odd), Origin::Inline);
            if let Ok(config) = GroupConfig::from_mapping(&mapping, &mut Vec::new()) {
                config.version();
            }
        }
    }
}

use super::super::GroupConfig;
use super::mapping;
use crate::error::{Diagnostic, Error, ErrorKind};

fn group(text: &str) -> (Result<GroupConfig, Error>, Vec<Diagnostic>) {
    let mut warnings = Vec::new();
    let config = GroupConfig::from_mapping(&mapping(text), &mut warnings);
    (config, warnings)
}

#[test]
fn reads_a_group() {
    let (config, warnings) = group(
        "{group: g, group_alias: G, task: [a, {task: b}], metadata: {version: 3}, aggregate_metric_list: \
          [{metric: acc, filter_list: none}, {metric: em, weight_by_size: no, filter_list: [a, b], aggregation: mean}]}",
    );
    let config = config.unwrap();
    assert!(warnings.is_empty());
    assert_eq!(config.members.len(), 2);
    assert_eq!(config.version(), "3");
    let aggregates = &config.aggregate_metric_list;
    assert_eq!(aggregates[0].filter_list.as_deref(), Some(&["none".to_owned()][..]));
    assert!(aggregates[0].weight_by_size && !aggregates[1].weight_by_size);
    let (config, _) = group("{group: g, task: [a], aggregate_metric_list: {metric: acc}}");
    assert_eq!(config.unwrap().aggregate_metric_list[0].filter_list, None);
    let (config, _) = group("{group: g, task: [a], aggregate_metric_list: {metric: !function m.score}}");
    assert_eq!(config.unwrap().aggregate_metric_list[0].metric, "score");
}

#[test]
fn warns_about_settings_without_effect() {
    let (config, warnings) = group("{group: g, task: a, num_fewshot: 3, tag: x}");
    let messages: Vec<&str> = warnings.iter().map(|warning| warning.message.as_str()).collect();
    assert_eq!(
        messages,
        [
            "`num_fewshot`, `tag` in the group `g` has no effect on its members",
            "`task` of the group `g` is str (`'a'`), so it has no members",
            "The group `g` has no `aggregate_metric_list`, so it gets no scores",
        ]
    );
    assert!(config.unwrap().members.is_empty());
}

#[test]
fn checks_aggregate_metrics() {
    let fails = |text: &str, kind: ErrorKind, message: &str| {
        let error = group(&format!("{{group: g, task: [a], aggregate_metric_list: {text}}}")).0.unwrap_err();
        assert_eq!((error.kind(), error.message()), (kind, message));
    };
    fails("[{aggregation: mean}]", ErrorKind::Type, "`aggregate_metric_list[0]` has no `metric`");
    fails(
        "[{metric: acc, higher_is_better: true}]",
        ErrorKind::Type,
        "Unknown key in `aggregate_metric_list`: `higher_is_better`",
    );
    fails(
        "{metric: acc, aggregation: median}",
        ErrorKind::Value,
        "`aggregate_metric_list.aggregation` must be `mean` or a function, not str (`'median'`)",
    );
    fails("3", ErrorKind::Type, "`aggregate_metric_list` must be a list of dicts, not int (`3`)");
    assert!(group("{task: [a]}").0.is_err());
}

//! Groups of scored tasks.

use lmeval_core::Dialect;
use lmeval_pycompat::Value;
use lmeval_pycompat::repr::repr;
use lmeval_scoring::groups::{Directions, GroupMetric, GroupSpec};
use lmeval_scoring::results::{RunResults, TaskEntry, TaskResult};
use lmeval_scoring::scorers::MetricKey;

fn task(name: &str, size: usize, metrics: &[(&str, Value, Value)], direction: Option<bool>) -> TaskResult {
    let keys = metrics.iter().flat_map(|(key, score, stderr)| {
        let key: MetricKey = key.parse().unwrap();
        [(key.clone(), score.clone()), (key.stderr(), stderr.clone())]
    });
    let directions: Directions =
        metrics.iter().map(|(key, ..)| (key.parse::<MetricKey>().unwrap().metric, direction)).collect();
    TaskResult {
        entry: TaskEntry {
            name: name.to_owned(),
            alias: name.to_owned(),
            sample_len: size,
            metrics: keys.collect(),
        },
        version: Value::Float(1.0),
        num_fewshot: 0,
        higher_is_better: directions,
        original: size,
        samples: None,
        bounds: Vec::new(),
        audit: Vec::new(),
        judging: Vec::new(),
        warnings: Vec::new(),
    }
}

fn group(name: &str, members: &[&str], metrics: &[GroupMetric]) -> GroupSpec {
    GroupSpec {
        name: name.to_owned(),
        alias: None,
        version: "1".to_owned(),
        members: members.iter().map(|member| (*member).to_owned()).collect(),
        metrics: metrics.to_vec(),
    }
}

fn metric(name: &str, filters: Option<&[&str]>, weight_by_size: bool) -> GroupMetric {
    let filter_list = filters.map(|filters| filters.iter().map(|filter| (*filter).to_owned()).collect());
    GroupMetric { metric: name.to_owned(), filter_list, weight_by_size }
}

fn three_and_five() -> Vec<TaskResult> {
    let third = Value::Float(1.0 / 3.0);
    let fifth = Value::Float(0.2);
    vec![
        task("t3", 3, &[("acc,none", third.clone(), third)], Some(true)),
        task("t5", 5, &[("acc,none", fifth.clone(), fifth)], Some(true)),
    ]
}

#[test]
fn means_and_stderrs_follow_the_dialect() {
    for (dialect, weighted, expected) in [
        (Dialect::V05, true, "'acc,none': 0.25, 'acc_stderr,none': 0.17480147469502527"),
        (Dialect::V05, false, "'acc,none': 0.26666666666666666, 'acc_stderr,none': 0.17480147469502527"),
        (Dialect::V04, true, "'acc,none': 0.25, 'acc_stderr,none': 0.17480147469502527"),
        (Dialect::V04, false, "'acc,none': 0.26666666666666666, 'acc_stderr,none': 0.19436506316151"),
    ] {
        let groups = [group("g", &["t3", "t5"], &[metric("acc", None, weighted)])];
        let run = RunResults::collect(three_and_five(), &groups, &dialect).unwrap().sections();
        let entry = repr(run.groups.get_str("g").unwrap());
        let expected = format!(
            "{{'alias': 'g', 'name': 'g', 'sample_len': 8, {expected}, 'sample_count': {{'acc,none': 8}}}}"
        );
        assert_eq!(entry, expected);
    }
}

#[test]
fn nested_groups_average_tasks() {
    let inner = group("inner", &["t5"], &[]);
    let outer = GroupSpec {
        alias: Some("Outer".to_owned()),
        ..group("outer", &["t3", "inner"], &[metric("acc", Some(&["none"]), true)])
    };
    let top = group("top", &["outer"], &[]);
    let run = RunResults::collect(three_and_five(), &[top, outer, inner], &Dialect::V05).unwrap().sections();
    let names: Vec<&str> = run.results.keys().filter_map(Value::as_str).collect();
    assert_eq!(names, ["t3", "t5", "inner", "outer", "top"]);
    assert_eq!(repr(run.results.get_str("inner").unwrap()), "{'alias': 'inner', 'name': 'inner'}");
    assert!(
        repr(run.results.get_str("outer").unwrap())
            .starts_with("{'alias': 'Outer', 'name': 'outer', 'sample_len': 8, 'acc,none': 0.25")
    );
    let subtasks = repr(&Value::from(run.group_subtasks.clone()));
    assert_eq!(subtasks, "{'top': ['outer'], 'outer': ['t3', 'inner'], 'inner': ['t5']}");
    // Parents come first, so a group of groups has neither few-shot counts nor directions.
    assert_eq!(repr(&Value::from(run.num_fewshot.clone())), "{'inner': 0, 'outer': 0, 't3': 0, 't5': 0}");
    assert!(run.higher_is_better.get_str("top").is_none());
    assert_eq!(
        repr(&Value::from(run.versions.clone())),
        "{'inner': '1', 'outer': '1', 't3': 1.0, 't5': 1.0, 'top': '1'}"
    );
}

#[test]
fn warns_about_missing_scores_and_stderrs() {
    let mut tasks = three_and_five();
    tasks.push(task("other", 2, &[("f1,none", Value::Float(1.0), Value::str("N/A"))], Some(true)));
    tasks.push(task("lower", 2, &[("acc,b", Value::Float(1.0), Value::str("N/A"))], Some(false)));
    let metrics = [metric("acc", None, true), metric("em", Some(&["none"]), true)];
    let groups = [group("g", &["t3", "t5", "other", "lower"], &metrics)];
    let results = RunResults::collect(tasks, &groups, &Dialect::V05).unwrap();
    let run = results.sections();
    let entry = run.groups.get_str("g").and_then(Value::as_dict).unwrap();
    let keys: Vec<&str> = entry.keys().filter_map(Value::as_str).collect();
    let expected = [
        "alias",
        "name",
        "sample_len",
        "acc,b",
        "acc_stderr,b",
        "acc,none",
        "acc_stderr,none",
        "sample_count",
    ];
    assert_eq!(keys, expected);
    assert_eq!(entry.get_str("sample_len"), Some(&Value::Int(12)));
    assert_eq!(entry.get_str("acc_stderr,b"), Some(&Value::str("N/A")));
    assert_eq!(repr(run.higher_is_better.get_str("g").unwrap()), "{'acc': None, 'f1': True}");
    assert_eq!(
        results.warnings,
        [
            "Group `g`: 3 of 4 tasks do not report `acc,b`: `t3`, `t5`, `other`",
            "Group `g`: 2 of 4 tasks do not report `acc,none`: `other`, `lower`",
            "Group `g`: no task reports `em,none`",
            "Group `g`: its members disagree on whether a higher `acc` is better",
        ]
    );
}

#[test]
fn rejects_scores_that_are_not_numbers() {
    let tasks = vec![task("t", 2, &[("acc,none", Value::str("x"), Value::str("N/A"))], Some(true))];
    let groups = [group("g", &["t"], &[metric("acc", None, true)])];
    let error = RunResults::collect(tasks, &groups, &Dialect::V05).unwrap_err();
    let expected = "The group `g` cannot average `acc,none`: its value in `t` is `str`, not a number";
    assert_eq!(error.to_string(), expected);
    let tasks = vec![task("t", 0, &[("acc,none", Value::Float(0.0), Value::str("N/A"))], Some(true))];
    assert!(RunResults::collect(tasks, &groups, &Dialect::V05).is_err());
}

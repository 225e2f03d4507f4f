//! Keys of results, and configuration errors of scorers.

use lmeval_core::Dialect;
use lmeval_scoring::scorers::ScoringSources;
use lmeval_tasks::scoring::{ResultKeys, group_specs, task_scorer};
use lmeval_tasks::{Overrides, Spec, TaskManager};

use crate::prompt_support::{golden, task};

#[test]
fn result_keys_include_the_group_in_0_5() {
    let manager = TaskManager::new(&[golden("e2e/tasks")]);
    let load = |names: &[&str]| {
        let specs: Vec<Spec> = names.iter().map(|name| Spec::from(*name)).collect();
        manager.load(&specs, Overrides::default()).unwrap()
    };
    let loaded = load(&["sub_maths"]);
    let members = |dialect: &Dialect| {
        let keys = ResultKeys::new(&loaded, dialect).unwrap();
        group_specs(&loaded, &keys)[0].members.clone()
    };
    assert_eq!(members(&Dialect::V05), ["sub_maths::gen_self_consistency", "sub_maths::gen_two_pipelines"]);
    assert_eq!(members(&Dialect::V04), ["gen_self_consistency", "gen_two_pipelines"]);
    let twice = load(&["sub_maths", "gen_two_pipelines"]);
    assert!(ResultKeys::new(&twice, &Dialect::V05).is_ok());
    let error = ResultKeys::new(&twice, &Dialect::V04).unwrap_err();
    let expected = "`sub_maths::gen_two_pipelines` and `gen_two_pipelines` would both be `gen_two_pipelines` in the results";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn reports_configuration_errors_before_any_request() {
    for (rest, expected) in [
        (
            "metric_list: [{metric: acc}]",
            "The metric `acc` is for loglikelihood and multiple_choice, but the task's output type is generate_until",
        ),
        ("metric_list: [{metric: exact_match, aggregation: meann}]", "`meann` is not a known aggregation"),
        ("metric_list: [{metric: exact_match, reduction: pass}]", "`pass` is not a known reduction"),
        ("metric_list: [{metric: exact_match, k: 3}]", "The metric `exact_match` has invalid options"),
        ("scorer: regexx", "`regexx` is not a known scorer"),
        ("process_results: !function utils.process", "The function `utils.process` needs Python"),
        (
            "filter_list: [{name: a, filter: [{function: take_first_k}]}]",
            "Step 1 of the filter pipeline `a`, `take_first_k`, failed",
        ),
    ] {
        let task = task(&format!("task: t\ntest_split: test\ndoc_to_text: q\ndoc_to_target: a\n{rest}\n"));
        let sources = ScoringSources::new(&Dialect::V05);
        let error = task_scorer(&task.config, &sources, false).unwrap_err();
        assert_eq!(error.to_string(), expected, "{rest}");
        let predicts = task_scorer(&task.config, &sources, true);
        assert_eq!(&*predicts.unwrap().pipelines()[0].metrics()[0].name, "bypass");
    }
}

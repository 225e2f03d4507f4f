//! `configs` of the public library equal, with `--compat 0.4`, the reference's.

use std::collections::BTreeMap;
use std::path::PathBuf;

use lmeval_core::Dialect;
use lmeval_pycompat::{Dict, Value, json};
use lmeval_scoring::results::replace_foreign;
use lmeval_tasks::{Overrides, Spec, Task, TaskManager};
use lmeval_testkit::reference_library;

use crate::reference::{ask, question};
use crate::support::{dict, part};

/// The number of tasks compared per folder.
const PER_FOLDER: usize = 2;

/// One of this many tasks is compared: the reference takes a tenth of a second for each.
const STEP: usize = 3;

/// Tasks without functions, a few of each folder.
fn chosen(library: &PathBuf, metadata: Dict) -> Vec<Task> {
    let manager = TaskManager::new(std::slice::from_ref(library)).with_metadata(metadata);
    let mut by_folder: BTreeMap<PathBuf, Vec<Task>> = BTreeMap::new();
    for name in manager.all_subtasks() {
        let path = manager.index().get(name).and_then(|entry| entry.path.as_deref());
        let folder = path.and_then(|path| path.parent());
        if folder.is_none_or(|folder| by_folder.get(folder).is_some_and(|found| found.len() == PER_FOLDER)) {
            continue;
        }
        let Ok(mut loaded) = manager.load(&[Spec::from(name)], Overrides::default()) else { continue };
        let Some((_, task)) = loaded.tasks.pop() else { continue };
        let Some(folder) = task.source().and_then(|source| source.parent()) else { continue };
        let found = by_folder.entry(folder.to_owned()).or_default();
        if found.len() < PER_FOLDER && !task.mapping().values().values().any(has_function) {
            found.push(task);
        }
    }
    by_folder.into_values().flatten().step_by(STEP).collect()
}

fn has_function(value: &Value) -> bool {
    match value {
        Value::Function(_) => true,
        Value::List(items) | Value::Tuple(items) => items.iter().any(has_function),
        Value::Dict(dict) => dict.values().any(has_function),
        _ => false,
    }
}

fn json_text(value: &Value) -> String {
    let options = json::Options { default: Some(&replace_foreign), ..json::Options::default() };
    json::dumps(value, &options).unwrap()
}

#[test]
fn configs_match_the_reference() {
    let Some(library) = reference_library() else { return };
    let metadata = dict(r#"{"pretrained": "org/m", "n": 1.5}"#);
    let mut tasks = chosen(&library, metadata.clone());
    let names = tasks.iter().map(|task| Value::str(task.name()));
    let asked = question(
        "configs",
        [
            ("include_path", Value::from(library.to_string_lossy().into_owned())),
            ("names", Value::list(names)),
            ("metadata", Value::from(metadata)),
            ("num_fewshot", Value::Int(3)),
            ("gen_kwargs", Value::from(dict(r#"{"temperature": 0.5, "max_gen_toks": 256, "x": [1]}"#))),
        ],
    );
    let settings = part(asked.as_dict().unwrap(), "gen_kwargs");
    let Some(answers) = ask(&[asked]) else { return };
    let answers = answers[0].clone().unwrap();
    let answers = answers.as_dict().unwrap();
    let mut same = 0;
    let mut wrong = Vec::new();
    let mut failed = BTreeMap::new();
    for task in &mut tasks {
        task.config.set_num_fewshot(3);
        task.config.merge_generation_kwargs(&settings);
        let Some(theirs) = answers.get_str(task.name()) else { panic!("no answer for {}", task.name()) };
        if let Some(error) = theirs.as_dict().unwrap().get_str("error") {
            *failed.entry(json_text(error)).or_insert(0) += 1;
            continue;
        }
        let ours = json_text(&Value::from(task.config.to_dict(task.mapping(), &Dialect::V04, false)));
        if ours == json_text(theirs) {
            same += 1;
        } else {
            wrong.push(format!("{}\n{ours}\n{}", task.name(), json_text(theirs)));
        }
    }
    let shown = wrong.iter().take(3).cloned().collect::<Vec<_>>().join("\n");
    println!("{same} configurations are the same; the reference cannot load others: {failed:#?}");
    assert!(wrong.is_empty(), "{} of {} differ, such as\n{shown}", wrong.len(), same + wrong.len());
    assert!(same > 100, "only {same} configurations could be compared; {failed:#?}");
}

#[test]
fn unusual_configs_match_the_reference() {
    let folder = tempfile::tempdir().unwrap();
    let tasks = [
        ("empty", "task: empty\ngeneration_kwargs: {}"),
        ("empty_choice", "task: empty_choice\noutput_type: multiple_choice\ngeneration_kwargs: {}"),
        (
            "given_choice",
            "task: given_choice\noutput_type: multiple_choice\ngeneration_kwargs: {temperature: 1}",
        ),
        (
            "until",
            "task: until\nfewshot_delimiter: '##'\ngeneration_kwargs: {do_sample: true, temperature: '0.5'}",
        ),
        ("defaults", "task: defaults\nfewshot_delimiter: '##'"),
        (
            "shots",
            "task: shots\nfewshot_split: train\nfewshot_config: {sampler: first_n, split: null, doc_to_text: 'x{{x}}', \
             samples: [{x: '1'}]}\ngen_prefix: 'A:'",
        ),
        (
            "nulls",
            "task: nulls\ndescription: null\nmetric_list: null\nfilter_list: null\nfewshot_config: null",
        ),
        (
            "repeated",
            "task: repeated\noutput_type: loglikelihood\nrepeats: 3\nunsafe_code: true\nmetric_list: []\nnum_fewshot: 0",
        ),
        (
            "typed",
            "task: typed\ndataset_name: '2020'\ntag: x\nmetadata: {version: 1.10, when: 2020-01-02}\nuse_prompt: null",
        ),
        (
            "parent",
            "group: parent\ntask:\n  - typed\n  - {task: inner, dataset_path: p, output_type: loglikelihood, doc_to_text: a, \
             doc_to_target: b, test_split: test, metadata: {version: 4}}\n  - {task: defaults, num_fewshot: 7, task_alias: D}",
        ),
    ];
    for (name, text) in tasks {
        let rest = if name == "parent" {
            ""
        } else {
            "\ndoc_to_text: x\ndoc_to_target: x\ndataset_path: p\ntest_split: test\n"
        };
        fs_err::write(folder.path().join(format!("{name}.yaml")), format!("{text}{rest}")).unwrap();
    }
    let root = fs_err::canonicalize(folder.path()).unwrap();
    let runs = [
        ("{}", false),
        (
            r#"{"gen_kwargs": {"max_gen_toks": 7, "until": ["."]}, "num_fewshot": 2, "predict_only": true}"#,
            true,
        ),
    ];
    for (given, predict_only) in runs {
        let mut asked = dict(given);
        asked.insert("ask", "configs");
        asked.insert("include_path", root.to_string_lossy().into_owned());
        asked.insert("names", Value::list(tasks.iter().map(|(name, _)| Value::str(*name))));
        let Some(answers) = ask(&[Value::from(asked.clone())]) else { return };
        let answers = answers[0].clone().unwrap();
        let manager = TaskManager::new(std::slice::from_ref(&root));
        let mut compared = 0;
        for (name, _) in tasks {
            let mut loaded = manager.load(&[Spec::from(name)], Overrides::default()).unwrap();
            for task in loaded.tasks.values_mut() {
                if let Some(count) = asked.get_str("num_fewshot").and_then(Value::as_i64) {
                    task.config.set_num_fewshot(count);
                }
                task.config.merge_generation_kwargs(&part(&asked, "gen_kwargs"));
                let ours = task.config.to_dict(task.mapping(), &Dialect::V04, predict_only);
                // Names of the 0.5 line: group members are qualified only if defined there.
                let key = ours.get_str("task").unwrap();
                let Some(theirs) = answers.as_dict().unwrap().get(key) else {
                    panic!("no answer for {key:?}")
                };
                if name != "parent" && key.as_str() == Some("defaults") {
                    // The group loads this one again, with changes.
                    continue;
                }
                assert_eq!(json_text(&Value::from(ours)), json_text(theirs), "{name}");
                compared += 1;
            }
        }
        assert_eq!(compared, 11);
    }
}

#[test]
fn functions_are_shown_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let text = "task: t\nprocess_docs: !function u.process\nmetric_list:\n  - {metric: !function u.metric}\n";
    fs_err::write(folder.path().join("t.yaml"), text).unwrap();
    let manager = TaskManager::new(&[folder.path().to_owned()]);
    let loaded = manager.load(&[Spec::from("t")], Overrides::default()).unwrap();
    let task = &loaded.tasks["t"];
    for dialect in Dialect::ALL {
        let config = task.config.to_dict(task.mapping(), &dialect, false);
        assert_eq!(config.get_str("process_docs"), Some(&Value::str("u.process")), "{dialect}");
        let metrics = json_text(config.get_str("metric_list").unwrap());
        assert!(metrics.contains("\"u.metric\""), "{metrics}");
        assert_eq!(part(&config, "fewshot_config").get_str("process_docs"), Some(&Value::str("u.process")));
    }
}

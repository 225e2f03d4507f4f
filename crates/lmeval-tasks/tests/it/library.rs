//! Compares the released task library with the reference that ships it.
//!
//! Slow, because the reference needs seconds to index its own library, and there is nothing else to compare with.

use std::collections::BTreeMap;
use std::process::Command;

use lmeval_tasks::index::{Index, Kind};
use lmeval_tasks::{Severity, Spec, TaskManager};
use lmeval_testkit::{reference_library, test_environment};

/// Prints every index entry of the reference as JSON.
const LIST: &str = r"
import json, logging, sys
logging.disable(logging.CRITICAL)
from lm_eval.tasks import TaskManager
names = {}
for name, entry in TaskManager().task_index.items():
    path = str(entry.yaml_path) if entry.yaml_path else None
    output_type = (entry.cfg or {}).get('output_type')
    names[name] = [entry.kind.name, path, output_type, sorted(entry.tags)]
json.dump(names, sys.stdout)
";

#[test]
fn index_equals_the_reference() {
    let (Some(python), Some(library)) = (test_environment(), reference_library()) else { return };
    let output = Command::new(python).args(["-c", LIST]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    type Row = (String, Option<String>, Option<String>, Vec<String>);
    let theirs: BTreeMap<String, Row> = serde_json::from_slice(&output.stdout).unwrap();
    let index = Index::build(&[library]);
    let ours: BTreeMap<String, Row> = index
        .iter()
        .map(|(name, entry)| {
            let kind = match entry.kind {
                Kind::Task => "TASK",
                Kind::PythonTask => "PY_TASK",
                Kind::Group => "GROUP",
                Kind::Tag => "TAG",
            };
            let path = entry.path.as_deref().map(|path| path.to_string_lossy().into_owned());
            let output_type = entry.output_type.as_deref().map(str::to_owned);
            let tags = entry.tags.iter().map(ToString::to_string).collect();
            (name.to_owned(), (kind.to_owned(), path, output_type, tags))
        })
        .collect();
    assert!(theirs.len() > 14_000, "the reference lists only {}", theirs.len());
    for (name, row) in &theirs {
        assert_eq!(ours.get(name), Some(row), "{name}");
    }
    assert_eq!(ours.len(), theirs.len());
}

#[test]
fn every_task_and_group_loads_and_is_valid() {
    let Some(library) = reference_library() else { return };
    let manager = TaskManager::new(&[library]);
    let unreadable = manager.unreadable();
    assert!(unreadable.is_empty(), "{unreadable:#?}");
    let specs: Vec<Spec> = manager.all_tasks().into_iter().map(Spec::from).collect();
    let errors: Vec<String> = manager
        .validate(&specs)
        .into_iter()
        .filter(|finding| finding.severity == Severity::Error)
        .map(|finding| finding.diagnostic.message)
        .collect();
    // Two groups of the library are broken; the reference refuses to load them as well.
    let broken = [
        "A member of group `t0_eval` has neither `task` nor `group`",
        "Group `flan_held_in::anli_r1_flan` names `anli_r1_prompt-0`, which is not a task, group or tag",
    ];
    let known = |error: &str| broken.iter().any(|start| error.starts_with(start));
    let others: Vec<&String> = errors.iter().filter(|error| !known(error)).collect();
    assert!(others.is_empty(), "{} errors, the first: {:#?}", others.len(), &others[..others.len().min(20)]);
}

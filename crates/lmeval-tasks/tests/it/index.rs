//! Index entries, and precedence among duplicate definitions.

use lmeval_tasks::TaskManager;
use lmeval_tasks::index::{Index, Kind, Problem};

use crate::support::{Library, task};

#[test]
fn kind_depends_on_the_merged_keys() {
    let library = Library::new(&[
        ("a.yaml", "task: a\ntag: [t1, t2]\noutput_type: multiple_choice\n"),
        ("b.yaml", "task: b@mcqa\ntag: t1\n"),
        ("c.yaml", "task: c\nclass: !function x.C\ngroup: g9\n"),
        ("g.yaml", "group: g\ntag: t3\ntask: [a, b]\n"),
        ("list.yaml", "task: [a, b]\n"),
        ("only_list.yaml", "task_list: [x]\n"),
        ("number.yaml", "task: 5\n"),
        ("nameless.yaml", "class: !function x.C\n"),
        ("include.yaml", "include: base_yaml\ntask: d\n"),
        ("base_yaml", "task: base\noutput_type: loglikelihood\ntag: t4\n"),
        ("deep/x.yaml", "include: ../include.yaml\ntask: e\n"),
        ("upper.YAML", "task: no\n"),
        ("short.yml", "task: no\n"),
        (".hidden/h.yaml", "task: hidden\n"),
        ("__pycache__/p.yaml", "task: no\n"),
        (".ipynb_checkpoints/p.yaml", "task: no\n"),
    ]);
    let index = Index::build(&[library.path()]);
    assert_eq!(index.names(&[Kind::Task]), ["a", "b", "d", "e", "hidden"]);
    assert_eq!(index.names(&[Kind::PythonTask]), ["c"]);
    assert_eq!(index.names(&[Kind::Group]), ["g"]);
    assert_eq!(index.names(&[Kind::Tag]), ["t1", "t2", "t4"]);
    let members: Vec<&str> = index.get("t1").unwrap().tags.iter().map(|name| &**name).collect();
    assert_eq!(members, ["a", "b"]);
    assert_eq!(index.get("e").unwrap().output_type.as_deref(), Some("loglikelihood"));
    let left_out: Vec<String> = index
        .problems()
        .iter()
        .map(|problem| problem.path.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    assert_eq!(left_out, ["list.yaml", "nameless.yaml", "number.yaml", "only_list.yaml"]);
    assert!(index.problems().iter().any(Problem::is_template));
}

#[test]
fn first_file_wins_within_a_root() {
    let library = Library::new(&[
        ("01.yaml", "task: x\ntag: foo\n"),
        ("02.yaml", "task: x\ntag: bar\noutput_type: loglikelihood\n"),
        ("03.yaml", "task: foo\n"),
        ("04.yaml", "task: y\ntag: x\n"),
    ]);
    let index = Index::build(&[library.path()]);
    assert_eq!(index.get("x").unwrap().output_type, None);
    assert_eq!(index.get("foo").unwrap().kind, Kind::Tag, "the tag of 01 blocks the task of 03");
    assert!(index.get("bar").is_none(), "tags of an ignored file are not registered");
    assert_eq!(index.get("x").unwrap().kind, Kind::Task, "a tag named like a task is not indexed");
    assert_eq!(index.duplicates().len(), 2);
}

#[test]
fn later_root_wins_and_replaces_tags() {
    let first = Library::new(&[("a.yaml", "task: a\ntag: t\n"), ("b.yaml", "task: b\ntag: t\n")]);
    let second = Library::new(&[("a.yaml", "task: a\ntag: t\noutput_type: loglikelihood\n")]);
    let index = Index::build(&[first.path(), second.path()]);
    assert_eq!(index.get("a").unwrap().output_type.as_deref(), Some("loglikelihood"));
    assert_eq!(index.get("t").unwrap().tags.len(), 1);
    assert!(index.duplicates().iter().all(|duplicate| duplicate.across_roots));
}

#[test]
fn missing_root_is_empty() {
    assert!(Index::build(&["/nowhere/at/all"]).is_empty());
}

#[cfg(unix)]
#[test]
fn indexes_linked_files_but_not_linked_folders() {
    let library = Library::new(&[
        ("real/base_yaml", "output_type: loglikelihood\n"),
        ("real/a.yaml", "include: base_yaml\ntask: a\n"),
        ("tasks/own.yaml", "task: own\n"),
    ]);
    let root = library.path();
    std::os::unix::fs::symlink(root.join("real/a.yaml"), root.join("tasks/linked.yaml")).unwrap();
    std::os::unix::fs::symlink(root.join("real"), root.join("tasks/folder")).unwrap();
    let index = Index::build(&[root.join("tasks")]);
    assert_eq!(index.names(&[Kind::Task]), ["a", "own"]);
    let entry = index.get("a").unwrap();
    assert_eq!(entry.output_type.as_deref(), Some("loglikelihood"), "includes are relative to the real path");
    assert!(entry.path.as_deref().unwrap().ends_with("tasks/linked.yaml"));
}

#[test]
fn patterns_match_entire_names() {
    let library = Library::new(&[
        ("a.yaml", &task("arc_easy", "")),
        ("b.yaml", &task("arc_challenge", "")),
        ("c.yaml", &task("boolq", "")),
    ]);
    let manager = TaskManager::new(&[library.path()]);
    assert_eq!(
        manager.match_tasks(&["arc_*", "zz*", "boolq@mcqa", "g::f"]),
        ["arc_challenge", "arc_easy", "boolq@mcqa", "g::f", "zz*"]
    );
    assert_eq!(manager.matching("arc_*@cloze"), ["arc_challenge@cloze", "arc_easy@cloze"]);
    assert!(manager.matching("ARC*").is_empty());
}

#[test]
fn built_in_library_is_complete_and_valid() {
    let manager = TaskManager::new(&[lmeval_tasks::BUILTIN_LIBRARY.into()]);
    assert!(manager.index().problems().iter().all(Problem::is_template));
    assert!(!manager.all_groups().is_empty() && !manager.all_tags().is_empty());
    for output_type in ["generate_until", "loglikelihood", "loglikelihood_rolling", "multiple_choice"] {
        assert!(
            manager.index().iter().any(|(_, entry)| entry.output_type.as_deref() == Some(output_type)),
            "no task of type {output_type}"
        );
    }
}

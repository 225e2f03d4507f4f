//! Loading tasks and groups by name.

use lmeval_pycompat::{Dict, Value};
use lmeval_tasks::{ErrorKind, Overrides, Spec};

use crate::support::{Library, keys, task};

fn two_tasks(more: &[(&str, &str)]) -> Library {
    let (a, b) = (task("a", "tag: t\n"), task("b", "tag: t\nnum_fewshot: 1\n"));
    let mut files = vec![("a.yaml", a.as_str()), ("b.yaml", b.as_str())];
    files.extend_from_slice(more);
    Library::new(&files)
}

const G1: &str = "group: g1\ntask: [a, b]\naggregate_metric_list: {metric: acc}\n";

#[test]
fn flattens_nested_groups() {
    let g3 = "group: g3\ngroup_alias: GEE\ninclude: {num_fewshot: 5}\ntask:\n  - g1\n  - a\n  \
              - {group: inl, num_fewshot: 6, task: [a, {group: deep, task: [b]}, {task: newt, dataset_path: csv}]}\n\
              aggregate_metric_list: [{metric: acc}]\n";
    let library = two_tasks(&[("g1.yaml", G1), ("g3.yaml", g3)]);
    let loaded = library.load(&["g3"]).unwrap();
    assert_eq!(keys(&loaded), ["g1::a", "g1::b", "g3::a", "g3::inl::a", "g3::inl::deep::b", "g3::inl::newt"]);
    assert!(loaded.tasks.values().all(|task| task.config.num_fewshot == Some(5)));
    let groups: Vec<&str> = loaded.groups.keys().map(String::as_str).collect();
    assert_eq!(groups, ["g3", "g1", "g3::inl", "g3::inl::deep"]);
    assert_eq!(loaded.group_map["g3"], ["g1", "g3::a", "g3::inl"]);
    assert_eq!(loaded.group_map["g1"], ["g1::a", "g1::b"]);
    assert_eq!(loaded.group_map["g3::inl"], ["g3::inl::a", "g3::inl::deep", "g3::inl::newt"]);
    assert_eq!(loaded.group_map["g3::inl::deep"], ["g3::inl::deep::b"]);
    assert_eq!(loaded.tasks["g3::inl::newt"].config.task_alias.as_deref(), Some("newt"));
}

#[test]
fn item_overrides_caller_overrides_include() {
    let inner = "group: inner\ninclude: {num_fewshot: 2}\ntask: [a, {task: b, num_fewshot: 4}]\n";
    let outer = "group: outer2\ntask: [{task: inner, num_fewshot: 6}]\n";
    let library = two_tasks(&[("inner.yaml", inner), ("outer.yaml", outer)]);
    let shots = |loaded: &lmeval_tasks::TaskDict| {
        loaded.tasks.values().map(|task| task.config.num_fewshot.unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(shots(&library.load(&["inner"]).unwrap()), [2, 4]);
    assert_eq!(shots(&library.load(&["outer2"]).unwrap()), [6, 4]);
    let overrides: Dict = [(Value::from("num_fewshot"), Value::Int(9))].into_iter().collect();
    let overrides: Overrides = [("inner".to_owned(), overrides)].into_iter().collect();
    let loaded = library.manager().load(&[Spec::from("inner")], overrides).unwrap();
    assert_eq!(shots(&loaded), [9, 4]);
}

#[test]
fn tags_expand_to_tasks_and_group_members() {
    let library = two_tasks(&[("g.yaml", "group: g\ntask: [t]\n")]);
    assert_eq!(keys(&library.load(&["t"]).unwrap()), ["a", "b"]);
    let loaded = library.load(&["g", "a"]).unwrap();
    assert_eq!(keys(&loaded), ["g::a", "g::b", "a"]);
}

#[test]
fn finds_members_by_path() {
    let library = two_tasks(&[
        ("g1.yaml", G1),
        ("o.yaml", "group: o\ntask: [g1, {group: inl, task: [b]}]\n"),
        ("f.yaml", "group: f\ntask: [{task: 'm@mcqa', dataset_path: json, doc_to_choice: c}]\n"),
    ]);
    assert_eq!(keys(&library.load(&["g1::b"]).unwrap()), ["g1::b"]);
    assert_eq!(keys(&library.load(&["o::inl::b"]).unwrap()), ["o::inl::b"]);
    assert_eq!(keys(&library.load(&["f::m"]).unwrap()), ["f::m@mcqa"]);
    for (path, words) in [
        ("g1::c", "no member `c`"),
        ("o::g1", "no member `g1`"),
        ("a::b", "`a` is not a group"),
        ("g1::a::b", "`g1::a` is not a group"),
    ] {
        let error = library.load(&[path]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnknownName);
        assert!(error.message().contains(words), "{path}: {error}");
    }
    assert!(library.load(&["g1::c"]).unwrap_err().hints()[0].contains("`g1::a`, `g1::b`"));
    assert!(library.load(&["gg1::c"]).unwrap_err().hints()[0].contains("`g1`"));
}

#[test]
fn several_formats_of_a_task_get_separate_entries() {
    let formats = "doc_to_choice: c\nformats: mcqa\n";
    let library = Library::new(&[
        ("m.yaml", &task("m", formats)),
        ("g.yaml", "group: g\ntask: ['m@cloze', 'm@mcqa', n]\n"),
        ("n.yaml", &task("n@cloze", "doc_to_choice: c\n")),
    ]);
    let format =
        |loaded: &lmeval_tasks::TaskDict, key: &str| loaded.tasks[key].config.format.clone().unwrap();
    assert_eq!(&*format(&library.load(&["m"]).unwrap(), "m"), "mcqa");
    assert_eq!(&*format(&library.load(&["m@cloze"]).unwrap(), "m"), "cloze");
    let loaded = library.load(&["m@mcqa", "m@cloze"]).unwrap();
    assert_eq!(keys(&loaded), ["m@mcqa", "m@cloze"]);
    let loaded = library.load(&["g"]).unwrap();
    assert_eq!(keys(&loaded), ["g::m@cloze", "g::m@mcqa", "g::n"]);
    assert_eq!(loaded.group_map["g"], ["g::m@cloze", "g::m@mcqa", "g::n"]);
    assert_eq!(&*format(&library.load(&["n@mcqa"]).unwrap(), "n@cloze"), "mcqa");
    assert_eq!(keys(&library.load(&["n", "n@mcqa"]).unwrap()), ["n@cloze", "n@mcqa"]);
    assert_eq!(keys(&library.load(&["g::m@mcqa"]).unwrap()), ["g::m@mcqa"]);
    let error = library.load(&["m@nothing"]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Value);
    assert_eq!(error.hints(), ["The formats are cloze, cot, generate, mcqa"]);
}

#[test]
fn several_formats_of_a_group_get_separate_entries() {
    let library = Library::new(&[
        ("m.yaml", &task("m", "doc_to_choice: c\n")),
        ("g.yaml", "group: g\ntask: [m]\n"),
        ("p.yaml", "group: p\ntask: ['g@mcqa', 'g@cloze']\n"),
    ]);
    for names in [vec!["g@mcqa", "g@cloze"], vec!["p"]] {
        let loaded = library.load(&names).unwrap();
        assert_eq!(keys(&loaded), ["g::m@mcqa", "g::m@cloze"], "{names:?}");
        assert_eq!(loaded.group_map["g@mcqa"], ["g::m@mcqa"]);
        assert_eq!(loaded.group_map["g@cloze"], ["g::m@cloze"]);
        for key in loaded.group_map.values().flatten() {
            assert!(loaded.tasks.contains_key(key) || loaded.groups.contains_key(key), "{key}");
        }
    }
    assert_eq!(keys(&library.load(&["g@mcqa"]).unwrap()), ["g::m"]);
}

#[test]
fn inline_class_is_an_error() {
    let library = Library::new(&[(
        "g.yaml",
        "group: g\ntask: [{task: n, dataset_path: json, class: !function a.B}]\n",
    )]);
    let error = library.load(&["g"]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Type);
    assert!(error.message().contains("`class`"), "{error}");
}

#[test]
fn suggests_similar_names() {
    let library = Library::new(&[("x.yaml", &task("arc_easy", "")), ("bad_one.yaml", "task: [unclosed\n")]);
    let error = library.load(&["arc_esy"]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnknownName);
    assert_eq!(error.hints(), ["Did you mean `arc_easy`?"]);
    let error = library.load(&["bad_one"]).unwrap_err();
    assert!(error.hints()[0].contains("cannot be loaded"), "{:?}", error.hints());
}

#[test]
fn unknown_member_error_names_group_and_line() {
    let library = two_tasks(&[("g.yaml", "group: g\ntask:\n  - a\n  - bb\n")]);
    let error = library.load(&["g"]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnknownName);
    assert!(error.message().contains("`g`") && error.message().contains("`bb`"), "{error}");
    assert_eq!(error.location().unwrap().line, 4);
}

#[test]
fn group_cycles_are_errors() {
    let library = Library::new(&[
        ("a.yaml", "group: a\ntask: [b]\n"),
        ("b.yaml", "group: b\ntask: [a]\n"),
        ("c.yaml", "group: c\ntask: [c]\n"),
    ]);
    for name in ["a", "c"] {
        let error = library.load(&[name]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Cycle);
        assert!(error.message().contains("→"), "{error}");
    }
}

#[test]
fn invalid_members_are_errors() {
    for (members, kind, words) in [
        ("[5]", ErrorKind::Type, "a name or a mapping"),
        ("[{num_fewshot: 1}]", ErrorKind::Value, "neither `task` nor `group`"),
        ("[{task: 5}]", ErrorKind::Type, "must be a name"),
    ] {
        let library = two_tasks(&[("g.yaml", &format!("group: g\ntask: {members}\n"))]);
        let error = library.load(&["g"]).unwrap_err();
        assert_eq!(error.kind(), kind);
        assert!(error.message().contains(words), "{error}");
        assert_eq!(error.location().unwrap().line, 2);
    }
}

#[test]
fn group_with_a_string_has_no_members() {
    let library = two_tasks(&[("g.yaml", "group: g\ntask: a\n")]);
    let loaded = library.load(&["g"]).unwrap();
    assert!(loaded.tasks.is_empty());
    assert!(loaded.group_map["g"].is_empty());
}

#[test]
fn merges_metadata_and_adds_the_source() {
    let library = Library::new(&[
        ("a.yaml", &task("a", "metadata: {version: 2, x: 1}\n")),
        ("b.yaml", &task("b", "metadata: 7\n")),
    ]);
    let metadata: Dict = [(Value::from("x"), Value::Int(5))].into_iter().collect();
    let manager = library.manager().with_metadata(metadata);
    let loaded = manager.load(&[Spec::from("a"), Spec::from("b")], Overrides::default()).unwrap();
    let a = &loaded.tasks["a"].config.metadata;
    assert_eq!(a.get_str("version"), Some(&Value::Int(2)));
    assert_eq!(a.get_str("x"), Some(&Value::Int(5)));
    let source = library.path().join("a.yaml").to_string_lossy().into_owned();
    assert_eq!(a.get_str("config_source"), Some(&Value::from(source)));
    assert_eq!(loaded.tasks["b"].config.metadata.get_str("_metadata"), Some(&Value::Int(7)));
}

#[test]
fn inline_mappings_with_data_ignore_registered_tasks() {
    let library = two_tasks(&[]);
    let inline: Dict = [("task", "b"), ("dataset_path", "csv")]
        .into_iter()
        .map(|(key, value)| (Value::from(key), Value::from(value)))
        .collect();
    let loaded = library.manager().load(&[Spec::Inline(inline)], Overrides::default()).unwrap();
    assert_eq!(loaded.tasks["b"].config.num_fewshot, None);
    assert_eq!(loaded.tasks["b"].config.metadata.get_str("config_source"), Some(&Value::from("inline")));
    let nothing: Dict = [(Value::from("x"), Value::Int(1))].into_iter().collect();
    let error = library.manager().load(&[Spec::Inline(nothing)], Overrides::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Value);
}

#[test]
fn loads_files_by_path() {
    let library = two_tasks(&[("g1.yaml", G1)]);
    let path = library.path().join("b.yaml");
    let loaded = library.load(&[path.to_str().unwrap()]).unwrap();
    assert_eq!(keys(&loaded), ["b"]);
    let specs = library.manager().select(&[library.path().join("*.yaml").to_str().unwrap()]).unwrap();
    assert_eq!(specs.len(), 3);
    let specs = library.manager().select(&[library.path().to_str().unwrap()]).unwrap();
    assert_eq!(specs.len(), 3);
    let loaded = library.manager().load(&specs, Overrides::default()).unwrap();
    assert_eq!(keys(&loaded), ["a", "b", "g1::a", "g1::b"]);
    for missing in ["/nowhere/x.yaml", "/nowhere/*.yaml"] {
        let specs = library.manager().select(&[missing]).unwrap();
        let error = library.manager().load(&specs, Overrides::default()).unwrap_err();
        assert!(error.to_string().contains(missing), "{error}");
    }
}

#[test]
fn selection_keeps_order_and_drops_duplicates() {
    let library = two_tasks(&[]);
    let names: Vec<String> = library
        .manager()
        .select(&["b, a", "*", "zz"])
        .unwrap()
        .into_iter()
        .map(|spec| match spec {
            Spec::Name(name) => name,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(names, ["b", "a", "t", "zz"]);
}

#[test]
fn warns_about_unused_overrides() {
    let library = two_tasks(&[]);
    let overrides: Overrides = [("b".to_owned(), Dict::new())].into_iter().collect();
    let loaded = library.manager().load(&[Spec::from("a")], overrides).unwrap();
    assert!(loaded.warnings.iter().any(|warning| warning.message.contains("`b`")));
}

#[test]
fn members_do_not_share_mutable_settings() {
    let library = Library::new(&[
        ("a.yaml", &task("a", "")),
        ("b.yaml", &task("b", "fewshot_delimiter: '|'\n")),
        ("g.yaml", "group: g\ninclude: {generation_kwargs: {max_gen_toks: 5}}\ntask: [a, b]\n"),
    ]);
    let loaded = library.load(&["g"]).unwrap();
    let until = |key: &str| loaded.tasks[key].config.generation_kwargs.until();
    assert_eq!(until("g::a"), [Value::from("\n\n")]);
    assert_eq!(until("g::b"), [Value::from("|")]);
}

#[test]
fn variants_of_one_task_have_keys_of_their_own() {
    let library = two_tasks(&[("g1.yaml", G1)]);
    let shots = |loaded: &lmeval_tasks::TaskDict| {
        let counts = loaded.tasks.iter().map(|(key, task)| (key.clone(), task.config.num_fewshot));
        counts.collect::<Vec<_>>()
    };
    let is = |words: &[&str], expected: &[(&str, Option<i64>)]| {
        let expected: Vec<_> = expected.iter().map(|(key, count)| ((*key).to_owned(), *count)).collect();
        assert_eq!(shots(&library.load(words).unwrap()), expected, "{words:?}");
    };
    is(&["a:25"], &[("a", Some(25))]);
    is(&["a:25", "a:0"], &[("a:25", Some(25)), ("a:0", Some(0))]);
    is(&["b", "b:2", "a:3"], &[("b", Some(1)), ("b:2", Some(2)), ("a", Some(3))]);
    is(&["g1:4"], &[("g1::a", Some(4)), ("g1::b", Some(4))]);
    is(&["g1::b:4", "g1::b"], &[("g1::b:4", Some(4)), ("g1::b", Some(1))]);
    let loaded = library.load(&["g1:4", "g1:5"]).unwrap();
    assert_eq!(keys(&loaded), ["g1::a:4", "g1::b:4", "g1::a:5", "g1::b:5"]);
    assert_eq!(loaded.group_map["g1:4"], ["g1::a:4", "g1::b:4"]);
    let specs = library.manager().select(&["t:1", "*:2,a:1"]).unwrap();
    let loaded = library.manager().load(&specs, Overrides::default()).unwrap();
    assert_eq!(keys(&loaded), ["a:1", "b:1", "a:2", "b:2", "g1::a", "g1::b"]);
    let error = library.load(&["a:x"]).unwrap_err();
    assert!(error.hints().iter().any(|hint| hint.contains("as in `a:5`")), "{error}");
}

#[test]
fn a_mapping_may_change_settings_of_a_known_task() {
    let library = two_tasks(&[]);
    let spec = |pairs: &[(&str, Value)]| {
        Spec::Inline(pairs.iter().map(|(key, value)| (Value::str(*key), value.clone())).collect())
    };
    let a = Value::str("a");
    let specs = [
        spec(&[("task", a.clone()), ("num_fewshot", Value::Int(10)), ("task_alias", Value::str("ten"))]),
        spec(&[("task", a.clone()), ("num_fewshot", Value::Int(0))]),
    ];
    let loaded = library.manager().load(&specs, Overrides::default()).unwrap();
    assert_eq!(keys(&loaded), ["a:10", "a:0"]);
    assert_eq!(loaded.tasks["a:10"].config.task_alias.as_deref(), Some("ten"));
    assert!(loaded.warnings.is_empty());
    let specs = [Spec::from("a"), spec(&[("task", a), ("task_alias", Value::str("other"))])];
    let warnings = library.manager().load(&specs, Overrides::default()).unwrap().warnings;
    assert!(
        warnings[0].to_string().contains("`a` is selected twice with different settings"),
        "{warnings:?}"
    );
}

#[test]
fn one_variant_is_found_under_its_key_in_a_run_of_several() {
    let library = two_tasks(&[("g1.yaml", G1)]);
    let mut loaded = library.load(&["a:25", "g1:4"]).unwrap();
    loaded.restore_variants(|name| ["a:25", "g1::b:4", "g1::a:4", "g1:4"].contains(&name));
    assert_eq!(keys(&loaded), ["a:25", "g1::a:4", "g1::b:4"]);
    assert_eq!(loaded.group_map["g1:4"], ["g1::a:4", "g1::b:4"]);
    let mut loaded = library.load(&["a:25"]).unwrap();
    loaded.restore_variants(|name| name == "a");
    assert_eq!(keys(&loaded), ["a"]);
}

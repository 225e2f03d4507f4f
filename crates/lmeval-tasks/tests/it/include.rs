//! Includes: precedence, replacement and cycles.

use lmeval_pycompat::Value;
use lmeval_pycompat::repr::repr;
use lmeval_tasks::ErrorKind;
use lmeval_tasks::source::{Loader, Step};

use crate::support::Library;

fn loaded(library: &Library, name: &str) -> String {
    let mapping = Loader::new().load(&library.path().join(name)).unwrap();
    repr(&Value::from(mapping.values().clone()))
}

#[test]
fn later_includes_replace_values() {
    let library = Library::new(&[
        ("one", "a: 1\nb: {x: 1, y: 2}\ntask_list: [q]\n"),
        ("two", "a: 2\nc: 3\n"),
        ("child.yaml", "include: [one, two]\nb: {y: 9}\ntask: t\n"),
    ]);
    assert_eq!(loaded(&library, "child.yaml"), "{'a': 2, 'b': {'y': 9}, 'c': 3, 'task': 't'}");
}

#[test]
fn empty_list_includes_nothing() {
    let library = Library::new(&[("t.yaml", "include: []\ntask: t\n")]);
    assert_eq!(loaded(&library, "t.yaml"), "{'task': 't'}");
}

#[test]
fn group_keeps_its_include() {
    let library = Library::new(&[("g.yaml", "group: g\ninclude: {num_fewshot: 2}\n")]);
    assert_eq!(loaded(&library, "g.yaml"), "{'group': 'g', 'include': {'num_fewshot': 2}}");
}

#[test]
fn functions_are_relative_to_the_file_that_names_them() {
    let library = Library::new(&[
        ("base/base_yaml", "process_docs: !function utils.process\n"),
        ("t.yaml", "include: base/base_yaml\ntask: t\n"),
    ]);
    let mapping = Loader::new().load(&library.path().join("t.yaml")).unwrap();
    let Some(Value::Function(function)) = mapping.get("process_docs") else { panic!("no function") };
    assert_eq!(function.split(), Some(("utils", "process")));
    assert_eq!(function.directory, library.path().join("base").to_string_lossy());
}

#[test]
fn locates_each_value_in_its_file() {
    let library = Library::new(&[
        ("base_yaml", "# comment\nnum_fewshot: 3\nmetric_list:\n  - metric: acc\n"),
        ("t.yaml", "include: base_yaml\ntask: t\n"),
    ]);
    let mapping = Loader::new().load(&library.path().join("t.yaml")).unwrap();
    let location = mapping.locate(&[Step::from("metric_list"), Step::from(0), Step::from("metric")]).unwrap();
    assert_eq!(location.to_string(), format!("{}:4", library.path().join("base_yaml").display()));
    assert_eq!(mapping.locate(&[Step::from("task")]).unwrap().line, 2);
}

#[test]
fn include_cycle_error_shows_the_chain() {
    let library = Library::new(&[
        ("a.yaml", "include: b\ntask: a\n"),
        ("b", "include: a.yaml\n"),
        ("self.yaml", "include: self.yaml\ntask: s\n"),
        ("outside.yaml", "include: a.yaml\ntask: o\n"),
    ]);
    for (name, files) in [("a.yaml", 3), ("self.yaml", 2), ("outside.yaml", 3)] {
        let error = Loader::new().load(&library.path().join(name)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Cycle, "{name}");
        assert_eq!(error.message().split('→').count(), files, "{error}");
        assert!(error.location().is_some());
    }
}

#[test]
fn including_a_file_twice_is_an_error() {
    let library = Library::new(&[
        ("base", "x: 1\n"),
        ("m1", "include: base\n"),
        ("m2", "# second\ninclude: base\n"),
        ("diamond.yaml", "include: [m1, m2]\ntask: d\n"),
    ]);
    let folder = library.path();
    let error = Loader::new().load(&folder.join("diamond.yaml")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cycle);
    assert_eq!(error.message(), format!("`{}` is included twice", folder.join("base").display()));
    assert_eq!(error.location().unwrap().to_string(), format!("{}:2", folder.join("m2").display()));
    let first = format!("It is included first from {}:1", folder.join("m1").display());
    let chain = format!("Included from {}:1", folder.join("diamond.yaml").display());
    assert!(error.hints().contains(&first) && error.hints().contains(&chain), "{:?}", error.hints());
}

#[test]
fn error_in_an_included_file_names_the_including_files() {
    let library = Library::new(&[
        ("base", "x: [1\n"),
        ("middle", "\ninclude: base\n"),
        ("t.yaml", "task: t\n\ninclude: middle\n"),
    ]);
    let folder = library.path();
    let error = Loader::new().load(&folder.join("t.yaml")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Yaml);
    assert_eq!(error.location().unwrap().path(), folder.join("base"));
    assert_eq!(
        error.hints(),
        [
            format!("Included from {}:2", folder.join("middle").display()),
            format!("Included from {}:3", folder.join("t.yaml").display()),
        ]
    );
}

#[test]
fn absolute_include_has_no_hint_about_relative_paths() {
    let library = Library::new(&[("t.yaml", "task: t\ninclude: /nonexistent/x\n")]);
    let error = Loader::new().load(&library.path().join("t.yaml")).unwrap_err();
    assert_eq!(error.location().unwrap().line, 2);
    assert!(
        error.message().contains("/nonexistent/x") && error.hints().is_empty(),
        "{error} {:?}",
        error.hints()
    );
}

#[test]
fn line_numbers_match_the_displayed_source() {
    let library = Library::new(&[]);
    let utf16: Vec<u8> =
        "\u{feff}task: t\nnote: é\nnum_fewshot: 3\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    library.write("utf16.yaml", &utf16);
    for (name, end) in
        [("cr", "\r"), ("crlf", "\r\n"), ("nel", "\u{85}"), ("ls", "\u{2028}"), ("ps", "\u{2029}")]
    {
        let text = ["task: t", "note: é", "num_fewshot: 3", ""].join(end);
        library.write(&format!("{name}.yaml"), text.as_bytes());
    }
    for name in ["utf16", "cr", "crlf", "nel", "ls", "ps"] {
        let mapping = Loader::new().load(&library.path().join(format!("{name}.yaml"))).unwrap();
        let location = mapping.locate(&[Step::from("num_fewshot")]).unwrap();
        assert_eq!(location.line, 3, "{name}");
        let text = location.text();
        assert_eq!(text[..location.range.start].matches('\n').count(), 2, "{name}");
        assert!(text[location.range.start..].starts_with("num_fewshot: 3"), "{name}: {text:?}");
    }
    let error = {
        library.write("broken.yaml", b"task: t\ra: [1\rb: 2\r");
        Loader::new().load(&library.path().join("broken.yaml")).unwrap_err()
    };
    let location = error.location().unwrap();
    assert_eq!(location.line, 3);
    assert_eq!(location.text()[..location.range.start].matches('\n').count(), 2);
}

#[test]
fn missing_include_error_names_line_and_folder() {
    let library = Library::new(&[("t.yaml", "task: t\ninclude: nothing_yaml\n")]);
    let error = Loader::new().load(&library.path().join("t.yaml")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert_eq!(error.location().unwrap().line, 2);
    assert!(error.message().contains("nothing_yaml"), "{error}");
}

#[test]
fn invalid_include_values_are_type_errors() {
    for value in ["5", "~", "{a: b}", "[1]", "true"] {
        let library = Library::new(&[("t.yaml", &format!("task: t\ninclude: {value}\n"))]);
        let error = Loader::new().load(&library.path().join("t.yaml")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Type, "{value}");
        assert_eq!(error.location().unwrap().line, 2);
    }
}

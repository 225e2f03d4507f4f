//! What validation finds, and what it lets pass.

use lmeval_tasks::{Finding, Severity, Spec};

use crate::support::{Library, task};

fn findings(library: &Library, name: &str) -> Vec<Finding> {
    library.manager().validate(&[Spec::from(name)])
}

/// The one error of a task, as `line: message`.
fn only_error(more: &str) -> String {
    let library = Library::new(&[("t.yaml", &task("t", more))]);
    let errors: Vec<Finding> =
        findings(&library, "t").into_iter().filter(|finding| finding.severity == Severity::Error).collect();
    assert_eq!(errors.len(), 1, "{more}: {errors:?}");
    let diagnostic = &errors[0].diagnostic;
    let line = diagnostic.location.as_ref().map_or(0, |place| place.line);
    format!("{line}: {} {}", diagnostic.message, diagnostic.hints.join(" "))
}

#[test]
fn a_sound_task_has_no_findings() {
    let library = Library::new(&[("t.yaml", &task("t", "generation_kwargs: {until: [x]}\nmetric_list: [{metric: exact_match}]\n"))]);
    assert!(findings(&library, "t").is_empty(), "{:?}", findings(&library, "t"));
}

#[test]
fn each_mistake_is_found_with_its_line() {
    for (more, line, words) in [
        ("doc_to_txt: x\n", 6, "doc_to_text"),
        ("description: '{{ x '\n", 6, "description"),
        ("description: '{{ x|uper }}'\n", 6, "upper"),
        ("output_type: generate\n", 6, "generate_until"),
        ("metric_list:\n  - metric: acc\n", 7, "acc"),
        ("metric_list:\n  - metric: exact_match\n    aggregation: maen\n", 8, "mean"),
        ("filter_list:\n  - name: x\n    filter:\n      - function: rgex\n", 9, "regex"),
        ("filter_list:\n  - name: x\n    filter:\n      - function: take_first_k\n        n: 3\n", 9, "n"),
        ("scorer: first_tokn\n", 6, "first_token"),
        ("fewshot_config: {sampler: frist_n}\n", 6, "first_n"),
        ("num_fewshot: many\n", 6, "num_fewshot"),
        ("formats: mcq\n", 6, "mcqa"),
    ] {
        let error = only_error(more);
        assert!(error.contains(words), "{more}: {error}");
        assert!(error.starts_with(&format!("{line}: ")), "{more}: {error}");
    }
}

#[test]
fn a_filter_that_may_never_be_reached_is_a_warning() {
    let library = Library::new(&[("t.yaml", &task("t", "description: '{% if x %}{{ x|uper }}{% endif %}'\n"))]);
    let found = findings(&library, "t");
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].severity, Severity::Warning);
    assert!(found[0].diagnostic.message.contains("`uper`"), "{found:?}");
}

#[test]
fn functions_are_not_looked_up() {
    let library = Library::new(&[(
        "t.yaml",
        &task("t", "process_docs: !function nowhere.f\nmetric_list: [{metric: !function utils.m}]\n"),
    )]);
    let errors = findings(&library, "t").into_iter().filter(|finding| finding.severity == Severity::Error).count();
    assert_eq!(errors, 0);
}

#[test]
fn findings_that_tasks_share_are_reported_once() {
    let library = Library::new(&[
        ("base_yaml", "description: '{{ x '\ndataset_path: json\n"),
        ("a.yaml", "include: base_yaml\ntask: a\n"),
        ("b.yaml", "include: base_yaml\ntask: b\n"),
        ("g.yaml", "group: g\ntask: [a, b]\naggregate_metric_list: {metric: acc}\n"),
    ]);
    let specs: Vec<Spec> = ["a", "b", "g"].map(Spec::from).into();
    let errors = library.manager().validate(&specs);
    assert_eq!(errors.iter().filter(|finding| finding.severity == Severity::Error).count(), 1, "{errors:?}");
}

#[test]
fn names_that_do_not_exist_are_errors() {
    let library = Library::new(&[("t.yaml", &task("arc_easy", ""))]);
    let found = findings(&library, "arc_esy");
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].severity, Severity::Error);
}

#[test]
fn the_built_in_library_is_valid() {
    let manager = lmeval_tasks::TaskManager::new(&[lmeval_tasks::BUILTIN_LIBRARY.into()]);
    let specs: Vec<Spec> = manager.all_tasks().into_iter().map(Spec::from).collect();
    let findings = manager.validate(&specs);
    assert!(findings.is_empty(), "{findings:?}");
    assert!(manager.unreadable().is_empty());
}

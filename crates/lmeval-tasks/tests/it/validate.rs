//! Findings of validation, and definitions that must pass.

use lmeval_tasks::{Finding, Severity, Spec};

use crate::support::{Library, task};

fn findings(library: &Library, name: &str) -> Vec<Finding> {
    library.manager().validate(&[Spec::from(name)])
}

/// The only error of a task, as `line: message`.
fn only_error(more: &str) -> String {
    let library = Library::new(&[("t.yaml", &task("t", more))]);
    let errors: Vec<Finding> =
        findings(&library, "t").into_iter().filter(|finding| finding.severity == Severity::Error).collect();
    assert_eq!(errors.len(), 1, "{more}: {errors:?}");
    let diagnostic = &errors[0].diagnostic;
    let line = diagnostic.location.as_ref().map_or(0, |location| location.line);
    format!("{line}: {} {}", diagnostic.message, diagnostic.hints.join(" "))
}

#[test]
fn valid_task_has_no_findings() {
    let library = Library::new(&[(
        "t.yaml",
        &task("t", "generation_kwargs: {until: [x]}\nmetric_list: [{metric: exact_match}]\n"),
    )]);
    assert!(findings(&library, "t").is_empty(), "{:?}", findings(&library, "t"));
}

#[test]
fn finds_each_mistake_with_its_line() {
    for (more, line, words) in [
        ("doc_to_txt: x\n", 6, "doc_to_text"),
        ("description: '{{ x '\n", 6, "description"),
        ("description: '{{ x|uper }}'\n", 6, "upper"),
        ("description: '{% if x %}{{ x|striptags }}{% endif %}'\n", 6, "`striptags` is not supported"),
        ("output_type: generate\n", 6, "generate_until"),
        ("metric_list:\n  - metric: acc\n", 7, "acc"),
        ("metric_list:\n  - metric: exact_match\n    aggregation: maen\n", 8, "mean"),
        ("filter_list:\n  - name: x\n    filter:\n      - function: rgex\n", 9, "regex"),
        ("filter_list:\n  - name: x\n    filter:\n      - function: take_first_k\n        n: 3\n", 9, "n"),
        ("scorer: first_tokn\n", 6, "first_token"),
        ("fewshot_config: {sampler: frist_n}\n", 6, "first_n"),
        ("num_fewshot: many\n", 6, "num_fewshot"),
        ("formats: mcq\n", 6, "mcqa"),
        ("3: x\n", 6, "`3`"),
        ("process_docs: !function nodot\n", 6, "module"),
        ("output_type: multiple_choice\n", 6, "doc_to_choice"),
        ("metric_list:\n  - metric: exact_match\n    regexes_to_ignore:\n      - '('\n", 9, "position 0"),
        ("generation_kwargs:\n  until: [x]\n  max_gen_toks: many\n", 8, "max_gen_toks"),
        ("doc_to_choice: c\nformats:\n  mcqa:\n  cloz: null\n", 9, "cloze"),
        ("doc_to_choice: c\nformats:\n  mcqa:\n  x: {type: cloze, prefix: a}\n", 9, "prefix"),
        ("doc_to_choice: c\nformats:\n  mcqa:\n  3: cloze\n", 9, "quotes"),
        (
            "doc_to_choice: c\nformats:\n  mcqa:\n  x: {type: generate, scorer: frist_token}\n",
            9,
            "first_token",
        ),
    ] {
        let error = only_error(more);
        assert!(error.contains(words), "{more}: {error}");
        assert!(error.starts_with(&format!("{line}: ")), "{more}: {error}");
    }
}

#[test]
fn unknown_filter_in_a_branch_is_a_warning() {
    let library =
        Library::new(&[("t.yaml", &task("t", "description: '{% if x %}{{ x|uper }}{% endif %}'\n"))]);
    let found = findings(&library, "t");
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].severity, Severity::Warning);
    assert!(found[0].diagnostic.message.contains("`uper`"), "{found:?}");
}

#[test]
fn functions_are_not_looked_up() {
    let library = Library::new(&[(
        "t.yaml",
        &task("t", "process_docs: !function missing.f\nmetric_list: [{metric: !function utils.m}]\n"),
    )]);
    let errors =
        findings(&library, "t").into_iter().filter(|finding| finding.severity == Severity::Error).count();
    assert_eq!(errors, 0);
}

#[test]
fn reports_shared_findings_once() {
    let library = Library::new(&[
        ("base_yaml", "description: '{{ x '\ndataset_path: json\ntest_split: test\n"),
        ("a.yaml", "include: base_yaml\ntask: a\n"),
        ("b.yaml", "include: base_yaml\ntask: b\n"),
        ("g.yaml", "group: g\ntask: [a, b]\naggregate_metric_list: {metric: acc}\n"),
    ]);
    let specs: Vec<Spec> = ["a", "b", "g"].map(Spec::from).into();
    let errors = library.manager().validate(&specs);
    assert_eq!(errors.iter().filter(|finding| finding.severity == Severity::Error).count(), 1, "{errors:?}");
}

#[test]
fn unknown_names_are_errors() {
    let library = Library::new(&[("t.yaml", &task("arc_easy", ""))]);
    let found = findings(&library, "arc_esy");
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].severity, Severity::Error);
}

#[test]
fn built_in_library_is_valid() {
    let manager = lmeval_tasks::TaskManager::new(&[lmeval_tasks::BUILTIN_LIBRARY.into()]);
    let specs: Vec<Spec> = manager.all_tasks().into_iter().map(Spec::from).collect();
    let findings = manager.validate(&specs);
    assert!(findings.is_empty(), "{findings:?}");
    assert!(manager.unreadable().is_empty());
}

#[test]
fn missing_keys_are_reported_at_the_task_name() {
    let library = Library::new(&[
        ("t.yaml", "doc_to_text: q\ntask: t\n"),
        ("c.yaml", "task: c\nclass: !function u.C\n"),
    ]);
    let found = findings(&library, "t");
    let lines: Vec<_> =
        found.iter().map(|finding| finding.diagnostic.location.as_ref().unwrap().line).collect();
    assert_eq!(lines, [2, 2], "{found:?}");
    assert!(found[0].diagnostic.message.contains("`dataset_path`"));
    assert!(found[1].diagnostic.message.contains("`test_split`"));
    assert!(findings(&library, "c").is_empty());
}

#[test]
fn locates_invalid_templates_of_a_format() {
    let formats =
        "doc_to_choice: c\nformats:\n  mcqa:\n  gen2:\n    type: generate\n    instruction: '{{ x'\n";
    let library = Library::new(&[
        ("fx.yaml", &task("fx", formats)),
        ("one.yaml", &task("one", "formats:\n  type: cot\n  answer_prompt: '{% if %}'\n")),
        ("own.yaml", "task: own\nformats: cot\ndataset_path: json\ntest_split: test\ndoc_to_text: '{{ q'\n"),
        ("at.yaml", "task: at@mcqa\ndataset_path: json\ntest_split: test\n"),
    ]);
    for (spec, name, line, path) in [
        ("fx", "fx@gen2", 11, "`formats.gen2.instruction`"),
        ("fx@gen2", "fx@gen2", 11, "`formats.gen2.instruction`"),
        ("one", "one@cot", 8, "`formats.answer_prompt`"),
        ("own", "own@cot", 5, "`doc_to_text`"),
    ] {
        let found = findings(&library, spec);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].name.as_deref(), Some(name), "{found:?}");
        assert_eq!(found[0].diagnostic.location.as_ref().unwrap().line, line, "{found:?}");
        assert!(found[0].diagnostic.message.contains(path), "{found:?}");
    }
    let found = findings(&library, "at@mcqa");
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].diagnostic.location.as_ref().unwrap().line, 1, "{found:?}");
}

#[test]
fn reports_findings_once_across_links() {
    let library = Library::new(&[
        ("base_yaml", "description: '{{ x '\ndataset_path: json\ntest_split: test\n"),
        ("t.yaml", "include: base_yaml\ntask: t\n"),
        ("broken_yaml", "x: [1\n"),
        ("u.yaml", "include: broken_yaml\ntask: u\n"),
        ("v.yaml", "include: broken_yaml\ntask: v\n"),
    ]);
    let folder = library.path();
    let other_name = folder.join("..").join(folder.file_name().unwrap());
    let files = |name: &str| [Spec::File(folder.join(name)), Spec::File(other_name.join(name))];
    let manager = library.manager();
    for name in ["t.yaml", "u.yaml", "base_yaml"] {
        let found = manager.validate(&files(name));
        assert!(!found.is_empty() && found.len() == manager.validate(&files(name)[..1]).len(), "{found:?}");
    }
    assert_eq!(manager.unreadable().len(), 1);
    assert_eq!(manager.validate_all().len(), 2);
}

#[test]
fn registered_names_are_known() {
    use lmeval_scoring::registry::{Registry, SamplerEntry};
    use lmeval_scoring::sampler::FirstN;
    let library = Library::new(&[("t.yaml", &task("t", "fewshot_config: {sampler: nearest}\n"))]);
    assert_eq!(findings(&library, "t").len(), 1);
    let mut registry = Registry::default();
    registry.register(SamplerEntry::new("nearest", || Box::new(FirstN))).unwrap();
    let manager = library.manager().with_registry(registry);
    assert!(manager.validate(&[Spec::from("t")]).is_empty());
    assert!(manager.registry().samplers.get("nearest").is_some());
}

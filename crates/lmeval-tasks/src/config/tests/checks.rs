use super::super::check::{Report, names, names_with, task as check_task};
use super::{mapping, task, try_task};
use lmeval_scoring::registry::{Registry, SamplerEntry};
use lmeval_scoring::sampler::FirstN;

fn check(text: &str) -> Report {
    let mut report = Report::default();
    names(&try_task(text).0.unwrap(), &mapping(text), &mut report);
    report
}

fn errors(text: &str) -> Vec<String> {
    check(text).errors.into_iter().map(|error| error.message).collect()
}

fn fine(text: &str) -> Report {
    let report = check(text);
    assert!(report.errors.is_empty(), "{text}: {:?}", report.errors);
    report
}

fn metric(output_type: &str, entry: &str) -> String {
    format!("{{task: t, output_type: {output_type}, metric_list: [{entry}]}}")
}

#[test]
fn checks_filters_and_their_arguments() {
    let step = |step: &str| format!("{{task: t, filter_list: [{{name: n, filter: [{step}]}}]}}");
    let fails = |text: &str, message: &str| assert_eq!(errors(&step(text)), [message], "{text}");
    fails("{function: regx}", "`filter_list[0].filter[0].function`: `regx` is not a known filter");
    fails("{function: regex, pattern: x}", "The filter `regex` has no option `pattern`");
    fails(
        "{function: regex, group_select: a}",
        "The filter `regex`: the option `group_select` must be an int, not str",
    );
    fails("{function: take_first_k}", "The filter `take_first_k` needs the option `k`");
    fails("{function: custom}", "The filter `custom` needs the option `filter_fn`");
    fails(
        "{function: map, mapping_dict: [a]}",
        "The filter `map`: the option `mapping_dict` must be a dict, not list",
    );
    let bad = errors(&step("{function: regex, regex_pattern: '(a'}"));
    assert!(
        bad[0].starts_with("`filter_list[0].filter[0].regex_pattern` is not a regular expression: "),
        "{bad:?}"
    );
    let bad = errors(&step("{function: regex, kwargs: {regex_pattern: '['}}"));
    assert!(bad[0].starts_with("`filter_list[0].filter[0].kwargs.regex_pattern` is"), "{bad:?}");
    assert_eq!(check(&step("{function: regx}")).errors[0].hints[0], "Did you mean `regex`?");
    fine(&step("{function: take_first, foo: 1}"));
    fine(&step("{function: custom, filter_fn: !function u.f}"));
    fine(&step("{function: !function u.Filter, anything: 1}"));
    fine(&step("{function: map, mapping_dict: null}"));
    fine(&step("{function: ACP_grammar_filter, grammar_task: act}"));
}

#[test]
fn metrics_must_fit_the_output_type() {
    let fails = |kind: &str, entry: &str| {
        let messages = errors(&metric(kind, entry));
        assert_eq!(messages.len(), 1, "{entry} {messages:?}");
        assert!(messages[0].contains("output type is"), "{messages:?}");
    };
    fails("generate_until", "{metric: acc}");
    fails("loglikelihood", "{metric: acc_norm}");
    fails("loglikelihood_rolling", "{metric: perplexity}");
    fails("multiple_choice", "{metric: bleu}");
    fine(&metric("multiple_choice", "{metric: exact_match}"));
    fine(&metric("generate_until", "{metric: f1}"));
    fine(&metric("generate_until", "{metric: mcc, aggregation: matthews_corrcoef}"));
    fine(&metric("generate_until", "{metric: acc, aggregation: !function u.mean}"));
    fine(&metric("generate_until", "{metric: !function u.score}"));
    fine("{task: t, process_results: !function u.score, metric_list: [{metric: acc}, {metric: my_own}]}");
    for kind in ["generate_until", "loglikelihood", "loglikelihood_rolling", "multiple_choice"] {
        fine(&format!("{{task: t, output_type: {kind}}}"));
    }
}

#[test]
fn names_the_format_that_sets_the_output_type() {
    let text = "{task: t, formats: cot, metric_list: [{metric: acc}]}";
    let report = check(text);
    assert_eq!(report.errors[0].hints[1], "The output type comes from the format `cot`");
}

#[test]
fn checks_metric_options() {
    let text = metric("generate_until", "{metric: exact_match, ignore_cases: true}");
    assert_eq!(errors(&text), ["The metric `exact_match` has no option `ignore_cases`"]);
    let report = fine(&metric("multiple_choice", "{metric: acc, weight_by_size: true}"));
    assert!(report.warnings.is_empty());
    fine(&metric(
        "generate_until",
        "{metric: exact_match, ignore_punctuation: 'yes', regexes_to_ignore: [a]}",
    ));
    let text = metric("generate_until", "{metric: exact_match, k: 3}");
    assert_eq!(errors(&text), ["The metric `exact_match` has no option `k`"]);
}

#[test]
fn reports_unknown_metrics() {
    let report = check(&metric("generate_until", "{metric: exat_match}"));
    assert_eq!(report.errors[0].message, "`metric_list[0].metric`: `exat_match` is not a known metric");
    assert!(report.errors[0].hints[0].starts_with("Did you mean `exact_match`"));
    let needs = |entry: &str| {
        fine(&metric("generate_until", entry));
    };
    needs("{metric: wer, aggregation: mean}");
    needs("{metric: f1, aggregation: mean, hf_evaluate: true, average: micro}");
    needs("{metric: someone/their_metric}");
    assert_eq!(errors(&metric("generate_until", "{metric: 'a,b'}")).len(), 1);
}

#[test]
fn checks_aggregations_and_reductions() {
    let text = metric("generate_until", "{metric: exact_match, aggregation: maen}");
    assert_eq!(errors(&text), ["`metric_list[0].aggregation`: `maen` is not a known aggregation"]);
    for name in
        ["mean", "bleu", "chrf++", "matthews_corrcoef", "brier_score", "ter", "nanmean", "!function u.f"]
    {
        fine(&metric("generate_until", &format!("{{metric: bleu, aggregation: {name}}}")));
    }
    let text = metric("generate_until", "{metric: exact_match, reduction: worst}");
    assert_eq!(errors(&text), ["`metric_list[0].reduction`: `worst` is not a known reduction"]);
    for name in ["mean", "take_first", "pass@k", "null", "!function u.f"] {
        fine(&metric(
            "generate_until",
            &format!("{{metric: exact_match, reduction: '{name}'}}")
                .replace("'null'", "null")
                .replace("'!function u.f'", "!function u.f"),
        ));
    }
    fine(&metric("generate_until", "{metric: exact_match, aggregation: null}"));
}

#[test]
fn reports_inherited_metrics_once() {
    let text = "{task: t, metric_list: [{metric: nonesuch}], filter_list: [{name: a, filter: []}, {name: b, filter: []}]}";
    assert_eq!(errors(text).len(), 1);
    let report = fine("{task: t, filter_list: [{name: a, filter: []}, {name: a, filter: []}]}");
    assert_eq!(report.warnings[0].message, "Two pipelines are named `a`; the last one wins");
}

#[test]
fn checks_scorers_and_samplers() {
    assert_eq!(errors("{task: t, scorer: first_tokn}"), ["`scorer`: `first_tokn` is not a known scorer"]);
    assert_eq!(
        errors("{task: t, scorer: {type: regex, kwargs: {regex_pattern: x}}}"),
        ["The scorer `regex` has no option `regex_pattern`"]
    );
    assert_eq!(
        errors("{task: t, output_type: multiple_choice, scorer: regex}"),
        ["The scorer `regex` is for generate_until, but the task's output type is multiple_choice"]
    );
    let text = "{task: t, fewshot_config: {sampler: nearest}}";
    assert_eq!(errors(text), ["`fewshot_config.sampler`: `nearest` is not a known sampler"]);
    fine("{task: t, fewshot_config: {sampler: !function u.Sampler}}");
    let mut registry = Registry::default();
    registry.register(SamplerEntry::new("nearest", || Box::new(FirstN))).unwrap();
    let mut report = Report::default();
    names_with(&task(text), &mapping(text), &registry, &mut report);
    assert!(report.errors.is_empty());
}

#[test]
fn compiles_patterns_of_filters_and_metrics() {
    let text = metric("generate_until", "{metric: exact_match, regexes_to_ignore: [a, '(b']}");
    assert_eq!(
        errors(&text),
        [
            "`metric_list[0].regexes_to_ignore[1]` is not a regular expression: the parenthesis is never closed \
             at position 0"
        ]
    );
    let text = "{task: t, filter_list: [{name: n, filter: [{function: multi_choice_regex, kwargs: {regexes_to_ignore: ['*']}}]}]}";
    assert_eq!(
        errors(text),
        [
            "`filter_list[0].filter[0].kwargs.regexes_to_ignore[0]` is not a regular expression: there is nothing here to repeat \
             at position 0"
        ]
    );
}

/// The errors and warnings of a task with a dataset and a test split.
fn complete(more: &str) -> (Vec<String>, Vec<String>) {
    let text = format!("{{task: t, dataset_path: json, test_split: test, {more}}}");
    let mut report = Report::default();
    check_task(&try_task(&text).0.unwrap(), &mapping(&text), &Registry::default(), &mut report);
    let messages = |found: Vec<crate::Diagnostic>| found.into_iter().map(|found| found.message).collect();
    (messages(report.errors), messages(report.warnings))
}

#[test]
fn reports_missing_required_keys() {
    let errors = |more: &str| complete(more).0;
    assert_eq!(errors("dataset_path: null"), ["The task `t` has no `dataset_path`"]);
    assert_eq!(
        errors("test_split: null"),
        ["The task `t` has neither `test_split` nor `validation_split`, so there is nothing to evaluate"]
    );
    for fine in [
        "test_split: null, validation_split: dev",
        "dataset_path: null, test_split: null, custom_dataset: !function u.docs",
        "output_type: multiple_choice, multiple_inputs: true",
        "output_type: multiple_choice, doc_to_choice: c",
    ] {
        assert_eq!(errors(fine), [""; 0], "{fine}");
    }
    assert_eq!(errors("output_type: multiple_choice"), ["A multiple-choice task needs `doc_to_choice`"]);
    assert_eq!(
        errors("process_docs: !function nodot"),
        ["`process_docs`: `!function nodot` does not name a module"]
    );
    assert_eq!(
        errors("metric_list: [{metric: exact_match, aggregation: !function mean}]"),
        ["`metric_list[0].aggregation`: `!function mean` does not name a module"]
    );
}

#[test]
fn checks_generation_settings() {
    let found = |setting: &str| complete(&format!("generation_kwargs: {{{setting}}}"));
    for (setting, message) in [
        ("max_gen_toks: many", "`generation_kwargs.max_gen_toks` must be an int, not str (`'many'`)"),
        ("max_tokens: [1]", "`generation_kwargs.max_tokens` must be an int, not list (`[1]`)"),
        ("max_new_tokens: .inf", "`generation_kwargs.max_new_tokens` must be an int, not float (`inf`)"),
        (
            "max_gen_toks: 123456789012345678901",
            "`generation_kwargs.max_gen_toks` is too large: `123456789012345678901`",
        ),
        ("until: 3", "`generation_kwargs.until` must be a str or a list of strs, not int (`3`)"),
        ("until: [a, {b: c}]", "`generation_kwargs.until[1]` must be a str, not dict (`{'b': 'c'}`)"),
    ] {
        assert_eq!(found(setting), (vec![message.to_owned()], vec![]), "{setting}");
    }
    assert_eq!(
        found("do_sample: 'no'").1,
        ["`generation_kwargs.do_sample` must be a bool, not str (`'no'`), which is read as True"]
    );
    for fine in [
        "max_gen_toks: '256', until: x",
        "max_gen_toks: 256.0, until: [a, b]",
        "max_gen_toks: null, until: null, do_sample: 1",
    ] {
        assert_eq!(found(fine), (vec![], vec![]), "{fine}");
    }
}

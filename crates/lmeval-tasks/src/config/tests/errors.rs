use super::failure;
use crate::error::ErrorKind;

fn fails(text: &str, kind: ErrorKind, message: &str) {
    let error = failure(text);
    assert_eq!((error.kind(), error.message()), (kind, message), "{text}");
}

#[test]
fn reports_all_unknown_keys_together() {
    let error = failure("{task: t, doc_to_txt: q, batch_size: 4, zzz: 1}");
    assert_eq!(error.kind(), ErrorKind::Type);
    assert_eq!(error.message(), "Unknown keys in a task: `doc_to_txt`, `batch_size`, `zzz`");
    assert_eq!(
        error.hints(),
        [
            "`doc_to_txt`: did you mean `doc_to_text` or `doc_to_target`?",
            "`batch_size` is an option of the run (`--batch_size`), not of a task",
        ]
    );
}

#[test]
fn truncates_long_lists_and_values() {
    let keys: Vec<String> = (0..30).map(|number| format!("k{number}: 1")).collect();
    let error = failure(&format!("{{task: t, {}}}", keys.join(", ")));
    assert!(error.message().ends_with("`k19` and 10 more"), "{error}");
    let error = failure(&format!("{{task: t, output_type: {}}}", "x".repeat(1000)));
    assert!(error.message().len() < 300, "{error}");
}

#[test]
fn suggests_replacements_for_old_keys() {
    for (key, advice) in [
        ("gold_alias", "doc_to_target"),
        ("template_aliases", "process_docs"),
        ("group", "`tag`"),
        ("gen_kwargs", "`generation_kwargs`"),
        ("dataset", "`dataset_path`"),
        ("max_gen_toks", "`generation_kwargs`"),
        ("include", "files"),
        ("class", "file"),
    ] {
        let error = failure(&format!("{{task: t, {key}: 1}}"));
        assert_eq!(error.message(), format!("Unknown key in a task: `{key}`"));
        assert!(error.hints()[0].contains(advice), "{key}: {:?}", error.hints());
    }
}

#[test]
fn checks_types_of_values() {
    let wrong = |text: &str, message: &str| fails(text, ErrorKind::Type, message);
    wrong("{doc_to_text: q}", "A task needs a name under `task`");
    wrong("{task: t, num_fewshot: '3'}", "`num_fewshot` must be an int, not str (`'3'`)");
    wrong("{task: t, num_fewshot: 2.0}", "`num_fewshot` must be an int, not float (`2.0`)");
    wrong("{task: t, dataset_kwargs: [a]}", "`dataset_kwargs` must be a dict, not list (`['a']`)");
    wrong("{task: t, dataset_name: no}", "`dataset_name` must be a str, not bool (`False`)");
    wrong("{task: t, process_docs: u.docs}", "`process_docs` must be a function, not str (`'u.docs'`)");
    wrong("{task: t, repeats: null}", "`repeats` must be an int, not None");
    wrong("{task: t, metadata: 3}", "`metadata` must be a dict, not int (`3`)");
    wrong("{task: t, unsafe_code: maybe}", "`unsafe_code` must be a bool, not str (`'maybe'`)");
    wrong("{task: t, tag: [1]}", "`tag[0]` must be a str, not int (`1`)");
    wrong("{task: t, formats: 3}", "`formats` must be a str or a dict, not int");
    let huge = "123456789012345678901234567890";
    for key in ["num_fewshot", "repeats"] {
        let message = format!("`{key}` is too large: `{huge}`");
        fails(&format!("{{task: t, {key}: {huge}}}"), ErrorKind::Value, &message);
    }
    assert_eq!(
        failure("{task: t, dataset_name: no}").hints(),
        ["Put the value in quotes: YAML reads it as something other than a string"]
    );
    assert_eq!(failure("{task: t, process_docs: u.docs}").hints(), ["Write `!function module.name`"]);
    let value = |text: &str, message: &str| fails(text, ErrorKind::Value, message);
    value("{task: t, repeats: 0}", "`repeats` must be at least 1, not 0");
    value(
        "{task: t, doc_to_target: 1.5}",
        "`doc_to_target` must be a str (a column name or a template), a function, an int or a list, not float (`1.5`)",
    );
    value(
        "{task: t, doc_to_text: {a: b}}",
        "`doc_to_text` must be a str (a column name or a template), a function, an int or a list, not dict (`{'a': 'b'}`)",
    );
}

#[test]
fn rejects_unknown_output_types() {
    let error = failure("{task: t, output_type: multiple_choise}");
    assert_eq!(
        (error.kind(), error.message()),
        (ErrorKind::Value, "`multiple_choise` is not an output type")
    );
    assert_eq!(error.hints()[0], "Did you mean `multiple_choice`?");
    assert!(
        failure("{task: t, output_type: greedy_until}")
            .hints()
            .iter()
            .any(|hint| hint.contains("generate_until"))
    );
    for kind in ["loglikelihood", "loglikelihood_rolling"] {
        for key in ["multiple_inputs", "multiple_targets"] {
            fails(
                &format!("{{task: t, output_type: {kind}, {key}: true}}"),
                ErrorKind::Value,
                &format!("`{key}` cannot be used with output type `{kind}`"),
            );
        }
    }
}

#[test]
fn checks_types_of_generation_settings() {
    fails(
        "{task: t, generation_kwargs: [1]}",
        ErrorKind::Type,
        "`generation_kwargs` must be a dict, not list (`[1]`)",
    );
    for (temperature, found) in [("null", "None"), ("warm", "str (`'warm'`)"), ("[1]", "list (`[1]`)")] {
        fails(
            &format!("{{task: t, generation_kwargs: {{temperature: {temperature}}}}}"),
            ErrorKind::Type,
            &format!("`generation_kwargs.temperature` must be a number, not {found}"),
        );
    }
}

#[test]
fn checks_fewshot_config() {
    let wrong = |text: &str, kind, message: &str| {
        fails(&format!("{{task: t, fewshot_config: {text}}}"), kind, message);
    };
    wrong("3", ErrorKind::Type, "`fewshot_config` must be a dict, not int (`3`)");
    wrong("{smapler: x, n: 1}", ErrorKind::Type, "Unknown keys in `fewshot_config`: `smapler`, `n`");
    wrong(
        "{samples: 3}",
        ErrorKind::Value,
        "`fewshot_config.samples` must be a list of dicts or a function, not int",
    );
    wrong("{samples: [a]}", ErrorKind::Value, "`fewshot_config.samples[0]` must be a dict, not str");
    wrong(
        "{sampler: 3}",
        ErrorKind::Type,
        "`fewshot_config.sampler` must be a str or a function, not int (`3`)",
    );
    wrong(
        "{fewshot_indices: [a]}",
        ErrorKind::Type,
        "`fewshot_config.fewshot_indices[0]` must be an int, not str (`'a'`)",
    );
    let error = failure("{task: t, fewshot_config: {smapler: x}}");
    assert_eq!(error.hints(), ["`smapler`: did you mean `sampler` or `samples`?"]);
}

#[test]
fn metrics_and_filters_must_be_lists_of_dicts() {
    let wrong = |text: &str, kind, message: &str| fails(&format!("{{task: t, {text}}}"), kind, message);
    wrong("metric_list: acc", ErrorKind::Type, "`metric_list` must be a list of dicts, not str (`'acc'`)");
    wrong("metric_list: [acc]", ErrorKind::Type, "`metric_list[0]` must be a dict, not str (`'acc'`)");
    wrong("metric_list: [{aggregation: mean}]", ErrorKind::Value, "`metric_list[0]` has no `metric`");
    wrong(
        "metric_list: [{metric: 3}]",
        ErrorKind::Type,
        "`metric_list[0].metric` must be a str or a function, not int (`3`)",
    );
    wrong(
        "metric_list: [{metric: acc, kwargs: null}]",
        ErrorKind::Type,
        "`metric_list[0].kwargs` must be a dict, not None",
    );
    wrong(
        "filter_list: {name: a}",
        ErrorKind::Type,
        "`filter_list` must be a list of dicts, not dict (`{'name': 'a'}`)",
    );
    wrong("filter_list: [{filter: []}]", ErrorKind::UnknownName, "`filter_list[0]` has no `name`");
    wrong("filter_list: [{name: a}]", ErrorKind::UnknownName, "`filter_list[0]` has no `filter`");
    wrong(
        "filter_list: [{name: a, filter: null}]",
        ErrorKind::Type,
        "`filter_list[0].filter` must be a list of dicts, not None",
    );
    wrong(
        "filter_list: [{name: a, filter: [x]}]",
        ErrorKind::Type,
        "`filter_list[0].filter[0]` must be a dict, not str (`'x'`)",
    );
    wrong(
        "filter_list: [{name: a, filter: [{k: 1}]}]",
        ErrorKind::UnknownName,
        "`filter_list[0].filter[0]` has no `function`",
    );
    wrong(
        "filter_list: [{name: a, filter: [{function: regex, kwargs: null}]}]",
        ErrorKind::Type,
        "`filter_list[0].filter[0].kwargs` must be a dict, not None",
    );
    wrong("scorer: {kwargs: {}}", ErrorKind::UnknownName, "`scorer` has no `type`");
    wrong("scorer: 3", ErrorKind::Type, "`scorer` must be a str or a dict with `type`, not int (`3`)");
}

#[test]
fn checks_formats() {
    let wrong = |text: &str, kind, message: &str| {
        fails(&format!("{{task: t, doc_to_choice: c, {text}}}"), kind, message);
    };
    wrong("formats: mcqx", ErrorKind::Value, "`mcqx` is not a known format");
    wrong("formats: {}", ErrorKind::Value, "`formats` is an empty dict");
    wrong(
        "formats: {mcqa: null}, _formats_selection: cloze",
        ErrorKind::Value,
        "The task has no format `cloze`",
    );
    wrong("formats: {type: mcqa, prefix: x}", ErrorKind::Type, "A format has no field `prefix`");
    wrong("formats: {mcqa: 3}", ErrorKind::Type, "The format `mcqa` must be a str, a dict or None, not int");
    wrong("formats: {mine: {instruction: x}}", ErrorKind::Value, "`mine` is not a known format");
    wrong(
        "formats: {mcqa: {choice_labels: roman}}",
        ErrorKind::Value,
        "The format field `choice_labels` must be `letters`, `numbers`, a list or None, not `roman`",
    );
    wrong(
        "formats: mcqa, doc_to_text: !function u.text",
        ErrorKind::Type,
        "A format cannot use `doc_to_text`, which is a function",
    );
    fails("{task: t, formats: cloze}", ErrorKind::Value, "A multiple-choice format needs `doc_to_choice`");
    let error = failure("{task: t@mcqqa}");
    assert_eq!(error.hints(), ["Did you mean `mcqa`?", "The formats are cloze, cot, generate, mcqa"]);
}

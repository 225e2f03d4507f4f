use lmeval_core::OutputType;
use lmeval_pycompat::Value;
use lmeval_pycompat::repr::repr;
use lmeval_scoring::formats::Format;
use lmeval_scoring::registry::{FormatEntry, Registry};

use super::super::{FewshotSamples, Field, Given, Named, TASK_KEYS, TaskConfig};
use super::{mapping, task, try_task, value};

fn shown(config: &TaskConfig, key: &str) -> String {
    let Value::Dict(dict) = config.to_value() else { panic!("not a dict") };
    dict.get_str(key).map_or_else(|| "absent".to_owned(), repr)
}

#[test]
fn fills_in_defaults() {
    let config = task("task: t");
    assert_eq!(config.output_type, OutputType::GenerateUntil);
    assert_eq!(
        repr(&config.to_value()),
        "{'task': 't', 'output_type': 'generate_until', 'tag': [], 'dataset_kwargs': {}, 'description': '', \
         'target_delimiter': ' ', 'fewshot_delimiter': '\\n\\n', 'fewshot_config': {'sampler': 'default', \
         'split': None, 'process_docs': None, 'fewshot_indices': None, 'samples': None, 'doc_to_text': None, \
         'doc_to_choice': None, 'doc_to_target': None, 'gen_prefix': None, 'fewshot_delimiter': '\\n\\n', \
         'target_delimiter': ' '}, 'generation_kwargs': {'temperature': 0.0, 'do_sample': False, \
         'max_gen_toks': 256, 'until': ['\\n\\n']}, 'metric_list': [], 'filter_list': [{'name': 'none', \
         'filter': [], 'metric_list': []}], 'repeats': 1, 'unsafe_code': False, 'multiple_inputs': False, \
         'multiple_targets': False, 'should_decontaminate': False, 'metadata': {}}"
    );
    assert_eq!(config.version(), Value::str("Yaml"));
    assert_eq!(config.fewshot_count(), 0);
}

#[test]
fn keys_are_in_canonical_order() {
    let config = task(
        "{metadata: {version: 2.0}, doc_to_target: !function u.target, dataset_path: json, task: t, \
          process_docs: !function u.docs, num_fewshot: 3, dataset_kwargs: null, test_split: test}",
    );
    let Value::Dict(dict) = config.to_value() else { panic!("not a dict") };
    let keys: Vec<&str> = dict.keys().filter_map(Value::as_str).collect();
    let places: Vec<usize> =
        keys.iter().filter_map(|key| TASK_KEYS.iter().position(|known| known == key)).collect();
    assert!(places.is_sorted() && places.len() == keys.len(), "{keys:?}");
    assert!(!keys.contains(&"dataset_kwargs"));
    assert_eq!(shown(&config, "doc_to_target"), "'u.target'");
    assert_eq!(config.version(), Value::Float(2.0));
}

#[test]
fn generation_defaults_follow_the_delimiter() {
    let until = |text: &str| shown(&task(text), "generation_kwargs");
    assert!(until("{task: t, fewshot_delimiter: '|'}").ends_with("'until': ['|']}"));
    assert!(until("{task: t, fewshot_delimiter: null}").ends_with("'until': []}"));
    assert!(until("{task: t, generation_kwargs: {}}").starts_with("{'temperature': 0.0, 'do_sample': False"));
    assert_eq!(
        until("{task: t, generation_kwargs: {max_gen_toks: 5}}"),
        "{'max_gen_toks': 5, 'until': ['\\n\\n']}"
    );
    assert_eq!(
        until("{task: t, generation_kwargs: {until: null, temperature: '0.7'}}"),
        "{'until': None, 'temperature': 0.7}"
    );
    assert_eq!(
        until("{task: t, generation_kwargs: {until: x, temperature: true}}"),
        "{'until': 'x', 'temperature': 1.0}"
    );
    assert_eq!(until("{task: t, output_type: multiple_choice}"), "{}");
    let (config, warnings) = try_task("{task: t, output_type: multiple_choice, generation_kwargs: {a: 1}}");
    assert_eq!(shown(&config.unwrap(), "generation_kwargs"), "{'a': 1, 'until': ['\\n\\n']}");
    assert_eq!(warnings.len(), 1);
}

#[test]
fn reads_stop_strings_and_token_limit() {
    let config = task("{task: t, generation_kwargs: {until: x, max_tokens: null, max_new_tokens: 9}}");
    assert_eq!(config.generation_kwargs.until(), [Value::str("x")]);
    assert_eq!(config.generation_kwargs.max_gen_toks(), Some(&Value::Int(9)));
}

#[test]
fn repeats_apply_to_generation_only() {
    assert_eq!(task("{task: t, repeats: 4}").repeats, 4);
    let (config, warnings) = try_task("{task: t, repeats: 4, output_type: loglikelihood}");
    assert_eq!(config.unwrap().repeats, 1);
    assert_eq!(warnings.len(), 1);
}

#[test]
fn examples_inherit_from_the_task() {
    let config = task(
        "{task: t, doc_to_text: q, doc_to_target: a, gen_prefix: g, fewshot_split: train, target_delimiter: '', \
          process_docs: !function u.docs, fewshot_config: {sampler: first_n, doc_to_text: '{{q}}!', \
          doc_to_target: null, fewshot_indices: [2, 0]}}",
    );
    let fewshot = &config.fewshot_config;
    assert_eq!(fewshot.sampler, Named::Name("first_n".into()));
    assert_eq!(fewshot.split.as_deref(), Some("train"));
    assert_eq!(fewshot.doc_to_text, Some(Field::Text("{{q}}!".into())));
    assert_eq!(fewshot.doc_to_target, None);
    assert_eq!(fewshot.gen_prefix, Some(Field::Text("g".into())));
    assert_eq!(fewshot.target_delimiter.as_deref(), Some(""));
    assert_eq!(fewshot.fewshot_indices.as_deref(), Some(&[2, 0][..]));
    assert!(fewshot.process_docs.is_some());
}

#[test]
fn split_in_fewshot_config_wins() {
    let config = task("{task: t, fewshot_split: train, fewshot_config: {split: validation}}");
    assert_eq!(config.fewshot_config.split.as_deref(), Some("validation"));
    assert_eq!(config.fewshot_split.as_deref(), Some("train"));
    let config = task("{task: t, fewshot_split: train, fewshot_config: {split: null}}");
    assert_eq!(config.fewshot_config.split.as_deref(), Some("train"));
}

#[test]
fn samples_are_documents_or_a_function() {
    let config = task("{task: t, fewshot_config: {samples: [{q: 1}, {q: 2}]}}");
    let Some(FewshotSamples::Documents(documents)) = &config.fewshot_config.samples else {
        panic!("no samples")
    };
    assert_eq!(documents.len(), 2);
    let config = task("{task: t, fewshot_config: {samples: !function u.samples}}");
    assert!(matches!(config.fewshot_config.samples, Some(FewshotSamples::Function(_))));
    let (_, warnings) = try_task("{task: t, fewshot_split: train, fewshot_config: {samples: [{q: 1}]}}");
    assert_eq!(warnings.len(), 1);
}

#[test]
fn metric_options_are_flat_or_nested() {
    let config = task(
        "{task: t, metric_list: [{metric: exact_match, ignore_case: true, kwargs: {a: 1, ignore_case: false}}]}",
    );
    assert_eq!(
        shown(&config, "metric_list"),
        "[{'metric': 'exact_match', 'kwargs': {'ignore_case': False, 'a': 1}}]"
    );
    let config = task(
        "{task: t, metric_list: [{metric: !function u.score, aggregation: null, reduction: mean, \
          higher_is_better: false}]}",
    );
    let metric = &config.metric_list[0];
    assert!(matches!(&metric.metric, Named::Function(function) if function.reference == "u.score"));
    assert_eq!(metric.aggregation, Given::Null);
    assert_eq!(metric.reduction, Given::Value(Named::Name("mean".into())));
    assert_eq!(metric.higher_is_better, Given::Value(false));
    assert!(metric.kwargs.is_empty());
    assert_eq!(metric.path.to_string(), "metric_list[0]");
    let (config, warnings) = try_task("{task: t, metric_list: [{metric: acc, aggregation: 3}]}");
    assert_eq!(config.unwrap().metric_list[0].aggregation, Given::Null);
    assert_eq!(
        warnings[0].message,
        "`metric_list[0].aggregation` is neither a name nor a function but int, so the mean is used"
    );
}

#[test]
fn filter_options_are_flat_or_nested() {
    let config = task(
        "{task: t, filter_list: [{name: n, other: 1, filter: [{function: regex, regex_pattern: x, \
          kwargs: {group_select: -1}}]}]}",
    );
    assert_eq!(
        shown(&config, "filter_list"),
        "[{'name': 'n', 'filter': [{'function': 'regex', 'kwargs': {'regex_pattern': 'x', 'group_select': -1}}], \
         'metric_list': []}]"
    );
}

#[test]
fn pipelines_inherit_metrics_by_key() {
    let config = task(
        "{task: t, metric_list: [{metric: exact_match}], filter_list: [{name: a, filter: []}, \
          {name: b, filter: [], metric_list: []}, {name: c, filter: [], metric_list: null}, \
          {name: 4, filter: [], metric_list: [{metric: bleu}]}]}",
    );
    let names: Vec<Vec<String>> = config
        .filter_list
        .iter()
        .map(|pipeline| pipeline.metric_list.iter().map(|metric| metric.metric.to_string()).collect())
        .collect();
    assert_eq!(names, [vec!["exact_match".to_owned()], vec![], vec![], vec!["bleu".to_owned()]]);
    assert_eq!(config.filter_list[3].name, "4");
    let config = task("{task: t, metric_list: [{metric: acc}], filter_list: null}");
    assert_eq!(config.filter_list.len(), 1);
    assert_eq!((config.filter_list[0].name.as_str(), config.filter_list[0].metric_list.len()), ("none", 1));
}

#[test]
fn scorers_are_names_or_dicts() {
    assert_eq!(shown(&task("{task: t, scorer: regex}"), "scorer"), "{'type': 'regex'}");
    let config = task("{task: t, scorer: {type: regex, kwargs: {x: 1}, note: y}}");
    assert_eq!(shown(&config, "scorer"), "{'type': 'regex', 'kwargs': {'x': 1}, 'note': 'y'}");
    // Arguments are given under `kwargs` or next to the type.
    let kwargs = config.scorer.unwrap().kwargs;
    assert_eq!((kwargs.len(), kwargs.contains_str("note")), (2, true));
}

#[test]
fn accepts_older_spellings() {
    let config = task(
        "{task: t, tag: one, dataset_kwargs: {trust_remote_code: true, data_dir: d}, use_prompt: p, \
          should_decontaminate: true, doc_to_decontamination_query: !function u.q, doc_to_choice: {a: x, b: y}, \
          output_type: multiple_choice, num_fewshot: null, doc_to_target: 1, doc_to_image: [a, b]}",
    );
    assert_eq!(config.tag, ["one"]);
    assert_eq!(Value::from(config.loader_kwargs()), value("{data_dir: d}"));
    assert!(matches!(config.doc_to_choice, Some(Field::Dict(_))));
    assert_eq!(config.doc_to_target, Some(Field::Int(1)));
    assert_eq!(task("{task: t, tag: [a, b]}").tag, ["a", "b"]);
}

#[test]
fn applies_overrides_of_the_caller() {
    let mut config = task("{task: t, num_fewshot: 0}");
    assert!(!config.set_num_fewshot(5));
    assert_eq!(config.num_fewshot, Some(0));
    let mut config = task("{task: t, generation_kwargs: {until: x, a: 1}}");
    assert!(config.set_num_fewshot(-2));
    assert_eq!((config.num_fewshot, config.fewshot_count()), (Some(-2), 0));
    assert!(config.set_repeats(3));
    let Value::Dict(settings) = value("{temperature: '0.5', a: 2}") else { panic!("not a dict") };
    assert!(config.merge_generation_kwargs(&settings));
    assert_eq!(shown(&config, "generation_kwargs"), "{'until': 'x', 'a': 2, 'temperature': '0.5'}");
    let mut config = task("{task: t, output_type: multiple_choice}");
    assert!(!config.set_repeats(3) && !config.merge_generation_kwargs(&settings));
    assert_eq!(config.repeats, 1);
}

#[test]
fn class_keeps_its_own_keys() {
    let mut warnings = Vec::new();
    let mapping = mapping("{task: t, class: !function task.Mine, recipe: r, dataset_name: d}");
    let registry = Registry::default();
    let config = TaskConfig::from_class_mapping(&mapping, &registry, &mut warnings).unwrap();
    assert_eq!(config.class.unwrap().reference, "task.Mine");
    assert_eq!(Value::from(config.extras), value("{recipe: r}"));
    assert_eq!(config.dataset_name.as_deref(), Some("d"));
}

#[test]
fn class_may_use_registered_formats() {
    let mut registry = Registry::default();
    let cloze = registry.formats.get("cloze").and_then(|entry| entry.code.rust()).unwrap();
    let terse = FormatEntry::new("terse", Format::clone(cloze));
    registry.register(terse).unwrap();
    let mapping = mapping("{task: t, class: !function task.Mine, formats: terse, doc_to_choice: c}");
    let config = TaskConfig::from_class_mapping(&mapping, &registry, &mut Vec::new()).unwrap();
    assert_eq!(config.format.as_deref(), Some("terse"));
}

#[test]
fn format_is_applied_before_defaults() {
    let config = task(
        "{task: f@generate, doc_to_text: question, doc_to_choice: choices, doc_to_target: answer, \
          formats: {mcqa: null, generate: {fewshot_delimiter: '|'}}}",
    );
    assert_eq!(config.format.as_deref(), Some("generate"));
    assert_eq!(config.base_name(), "f");
    assert_eq!(config.output_type, OutputType::GenerateUntil);
    assert!(shown(&config, "generation_kwargs").ends_with("'until': ['|']}"));
    assert_eq!(config.fewshot_config.doc_to_text, config.doc_to_text);
    assert_eq!(config.fewshot_config.gen_prefix, Some(Field::Text("The best answer is".into())));
    assert_eq!(shown(&config, "scorer"), "{'type': 'first_token'}");
    assert_eq!(shown(&config, "formats"), "{'mcqa': None, 'generate': {'fewshot_delimiter': '|'}}");
    let config = task("{task: f@cloze, doc_to_choice: choices, _formats_selection: mcqa}");
    assert_eq!(config.format.as_deref(), Some("mcqa"));
    assert_eq!(shown(&config, "formats"), "'mcqa'");
    assert_eq!(config.output_type, OutputType::MultipleChoice);
    let config = task("{task: f@cloze, doc_to_choice: choices, formats: mcqa}");
    assert_eq!(config.format.as_deref(), Some("cloze"));
}

//! The settings that results files record.

use lmeval_pycompat::{Dict, Value, repr};

use crate::lock::{Difference, Kind};

/// Settings that results files record under the same name.
const RECORDED: [&str; 3] = ["gen_kwargs", "limit", "bootstrap_iters"];

/// The settings that a results file records, as far as they decide its scores.
pub fn settings_of(object: &Dict) -> Dict {
    let section = |name: &str| object.get_str(name).and_then(Value::as_dict);
    let text = |name: &str| object.get_str(name).and_then(Value::as_str);
    let mut settings = Dict::new();
    let shots = |task: &str| section("n-shot")?.get_str(task)?.as_i64();
    let tasks = section("configs").into_iter().flat_map(Dict::keys).filter_map(Value::as_str);
    let tasks = tasks.map(|task| match shots(task) {
        Some(shots) => Value::from(format!("{task}:{shots}")),
        None => Value::str(task),
    });
    settings.insert("tasks", Value::list(tasks));
    let is_ours = object.contains_str("compat");
    let of_old = text("lm_eval_version").is_some_and(|version| version.starts_with("0.4"));
    match text("compat") {
        Some(line) => drop(settings.insert("compat", line)),
        None if of_old && !is_ours => drop(settings.insert("compat", "0.4")),
        None => {}
    }
    let config = section("config");
    for key in RECORDED {
        let value = config.and_then(|config| config.get_str(key)).filter(|value| !value.is_none());
        if let Some(value) = value {
            settings.insert(key, value.clone());
        }
    }
    let seed = |key: &str| config.and_then(|config| config.get_str(key)).cloned().unwrap_or_default();
    let seeds = ["random_seed", "numpy_seed", "torch_seed", "fewshot_seed"].map(seed);
    if !seeds.iter().all(Value::is_none) {
        settings.insert("seed", Value::list(seeds));
    }
    if text("chat_template").is_some_and(|template| !template.is_empty()) {
        settings.insert("apply_chat_template", true);
        if let Some(turns) = object.get_str("fewshot_as_multiturn").filter(|turns| !turns.is_none()) {
            settings.insert("fewshot_as_multiturn", turns.clone());
        }
    }
    if let Some(system) = text("system_instruction") {
        settings.insert("system_instruction", system);
    }
    settings
}

/// Keys of a task's configuration that change scores, with where they belong. Functions are left out: files have their source in one release and
/// their name in another.
const OF_TASK: [(&str, Kind); 17] = [
    ("dataset_path", Kind::Data),
    ("dataset_name", Kind::Data),
    ("test_split", Kind::Data),
    ("validation_split", Kind::Data),
    ("fewshot_split", Kind::Data),
    ("output_type", Kind::Definition),
    ("description", Kind::Definition),
    ("doc_to_text", Kind::Definition),
    ("doc_to_target", Kind::Definition),
    ("doc_to_choice", Kind::Definition),
    ("gen_prefix", Kind::Definition),
    ("target_delimiter", Kind::Definition),
    ("fewshot_delimiter", Kind::Definition),
    ("generation_kwargs", Kind::Generation),
    ("repeats", Kind::Generation),
    ("filter_list", Kind::Scoring),
    ("metric_list", Kind::Scoring),
];

/// Settings of a run as files have them, with where they belong.
const OF_RUN: [(&str, Kind); 5] = [
    ("gen_kwargs", Kind::Generation),
    ("limit", Kind::Selection),
    ("fewshot_seed", Kind::Selection),
    ("random_seed", Kind::Selection),
    ("batch_size", Kind::Environment),
];

/// The settings that two results files record differently, in order of suspicion: each file with its key of the task. What one of
/// the files does not record is left out, because releases record different things.
pub fn differing_settings(
    (claim, claim_key): (&Dict, &str),
    (run, run_key): (&Dict, &str),
) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut compare = |kind, what: &str, base: Option<String>, new: Option<String>| {
        if let (Some(base), Some(new)) = (base, new)
            && base != new
        {
            found.push(Difference { kind, what: what.to_owned(), base, new, tasks: Vec::new() });
        }
    };
    let section = |object: &Dict, name: &str| {
        object.get_str(name).and_then(Value::as_dict).cloned().unwrap_or_default()
    };
    let text =
        |object: &Dict, name: &str| object.get_str(name).filter(|value| !value.is_none()).map(repr::str);
    compare(Kind::Model, "model", text(claim, "model_name"), text(run, "model_name"));
    // Absent and empty both mean that there was none.
    let template = |object: &Dict| match text(object, "chat_template").filter(|template| !template.is_empty())
    {
        Some(template) => format!("a template of {} characters", template.chars().count()),
        None => "none".to_owned(),
    };
    compare(Kind::Template, "chat template", Some(template(claim)), Some(template(run)));
    let system =
        |object: &Dict| Some(text(object, "system_instruction").unwrap_or_else(|| "none".to_owned()));
    compare(Kind::Template, "system prompt", system(claim), system(run));
    let turns = |object: &Dict| {
        Some(object.get_str("fewshot_as_multiturn").is_some_and(Value::is_truthy).to_string())
    };
    compare(Kind::Template, "fewshot_as_multiturn", turns(claim), turns(run));
    let (of_claim, of_run) = (section(claim, "config"), section(run, "config"));
    for (name, kind) in OF_RUN {
        let recorded = |config: &Dict| config.get_str(name).map(normal);
        compare(kind, name, recorded(&of_claim), recorded(&of_run));
    }
    let task = |object: &Dict, name: &str, key: &str| section(object, name).get_str(key).map(normal);
    let both = |name: &str| (task(claim, name, claim_key), task(run, name, run_key));
    let (base, new) = both("n-shot");
    compare(Kind::Selection, "examples", base, new);
    let (base, new) = both("versions");
    compare(Kind::Definition, "version of the task", base, new);
    let config = |object: &Dict, key: &str| section(&section(object, "configs"), key);
    let (claim_task, run_task) = (config(claim, claim_key), config(run, run_key));
    for (name, kind) in OF_TASK {
        let recorded = |config: &Dict| config.get_str(name).filter(|value| !value.is_none()).map(normal);
        compare(kind, name, recorded(&claim_task), recorded(&run_task));
    }
    let line = |object: &Dict| {
        text(object, "compat").or_else(|| Some(text(object, "lm_eval_version")?.chars().take(3).collect()))
    };
    compare(Kind::Scoring, "release line", line(claim), line(run));
    found.sort_by_key(|difference| difference.kind);
    found
}

/// A value in one form: numbers without a needless fraction, nothing for what is not set.
fn normal(value: &Value) -> String {
    match value {
        Value::Float(number) if number.fract() == 0.0 && number.abs() < 1e15 => format!("{number:.0}"),
        Value::None => "none".to_owned(),
        Value::Dict(dict) if dict.is_empty() => "none".to_owned(),
        Value::Str(text) if text.is_empty() => "none".to_owned(),
        Value::Str(text) => text.to_string(),
        Value::Dict(dict) => {
            let mut pairs = pairs(dict);
            pairs.sort();
            format!("{{{}}}", pairs.join(", "))
        }
        Value::List(items) => format!("[{}]", items.iter().map(normal).collect::<Vec<_>>().join(", ")),
        other => repr::str(other),
    }
}

/// The entries of a mapping that are set. Some releases write the options of filters and metrics beside their names, others below `kwargs`.
fn pairs(dict: &Dict) -> Vec<String> {
    let pair = |(key, value): (&Value, &Value)| match (key.as_str(), value) {
        (_, Value::None) => Vec::new(),
        (Some("kwargs"), Value::Dict(inner)) => pairs(inner),
        _ => vec![format!("{}: {}", repr::str(key), normal(value))],
    };
    dict.iter().flat_map(pair).collect()
}

#[cfg(test)]
mod tests {
    use lmeval_pycompat::json::loads;

    use super::*;

    fn dict(text: &str) -> Dict {
        loads(text).unwrap().as_dict().unwrap().clone()
    }

    #[test]
    fn differing_settings_come_in_order_of_suspicion() {
        let claim = dict(
            r#"{"model_name": "m", "chat_template": "{{ x }}", "fewshot_as_multiturn": true, "config": {"limit": 100.0, "gen_kwargs": {"max_gen_toks": 5}},
                "n-shot": {"t": 5}, "versions": {"t": 1.0}, "configs": {"t": {"doc_to_text": "{{q}}", "filter_list": [{"name": "a"}]}}, "lm_eval_version": "0.4.13"}"#,
        );
        let run = dict(
            r#"{"model_name": "m", "chat_template": null, "config": {"limit": 100, "gen_kwargs": {}, "device": "cpu"},
                "n-shot": {"g::t": 0}, "versions": {"g::t": 1}, "configs": {"g::t": {"doc_to_text": "{{q}}", "filter_list": [{"name": "b"}], "repeats": 2}}, "compat": "0.4"}"#,
        );
        let found = differing_settings((&claim, "t"), (&run, "g::t"));
        let names: Vec<&str> = found.iter().map(|difference| difference.what.as_str()).collect();
        assert_eq!(
            names,
            ["chat template", "fewshot_as_multiturn", "gen_kwargs", "examples", "filter_list"],
            "{found:?}"
        );
        assert_eq!((found[3].base.as_str(), found[3].new.as_str()), ("5", "0"));
        assert!(differing_settings((&claim, "t"), (&claim, "t")).is_empty());
        let lists = |filter: &str, metric: &str| {
            let text = r#"{"configs": {"t": {"filter_list": [{"name": "a", "filter": [FILTER]}], "metric_list": [METRIC]}}}"#;
            dict(&text.replace("FILTER", filter).replace("METRIC", metric))
        };
        let old = lists(r#"{"function": "regex", "regex_pattern": "x"}"#, r#"{"metric": "exact_match"}"#);
        let new = lists(
            r#"{"function": "regex", "kwargs": {"regex_pattern": "x"}}"#,
            r#"{"metric": "exact_match", "kwargs": null}"#,
        );
        assert!(differing_settings((&old, "t"), (&new, "t")).is_empty());
    }
}

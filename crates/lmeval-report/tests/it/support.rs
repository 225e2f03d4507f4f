//! Sample results.

use std::sync::Arc;

use lmeval_core::{Dialect, DocId, ModelFacts};
use lmeval_pycompat::{Dict, Value, json};
use lmeval_report::{Environment, ModelName, Moment, RunFacts, Seeds};
use lmeval_scoring::groups::GroupScores;
use lmeval_scoring::results::{DocumentHashes, GroupResult, RunResults, SampleRecord, TaskEntry, TaskResult};
use lmeval_scoring::scorers::MetricKey;
use lmeval_scoring::scorers::Scores;

/// Parses a JSON object.
pub(crate) fn dict(text: &str) -> Dict {
    json::loads(text).unwrap().as_dict().unwrap().clone()
}

/// The dictionary under a key, empty if missing.
pub(crate) fn part(object: &Dict, key: &str) -> Dict {
    object.get_str(key).and_then(Value::as_dict).cloned().unwrap_or_default()
}

/// A record from its dictionary form.
pub(crate) fn record(entry: &Dict) -> SampleRecord {
    let get = |key: &str| entry.get_str(key).cloned().unwrap_or_default();
    let text = |key: &str| -> Arc<str> { get(key).as_str().unwrap_or_default().into() };
    let mut values = Scores::new();
    for metric in get("metrics").as_list().unwrap_or_default() {
        values.insert(metric.as_str().unwrap(), get(metric.as_str().unwrap()));
    }
    SampleRecord {
        doc_id: DocId(get("doc_id").as_i64().unwrap() as usize),
        doc: Arc::new(part(entry, "doc")),
        target: get("target"),
        arguments: get("arguments"),
        resps: get("resps"),
        filtered_resps: get("filtered_resps"),
        finish_reasons: get("finish_reasons"),
        reasoning: get("reasoning"),
        filter: text("filter"),
        hashes: DocumentHashes {
            doc: text("doc_hash"),
            prompt: text("prompt_hash"),
            target: text("target_hash"),
        },
        values,
        scores_per_repeat: None,
        judgements: Vec::new(),
    }
}

/// Results from the result object of a run.
pub(crate) fn results(object: &Dict) -> RunResults {
    let samples = part(object, "samples");
    let samples = samples.iter().map(|(task, records)| {
        let records = records.as_list().unwrap().iter().map(|entry| record(entry.as_dict().unwrap()));
        (task.as_str().unwrap().to_owned(), records.collect())
    });
    let members = part(object, "group_subtasks");
    let mut results = RunResults { samples: samples.collect(), ..RunResults::default() };
    for (name, entry) in part(object, "results").iter() {
        let (name, entry) = (name.as_str().unwrap(), entry.as_dict().unwrap());
        let of = |section: &str| part(object, section).get_str(name).cloned();
        let text = |key: &str| entry.get_str(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let number = |value: Option<&Value>| value.and_then(Value::as_i64).unwrap_or_default();
        let sample_len = usize::try_from(number(entry.get_str("sample_len"))).unwrap();
        let metrics =
            entry.iter().filter_map(|(key, value)| Some((key.as_str()?.parse().ok()?, value.clone())));
        let metrics: Vec<(MetricKey, Value)> = metrics.collect();
        let directions = of("higher_is_better").and_then(|directions| directions.as_dict().cloned());
        let directions = directions.unwrap_or_default();
        let direction = |(metric, direction): (&Value, &Value)| {
            (Arc::from(metric.as_str().unwrap()), direction.as_bool())
        };
        let higher_is_better = directions.iter().map(direction).collect();
        let Some(members) = members.get_str(name).and_then(Value::as_list) else {
            let counts = of("n-samples").and_then(|counts| counts.as_dict().cloned()).unwrap_or_default();
            results.tasks.push(TaskResult {
                entry: TaskEntry { name: name.to_owned(), alias: text("alias"), sample_len, metrics },
                version: of("versions").unwrap(),
                num_fewshot: number(of("n-shot").as_ref()),
                higher_is_better,
                original: usize::try_from(number(counts.get_str("original"))).unwrap(),
                samples: None,
                bounds: Vec::new(),
                audit: Vec::new(),
                judging: Vec::new(),
                warnings: Vec::new(),
            });
            continue;
        };
        let counts = entry.get_str("sample_count").and_then(Value::as_dict).cloned().unwrap_or_default();
        let counts = counts.iter().map(|(key, count)| {
            (key.as_str().unwrap().parse().unwrap(), u64::try_from(count.as_i64().unwrap()).unwrap())
        });
        let sample_counts = counts.collect();
        results.groups.push(GroupResult {
            bounds: Vec::new(),
            name: name.to_owned(),
            alias: text("alias"),
            index: part(object, "group_subtasks").keys().position(|key| key.as_str() == Some(name)).unwrap(),
            members: members.iter().map(|member| member.as_str().unwrap().to_owned()).collect(),
            version: of("versions").unwrap().as_str().unwrap().to_owned(),
            num_fewshot: of("n-shot").and_then(|count| count.as_i64()),
            higher_is_better,
            scores: part(object, "groups").contains_str(name).then(|| GroupScores {
                sample_len,
                metrics,
                sample_counts,
                warnings: Vec::new(),
            }),
        });
    }
    results
}

/// Facts of a run with these model arguments.
pub(crate) fn facts(model_args: Value) -> RunFacts {
    RunFacts {
        model: "dummy".into(),
        model_source: "dummy".into(),
        model_name: ModelName::new(&model_args, Some(0)),
        model_args,
        model_facts: ModelFacts::default(),
        batch_size: Value::None,
        batch_sizes: Vec::new(),
        device: Value::None,
        use_cache: Value::None,
        limit: Value::Int(3),
        bootstrap_iters: Value::Int(10),
        gen_kwargs: Value::None,
        seeds: Seeds {
            random: Value::Int(0),
            numpy: Value::Int(1234),
            torch: Value::Int(1234),
            fewshot: Value::Int(1234),
        },
        start: Moment::from_micros(1_794_710_810_151_442),
        seconds: 12.5,
        environment: Environment { git_hash: None, upper_git_hash: None, report: "nothing".into() },
        system_instruction: None,
        chat_template: None,
        fewshot_as_multiturn: Some(false),
        dialect: Dialect::V04,
        failed_requests: 0,
        hash_media: false,
        code_limits: Dict::new(),
        judges: Dict::new(),
        model_usage: Dict::new(),
        choices: Dict::new(),
    }
}

/// A small run: two tasks in a group, one of them with a record.
pub(crate) fn small_run() -> RunResults {
    results(&dict(
        r#"{
        "results": {
            "g::gen": {"name": "g::gen", "alias": "gen", "sample_len": 1, "exact_match,strict": 0.5,
                       "exact_match_stderr,strict": "N/A"},
            "g::mc": {"name": "g::mc", "alias": "mc é", "sample_len": 3, "acc,none": 0.25, "acc_stderr,none": 0.125},
            "g": {"alias": "Group", "name": "g", "sample_len": 3, "acc,none": 0.25, "acc_stderr,none": 0.125,
                  "sample_count": {"acc,none": 3}}
        },
        "groups": {"g": {"alias": "Group", "name": "g", "sample_len": 3, "acc,none": 0.25, "acc_stderr,none": 0.125,
                   "sample_count": {"acc,none": 3}}},
        "group_subtasks": {"g": ["g::gen", "g::mc"]},
        "versions": {"g": "1.0", "g::gen": 2.0, "g::mc": "Yaml"},
        "n-shot": {"g": 0, "g::gen": 0, "g::mc": 0},
        "higher_is_better": {"g": {"acc": true}, "g::gen": {"exact_match": true}, "g::mc": {"acc": true}},
        "n-samples": {"g::gen": {"original": 1, "effective": 1}, "g::mc": {"original": 3, "effective": 3}},
        "samples": {"g::gen": [{
            "doc_id": 0, "doc": {"q": "Wie spät?\n", "n": 1e-05}, "target": ["a", "it's"],
            "arguments": [["Q: Wie spät?", {"until": ["\n"]}]], "resps": [["vier", 4]], "filtered_resps": [["vier"]],
            "filter": "strict", "metrics": ["exact_match"], "doc_hash": "d", "prompt_hash": "p", "target_hash": "t",
            "exact_match": 0.5
        }]},
        "audit": {"g::gen": {"strict": {"documents": 1}}}
    }"#,
    ))
}

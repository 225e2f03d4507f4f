//! In the old dialect, results equal the reference's.

use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use lmeval_core::{Dialect, RequestType};
use lmeval_pycompat::random::Random;
use lmeval_pycompat::{Dict, Value, json};
use lmeval_scoring::results::RunResults;
use lmeval_scoring::scorers::{AnsweredDocument, AnsweredInstance, ScoringSources, loglikelihood_response};
use lmeval_tasks::prompt::{RequestBuilder, RequestOptions, RequestSources};
use lmeval_tasks::scoring::{ResultKeys, group_specs, task_result, task_scorer};
use lmeval_tasks::{Overrides, Spec, TaskManager};
use lmeval_testkit::test_environment;

use crate::prompt_support::JsonLines;
use crate::scoring_golden::difference;

/// Documents of three kinds as JSON Lines: with options, with strings, and with labels.
fn data(seed: i64) -> [(&'static str, String); 3] {
    const WORDS: [&str; 12] = [
        "ab",
        "abcdef",
        "xx",
        "yyyy",
        "é",
        "one",
        "no",
        "yes",
        "17",
        "left hand",
        "x",
        "a small cat sat on the mat",
    ];
    let mut random = Random::from_seed(seed);
    let mut below = |limit: usize| (random.random() * limit as f64) as usize;
    let lines = |documents: Vec<Value>| -> String {
        let line = |document: &Value| json::dumps(document, &json::Options::default()).unwrap() + "\n";
        documents.iter().map(line).collect()
    };
    // The reference inspects the target of the first document at startup.
    let choice = (0..40).map(|number| {
        let count = 1 + below(6);
        let start = below(WORDS.len());
        let options: Vec<Value> =
            (0..count).map(|offset| Value::str(WORDS[(start + offset) % WORDS.len()])).collect();
        let several: Vec<Value> = (0..=below(2)).map(|_| Value::Int(below(count + 2) as i64)).collect();
        Value::dict([
            ("q", Value::from(format!("q{number}"))),
            ("options", Value::from(options)),
            ("gold", Value::Int(below(if number == 0 { 1 } else { count + 1 }) as i64)),
            ("word", Value::str(WORDS[(start + below(count + 1)) % WORDS.len()])),
            ("several", Value::from(several)),
        ])
    });
    let choice = lines(choice.collect());
    let text = (0..25).map(|number| {
        let list: Vec<Value> = (0..=below(3)).map(|_| Value::str(WORDS[below(WORDS.len())])).collect();
        let text: Vec<&str> = (0..4 + below(8)).map(|_| WORDS[below(WORDS.len())]).collect();
        Value::dict([
            ("q", Value::from(format!("q{number}"))),
            ("answer", Value::str(["17", "no", "yes", "x"][below(4)])),
            ("number", Value::Int(if below(2) == 0 { 17 } else { 3 })),
            ("list", Value::from(list)),
            ("text", Value::from(text.join(" ") + ".")),
        ])
    });
    let text = lines(text.collect());
    let pair = (0..31).map(|number| {
        Value::dict([("q", Value::from(format!("p{number}"))), ("label", Value::Int(below(2) as i64))])
    });
    [("choice", choice), ("text", text), ("pair", lines(pair.collect()))]
}

/// A definition with the given data file.
fn definition(name: &str, data: &str, rest: &str) -> String {
    format!(
        "task: {name}\ndataset_path: json\ndataset_kwargs: {{data_files: {{test: {data}}}}}\ntest_split: test\n{rest}"
    )
}

fn files(seed: i64) -> Vec<(String, String)> {
    let choice = "output_type: multiple_choice\ndoc_to_text: '{{q}}'\ndoc_to_choice: options\n";
    let text = "output_type: generate_until\ndoc_to_text: '{{q}}'\ngeneration_kwargs: {until: ['\\n']}\n";
    let tasks = [
        (
            "choice",
            "choice.jsonl",
            format!("{choice}doc_to_target: gold\nmetric_list: [{{metric: acc_norm}}, {{metric: acc}}, {{metric: acc_bytes}}, {{metric: exact_match}}]\nmetadata: {{version: 2.0}}\n"),
        ),
        (
            "briers",
            "pair.jsonl",
            "output_type: multiple_choice\ndoc_to_text: '{{q}}'\ndoc_to_choice: [a, bc, d, e, f, g, h, ij]\ndoc_to_target: label\nmetric_list: [{metric: brier_score}]\n".to_owned(),
        ),
        ("words", "choice.jsonl", format!("{choice}doc_to_target: word\n")),
        (
            "several",
            "choice.jsonl",
            format!("{choice}doc_to_target: several\nmetric_list: [{{metric: acc}}, {{metric: exact_match}}]\n"),
        ),
        (
            "mutual",
            "choice.jsonl",
            format!("{choice}doc_to_target: gold\nmetric_list: [{{metric: acc_mutual_info}}, {{metric: acc}}]\n"),
        ),
        (
            "pairs",
            "pair.jsonl",
            "output_type: multiple_choice\ndoc_to_text: '{{q}}'\ndoc_to_choice: ['no', 'yes']\ndoc_to_target: label\nmetric_list: [{metric: mcc}, {metric: f1}, {metric: acc}, {metric: brier_score}, {metric: acc, aggregation: median}]\n".to_owned(),
        ),
        ("plain", "text.jsonl", format!("{text}doc_to_target: answer\n")),
        ("numbers", "text.jsonl", format!("{text}doc_to_target: number\n")),
        ("digits", "text.jsonl", format!("{text}doc_to_target: '{{{{number}}}}'\n")),
        (
            "lists",
            "text.jsonl",
            format!("{text}doc_to_target: list\nmetric_list: [{{metric: exact_match, ignore_case: true, ignore_punctuation: true}}]\n"),
        ),
        (
            "repeated",
            "text.jsonl",
            format!("{text}doc_to_target: answer\nrepeats: 3\nfilter_list:\n- {{name: first, filter: [{{function: regex, regex_pattern: '(\\d+)'}}, {{function: take_first}}]}}\n- {{name: all, filter: [{{function: remove_whitespace}}]}}\n- {{name: vote, filter: [{{function: majority_vote}}, {{function: take_first}}]}}\n"),
        ),
        ("unfiltered", "text.jsonl", format!("{text}doc_to_target: answer\nrepeats: 3\n")),
        (
            "texts",
            "text.jsonl",
            format!("{text}doc_to_target: text\nmetric_list: [{{metric: bleu, aggregation: bleu, higher_is_better: true}}, {{metric: chrf}}, {{metric: ter}}, {{metric: chrf++, aggregation: chrf++, higher_is_better: true}}]\n"),
        ),
        (
            "last",
            "text.jsonl",
            "output_type: loglikelihood\ndoc_to_text: '{{q}}'\ndoc_to_target: ' {{answer}}'\nmetric_list: [{metric: acc}, {metric: perplexity}]\n".to_owned(),
        ),
        (
            "rolling",
            "text.jsonl",
            "output_type: loglikelihood_rolling\ndoc_to_text: ''\ndoc_to_target: '{{text}}'\nmetric_list: [{metric: bits_per_byte}, {metric: word_perplexity}, {metric: byte_perplexity}]\n".to_owned(),
        ),
    ];
    let mut files: Vec<(String, String)> = tasks
        .iter()
        .map(|(name, data, rest)| (format!("{name}.yaml"), definition(name, data, rest)))
        .collect();
    let group = |name: &str, members: &str, weighted: bool| {
        format!(
            "group: {name}\ntask: {members}\naggregate_metric_list:\n- {{metric: acc, weight_by_size: {weighted}}}\n- {{metric: exact_match, filter_list: [none, first]}}\nmetadata: {{version: 1}}\n"
        )
    };
    files.push(("weighted.yaml".to_owned(), group("weighted", "[choice, words, plain]", true)));
    files.push(("plainly.yaml".to_owned(), group("plainly", "[choice, pairs]", false)));
    files.push((
        "outer.yaml".to_owned(),
        group("outer", "[weighted, pairs, {group: inner, task: [last]}]", true),
    ));
    files.extend(data(seed).map(|(name, lines)| (format!("{name}.jsonl"), lines)));
    files
}

const RUNS: &str = r#"[
  {"tasks": ["choice", "briers", "words", "mutual"], "bootstrap_iters": 1000},
  {"tasks": ["several"], "bootstrap_iters": 1000},
  {"tasks": ["pairs"], "bootstrap_iters": 2000},
  {"tasks": ["plain", "numbers", "digits", "lists"], "bootstrap_iters": 1000},
  {"tasks": ["repeated", "unfiltered"], "bootstrap_iters": 1000},
  {"tasks": ["texts"], "bootstrap_iters": 300},
  {"tasks": ["last", "rolling"], "bootstrap_iters": 1000},
  {"tasks": ["weighted"], "bootstrap_iters": 100},
  {"tasks": ["plainly"], "bootstrap_iters": 100},
  {"tasks": ["outer"], "bootstrap_iters": 0},
  {"tasks": ["plain"], "predict_only": true, "limit": 2}
]"#;

/// Another seed yields other documents.
const SEED: i64 = 4;

type Log = HashMap<String, VecDeque<Value>>;

fn evaluate(folder: &Path, run: &Dict, log: &mut Log) -> Result<Dict, String> {
    let dialect = Dialect::V04;
    let sources = ScoringSources::new(&dialect);
    let names = run.get_str("tasks").and_then(Value::as_list).unwrap();
    let specs: Vec<Spec> = names.iter().map(|name| Spec::from(name.as_str().unwrap())).collect();
    let loaded = TaskManager::new(&[folder.to_owned()]).load(&specs, Overrides::default()).unwrap();
    let keys = ResultKeys::new(&loaded, &dialect).map_err(|error| error.to_string())?;
    let predict_only = run.get_str("predict_only").is_some_and(Value::is_truthy);
    let draws = run.get_str("bootstrap_iters").and_then(Value::as_i64).unwrap_or(100_000);
    let options = RequestOptions {
        dialect,
        limit: run.get_str("limit").and_then(Value::to_f64),
        ..RequestOptions::default()
    };
    let mut results = Vec::new();
    for (name, task) in &loaded.tasks {
        let data = RequestSources::new(Arc::new(JsonLines::of(task, folder.to_owned())));
        let built = RequestBuilder::new(task, &data, &options).unwrap().build_all().unwrap();
        let original = data.splits.split("test").unwrap().len();
        let documents: Vec<AnsweredDocument> = built
            .into_iter()
            .map(|document| AnsweredDocument {
                doc_id: document.doc_id,
                document: document.document,
                choices: document.choices,
                answers: document.instances.into_iter().map(|instance| answer(instance, log)).collect(),
                judgements: Vec::new(),
            })
            .collect();
        let mut scorer =
            task_scorer(&task.config, &sources, predict_only).map_err(|error| format!("{error:?}"))?;
        scorer.score(&documents).map_err(|error| format!("{error:?}"))?;
        let result = task_result(keys.get(name), task, &scorer, &documents, original, draws, true);
        results.push(result.map_err(|error| format!("{error:?}"))?);
    }
    let groups = group_specs(&loaded, &keys);
    let results = RunResults::collect(results, &groups, &dialect).map_err(|error| error.to_string())?;
    Ok(results.to_dict())
}

fn answer(instance: lmeval_core::Instance, log: &mut Log) -> AnsweredInstance {
    let arguments =
        json::dumps(&Value::from(instance.args(&Dialect::V04)), &json::Options::default()).unwrap();
    let key = format!("{} {arguments}", instance.request_type);
    let answers = log.get_mut(&key).unwrap_or_else(|| panic!("the reference does not send {key}"));
    let responses = (0..instance.repeats).map(|_| {
        let response = answers.pop_front().unwrap();
        match &response {
            Value::List(pair) => loglikelihood_response(pair[0].to_f64().unwrap(), pair[1].is_truthy()),
            Value::Float(number) => loglikelihood_response(*number, false),
            _ => response,
        }
    });
    let responses = responses.collect();
    assert!(instance.request_type != RequestType::GenerateUntil || instance.repeats > 0);
    AnsweredInstance::new(instance, responses)
}

#[test]
fn old_dialect_results_equal_the_reference() {
    let Some(python) = test_environment() else { return };
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for (name, content) in files(SEED) {
        fs_err::write(folder.join(name), content).unwrap();
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/scoring_reference.py");
    let output = Command::new(python)
        .arg(script)
        .arg(folder)
        .arg(RUNS)
        .env("HF_HOME", folder.join("home"))
        .output()
        .unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let expected = json::loads(&printed)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    let mut problems = Vec::new();
    let runs = json::loads(RUNS).unwrap();
    for (run, theirs) in runs.as_list().unwrap().iter().zip(expected.as_list().unwrap()) {
        let (run, theirs) = (run.as_dict().unwrap(), theirs.as_dict().unwrap());
        let name = lmeval_pycompat::repr::repr(run.get_str("tasks").unwrap());
        if let Some(error) = theirs.get_str("error") {
            problems.push(format!("{name}: the reference fails: {}", error.as_str().unwrap()));
            continue;
        }
        let mut log = Log::new();
        for entry in theirs.get_str("requests").and_then(Value::as_list).unwrap() {
            let [kind, arguments, response] = entry.as_list().unwrap() else { panic!() };
            let key = format!("{} {}", kind.as_str().unwrap(), arguments.as_str().unwrap());
            log.entry(key).or_default().push_back(response.clone());
        }
        match evaluate(folder, run, &mut log) {
            Err(error) => problems.push(format!("{name}: {error}")),
            Ok(ours) => {
                let ours = as_json(ours);
                for part in crate::scoring_golden::PARTS {
                    if let (Some(ours), Some(theirs)) = (ours.get_str(part), theirs.get_str(part)) {
                        problems
                            .extend(difference(part, ours, theirs).map(|found| format!("{name}: {found}")));
                    } else if ours.get_str(part).is_some() != theirs.get_str(part).is_some() {
                        problems.push(format!("{name}: only one side has {part}"));
                    }
                }
            }
        }
    }
    assert!(problems.is_empty(), "seed {SEED}:\n{}", problems.join("\n"));
}

/// The results after a round trip through JSON.
fn as_json(results: Dict) -> Dict {
    let text = json::dumps(&Value::from(results), &json::Options::default()).unwrap();
    let Ok(Value::Dict(read)) = json::loads(&text) else { panic!("{text}") };
    Dict::clone(&read)
}

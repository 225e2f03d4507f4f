//! Tasks of the public library build the reference's requests in the old dialect.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use lmeval_core::{Arguments, Dialect, MemoryDocuments, MemorySplits, OutputType};
use lmeval_pycompat::{Dict, Value, json};
use lmeval_tasks::config::TaskConfig;
use lmeval_tasks::prompt::{
    DocumentRequests, PromptError, RequestBuilder, RequestOptions, RequestSources, Shard,
};
use lmeval_tasks::{Overrides, Spec, Task, TaskManager};
use lmeval_testkit::{reference_library, test_environment};
use rayon::prelude::*;

use crate::prompt_documents::Columns;
use crate::prompt_support::{Tags, document};

/// The number of tasks compared per folder and output type.
const PER_FOLDER: usize = 4;

/// Lines or an error, by case and run.
pub(crate) type Answers = BTreeMap<(usize, usize), Result<Vec<String>, String>>;

/// A task with documents for each of its splits.
struct Case {
    task: Task,
    splits: Vec<(String, Vec<Value>)>,
}

/// The runs of each task, in the format that the reference script reads.
fn runs() -> Vec<Value> {
    let runs = [
        r#"{"num_fewshot": 2}"#,
        r#"{"num_fewshot": 1, "system_instruction": "Be brief.", "limit": 4, "rank": 1, "world_size": 2}"#,
        r#"{"num_fewshot": 2, "chat": true, "multiturn": true, "limit": 0.5}"#,
        r#"{"num_fewshot": 2, "chat": true, "system_instruction": "Be brief.", "seed": 7, "limit": 3}"#,
        r#"{"samples": [3, 1]}"#,
    ];
    runs.iter().map(|run| json::loads(run).unwrap()).collect()
}

fn options(run: &Value) -> RequestOptions {
    let run = run.as_dict().unwrap();
    let on = |key: &str| run.get_str(key).is_some_and(Value::is_truthy);
    let number = |key: &str, default: i64| run.get_str(key).and_then(Value::as_i64).unwrap_or(default);
    let samples = run.get_str("samples").and_then(Value::as_list);
    RequestOptions {
        dialect: Dialect::V04,
        fewshot_seed: Some(number("seed", 1234)),
        system_instruction: run.get_str("system_instruction").and_then(Value::as_str).map(str::to_owned),
        chat_template: on("chat").then(|| Arc::new(Tags) as _),
        fewshot_as_multiturn: on("multiturn"),
        limit: run.get_str("limit").and_then(Value::to_f64),
        samples: samples.map(|samples| samples.iter().filter_map(Value::as_i64).collect()),
        shard: Shard { rank: number("rank", 0) as usize, world_size: number("world_size", 1) as usize },
        ..RequestOptions::default()
    }
}

impl Case {
    fn new(task: &Task, columns: &Columns) -> Self {
        let config = &task.config;
        let fewshot = config.fewshot_config.split.as_ref();
        let mut splits: Vec<(String, Vec<Value>)> = Vec::new();
        for (index, (name, count)) in
            [(&config.test_split, 6), (&config.validation_split, 6), (&config.training_split, 9)]
                .into_iter()
                .chain([(&fewshot.cloned(), 9)])
                .enumerate()
        {
            let Some(name) = name.as_ref().filter(|name| splits.iter().all(|(known, _)| known != *name))
            else {
                continue;
            };
            splits.push((
                name.clone(),
                (0..count).map(|number| columns.document(20 * index + number)).collect(),
            ));
        }
        Self { task: task.clone(), splits }
    }

    fn build(&self, run: &Value) -> Result<Vec<DocumentRequests>, PromptError> {
        let splits = self.splits.iter().fold(MemorySplits::new(), |splits, (name, documents)| {
            let documents = documents.iter().cloned().map(document).collect();
            splits.with(name.as_str(), MemoryDocuments::new(documents))
        });
        let mut task = self.task.clone();
        if let Some(count) = run.as_dict().unwrap().get_str("num_fewshot").and_then(Value::as_i64) {
            task.config.set_num_fewshot(count);
        }
        RequestBuilder::new(&task, &RequestSources::new(Arc::new(splits)), &options(run))?.build_all()
    }

    /// Whether the documents fit, as far as the reference inspects the first one at startup.
    fn fits(&self, run: &Value) -> bool {
        let Ok(built) = self.build(run) else { return false };
        let delimiter = self.task.config.target_delimiter.as_deref().unwrap_or_default();
        built.iter().flat_map(|document| &document.instances).all(|instance| {
            let in_range = !(instance.gold.is_none() && instance.target.as_i64().is_some());
            match &instance.arguments {
                Arguments::Loglikelihood { continuation, .. } => {
                    in_range && continuation.len() > delimiter.len()
                }
                // The reference cannot show a number as the answer of an example.
                Arguments::Generate { .. } => !matches!(instance.target, Value::Int(_)),
                Arguments::Rolling { .. } | Arguments::Letters { .. } => true,
            }
        })
    }

    /// The case in the format that the reference script reads.
    fn to_value(&self, runs: &[Value]) -> Value {
        let splits = self.splits.iter();
        Value::dict([
            ("path", Value::from(self.task.source().unwrap().to_string_lossy().into_owned())),
            (
                "splits",
                Value::dict(splits.map(|(name, documents)| (name.as_str(), Value::from(documents.clone())))),
            ),
            ("runs", Value::from(runs.to_vec())),
        ])
    }

    fn lines(&self, run: &Value) -> Result<Vec<String>, String> {
        let built = self.build(run).map_err(|error| error.to_string())?;
        let instances = built.into_iter().flat_map(|document| document.instances);
        Ok(instances
            .map(|instance| {
                line(&Value::list([
                    Value::str(&*instance.task_name),
                    Value::Int(instance.doc_id.0 as i64),
                    Value::Int(instance.idx as i64),
                    Value::str(instance.request_type.name()),
                    Value::from(instance.args(&Dialect::V04)),
                    instance.target,
                    Value::Int(instance.repeats as i64),
                ]))
            })
            .collect())
    }
}

fn line(value: &Value) -> String {
    json::dumps(value, &json::Options::default()).unwrap()
}

/// Whether a task contains no functions.
fn is_function_free(config: &TaskConfig, mapping: &Dict) -> bool {
    fn has_function(value: &Value) -> bool {
        match value {
            Value::Function(_) => true,
            Value::List(items) | Value::Tuple(items) => items.iter().any(has_function),
            Value::Dict(dict) => dict.values().any(has_function),
            _ => false,
        }
    }
    config.class.is_none() && !mapping.values().any(has_function)
}

/// Tasks of all folders and output types, the same ones in every run.
fn choose(manager: &TaskManager, library: &Path) -> Vec<Task> {
    let mut chosen: BTreeMap<(String, OutputType), Vec<Task>> = BTreeMap::new();
    for name in manager.all_subtasks() {
        let Some(path) = manager.index().get(name).and_then(|entry| entry.path.clone()) else {
            continue;
        };
        let Ok(below) = path.strip_prefix(library) else {
            continue;
        };
        let folder = below.components().next().unwrap().as_os_str().to_string_lossy().into_owned();
        let known = manager.index().get(name).and_then(|entry| entry.output_type.as_deref()?.parse().ok());
        if chosen.entry((folder.clone(), known.unwrap_or_default())).or_default().len() >= PER_FOLDER {
            continue;
        }
        let Ok(loaded) = manager.load(&[Spec::from(name)], Overrides::default()) else {
            continue;
        };
        for task in loaded.tasks.into_values() {
            let kind = task.config.output_type;
            let alone = task.source().is_some() && !task.mapping().contains("task_list");
            let others = chosen.entry((folder.clone(), kind)).or_default();
            if alone && is_function_free(&task.config, task.mapping().values()) && others.len() < PER_FOLDER {
                others.push(task);
            }
        }
    }
    chosen.into_values().flatten().collect()
}

/// Asks the reference for each case and run: a line with these fields for each request, or its error.
pub(crate) fn ask_reference(python: &Path, cases: &Value, fields: &[&str]) -> Answers {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/record/requests_04.py");
    let mut child = Command::new(python)
        .arg(script)
        .env("HF_HUB_OFFLINE", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let input = line(cases);
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success());
    let mut answers = Answers::new();
    for text in String::from_utf8(output.stdout).unwrap().lines() {
        let found = document(json::loads(text).unwrap());
        let number = |key: &str| found.get_str(key).and_then(Value::as_i64).unwrap() as usize;
        let key = (number("case"), number("run"));
        if let Some(error) = found.get_str("error") {
            answers.insert(key, Err(error.as_str().unwrap().to_owned()));
        } else if let Ok(lines) = answers.entry(key).or_insert_with(|| Ok(Vec::new())) {
            lines.push(line(&Value::list(fields.iter().map(|key| found.get_str(key).cloned().unwrap()))));
        }
    }
    answers
}

#[test]
fn library_tasks_build_the_requests_of_the_reference() {
    let (Some(python), Some(library)) = (test_environment(), reference_library()) else {
        return;
    };
    let manager = TaskManager::new(std::slice::from_ref(&library));
    let tasks = choose(&manager, &library);
    let runs = runs();
    let cases: Vec<Case> = tasks
        .par_iter()
        .filter_map(|task| {
            let mut columns = Columns::of(&task.config);
            let fit = columns.alternatives(1500).into_iter().find(|kinds| {
                columns.kinds.clone_from(kinds);
                Case::new(task, &columns).fits(&runs[0])
            });
            columns.kinds = fit?;
            Some(Case::new(task, &columns))
        })
        .collect();
    let asked = Value::list(cases.iter().map(|case| case.to_value(&runs)));
    let fields = ["task", "doc_id", "idx", "type", "args", "target", "repeats"];
    let theirs = ask_reference(&python, &asked, &fields);
    let (mut equal, mut requests, mut both_fail, mut wrong) = (0, 0, 0, Vec::new());
    let mut types: BTreeMap<OutputType, usize> = BTreeMap::new();
    for (number, case) in cases.iter().enumerate() {
        for (run_number, run) in runs.iter().enumerate() {
            let name = &case.task.config.task;
            match (case.lines(run), &theirs[&(number, run_number)]) {
                (Ok(ours), Ok(theirs)) if ours == *theirs => {
                    equal += 1;
                    requests += ours.len();
                    if run_number == 0 {
                        *types.entry(case.task.config.output_type).or_default() += 1;
                    }
                }
                (Err(_), Err(_)) => both_fail += 1,
                (Ok(ours), Ok(theirs)) => {
                    let first = ours.iter().zip(theirs).find(|(ours, theirs)| ours != theirs);
                    let counts = (ours.len(), theirs.len());
                    wrong.push(format!("{name}, run {run_number}: {counts:?} {first:#?}"));
                }
                (ours, theirs) => {
                    let ours = ours.map(|lines| lines.len());
                    let theirs = theirs.as_ref().map(Vec::len);
                    wrong.push(format!("{name}, run {run_number}: ours {ours:?}, theirs {theirs:?}"));
                }
            }
        }
    }
    println!(
        "{} of {} tasks; {equal} runs with {requests} requests are equal, {both_fail} fail on both sides; {types:?}",
        cases.len(),
        tasks.len()
    );
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong[..wrong.len().min(12)].join("\n"));
    assert!(cases.len() >= 300, "only {} tasks were compared", cases.len());
    assert_eq!(types.len(), OutputType::ALL.len());
}

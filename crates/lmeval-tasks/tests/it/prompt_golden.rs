//! Recorded runs send the recorded requests.

use std::sync::Arc;

use lmeval_core::RequestType;
use lmeval_pycompat::{Dict, Value, json};
use lmeval_tasks::prompt::{RequestBuilder, RequestOptions, RequestSources};
use lmeval_tasks::{Overrides, Spec, Task, TaskManager};

use crate::prompt_support::{JsonLines, Tags, golden, read_json};

/// The settings of a run, and its overrides of tasks.
struct Run<'a>(&'a Dict);

impl Run<'_> {
    fn get(&self, key: &str) -> Option<&Value> {
        self.0.get_str(key).filter(|value| !value.is_none())
    }

    fn specs(&self) -> Vec<Spec> {
        let tasks = self.get("tasks").and_then(Value::as_list).unwrap();
        let spec = |task: &Value| match task {
            Value::Str(name) => Spec::from(name.as_ref()),
            Value::Dict(inline) => Spec::Inline(Dict::clone(inline)),
            other => panic!("{other:?}"),
        };
        tasks.iter().map(spec).collect()
    }

    fn change(&self, task: &mut Task) {
        if let Some(count) = self.get("num_fewshot").and_then(Value::as_i64) {
            task.config.set_num_fewshot(count);
        }
        if let Some(repeats) = self.get("repeats").and_then(Value::as_i64) {
            task.config.set_repeats(repeats as usize);
        }
        if let Some(settings) = self.get("gen_kwargs").and_then(Value::as_dict) {
            task.config.merge_generation_kwargs(settings);
        }
    }

    fn options(&self, task: &str) -> RequestOptions {
        let samples = self.get("samples").and_then(Value::as_dict).and_then(|samples| samples.get_str(task));
        let defaults = RequestOptions::default();
        let on = |key: &str| self.get(key).is_some_and(Value::is_truthy);
        RequestOptions {
            fewshot_seed: self.get("fewshot_random_seed").map_or(defaults.fewshot_seed, Value::as_i64),
            system_instruction: self.get("system_instruction").and_then(Value::as_str).map(str::to_owned),
            chat_template: on("apply_chat_template").then(|| Arc::new(Tags) as _),
            fewshot_as_multiturn: on("fewshot_as_multiturn"),
            limit: self.get("limit").and_then(Value::to_f64),
            samples: samples.map(|list| list.as_list().unwrap().iter().filter_map(Value::as_i64).collect()),
            ..defaults
        }
    }
}

/// Requests in the form of recordings, and the target of each document by the task's key.
fn requests(run: &Run<'_>) -> Result<(Vec<Dict>, Dict), String> {
    let manager = TaskManager::new(&[golden("e2e/tasks")]);
    let loaded = manager.load(&run.specs(), Overrides::default()).map_err(|error| error.to_string())?;
    let mut typed: Vec<(RequestType, Dict)> = Vec::new();
    let mut targets = Dict::new();
    for (key, mut task) in loaded.tasks {
        run.change(&mut task);
        let options = run.options(&key);
        let sources = RequestSources::new(Arc::new(JsonLines::of(&task, golden("e2e"))));
        let builder = RequestBuilder::new(&task, &sources, &options).map_err(|error| error.to_string())?;
        let mut ids_and_targets = Vec::new();
        for document in builder {
            let document = document.map_err(|error| error.to_string())?;
            let first = &document.instances[0];
            ids_and_targets.push(Value::list([Value::Int(first.doc_id.0 as i64), first.target.clone()]));
            for instance in &document.instances {
                let request = [
                    ("task", Value::str(&*instance.task_name)),
                    ("doc_id", Value::Int(instance.doc_id.0 as i64)),
                    ("idx", Value::Int(instance.idx as i64)),
                    ("type", Value::str(instance.request_type.name())),
                    ("args", Value::from(instance.args(&options.dialect))),
                ];
                let request: Dict =
                    request.into_iter().map(|(key, value)| (Value::str(key), value)).collect();
                for _ in 0..instance.repeats {
                    typed.push((instance.request_type, request.clone()));
                }
            }
        }
        targets.insert(key.as_str(), Value::from(ids_and_targets));
    }
    // A model gets all requests of one type at once, in the order in which the types first occur.
    let mut types: Vec<RequestType> = Vec::new();
    for (kind, _) in &typed {
        if !types.contains(kind) {
            types.push(*kind);
        }
    }
    let of_type = |kind: &RequestType| {
        let kind = *kind;
        typed.iter().filter(move |(other, _)| *other == kind).map(|(_, request)| request.clone())
    };
    Ok((types.iter().flat_map(of_type).collect(), targets))
}

/// The value on one line, with types and key order visible.
fn text(value: &Value) -> String {
    json::dumps(value, &json::Options::default()).unwrap()
}

#[test]
fn builds_the_recorded_requests() {
    let recorded = read_json(&golden("e2e/recorded.json"));
    let mut compared = 0;
    for run in recorded.as_list().unwrap() {
        let run = run.as_dict().unwrap();
        let name = run.get_str("name").and_then(Value::as_str).unwrap();
        let built = requests(&Run(run.get_str("run").and_then(Value::as_dict).unwrap()));
        if run.get_str("error").is_some_and(|error| !error.is_none()) {
            assert!(built.is_err(), "{name} must fail");
            continue;
        }
        let (built, targets) = built.unwrap_or_else(|error| panic!("{name}: {error}"));
        let expected = run.get_str("requests").and_then(Value::as_list).unwrap();
        for (index, (ours, theirs)) in built.iter().zip(expected).enumerate() {
            let mut theirs = Dict::clone(theirs.as_dict().unwrap());
            theirs.remove_str("response");
            assert_eq!(
                text(&Value::from(ours.clone())),
                text(&Value::from(theirs)),
                "{name}, request {index}"
            );
        }
        assert_eq!(built.len(), expected.len(), "{name}");
        compared += expected.len();
        for (task, samples) in run.get_str("samples").and_then(Value::as_dict).unwrap().iter() {
            let ours = targets.get(task).unwrap().as_list().unwrap();
            let field = |sample: &Value, key: &str| sample.as_dict().unwrap().get_str(key).unwrap().clone();
            let mut theirs: Vec<Value> = Vec::new();
            for sample in samples.as_list().unwrap() {
                let pair = Value::list([field(sample, "doc_id"), field(sample, "target")]);
                if !theirs.contains(&pair) {
                    theirs.push(pair);
                }
            }
            assert_eq!(
                text(&Value::list(ours.to_vec())),
                text(&Value::from(theirs)),
                "{name}, targets of {task:?}"
            );
        }
    }
    assert!(compared > 1_000, "only {compared} requests were compared");
}

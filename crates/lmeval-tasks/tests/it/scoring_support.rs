//! Recorded runs: their settings, tasks and answers.

use std::sync::Arc;

use lmeval_core::{Dialect, RequestType};
use lmeval_pycompat::{Dict, Value};
use lmeval_scoring::scorers::{AnsweredDocument, AnsweredInstance, loglikelihood_response};
use lmeval_tasks::prompt::{DocumentRequests, RequestBuilder, RequestOptions, RequestSources};
use lmeval_tasks::{Overrides, Spec, Task, TaskDict, TaskManager};

use crate::prompt_support::{JsonLines, Tags, golden};

/// The settings of a run, and its overrides of tasks.
pub(crate) struct Run<'a>(pub(crate) &'a Dict);

impl Run<'_> {
    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        self.0.get_str(key).filter(|value| !value.is_none())
    }

    pub(crate) fn is_on(&self, key: &str) -> bool {
        self.get(key).is_some_and(Value::is_truthy)
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
        RequestOptions {
            dialect: Dialect::V05,
            fewshot_seed: self.get("fewshot_random_seed").map_or(defaults.fewshot_seed, Value::as_i64),
            system_instruction: self.get("system_instruction").and_then(Value::as_str).map(str::to_owned),
            chat_template: self.is_on("apply_chat_template").then(|| Arc::new(Tags) as _),
            fewshot_as_multiturn: self.is_on("fewshot_as_multiturn"),
            limit: self.get("limit").and_then(Value::to_f64),
            samples: samples.map(|list| list.as_list().unwrap().iter().filter_map(Value::as_i64).collect()),
            ..defaults
        }
    }

    /// Loads the tasks and groups of the run.
    pub(crate) fn load(&self) -> Result<TaskDict, String> {
        let manager = TaskManager::new(&[golden("e2e/tasks")]);
        let mut loaded =
            manager.load(&self.specs(), Overrides::default()).map_err(|error| error.to_string())?;
        for task in loaded.tasks.values_mut() {
            self.change(task);
        }
        Ok(loaded)
    }

    /// The requests of a task, and the number of documents in its evaluated split.
    pub(crate) fn documents(&self, key: &str, task: &Task) -> (Vec<DocumentRequests>, usize) {
        let sources = RequestSources::new(Arc::new(JsonLines::of(task, golden("e2e"))));
        let builder = RequestBuilder::new(task, &sources, &self.options(key)).unwrap();
        let built = builder.build_all().unwrap();
        let split = task.config.test_split.as_deref().unwrap();
        (built, sources.splits.split(split).unwrap().len())
    }
}

/// Recorded answers in their original order.
pub(crate) struct Answers<'a> {
    by_type: Vec<(&'static str, std::vec::IntoIter<&'a Value>)>,
}

impl<'a> Answers<'a> {
    pub(crate) fn new(requests: &'a [Value]) -> Self {
        let types =
            [RequestType::Loglikelihood, RequestType::LoglikelihoodRolling, RequestType::GenerateUntil];
        let by_type = types.map(|kind| {
            let of_type = |request: &&Value| {
                request.as_dict().unwrap().get_str("type").and_then(Value::as_str) == Some(kind.name())
            };
            let answers: Vec<&Value> = requests.iter().filter(of_type).collect();
            (kind.name(), answers.into_iter())
        });
        Self { by_type: by_type.into() }
    }

    fn next(&mut self, kind: RequestType) -> Value {
        let (_, answers) = self.by_type.iter_mut().find(|(name, _)| *name == kind.name()).unwrap();
        let answer = answers.next().unwrap().as_dict().unwrap().get_str("response").unwrap();
        match answer {
            Value::List(pair) => {
                loglikelihood_response(pair[0].to_f64().unwrap(), pair[1].as_bool().unwrap())
            }
            other => other.clone(),
        }
    }

    /// Attaches the recorded answers to each request.
    pub(crate) fn answer(&mut self, documents: Vec<DocumentRequests>) -> Vec<AnsweredDocument> {
        let answered =
            documents.into_iter().filter(|document| !document.instances.is_empty()).map(|document| {
                let answers = document.instances.into_iter().map(|instance| {
                    let kind = instance.request_type;
                    let responses = (0..instance.repeats).map(|_| self.next(kind)).collect();
                    AnsweredInstance::new(instance, responses)
                });
                AnsweredDocument {
                    doc_id: document.doc_id,
                    document: document.document,
                    choices: document.choices,
                    answers: answers.collect(),
                    judgements: Vec::new(),
                }
            });
        answered.collect()
    }
}

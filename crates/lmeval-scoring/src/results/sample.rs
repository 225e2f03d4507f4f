//! Per-document records of a pipeline.

use std::sync::Arc;

use lmeval_pycompat::json::EncodeError;
use lmeval_pycompat::{Dict, Value, repr};
use rayon::prelude::*;

use super::hash::{hash_document, hash_prompt, hash_target};
use crate::judge::Judgement;
use crate::scorers::{AnsweredDocument, AnsweredInstance, Scores, ScoringPipeline};
use lmeval_core::Dialect;
use lmeval_core::DocId;
use lmeval_core::RequestType;

/// The hashes in a sample record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentHashes {
    /// The hash of the document.
    pub doc: Arc<str>,
    /// The hash of the prompt.
    pub prompt: Arc<str>,
    /// The hash of the target.
    pub target: Arc<str>,
}

/// The record of one document in one pipeline.
#[derive(Clone, Debug)]
pub struct SampleRecord {
    /// The index of the document in its split.
    pub doc_id: DocId,
    /// The evaluated document.
    pub doc: Arc<Dict>,
    /// The gold answer as logs show it.
    pub target: Value,
    /// The arguments of each request.
    pub arguments: Value,
    /// The answers to each request.
    pub resps: Value,
    /// The filtered answers to each request.
    pub filtered_resps: Value,
    /// Why each answer ended, if not all are complete; else none.
    pub finish_reasons: Value,
    /// The reasoning before each answer, if there was any; else none.
    pub reasoning: Value,
    /// The name of the pipeline.
    pub filter: Arc<str>,
    /// The hashes of document, prompt and target.
    pub hashes: DocumentHashes,
    /// The value of each metric.
    pub values: Scores<Value>,
    /// The values of each metric per repeat, if there are several repeats.
    pub scores_per_repeat: Option<Arc<Dict>>,
    /// Judgements of the answers, as dictionaries.
    pub judgements: Vec<Value>,
}

impl SampleRecord {
    /// The record as the Python API returns it.
    pub fn to_dict(&self) -> Dict {
        self.build(
            self.target.clone(),
            self.arguments.clone(),
            self.resps.clone(),
            self.filtered_resps.clone(),
        )
    }

    /// The record as a line of a samples file: arguments by name, answers and target as strings.
    pub fn to_file_dict(&self) -> Dict {
        let requests = self.arguments.as_list().unwrap_or_default();
        let arguments = Value::dict(requests.iter().enumerate().map(|(request, arguments)| {
            let arguments = arguments.as_list().unwrap_or_default().iter().enumerate();
            let named = arguments.map(|(place, argument)| (format!("arg_{place}"), argument.clone()));
            (format!("gen_args_{request}"), Value::dict(named))
        }));
        let target = Value::from(repr::str(&self.target));
        self.build(target, arguments, leaves_as_text(&self.resps), leaves_as_text(&self.filtered_resps))
    }

    fn build(&self, target: Value, arguments: Value, resps: Value, filtered_resps: Value) -> Dict {
        let mut record = Dict::with_capacity(12 + self.values.len());
        record.insert("doc_id", self.doc_id.0 as i64);
        record.insert("doc", Value::Dict(Arc::clone(&self.doc)));
        record.insert("target", target);
        record.insert("arguments", arguments);
        record.insert("resps", resps);
        record.insert("filtered_resps", filtered_resps);
        record.insert("filter", Value::Str(Arc::clone(&self.filter)));
        let names = self.values.iter().map(|(metric, _)| Value::Str(Arc::clone(metric)));
        record.insert("metrics", Value::list(names));
        record.insert("doc_hash", Value::Str(Arc::clone(&self.hashes.doc)));
        record.insert("prompt_hash", Value::Str(Arc::clone(&self.hashes.prompt)));
        record.insert("target_hash", Value::Str(Arc::clone(&self.hashes.target)));
        for (metric, value) in self.values.iter() {
            record.insert(Value::Str(Arc::clone(metric)), value.clone());
        }
        if !self.finish_reasons.is_none() {
            record.insert("finish_reasons", self.finish_reasons.clone());
        }
        if !self.reasoning.is_none() {
            record.insert("reasoning", self.reasoning.clone());
        }
        if let Some(scores) = &self.scores_per_repeat {
            record.insert("scores_per_repeat", Value::Dict(Arc::clone(scores)));
        }
        if !self.judgements.is_empty() {
            record.insert("judgements", Value::list(self.judgements.iter().cloned()));
        }
        record
    }
}

/// The parts that the records of a document share.
struct Common {
    target: Value,
    arguments: Value,
    resps: Value,
    finish_reasons: Value,
    reasoning: Value,
    hashes: DocumentHashes,
}

impl Common {
    fn of(document: &AnsweredDocument, dialect: &Dialect) -> Result<Self, EncodeError> {
        let first = document.answers.first();
        let target = first.map(|first| first.instance.target.clone()).unwrap_or_default();
        let arguments = document.answers.iter().map(|answer| Value::from(answer.instance.args(dialect)));
        let responses = document.answers.iter().map(|answer| {
            Value::list(answer.responses.iter().map(|response| to_record(answer, response, dialect)))
        });
        let answers = &document.answers;
        // Reference: 0.4 has no such fields.
        let shown = |is_shown: fn(&AnsweredInstance) -> bool, of: fn(&AnsweredInstance) -> Value| {
            let is_shown = !dialect.plain_result_files && answers.iter().any(is_shown);
            if is_shown { Value::list(answers.iter().map(of)) } else { Value::None }
        };
        let prompt = first.map(|first| hash_prompt(&first.instance, dialect));
        Ok(Self {
            arguments: Value::list(arguments),
            resps: Value::list(responses),
            finish_reasons: shown(|answer| !answer.finishes().is_empty(), finish_reasons),
            reasoning: shown(|answer| !answer.reasoning().is_empty(), reasoning),
            hashes: DocumentHashes {
                doc: hash_document(&document.document)?.into(),
                prompt: prompt.unwrap_or_default().into(),
                target: hash_target(&target).into(),
            },
            target,
        })
    }
}

/// One record per pipeline and document, grouped by pipeline.
pub fn sample_records(
    documents: &[AnsweredDocument],
    pipelines: &[ScoringPipeline],
    dialect: &Dialect,
) -> Result<Vec<SampleRecord>, EncodeError> {
    let common: Vec<Common> =
        documents.par_iter().map(|document| Common::of(document, dialect)).collect::<Result<_, _>>()?;
    let mut records = Vec::with_capacity(documents.len() * pipelines.len());
    for pipeline in pipelines {
        for (place, (document, common)) in documents.iter().zip(&common).enumerate() {
            let filtered = pipeline.filtered(place);
            let filtered = document.answers.iter().zip(filtered).map(|(answer, kept)| {
                let mut kept = kept.iter().map(|response| to_record(answer, response, dialect));
                match (pipeline.takes_first(), kept.len()) {
                    (true, 1) if dialect.scoring.taken_answers_are_bare => kept.next().unwrap_or_default(),
                    _ => Value::list(kept),
                }
            });
            records.push(SampleRecord {
                doc_id: document.doc_id,
                doc: Arc::clone(&document.document),
                target: common.target.clone(),
                arguments: common.arguments.clone(),
                resps: common.resps.clone(),
                filtered_resps: Value::list(filtered),
                finish_reasons: common.finish_reasons.clone(),
                reasoning: common.reasoning.clone(),
                filter: Arc::clone(pipeline.name()),
                hashes: common.hashes.clone(),
                values: pipeline.logged_values(place, document),
                scores_per_repeat: pipeline.scores_per_repeat(place).map(Arc::new),
                judgements: document.judgements_of(pipeline.name()).map(Judgement::to_value).collect(),
            });
        }
    }
    Ok(records)
}

/// Why each answer to a request ended.
fn finish_reasons(answer: &AnsweredInstance) -> Value {
    let finishes = answer.finishes();
    let finish = |repeat| finishes.get(repeat).copied().unwrap_or_default();
    Value::list((0..answer.responses.len()).map(|repeat| Value::str(finish(repeat).reason())))
}

/// The reasoning before each answer to a request.
fn reasoning(answer: &AnsweredInstance) -> Value {
    let text = |repeat| answer.reasoning().get(repeat).and_then(Option::as_deref).unwrap_or_default();
    Value::list((0..answer.responses.len()).map(|repeat| Value::str(text(repeat))))
}

/// An answer in the form used by records.
fn to_record(answer: &AnsweredInstance, response: &Value, dialect: &Dialect) -> Value {
    match response {
        Value::Tuple(pair)
            if dialect.scoring.rolling_answers_are_numbers
                && answer.instance.request_type == RequestType::LoglikelihoodRolling =>
        {
            pair.first().cloned().unwrap_or_default()
        }
        other => other.clone(),
    }
}

/// The same nested lists with every leaf as a string.
fn leaves_as_text(value: &Value) -> Value {
    match value {
        Value::List(items) | Value::Tuple(items) => Value::list(items.iter().map(leaves_as_text)),
        Value::Str(_) => value.clone(),
        other => Value::from(repr::str(other)),
    }
}

/// Makes a task's key safe for file names: path separators become `_`, and colons, which some systems forbid, become `-`:
/// `group::task` becomes `group--task`, which no task of the public library is called.
///
/// ```
/// use lmeval_scoring::results::task_file_name;
///
/// assert_eq!(task_file_name("g1::a/../b"), "g1--a_.._b");
/// assert_eq!(task_file_name("a:b"), "a-b");
/// ```
pub fn task_file_name(task: &str) -> String {
    task.replace("::", "--").replace(':', "-").replace(['/', '\\', '\0'], "_")
}

//! The HTTP interface: every answer that pages get, as the types that it is serialised from.
//!
//! `web/src/lib/types.ts` is this file in TypeScript; `typescript.rs` translates it, comments included.

use std::collections::BTreeMap;
use std::ops::Not;

use lmeval_analysis::samples::Outcome;
use serde::{Serialize, Serializer};
use serde_json::{Number, Value as Json};

use crate::wire::Num;

/// The name of a flag of `scan.rs`.
pub(crate) type Flag = &'static str;

/// The name of a problem that the audit counts.
pub(crate) type AuditCount = &'static str;

/// Samples by the name of their outcome; all four are there.
pub(crate) type EveryOutcome = BTreeMap<&'static str, usize>;

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn name<S: Serializer>(outcome: &Outcome, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(outcome.name())
}

// BEGIN

/// A string that may be too long to send whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Text {
    /// The string or its beginning.
    pub text: String,
    /// Length of the whole string in characters (Unicode scalar values).
    pub length: usize,
    /// Present and true if `text` is only a part.
    #[serde(skip_serializing_if = "Not::not")]
    pub cut: bool,
}

/// Every answer with a status other than 2xx.
#[derive(Debug, Serialize)]
pub(crate) struct ApiError {
    pub(crate) error: String,
    pub(crate) hint: Option<String>,
    /// Reports only: the status that the server would answer with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<u16>,
}

// GET api/runs → RunList: every run below the given paths. Samples are not read for it.

#[derive(Debug, Serialize)]
pub(crate) struct RunList {
    /// What the server was started on, for the page title.
    pub(crate) paths: Vec<String>,
    pub(crate) version: &'static str,
    pub(crate) runs: Vec<RunSummary>,
    /// Files that look like runs and cannot be read.
    pub(crate) problems: Vec<FileProblem>,
    /// Whether `lm-eval run --view` started this server: there is something on api/live.
    pub(crate) live: bool,
    /// Curves that `lm-eval watch` and `lm-eval curve` have written.
    pub(crate) curves: Vec<CurveHead>,
}

/// The scores of a training run over its steps.
#[derive(Debug, Serialize)]
pub(crate) struct CurveHead {
    /// Opaque, the same at every start for the same file.
    pub(crate) id: String,
    /// What was trained.
    pub(crate) name: String,
    /// Relative to the given path.
    pub(crate) path: String,
    /// Steps that were evaluated.
    pub(crate) count: usize,
    /// Whether a watcher may still add steps.
    pub(crate) live: bool,
}

#[derive(Debug, Serialize)]
pub(crate) struct FileProblem {
    pub(crate) path: String,
    pub(crate) error: String,
}

/// `results`: a finished run. `samples`: a samples file without results. `journal`: answers, scores are not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RunKind {
    Results,
    Samples,
    Journal,
}

/// A run without its tasks.
#[derive(Debug, Serialize)]
pub(crate) struct RunHead {
    /// Opaque, the same at every start for the same file.
    pub(crate) id: String,
    /// The model, for headings.
    pub(crate) name: String,
    pub(crate) kind: RunKind,
    /// Relative to the given path.
    pub(crate) path: String,
    /// Seconds since the epoch.
    pub(crate) date: Option<f64>,
    /// Seconds.
    pub(crate) duration: Option<f64>,
    /// Version of the harness that wrote it.
    pub(crate) version: Option<String>,
    /// `model` and `model_args` as the run got them, secrets masked.
    pub(crate) backend: Option<String>,
    pub(crate) model_args: Option<String>,
    pub(crate) limit: Option<f64>,
    pub(crate) num_fewshot: Option<f64>,
    /// Scored documents, all tasks.
    pub(crate) documents: Option<f64>,
    pub(crate) failed_requests: Number,
    /// Problems counted by the audit, summed over tasks and pipelines. Only counts above 0.
    pub(crate) audit: BTreeMap<AuditCount, f64>,
    /// Whether at least one task has a samples file.
    pub(crate) has_samples: bool,
    /// What was changed in the results file since the run wrote it: its scores may be wrong.
    pub(crate) changed: Option<String>,
}

#[derive(Debug, Serialize)]
pub(crate) struct RunSummary {
    #[serde(flatten)]
    pub(crate) head: RunHead,
    pub(crate) tasks: Vec<TaskSummary>,
}

#[derive(Debug, Serialize)]
pub(crate) struct TaskSummary {
    pub(crate) task: String,
    pub(crate) alias: String,
    pub(crate) is_group: bool,
    /// Nesting below groups; 0 is the top.
    pub(crate) depth: usize,
    /// The main score, for lists: the first of `TaskDetail.scores`.
    pub(crate) main: Option<Score>,
    pub(crate) documents: Option<f64>,
    /// Documents without an answer, which are not in the scores; of a group those of its tasks.
    pub(crate) failed: Number,
    pub(crate) has_samples: bool,
}

/// A score with its uncertainty.
#[derive(Clone, Debug, Serialize)]
pub struct Score {
    /// The metric, without its filter.
    pub metric: String,
    /// The filter pipeline.
    pub filter: String,
    /// The score; null if it is not a number.
    pub value: Option<Num>,
    /// The standard error; null if the run has none.
    pub stderr: Option<Num>,
    /// 95 % interval: Wilson for a mean of 0/1 values where the counts are known, else value ± 1.96 stderr.
    pub low: Option<Num>,
    /// The upper end of the interval.
    pub high: Option<Num>,
    /// The smallest and the largest score that complete answers could have led to; null if all answers are finished.
    pub bounds: Option<[Num; 2]>,
    /// Null where the results do not say.
    pub higher_is_better: Option<bool>,
}

// GET api/run?run=ID → RunDetail

#[derive(Debug, Serialize)]
pub(crate) struct RunDetail {
    #[serde(flatten)]
    pub(crate) head: RunHead,
    pub(crate) tasks: Vec<TaskDetail>,
    /// `config` of the results file and what belongs to it (seeds, versions, chat template, …), secrets masked; in order.
    pub(crate) settings: Vec<(String, Json)>,
    /// Journals only: what the header says.
    pub(crate) journal: Option<JournalHeader>,
    /// Scores by token budget, if `lm-eval budget` has saved them next to the results.
    pub(crate) budget: Option<BudgetChart>,
}

/// A drawing that the server has made, such as scores by token budget.
#[derive(Debug, Serialize)]
pub(crate) struct BudgetChart {
    /// An SVG document.
    pub(crate) svg: String,
    pub(crate) width: f64,
    pub(crate) height: f64,
    /// What it depends on.
    pub(crate) notes: Vec<String>,
}

#[derive(Debug, Serialize)]
pub(crate) struct JournalHeader {
    pub(crate) answers: usize,
    pub(crate) model: String,
    pub(crate) bytes: u64,
}

#[derive(Debug, Serialize)]
pub(crate) struct TaskDetail {
    #[serde(flatten)]
    pub(crate) summary: TaskSummary,
    pub(crate) scores: Vec<Score>,
    pub(crate) version: Json,
    pub(crate) num_fewshot: Json,
    /// Per filter pipeline.
    pub(crate) audit: Vec<PipelineAudit>,
    /// What the task resolved to (`configs`), secrets masked.
    pub(crate) config: Json,
}

/// `documents` and `answers` are the denominators of `counts`.
#[derive(Debug, Serialize)]
pub(crate) struct PipelineAudit {
    pub(crate) filter: String,
    pub(crate) documents: f64,
    pub(crate) answers: f64,
    pub(crate) counts: BTreeMap<AuditCount, f64>,
}

// GET api/task?run=ID&task=NAME[&filter=NAME] → TaskStats: from the index of the samples file.

#[derive(Debug, Serialize)]
pub(crate) struct TaskStats {
    pub(crate) index: IndexState,
    pub(crate) filters: Vec<String>,
    /// Null while the index has no sample of it.
    pub(crate) filter: Option<String>,
    /// Metrics of this pipeline with per-document numbers.
    pub(crate) metrics: Vec<MetricStats>,
    pub(crate) prompt_length: Histogram,
    pub(crate) answer_length: Histogram,
    pub(crate) outcomes: EveryOutcome,
    pub(crate) flags: BTreeMap<Flag, usize>,
    /// Fields of documents, from the first ones: for `by` of a comparison and for expressions.
    pub(crate) fields: Vec<String>,
}

#[derive(Debug, Serialize)]
pub(crate) struct MetricStats {
    pub(crate) metric: String,
    pub(crate) histogram: Histogram,
    pub(crate) mean: Num,
    /// Documents with NaN or without a number.
    pub(crate) missing: usize,
}

/// An index is built while rows are already served. Ask again (about every 300 ms) until `complete`.
#[derive(Debug, Serialize)]
pub(crate) struct IndexState {
    pub(crate) complete: bool,
    /// Bytes read and to read.
    pub(crate) bytes: u64,
    pub(crate) total_bytes: u64,
    /// Lines that could not be read, such as a half-written last one. The first few.
    pub(crate) bad_lines: Vec<BadLine>,
    /// What was changed in the file since the run wrote it; known once it is complete.
    pub(crate) changed: Option<String>,
}

#[derive(Debug, Serialize)]
pub(crate) struct BadLine {
    /// Counted from 1.
    pub(crate) line: u64,
    pub(crate) error: String,
}

/// `counts[i]` is the number of values in `[edges[i], edges[i+1])`; the last bin includes its upper edge.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(crate) struct Histogram {
    pub(crate) edges: Vec<f64>,
    pub(crate) counts: Vec<u64>,
}

// GET api/samples?… → SamplePage

#[derive(Debug, Serialize)]
pub(crate) struct SamplePage {
    pub(crate) index: IndexState,
    pub(crate) filter: String,
    /// The metrics, in order: `SampleRow.values` has one value for each.
    pub(crate) columns: Vec<String>,
    /// Rows of the pipeline so far, and those that the query selects.
    pub(crate) total: usize,
    pub(crate) matched: usize,
    pub(crate) offset: usize,
    pub(crate) rows: Vec<SampleRow>,
    /// Reports only: `rows` is all there is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) excerpt: Option<Excerpt>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Excerpt {
    pub(crate) shown: usize,
    pub(crate) of: usize,
}

/// Texts are cut to 300 characters.
#[derive(Debug, Serialize)]
pub(crate) struct SampleRow {
    /// Position of the line in the file, from 0: identifies the sample.
    pub(crate) row: u32,
    pub(crate) doc_id: i64,
    /// End of the prompt (what differs between documents is usually there): `text` then starts with `…` if cut.
    pub(crate) input: Text,
    pub(crate) target: Text,
    pub(crate) answer: Text,
    pub(crate) filtered: Text,
    pub(crate) values: Vec<Option<Num>>,
    #[serde(serialize_with = "name")]
    pub(crate) outcome: Outcome,
    pub(crate) flags: Vec<Flag>,
    /// If the query has a `text`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hit: Option<Hit>,
}

/// The string around the first hit of a search; `start` and `end` are UTF-16 offsets into `text`.
#[derive(Debug, Serialize)]
pub(crate) struct Hit {
    pub(crate) r#where: &'static str,
    pub(crate) text: String,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

// GET api/sample?run=ID&task=NAME&row=N[&full=1][&… the rest of SampleQuery, for previous and next] → Sample

/// Texts are cut to 100,000 characters unless `full=1`.
#[derive(Debug, Serialize)]
pub(crate) struct Sample {
    pub(crate) run: String,
    pub(crate) task: String,
    pub(crate) row: u32,
    pub(crate) doc_id: i64,
    pub(crate) filter: String,
    /// Rows before and after this one in the order of the query, and its position there.
    pub(crate) previous: Option<u32>,
    pub(crate) next: Option<u32>,
    pub(crate) position: Option<usize>,
    pub(crate) matched: usize,
    pub(crate) prompt: Prompt,
    /// Multiple choice and other log-likelihood requests; empty for generation.
    pub(crate) choices: Vec<Choice>,
    /// Log-likelihood of whole documents (perplexity).
    pub(crate) rolling: Vec<Rolling>,
    /// Generated answers: one entry per request, with its repeats.
    pub(crate) generations: Vec<Generation>,
    /// From the raw answers to what was scored.
    pub(crate) steps: Vec<FilterStep>,
    pub(crate) target: Text,
    pub(crate) values: Vec<SampleValue>,
    #[serde(serialize_with = "name")]
    pub(crate) outcome: Outcome,
    pub(crate) flags: Vec<Flag>,
    /// The document of the dataset, field by field.
    pub(crate) doc: Vec<DocField>,
    /// The images and sounds of the requests, or of the document.
    pub(crate) media: Vec<MediaFile>,
    pub(crate) hashes: Hashes,
    /// The line as it is in the file, secrets masked.
    pub(crate) raw: Text,
    /// Rows of the same document in the task's other pipelines.
    pub(crate) other_filters: Vec<OtherFilter>,
}

/// An image or a sound; `url` has a small version of it, if there is one.
#[derive(Debug, Serialize)]
pub(crate) struct MediaFile {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) detail: String,
    pub(crate) url: Option<String>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Rolling {
    pub(crate) loglikelihood: Num,
}

#[derive(Debug, Serialize)]
pub(crate) struct Generation {
    pub(crate) settings: Json,
    pub(crate) repeats: Vec<Text>,
    /// The reasoning before each repeat; null where there is none.
    pub(crate) reasoning: Vec<Option<Text>>,
}

/// `name` is the pipeline, or a filter function of it (if the results say).
#[derive(Debug, Serialize)]
pub(crate) struct FilterStep {
    pub(crate) name: String,
    pub(crate) detail: Option<String>,
    pub(crate) output: Option<Vec<Text>>,
}

#[derive(Debug, Serialize)]
pub(crate) struct SampleValue {
    pub(crate) metric: String,
    pub(crate) value: Option<Num>,
    pub(crate) text: String,
    pub(crate) per_repeat: Option<Vec<Option<Num>>>,
}

#[derive(Debug, Serialize)]
pub(crate) struct DocField {
    pub(crate) field: String,
    pub(crate) value: Text,
}

#[derive(Debug, Serialize)]
pub(crate) struct Hashes {
    pub(crate) doc: Option<String>,
    pub(crate) prompt: Option<String>,
    pub(crate) target: Option<String>,
}

#[derive(Debug, Serialize)]
pub(crate) struct OtherFilter {
    pub(crate) filter: String,
    pub(crate) row: usize,
}

#[derive(Debug, Serialize)]
pub(crate) struct Prompt {
    /// The prompt as one string; of a chat, as the record has it.
    pub(crate) text: Text,
    /// Chat turns, if the prompt is a chat (JSON messages).
    pub(crate) turns: Option<Vec<Turn>>,
    /// A description, each few-shot example, then the question. Empty where unknown or without examples.
    pub(crate) parts: Vec<PromptPart>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Turn {
    pub(crate) role: String,
    pub(crate) content: Text,
}

#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct PromptPart {
    /// The UTF-16 offset into the text of the prompt.
    pub(crate) start: usize,
    pub(crate) kind: PromptPartKind,
}

#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PromptPartKind {
    Description,
    Example,
    Question,
}

#[derive(Debug, Serialize)]
pub(crate) struct Choice {
    pub(crate) text: Text,
    /// Present if this choice has a context of its own (as in Winogrande), else the prompt is shared.
    pub(crate) context: Option<Text>,
    pub(crate) loglikelihood: Num,
    pub(crate) per_byte: Option<Num>,
    pub(crate) per_char: Option<Num>,
    /// If the token count is in the record.
    pub(crate) per_token: Option<Num>,
    pub(crate) tokens: Option<u64>,
    /// exp(log-likelihood) over the sum of all choices, and the same of log-likelihoods per byte.
    pub(crate) probability: Num,
    pub(crate) probability_per_byte: Option<Num>,
    pub(crate) is_greedy: bool,
    /// Whether this is the right one; null where the record does not say.
    pub(crate) is_gold: Option<bool>,
    /// Whether the log-likelihood, that per character and that per byte pick it (`acc`, `acc_norm`, `acc_bytes`).
    pub(crate) is_best: bool,
    pub(crate) is_best_per_char: bool,
    pub(crate) is_best_per_byte: bool,
}

// GET api/compare?base=ID&new=ID[,ID…][&by=FIELD&task=NAME][&cluster=FIELD][&allow=1] → Compare
// `task`: the task whose documents have the field; others are not broken down.
// Different prompts answer 409 with the first difference; `allow=1` compares anyway.

#[derive(Debug, Serialize)]
pub(crate) struct Compare {
    pub(crate) base: RunSummary,
    pub(crate) comparisons: Vec<Comparison>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Comparison {
    pub(crate) new: RunSummary,
    pub(crate) scores: Vec<ComparedScore>,
    pub(crate) only_base: Vec<String>,
    pub(crate) only_new: Vec<String>,
    pub(crate) notes: Vec<String>,
}

#[derive(Debug, Serialize)]
pub(crate) struct ComparedScore {
    #[serde(flatten)]
    pub(crate) difference: Difference,
    pub(crate) task: String,
    pub(crate) filter: String,
    pub(crate) metric: String,
    pub(crate) higher_is_better: Option<bool>,
    pub(crate) is_group: bool,
    /// Adjusted p-values.
    pub(crate) benjamini_hochberg: Num,
    pub(crate) holm: Num,
    /// If unfinished answers alone could explain the difference: the smallest and the largest possible one.
    pub(crate) possible: Option<[Num; 2]>,
    pub(crate) only_base: usize,
    pub(crate) only_new: usize,
    pub(crate) by: Vec<LabelledDifference>,
    pub(crate) flips: usize,
}

#[derive(Debug, Serialize)]
pub(crate) struct LabelledDifference {
    #[serde(flatten)]
    pub(crate) difference: Difference,
    pub(crate) label: String,
}

#[derive(Debug, Serialize)]
#[expect(clippy::struct_field_names, reason = "pages know the field by this name")]
pub(crate) struct Difference {
    pub(crate) base_score: Num,
    pub(crate) new_score: Num,
    pub(crate) difference: Num,
    pub(crate) stderr: Num,
    pub(crate) low: Num,
    pub(crate) high: Num,
    pub(crate) p_value: Num,
    pub(crate) test: &'static str,
    pub(crate) count: usize,
    /// Documents whose value went up and down.
    pub(crate) up: usize,
    pub(crate) down: usize,
    /// The smallest difference this comparison would probably have found.
    pub(crate) detectable: Num,
}

// GET api/flips?base=ID&new=ID&task=NAME&filter=NAME&metric=NAME[&direction=up|down][&allow=1][&offset][&limit] → FlipPage

#[derive(Debug, Serialize)]
pub(crate) struct FlipPage {
    pub(crate) total: usize,
    pub(crate) up: usize,
    pub(crate) down: usize,
    pub(crate) offset: usize,
    pub(crate) rows: Vec<Flip>,
}

/// The largest change first. For whole texts, fetch api/sample of both runs. Texts are cut to 2,000 characters.
#[derive(Debug, Serialize)]
pub(crate) struct Flip {
    pub(crate) doc_id: i64,
    pub(crate) base_row: usize,
    pub(crate) new_row: usize,
    pub(crate) base_value: Num,
    pub(crate) new_value: Num,
    pub(crate) input: Text,
    pub(crate) target: Text,
    pub(crate) base_answer: Text,
    pub(crate) new_answer: Text,
    pub(crate) base_filtered: Text,
    pub(crate) new_filtered: Text,
}

// GET api/answers?run=ID[&text=…][&regex=1][&offset][&limit] → AnswerPage: a journal, newest answers first.

#[derive(Debug, Serialize)]
pub(crate) struct AnswerPage {
    pub(crate) total: u64,
    pub(crate) matched: u64,
    pub(crate) offset: usize,
    pub(crate) rows: Vec<StoredAnswer>,
}

/// Journals hold no prompts: an answer is identified by task, document and request.
#[derive(Debug, Serialize)]
pub(crate) struct StoredAnswer {
    pub(crate) index: u64,
    pub(crate) task: Option<String>,
    pub(crate) doc_id: Option<i64>,
    pub(crate) request: Option<i64>,
    pub(crate) repeat: i64,
    pub(crate) kind: Option<String>,
    pub(crate) answer: Option<Text>,
    pub(crate) truncated: bool,
    pub(crate) error: Option<String>,
}

// GET api/curve?curve=ID → CurvePage: ask again while it is live.
// GET api/drawing?curve=ID → BudgetChart: the main scores as an SVG document.

#[derive(Debug, Serialize)]
pub(crate) struct CurvePage {
    #[serde(flatten)]
    pub(crate) head: CurveHead,
    /// Ascending.
    pub(crate) steps: Vec<CurveStep>,
    /// Members follow their group.
    pub(crate) scores: Vec<CurveScore>,
    /// Checkpoints without results, with the reasons.
    pub(crate) waiting: Vec<CurveWaiting>,
    pub(crate) notes: Vec<String>,
}

#[derive(Debug, Serialize)]
pub(crate) struct CurveStep {
    pub(crate) step: u64,
    pub(crate) checkpoint: String,
    /// The run to open, if it is below the given paths.
    pub(crate) run: Option<String>,
    pub(crate) failed_requests: u64,
}

/// A checkpoint that is not evaluated.
#[derive(Debug, Serialize)]
pub(crate) struct CurveWaiting {
    pub(crate) checkpoint: String,
    pub(crate) step: Option<u64>,
    pub(crate) reason: String,
}

/// One score over all steps. Lists have one entry per step; null where the step lacks it.
#[derive(Debug, Serialize)]
pub(crate) struct CurveScore {
    pub(crate) task: String,
    pub(crate) metric: String,
    pub(crate) filter: String,
    pub(crate) is_group: bool,
    /// The first score of its task, which stands for the task.
    pub(crate) is_main: bool,
    pub(crate) higher_is_better: Option<bool>,
    pub(crate) documents: Option<f64>,
    /// The expected score of guessing.
    pub(crate) chance: Option<Num>,
    /// Whether the last score cannot be told from guessing; null where that is unknown.
    pub(crate) at_chance: Option<bool>,
    /// The smallest difference between two steps that these documents would probably show.
    pub(crate) detectable: Option<Num>,
    /// The index of the best step.
    pub(crate) best: Option<usize>,
    pub(crate) values: Vec<Option<Num>>,
    /// 95 % intervals.
    pub(crate) low: Vec<Option<Num>>,
    pub(crate) high: Vec<Option<Num>>,
    /// Differences from the previous step, and their p-values after Benjamini and Hochberg.
    pub(crate) from_previous: Vec<Option<Num>>,
    pub(crate) previous_p: Vec<Option<Num>>,
    /// The same from the best step.
    pub(crate) from_best: Vec<Option<Num>>,
    pub(crate) best_p: Vec<Option<Num>>,
}

// GET api/live: server-sent events. Each `data:` is a complete LiveState as JSON, at most two per second; the last has
// `finished: true`, after which the server closes the stream. 404 where there is no running evaluation.

/// A running evaluation.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LiveState {
    /// The model, for the heading.
    pub model: String,
    /// Seconds since the start.
    pub elapsed: f64,
    /// What the run is doing, as its progress line says.
    pub phase: &'static str,
    /// Requests so far, over all tasks.
    pub requests: LiveRequests,
    /// Requests per second over the last ten seconds; null at the start.
    pub rate: Option<f64>,
    /// Seconds left, estimated.
    pub remaining: Option<f64>,
    /// Tasks whose data is loaded.
    pub tasks: Vec<LiveTask>,
    /// Newest first, at most 20. Texts are cut to 2,000 characters.
    pub answers: Vec<LiveAnswer>,
    /// Newest first, at most 20.
    pub messages: Vec<LiveMessage>,
    /// Whether this is the last state.
    pub finished: bool,
    /// Once finished and written: the run to open.
    pub run: Option<String>,
}

/// Requests of a running evaluation.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LiveRequests {
    /// Answered or failed.
    pub done: u64,
    /// Null until all of them are built.
    pub total: Option<u64>,
    /// Answered from the journal or by an equal request.
    pub reused: u64,
    /// Without an answer.
    pub failed: u64,
    /// Attempts beyond the first.
    pub retried: u64,
}

/// A task of a running evaluation.
#[derive(Clone, Debug, Serialize)]
pub struct LiveTask {
    /// The name, or the key if results have a group in front of it.
    pub task: String,
    /// Documents with all their answers.
    pub done: usize,
    /// Null until the data is loaded.
    pub total: Option<usize>,
    /// Documents that the running scores are about: some are skipped when they arrive fast.
    pub scored: usize,
    /// Empty until there are some, and for tasks that can only be scored as a whole.
    pub scores: Vec<Score>,
}

/// The first answer of a document.
#[derive(Clone, Debug, Serialize)]
pub struct LiveAnswer {
    /// The task that the document belongs to.
    pub task: String,
    /// The id of the document in its dataset.
    pub doc_id: Option<usize>,
    /// Null if the run has dropped the prompt.
    pub prompt: Option<Text>,
    /// The answer as Python prints it.
    pub answer: Text,
}

/// A message of a running evaluation.
#[derive(Clone, Debug, Serialize)]
pub struct LiveMessage {
    /// Whether something was lost.
    pub level: LiveLevel,
    /// The message; secrets are masked.
    pub text: String,
    /// Seconds since the start.
    pub elapsed: f64,
}

/// Whether a message is about something that was lost.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LiveLevel {
    /// Nothing was lost.
    Warning,
    /// A document has no answer, and is not scored.
    Error,
}

//! What the files of a run tell without its model: its other scores, its first documents, and its answers with another end or other filters.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Result;
use lmeval_analysis::read::Run;
use lmeval_analysis::samples::SampleReader;
use lmeval_analysis::stats::{Sampled, moments};
use lmeval_claims::claim::Checked;
use lmeval_claims::scores::Scores;
use lmeval_core::{InProcess, Model, OutputType};
use lmeval_pycompat::{Dict, repr};
use lmeval_tasks::config::{FilterPipeline, MetricConfig};

use super::forms::twins;
use super::{Cause, closes};
use crate::commands::budget::{CutModel, SharedCut};
use crate::printer::Printer;
use crate::roots;
use crate::stored::{Prefer, SharedModel, StoredArgs, StoredRun};
use crate::tokenizer::LazyTokenizer;

/// Token limits that scores are published with.
const BUDGETS: [u64; 5] = [128, 256, 512, 1024, 2048];

/// Strings that end answers in tasks and scripts: what to call them, and the strings.
const STOPS: [(&str, &[&str]); 3] = [
    ("an empty line", &["\n\n"]),
    ("the end of a line", &["\n"]),
    ("the next question", &["Question:", "Q:", "</s>", "<|im_end|>"]),
];

/// Scores of the same task in the same run that agree with the claim: a claim is often of another filter.
pub(super) fn of_other_scores(one: &Checked, run: &Run) -> Vec<Cause> {
    let empty = Dict::new();
    let scores = Scores::new(run.results.as_ref().unwrap_or(&empty));
    let Ok(key) = scores.key(&one.claim.task) else { return Vec::new() };
    let is_own = |metric: &str, filter: &str| {
        metric == one.claim.metric && one.claim.filter.as_deref().is_none_or(|own| own == filter)
    };
    let others =
        scores.all().into_iter().filter(|(task, metric, filter)| *task == key && !is_own(metric, filter));
    let cause = |(_, metric, filter): (String, String, String)| {
        let score = scores.number(&key, &metric, Some(&filter)).ok()?;
        closes(one, score).then(|| {
            let text = format!(
                "`{metric},{filter}` of this run is {:.4}: the claim may be of this score",
                score.value
            );
            Cause::new(one, score, text)
        })
    };
    others.filter_map(cause).collect()
}

/// The first documents of the run, as many as the claim is of: the claim may be of a run with `--limit`.
pub(super) fn of_first_documents(one: &Checked, run: &Run) -> Result<Option<Cause>> {
    let Some(count) = one.claim.score.documents.filter(|count| count.fract() == 0.0) else { return Ok(None) };
    let values = values(one, run)?;
    let count = count as usize;
    if values.len() <= count {
        return Ok(None);
    }
    let first: Vec<f64> = values.into_values().take(count).collect();
    let found = moments(&first);
    // These are the documents of the claim, so no sampling error is between them.
    let is_near = (found.mean - one.claim.score.value).abs() <= 0.25 * one.judgement.difference.abs();
    let score = Sampled { value: found.mean, stderr: Some(found.stderr()), documents: Some(count as f64) };
    Ok((is_near && closes(one, score)).then(|| {
        let text = format!(
            "the first {count} documents of this run score {:.4}: the claim may be of `--limit {count}`",
            found.mean
        );
        Cause::new(one, score, text)
    }))
}

/// The value of every document, in their order.
fn values(one: &Checked, run: &Run) -> Result<BTreeMap<i64, f64>> {
    let empty = Dict::new();
    let scores = Scores::new(run.results.as_ref().unwrap_or(&empty));
    let mut values = BTreeMap::new();
    let Ok(key) = scores.key(&one.claim.task) else { return Ok(values) };
    let Some(file) = run.samples_of(&key) else { return Ok(values) };
    let mut reader = SampleReader::open(run, file, None)?;
    while let Some(sample) = reader.read_next()? {
        let is_wanted = one.claim.filter.as_deref().is_none_or(|filter| filter == sample.filter());
        let (Some(document), true) = (sample.doc_id(), is_wanted) else { continue };
        let of_metric = sample.scores()?.into_iter().find(|(metric, _)| *metric == one.claim.metric);
        if let Some(value) = of_metric.and_then(|(_, value)| value.to_f64()) {
            values.entry(document).or_insert(value);
        }
    }
    Ok(values)
}

/// The stored answers of one task, to be scored again.
pub(super) struct Answers {
    stored: StoredRun,
    cut: Arc<CutModel>,
    key: String,
}

/// The part of a task's configuration that scores answers.
#[derive(Clone)]
pub(super) struct Scoring {
    pub(super) filters: Vec<FilterPipeline>,
    pub(super) metrics: Vec<MetricConfig>,
}

impl Answers {
    /// Opens the answers of a claim's task; `None` if they are not generated texts.
    pub(super) fn open(
        one: &Checked,
        arguments: &StoredArgs,
        run: &Run,
        printer: &mut Printer,
    ) -> Result<Option<Self>> {
        let empty = Dict::new();
        let scores = Scores::new(run.results.as_ref().unwrap_or(&empty));
        let Ok(key) = scores.key(&one.claim.task) else { return Ok(None) };
        let mut stored = StoredRun::open(arguments, &arguments.options(), Prefer::Journal, printer)?;
        stored.tasks.tasks.retain(|name, _| *name == key);
        let is_generation = |task: &lmeval_tasks::Task| task.config.output_type == OutputType::GenerateUntil;
        if !stored.tasks.tasks.values().any(is_generation) {
            return Ok(None);
        }
        let args = &stored.session.settings.model.args;
        let think_end = args.get_str("think_end_token").map(repr::str);
        let tokenizer = LazyTokenizer::of_model(args);
        let cut = CutModel::new(SharedModel(Arc::clone(&stored.model)), tokenizer, think_end);
        Ok(Some(Self { stored, cut: Arc::new(cut), key }))
    }

    /// The causes among other ends of the answers and other filters.
    pub(super) fn causes(&mut self, one: &Checked, printer: &mut Printer) -> Result<Vec<Cause>> {
        let mut causes = Vec::new();
        for (name, stops) in STOPS {
            self.cut.set_stops(stops.iter().copied().map(Arc::from).collect());
            let until: Vec<String> = stops.iter().map(|stop| format!("{stop:?}")).collect();
            let text = format!(
                "with the stored answers cut at {name}, the score is SCORE: set `--gen_kwargs '{{\"until\": [{}]}}'`",
                until.join(", ")
            );
            causes.extend(self.cause(one, &text, printer)?);
        }
        let longest = self.cut.spent().values().map(|spent| spent.longest).max().unwrap_or_default();
        self.cut.set_stops(Vec::new());
        for budget in BUDGETS.into_iter().filter(|budget| *budget < longest) {
            self.cut.set_budget(Some(budget));
            let text = format!(
                "with the stored answers cut after {budget} tokens, the score is SCORE: set `--gen_kwargs max_gen_toks={budget}`"
            );
            causes.extend(self.cause(one, &text, printer)?);
        }
        self.cut.set_budget(None);
        for (name, scoring) in self.scorings(printer)? {
            let own = self.stored.tasks.tasks.values_mut().next();
            let Some(config) = own.map(|task| &mut task.config) else { break };
            let given = Scoring { filters: config.filter_list.clone(), metrics: config.metric_list.clone() };
            (config.filter_list, config.metric_list) = (scoring.filters, scoring.metrics);
            let text = format!(
                "with the filters and metrics of the task `{name}`, the stored answers score SCORE: the claim may be of this task"
            );
            let found = self.cause(one, &text, printer);
            if let Some(task) = self.stored.tasks.tasks.values_mut().next() {
                (task.config.filter_list, task.config.metric_list) = (given.filters, given.metrics);
            }
            causes.extend(found?);
        }
        Ok(causes)
    }

    /// The scoring of tasks about the same documents.
    fn scorings(&self, printer: &mut Printer) -> Result<Vec<(String, Scoring)>> {
        let settings = &self.stored.session.settings;
        let found = roots::resolve(&settings.library, printer)?;
        let manager = roots::manager(&found, &settings.library)?;
        let of_twin = |(name, loaded): (String, lmeval_tasks::TaskDict)| {
            let config = &loaded.tasks.values().next()?.config;
            let is_generation = config.output_type == OutputType::GenerateUntil;
            let scoring =
                Scoring { filters: config.filter_list.clone(), metrics: config.metric_list.clone() };
            is_generation.then_some((name, scoring))
        };
        Ok(twins(&self.stored.tasks, &manager).into_iter().filter_map(of_twin).collect())
    }

    /// Scores the answers as they are cut now. Every score of the claim's metric may close the gap.
    fn cause(&self, one: &Checked, text: &str, printer: &Printer) -> Result<Option<Cause>> {
        let model: Arc<dyn Model> = Arc::new(InProcess::new(SharedCut(Arc::clone(&self.cut))));
        let mut options = self.stored.session.options();
        (options.bootstrap_iters, options.log_samples) = (0, false);
        let scored = self.stored.evaluate(&model, &options, &|| (), printer)?;
        let documents = scored.evaluation.results.documents(&self.key).map(|count| count as f64);
        let causes = scored.evaluation.scores().filter_map(|score| {
            let is_wanted = score.task == self.key
                && score.metric == one.claim.metric
                && one.claim.filter.as_deref().is_none_or(|filter| filter == score.filter);
            let value = score.value.to_f64().filter(|_| is_wanted)?;
            let found = Sampled { value, stderr: score.stderr, documents };
            let text = text.replace("SCORE", &format!("{value:.4}"));
            closes(one, found).then(|| Cause::new(one, found, text))
        });
        Ok(causes.min_by(|a, b| a.residual.total_cmp(&b.residual)))
    }
}

//! From stored answers to a curve.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Result, bail};
use lmeval_analysis::budget::{BudgetCurve, BudgetPoint, ScoreAt, TaskCurve, pair};
use lmeval_analysis::stats::mean_interval;
use lmeval_core::{InProcess, Model};
use lmeval_engine::Evaluated;
use lmeval_pycompat::{Dict, Value, repr};

use super::cut::{CutModel, SharedCut, Spent};
use super::judges;
use super::repeats::Repeats;
use crate::printer::Printer;
use crate::settings::Budget;
use crate::stored::{Scored, SharedModel, StoredRun};
use crate::tokenizer::LazyTokenizer;

/// The most budgets that are chosen without being asked for.
const CHOSEN: u32 = 8;

/// Settings that show a model how many tokens it may use.
const SHOWN_LIMITS: [&str; 4] =
    ["thinking_budget", "budget_tokens", "max_thinking_tokens", "thinking_token_budget"];

/// A stored run and everything to score it at several budgets.
pub(super) struct Measurement {
    stored: StoredRun,
    cut: Arc<CutModel>,
    repeats: Arc<Repeats>,
    notes: Vec<String>,
}

impl Measurement {
    /// Prepares the tokenizer and the judges of a run.
    pub(super) fn prepare(mut stored: StoredRun, tokenizer: Option<&str>) -> Result<Self> {
        let mut notes = Vec::new();
        for (name, task) in &mut stored.tasks.tasks {
            let repeats = task.config.repeats;
            if repeats > 1
                && task.config.reductions.is_empty()
                && task.config.set_reductions(&[format!("avg@{repeats}").into()])
            {
                notes.push(format!(
                    "`{name}` has {repeats} answers to each document; its scores are means over all of them"
                ));
            }
        }
        stored.session.judging.judges = judges::stored(&stored.run, stored.session.settings.dialect)?;
        let tokenizer = match tokenizer {
            Some(name) => LazyTokenizer::named(name)?,
            None => LazyTokenizer::of_model(&stored.session.settings.model.args),
        };
        let model_args = &stored.session.settings.model.args;
        let think_end = model_args.get_str("think_end_token").and_then(Value::as_str).map(str::to_owned);
        notes.extend(shown_limit(&stored));
        let cut = Arc::new(CutModel::new(SharedModel(Arc::clone(&stored.model)), tokenizer, think_end));
        let repeats = Arc::new(Repeats::default());
        stored.session.observer = Some(Arc::clone(&repeats) as Arc<_>);
        Ok(Self { stored, cut, repeats, notes })
    }

    /// Scores the answers at each budget, and as they are.
    pub(super) fn curve(mut self, budgets: &[Budget], printer: &Printer) -> Result<BudgetCurve> {
        let (whole, used) = self.at(None, printer)?;
        if used.answers == 0 {
            bail!("The tasks have no generated answers, so no score depends on a budget of tokens");
        }
        self.explain(&used);
        let mut budgets: Vec<u64> = match budgets {
            [] => chosen(&used),
            budgets => budgets.iter().map(|Budget(tokens)| *tokens).collect(),
        };
        budgets.sort_unstable();
        budgets.dedup();
        if let Some(limit) = used.run_limit.filter(|limit| budgets.last().is_some_and(|most| most > limit)) {
            self.notes.push(format!(
                "The run itself cut answers off at {limit} tokens, so nothing is known of larger budgets"
            ));
            budgets.retain(|budget| *budget <= limit);
        }
        let mut points = Vec::new();
        // A budget that no answer reaches changes nothing.
        let is_whole = |budget: u64| budget >= used.longest;
        for budget in &budgets {
            let unchanged = whole.iter().map(|(task, point)| (task.clone(), point.with_budget(*budget)));
            let point =
                if is_whole(*budget) { unchanged.collect() } else { self.at(Some(*budget), printer)?.0 };
            points.push(point);
        }
        if !budgets.last().copied().is_some_and(is_whole) {
            points.push(whole);
        }
        let tasks =
            points.last().map(|points| points.iter().map(|(task, ..)| task.clone()).collect::<Vec<_>>());
        let tasks = tasks.unwrap_or_default().into_iter().map(|name| {
            let own = points.iter().flatten().filter(|(task, ..)| *task == name);
            let task = self.stored.tasks.tasks.get(&name);
            TaskCurve {
                repeats: task.map_or(1, |task| task.config.repeats),
                points: own.map(|(_, point)| point.clone()).collect(),
                task: name,
            }
        });
        let model = self.stored.session.model_name.name.clone();
        let run = self.stored.run.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(BudgetCurve { run, model, notes: self.notes, tasks: tasks.collect() })
    }

    /// The scores of all tasks and groups at one budget, and what all answers used.
    fn at(&self, budget: Option<u64>, printer: &Printer) -> Result<(Vec<(String, BudgetPoint)>, Spent)> {
        self.cut.set_budget(budget);
        self.repeats.take();
        let model: Arc<dyn Model> = Arc::new(InProcess::new(SharedCut(Arc::clone(&self.cut))));
        let mut options = self.stored.session.options();
        // Values of single repeats are kept only for tasks whose documents are scored together.
        options.log_samples |= self.stored.tasks.tasks.values().any(|task| task.config.repeats > 1);
        let again = || self.cut.set_budget(budget);
        let Scored { evaluation, .. } = self.stored.evaluate(&model, &options, &again, printer)?;
        let spent = self.cut.spent();
        let mut repeats = self.repeats.take();
        let mut all = Spent::default();
        for spent in spent.values() {
            all.add(spent);
        }
        let tasks = names(&evaluation).into_iter().map(|name| {
            let spent = spent_by(&name, &evaluation, &spent);
            let answers = spent.answers.max(1) as f64;
            let point = BudgetPoint {
                budget,
                finished: spent.finished as f64 / answers,
                tokens: spent.tokens as f64 / answers,
                longest: spent.longest,
                scores: scores(&name, &evaluation),
                repeats: repeats.remove(&name).unwrap_or_default(),
            };
            (name, point)
        });
        Ok((tasks.collect(), all))
    }

    /// Adds what the numbers of tokens depend on.
    fn explain(&mut self, used: &Spent) {
        let Spent { answers, exact, hidden, uncounted, .. } = *used;
        if exact < answers {
            let note = if self.cut.tokenizer().get().is_some() {
                "Answers are cut where the tokenizer puts the limit: the model may have written the same text in other tokens"
            } else {
                "Only the number of tokens of each answer is known, so answers are cut at estimated positions; `--tokenizer NAME` finds them"
            };
            self.notes.push(note.to_owned());
        }
        if hidden > 0 {
            self.notes.push(format!(
                "{hidden} of {answers} answers came after reasoning that the server counted but did not return; cut within it, an answer is empty"
            ));
        }
        if uncounted > 0 {
            self.notes.push(format!(
                "{uncounted} of {answers} answers have no number of tokens and are never cut; `--tokenizer NAME` counts them"
            ));
        }
    }
}

/// Powers of two below the longest answer, unless the run cut answers off earlier.
fn chosen(used: &Spent) -> Vec<u64> {
    let most = used.run_limit.unwrap_or(used.longest).min(used.longest);
    let last = most.checked_ilog2().unwrap_or(0);
    (last.saturating_sub(CHOSEN - 1)..=last).map(|power| 1 << power).filter(|budget| *budget < most).collect()
}

/// The names of tasks and groups with scores, in the order of the results.
fn names(evaluation: &Evaluated) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for score in evaluation.scores() {
        if names.last().is_none_or(|last| last != score.task) {
            names.push(score.task.to_owned());
        }
    }
    names
}

/// What the answers of a task used, or those of all tasks of a group.
fn spent_by(name: &str, evaluation: &Evaluated, spent: &BTreeMap<Arc<str>, Spent>) -> Spent {
    let mut all = Spent::default();
    let leaves = evaluation.results.leaves(name);
    let tasks = evaluation.tasks.iter().filter(|(key, _)| leaves.contains(&key.as_str()));
    let own = tasks.filter_map(|(_, task)| spent.get(task.config.task.as_str()));
    own.for_each(|own| all.add(own));
    all
}

fn scores(name: &str, evaluation: &Evaluated) -> Vec<ScoreAt> {
    let own = evaluation.scores().filter(|score| score.task == name);
    let documents = evaluation.results.documents(name).map(|count| count as f64);
    own.map(|score| {
        let value = score.value.to_f64().filter(|value| value.is_finite());
        ScoreAt {
            metric: score.metric.to_owned(),
            filter: score.filter.to_owned(),
            value,
            stderr: score.stderr,
            interval: value.and_then(|value| mean_interval(value, score.stderr, documents)).map(pair),
        }
    })
    .collect()
}

/// A warning if the model could see its limit, so that it would have answered differently under another one.
fn shown_limit(stored: &StoredRun) -> Option<String> {
    let settings = &stored.session.settings;
    let template = stored.run.results.as_ref().and_then(|results| results.get_str("chat_template")?.as_str());
    let has = |text: &str| SHOWN_LIMITS.iter().find(|name| text.contains(**name));
    let of_dict = |dict: &Dict| has(&repr::repr(&Value::from(dict.clone()))).copied();
    let tasks = stored.tasks.tasks.values().filter_map(|task| of_dict(task.config.generation_kwargs.dict()));
    let found = template.and_then(has).copied().or_else(|| of_dict(&settings.model.args));
    let found =
        found.or_else(|| of_dict(&settings.prompts.gen_kwargs)).or_else(|| tasks.into_iter().next())?;
    Some(format!(
        "The model could see a limit (`{found}`), so that answers under another one may differ from the stored ones: the curve is an approximation"
    ))
}

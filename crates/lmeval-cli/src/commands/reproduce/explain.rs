//! `--explain`: which setting closes the gap between a claim and a run.
//!
//! Other scores of the run come first, because they cost nothing: a claim is often of another filter. Then a sample of documents is
//! asked in every form that differs in one known trap; a form that looks different has to confirm it on other documents.

use anyhow::Result;
use lmeval_analysis::read::Run;
use lmeval_analysis::stats::Sampled;
use lmeval_claims::claim::{Checked, Verdict, judge};
use lmeval_claims::scores::Scores;
use lmeval_core::{Dialect, OutputType};
use lmeval_engine::EvaluateOptions;
use lmeval_pycompat::{Dict, Value};
use lmeval_tasks::{Overrides, TaskDict, TaskManager, TaskOptions};

use crate::commands::doctor::{self, Finding, Form, Scored};
use crate::printer::Printer;
use crate::settings::RunSettings;

/// Documents of the task that are asked in every form; a form that looks different is asked about twice as many others.
const DOCUMENTS: usize = 100;

/// The token limits of the forms with a long and with a short one.
const LONG: i64 = 4096;
const SHORT: i64 = 256;

/// The most tasks about the same documents that are asked.
const TWINS: usize = 4;

/// Numbers of examples that published scores are made with.
const SHOTS: [(i64, &str, &str); 4] = [
    (0, "with no examples", "set `--num_fewshot 0`"),
    (5, "with 5 examples", "set `--num_fewshot 5`"),
    (8, "with 8 examples", "set `--num_fewshot 8`"),
    (25, "with 25 examples", "set `--num_fewshot 25`"),
];

/// Says of each claim that is different which setting closes the gap, or that none does.
pub(super) fn explain(
    checked: &[Checked],
    run: &Run,
    settings: &RunSettings,
    printer: &mut Printer,
) -> Result<()> {
    for one in checked.iter().filter(|one| one.judgement.verdict == Verdict::Different) {
        printer.result(&format!("\nWhy is {} different?\n", one.claim.name()))?;
        let by_score = of_other_scores(one, run);
        for line in &by_score {
            printer.result(&format!("→ {line}\n"))?;
        }
        printer.flush()?;
        let findings = ask(one, settings, printer)?;
        let lines = of_findings(one, &findings);
        for line in &lines {
            printer.result(&format!("→ {line}\n"))?;
        }
        if by_score.is_empty() && lines.is_empty() {
            let tried: Vec<&str> = findings
                .iter()
                .skip(1)
                .filter(|finding| finding.is_possible())
                .map(|finding| &*finding.name)
                .collect();
            printer.result(&format!("No setting that was tried closes the gap: {}\n", tried.join(", ")))?;
        }
    }
    Ok(())
}

/// Scores of the same task that agree with the claim.
fn of_other_scores(one: &Checked, run: &Run) -> Vec<String> {
    let empty = Dict::new();
    let scores = Scores::new(run.results.as_ref().unwrap_or(&empty));
    let Ok(key) = scores.key(&one.claim.task) else { return Vec::new() };
    let is_own = |metric: &str, filter: &str| {
        metric == one.claim.metric && one.claim.filter.as_deref().is_none_or(|own| own == filter)
    };
    let mut lines = Vec::new();
    for (task, metric, filter) in scores.all() {
        if task != key || is_own(&metric, &filter) {
            continue;
        }
        let Ok(score) = scores.number(&key, &metric, Some(&filter)) else { continue };
        if closes(one, score) {
            lines.push(format!(
                "`{metric},{filter}` of this run is {:.4}: the claim may be of this score",
                score.value
            ));
        }
    }
    lines
}

/// Whether another score agrees with the claim, and is much nearer to it than the measured one.
fn closes(one: &Checked, score: Sampled) -> bool {
    let judgement = judge(one.claim.score, score, one.judgement.margin);
    judgement.verdict != Verdict::Different
        && judgement.difference.abs() <= 0.5 * one.judgement.difference.abs()
}

/// Asks documents of the task in every form.
fn ask(one: &Checked, settings: &RunSettings, printer: &mut Printer) -> Result<Vec<Finding>> {
    let mut settings = settings.clone();
    let (name, given) = TaskOptions::split(&one.claim.task)?;
    settings.documents.tasks = vec![name.to_owned()];
    settings.prompts.num_fewshot = given.num_fewshot.or(settings.prompts.num_fewshot);
    (settings.expect, settings.claims, settings.recipe, settings.locked) = (None, None, None, None);
    settings.output.path = None;
    settings.output.log_samples = false;
    let scored = Scored { metric: one.claim.metric.clone(), filter: one.claim.filter.clone() };
    doctor::find(settings, DOCUMENTS, Some(scored), &forms, printer)
}

/// The traps that are not forms of the prompts: examples, stop strings, token limits, release line, and tasks of similar names.
fn forms(options: &EvaluateOptions, tasks: &TaskDict, manager: &TaskManager) -> Vec<Form> {
    let shots = options.num_fewshot.or_else(|| {
        tasks
            .tasks
            .values()
            .map(|task| task.config.fewshot_count())
            .max()
            .and_then(|count| i64::try_from(count).ok())
    });
    let mut forms: Vec<Form> = SHOTS
        .into_iter()
        .filter(|(count, _, _)| shots != Some(*count))
        .map(|(count, name, setting)| {
            Form::new(name, setting, move |options| options.num_fewshot = Some(count))
        })
        .collect();
    if tasks.tasks.values().any(|task| task.config.output_type == OutputType::GenerateUntil) {
        for (name, setting, key, value) in generation() {
            forms.push(Form::new(name, setting, move |options| {
                let mut all = options.gen_kwargs.clone().unwrap_or_default();
                all.insert(key, value.clone());
                options.gen_kwargs = Some(all);
            }));
        }
    }
    forms.push(if options.dialect.name == Dialect::V04.name {
        Form::new("as release 0.5", "set `--compat 0.5`", |options| options.dialect = Dialect::V05)
    } else {
        Form::new("as release 0.4", "set `--compat 0.4`", |options| options.dialect = Dialect::V04)
    });
    forms.extend(twins(tasks, manager));
    forms
}

/// Options of generation that published scores differ in: the name of the form, what to set, the option and its value.
fn generation() -> [(&'static str, &'static str, &'static str, Value); 4] {
    let stop = |text: &str| Value::list([Value::str(text)]);
    [
        (
            "with 4,096 tokens for an answer",
            "set `--gen_kwargs max_gen_toks=4096`",
            "max_gen_toks",
            Value::Int(LONG),
        ),
        (
            "with 256 tokens for an answer",
            "set `--gen_kwargs max_gen_toks=256`",
            "max_gen_toks",
            Value::Int(SHORT),
        ),
        (
            "without stop strings",
            "set `--gen_kwargs '{\"until\": []}'`",
            "until",
            Value::list(Vec::<Value>::new()),
        ),
        (
            "stopping at an empty line",
            "set `--gen_kwargs '{\"until\": [\"\\n\\n\"]}'`",
            "until",
            stop("\n\n"),
        ),
    ]
}

/// Tasks about the same documents whose names contain this one's, or are contained in it: a claim may be about one of them.
fn twins(tasks: &TaskDict, manager: &TaskManager) -> Vec<Form> {
    let mut names = tasks.tasks.iter();
    let (Some((own, task)), None) = (names.next(), names.next()) else { return Vec::new() };
    let stem = own.rsplit("::").next().unwrap_or(own);
    let contains = |long: &str, short: &str| format!("_{long}_").contains(&format!("_{short}_"));
    let mut found: Vec<&str> = manager
        .all_subtasks()
        .into_iter()
        .filter(|name| *name != stem && (contains(name, stem) || contains(stem, name)))
        .collect();
    // The most similar first.
    found.sort_by_key(|name| (name.len().abs_diff(stem.len()), *name));
    let twin = |name: &str| {
        let specs = manager.select(&[name]).ok()?;
        let loaded = manager.load(&specs, Overrides::default()).ok()?;
        let config = &loaded.tasks.values().next()?.config;
        let own = &task.config;
        let is_same = config.dataset_path == own.dataset_path
            && config.dataset_name == own.dataset_name
            && config.test_split == own.test_split
            && config.validation_split == own.validation_split;
        is_same.then(|| Form::twin(name, loaded))
    };
    found.into_iter().filter_map(twin).take(TWINS).collect()
}

/// The confirmed forms that close the gap, the nearest to the claim first.
fn of_findings(one: &Checked, findings: &[Finding]) -> Vec<String> {
    let mut closing: Vec<(f64, String)> = Vec::new();
    for finding in findings.iter().filter(|finding| finding.is_confirmed()) {
        let Some((difference, _)) = finding.difference else { continue };
        // The form moves the score of the whole run by what it moves the sample.
        let score = Sampled {
            value: one.measured.value + difference,
            stderr: None,
            documents: Some(finding.documents as f64),
        };
        if closes(one, score) {
            closing.push((
                (score.value - one.claim.score.value).abs(),
                format!(
                    "{} moves the score by {difference:+.4} on {} documents and closes the gap: {}",
                    finding.name, finding.documents, finding.setting
                ),
            ));
        }
    }
    closing.sort_by(|left, right| left.0.total_cmp(&right.0));
    closing.into_iter().map(|(_, line)| line).collect()
}

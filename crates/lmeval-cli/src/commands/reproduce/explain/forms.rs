//! What only the model can tell: a sample of documents, asked in every form that differs in one known trap.

use anyhow::Result;
use lmeval_analysis::stats::Sampled;
use lmeval_claims::claim::Checked;
use lmeval_core::{Dialect, OutputType};
use lmeval_engine::{ChatTemplateChoice, EvaluateOptions};
use lmeval_pycompat::Value;
use lmeval_tasks::config::TaskConfig;
use lmeval_tasks::{Overrides, TaskDict, TaskManager, TaskOptions};

use super::{Cause, closes};
use crate::commands::doctor::{self, Finding, Form, Looks, Scored};
use crate::printer::Printer;
use crate::settings::RunSettings;

/// Documents of the task that are asked in every form; a form that looks different is asked about twice as many others. The gap is
/// known to be there, so a form may look different sooner than in `doctor`; other documents have to confirm it all the same.
const LOOKS: Looks = Looks { documents: 100, suspicious: 0.1 };

/// The most tasks about the same documents that are asked.
const TWINS: usize = 4;

/// The numbers of examples that published scores are made with.
const SHOTS: [(i64, &str, &str); 6] = [
    (0, "with no examples", "set `--num_fewshot 0`"),
    (3, "with 3 examples", "set `--num_fewshot 3`"),
    (5, "with 5 examples", "set `--num_fewshot 5`"),
    (8, "with 8 examples", "set `--num_fewshot 8`"),
    (10, "with 10 examples", "set `--num_fewshot 10`"),
    (25, "with 25 examples", "set `--num_fewshot 25`"),
];

/// The traps that [`asked`] tries, for a message about runs whose model is not there.
pub(super) const TRAPS: &str = "the chat template, the BOS token, examples as turns, a system prompt, other numbers of examples, more tokens, no stop strings, \
     the other release line";

/// What was tried, and what closes the gap.
#[derive(Debug, Default)]
pub(super) struct Tried {
    pub(super) causes: Vec<Cause>,
    /// The forms that do not close it.
    pub(super) others: Vec<String>,
    /// The forms that the model cannot be asked in, with the reasons.
    pub(super) impossible: Vec<String>,
}

/// Asks documents of the task in every form.
pub(super) fn asked(one: &Checked, settings: &RunSettings, printer: &mut Printer) -> Result<Tried> {
    let mut settings = settings.clone();
    let (name, given) = TaskOptions::split(&one.claim.task)?;
    settings.documents.tasks = vec![name.to_owned()];
    settings.prompts.num_fewshot = given.num_fewshot.or(settings.prompts.num_fewshot);
    (settings.expect, settings.claims, settings.recipe, settings.locked) = (None, None, None, None);
    settings.output.path = None;
    settings.output.log_samples = false;
    let scored = Scored { metric: one.claim.metric.clone(), filter: one.claim.filter.clone() };
    let findings = doctor::find(settings, LOOKS, Some(scored), &forms, printer)?;
    let mut tried = Tried::default();
    // The first one is the run as it is. A template writes a BOS token as well, and without it there are no turns: these come before it.
    let (small, others): (Vec<_>, Vec<_>) = findings.iter().skip(1).partition(|finding| finding.is_small);
    for finding in small.into_iter().chain(others) {
        match (of_finding(one, finding), &finding.why) {
            (Some(cause), _) => tried.causes.push(cause),
            (None, None) => tried.others.push(finding.name.to_string()),
            (None, Some(why)) => {
                let first = why.lines().next().unwrap_or_default();
                tried.impossible.push(format!("{} ({first})", finding.name));
            }
        }
    }
    Ok(tried)
}

/// The cause that a form is, if other documents confirm it and it closes the gap.
fn of_finding(one: &Checked, finding: &Finding) -> Option<Cause> {
    let (difference, _) = finding.difference.filter(|_| finding.is_confirmed())?;
    // The form moves the score of the whole run by what it moves the sample.
    let score = Sampled {
        value: one.measured.value + difference,
        stderr: None,
        documents: Some(finding.documents as f64),
    };
    closes(one, score).then(|| {
        let text = format!(
            "{} moves the score by {difference:+.4} on {} documents and closes the gap: {}",
            finding.name, finding.documents, finding.setting
        );
        Cause::new(one, score, text)
    })
}

/// The traps that are not forms of the prompts: examples, stop strings, token limits, release line, and tasks of similar names.
fn forms(options: &EvaluateOptions, tasks: &TaskDict, manager: &TaskManager) -> Vec<Form> {
    let mut forms = Vec::new();
    if !options.apply_chat_template.is_on() {
        forms.push(match options.system_instruction {
            Some(_) => Form::new("without the system prompt", "drop `--system_instruction`", |options| {
                options.system_instruction = None;
            }),
            None => Form::new("with a system prompt", "set `--system_instruction`", |options| {
                options.system_instruction = Some(format!("{}\n\n", doctor::SYSTEM));
            }),
        });
    }
    if options.apply_chat_template == ChatTemplateChoice::Off {
        forms.push(Form::new(
            "with the chat template, examples in one message",
            "add `--apply_chat_template --fewshot_as_multiturn false`",
            |options| {
                options.apply_chat_template = ChatTemplateChoice::Default;
                options.fewshot_as_multiturn = false;
            },
        ));
    }
    if tasks.tasks.values().any(|task| task.config.output_type == OutputType::GenerateUntil) {
        for (name, setting, key, value) in generation() {
            forms.push(Form::new(name, setting, move |options| {
                let mut all = options.gen_kwargs.clone().unwrap_or_default();
                all.insert(key, value.clone());
                options.gen_kwargs = Some(all);
            }));
        }
    }
    let of_task = tasks.tasks.values().map(|task| task.config.fewshot_count()).max();
    let shots = options.num_fewshot.or_else(|| i64::try_from(of_task?).ok());
    forms.extend(SHOTS.into_iter().filter(|(count, _, _)| shots != Some(*count)).map(
        |(count, name, setting)| Form::new(name, setting, move |options| options.num_fewshot = Some(count)),
    ));
    forms.push(if options.dialect.name == Dialect::V04.name {
        Form::new("as release 0.5", "set `--compat 0.5`", |options| options.dialect = Dialect::V05)
    } else {
        Form::new("as release 0.4", "set `--compat 0.4`", |options| options.dialect = Dialect::V04)
    });
    let twins = twins(tasks, manager);
    forms.extend(twins.into_iter().take(TWINS).map(|(name, loaded)| Form::twin(&name, loaded)));
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
            Value::Int(4096),
        ),
        (
            "with 256 tokens for an answer",
            "set `--gen_kwargs max_gen_toks=256`",
            "max_gen_toks",
            Value::Int(256),
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

/// Tasks about the same documents whose names contain this one's, or are contained in it: a claim may be about one of them. The most
/// similar come first.
pub(super) fn twins(tasks: &TaskDict, manager: &TaskManager) -> Vec<(String, TaskDict)> {
    let mut names = tasks.tasks.iter();
    let (Some((own, task)), None) = (names.next(), names.next()) else { return Vec::new() };
    let stem = own.rsplit("::").next().unwrap_or(own);
    let contains = |long: &str, short: &str| format!("_{long}_").contains(&format!("_{short}_"));
    let mut found: Vec<&str> = manager
        .all_subtasks()
        .into_iter()
        .filter(|name| *name != stem && (contains(name, stem) || contains(stem, name)))
        .collect();
    found.sort_by_key(|name| (name.len().abs_diff(stem.len()), *name));
    let twin = |name: &str| {
        let specs = manager.select(&[name]).ok()?;
        let loaded = manager.load(&specs, Overrides::default()).ok()?;
        let is_same = is_about_the_same(&loaded.tasks.values().next()?.config, &task.config);
        is_same.then(|| (name.to_owned(), loaded))
    };
    found.into_iter().filter_map(twin).collect()
}

fn is_about_the_same(one: &TaskConfig, other: &TaskConfig) -> bool {
    one.dataset_path == other.dataset_path
        && one.dataset_name == other.dataset_name
        && one.test_split == other.test_split
        && one.validation_split == other.validation_split
}

//! Prompts in other forms: which choice of chat template, BOS token, turns and system prompt loses points?
//!
//! The first documents of the tasks are asked in the form of the given settings, in three forms with a harmless difference, and in
//! each form that differs in one choice. The harmless differences show how much answers move by themselves.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Result;
use lmeval_analysis::stats::{Changed, Interval, moments, net_change, paired_proportions, student};
use lmeval_core::Model;
use lmeval_engine::{ChatTemplateChoice, EvaluateOptions, Events, JournalOptions, NoEvents, evaluate};
use lmeval_pycompat::Value;
use lmeval_scoring::results::SampleRecord;
use lmeval_tasks::TaskDict;
use lmeval_tasks::config::Field;

use super::begin::Begins;
use crate::printer::Printer;
use crate::run::session::Session;

/// Documents of each task that are asked in every form.
pub(super) const DOCUMENTS: usize = 20;
/// How many more are asked in a form that looks different.
const MORE: usize = 2;
/// Other documents confirm that a form is different at this probability.
const CONFIRMED: f64 = 0.01;
/// Without other documents, a form is different only at this probability.
const CERTAIN: f64 = 1e-4;
/// What is added before prompts for the control.
const HARMLESS: [&str; 3] = ["\n", "\n\n", " "];
/// The system prompt of the form with one.
pub(crate) const SYSTEM: &str = "You are a helpful assistant.";

/// A form of the prompts.
pub(crate) struct Form {
    /// The choice, in the words of a table.
    pub(super) name: Cow<'static, str>,
    /// What to set to get it.
    pub(super) setting: Cow<'static, str>,
    /// Whether a BOS token is added, if that is the choice.
    pub(super) adds_bos: Option<bool>,
    /// Another task about the same documents, if that is the choice.
    twin: Option<TaskDict>,
    /// Whether it changes less than the other forms.
    is_small: bool,
    change: Box<dyn Fn(&mut EvaluateOptions)>,
}

impl Form {
    /// A form that changes settings.
    pub(crate) fn new(
        name: &'static str,
        setting: &'static str,
        change: impl Fn(&mut EvaluateOptions) + 'static,
    ) -> Self {
        let (name, setting) = (name.into(), setting.into());
        Self { name, setting, adds_bos: None, twin: None, is_small: false, change: Box::new(change) }
    }

    /// Another task about the documents of the one that was asked for.
    pub(crate) fn twin(name: &str, tasks: TaskDict) -> Self {
        Self {
            name: format!("as the task `{name}`").into(),
            setting: format!("set `--tasks {name}`").into(),
            adds_bos: None,
            twin: Some(tasks),
            is_small: false,
            change: Box::new(|_| {}),
        }
    }
}

/// How many documents are asked, and when more of them are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Looks {
    /// The documents of each task that are asked in every form.
    pub(crate) documents: usize,
    /// A form looks different at this probability. It is different if other documents confirm it.
    pub(crate) suspicious: f64,
}

/// The score that is compared.
#[derive(Clone, Debug)]
pub(crate) struct Scored {
    /// The metric, without its filter.
    pub(crate) metric: String,
    /// The filter pipeline; `None` for the first.
    pub(crate) filter: Option<String>,
}

/// How the documents were answered in one form.
#[derive(Clone, Debug, Default)]
struct Asked {
    /// The score of each document.
    scores: BTreeMap<(String, usize), f64>,
    /// The number of BOS tokens at the beginning of a prompt, if known.
    begins: Option<usize>,
    /// The first failure.
    failure: Option<String>,
}

/// A form in comparison with the given one.
pub(crate) struct Finding {
    pub(crate) name: Cow<'static, str>,
    pub(crate) setting: Cow<'static, str>,
    pub(super) begins: Option<usize>,
    pub(super) score: f64,
    /// `None` for the given form.
    pub(crate) difference: Option<(f64, Option<Interval>)>,
    pub(super) verdict: Verdict,
    pub(crate) documents: usize,
    /// Why the model cannot be asked in this form.
    pub(crate) why: Option<String>,
    /// Whether it changes less than the other forms: several of them may undo the same thing.
    pub(crate) is_small: bool,
}

impl Finding {
    fn impossible(form: &Form, why: String) -> Self {
        Self {
            name: form.name.clone(),
            setting: form.setting.clone(),
            begins: None,
            score: f64::NAN,
            difference: None,
            verdict: Verdict::Impossible,
            documents: 0,
            why: Some(why),
            is_small: form.is_small,
        }
    }

    /// Whether other documents confirm that the form is different.
    pub(crate) fn is_confirmed(&self) -> bool {
        matches!(self.verdict, Verdict::Gains | Verdict::Loses)
    }
}

/// What a comparison says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The given form itself.
    Given,
    Same,
    /// The other form is worse.
    Loses,
    /// The other form is better, so the given one loses points.
    Gains,
    /// The model cannot be asked in this form.
    Impossible,
}

impl Verdict {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Given => "",
            Self::Same => "no difference seen",
            Self::Loses => "loses points",
            Self::Gains => "gains points",
            Self::Impossible => "not possible",
        }
    }
}

/// The forms that differ in one choice from the given settings.
pub(super) fn forms(options: &EvaluateOptions, tasks: &TaskDict, adds_bos: Option<bool>) -> Vec<Form> {
    let form = |name, setting, change: fn(&mut EvaluateOptions)| Form::new(name, setting, change);
    let is_chat = options.apply_chat_template.is_on();
    let has_examples = options
        .num_fewshot
        .map_or_else(|| tasks.tasks.values().any(|task| task.config.fewshot_count() > 0), |count| count > 0);
    let mut forms = Vec::new();
    if is_chat {
        forms.push(form("without the chat template", "drop `--apply_chat_template`", |options| {
            options.apply_chat_template = ChatTemplateChoice::Off;
            options.fewshot_as_multiturn = false;
        }));
    } else {
        forms.push(form("with the chat template", "add `--apply_chat_template`", |options| {
            options.apply_chat_template = ChatTemplateChoice::Default;
            options.fewshot_as_multiturn = true;
        }));
    }
    if is_chat && has_examples {
        let turns = if options.fewshot_as_multiturn {
            form("examples in one message", "set `--fewshot_as_multiturn false`", |options| {
                options.fewshot_as_multiturn = false;
            })
        } else {
            form("examples as turns", "set `--fewshot_as_multiturn true`", |options| {
                options.fewshot_as_multiturn = true;
            })
        };
        forms.push(Form { is_small: true, ..turns });
    }
    if is_chat {
        forms.push(match options.system_instruction {
            Some(_) => form("without the system prompt", "drop `--system_instruction`", |options| {
                options.system_instruction = None;
            }),
            None => form("with a system prompt", "set `--system_instruction`", |options| {
                options.system_instruction = Some(SYSTEM.to_owned());
            }),
        });
    }
    match adds_bos {
        Some(true) => forms.push(Form {
            adds_bos: Some(false),
            is_small: true,
            ..form("without an added BOS token", "set `add_bos_token=False` in `--model_args`", |_| {})
        }),
        Some(false) => forms.push(Form {
            adds_bos: Some(true),
            is_small: true,
            ..form("with an added BOS token", "set `add_bos_token=True` in `--model_args`", |_| {})
        }),
        None => {}
    }
    forms
}

/// Everything that is asked.
pub(super) struct Traps<'a> {
    pub(super) session: &'a Session,
    pub(super) tasks: &'a TaskDict,
    pub(super) model: Arc<dyn Model>,
    /// Makes the same model with another rule for BOS tokens.
    pub(super) with_bos: &'a dyn Fn(bool) -> Result<Arc<dyn Model>>,
    /// Makes the same model, which gives up soon, with another rule for BOS tokens if there is one; `None` if a second one costs much.
    pub(super) impatient: &'a dyn Fn(Option<bool>) -> Result<Option<Arc<dyn Model>>>,
    pub(super) begins: Begins,
    /// Keeps answers, so that a form that looks different is asked about new documents alone.
    pub(super) journal: JournalOptions,
    pub(super) looks: Looks,
    /// The score that is compared; by default the first that is a share.
    pub(super) scored: Option<Scored>,
}

impl Traps<'_> {
    /// Compares all forms with the given one.
    pub(super) fn find(&self, forms: &[Form], printer: &Printer) -> Result<Vec<Finding>> {
        let options = self.session.options();
        let say = |what: &str| printer.notes().info(&format!("Asking {what}"));
        say("as given");
        let given = self.ask((&self.model, None), self.tasks, &options, self.looks.documents)?;
        let mut control = Vec::new();
        for (index, harmless) in HARMLESS.iter().enumerate() {
            say(&format!("with a harmless difference ({} of {})", index + 1, HARMLESS.len()));
            let tasks = prefixed(self.tasks, harmless);
            control.push(self.ask((&self.model, None), &tasks, &options, self.looks.documents)?);
        }
        let mut findings = vec![Finding {
            name: "as given".into(),
            setting: "".into(),
            begins: given.begins,
            score: mean(&given.scores),
            difference: None,
            verdict: Verdict::Given,
            documents: given.scores.len(),
            why: None,
            is_small: false,
        }];
        for form in forms {
            say(&form.name);
            findings.push(self.compare(form, &options, &given, &control)?);
        }
        Ok(findings)
    }

    /// Compares a form with the given one; about more documents if they look different.
    fn compare(
        &self,
        form: &Form,
        options: &EvaluateOptions,
        given: &Asked,
        control: &[Asked],
    ) -> Result<Finding> {
        let mut options = options.clone();
        (form.change)(&mut options);
        let model = match form.adds_bos {
            Some(adds) => (self.with_bos)(adds)?,
            None => Arc::clone(&self.model),
        };
        let ask_of = |model: &Arc<dyn Model>, documents| match &form.twin {
            Some(twin) => self.ask_twin(model, twin, &options, documents),
            None => self.ask((model, form.adds_bos), self.tasks, &options, documents),
        };
        let ask = |documents| ask_of(&model, documents);
        // A server that refuses a form with an error that may pass is not asked again for every document.
        let impatient = (self.impatient)(form.adds_bos)?;
        let probed = answered(ask_of(impatient.as_ref().unwrap_or(&model), 1));
        let asked = match probed.and_then(|_| answered(ask(self.looks.documents))) {
            Ok(asked) => asked,
            Err(why) => return Ok(Finding::impossible(form, why)),
        };
        let moved = control.iter().map(|other| changed(&given.scores, &other.scores));
        let moved = moved.fold(Changed::default(), Changed::and);
        let first = changed(&given.scores, &asked.scores);
        let p = net_change(first, moved);
        let (mut before, mut after, mut is_certain) = (given.clone(), asked, p < CERTAIN);
        if p < self.looks.suspicious {
            let all = self.looks.documents * (1 + MORE);
            let (more_before, more_after) =
                (self.ask((&self.model, None), self.tasks, &self.session.options(), all)?, ask(all)?);
            let is_new = |key: &(String, usize)| !before.scores.contains_key(key);
            let only_new = |asked: &Asked| -> BTreeMap<(String, usize), f64> {
                asked
                    .scores
                    .iter()
                    .filter(|(key, _)| is_new(key))
                    .map(|(key, score)| (key.clone(), *score))
                    .collect()
            };
            let confirmed = changed(&only_new(&more_before), &only_new(&more_after));
            if confirmed.count > 0 {
                let is_same_way = (first.won > first.lost) == (confirmed.won > confirmed.lost);
                is_certain = is_same_way && net_change(confirmed, moved) < CONFIRMED;
            }
            (before, after) = (more_before, more_after);
        }
        let whole = changed(&before.scores, &after.scores);
        let verdict = if !is_certain {
            Verdict::Same
        } else if whole.won > whole.lost {
            Verdict::Gains
        } else {
            Verdict::Loses
        };
        let difference = Some(paired(&before.scores, &after.scores));
        Ok(Finding {
            name: form.name.clone(),
            setting: form.setting.clone(),
            begins: after.begins,
            score: mean(&after.scores),
            difference,
            verdict,
            documents: whole.count,
            why: None,
            is_small: form.is_small,
        })
    }

    /// Asks about the same documents as another task, whose scores are put beside those of the one that was asked for.
    fn ask_twin(
        &self,
        model: &Arc<dyn Model>,
        twin: &TaskDict,
        options: &EvaluateOptions,
        documents: usize,
    ) -> Result<Asked> {
        let Some(own) = self.tasks.tasks.keys().next() else { return Ok(Asked::default()) };
        let asked = self.ask((model, None), twin, options, documents)?;
        let scores = asked.scores.into_iter().map(|((_, document), score)| ((own.clone(), document), score));
        Ok(Asked { scores: scores.collect(), ..asked })
    }

    /// Asks the model about the first documents of each task.
    fn ask(
        &self,
        (model, adds_bos): (&Arc<dyn Model>, Option<bool>),
        tasks: &TaskDict,
        options: &EvaluateOptions,
        documents: usize,
    ) -> Result<Asked> {
        let mut options = options.clone();
        options.limit = Some(documents as f64);
        (options.log_samples, options.keep_samples, options.bootstrap_iters) = (true, true, 0);
        options.journal = Some(self.journal.clone());
        let events: Arc<dyn Events> = Arc::new(NoEvents);
        let evaluated = evaluate(model, tasks.without_warnings(), &options, &events)?;
        let mut asked = Asked {
            failure: evaluated.failures.first().map(|failure| failure.error.to_string()),
            ..Asked::default()
        };
        for (task, records) in &evaluated.results.samples {
            let first = records.first().map(|record| &*record.filter);
            let wanted = self.scored.as_ref().and_then(|scored| scored.filter.as_deref());
            // Another task may have other filters and metrics.
            let wanted = wanted.filter(|wanted| records.iter().any(|record| &*record.filter == *wanted));
            let Some(filter) = wanted.or(first) else { continue };
            let scored = self.scored.as_ref().filter(|scored| {
                records.iter().any(|record| record.values.iter().any(|(name, _)| **name == *scored.metric))
            });
            for record in records.iter().filter(|record| &*record.filter == filter) {
                if let Some(score) = score(record, scored) {
                    asked.scores.insert((task.clone(), record.doc_id.0), score);
                }
            }
            asked.begins = asked.begins.or_else(|| self.begins.of(records.first()?, adds_bos));
        }
        Ok(asked)
    }
}

/// The answers if there are any, or why there are none.
fn answered(asked: Result<Asked>) -> Result<Asked, String> {
    match asked {
        Ok(asked) if asked.scores.is_empty() => Err(asked.failure.unwrap_or_else(|| "no answer".to_owned())),
        Ok(asked) => Ok(asked),
        // The first cause says what the server said.
        Err(error) => Err(error.root_cause().to_string()),
    }
}

/// The score that decides whether a document is right: the first that is a share.
fn score(record: &SampleRecord, scored: Option<&Scored>) -> Option<f64> {
    let is_wanted = |name: &str| scored.is_none_or(|scored| name == scored.metric);
    let values = record.values.iter().filter(|(name, _)| is_wanted(name));
    let mut values = values.filter_map(|(_, value)| value.to_f64());
    values.find(|value| (0.0..=1.0).contains(value))
}

/// The same tasks with a string before each prompt.
fn prefixed(tasks: &TaskDict, prefix: &str) -> TaskDict {
    let mut tasks = tasks.without_warnings();
    for task in tasks.tasks.values_mut() {
        let description = match &task.config.description {
            None => "",
            Some(Field::Text(text)) => text,
            // A function's description stays as it is.
            Some(_) => continue,
        };
        task.config.description = Some(Field::Text(format!("{prefix}{description}").into()));
    }
    tasks
}

type Scores = BTreeMap<(String, usize), f64>;

fn pairs<'a>(before: &'a Scores, after: &'a Scores) -> impl Iterator<Item = (f64, f64)> + 'a {
    before.iter().filter_map(|(key, before)| Some((*before, *after.get(key)?)))
}

fn changed(before: &Scores, after: &Scores) -> Changed {
    let mut found = Changed::default();
    for (before, after) in pairs(before, after) {
        found.count += 1;
        found.won += usize::from(after > before);
        found.lost += usize::from(after < before);
    }
    found
}

/// The difference of two scores over the documents of both, with its 95 % interval.
fn paired(before: &Scores, after: &Scores) -> (f64, Option<Interval>) {
    let differences: Vec<f64> = pairs(before, after).map(|(before, after)| after - before).collect();
    let Changed { won, lost, count } = changed(before, after);
    let moments = moments(&differences);
    let are_binary = pairs(before, after)
        .all(|(before, after)| [before, after].iter().all(|score| [0.0, 1.0].contains(score)));
    let interval = match count {
        0 | 1 => None,
        _ if are_binary => Some(paired_proportions(won as u64, lost as u64, count as u64, 0.95)),
        _ => Some(student(moments.mean, moments.stderr(), count as f64 - 1.0, 0.95)),
    };
    (moments.mean, interval)
}

fn mean(scores: &Scores) -> f64 {
    scores.values().sum::<f64>() / scores.len() as f64
}

/// The prompt of a record as a string; `None` for chat messages.
pub(super) fn prompt(record: &SampleRecord) -> Option<String> {
    let first = record.arguments.as_list()?.first()?;
    first.as_list()?.first().and_then(Value::as_str).map(str::to_owned)
}

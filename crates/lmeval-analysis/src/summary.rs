//! Results files without the configurations of tasks, which are most of them: what lists and the page of a run show.

use std::borrow::Cow;
use std::path::Path;
use std::sync::LazyLock;

use fs_err as fs;
use lmeval_core::{Diagnostic, secrets};
use lmeval_pycompat::{Dict, Value, json, repr};
use lmeval_scoring::registry::Registry;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::Error;
use crate::read::{Fields, results_change};
use crate::stats::{Interval, mean_interval};

/// Keys of an entry of `results` that are not scores.
const NOT_SCORES: [&str; 6] = ["alias", "name", "sample_len", "sample_count", "samples", " "];

/// Problems that the audit counts.
pub const PROBLEMS: [&str; 7] = [
    "unresolved_targets",
    "empty",
    "whitespace_only",
    "truncated",
    "refused",
    "extraction_failed",
    "letters_missing",
];

/// Top-level keys that belong to the settings of a run.
const SETTINGS: [&str; 20] = [
    "model_source",
    "model_name",
    "lm_eval_version",
    "compat",
    "transformers_version",
    "git_hash",
    "system_instruction",
    "chat_template",
    "fewshot_as_multiturn",
    "max_length",
    "tokenizer_pad_token",
    "tokenizer_eos_token",
    "tokenizer_bos_token",
    "eot_token_id",
    "task_hashes",
    "code_limits",
    "judges",
    "judging",
    "choices",
    "pretty_env_info",
];

/// Sections that are not decoded for a summary, because they are most of a file: [`Details`] checks them.
const LARGE: [&str; 2] = ["configs", "task_hashes"];

/// A score of a task or group.
#[derive(Clone, Debug)]
pub struct Score {
    /// The metric, without its filter.
    pub metric: String,
    /// The filter pipeline; `none` if the key does not name one.
    pub filter: String,
    /// The score; `None` if it is not a number.
    pub value: Option<f64>,
    /// Its standard error.
    pub stderr: Option<f64>,
    /// The 95 % interval by [`mean_interval`]. A corpus metric such as BLEU or MCC is never taken for a share of documents.
    pub interval: Option<Interval>,
    /// The smallest and the largest score that complete answers could have led to, if answers are unfinished.
    pub bounds: Option<Interval>,
    /// Whether more is better, where the results say so.
    pub higher_is_better: Option<bool>,
}

/// Problems of the answers that a filter pipeline of a task scored.
#[derive(Clone, Debug)]
pub struct AuditCounts {
    /// The filter pipeline.
    pub filter: String,
    /// Documents that were scored.
    pub documents: f64,
    /// Answers that were scored.
    pub answers: f64,
    /// Names and counts of the problems that occurred.
    pub problems: Vec<(&'static str, f64)>,
}

/// A task or group of a run.
#[derive(Clone, Debug, Default)]
pub struct TaskSummary {
    /// The key in `results`.
    pub name: String,
    /// The name in tables, without indentation.
    pub alias: String,
    /// Whether it is the aggregate of a group.
    pub is_group: bool,
    /// How many groups it is in.
    pub depth: usize,
    /// Scored documents.
    pub documents: Option<f64>,
    /// Documents without an answer, which are not in the scores; for a group those of its tasks.
    pub failed: f64,
    /// The scores, in the order of the file.
    pub scores: Vec<Score>,
    /// The version of the task.
    pub version: Option<Value>,
    /// The number of few-shot examples.
    pub num_fewshot: Option<Value>,
    /// Problems by filter pipeline.
    pub audit: Vec<AuditCounts>,
}

/// A results file without the configurations of its tasks.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// The model, for headings.
    pub name: String,
    /// When the run began, in seconds since the epoch.
    pub date: Option<f64>,
    /// How long it took, in seconds.
    pub duration: Option<f64>,
    /// The version of the harness.
    pub version: Option<String>,
    /// `model`, as the run got it.
    pub backend: Option<String>,
    /// `model_args`, as the run got them, without secrets.
    pub model_args: Option<String>,
    /// `--limit`.
    pub limit: Option<f64>,
    /// `--num_fewshot`.
    pub num_fewshot: Option<f64>,
    /// Scored documents of all tasks.
    pub documents: Option<f64>,
    /// Requests that failed.
    pub failed_requests: f64,
    /// Tasks and groups: members follow their group.
    pub tasks: Vec<TaskSummary>,
    /// How the file was changed since the run wrote it, as a sentence.
    pub changed: Option<String>,
}

impl Summary {
    /// Reads a results file. Configurations are skipped, not decoded.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = read_text(path)?;
        let fields = parse(&text, path)?;
        let results = section(&fields, "results").ok_or_else(|| not_results(path))?;
        let config = section(&fields, "config").unwrap_or_default();
        secrets::learn(&Value::from(config.clone()));
        let tasks = tasks(&fields, &results);
        let text_of = |name: &str| fields.text(name).map(Cow::into_owned).filter(|text| !text.is_empty());
        let number_of = |name: &str| {
            fields.value(name).and_then(|value| match &value {
                // The reference writes the duration as a string.
                Value::Str(text) => text.parse().ok(),
                value => value.to_f64(),
            })
        };
        let counted: Vec<f64> =
            tasks.iter().filter(|task| !task.is_group).filter_map(|task| task.documents).collect();
        let model_args = config.get_str("model_args").filter(|value| !value.is_none());
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        let changed = results_change(&file, |key| !LARGE.contains(&key), |key| fields.value(key));
        Ok(Self {
            changed,
            name: text_of("model_name")
                .or_else(|| text_of("model_source"))
                .or_else(|| config.get_str("model").and_then(Value::as_str).map(str::to_owned))
                .unwrap_or_else(|| file.into_owned()),
            date: number_of("date"),
            duration: number_of("total_evaluation_time_seconds"),
            version: text_of("lm_eval_version"),
            backend: config.get_str("model").map(repr::str).or_else(|| text_of("model_source")),
            model_args: model_args.map(|value| repr::str(&secrets::mask_secrets(value))),
            limit: config.get_str("limit").and_then(Value::to_f64),
            num_fewshot: config.get_str("num_fewshot").and_then(Value::to_f64),
            documents: (!counted.is_empty()).then(|| counted.iter().sum()),
            failed_requests: number_of("failed_requests").unwrap_or(0.0),
            tasks,
        })
    }

    /// The problems of all tasks and pipelines, in the order in which they first occur.
    pub fn problems(&self) -> Vec<(&'static str, f64)> {
        let mut summed: Vec<(&'static str, f64)> = Vec::new();
        for (name, count) in self.tasks.iter().flat_map(|task| &task.audit).flat_map(|audit| &audit.problems)
        {
            match summed.iter_mut().find(|(known, _)| known == name) {
                Some((_, sum)) => *sum += count,
                None => summed.push((name, *count)),
            }
        }
        summed
    }
}

/// The rest of a results file: settings and configurations.
#[derive(Clone, Debug, Default)]
pub struct Details {
    /// `config` and the top-level settings, in order, without secrets.
    pub settings: Vec<(String, Value)>,
    /// What each task resolved to. Secrets are not masked.
    pub configs: Dict,
    /// How any section of the file was changed since the run wrote it, as a sentence.
    pub changed: Option<String>,
}

impl Details {
    /// Reads a results file.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = read_text(path)?;
        let fields = parse(&text, path)?;
        let config = section(&fields, "config").unwrap_or_default();
        let config = config.iter().map(|(key, value)| (repr::str(key), value.clone()));
        let present = |key: &&str| fields.value(key).filter(|value| !value.is_none());
        let others = SETTINGS.iter().filter_map(|key| Some(((*key).to_owned(), present(key)?)));
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        Ok(Self {
            settings: config.chain(others).map(masked).collect(),
            configs: section(&fields, "configs").unwrap_or_default(),
            changed: results_change(&file, |_| true, |key| fields.value(key)),
        })
    }
}

/// Settings of one task, for looking at its samples.
#[derive(Clone, Debug, Default)]
pub struct TaskSettings {
    /// What the task resolved to.
    pub config: Dict,
    /// The number of few-shot examples.
    pub num_fewshot: Option<f64>,
}

impl TaskSettings {
    /// Reads the settings of one task from a results file; `None` if the file does not have them.
    pub fn read(path: &Path, task: &str) -> Option<Self> {
        let text = read_text(path).ok()?;
        let fields = parse(&text, path).ok()?;
        let configs = Fields::parse(fields.raw("configs")?).ok()?;
        let Some(Value::Dict(config)) = configs.value(task) else { return None };
        let num_fewshot = section(&fields, "n-shot").and_then(|shots| shots.get_str(task)?.to_f64());
        Some(Self { config: (*config).clone(), num_fewshot })
    }
}

fn read_text(path: &Path) -> Result<String, Error> {
    let bytes = fs::read(path)
        .map_err(|error| Diagnostic::new(format!("Cannot read `{}`", path.display())).caused_by(error))?;
    String::from_utf8(bytes).map_err(|error| Box::new(not_results(path).caused_by(error)))
}

fn parse<'a>(text: &'a str, path: &Path) -> Result<Fields<'a>, Error> {
    Fields::parse(text).map_err(|malformed| {
        let line = text[..malformed.offset.min(text.len())].matches('\n').count() + 1;
        Diagnostic::new(format!("`{}` is not a results file: line {line} is not JSON", path.display())).into()
    })
}

fn not_results(path: &Path) -> Diagnostic {
    Diagnostic::new(format!("`{}` is not a results file", path.display()))
}

fn section(fields: &Fields<'_>, name: &str) -> Option<Dict> {
    match json::loads(fields.raw(name)?).ok()? {
        Value::Dict(section) => Some((*section).clone()),
        _ => None,
    }
}

/// A setting without secrets.
fn masked((key, value): (String, Value)) -> (String, Value) {
    let entry = secrets::mask_secrets(&Value::dict([(key.as_str(), value)]));
    let value = entry.as_dict().and_then(|entry| entry.get_str(&key)).cloned();
    (key, value.unwrap_or_default())
}

fn tasks(fields: &Fields<'_>, results: &Dict) -> Vec<TaskSummary> {
    let of = |name: &str| section(fields, name).unwrap_or_default();
    let (groups, subtasks, directions) = (of("groups"), of("group_subtasks"), of("higher_is_better"));
    let (versions, shots, counts, audit) = (of("versions"), of("n-shot"), of("n-samples"), of("audit"));
    let bounds = of("bounds");
    let mut tasks = Vec::with_capacity(results.len());
    for (name, depth) in order(results, &subtasks) {
        let Some(Value::Dict(entry)) = results.get_str(&name) else { continue };
        let counts = counts.get_str(&name).and_then(Value::as_dict);
        let count = |key: &str| counts.and_then(|counts| counts.get_str(key));
        let effective = count("effective").or_else(|| count("original")).and_then(Value::to_f64);
        let documents = effective.or_else(|| entry.get_str("sample_len").and_then(Value::to_f64));
        let alias = entry.get_str("alias").and_then(Value::as_str);
        let of_name =
            |section: &'_ Dict| section.get_str(&name).and_then(Value::as_dict).cloned().unwrap_or_default();
        tasks.push(TaskSummary {
            alias: alias.map_or(name.as_str(), |alias| alias.trim_start_matches([' ', '-'])).to_owned(),
            is_group: groups.contains_str(&name)
                || matches!(subtasks.get_str(&name), Some(Value::List(members)) if !members.is_empty()),
            depth,
            documents,
            failed: count("failed").and_then(Value::to_f64).unwrap_or(0.0),
            scores: scores(entry, &of_name(&directions), &of_name(&bounds), documents),
            version: versions.get_str(&name).cloned(),
            num_fewshot: shots.get_str(&name).cloned(),
            audit: audit.get_str(&name).and_then(Value::as_dict).map(audits).unwrap_or_default(),
            name,
        });
    }
    add_failed_of_members(&mut tasks);
    tasks
}

/// Tasks below their groups, with their depth. Every entry of `results` comes once.
fn order(results: &Dict, subtasks: &Dict) -> Vec<(String, usize)> {
    let members = |name: &str| -> Vec<String> {
        match subtasks.get_str(name) {
            Some(Value::List(members)) => {
                members.iter().filter_map(Value::as_str).map(str::to_owned).collect()
            }
            _ => Vec::new(),
        }
    };
    let names = || results.keys().filter_map(Value::as_str);
    let children: FxHashSet<String> =
        names().filter(|name| subtasks.contains_str(name)).flat_map(members).collect();
    let mut found = Vec::with_capacity(results.len());
    let mut seen: FxHashSet<String> = FxHashSet::default();
    let mut open: Vec<(String, usize)> =
        names().filter(|name| !children.contains(*name)).map(|name| (name.to_owned(), 0)).collect();
    // Groups come after tasks in the file, and before them on the page.
    open.sort_by_key(|(name, _)| members(name).is_empty());
    open.reverse();
    while let Some((name, depth)) = open.pop() {
        if !seen.insert(name.clone()) {
            continue;
        }
        open.extend(members(&name).into_iter().rev().map(|member| (member, depth + 1)));
        if results.contains_str(&name) {
            found.push((name, depth));
        }
    }
    // Groups that contain each other would be lost.
    found.extend(names().filter(|name| !seen.contains(*name)).map(|name| (name.to_owned(), 0)));
    found
}

fn scores(entry: &Dict, better: &Dict, bounds: &Dict, documents: Option<f64>) -> Vec<Score> {
    let mut scores = Vec::new();
    let mut stderrs: FxHashMap<(&str, &str), f64> = FxHashMap::default();
    for (key, value) in entry.iter() {
        let Some(key) = key.as_str().filter(|key| !NOT_SCORES.contains(key)) else { continue };
        let (metric, filter) = key.split_once(',').unwrap_or((key, "none"));
        let value = match value {
            Value::Str(_) | Value::None => None,
            value => value.to_f64(),
        };
        match (metric.strip_suffix("_stderr"), value) {
            (Some(of), Some(value)) => drop(stderrs.insert((of, filter), value)),
            (Some(_), None) => {}
            (None, value) => scores.push((metric, filter, value)),
        }
    }
    let finish = |(metric, filter, value): (&str, &str, Option<f64>)| {
        let stderr = stderrs.get(&(metric, filter)).copied();
        let documents = documents.filter(|_| is_mean(metric));
        Score {
            metric: metric.to_owned(),
            filter: filter.to_owned(),
            value,
            stderr,
            interval: value.and_then(|value| mean_interval(value, stderr, documents)),
            bounds: bounds.get_str(&format!("{metric},{filter}")).and_then(Interval::from_value),
            higher_is_better: better.get_str(metric).and_then(Value::as_bool),
        }
    };
    scores.into_iter().map(finish).collect()
}

/// Whether a metric is a mean over documents: unknown ones are, as far as their standard error says so.
fn is_mean(metric: &str) -> bool {
    static CORPUS: LazyLock<Vec<String>> = LazyLock::new(|| {
        let registry = Registry::default();
        let corpus = registry.metrics.iter().filter(|entry| entry.facts.aggregation != Some("mean"));
        corpus.map(|entry| entry.name.to_string()).collect()
    });
    !CORPUS.iter().any(|name| name == metric)
}

fn audits(audit: &Dict) -> Vec<AuditCounts> {
    let number = |counts: &Dict, name: &str| counts.get_str(name).and_then(Value::to_f64).unwrap_or(0.0);
    let entries = audit.iter().filter_map(|(filter, counts)| Some((filter.as_str()?, counts.as_dict()?)));
    entries
        .map(|(filter, counts)| AuditCounts {
            filter: filter.to_owned(),
            documents: number(counts, "documents"),
            answers: number(counts, "answers"),
            problems: PROBLEMS
                .into_iter()
                .map(|name| (name, number(counts, name)))
                .filter(|(_, count)| *count > 0.0)
                .collect(),
        })
        .collect()
}

/// Counts the documents without an answer in the tasks of each group, which follow it.
fn add_failed_of_members(tasks: &mut [TaskSummary]) {
    for index in (0..tasks.len()).filter(|index| tasks[*index].is_group).collect::<Vec<_>>() {
        let depth = tasks[index].depth;
        let members = tasks[index + 1..].iter().take_while(|task| task.depth > depth);
        tasks[index].failed = members.filter(|task| !task.is_group).map(|task| task.failed).sum();
    }
}

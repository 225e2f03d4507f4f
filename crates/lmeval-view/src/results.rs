//! Results files: what lists and the page of a run show.

use std::path::Path;
use std::sync::LazyLock;

use fs_err as fs;
use lmeval_analysis::read::{Fields, results_change};
use lmeval_analysis::stats::mean_interval;
use lmeval_core::registry::Registry;
use lmeval_core::results::task_file_name;
use lmeval_core::{Diagnostic, secrets};
use lmeval_pycompat::{Dict, Value, json as python_json};
use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::{Map, Value as Json, json};

use crate::Error;
use crate::catalog::{FoundRun, Kind};
use crate::wire;

/// Keys of an entry of `results` that are not scores.
const NOT_SCORES: [&str; 6] = ["alias", "name", "sample_len", "sample_count", "samples", " "];

/// Problems that the audit counts.
const AUDIT: [&str; 6] =
    ["unresolved_targets", "empty", "whitespace_only", "truncated", "extraction_failed", "letters_missing"];

/// Top-level keys that the page of a run lists as settings.
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

/// A score of a task or group.
#[derive(Clone, Debug)]
struct Score {
    metric: String,
    filter: String,
    value: Option<f64>,
    stderr: Option<f64>,
    higher_is_better: Option<bool>,
    documents: Option<f64>,
}

impl Score {
    fn to_json(&self) -> Json {
        // A corpus metric such as BLEU or MCC may look like a share of documents, and is none.
        let documents = self.documents.filter(|_| is_mean(&self.metric));
        let interval = self.value.and_then(|value| mean_interval(value, self.stderr, documents));
        json!({
            "metric": self.metric,
            "filter": self.filter,
            "value": wire::optional(self.value),
            "stderr": wire::optional(self.stderr),
            "low": wire::optional(interval.map(|interval| interval.low)),
            "high": wire::optional(interval.map(|interval| interval.high)),
            "higher_is_better": self.higher_is_better,
        })
    }
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

/// A task or group of a run.
#[derive(Clone, Debug)]
struct Task {
    name: String,
    alias: String,
    is_group: bool,
    depth: usize,
    documents: Option<f64>,
    /// Documents without an answer, which are not in the scores; for a group those of its tasks.
    failed: f64,
    scores: Vec<Score>,
    version: Json,
    num_fewshot: Json,
    /// Filter, documents, answers and problems.
    audit: Vec<(String, f64, f64, Map<String, Json>)>,
}

/// A results file without the configurations of tasks, which are most of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Summary {
    name: String,
    date: Option<f64>,
    duration: Option<f64>,
    version: Option<String>,
    backend: Option<String>,
    model_args: Option<String>,
    limit: Option<f64>,
    num_fewshot: Option<f64>,
    documents: Option<f64>,
    failed_requests: f64,
    audit: Map<String, Json>,
    tasks: Vec<Task>,
    /// Changes of the file since the run wrote it.
    changed: Option<String>,
}

/// Sections that are not decoded for lists, because they are most of a file: the page of the run checks them.
const LARGE: [&str; 2] = ["configs", "task_hashes"];

impl Summary {
    /// Reads a results file. Configurations are skipped, not decoded.
    pub(crate) fn read(path: &Path) -> Result<Self, Error> {
        let text = read_text(path)?;
        let fields = parse(&text, path)?;
        let results = section(&fields, "results").ok_or_else(|| not_results(path))?;
        let config = section(&fields, "config").unwrap_or_default();
        secrets::learn(&Value::from(config.clone()));
        let of = |name: &str| section(&fields, name).unwrap_or_default();
        let (groups, subtasks, directions) = (of("groups"), of("group_subtasks"), of("higher_is_better"));
        let (versions, shots, counts, audit) = (of("versions"), of("n-shot"), of("n-samples"), of("audit"));
        let order = order(&results, &subtasks);
        let mut tasks = Vec::with_capacity(order.len());
        for (name, depth) in order {
            let Some(Value::Dict(entry)) = results.get_str(&name) else { continue };
            let is_group = groups.contains_str(&name)
                || matches!(subtasks.get_str(&name), Some(Value::List(members)) if !members.is_empty());
            let effective = counts.get_str(&name).and_then(Value::as_dict).and_then(|counts| {
                counts.get_str("effective").or_else(|| counts.get_str("original")).and_then(Value::to_f64)
            });
            let failed =
                counts.get_str(&name).and_then(|counts| counts.as_dict()?.get_str("failed")?.to_f64());
            let documents = effective.or_else(|| entry.get_str("sample_len").and_then(Value::to_f64));
            let better = directions.get_str(&name).and_then(Value::as_dict);
            tasks.push(Task {
                alias: entry
                    .get_str("alias")
                    .and_then(Value::as_str)
                    .map_or_else(|| name.clone(), |alias| alias.trim_start_matches([' ', '-']).to_owned()),
                is_group,
                depth,
                documents,
                failed: failed.unwrap_or(0.0),
                scores: scores(entry, better, documents),
                version: versions.get_str(&name).map_or(Json::Null, wire::json),
                num_fewshot: shots.get_str(&name).map_or(Json::Null, wire::json),
                audit: audit.get_str(&name).and_then(Value::as_dict).map(audits).unwrap_or_default(),
                name,
            });
        }
        add_failed_of_members(&mut tasks);
        let text_of =
            |name: &str| fields.text(name).map(std::borrow::Cow::into_owned).filter(|text| !text.is_empty());
        let number_of = |name: &str| {
            fields.value(name).and_then(|value| match &value {
                // The reference writes the duration as a string.
                Value::Str(text) => text.parse().ok(),
                value => value.to_f64(),
            })
        };
        let leaves = || tasks.iter().filter(|task| !task.is_group);
        let mut summed: Map<String, Json> = Map::new();
        for (_, _, _, counts) in tasks.iter().flat_map(|task| &task.audit) {
            for (name, count) in counts {
                let before = summed.get(name).and_then(Json::as_f64).unwrap_or(0.0);
                summed.insert(name.clone(), Json::from(before + count.as_f64().unwrap_or(0.0)));
            }
        }
        let model_args = config.get_str("model_args").filter(|value| !value.is_none());
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        let changed = results_change(&file, |key| !LARGE.contains(&key), |key| fields.value(key));
        Ok(Self {
            changed,
            name: text_of("model_name")
                .or_else(|| text_of("model_source"))
                .or_else(|| config.get_str("model").and_then(Value::as_str).map(str::to_owned))
                .unwrap_or_else(|| path.file_name().unwrap_or_default().to_string_lossy().into_owned()),
            date: number_of("date"),
            duration: number_of("total_evaluation_time_seconds"),
            version: text_of("lm_eval_version"),
            backend: config.get_str("model").map(wire::plain).or_else(|| text_of("model_source")),
            model_args: model_args.map(|value| wire::plain(&secrets::mask_secrets(value))),
            limit: config.get_str("limit").and_then(Value::to_f64),
            num_fewshot: config.get_str("num_fewshot").and_then(Value::to_f64),
            documents: leaves()
                .any(|task| task.documents.is_some())
                .then(|| leaves().filter_map(|task| task.documents).sum()),
            failed_requests: number_of("failed_requests").unwrap_or(0.0),
            audit: summed,
            tasks,
        })
    }

    /// A run without a results file.
    pub(crate) fn of_samples(run: &FoundRun) -> Self {
        let folder = run.path.parent().and_then(Path::file_name);
        let tasks = run.samples.iter().map(|file| bare_task(&file.task)).collect();
        Self {
            name: folder.map_or_else(|| run.shown.clone(), |name| name.to_string_lossy().into_owned()),
            tasks,
            ..Self::default()
        }
    }

    /// A journal: its models and tasks. An unreadable one is listed with no tasks; its page shows the error.
    pub(crate) fn of_journal(run: &FoundRun) -> Self {
        let folder = run.path.parent().and_then(Path::file_name);
        let name = folder.map_or_else(|| run.shown.clone(), |name| name.to_string_lossy().into_owned());
        Self { name, ..Self::default() }
    }

    /// The tasks that a samples file may be named after.
    pub(crate) fn task_names(&self) -> impl Iterator<Item = &str> {
        self.tasks.iter().map(|task| task.name.as_str())
    }

    /// `RunSummary` of the interface.
    pub(crate) fn to_json(&self, run: &FoundRun) -> Json {
        let tasks = self.tasks.iter().map(|task| Json::Object(task_json(task, run)));
        let tasks: Vec<Json> = tasks.collect();
        Json::Object(self.fields(run, &tasks))
    }

    /// `RunDetail` of the interface; `configs` and `settings` come from the file.
    pub(crate) fn to_detail(&self, run: &FoundRun) -> Result<Json, Error> {
        let (mut settings, mut configs, mut changed) = (Vec::new(), Dict::new(), None);
        if run.kind == Kind::Results {
            let text = read_text(&run.path)?;
            let fields = parse(&text, &run.path)?;
            let config = section(&fields, "config").unwrap_or_default();
            for (key, value) in config.iter() {
                settings.push(json!([wire::plain(key), wire::json(&masked(&wire::plain(key), value))]));
            }
            for key in SETTINGS {
                if let Some(value) = fields.value(key).filter(|value| !value.is_none()) {
                    settings.push(json!([key, wire::json(&masked(key, &value))]));
                }
            }
            configs = section(&fields, "configs").unwrap_or_default();
            let file = run.path.file_name().unwrap_or_default().to_string_lossy();
            changed = results_change(&file, |_| true, |key| fields.value(key));
        }
        let tasks = self.tasks.iter().map(|task| {
            let mut entry = task_json(task, run);
            let config = configs.get_str(&task.name).map(|config| wire::json(&secrets::mask_secrets(config)));
            let audit: Vec<Json> = task
                .audit
                .iter()
                .map(|(filter, documents, answers, counts)| {
                    json!({ "filter": filter, "documents": documents, "answers": answers, "counts": counts })
                })
                .collect();
            entry.insert("scores".to_owned(), task.scores.iter().map(Score::to_json).collect());
            entry.insert("version".to_owned(), task.version.clone());
            entry.insert("num_fewshot".to_owned(), task.num_fewshot.clone());
            entry.insert("audit".to_owned(), Json::from(audit));
            entry.insert("config".to_owned(), config.unwrap_or(Json::Null));
            Json::Object(entry)
        });
        let mut detail = self.fields(run, &tasks.collect::<Vec<Json>>());
        detail.insert("settings".to_owned(), Json::from(settings));
        detail.insert("journal".to_owned(), Json::Null);
        detail.insert("changed".to_owned(), Json::from(changed));
        Ok(Json::Object(detail))
    }

    fn fields(&self, run: &FoundRun, tasks: &[Json]) -> Map<String, Json> {
        let Json::Object(fields) = json!({
            "id": run.id,
            "name": self.name,
            "kind": run.kind.name(),
            "path": run.shown,
            "date": wire::optional(self.date),
            "duration": wire::optional(self.duration),
            "version": self.version,
            "backend": self.backend,
            "model_args": self.model_args,
            "limit": wire::optional(self.limit),
            "num_fewshot": wire::optional(self.num_fewshot),
            "documents": wire::optional(self.documents),
            "failed_requests": wire::number(self.failed_requests),
            "audit": self.audit,
            "tasks": tasks,
            "has_samples": !run.samples.is_empty(),
            "changed": self.changed,
        }) else {
            return Map::new();
        };
        fields
    }
}

/// The samples file of a task. File names replace some characters, so names are compared in that form.
pub(crate) fn samples_of<'run>(run: &'run FoundRun, task: &str) -> Option<&'run Path> {
    let wanted = task_file_name(task);
    let exact = run.samples.iter().find(|file| file.task == task);
    let found = exact.or_else(|| run.samples.iter().find(|file| task_file_name(&file.task) == wanted));
    found.map(|file| file.path.as_path())
}

/// The configuration of a task in a results file.
pub(crate) fn task_config(path: &Path, task: &str) -> Option<(Dict, Option<f64>)> {
    let text = read_text(path).ok()?;
    let fields = parse(&text, path).ok()?;
    let configs = Fields::parse(fields.raw("configs")?).ok()?;
    let Some(Value::Dict(config)) = configs.value(task) else { return None };
    let shots = section(&fields, "n-shot").and_then(|shots| shots.get_str(task)?.to_f64());
    Some(((*config).clone(), shots))
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
    match python_json::loads(fields.raw(name)?).ok()? {
        Value::Dict(section) => Some((*section).clone()),
        _ => None,
    }
}

/// A setting without secrets.
fn masked(key: &str, value: &Value) -> Value {
    let entry = Value::dict([(key, value.clone())]);
    match secrets::mask_secrets(&entry) {
        Value::Dict(entry) => entry.get_str(key).cloned().unwrap_or_default(),
        _ => Value::None,
    }
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

fn scores(entry: &Dict, better: Option<&Dict>, documents: Option<f64>) -> Vec<Score> {
    let mut scores = Vec::new();
    let mut stderrs: FxHashMap<(String, String), f64> = FxHashMap::default();
    for (key, value) in entry.iter() {
        let Some(key) = key.as_str().filter(|key| !NOT_SCORES.contains(key)) else { continue };
        let (metric, filter) = key.split_once(',').unwrap_or((key, "none"));
        let value = match value {
            Value::Str(_) | Value::None => None,
            value => value.to_f64(),
        };
        if let Some(of) = metric.strip_suffix("_stderr") {
            if let Some(value) = value {
                stderrs.insert((of.to_owned(), filter.to_owned()), value);
            }
            continue;
        }
        let higher_is_better = better.and_then(|better| better.get_str(metric)).and_then(Value::as_bool);
        scores.push(Score {
            metric: metric.to_owned(),
            filter: filter.to_owned(),
            value,
            stderr: None,
            higher_is_better,
            documents,
        });
    }
    for score in &mut scores {
        score.stderr = stderrs.get(&(score.metric.clone(), score.filter.clone())).copied();
    }
    scores
}

fn audits(audit: &Dict) -> Vec<(String, f64, f64, Map<String, Json>)> {
    let number = |counts: &Dict, name: &str| counts.get_str(name).and_then(Value::to_f64).unwrap_or(0.0);
    let entries = audit.iter().filter_map(|(filter, counts)| Some((filter.as_str()?, counts.as_dict()?)));
    entries
        .map(|(filter, counts)| {
            let problems = AUDIT.iter().filter(|name| number(counts, name) > 0.0);
            let problems = problems.map(|name| ((*name).to_owned(), wire::number(number(counts, name))));
            (filter.to_owned(), number(counts, "documents"), number(counts, "answers"), problems.collect())
        })
        .collect()
}

/// Counts the documents without an answer in the tasks of each group, which follow it.
fn add_failed_of_members(tasks: &mut [Task]) {
    for index in (0..tasks.len()).filter(|index| tasks[*index].is_group).collect::<Vec<_>>() {
        let depth = tasks[index].depth;
        let members = tasks[index + 1..].iter().take_while(|task| task.depth > depth);
        tasks[index].failed = members.filter(|task| !task.is_group).map(|task| task.failed).sum();
    }
}

fn bare_task(name: &str) -> Task {
    Task {
        name: name.to_owned(),
        alias: name.to_owned(),
        is_group: false,
        depth: 0,
        documents: None,
        failed: 0.0,
        scores: Vec::new(),
        version: Json::Null,
        num_fewshot: Json::Null,
        audit: Vec::new(),
    }
}

fn task_json(task: &Task, run: &FoundRun) -> Map<String, Json> {
    let Json::Object(entry) = json!({
        "task": task.name,
        "alias": task.alias,
        "is_group": task.is_group,
        "depth": task.depth,
        "main": task.scores.first().map(Score::to_json),
        "documents": wire::optional(task.documents),
        "failed": task.failed,
        "has_samples": samples_of(run, &task.name).is_some(),
    }) else {
        return Map::new();
    };
    entry
}

//! The judges of a run: models bound to roles, the stored run that they compare with, and what they cost.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, bail};
use fs_err as fs;
use lmeval_analysis::read::{Fields, Run};
use lmeval_core::{Diagnostic, DocId, Model, ModelStats};
use lmeval_engine::{Baseline, Evaluated, JudgeModel, ModelUsage};
use lmeval_host::PythonOptions;
use lmeval_pycompat::{Dict, Value, repr, yaml};

use crate::printer::{Notes, Printer};
use crate::run::model;
use crate::settings::{JudgeBinding, RunSettings};
use crate::words::counted;

/// The judges of an evaluation, and what they need.
#[derive(Default)]
pub(crate) struct Judging {
    /// The models, by role.
    pub(crate) judges: Vec<JudgeModel>,
    /// The answers that pairwise judges compare with.
    pub(crate) baseline: Option<Arc<Baseline>>,
    prices: Option<Prices>,
}

impl Judging {
    /// Creates the judges that the settings bind, and reads the stored run and the prices that they name.
    pub(crate) fn create(
        settings: &RunSettings,
        options: &PythonOptions,
        notes: &Notes,
        has_answers: bool,
    ) -> Result<Self> {
        Ok(Self {
            judges: create(settings, options, notes, has_answers)?,
            baseline: baseline(settings)?,
            prices: settings.scoring.prices.as_deref().map(Prices::read).transpose()?,
        })
    }

    /// Whether the judges answer more slowly than a file can be read.
    pub(crate) fn is_worth_saving(&self) -> bool {
        self.judges.iter().any(|judge| judge.model.traits().is_worth_saving)
    }

    /// Repeats the warnings of the judges below the results.
    pub(crate) fn repeat_warnings(&self, printer: &Printer) {
        for judge in &self.judges {
            for warning in judge.model.stats().map(ModelStats::take_warnings).unwrap_or_default() {
                printer.notes().warn(&format!("The judge `{}`: {warning}", judge.role));
            }
        }
    }

    /// Adds the cost of each judge to its entry of the results.
    pub(crate) fn add_costs(&self, evaluation: &mut Evaluated) {
        let Some(prices) = &self.prices else { return };
        let roles: Vec<String> = evaluation.judges.keys().map(repr::str).collect();
        for role in roles {
            let Some(entry) = evaluation.judges.get_str(&role).and_then(Value::as_dict) else { continue };
            let mut entry = entry.clone();
            let cost = prices.cost(&entry).map_or(Value::None, Value::Float);
            entry.insert("cost", cost);
            evaluation.judges.insert(role, entry);
        }
    }

    /// The tokens and the cost of the evaluated model, for the results; empty without prices.
    ///
    /// The cost is unknown if the model has no price, or if it did not report the tokens of every answer.
    pub(crate) fn model_usage(&self, settings: &RunSettings, used: ModelUsage) -> Dict {
        let Some(prices) = &self.prices else { return Dict::new() };
        let mut entry = Dict::new();
        entry.insert("model", settings.model.name.as_str());
        entry.insert("model_args", Value::from(settings.model.args.clone()));
        entry.insert("prompt_tokens", used.tokens.prompt_tokens as i64);
        entry.insert("completion_tokens", used.tokens.completion_tokens as i64);
        let cost = prices.cost(&entry).filter(|_| used.uncounted == 0);
        entry.remove_str("model");
        entry.remove_str("model_args");
        entry.insert("answers", used.answers as i64);
        entry.insert("answers_without_usage", used.uncounted as i64);
        entry.insert("cost", cost.map_or(Value::None, Value::Float));
        entry
    }
}

/// Creates the judges that the settings bind. Roles with the same model share it.
fn create(
    settings: &RunSettings,
    options: &PythonOptions,
    notes: &Notes,
    has_answers: bool,
) -> Result<Vec<JudgeModel>> {
    let mut made: Vec<(&JudgeBinding, Arc<dyn Model>)> = Vec::new();
    for binding in &settings.scoring.judges {
        let same =
            made.iter().find(|(other, _)| other.backend == binding.backend && other.args == binding.args);
        let model = match same {
            Some((_, model)) => Arc::clone(model),
            None => {
                let own = settings.for_judge(binding)?;
                let made = model::create(&own, options, notes, has_answers).map_err(|error| {
                    error.context(format!("The judge `{}` cannot be created", binding.role))
                })?;
                listen(&*made, &binding.role, notes);
                made
            }
        };
        made.push((binding, model));
    }
    let judge = |(binding, model): (&JudgeBinding, Arc<dyn Model>)| JudgeModel {
        role: binding.role.as_str().into(),
        model,
        settings: binding.shown(),
        in_caller: false,
    };
    Ok(made.into_iter().map(judge).collect())
}

/// Shows the warnings of a judge, and what it waits for.
fn listen(model: &dyn Model, role: &str, notes: &Notes) {
    if let Some(stats) = model.stats() {
        let (waiting, waiting_role) = (notes.clone(), role.to_owned());
        stats.on_wait(move |reason| waiting.info(&format!("The judge `{waiting_role}`: {reason}")));
        let (notes, role) = (notes.clone(), role.to_owned());
        stats.on_warning(move |warning| notes.warn(&format!("The judge `{role}`: {warning}")));
    }
}

/// The models that the judges use, each once: roles may share one.
pub(crate) fn models(judges: &[JudgeModel]) -> Vec<Arc<dyn Model>> {
    let mut models: Vec<Arc<dyn Model>> = Vec::new();
    for judge in judges {
        if !models.iter().any(|model| Arc::ptr_eq(model, &judge.model)) {
            models.push(Arc::clone(&judge.model));
        }
    }
    models
}

/// Reads the answers of the run that pairwise judges compare with.
fn baseline(settings: &RunSettings) -> Result<Option<Arc<Baseline>>> {
    let Some(path) = &settings.scoring.baseline else { return Ok(None) };
    let run = Run::open(path)?;
    if run.samples.is_empty() {
        let message = format!("`--baseline {}`: the run has no samples files", path.display());
        bail!(Diagnostic::new(message).hint("Make them with `--log_samples`"));
    }
    let mut baseline = Baseline::default();
    for file in &run.samples {
        add_answers(&mut baseline, &file.task, &file.path)?;
    }
    Ok(Some(Arc::new(baseline)))
}

fn add_answers(baseline: &mut Baseline, task: &str, path: &Path) -> Result<()> {
    for (index, line) in BufReader::new(fs::File::open(path)?).lines().enumerate() {
        let line = line?;
        if line.trim().is_empty() {
            continue;
        }
        let wrong = |what: &str| Diagnostic::new(format!("{}:{}: {what}", path.display(), index + 1));
        let fields = Fields::parse(&line).map_err(|_| wrong("the line is not a sample"))?;
        let document = fields.value("doc_id").and_then(|id| usize::try_from(id.as_i64()?).ok());
        let Some(document) = document else { bail!(wrong("the sample has no `doc_id`")) };
        let answers = fields.value("filtered_resps").or_else(|| fields.value("resps"));
        let Some(answer) = answers.as_ref().and_then(first_text) else {
            bail!(wrong("the sample has no answer"))
        };
        let filter = fields.text("filter");
        baseline.add(task, DocId(document), filter.as_deref().unwrap_or("none"), &answer);
    }
    Ok(())
}

/// The first string in nested lists.
fn first_text(value: &Value) -> Option<String> {
    match value {
        Value::Str(text) => Some(text.to_string()),
        Value::List(items) | Value::Tuple(items) => items.first().and_then(first_text),
        _ => None,
    }
}

/// The prices of a million tokens.
struct Price {
    input: f64,
    output: f64,
}

/// Prices by the name of the model or the backend.
struct Prices(Vec<(String, Price)>);

impl Prices {
    /// Reads the file: a mapping from names to `input` and `output`.
    fn read(path: &Path) -> Result<Self> {
        let wrong = |what: String| {
            Diagnostic::new(format!("`{}`: {what}", path.display()))
                .hint("Write the price of a million tokens: `{MODEL: {input: 0.15, output: 0.6}}`")
        };
        let loaded = yaml::load_bytes(&fs::read(path)?).map_err(|error| wrong(error.to_string()))?.value;
        let Some(models) = loaded.as_dict() else { bail!(wrong("not a mapping of models".to_owned())) };
        let mut prices = Vec::new();
        for (name, entry) in models.iter() {
            let name = repr::str(name);
            let price = |key: &str| {
                let given = entry.as_dict().and_then(|entry| entry.get_str(key)).and_then(Value::to_f64);
                given.filter(|price| price.is_finite() && *price >= 0.0)
            };
            let (Some(input), Some(output)) = (price("input"), price("output")) else {
                bail!(wrong(format!("the prices `input` and `output` of `{name}` must be numbers")));
            };
            prices.push((name, Price { input, output }));
        }
        Ok(Self(prices))
    }

    /// The cost of a model: by the name of its model, else of its backend.
    fn cost(&self, entry: &Dict) -> Option<f64> {
        let args = entry.get_str("model_args").and_then(Value::as_dict);
        let names = ["model", "pretrained"].into_iter().filter_map(|key| args?.get_str(key)).map(repr::str);
        let names = names.chain(entry.get_str("model").map(repr::str)).collect::<Vec<_>>();
        let find = |name: &String| self.0.iter().find(|(known, _)| known == name).map(|(_, price)| price);
        let price = names.iter().find_map(find)?;
        let tokens = |key: &str| entry.get_str(key).and_then(Value::to_f64).unwrap_or(0.0);
        let total = tokens("prompt_tokens") * price.input + tokens("completion_tokens") * price.output;
        Some(total / 1e6)
    }
}

/// Reports the tokens and the cost of the evaluated model.
pub(crate) fn report_model(usage: &Dict, printer: &Printer) {
    let count =
        |key: &str| usize::try_from(usage.get_str(key).and_then(Value::as_i64).unwrap_or(0)).unwrap_or(0);
    let mut line = format!("Model: {}", counted(count("answers"), "answer"));
    let tokens = count("prompt_tokens") + count("completion_tokens");
    if tokens > 0 {
        let _ = write!(line, ", {}", counted(tokens, "token"));
    }
    match (usage.get_str("cost"), count("answers_without_usage")) {
        (None, _) => return,
        (Some(Value::Float(cost)), _) => drop(write!(line, ", costing {cost:.4}")),
        (Some(_), 0) => line.push_str(", price unknown"),
        (Some(_), without) => drop(write!(line, ", cost unknown: {without} without a count of tokens")),
    }
    printer.notes().info(&line);
}

/// The judges of several results with the sums of their counts and costs.
pub(crate) fn total<'a>(results: impl Iterator<Item = &'a Dict>) -> Dict {
    let mut total = Dict::new();
    for judges in results.filter_map(|results| results.get_str("judges")).filter_map(Value::as_dict) {
        for (role, entry) in judges.iter() {
            let Some(entry) = entry.as_dict() else { continue };
            let sum = total.get(role).and_then(Value::as_dict).map(|before| sum(before, entry));
            total.insert(role.clone(), sum.unwrap_or_else(|| entry.clone()));
        }
    }
    total
}

/// The usage of the evaluated model in several results.
pub(crate) fn total_model_usage<'a>(results: impl Iterator<Item = &'a Dict>) -> Dict {
    let entries = results.filter_map(|results| results.get_str("model_usage")).filter_map(Value::as_dict);
    entries.cloned().reduce(|before, entry| sum(&before, &entry)).unwrap_or_default()
}

/// Adds the counts and the costs of two entries. A cost that is unknown in one of them is unknown.
fn sum(before: &Dict, entry: &Dict) -> Dict {
    let mut sum = entry.clone();
    for (key, value) in before.iter() {
        let added = match (value, entry.get(key)) {
            (Value::Int(one), Some(Value::Int(other))) => Value::Int(one + other),
            (Value::Float(one), Some(Value::Float(other))) => Value::Float(one + other),
            _ if key.as_str() == Some("cost") => Value::None,
            _ => continue,
        };
        sum.insert(key.clone(), added);
    }
    sum
}

/// Reports what judges were asked.
pub(crate) fn report(evaluation: &Evaluated, printer: &Printer) {
    let mut lines = String::new();
    for (role, entry) in evaluation.judges.iter() {
        let Some(entry) = entry.as_dict() else { continue };
        let count =
            |key: &str| usize::try_from(entry.get_str(key).and_then(Value::as_i64).unwrap_or(0)).unwrap_or(0);
        let tokens = count("prompt_tokens") + count("completion_tokens");
        let _ = write!(
            lines,
            "\n  {}: {} of `{}`",
            repr::str(role),
            counted(count("answers"), "answer"),
            entry.get_str("model").map(repr::str).unwrap_or_default()
        );
        if tokens > 0 {
            let _ = write!(lines, ", {}", counted(tokens, "token"));
        }
        match entry.get_str("cost") {
            Some(Value::Float(cost)) => drop(write!(lines, ", costing {cost:.4}")),
            Some(_) => lines.push_str(", price unknown"),
            None => {}
        }
    }
    if !lines.is_empty() {
        printer.notes().info(&format!("Judges:{lines}"));
    }
}

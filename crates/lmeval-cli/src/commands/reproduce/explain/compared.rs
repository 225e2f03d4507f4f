//! The files of two runs: settings, prompts and answers that differ, and where the difference of the scores arises.

use std::collections::BTreeMap;

use anyhow::Result;
use lmeval_analysis::compare::first_difference_of;
use lmeval_analysis::read::Run;
use lmeval_analysis::samples::{SampleReader, parts};
use lmeval_claims::claim::{Checked, differing_settings, settings_of};
use lmeval_claims::scores::Scores;
use lmeval_core::Dialect;
use lmeval_pycompat::{Dict, Value, json, repr};

use crate::table;
use crate::words::{counted, for_count, shell_word};

/// The seeds of a run that is given none.
const SEEDS: &str = "0,1234,1234,1234";

/// The longest value of a setting that is shown whole.
const SHOWN: usize = 60;

/// What the files of two runs show.
#[derive(Debug, Default)]
pub(super) struct Compared {
    pub(super) lines: Vec<String>,
    /// Whether the prompts of all common documents are known, and equal.
    pub(super) are_prompts_equal: bool,
}

/// Compares the files of two runs.
pub(super) fn compare(one: &Checked, claimed: &Run, run: &Run) -> Result<Compared> {
    let mut found = Compared::default();
    let empty = Dict::new();
    let (of_claim, of_run) =
        (claimed.results.as_ref().unwrap_or(&empty), run.results.as_ref().unwrap_or(&empty));
    let keys = (Scores::new(of_claim).key(&one.claim.task), Scores::new(of_run).key(&one.claim.task));
    let (Ok(claim_key), Ok(run_key)) = keys else { return Ok(found) };
    let differing = differing_settings((of_claim, &claim_key), (of_run, &run_key));
    if !differing.is_empty() {
        let rows: Vec<Vec<String>> =
            differing.iter().map(|one| vec![one.what.clone(), cut(&one.base), cut(&one.new)]).collect();
        let headers = ["Settings that differ", "Claim", "Run"].map(str::to_owned);
        found.lines.push(table::render(&headers, &rows, 3).trim_end().to_owned());
    }
    if claimed.samples_of(&claim_key).is_none() || run.samples_of(&run_key).is_none() {
        found.lines.push(
            "Prompts and answers are unknown: one of the runs was made without --log_samples".to_owned(),
        );
        return Ok(found);
    }
    let (claimed, run) = (documents(one, claimed, &claim_key)?, documents(one, run, &run_key)?);
    let mut pairs = claimed.iter().filter_map(|(id, one)| Some((one, run.get(id)?))).peekable();
    found.are_prompts_equal = pairs.peek().is_some() && pairs.all(|(one, run)| one.prompts == run.prompts);
    found.lines.extend(of_documents(&claimed, &run));
    Ok(found)
}

fn cut(text: &str) -> String {
    if text.chars().count() <= SHOWN {
        return text.to_owned();
    }
    text.chars().take(SHOWN).chain(['…']).collect()
}

/// What a document was asked and answered, and its score.
#[derive(Debug, Default)]
struct Document {
    prompts: Vec<String>,
    /// The options of generation.
    options: Dict,
    answers: Value,
    score: Option<f64>,
}

fn documents(one: &Checked, run: &Run, key: &str) -> Result<BTreeMap<i64, Document>> {
    let mut documents = BTreeMap::new();
    let Some(file) = run.samples_of(key) else { return Ok(documents) };
    let mut reader = SampleReader::open(run, file, None)?;
    while let Some(sample) = reader.read_next()? {
        let is_wanted = one.claim.filter.as_deref().is_none_or(|filter| filter == sample.filter());
        let (Some(id), true) = (sample.doc_id(), is_wanted) else { continue };
        let mut document =
            Document { answers: sample.value("resps")?.unwrap_or_default(), ..Document::default() };
        for request in parts::requests(&sample.value("arguments")?.unwrap_or_default()) {
            document.prompts.push(request.first().map(as_text).unwrap_or_default());
            if let Some(Value::Dict(options)) = request.get(1) {
                document.options = (**options).clone();
            }
        }
        let score = sample.scores()?.into_iter().find(|(metric, _)| *metric == one.claim.metric);
        document.score = score.and_then(|(_, value)| value.to_f64());
        documents.entry(id).or_insert(document);
    }
    Ok(documents)
}

fn as_text(prompt: &Value) -> String {
    prompt.as_str().map_or_else(|| repr::repr(prompt), str::to_owned)
}

/// Where the difference arises: in the prompts, in the answers to equal prompts, or in the scores of equal answers.
fn of_documents(claimed: &BTreeMap<i64, Document>, run: &BTreeMap<i64, Document>) -> Vec<String> {
    let pairs: Vec<(i64, &Document, &Document)> =
        claimed.iter().filter_map(|(id, one)| Some((*id, one, run.get(id)?))).collect();
    if pairs.is_empty() {
        return vec!["The runs have no document in common".to_owned()];
    }
    let mut lines = Vec::new();
    if claimed.len() != run.len() {
        lines.push(format!(
            "The claim is of {}, the run of {}",
            counted(claimed.len(), "document"),
            run.len()
        ));
    }
    let (other, same): (Vec<_>, Vec<_>) = pairs.iter().partition(|(_, one, run)| one.prompts != run.prompts);
    if let Some((id, one, run)) = other.first() {
        let count = format!("{} of {}", other.len(), counted(pairs.len(), "document"));
        let mut both = one.prompts.iter().zip(&run.prompts).filter(|(one, run)| one != run);
        let shown = match both.next() {
            Some((one, run)) => first_difference_of(("claim: ", one), ("run:   ", run)),
            None => format!("  {} and {}", counted(one.prompts.len(), "request"), run.prompts.len()),
        };
        lines.push(format!("{count} have another prompt, such as document {id}:\n{shown}"));
    }
    lines.extend(other_options(&pairs));
    if same.is_empty() {
        return lines;
    }
    let (other, same): (Vec<_>, Vec<_>) =
        same.into_iter().partition(|(_, one, run)| one.answers != run.answers);
    if !other.is_empty() {
        lines.push(format!(
            "{} with the same prompt {} another answer: the model, its engine or the options of generation differ",
            counted(other.len(), "document"),
            for_count(other.len(), "has", "have")
        ));
    }
    let rescored = same.iter().filter(|(_, one, run)| one.score != run.score).count();
    if rescored > 0 {
        lines.push(format!(
            "{} with the same prompt and answer {} another score: filters or metrics differ",
            counted(rescored, "document"),
            for_count(rescored, "has", "have")
        ));
    }
    lines
}

/// Options of generation that differ, as they were sent.
fn other_options(pairs: &[(i64, &Document, &Document)]) -> Vec<String> {
    let Some((_, one, run)) = pairs.iter().find(|(_, one, run)| one.options != run.options) else {
        return Vec::new();
    };
    let mut keys: Vec<&str> =
        one.options.keys().chain(run.options.keys()).filter_map(Value::as_str).collect();
    keys.sort_unstable();
    keys.dedup();
    let shown = |options: &Dict, key: &str| options.get_str(key).map_or("not set".to_owned(), repr::repr);
    let differs = |key: &&str| shown(&one.options, key) != shown(&run.options, key);
    let line = |key: &str| {
        format!(
            "`{key}` was {} for the claim and {} in the run",
            shown(&one.options, key),
            shown(&run.options, key)
        )
    };
    keys.into_iter().filter(differs).map(line).collect()
}

/// The command that asks the model of a run with its settings.
pub(super) fn command(claim: &str, run: &Run) -> String {
    let config = run.section("config");
    let of_config = |key: &str| config.and_then(|config| config.get_str(key));
    let mut words = vec!["lm-eval".to_owned(), "reproduce".to_owned(), shell_word(claim)];
    let mut add = |flag: &str, value: &str| words.extend([format!("--{flag}"), shell_word(value)]);
    add("model", &of_config("model").map_or_else(|| "NAME".to_owned(), repr::str));
    if let Some(args) = of_config("model_args").map(pairs).filter(|args| !args.is_empty()) {
        add("model_args", &args);
    }
    let empty = Dict::new();
    let settings = settings_of(run.results.as_ref().unwrap_or(&empty));
    for (key, value) in settings.iter() {
        let Some(key) = key.as_str() else { continue };
        match (key, value) {
            ("tasks", Value::List(tasks)) => {
                let names: Vec<String> = tasks.iter().map(repr::str).collect();
                add(key, &names.join(","));
            }
            ("seed", Value::List(seeds)) => {
                let seeds = seeds.iter().map(repr::str).collect::<Vec<_>>().join(",");
                if seeds != SEEDS {
                    add(key, &seeds);
                }
            }
            ("apply_chat_template", Value::Bool(true)) => {}
            // The defaults.
            ("compat", Value::Str(line)) if **line == *Dialect::default().name => {}
            ("compat" | "limit" | "fewshot_as_multiturn" | "system_instruction", value) => {
                add(key, &repr::str(value));
            }
            ("gen_kwargs", value) if value.is_truthy() => add(key, &pairs(value)),
            _ => {}
        }
    }
    if settings.contains_str("apply_chat_template") {
        words.push("--apply_chat_template".to_owned());
    }
    words.push("--explain".to_owned());
    words.join(" ")
}

/// A mapping as `key=value` pairs, or as JSON if a value is not simple.
fn pairs(value: &Value) -> String {
    let Some(dict) = value.as_dict() else {
        return if value.is_none() { String::new() } else { repr::str(value) };
    };
    let is_simple = |value: &Value| !matches!(value, Value::List(_) | Value::Dict(_) | Value::Tuple(_));
    if dict.values().all(is_simple) {
        let pair = |(key, value): (&Value, &Value)| format!("{}={}", repr::str(key), repr::str(value));
        return dict.iter().map(pair).collect::<Vec<_>>().join(",");
    }
    json::dumps(value, &json::Options::default()).unwrap_or_else(|_| repr::repr(value))
}

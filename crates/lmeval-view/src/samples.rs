//! Pages of samples, and one sample in full.

use fs_err as fs;
use lmeval_analysis::samples::Outcome;
use lmeval_analysis::summary::TaskSettings;
use lmeval_core::{Diagnostic, secrets};
use lmeval_pycompat::{Value, json as python_json};
use serde_json::Value as Json;

use crate::Error;
use crate::api::{
    Choice, DocField, FilterStep, Flag, Generation, Hashes, OtherFilter, Rolling, Sample, SamplePage,
    SampleRow, SampleValue, Text,
};
use crate::index::{FileIndex, read_line};
use crate::media;
use crate::prompt;
use crate::query::{Query, Selection};
use crate::record::{Record, argmax, context_text, real};
use crate::scan::FLAGS;
use crate::wire::{self, LONG, Num, SHORT};

/// Rows of a page at most.
const MOST_ROWS: usize = 1000;

/// The part of a selection that a page shows.
pub(crate) struct Page {
    pub(crate) offset: usize,
    pub(crate) limit: usize,
}

impl Page {
    pub(crate) fn parse(parameters: &[(String, String)]) -> Self {
        let number = |name: &str| {
            parameters.iter().find(|(key, _)| key == name).and_then(|(_, value)| value.parse().ok())
        };
        Self { offset: number("offset").unwrap_or(0), limit: number("limit").unwrap_or(100).min(MOST_ROWS) }
    }
}

/// The rows of a page, and the state of the index.
pub(crate) fn page(
    index: &FileIndex,
    selection: &Selection,
    query: &Query,
    page: &Page,
) -> Result<SamplePage, Error> {
    let rows = selection.rows.iter().skip(page.offset).take(page.limit).copied();
    let (places, metrics, state) = {
        let state = index.lock();
        let columns = &state.columns;
        let chosen =
            query.metric.as_ref().and_then(|name| columns.metrics.iter().find(|(known, _)| known == name));
        let places: Vec<(u32, u64, u32, Outcome, u8)> = rows
            .map(|row| {
                let at = row as usize;
                let outcome =
                    chosen.map_or(columns.outcomes[at], |(_, values)| Outcome::decide([Some(values[at])]));
                (row, columns.offsets[at], columns.lengths[at], outcome, columns.flags[at])
            })
            .collect();
        let metrics: Vec<String> = columns
            .filter_metrics
            .get(selection.filter)
            .into_iter()
            .flatten()
            .map(|metric| columns.metrics[*metric].0.clone())
            .collect();
        (places, metrics, FileIndex::progress(&state))
    };
    let file = fs::File::open(&index.path).map_err(|error| Diagnostic::new(error.to_string()))?;
    let mut shown = Vec::with_capacity(places.len());
    for (row, offset, length, outcome, flags) in places {
        let line = read_line(&file, offset, length)?;
        let Some(record) = Record::parse(&line) else { continue };
        shown.push(SampleRow {
            row,
            doc_id: record.doc_id(),
            input: Text::end_of(&record.prompt(), SHORT),
            target: Text::start_of(&record.target(), SHORT),
            answer: Text::start_of(&record.answer(), SHORT),
            filtered: Text::start_of(&filtered(&record), SHORT),
            values: metrics.iter().map(|metric| record.score(metric).map(Num)).collect(),
            outcome,
            flags: flag_names(flags),
            hit: query.needle.as_ref().and_then(|needle| needle.hit(&line)),
        });
    }
    Ok(SamplePage {
        index: state,
        filter: selection.filter_name.clone(),
        columns: metrics,
        total: selection.total,
        matched: selection.rows.len(),
        offset: page.offset,
        rows: shown,
        excerpt: None,
    })
}

/// The filtered answer in a list: empty for log-likelihoods, which filters rarely change.
pub(crate) fn filtered(record: &Record<'_>) -> String {
    if record.likelihoods().is_empty() { record.filtered().join("\n") } else { String::new() }
}

fn flag_names(flags: u8) -> Vec<Flag> {
    FLAGS.iter().filter(|(_, flag)| flags & flag != 0).map(|(name, _)| *name).collect()
}

/// One sample in full, with its neighbours in the selection.
pub(crate) fn sample(
    index: &FileIndex,
    selection: &Selection,
    (run, task): (&str, &str),
    row: u32,
    settings: &TaskSettings,
    is_full: bool,
) -> Result<Sample, Error> {
    let limit = if is_full { usize::MAX } else { LONG };
    let at = row as usize;
    let found = {
        let state = index.lock();
        let columns = &state.columns;
        (at < columns.len()).then(|| {
            let (id, hash) = (columns.doc_ids[at], columns.hashes[at]);
            let same = (0..columns.len()).filter(|other| {
                *other != at
                    && columns.doc_ids[*other] == id
                    && columns.hashes[*other] == hash
                    && columns.filters[*other] != columns.filters[at]
            });
            let others: Vec<OtherFilter> = same
                .map(|other| OtherFilter {
                    filter: columns.filter_names[columns.filters[other] as usize].clone(),
                    row: other,
                })
                .collect();
            (columns.offsets[at], columns.lengths[at], columns.outcomes[at], columns.flags[at], others)
        })
    };
    let Some((offset, length, outcome, flags, others)) = found else {
        return Err(Diagnostic::new(format!("`{task}` has no sample {row}")).into());
    };
    let line = index.line(offset, length)?;
    let record = Record::parse(&line)
        .ok_or_else(|| Diagnostic::new("The file changed while it was read").hint("Reload the page"))?;
    let position = selection.rows.iter().position(|known| *known == row);
    let neighbour = |position: Option<usize>| selection.rows.get(position?).copied();
    let text = |text: &str| Text::start_of(text, limit);
    let field = |field: String, value: &Value| DocField { field, value: text(&pretty(value)) };
    let doc = match record.fields.value("doc") {
        Some(Value::Dict(doc)) => doc.iter().map(|(name, value)| field(wire::plain(name), value)).collect(),
        Some(other) => vec![field("doc".to_owned(), &other)],
        None => Vec::new(),
    };
    let hash = |name: &str| record.fields.text(name).map(std::borrow::Cow::into_owned);
    Ok(Sample {
        run: run.to_owned(),
        task: task.to_owned(),
        row,
        doc_id: record.doc_id(),
        filter: record.filter(),
        previous: neighbour(position.and_then(|position| position.checked_sub(1))),
        next: neighbour(position.map(|position| position + 1)),
        position,
        matched: selection.rows.len(),
        prompt: prompt::describe(&record, settings, limit),
        choices: choices(&record, &text),
        rolling: rolling(&record),
        generations: generations(&record, &text),
        steps: steps(&record, settings, &text),
        target: text(&record.target()),
        values: values(&record),
        outcome,
        flags: flag_names(flags),
        doc,
        media: media::files(&record, index.previews()),
        hashes: Hashes { doc: hash("doc_hash"), prompt: hash("prompt_hash"), target: hash("target_hash") },
        raw: text(&line),
        other_filters: others,
    })
}

/// A value for reading: strings as they are, others as JSON.
fn pretty(value: &Value) -> String {
    if let Value::Str(text) = value {
        return text.to_string();
    }
    let options = python_json::Options { ensure_ascii: false, ..python_json::Options::default() };
    python_json::dumps(value, &options).unwrap_or_else(|_| wire::plain(value))
}

/// The choices of a multiple-choice document with what the model made of them.
fn choices(record: &Record<'_>, text: &dyn Fn(&str) -> Text) -> Vec<Choice> {
    let likelihoods = record.likelihoods();
    if likelihoods.is_empty() {
        return Vec::new();
    }
    let count = record.choice_count();
    let own_contexts = count == record.requests.len() && record.has_own_contexts();
    let gold = record.gold(count);
    let logprobs: Vec<f64> = likelihoods[..count].iter().map(|found| found.logprob).collect();
    // Lengths are those of the choice alone; what is before it belongs to the prompt.
    let texts: Vec<&str> = record.requests[..count]
        .iter()
        .map(|request| request.continuation.as_deref().unwrap_or_default())
        .collect();
    let per = |length: &dyn Fn(&str) -> usize| -> Vec<Option<f64>> {
        let bare = texts.iter().map(|text| text.strip_prefix([' ', '\n', '\t']).unwrap_or(text));
        let lengths = bare.map(length).zip(&logprobs);
        lengths.map(|(length, logprob)| (length > 0).then(|| logprob / length as f64)).collect()
    };
    let per_byte = per(&|text| text.len());
    let per_char = per(&|text| text.chars().count());
    let best = argmax(logprobs.iter().copied());
    let best_of = |values: &[Option<f64>]| argmax(values.iter().map(|value| value.unwrap_or(f64::NAN)));
    let (best_per_byte, best_per_char) = (best_of(&per_byte), best_of(&per_char));
    let shares = softmax(&logprobs);
    let byte_shares: Option<Vec<f64>> = per_byte.iter().copied().collect();
    let byte_shares = byte_shares.map(|values| softmax(&values));
    (0..count)
        .map(|at| Choice {
            text: text(texts[at]),
            context: own_contexts.then(|| text(&context_text(&record.requests[at].context))),
            loglikelihood: Num(logprobs[at]),
            per_byte: per_byte[at].map(Num),
            per_char: per_char[at].map(Num),
            per_token: None,
            tokens: None,
            probability: Num(shares[at]),
            probability_per_byte: byte_shares.as_ref().map(|shares| Num(shares[at])),
            is_greedy: likelihoods[at].is_greedy,
            is_gold: gold.as_ref().map(|gold| gold.contains(&at)),
            is_best: best == Some(at),
            is_best_per_byte: best_per_byte == Some(at),
            is_best_per_char: best_per_char == Some(at),
        })
        .collect()
}

/// Probabilities relative to each other.
fn softmax(logprobs: &[f64]) -> Vec<f64> {
    let most = logprobs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let shares: Vec<f64> = logprobs.iter().map(|logprob| (logprob - most).exp()).collect();
    let total: f64 = shares.iter().sum();
    shares.into_iter().map(|share| share / total).collect()
}

/// Log-likelihoods of whole documents.
fn rolling(record: &Record<'_>) -> Vec<Rolling> {
    if record.requests.iter().any(|request| request.settings.is_some()) || !record.likelihoods().is_empty() {
        return Vec::new();
    }
    let numbers = record.answers.iter().flatten().map(|answer| match answer {
        Value::List(items) => items.first().and_then(real),
        other => real(other),
    });
    let found: Option<Vec<Rolling>> =
        numbers.map(|number| number.map(|value| Rolling { loglikelihood: Num(value) })).collect();
    found.unwrap_or_default()
}

fn generations(record: &Record<'_>, text: &dyn Fn(&str) -> Text) -> Vec<Generation> {
    if !record.likelihoods().is_empty() || !rolling(record).is_empty() {
        return Vec::new();
    }
    let settings = |at: usize| {
        let settings = record.requests.get(at).and_then(|request| request.settings.as_ref());
        settings.map_or(Json::Null, |settings| wire::json(&secrets::mask_secrets(settings)))
    };
    let reasoning = record.fields.value("reasoning");
    let reasoning_of = |at: usize, repeat: usize| {
        let all = reasoning.as_ref()?.as_list()?.get(at)?.as_list()?;
        let own = all.get(repeat)?.as_str().filter(|own| !own.trim().is_empty());
        own.map(|own| text(own.trim()))
    };
    let entries = record.answers.iter().enumerate().map(|(at, answers)| Generation {
        settings: settings(at),
        repeats: answers.iter().map(|answer| text(&wire::plain(answer))).collect(),
        reasoning: (0..answers.len()).map(|repeat| reasoning_of(at, repeat)).collect(),
    });
    entries.collect()
}

/// From raw answers to what was scored: the filters that the configuration names, then the outcome.
fn steps(record: &Record<'_>, settings: &TaskSettings, text: &dyn Fn(&str) -> Text) -> Vec<FilterStep> {
    // Filters change nothing about log-likelihoods, which are shown with the choices.
    if !record.likelihoods().is_empty() || !rolling(record).is_empty() {
        return Vec::new();
    }
    let name = record.filter();
    let mut steps = Vec::new();
    let pipelines = settings.config.get_str("filter_list").and_then(Value::as_list).unwrap_or_default();
    let pipeline = pipelines
        .iter()
        .filter_map(Value::as_dict)
        .find(|pipeline| pipeline.get_str("name").and_then(Value::as_str) == Some(name.as_str()));
    let functions = pipeline.and_then(|pipeline| pipeline.get_str("filter")).and_then(Value::as_list);
    for function in functions.unwrap_or_default().iter().filter_map(Value::as_dict) {
        let mut arguments = function.clone();
        let name = arguments.remove_str("function").map(|name| wire::plain(&name)).unwrap_or_default();
        let detail = (!arguments.is_empty()).then(|| pretty(&Value::from(arguments)));
        steps.push(FilterStep { name, detail, output: None });
    }
    let output = record.filtered().iter().map(|answer| text(answer)).collect();
    steps.push(FilterStep { name, detail: None, output: Some(output) });
    steps
}

fn values(record: &Record<'_>) -> Vec<SampleValue> {
    let repeats = match record.fields.value("scores_per_repeat") {
        Some(Value::Dict(repeats)) => Some(repeats),
        _ => None,
    };
    crate::scan::metric_names(&record.fields)
        .into_iter()
        .map(|metric| {
            let shown = record.fields.value(&metric).map(|value| pretty(&value)).unwrap_or_default();
            let per_repeat = repeats.as_ref().and_then(|repeats| repeats.get_str(&metric)?.as_list());
            SampleValue {
                value: record.score(&metric).map(Num),
                text: shown.chars().take(SHORT).collect(),
                per_repeat: per_repeat
                    .map(|values| values.iter().map(|value| value.to_f64().map(Num)).collect()),
                metric,
            }
        })
        .collect()
}

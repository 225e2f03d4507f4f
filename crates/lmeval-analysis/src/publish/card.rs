//! A Markdown table with the settings of the run, for a model card.

use std::fmt::Write as _;

use lmeval_pycompat::Value;

use super::output::Output;
use super::record::{Record, is_share, iso, text};
use crate::Error;
use crate::summary::{Score, TaskSummary};

/// Settings in the card, with their labels.
const SETTINGS: [(&str, &str); 13] = [
    ("model", "Backend"),
    ("model_args", "Model arguments"),
    ("num_fewshot", "Few-shot examples, if set for all tasks"),
    ("limit", "Documents per task"),
    ("gen_kwargs", "Generation options, if set for all tasks"),
    ("system_instruction", "System instruction"),
    ("fewshot_as_multiturn", "Few-shot examples as turns"),
    ("max_length", "Context length"),
    ("fewshot_seed", "Few-shot seed"),
    ("compat", "Dialect"),
    ("lm_eval_version", "lm-eval"),
    ("transformers_version", "transformers"),
    ("device", "Device"),
];

/// Writes `card.md`.
pub(super) fn write(record: &Record, output: &mut Output) -> Result<(), Error> {
    let mut card = format!("## Evaluation of {}\n\n", record.model());
    card += "| Task | Version | Shots | Filter | Metric | | Score | 95 % interval | Documents |\n";
    card += "|---|---|---|---|---|---|--:|---|--:|\n";
    for task in &record.summary.tasks {
        for score in &task.scores {
            line(&mut card, &cells(task, score));
        }
    }
    card += "\n| Setting | Value |\n|---|---|\n";
    for (name, value) in settings(record) {
        line(&mut card, &[name, value]);
    }
    output.write("card.md", &card)
}

fn cells(task: &TaskSummary, score: &Score) -> [String; 9] {
    let given = |value: Option<&Value>| value.map(text).unwrap_or_default();
    let number = |value: Option<f64>| value.map_or("—".to_owned(), |value| format!("{value:.4}"));
    let stderr = score.stderr.map(|stderr| format!(" ± {stderr:.4}")).unwrap_or_default();
    // Of other scores the interval is only an approximation, which ends below zero for a perplexity.
    let interval = score
        .interval
        .filter(|_| is_share(score))
        .map(|interval| format!("{:.4} to {:.4}", interval.low, interval.high));
    let direction = score.higher_is_better.map_or("", |is_higher| if is_higher { "↑" } else { "↓" });
    [
        task.name.clone(),
        given(task.version.as_ref()),
        given(task.num_fewshot.as_ref()),
        score.filter.clone(),
        score.metric.clone(),
        direction.to_owned(),
        number(score.value) + &stderr,
        interval.unwrap_or_default(),
        task.documents.map(|documents| format!("{documents}")).unwrap_or_default(),
    ]
}

fn settings(record: &Record) -> Vec<(String, String)> {
    let present = SETTINGS.iter().filter_map(|(key, label)| {
        let value = record.setting(key)?;
        Some(((*label).to_owned(), text(value)))
    });
    let mut rows: Vec<(String, String)> = present.collect();
    let template = record.setting("chat_template").map_or("no".to_owned(), |_| {
        let sha = record.run.results.as_ref().and_then(|results| results.get_str("chat_template_sha"));
        sha.and_then(Value::as_str).map_or("yes".to_owned(), |sha| format!("yes, SHA-256 {sha}"))
    });
    rows.push(("Chat template".to_owned(), template));
    for task in &record.summary.tasks {
        let options = record.generation(&task.name).map(|options| text(&Value::from(options.clone())));
        rows.extend(options.map(|options| (format!("Generation options of {}", task.name), options)));
    }
    rows.extend(record.summary.date.map(|date| ("Date".to_owned(), iso(date))));
    rows
}

/// A row of a table; nothing in a cell ends it.
fn line(card: &mut String, cells: &[String]) {
    let escaped = cells.iter().map(|cell| {
        let mut shown = String::with_capacity(cell.len());
        for letter in cell.chars() {
            match letter {
                '|' => shown.push_str("\\|"),
                '\n' | '\r' => shown.push(' '),
                '<' => shown.push_str("&lt;"),
                _ => shown.push(letter),
            }
        }
        shown
    });
    let cells: Vec<String> = escaped.collect();
    // Writing to a string cannot fail.
    let _ = writeln!(card, "| {} |", cells.join(" | "));
}

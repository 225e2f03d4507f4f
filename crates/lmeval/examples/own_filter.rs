//! A custom filter: `cargo run -p lmeval --example own_filter`.
//!
//! A filter gets the answers to many requests at once and returns the same number. Task files name it under `filter_list`,
//! with keyword arguments.

#![expect(clippy::print_stdout, reason = "an example shows its result")]

use std::error::Error;

use lmeval::filters::{Arguments, Filter, FilterDocs, FilterError, Filtered, Responses};
use lmeval::{Evaluation, FilterEntry, OptionEntry, OptionKind, OptionTable, Registry, Value};

/// Keeps the last words of every answer.
#[derive(Debug)]
struct LastWords {
    count: usize,
}

impl LastWords {
    fn new(arguments: &Arguments<'_>) -> Result<Self, FilterError> {
        Ok(Self { count: usize::try_from(arguments.integer("count", 1)?).unwrap_or(0) })
    }
}

impl Filter for LastWords {
    fn apply(&self, mut responses: Responses, _: &FilterDocs<'_>) -> Result<Filtered, FilterError> {
        for answer in responses.iter_mut().flatten() {
            if let Some(text) = answer.as_str() {
                let words: Vec<&str> = text.split_whitespace().collect();
                *answer = Value::str(words[words.len().saturating_sub(self.count)..].join(" "));
            }
        }
        Ok(Filtered::from(responses))
    }

    // Lets the run drop documents that nothing needs.
    fn needs_documents(&self) -> bool {
        false
    }
}

const OPTIONS: &[OptionEntry] = &[OptionEntry::optional("count", OptionKind::Integer, "1")];

/// Runs the example.
pub fn main() -> Result<(), Box<dyn Error>> {
    let mut registry = Registry::default();
    let entry = FilterEntry::new("last_words", |arguments, _| Ok(Box::new(LastWords::new(arguments)?)));
    registry.register(
        entry.options(OptionTable::strict(OPTIONS)).summary("Keeps the last words of every answer"),
    )?;

    let results = Evaluation::new("ngram")
        .tasks(["demo_arithmetic"])
        .override_task(
            "demo_arithmetic",
            "filter_list: [{name: last, filter: [{function: last_words, count: 1}, {function: take_first}]}]",
        )?
        .registry(registry)
        .limit(5)
        .run()?;
    let score = results.score("demo_arithmetic", "exact_match,last").ok_or("no score")?;
    println!("exact_match of the last word: {score:.3}");
    Ok(())
}

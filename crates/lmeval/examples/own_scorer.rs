//! A custom scorer: `cargo run -p lmeval --example own_scorer`.
//!
//! A scorer computes named values for each document, for cases that filters and metrics do not cover.

#![expect(clippy::print_stdout, reason = "an example shows its result")]

use std::error::Error;
use std::sync::Arc;

use lmeval::scorers::{ScoreError, Scorer, Scores, ScoringInput};
use lmeval::{Evaluation, Registry, ScorerEntry, Value};

/// How close a number in the answer is to the target: 1 if equal, less with growing distance.
#[derive(Debug)]
struct Closeness {
    /// The distance at which the value is one half.
    scale: f64,
}

impl Scorer for Closeness {
    fn name(&self) -> &'static str {
        "closeness"
    }

    fn score(&self, input: &ScoringInput<'_>) -> Result<Scores<Vec<Value>>, ScoreError> {
        let number = |value: &Value| value.as_str().and_then(|text| text.trim().parse::<f64>().ok());
        let target = number(input.reference()?);
        let values = input.predictions()?.iter().map(|answer| match (target, number(answer)) {
            (Some(target), Some(answer)) => Value::Float(self.scale / (self.scale + (target - answer).abs())),
            _ => Value::Float(0.0),
        });
        Ok([("closeness", values.collect())].into_iter().collect())
    }
}

/// Runs the example.
pub fn main() -> Result<(), Box<dyn Error>> {
    let mut registry = Registry::default();
    registry.register(ScorerEntry::new("closeness", |kwargs| {
        let scale = kwargs.get_str("scale").and_then(Value::to_f64).unwrap_or(1.0);
        Ok(Arc::new(Closeness { scale }))
    }))?;

    let results = Evaluation::new("ngram")
        .tasks(["demo_arithmetic"])
        .override_task(
            "demo_arithmetic",
            "scorer: {type: closeness, kwargs: {scale: 10}}\n\
             metric_list: [{metric: closeness, aggregation: mean}]\n",
        )?
        .registry(registry)
        .limit(5)
        .run()?;
    let score = results.score("demo_arithmetic", "closeness,flexible-extract").ok_or("no score")?;
    println!("closeness: {score:.3}");
    Ok(())
}

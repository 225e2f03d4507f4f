//! A custom metric: `cargo run -p lmeval --example own_metric`.
//!
//! The metric function gets one document and its answers. The aggregation, the direction and the options for task files
//! are declared next to it.

#![expect(clippy::print_stdout, reason = "an example shows its result")]

use std::error::Error;

use lmeval::metrics::aggregation::Mean;
use lmeval::{
    Evaluation, Metric, MetricEntry, Number, OptionEntry, OptionKind, OptionTable, OutputType, Registry,
    Value,
};

const OPTIONS: &[OptionEntry] = &[OptionEntry::optional("ignore_case", OptionKind::Truth, "False")];

/// The fraction of the target's words that occur in an answer.
fn word_recall() -> Metric<Number> {
    Metric::new("word_recall", &[OutputType::GenerateUntil], Mean, |options| {
        // Options are read once per task, not once per document.
        let ignore_case = options.get_str("ignore_case").is_some_and(Value::is_truthy);
        let text = move |value: &Value| {
            let text = value.as_str().unwrap_or_default();
            if ignore_case { text.to_lowercase() } else { text.to_owned() }
        };
        Ok(Box::new(move |input| {
            let (targets, answers) = input.generation()?;
            let target = targets.first().map(text).unwrap_or_default();
            let recall = |answer: &Value| {
                let answer = text(answer);
                let found = target.split_whitespace().filter(|word| answer.contains(word)).count();
                Number::Float(found as f64 / target.split_whitespace().count().max(1) as f64)
            };
            Ok(answers.iter().map(recall).collect())
        }))
    })
    .with_options(OptionTable::strict(OPTIONS))
    .with_summary("The fraction of the target's words that occur in the answer")
}

/// Runs the example.
pub fn main() -> Result<(), Box<dyn Error>> {
    let mut registry = Registry::default();
    registry.register(MetricEntry::from(word_recall()))?;

    let evaluation = |metric: &str| {
        Evaluation::new("ngram")
            .tasks(["demo_translate"])
            .override_task("demo_translate", &format!("{{metric_list: [{metric}]}}"))
            .map(|evaluation| evaluation.registry(registry.clone()).limit(10))
    };
    // Validation knows the metric and its options.
    let findings = evaluation("{metric: word_recall, ignore_caes: true}")?.validate()?;
    println!("{}", findings.first().ok_or("no finding")?.diagnostic.message);

    let results = evaluation("{metric: word_recall, ignore_case: true}")?.run()?;
    let score = results.score("demo_translate", "word_recall").ok_or("no score")?;
    println!("word_recall: {score:.3}");
    Ok(())
}

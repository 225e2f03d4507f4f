//! Gates over several tasks: one decision from many small differences.
//!
//! A loss of one point is invisible in each of eight tasks and plain in all of them together. Four rules pool paired differences; each
//! bounds the chance to fail a model that lost nothing.

use lmeval_core::Diagnostic;

use crate::Error;
use crate::compare::{Compared, Difference, Test};
use crate::gate::{Gate, Verdict};
use crate::stats::{
    Interval, documents_needed, mcnemar_loss, normal_cdf, normal_quantile, paired_proportions, weighted_sum,
};

/// How differences of several tasks become one decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Each document counts the same: the tasks are one large task.
    Documents,
    /// Each task counts the same: the mean of the differences.
    Tasks,
    /// The task with the strongest evidence of a loss, corrected for the number of tasks.
    Worst,
    /// Fisher's combination of the evidence of all tasks, which sees a loss in some of them.
    Fisher,
}

/// All rules with their names.
const RULES: [(&str, Rule); 4] = [
    ("documents", Rule::Documents),
    ("tasks", Rule::Tasks),
    ("worst", Rule::Worst),
    ("fisher", Rule::Fisher),
];

impl Rule {
    /// The word before the scores.
    pub fn name(self) -> &'static str {
        RULES.iter().find(|(_, rule)| *rule == self).map_or("", |(name, _)| name)
    }
}

/// A condition on the differences of several scores, such as `tasks(gsm8k:exact_match, mmlu:acc) >= -0.005`.
#[derive(Clone, Debug, PartialEq)]
pub struct PooledGate {
    /// How they are pooled.
    pub rule: Rule,
    /// A gate for each score, all with the same margin.
    pub of: Vec<Gate>,
}

/// The outcome of a pooled gate.
#[derive(Clone, Copy, Debug)]
pub struct Pooled {
    /// Whether the condition holds.
    pub verdict: Verdict,
    /// The pooled difference: the mean by documents or tasks, or that of the worst task.
    pub difference: f64,
    /// The confidence interval of the difference.
    pub interval: Interval,
    /// The one-sided p-value of the rules that combine p-values.
    pub p_value: Option<f64>,
    /// The documents of all tasks that would probably decide, if the difference stays as it is.
    pub needed: f64,
}

impl PooledGate {
    /// Reads `RULE(TASK:METRIC, …) >= MARGIN`; `None` if the text does not begin with a rule.
    ///
    /// ```
    /// use lmeval_analysis::pool::PooledGate;
    ///
    /// let gate = PooledGate::parse("tasks(a:acc, b:exact_match,strict) >= -0.01").unwrap().unwrap();
    /// assert_eq!(gate.of[1].metric, "exact_match,strict");
    /// assert!(PooledGate::parse("mmlu:acc >= -0.01").is_none());
    /// assert!(PooledGate::parse("tasks(a:acc >= -0.01").unwrap().is_err());
    /// ```
    pub fn parse(text: &str) -> Option<Result<Self, Error>> {
        let (name, rest) = text.trim_start().split_once('(')?;
        let (_, rule) = RULES.into_iter().find(|(known, _)| *known == name.trim())?;
        let wrong = || -> Error {
            Diagnostic::new(format!("`{text}` is not a gate over several tasks"))
                .hint("Write RULE(TASK:METRIC, TASK:METRIC, …) >= MARGIN with the rule documents, tasks, worst or fisher")
                .into()
        };
        let Some((scores, condition)) = rest.split_once(')') else { return Some(Err(wrong())) };
        // A filter follows its metric after a comma, a score has a colon.
        let mut words: Vec<String> = Vec::new();
        for part in scores.split(',').map(str::trim) {
            match words.last_mut() {
                Some(last) if !part.contains(':') => {
                    last.push(',');
                    last.push_str(part);
                }
                _ => words.push(part.to_owned()),
            }
        }
        let of: Result<Vec<Gate>, Error> = words
            .iter()
            .map(|word| Gate::parse(&format!("{word} {condition}")).map_err(|_| wrong()))
            .collect();
        Some(of.map(|of| Self { rule, of }))
    }

    /// Decides by the differences of all scores that the gate is about. Fails if one of them is missing or has several filters.
    pub fn decide(
        &self,
        text: &str,
        scores: &[Compared],
        confidence: f64,
        power: f64,
    ) -> Result<Pooled, Error> {
        let mut found: Vec<&Difference> = Vec::new();
        for gate in &self.of {
            let mut about = scores.iter().filter(|score| gate.is_about(score));
            match (about.next(), about.next()) {
                (Some(score), None) => found.push(&score.outcome),
                (Some(score), Some(other)) => {
                    let message = format!(
                        "The gate `{text}` does not say which filter of `{}:{}` it is about",
                        gate.task, gate.metric
                    );
                    let hint = format!(
                        "Name one: `{0}:{1},{2}` or `{0}:{1},{3}`",
                        gate.task, gate.metric, score.filter, other.filter
                    );
                    return Err(Diagnostic::new(message).hint(hint).into());
                }
                (None, _) => return Err(missing(text, gate, scores).into()),
            }
        }
        // Parsed gates have at least one score.
        let Some(first) = self.of.first() else {
            return Err(Diagnostic::new(format!("`{text}` names no scores")).into());
        };
        Ok(pool(self.rule, &found, first, confidence, power))
    }
}

fn missing(text: &str, gate: &Gate, scores: &[Compared]) -> Diagnostic {
    let known: Vec<String> = scores.iter().map(|score| format!("{}:{}", score.task, score.metric)).collect();
    let (task, metric) = (&gate.task, &gate.metric);
    Diagnostic::new(format!("The gate `{text}` is about `{task}:{metric}`, which the runs do not share"))
        .hint(format!("They share {}", known.join(", ")))
}

/// Pools differences. The gate has the margin and its direction.
pub fn pool(rule: Rule, of: &[&Difference], gate: &Gate, confidence: f64, power: f64) -> Pooled {
    let alpha = 1.0 - confidence;
    let documents: usize = of.iter().map(|one| one.count).sum();
    let (difference, interval, p_value) = match rule {
        Rule::Documents => {
            let (difference, interval) = by_documents(of, documents, confidence);
            (difference, interval, None)
        }
        Rule::Tasks => {
            let share = 1.0 / of.len() as f64;
            let (difference, interval) = weighted_sum(&parts(of, |_| share));
            (difference, interval, None)
        }
        Rule::Worst | Rule::Fisher => {
            let p_values: Vec<f64> = of.iter().map(|one| evidence_of_loss(one, gate, confidence)).collect();
            let order = |left: &usize, right: &usize| p_values[*left].total_cmp(&p_values[*right]);
            let worst = (0..of.len()).min_by(order).unwrap_or_default();
            let p_value = match rule {
                // Šidák: the chance that the smallest of independent p-values is this small.
                Rule::Worst => 1.0 - (1.0 - p_values[worst]).powi(of.len() as i32),
                _ => fisher(&p_values),
            };
            (of[worst].difference, of[worst].interval, Some(p_value))
        }
    };
    let verdict = match p_value {
        None => gate.decide(interval),
        // The interval of a gate has half of alpha on each side.
        Some(p_value) if p_value < 0.5 * alpha => Verdict::Fail,
        Some(_) if of.iter().all(|one| gate.decide(one.interval) == Verdict::Pass) => Verdict::Pass,
        Some(_) => Verdict::Inconclusive,
    };
    let stderr = 0.5 * (interval.high - interval.low) / normal_quantile(1.0 - 0.5 * alpha);
    let needed = documents_needed(stderr, documents, difference - gate.margin, alpha, power);
    Pooled { verdict, difference, interval, p_value, needed }
}

fn parts(of: &[&Difference], weight: impl Fn(&Difference) -> f64) -> Vec<(f64, f64, Interval)> {
    of.iter().map(|one| (weight(one), one.difference, one.interval)).collect()
}

/// All documents as those of one task: exactly so for right and wrong answers.
fn by_documents(of: &[&Difference], documents: usize, confidence: f64) -> (f64, Interval) {
    if of.iter().all(|one| one.test == Test::McNemar) {
        let sum = |part: fn(&Difference) -> usize| of.iter().map(|one| part(one)).sum::<usize>() as u64;
        let (up, down) = (sum(|one| one.up), sum(|one| one.down));
        let difference = (up as f64 - down as f64) / documents as f64;
        return (difference, paired_proportions(up, down, documents as u64, confidence));
    }
    weighted_sum(&parts(of, |one| one.count as f64 / documents as f64))
}

/// The one-sided p-value of a loss beyond the margin: exact for right and wrong answers and a margin of 0, else from the interval.
fn evidence_of_loss(one: &Difference, gate: &Gate, confidence: f64) -> f64 {
    if one.test == Test::McNemar && gate.margin == 0.0 {
        let (won, lost) = if gate.at_most { (one.down, one.up) } else { (one.up, one.down) };
        return mcnemar_loss(won as u64, lost as u64);
    }
    let sign = if gate.at_most { -1.0 } else { 1.0 };
    let distance = sign * (one.difference - gate.margin);
    // The arm of the interval that points to the margin.
    let arm = if one.difference < gate.margin {
        one.interval.high - one.difference
    } else {
        one.difference - one.interval.low
    };
    if arm > 0.0 {
        normal_cdf(distance * normal_quantile(0.5 + 0.5 * confidence) / arm)
    } else if distance < 0.0 {
        0.0
    } else {
        1.0
    }
}

/// Fisher's combined p-value: `−2·Σ ln p` is χ² with twice as many degrees of freedom as there are p-values.
fn fisher(p_values: &[f64]) -> f64 {
    let half: f64 = -p_values.iter().map(|p_value| p_value.ln()).sum::<f64>();
    if half.is_infinite() {
        return 0.0;
    }
    let (mut term, mut sum) = (1.0, 1.0);
    for index in 1..p_values.len() {
        term *= half / index as f64;
        sum += term;
    }
    (sum * (-half).exp()).min(1.0)
}

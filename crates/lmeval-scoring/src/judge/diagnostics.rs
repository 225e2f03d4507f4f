//! The value of a judged document, and what the judgements of a task say about the judge.

use std::sync::Arc;

use lmeval_metrics::agreement::{Level, cohen_kappa, krippendorff_alpha};
use lmeval_metrics::preference::{length_controlled, win_rate};
use lmeval_pycompat::{Dict, Value};

use super::call::Judgement;
use super::reduce::{Reduce, mean};
use super::scale::Scale;
use super::spec::JudgeSpec;
use crate::scorers::AnsweredDocument;

/// The vote of one judge on one answer: one judgement, or one for each order of two answers.
struct Vote<'a> {
    role: &'a Arc<str>,
    sample: usize,
    /// The value; `None` if a judgement has no verdict.
    value: Option<f64>,
    /// Whether the orders disagree; `None` if there are not two verdicts.
    flipped: Option<bool>,
}

/// The value of each answer as one rater sees it; `None` where it has none.
type Ratings = Vec<Option<f64>>;

/// A judged document.
pub(super) struct JudgedDocument {
    /// The value; `None` if no vote counts.
    pub(super) value: Option<f64>,
    /// The values if all judgements without a verdict were the worst and the best; `None` without any judgement.
    bounds: Option<(f64, f64)>,
}

impl JudgeSpec {
    /// The value of a document.
    pub(super) fn outcome(&self, document: &AnsweredDocument, pipeline: &str) -> JudgedDocument {
        let votes = votes(document, pipeline);
        let (low, high) = self.scale.ends();
        let value = |missing: Option<f64>| {
            let answers: Vec<f64> = votes
                .iter()
                .filter_map(|votes| {
                    let values: Vec<f64> = votes.iter().filter_map(|vote| vote.value.or(missing)).collect();
                    self.reduce.apply(&values)
                })
                .collect();
            (!answers.is_empty()).then(|| mean(&answers))
        };
        JudgedDocument {
            value: value(self.on_unparsed.value),
            bounds: value(Some(low)).zip(value(Some(high))),
        }
    }

    /// Counts and statistics of all judgements, for the results.
    pub(super) fn diagnostics(&self, pipeline: &str, documents: &[AnsweredDocument]) -> Dict {
        let mut dict = self.to_dict();
        let outcomes: Vec<JudgedDocument> =
            documents.iter().map(|document| self.outcome(document, pipeline)).collect();
        let judgements: Vec<&Judgement> =
            documents.iter().flat_map(|document| document.judgements_of(pipeline)).collect();
        let scored = outcomes.iter().filter(|outcome| outcome.value.is_some()).count();
        let unjudged = outcomes.iter().filter(|outcome| outcome.bounds.is_none()).count();
        let failed = judgements.iter().filter(|judgement| judgement.answer.is_none()).count();
        let without = judgements.iter().filter(|judgement| judgement.value.is_none()).count();
        let retried = judgements.iter().filter(|judgement| judgement.attempts > 1).count();
        for (name, count) in [
            ("documents", documents.len()),
            ("scored", scored),
            ("unscored", documents.len() - scored),
            ("judgements", judgements.len()),
            ("unparsed", without - failed),
            ("failed", failed),
            ("asked_again", retried),
        ] {
            dict.insert(name, count as i64);
        }
        if self.needs_baseline() {
            dict.insert("without_baseline", unjudged as i64);
        }
        dict.insert("unparsed_share", share(without, judgements.len()));
        let bounds: Vec<(f64, f64)> = outcomes.iter().filter_map(|outcome| outcome.bounds).collect();
        if !bounds.is_empty() {
            let (low, high): (Vec<f64>, Vec<f64>) = bounds.into_iter().unzip();
            dict.insert("score_if_unparsed_worst", Value::Float(mean(&low)));
            dict.insert("score_if_unparsed_best", Value::Float(mean(&high)));
        }
        if let Some(guided) = &self.guided {
            let answers = judgements.iter().filter_map(|judgement| judgement.answer.as_deref());
            let others = answers.filter(|answer| !guided.is_followed_by(answer)).count();
            dict.insert("guided", guided.field);
            dict.insert("outside_schema", others as i64);
        }
        self.count_verdicts(&judgements, &mut dict);
        if self.scale.is_pairwise() {
            self.preferences(pipeline, documents, &outcomes, &mut dict);
        }
        if let Some(agreement) = self.agreement(pipeline, documents) {
            dict.insert("agreement", agreement);
        }
        dict
    }

    fn count_verdicts(&self, judgements: &[&Judgement], dict: &mut Dict) {
        let labels: Vec<&str> = match &self.scale {
            Scale::Verdicts(verdicts) => verdicts.iter().map(|(label, _)| label.as_str()).collect(),
            Scale::Pairwise { labels, .. } => vec![&labels.first, &labels.second, &labels.tie],
            Scale::Range(..) => return,
        };
        let count = |label: &str| {
            judgements.iter().filter(|judgement| judgement.verdict.as_deref() == Some(label)).count()
        };
        let counts = labels.into_iter().map(|label| (label, Value::Int(count(label) as i64)));
        dict.insert("verdict_counts", Value::dict(counts));
    }

    /// The win rate with its interval, controlled for length, and the share of verdicts that the order decided.
    fn preferences(
        &self,
        pipeline: &str,
        documents: &[AnsweredDocument],
        outcomes: &[JudgedDocument],
        dict: &mut Dict,
    ) {
        let (mut values, mut differences) = (Vec::new(), Vec::new());
        let (mut pairs, mut flips) = (0, 0);
        for (document, outcome) in documents.iter().zip(outcomes) {
            let lengths: Vec<f64> = document
                .judgements_of(pipeline)
                .filter_map(|judgement| judgement.lengths)
                .map(|(own, other)| own as f64 - other as f64)
                .collect();
            if let Some(value) = outcome.value.filter(|_| !lengths.is_empty()) {
                values.push(value);
                differences.push(mean(&lengths));
            }
            for vote in votes(document, pipeline).iter().flatten() {
                pairs += usize::from(vote.flipped.is_some());
                flips += usize::from(vote.flipped == Some(true));
            }
        }
        if self.swap {
            dict.insert("swap_pairs", pairs as i64);
            dict.insert("swap_flips", flips as i64);
            dict.insert("swap_flip_rate", share(flips, pairs));
        }
        if values.is_empty() {
            return;
        }
        let preference = win_rate(&values);
        let entries = [
            ("rate", Value::Float(preference.rate)),
            ("stderr", Value::Float(preference.stderr)),
            ("low", Value::Float(preference.low)),
            ("high", Value::Float(preference.high)),
            ("wins", Value::Int(preference.wins as i64)),
            ("ties", Value::Int(preference.ties as i64)),
            ("losses", Value::Int(preference.losses as i64)),
        ];
        dict.insert("win_rate", Value::dict(entries));
        let controlled = length_controlled(&values, &differences);
        dict.insert("length_controlled_win_rate", controlled.map_or(Value::None, Value::Float));
    }

    /// How far judges agree with each other, and with themselves if they vote several times.
    fn agreement(&self, pipeline: &str, documents: &[AnsweredDocument]) -> Option<Value> {
        if self.roles.len() < 2 && self.samples < 2 {
            return None;
        }
        let level = if matches!(self.scale, Scale::Range(..)) { Level::Interval } else { Level::Nominal };
        let answers: Vec<Vec<Vote<'_>>> =
            documents.iter().flat_map(|document| votes(document, pipeline)).collect();
        let samples_of = |role: &Arc<str>| -> Vec<Ratings> {
            let rating = |votes: &Vec<Vote<'_>>, sample: usize| {
                votes.iter().find(|vote| vote.role == role && vote.sample == sample)?.value
            };
            (0..self.samples)
                .map(|sample| answers.iter().map(|votes| rating(votes, sample)).collect())
                .collect()
        };
        let value = |statistic: Option<f64>| statistic.map_or(Value::None, Value::Float);
        let mut dict = Dict::new();
        dict.insert("level", if level == Level::Interval { "interval" } else { "nominal" });
        let all: Vec<Vec<Ratings>> = self.roles.iter().map(samples_of).collect();
        if self.roles.len() > 1 {
            let ratings: Vec<Ratings> = all.iter().map(|samples| of_judge(samples, self.reduce)).collect();
            dict.insert("alpha", value(krippendorff_alpha(&ratings, level)));
            let mut kappas = Dict::new();
            for (first, one) in ratings.iter().enumerate() {
                for (second, other) in ratings.iter().enumerate().skip(first + 1) {
                    let pair = format!("{},{}", self.roles[first], self.roles[second]);
                    kappas.insert(pair, value(cohen_kappa(one, other)));
                }
            }
            dict.insert("kappa", kappas);
        }
        if self.samples > 1 {
            let alpha = |samples: &Vec<Ratings>| value(krippendorff_alpha(samples, level));
            let own = self.roles.iter().cloned().zip(all.iter().map(alpha));
            dict.insert("alpha_of_samples", Value::dict(own));
        }
        Some(Value::from(dict))
    }
}

/// The votes on each answer of a document.
fn votes<'a>(document: &'a AnsweredDocument, pipeline: &'a str) -> Vec<Vec<Vote<'a>>> {
    let own: Vec<&Judgement> = document.judgements_of(pipeline).collect();
    let answers = own.iter().map(|judgement| judgement.prediction + 1).max().unwrap_or(0);
    let mut votes: Vec<Vec<Vote<'a>>> = (0..answers).map(|_| Vec::new()).collect();
    for judgement in own.iter().filter(|judgement| judgement.swapped != Some(true)) {
        let is_other = |other: &&&Judgement| {
            other.swapped == Some(true)
                && (other.prediction, other.sample) == (judgement.prediction, judgement.sample)
                && other.role == judgement.role
        };
        let (value, flipped) = match own.iter().find(is_other) {
            None => (judgement.value, None),
            Some(other) => match (judgement.value, other.value) {
                (Some(one), Some(two)) if one == two => (Some(one), Some(false)),
                // An order that decides the verdict decides nothing about the answers.
                (Some(_), Some(_)) => (Some(0.5), Some(true)),
                _ => (None, None),
            },
        };
        let vote = Vote { role: &judgement.role, sample: judgement.sample, value, flipped };
        votes[judgement.prediction].push(vote);
    }
    votes
}

/// The ratings of one judge: its votes on each answer, reduced.
fn of_judge(samples: &[Ratings], reduce: Reduce) -> Ratings {
    let answers = samples.first().map_or(0, Vec::len);
    (0..answers)
        .map(|answer| {
            let votes: Vec<f64> = samples.iter().filter_map(|votes| votes[answer]).collect();
            reduce.apply(&votes)
        })
        .collect()
}

fn share(part: usize, all: usize) -> Value {
    if all == 0 { Value::None } else { Value::Float(part as f64 / all as f64) }
}

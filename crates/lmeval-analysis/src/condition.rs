//! Gates as they are written: about one score, or about several together.

use lmeval_core::Diagnostic;

use crate::Error;
use crate::compare::Compared;
use crate::gate::{Gate, Verdict};
use crate::pool::{PooledGate, Rule};
use crate::stats::Interval;

/// A gate with its text.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// The gate as it was written.
    pub text: String,
    kind: Kind,
}

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    One(Gate),
    Pooled(PooledGate),
}

/// The decision of a gate about one score, or about several together.
#[derive(Clone, Debug)]
pub struct Decided {
    /// The filter pipeline; of several scores the rule that pools them.
    pub filter: String,
    /// Whether the condition holds.
    pub verdict: Verdict,
    /// The worst difference that is acceptable.
    pub margin: f64,
    /// The difference of the runs, new minus base.
    pub difference: f64,
    /// The confidence interval of the difference.
    pub interval: Interval,
    /// The documents that would probably decide.
    pub needed: f64,
}

impl Condition {
    /// Reads `TASK:METRIC >= MARGIN` or `RULE(TASK:METRIC, …) >= MARGIN`.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let kind = match PooledGate::parse(text) {
            Some(gate) => Kind::Pooled(gate?),
            None => Kind::One(Gate::parse(text)?),
        };
        Ok(Self { text: text.to_owned(), kind })
    }

    /// The gates of its scores.
    pub fn gates(&self) -> &[Gate] {
        match &self.kind {
            Kind::One(gate) => std::slice::from_ref(gate),
            Kind::Pooled(gate) => &gate.of,
        }
    }

    /// Decides: for one score once per filter, for several once.
    pub fn decide(&self, scores: &[Compared], confidence: f64, power: f64) -> Result<Vec<Decided>, Error> {
        let gate = match &self.kind {
            Kind::One(gate) => gate,
            Kind::Pooled(gate) => {
                let pooled = gate.decide(&self.text, scores, confidence, power)?;
                return Ok(vec![Decided {
                    filter: rule_name(gate.rule, pooled.p_value),
                    verdict: pooled.verdict,
                    margin: gate.of.first().map_or(f64::NAN, |gate| gate.margin),
                    difference: pooled.difference,
                    interval: pooled.interval,
                    needed: pooled.needed,
                }]);
            }
        };
        let about: Vec<&Compared> = scores.iter().filter(|score| gate.is_about(score)).collect();
        if about.is_empty() {
            let known: Vec<String> =
                scores.iter().map(|score| format!("{}:{}", score.task, score.metric)).collect();
            let message = format!("The gate `{}` is about a score that the runs do not share", self.text);
            return Err(Diagnostic::new(message).hint(format!("They share {}", known.join(", "))).into());
        }
        let decided = about.into_iter().map(|score| Decided {
            filter: score.filter.clone(),
            verdict: gate.decide(score.outcome.interval),
            margin: gate.margin,
            difference: score.outcome.difference,
            interval: score.outcome.interval,
            needed: gate.documents_to_decide(score, 1.0 - confidence, power),
        });
        Ok(decided.collect())
    }
}

/// The name of a rule with the p-value that it decides by.
fn rule_name(rule: Rule, p_value: Option<f64>) -> String {
    match p_value {
        Some(p_value) => format!("{}, p {p_value:.4}", rule.name()),
        None => rule.name().to_owned(),
    }
}

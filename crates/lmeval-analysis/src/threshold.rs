//! Thresholds: absolute conditions on the scores of one run.

use std::fmt;

use lmeval_core::Diagnostic;

use crate::Error;

/// A condition on a score, such as `gsm8k:exact_match=0.5`.
#[derive(Clone, Debug, PartialEq)]
pub struct Threshold {
    /// The task or group, as results name it.
    pub task: String,
    /// The metric, without its filter.
    pub metric: String,
    /// The filter pipeline; `None` for every pipeline that has the metric.
    pub filter: Option<String>,
    /// The direction of the condition.
    pub bound: Bound,
    /// The worst score that passes.
    pub value: f64,
}

/// The direction of a threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// `=`: at least the value. Not for metrics of which less is better, where it would mean the opposite of what was
    /// probably intended.
    Usual,
    /// `>=`.
    AtLeast,
    /// `<=`.
    AtMost,
}

impl Threshold {
    /// Reads `TASK:METRIC=VALUE`, `TASK:METRIC>=VALUE` or `TASK:METRIC<=VALUE`; the metric may be `METRIC,FILTER`.
    ///
    /// ```
    /// use lmeval_analysis::threshold::Threshold;
    ///
    /// let threshold = Threshold::parse("gsm8k:exact_match,strict-match=0.5").unwrap();
    /// assert_eq!((threshold.task.as_str(), threshold.filter.as_deref()), ("gsm8k", Some("strict-match")));
    /// assert!(threshold.passes(0.5) && !threshold.passes(0.4999) && !threshold.passes(f64::NAN));
    /// assert!(Threshold::parse("gsm8k=0.5").is_err());
    /// ```
    pub fn parse(text: &str) -> Result<Self, Error> {
        let wrong = || {
            Diagnostic::new(format!("`{text}` is not a threshold")).hint(
                "Write TASK:METRIC=VALUE, for example 'gsm8k:exact_match=0.5', or TASK:METRIC<=VALUE where lower is better",
            )
        };
        let (score, value) = text.rsplit_once('=').ok_or_else(wrong)?;
        let (score, bound) = match (score.strip_suffix('>'), score.strip_suffix('<')) {
            (Some(score), _) => (score, Bound::AtLeast),
            (_, Some(score)) => (score, Bound::AtMost),
            _ => (score, Bound::Usual),
        };
        // Tasks of groups contain `::`, so the metric follows the last colon.
        let (task, metric) = score.rsplit_once(':').ok_or_else(wrong)?;
        let (metric, filter) = match metric.split_once(',') {
            Some((metric, filter)) => (metric.trim(), Some(filter.trim())),
            None => (metric.trim(), None),
        };
        let task = task.trim();
        let value: f64 = value.trim().parse().map_err(|_| wrong())?;
        let is_empty = task.is_empty() || task.ends_with(':') || metric.is_empty() || filter == Some("");
        if is_empty || metric.contains(['<', '>', '=']) || !value.is_finite() {
            return Err(wrong().into());
        }
        Ok(Self {
            task: task.to_owned(),
            metric: metric.to_owned(),
            filter: filter.map(str::to_owned),
            bound,
            value,
        })
    }

    /// Whether the threshold is about a score of its task.
    pub fn is_about(&self, metric: &str, filter: &str) -> bool {
        self.metric == metric && self.filter.as_deref().is_none_or(|wanted| wanted == filter)
    }

    /// Whether a score passes. NaN does not.
    pub fn passes(&self, score: f64) -> bool {
        match self.bound {
            Bound::Usual | Bound::AtLeast => score >= self.value,
            Bound::AtMost => score <= self.value,
        }
    }

    /// Refuses `=` for a metric of which less is better.
    pub fn check_direction(&self, higher_is_better: Option<bool>) -> Result<(), Error> {
        if self.bound != Bound::Usual || higher_is_better != Some(false) {
            return Ok(());
        }
        let message = format!("The threshold `{self}` is ambiguous: less is better for `{}`", self.metric);
        let (task, value) = (&self.task, self.value);
        Err(Diagnostic::new(message)
            .hint(format!("Write '{task}:{}<={value}' to fail above it", self.score()))
            .into())
    }

    /// The condition that a score has to satisfy, such as `>= 0.5`.
    pub fn condition(&self) -> String {
        let sign = if self.bound == Bound::AtMost { "<=" } else { ">=" };
        format!("{sign} {}", self.value)
    }

    /// The metric, with its filter if one is named.
    fn score(&self) -> String {
        match &self.filter {
            Some(filter) => format!("{},{filter}", self.metric),
            None => self.metric.clone(),
        }
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = match self.bound {
            Bound::Usual => "=",
            Bound::AtLeast => ">=",
            Bound::AtMost => "<=",
        };
        write!(f, "{}:{}{sign}{}", self.task, self.score(), self.value)
    }
}

#[cfg(test)]
mod tests {
    use lmeval_core::Diagnose as _;

    use super::*;

    #[test]
    fn reads_and_prints_every_form() {
        for text in ["gsm8k:exact_match=0.5", "arc::easy:acc,none>=0.25", "wikitext:word_perplexity<=20"] {
            assert_eq!(Threshold::parse(text).unwrap().to_string(), text);
        }
        let spaced = Threshold::parse(" wikitext : word_perplexity <= 20 ").unwrap();
        assert_eq!(spaced.to_string(), "wikitext:word_perplexity<=20");
        assert!(spaced.passes(20.0) && !spaced.passes(20.1) && !spaced.passes(f64::NAN));
        for wrong in
            ["", "acc=1", "a:b", "a:b=", "a:b=x", "a:b=nan", "a:b=inf", ":b=1", "a:=1", "a::=1", "a:b,=1"]
        {
            assert!(Threshold::parse(wrong).is_err(), "{wrong}");
        }
        for wrong in ["a:b==1", "a:b<>=1", "a:b=>1", "a:b>1"] {
            assert!(Threshold::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn refuses_an_equals_sign_where_less_is_better() {
        let usual = Threshold::parse("wikitext:word_perplexity,none=20").unwrap();
        let error = usual.check_direction(Some(false)).unwrap_err();
        assert!(error.hints()[0].contains("'wikitext:word_perplexity,none<=20'"), "{:?}", error.hints());
        assert!(usual.check_direction(Some(true)).is_ok() && usual.check_direction(None).is_ok());
        let explicit = Threshold::parse("wikitext:word_perplexity>=20").unwrap();
        assert!(explicit.check_direction(Some(false)).is_ok());
    }
}

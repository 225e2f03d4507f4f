//! Result keys of scores.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

const STDERR: &str = "_stderr";

/// The result key of a score or of its standard error: `metric,scorer` or `metric_stderr,scorer`.
///
/// ```
/// use lmeval_scoring::scorers::MetricKey;
///
/// let key: MetricKey = "pass@1(exact_match)_stderr,strict".parse().unwrap();
/// assert_eq!((&*key.metric, &*key.scorer, key.is_stderr), ("pass@1(exact_match)", "strict", true));
/// assert_eq!(key.parent(), Some("exact_match"));
/// assert_eq!(key.to_string(), "pass@1(exact_match)_stderr,strict");
/// assert!("alias".parse::<MetricKey>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MetricKey {
    /// The metric; composites name their parent in parentheses.
    pub metric: Arc<str>,
    /// The pipeline that computed the score.
    pub scorer: Arc<str>,
    /// Whether the value is a standard error.
    pub is_stderr: bool,
}

impl MetricKey {
    /// The key of a score.
    pub fn new(metric: impl Into<Arc<str>>, scorer: impl Into<Arc<str>>) -> Self {
        Self { metric: metric.into(), scorer: scorer.into(), is_stderr: false }
    }

    /// The key of this score's standard error.
    pub fn stderr(&self) -> Self {
        Self { is_stderr: true, ..self.clone() }
    }

    /// The metric from which a composite such as `pass@1(exact_match)` was derived.
    pub fn parent(&self) -> Option<&str> {
        parent_metric(&self.metric)
    }
}

/// The parent of a composite metric name: the part between the first `(` and a final `)`.
pub fn parent_metric(metric: &str) -> Option<&str> {
    let open = metric.find('(')?;
    metric[open + 1..].strip_suffix(')')
}

impl fmt::Display for MetricKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let suffix = if self.is_stderr { STDERR } else { "" };
        write!(f, "{}{suffix},{}", self.metric, self.scorer)
    }
}

/// The error of a string that is not a result key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a metric key: it has no comma")]
pub struct NotAMetricKey(pub String);

impl FromStr for MetricKey {
    type Err = NotAMetricKey;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (metric, scorer) = text.split_once(',').ok_or_else(|| NotAMetricKey(text.to_owned()))?;
        Ok(match metric.strip_suffix(STDERR) {
            Some(metric) => Self::new(metric, scorer).stderr(),
            None => Self::new(metric, scorer),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips() {
        for (text, metric, scorer, is_stderr, parent) in [
            ("acc,none", "acc", "none", false, None),
            ("pass@1(exact_match)_stderr,strict", "pass@1(exact_match)", "strict", true, Some("exact_match")),
            ("a,b,c", "a", "b,c", false, None),
            ("pass@1(f(x)),n", "pass@1(f(x))", "n", false, Some("f(x)")),
            ("x(,y", "x(", "y", false, None),
            ("x()),y", "x())", "y", false, Some(")")),
        ] {
            let key: MetricKey = text.parse().unwrap();
            assert_eq!((&*key.metric, &*key.scorer, key.is_stderr), (metric, scorer, is_stderr), "{text}");
            assert_eq!(key.parent(), parent, "{text}");
            assert_eq!(key.to_string(), text);
        }
        assert_eq!("alias".parse::<MetricKey>(), Err(NotAMetricKey("alias".to_owned())));
    }
}

//! The checked configuration of a judge.

use std::sync::Arc;

use lmeval_metrics::nearest;
use lmeval_pycompat::{Dict, Value};
use lmeval_template::Template;

use super::call::{JudgeCall, Judgement};
use super::extract::Extract;
use super::guided::Guided;
use super::reduce::Reduce;
use super::scale::{Against, Scale};

/// A problem with the configuration of a scorer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SpecProblem {
    /// The keys from the scorer down to the value.
    pub path: Vec<String>,
    /// The problem in one sentence.
    pub message: String,
    /// Suggestions for fixing it.
    pub hints: Vec<String>,
}

impl SpecProblem {
    pub(super) fn new(path: &[&str], message: impl Into<String>) -> Self {
        let path = path.iter().map(|step| (*step).to_owned()).collect();
        Self { path, message: message.into(), hints: Vec::new() }
    }

    /// An option that does not exist.
    pub(crate) fn unknown<'a>(option: &str, known: impl Iterator<Item = &'a str>) -> Self {
        let known: Vec<&str> = known.collect();
        let problem = Self::new(&[option], format!("there is no option `{option}`"));
        let near = nearest(option, known.iter().copied());
        let problem =
            near.iter().fold(problem, |problem, near| problem.hint(format!("Did you mean `{near}`?")));
        problem.hint(format!("The options are `{}`", known.join("`, `")))
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }
}

/// The treatment of a judge's answer without a verdict.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct OnUnparsed {
    /// How often the judge is asked again.
    pub(super) retries: usize,
    /// The value of an answer that still has none; `None` leaves the vote out.
    pub(super) value: Option<f64>,
}

/// A template under the name by which prompts refer to it.
pub(super) type NamedTemplate = (&'static str, Template);

/// How documents are judged: the checked options of the scorer `judge`.
#[derive(Clone, Debug)]
pub struct JudgeSpec {
    /// The roles of the judges, at least one.
    pub(super) roles: Vec<Arc<str>>,
    pub(super) prompt: Template,
    pub(super) system: Option<Template>,
    /// `question`, `reference` and `rubric`, as far as they are given.
    pub(super) texts: Vec<NamedTemplate>,
    pub(super) scale: Scale,
    pub(super) extract: Extract,
    pub(super) samples: usize,
    pub(super) reduce: Reduce,
    pub(super) swap: bool,
    pub(super) on_unparsed: OnUnparsed,
    pub(super) generation: Arc<Dict>,
    pub(super) guided: Option<Guided>,
    /// Strings that a judged answer must not contain as they are.
    pub(super) marks: Vec<String>,
    pub(super) higher_is_better: bool,
    /// Whether a prompt shows the request of the evaluated model.
    pub(super) needs_input: bool,
    /// Whether a prompt asks for a marker before the verdict.
    pub(super) has_marker: bool,
}

impl JudgeSpec {
    /// The roles of the judges. A run binds each to a model.
    pub fn roles(&self) -> &[Arc<str>] {
        &self.roles
    }

    /// Whether answers are compared with those of a stored run.
    pub fn needs_baseline(&self) -> bool {
        matches!(&self.scale, Scale::Pairwise { against: Against::Baseline, .. })
    }

    /// The name of the metric.
    pub(super) fn metric(&self) -> &'static str {
        if self.scale.is_pairwise() { "win_rate" } else { "judge_score" }
    }

    /// Whether the judge is to be asked again after `attempts` answers without a verdict.
    pub fn asks_again(&self, attempts: usize) -> bool {
        attempts <= self.on_unparsed.retries
    }

    /// Reads the verdict of an answer.
    pub fn judgement(&self, call: &JudgeCall, answer: &str, attempts: usize) -> Judgement {
        let reading = self.extract.read(answer, call.marker.as_deref());
        let value = reading.verdict.as_deref().and_then(|label| self.scale.value(label, call.swapped));
        Judgement {
            answer: Some(answer.into()),
            reason: reading.reason,
            value: value.as_ref().map(|(_, value)| *value),
            verdict: value.map(|(label, _)| label),
            ..Judgement::failed(call, attempts)
        }
    }

    /// The settings of the judge as results show them.
    pub(super) fn to_dict(&self) -> Dict {
        let mut dict = Dict::new();
        dict.insert("judges", Value::list(self.roles.iter().map(|role| Value::Str(Arc::clone(role)))));
        match &self.scale {
            Scale::Verdicts(verdicts) => {
                let verdicts = verdicts.iter().map(|(label, value)| (label.as_str(), Value::Float(*value)));
                dict.insert("verdicts", Value::dict(verdicts));
            }
            Scale::Range(low, high) => {
                dict.insert("range", Value::list([Value::Float(*low), Value::Float(*high)]));
            }
            Scale::Pairwise { against, .. } => {
                let against = match against {
                    Against::Baseline => "baseline".to_owned(),
                    Against::Column(column) => format!("column {column}"),
                };
                dict.insert("pairwise_against", against);
                dict.insert("swap", self.swap);
            }
        }
        dict.insert("samples", self.samples as i64);
        dict.insert("reduce", self.reduce.name());
        dict
    }
}

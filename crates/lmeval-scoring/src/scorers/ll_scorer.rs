//! The default scorer of log-likelihoods.

use std::sync::Arc;

use lmeval_metrics::{LLResults, MetricInput};
use lmeval_pycompat::{Value, repr};

use super::answered::{AnsweredDocument, AnsweredInstance};
use super::error::ScoreError;
use super::input::ScoringInput;
use super::needs::Needs;
use super::scored::Scores;
use super::scorer::Scorer;
use lmeval_core::DocId;
use lmeval_core::Letter;
use lmeval_core::OutputType;
use lmeval_core::{Arguments, Context, Instance};

/// The index that represents a target that is not among the options.
pub(super) const UNRESOLVED: i64 = -100;

/// Scores log-likelihoods using the pipeline's metrics.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LLScorer;

impl Scorer for LLScorer {
    fn name(&self) -> &'static str {
        "none"
    }

    fn scores_by_metrics(&self) -> bool {
        true
    }

    fn needs(&self) -> Needs {
        Needs::NOTHING
    }

    fn score(&self, input: &ScoringInput<'_>) -> Result<Scores<Vec<Value>>, ScoreError> {
        input.likelihood_scores()
    }
}

impl ScoringInput<'_> {
    /// Applies the pipeline's metrics to log-likelihoods.
    pub fn likelihood_scores(&self) -> Result<Scores<Vec<Value>>, ScoreError> {
        self.with_likelihood(|input| self.metrics.compute(self, input))?
    }

    /// Applies the pipeline's metrics to answers of any output type.
    pub fn metric_scores(&self) -> Result<Scores<Vec<Value>>, ScoreError> {
        self.with_metric_input(|input| self.metrics.compute(self, input))?
    }

    /// Calls a function with the inputs of metrics.
    pub(super) fn with_metric_input<T>(
        &self,
        call: impl FnOnce(MetricInput<'_>) -> T,
    ) -> Result<T, ScoreError> {
        match self.output_type {
            OutputType::GenerateUntil => self.with_generation(call),
            OutputType::Loglikelihood | OutputType::LoglikelihoodRolling | OutputType::MultipleChoice => {
                self.with_likelihood(call)
            }
        }
    }

    fn with_likelihood<T>(&self, call: impl FnOnce(MetricInput<'_>) -> T) -> Result<T, ScoreError> {
        let results = self.ll_results()?;
        Ok(call(MetricInput::Likelihood { reference: &results.targets, results: &results }))
    }

    /// The document's log-likelihoods in the form metrics take.
    pub fn ll_results(&self) -> Result<LLResults, ScoreError> {
        LLResults::from_instances(self.document, self.filtered, self.output_type)
    }
}

/// Construction of metric inputs from the requests of a document.
pub trait FromInstances: Sized {
    /// Collects the filtered answers to a document's requests, including the unconditional ones for mutual
    /// information.
    ///
    /// `filtered` has the filtered answers of each request.
    fn from_instances(
        document: &AnsweredDocument,
        filtered: &[Vec<Value>],
        output_type: OutputType,
    ) -> Result<Self, ScoreError>;
}

impl FromInstances for LLResults {
    fn from_instances(
        document: &AnsweredDocument,
        filtered: &[Vec<Value>],
        output_type: OutputType,
    ) -> Result<Self, ScoreError> {
        let doc_id = document.doc_id;
        if let [AnsweredInstance { instance, .. }] = document.answers.as_slice()
            && let Arguments::Letters { labels, .. } = &instance.arguments
        {
            let response = filtered.first().and_then(|filtered| filtered.first());
            return letters(document, instance, labels, response.unwrap_or(&Value::None));
        }
        let mut conditional = Vec::with_capacity(filtered.len());
        let mut unconditional = Vec::new();
        let mut choices = Vec::with_capacity(filtered.len());
        for (answer, filtered) in document.answers.iter().zip(filtered) {
            let pairs = filtered.iter().map(|response| likelihood(response, doc_id));
            if answer.instance.metadata.unconditional {
                for pair in pairs {
                    unconditional.push(pair?);
                }
            } else {
                for pair in pairs {
                    conditional.push(pair?);
                }
                choices.push(continuation(&answer.instance.arguments).to_owned());
            }
        }
        let first = document.answers.first().ok_or(ScoreError::NoAnswer { document: doc_id })?;
        let sent = choices.len();
        let results = Self::from_answers(&conditional, &unconditional, choices).map_err(|source| {
            ScoreError::Metric { metric: "loglikelihood".to_owned(), document: doc_id, source }
        })?;
        let options = document.choices.as_deref().filter(|options| options.len() == sent);
        let texts = options.map(|options| options.iter().map(repr::str).collect()).unwrap_or_default();
        Ok(results
            .with_target(target(&first.instance.gold, output_type))
            .with_context(context(&first.instance.arguments))
            .with_option_texts(texts))
    }
}

/// The labels of a document as options. If no label is listed there is no prediction, and the answer is wrong.
fn letters(
    document: &AnsweredDocument,
    instance: &Instance,
    labels: &[Arc<str>],
    response: &Value,
) -> Result<LLResults, ScoreError> {
    let doc_id = document.doc_id;
    let letters = Letter::all_from_value(response)
        .filter(|letters| letters.len() == labels.len())
        .ok_or(ScoreError::NotALikelihood { document: doc_id, type_name: response.type_name() })?;
    let pairs: Vec<(f64, bool)> = letters.iter().map(|letter| (letter.lower(), letter.is_greedy)).collect();
    let choices: Vec<String> = labels.iter().map(ToString::to_string).collect();
    let results = LLResults::from_answers(&pairs, &[], choices).map_err(|source| ScoreError::Metric {
        metric: "choice_letters".to_owned(),
        document: doc_id,
        source,
    })?;
    let is_absent = letters.iter().all(|letter| letter.logprob.is_none());
    let gold = if is_absent { &Value::None } else { &instance.gold };
    Ok(results
        .with_target(target(gold, OutputType::MultipleChoice))
        .with_context(context(&instance.arguments)))
}

/// The index or indices of the correct option, or [`UNRESOLVED`].
pub(super) fn target(gold: &Value, output_type: OutputType) -> Value {
    if output_type != OutputType::MultipleChoice {
        return Value::Int(0);
    }
    let index = |gold: &Value| if gold.is_none() { Value::Int(UNRESOLVED) } else { gold.clone() };
    match gold {
        Value::List(golds) => Value::list(golds.iter().map(index)),
        gold => index(gold),
    }
}

fn likelihood(response: &Value, document: DocId) -> Result<(f64, bool), ScoreError> {
    let pair = match response {
        Value::Tuple(pair) | Value::List(pair) => match pair.as_slice() {
            [logprob, greedy] => logprob.to_f64().map(|logprob| (logprob, greedy.is_truthy())),
            _ => None,
        },
        _ => None,
    };
    pair.ok_or(ScoreError::NotALikelihood { document, type_name: response.type_name() })
}

fn continuation(arguments: &Arguments) -> &str {
    match arguments {
        Arguments::Loglikelihood { continuation, .. } => continuation,
        Arguments::Rolling { text } => text,
        Arguments::Generate { .. } | Arguments::Letters { .. } => "",
    }
}

fn context(arguments: &Arguments) -> String {
    match arguments.context() {
        Some(Context::Text(text) | Context::Json(text)) => text.as_ref().to_owned(),
        Some(messages) => messages.hash_text(),
        None => String::new(),
    }
}

//! Metrics: a function, a reduction and an aggregation under one name.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use lmeval_pycompat::{Dict, Value};

use crate::aggregation::{Aggregation, AnyAggregation, Bypass, erase_aggregation};
use crate::error::MetricError;
use crate::item::Item;
use crate::ll_results::LLResults;
use crate::number::Number;
use crate::options::OptionTable;
use crate::output_type::OutputType;
use crate::reduction::{AnyReduction, Reduced, Reduction, TakeFirst, erase_reduction};

/// The input of a metric: one document with its answers.
#[derive(Clone, Copy, Debug)]
pub enum MetricInput<'a> {
    /// The log-likelihoods of options.
    Likelihood {
        /// The target of the document.
        reference: &'a Value,
        /// The log-likelihoods of all options.
        results: &'a LLResults,
    },
    /// Generated answers.
    Generation {
        /// The target of the document, as a one-element list.
        references: &'a [Value],
        /// One answer per repeat.
        predictions: &'a [Value],
    },
}

impl<'a> MetricInput<'a> {
    /// The target and the log-likelihoods, or an error for a generation.
    pub fn likelihood(self) -> Result<(&'a Value, &'a LLResults), MetricError> {
        match self {
            Self::Likelihood { reference, results } => Ok((reference, results)),
            Self::Generation { .. } => Err(MetricError::WrongInput { expected: "log-likelihoods" }),
        }
    }

    /// The references and the predictions, or an error for log-likelihoods.
    pub fn generation(self) -> Result<(&'a [Value], &'a [Value]), MetricError> {
        match self {
            Self::Generation { references, predictions } => Ok((references, predictions)),
            Self::Likelihood { .. } => Err(MetricError::WrongInput { expected: "generated text" }),
        }
    }
}

/// A metric with its options bound: maps one document to one value per repeat.
pub type MetricFunction<T> = Box<dyn Fn(MetricInput<'_>) -> Result<Vec<T>, MetricError> + Send + Sync>;

/// A type-erased [`MetricFunction`].
pub type BoundMetric = MetricFunction<Value>;

type Binder<T> = Arc<dyn Fn(&Dict) -> Result<MetricFunction<T>, MetricError> + Send + Sync>;

/// A metric with values of type `T` per repeat and `K` after the reduction.
pub struct Metric<T, K = T> {
    name: Cow<'static, str>,
    function: Binder<T>,
    kwargs: Dict,
    reduction: Arc<dyn Reduction<T, K>>,
    aggregation: Arc<dyn Aggregation<K>>,
    higher_is_better: bool,
    output_types: &'static [OutputType],
    listed_for: &'static [OutputType],
    needs_prompt: bool,
    options: OptionTable,
    summary: Cow<'static, str>,
}

impl<T, K> Clone for Metric<T, K> {
    fn clone(&self) -> Self {
        Self {
            name: self.name.clone(),
            function: Arc::clone(&self.function),
            kwargs: self.kwargs.clone(),
            reduction: Arc::clone(&self.reduction),
            aggregation: Arc::clone(&self.aggregation),
            options: self.options.clone(),
            summary: self.summary.clone(),
            ..*self
        }
    }
}

impl<T, K> fmt::Debug for Metric<T, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metric")
            .field("name", &self.name)
            .field("kwargs", &self.kwargs)
            .field("higher_is_better", &self.higher_is_better)
            .field("output_types", &self.output_types)
            .finish_non_exhaustive()
    }
}

impl<T: Item> Metric<T> {
    /// A metric that uses the first repeat; higher is better.
    ///
    /// `function` receives the task's options and returns the function to call for each document, so that patterns
    /// are compiled only once.
    pub fn new(
        name: impl Into<Cow<'static, str>>,
        output_types: &'static [OutputType],
        aggregation: impl Aggregation<T> + 'static,
        function: impl Fn(&Dict) -> Result<MetricFunction<T>, MetricError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            function: Arc::new(function),
            kwargs: Dict::new(),
            reduction: Arc::new(TakeFirst),
            aggregation: Arc::new(aggregation),
            higher_is_better: true,
            output_types,
            listed_for: output_types,
            needs_prompt: true,
            options: OptionTable::OPEN,
            summary: Cow::Borrowed(""),
        }
    }
}

impl<T: Item, K: Item> Metric<T, K> {
    /// Sets default options, which those of a call override.
    pub fn with_kwargs(mut self, kwargs: Dict) -> Self {
        self.kwargs = kwargs;
        self
    }

    /// Reverses the direction: lower is better.
    pub fn lower_is_better(mut self) -> Self {
        self.higher_is_better = false;
        self
    }

    /// Declares that the metric does not read [`LLResults::ctx`], so that a run need not retain prompts for it.
    pub fn without_prompt(mut self) -> Self {
        self.needs_prompt = false;
        self
    }

    /// Sets the accepted options; others are rejected or reported. By default, every option is passed to the
    /// function.
    pub fn with_options(mut self, options: OptionTable) -> Self {
        self.options = options;
        self
    }

    /// Sets the description for listings.
    pub fn with_summary(mut self, summary: impl Into<Cow<'static, str>>) -> Self {
        self.summary = summary.into();
        self
    }

    /// Sets the output types of tasks that may name the metric, if they differ from those its function reads.
    pub fn listed_for(mut self, output_types: &'static [OutputType]) -> Self {
        self.listed_for = output_types;
        self
    }

    /// Replaces the aggregation.
    pub fn with_aggregation(mut self, aggregation: impl Aggregation<K> + 'static) -> Self {
        self.aggregation = Arc::new(aggregation);
        self
    }

    /// Replaces the reduction, and the aggregation that matches it.
    pub fn with_reduction<L: Item>(
        self,
        reduction: impl Reduction<T, L> + 'static,
        aggregation: impl Aggregation<L> + 'static,
    ) -> Metric<T, L> {
        Metric {
            name: self.name,
            function: self.function,
            kwargs: self.kwargs,
            reduction: Arc::new(reduction),
            aggregation: Arc::new(aggregation),
            higher_is_better: self.higher_is_better,
            output_types: self.output_types,
            listed_for: self.listed_for,
            needs_prompt: self.needs_prompt,
            options: self.options,
            summary: self.summary,
        }
    }

    /// Computes the values of one document, one per repeat.
    pub fn compute(&self, input: MetricInput<'_>, kwargs: &Dict) -> Result<Vec<T>, MetricError> {
        self.function(kwargs)?(input)
    }

    /// Combines the repeats of one document.
    pub fn reduce(&self, reference: &Value, values: &[T]) -> Result<Reduced<K>, MetricError> {
        self.reduction.reduce(reference, values)
    }

    /// Combines the values of all documents into a score.
    pub fn aggregate(&self, values: &[K]) -> Result<Number, MetricError> {
        self.aggregation.aggregate(values)
    }

    fn function(&self, kwargs: &Dict) -> Result<MetricFunction<T>, MetricError> {
        if self.kwargs.is_empty() {
            return (self.function)(kwargs);
        }
        let mut all = self.kwargs.clone();
        all.update(kwargs);
        (self.function)(&all)
    }
}

/// A type-erased [`Metric`].
pub trait AnyMetric: Send + Sync {
    /// The name used in `metric:`.
    fn name(&self) -> &str;

    /// The output types whose answers it reads.
    fn output_types(&self) -> &'static [OutputType];

    /// The output types of the tasks that may name it.
    fn listed_for(&self) -> &'static [OutputType] {
        self.output_types()
    }

    /// Whether higher scores are better.
    fn higher_is_better(&self) -> bool;

    /// Whether the score exists only for the complete corpus.
    fn needs_corpus(&self) -> bool {
        false
    }

    /// The accepted keyword arguments.
    fn options(&self) -> OptionTable {
        OptionTable::OPEN
    }

    /// A one-line description for listings.
    fn summary(&self) -> &str;

    /// Whether it may read [`LLResults::ctx`]; true by default.
    fn needs_prompt(&self) -> bool {
        true
    }

    /// Binds the options; the result is called for each document.
    fn bind(&self, kwargs: &Dict) -> Result<BoundMetric, MetricError>;

    /// Combines the repeats of one document.
    fn reduction(&self) -> Arc<dyn AnyReduction>;

    /// Combines the values of all documents.
    fn aggregation(&self) -> Arc<dyn AnyAggregation>;
}

impl<T: Item, K: Item> AnyMetric for Metric<T, K> {
    fn name(&self) -> &str {
        &self.name
    }

    fn output_types(&self) -> &'static [OutputType] {
        self.output_types
    }

    fn listed_for(&self) -> &'static [OutputType] {
        self.listed_for
    }

    fn higher_is_better(&self) -> bool {
        self.higher_is_better
    }

    fn needs_corpus(&self) -> bool {
        !T::IS_MEANINGFUL_ALONE
    }

    fn options(&self) -> OptionTable {
        self.options.clone()
    }

    fn summary(&self) -> &str {
        &self.summary
    }

    fn needs_prompt(&self) -> bool {
        self.needs_prompt
    }

    fn bind(&self, kwargs: &Dict) -> Result<BoundMetric, MetricError> {
        let function = self.function(kwargs)?;
        Ok(Box::new(move |input| Ok(function(input)?.iter().map(Item::to_value).collect())))
    }

    fn reduction(&self) -> Arc<dyn AnyReduction> {
        erase_reduction(Arc::clone(&self.reduction))
    }

    fn aggregation(&self) -> Arc<dyn AnyAggregation> {
        erase_aggregation(Arc::clone(&self.aggregation))
    }
}

/// `bypass`: −1 for every document, for predict-only runs.
pub fn bypass() -> Metric<Value> {
    Metric::new("bypass", &OutputType::ALL, Bypass, |_| Ok(Box::new(|_| Ok(vec![Value::Int(-1)]))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregation::{Mean, Median};

    fn length() -> Metric<Number> {
        Metric::new("length", &[OutputType::GenerateUntil], Mean, |kwargs| {
            let extra = kwargs.get_str("extra").and_then(Value::as_i64).unwrap_or(0);
            Ok(Box::new(move |input| {
                let (_, predictions) = input.generation()?;
                let length = |value: &Value| value.as_str().map_or(0, str::len) as i64;
                Ok(predictions.iter().map(|value| Number::Int(length(value) + extra)).collect())
            }))
        })
    }

    #[test]
    fn typed_and_erased_chains_agree() {
        let metric = length().with_kwargs([(Value::from("extra"), Value::Int(1))].into_iter().collect());
        let predictions = ["a".into(), "bcd".into()];
        let input = MetricInput::Generation { references: &[Value::None], predictions: &predictions };
        let values = metric.compute(input, &Dict::new()).unwrap();
        assert_eq!(values, [Number::Int(2), Number::Int(4)]);
        assert_eq!(metric.aggregate(&values).unwrap(), Number::Float(3.0));
        assert!(matches!(metric.reduce(&Value::None, &values), Ok(Reduced::One(Number::Int(2)))));
        let any: Arc<dyn AnyMetric> = Arc::new(metric.with_aggregation(Median).lower_is_better());
        let values = any.bind(&Dict::new()).unwrap()(input).unwrap();
        assert_eq!(any.aggregation().aggregate(&values).unwrap(), Number::Int(4));
        assert!(!any.higher_is_better());
    }

    #[test]
    fn rejects_other_inputs() {
        let results = LLResults::default();
        let input = MetricInput::Likelihood { reference: &Value::None, results: &results };
        assert!(length().compute(input, &Dict::new()).is_err());
        let values = bypass().compute(input, &Dict::new()).unwrap();
        assert_eq!(values, [Value::Int(-1)]);
        assert_eq!(bypass().aggregate(&values).unwrap(), Number::Int(999));
    }
}

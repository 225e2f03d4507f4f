//! Per-document values of metrics, and their encoding as Python values.

use std::sync::Arc;

use lmeval_pycompat::Value;

use crate::error::MetricError;
use crate::number::Number;

/// A per-document value, passed from metric to reduction to aggregation.
pub trait Item: Clone + Send + Sync + 'static {
    /// Whether a single document's value is meaningful without the others.
    const IS_MEANINGFUL_ALONE: bool = true;

    /// Decodes the values of all documents; the first one may determine how the others are read.
    fn from_values(values: &[Value]) -> Result<Vec<Self>, MetricError>;

    /// Encodes the value for the log.
    fn to_value(&self) -> Value;
}

/// Any Python value, passed through unchanged.
impl Item for Value {
    fn from_values(values: &[Value]) -> Result<Vec<Self>, MetricError> {
        Ok(values.to_vec())
    }

    fn to_value(&self) -> Value {
        self.clone()
    }
}

impl Item for Number {
    fn from_values(values: &[Value]) -> Result<Vec<Self>, MetricError> {
        values
            .iter()
            .map(|value| Self::from_value(value).ok_or_else(|| MetricError::wrong_value("a number", value)))
            .collect()
    }

    fn to_value(&self) -> Value {
        (*self).into()
    }
}

/// A total and the weight that it is divided by, such as a log-likelihood and a word count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weighted {
    /// The sum to divide.
    pub total: f64,
    /// The divisor, such as a length.
    pub weight: Number,
}

impl Item for Weighted {
    const IS_MEANINGFUL_ALONE: bool = false;

    fn from_values(values: &[Value]) -> Result<Vec<Self>, MetricError> {
        const EXPECTED: &str = "a pair of total and weight";
        values
            .iter()
            .map(|value| {
                let (total, weight) = pair(value, EXPECTED)?;
                match (total.to_f64(), Number::from_value(weight)) {
                    (Some(total), Some(weight)) => Ok(Self { total, weight }),
                    _ => Err(MetricError::wrong_value(EXPECTED, value)),
                }
            })
            .collect()
    }

    fn to_value(&self) -> Value {
        Value::tuple([self.total.into(), self.weight.into()])
    }
}

/// The gold label of a document and the predicted one.
#[derive(Clone, Debug, PartialEq)]
pub struct LabelPair {
    /// The gold label.
    pub gold: Value,
    /// The predicted label.
    pub prediction: Value,
}

impl Item for LabelPair {
    const IS_MEANINGFUL_ALONE: bool = false;

    fn from_values(values: &[Value]) -> Result<Vec<Self>, MetricError> {
        values
            .iter()
            .map(|value| {
                let (gold, prediction) = pair(value, "a pair of gold and prediction")?;
                Ok(Self { gold: gold.clone(), prediction: prediction.clone() })
            })
            .collect()
    }

    fn to_value(&self) -> Value {
        Value::tuple([self.gold.clone(), self.prediction.clone()])
    }
}

/// The target of a document and the log-likelihoods of all its options.
#[derive(Clone, Debug, PartialEq)]
pub struct GoldLikelihoods {
    /// The index of the gold option, or a list of indices.
    pub gold: Value,
    /// The log-likelihood of each option.
    pub lls: Vec<f64>,
}

impl Item for GoldLikelihoods {
    const IS_MEANINGFUL_ALONE: bool = false;

    fn from_values(values: &[Value]) -> Result<Vec<Self>, MetricError> {
        const EXPECTED: &str = "a pair of gold and log-likelihoods";
        values
            .iter()
            .map(|value| {
                let (gold, lls) = pair(value, EXPECTED)?;
                let numbers = items(lls).map(|lls| lls.iter().map(Value::to_f64).collect::<Option<Vec<_>>>());
                let lls = numbers.flatten().ok_or_else(|| MetricError::wrong_value(EXPECTED, value))?;
                Ok(Self { gold: gold.clone(), lls })
            })
            .collect()
    }

    fn to_value(&self) -> Value {
        let lls = Value::tuple(self.lls.iter().map(|ll| Value::Float(*ll)));
        Value::tuple([self.gold.clone(), lls])
    }
}

/// The reference strings of a document and the prediction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextPair {
    /// The references; `None` marks a reference that this document lacks.
    pub references: Vec<Option<Arc<str>>>,
    /// The predicted string.
    pub prediction: Arc<str>,
}

impl TextPair {
    /// The pair for a generation: a target, possibly a list, and the first answer.
    pub(crate) fn from_generation(target: &Value, prediction: &Value) -> Result<Self, MetricError> {
        let references = match items(target) {
            Some(targets) => targets.iter().map(reference).collect::<Result<_, _>>()?,
            None => vec![reference(target)?],
        };
        Ok(Self { references, prediction: text(prediction)? })
    }
}

impl Item for TextPair {
    const IS_MEANINGFUL_ALONE: bool = false;

    /// The first document decides whether references are strings or lists, and predictions strings or one-element
    /// lists.
    fn from_values(values: &[Value]) -> Result<Vec<Self>, MetricError> {
        const EXPECTED: &str = "a pair of references and prediction";
        let Some(first) = values.first() else {
            return Ok(Vec::new());
        };
        let (first_references, first_prediction) = pair(first, EXPECTED)?;
        let single_reference = first_references.as_str().is_some();
        let single_prediction = first_prediction.as_str().is_some();
        if !single_prediction && items(first_prediction).is_none_or(|items| items.len() != 1) {
            return Err(MetricError::wrong_value("one predicted string", first_prediction));
        }
        let mut pairs: Vec<Self> = Vec::with_capacity(values.len());
        for (document, value) in values.iter().enumerate() {
            let (references, prediction) = pair(value, EXPECTED)?;
            let references = if single_reference {
                vec![reference(references)?]
            } else {
                items(references)
                    .ok_or_else(|| MetricError::wrong_value("a list of references", references))?
                    .iter()
                    .map(reference)
                    .collect::<Result<_, _>>()?
            };
            let expected = pairs.first().map_or(references.len(), |first| first.references.len());
            if references.len() != expected {
                return Err(MetricError::ReferenceCounts { document, found: references.len(), expected });
            }
            let prediction = if single_prediction {
                text(prediction)?
            } else {
                items(prediction)
                    .and_then(<[Value]>::first)
                    .ok_or_else(|| MetricError::wrong_value("a predicted string", prediction))
                    .and_then(text)?
            };
            pairs.push(Self { references, prediction });
        }
        Ok(pairs)
    }

    fn to_value(&self) -> Value {
        let references = self.references.iter().map(|text| match text {
            Some(text) => Value::Str(Arc::clone(text)),
            None => Value::None,
        });
        let prediction = Value::Str(Arc::clone(&self.prediction));
        Value::tuple([Value::list(references), Value::list([prediction])])
    }
}

fn reference(value: &Value) -> Result<Option<Arc<str>>, MetricError> {
    match value {
        Value::None => Ok(None),
        _ => text(value).map(Some),
    }
}

fn text(value: &Value) -> Result<Arc<str>, MetricError> {
    match value {
        Value::Str(text) => Ok(Arc::clone(text)),
        _ => Err(MetricError::wrong_value("text", value)),
    }
}

/// The items of a list or tuple.
pub(crate) fn items(value: &Value) -> Option<&[Value]> {
    match value {
        Value::List(items) | Value::Tuple(items) => Some(items),
        _ => None,
    }
}

fn pair<'a>(value: &'a Value, expected: &'static str) -> Result<(&'a Value, &'a Value), MetricError> {
    match items(value) {
        Some([left, right]) => Ok((left, right)),
        _ => Err(MetricError::wrong_value(expected, value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tuple(left: Value, right: Value) -> Value {
        Value::tuple([left, right])
    }

    #[test]
    fn first_pair_decides_the_shape() {
        let texts =
            TextPair::from_values(&[tuple("a".into(), "b".into()), tuple("c".into(), "d".into())]).unwrap();
        assert_eq!(texts[1].references, [Some("c".into())]);
        let lists = [
            tuple(Value::list(["a".into(), Value::None]), Value::list(["b".into()])),
            tuple(Value::list(["a".into(), "x".into()]), Value::list(["b".into(), "c".into()])),
        ];
        let lists = TextPair::from_values(&lists).unwrap();
        assert_eq!((lists[0].references.len(), &*lists[1].prediction), (2, "b"));
        assert_eq!(TextPair::from_values(&[lists[0].to_value()]).unwrap(), lists[..1]);
    }

    #[test]
    fn rejects_other_pairs() {
        for (left, right) in [
            (Value::list([Value::list(["a".into()])]), "b".into()),
            (Value::Int(1), "b".into()),
            ("a".into(), Value::None),
            ("a".into(), Value::list(["b".into(), "c".into()])),
            ("a".into(), Value::list([])),
        ] {
            assert!(TextPair::from_values(&[tuple(left, right)]).is_err());
        }
        let uneven = [
            tuple(Value::list(["a".into()]), "b".into()),
            tuple(Value::list(["a".into(), "c".into()]), "b".into()),
        ];
        assert!(matches!(
            TextPair::from_values(&uneven),
            Err(MetricError::ReferenceCounts { document: 1, .. })
        ));
        assert!(TextPair::from_values(&[]).unwrap().is_empty());
    }

    #[test]
    fn values_round_trip() {
        let weighted = Weighted { total: -2.5, weight: Number::Int(3) };
        assert_eq!(Weighted::from_values(&[weighted.to_value()]).unwrap(), [weighted]);
        let gold = GoldLikelihoods { gold: Value::Int(1), lls: vec![-1.0, -2.0] };
        assert_eq!(GoldLikelihoods::from_values(&[gold.to_value()]).unwrap(), [gold]);
        assert!(Number::from_values(&[Value::None]).is_err());
        assert!(Weighted::from_values(&[Value::Int(1)]).is_err());
    }
}

//! Python numbers, which keep `int` and `float` apart.

use std::hint::black_box;

use lmeval_pycompat::Value;

/// An integer or a float; result files show the difference.
#[derive(Clone, Copy, Debug)]
pub enum Number {
    /// An `int`.
    Int(i64),
    /// A `float`.
    Float(f64),
}

impl Number {
    /// Converts to a float.
    pub fn to_f64(self) -> f64 {
        match self {
            Self::Int(number) => number as f64,
            Self::Float(number) => number,
        }
    }

    /// The number in a value; `None` if it is not a number.
    pub fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Float(number) => Some(Self::Float(*number)),
            Value::BigInt(_) => value.to_f64().map(Self::Float),
            _ => value.as_i64().map(Self::Int),
        }
    }
}

/// Python's `==`: `1` equals `1.0`.
impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        Value::from(*self) == Value::from(*other)
    }
}

impl From<bool> for Number {
    fn from(truth: bool) -> Self {
        Self::Int(i64::from(truth))
    }
}

impl From<i64> for Number {
    fn from(number: i64) -> Self {
        Self::Int(number)
    }
}

impl From<f64> for Number {
    fn from(number: f64) -> Self {
        Self::Float(number)
    }
}

impl From<Number> for Value {
    fn from(number: Number) -> Self {
        match number {
            Number::Int(number) => Self::Int(number),
            Number::Float(number) => Self::Float(number),
        }
    }
}

/// `x ** 2` of Python floats.
///
/// C's `pow` differs from `x * x` in the last digit for about one number in a thousand, and the compiler would turn a
/// constant exponent into the product.
pub(crate) fn square(number: f64) -> f64 {
    number.powf(black_box(2.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_integers() {
        assert!(matches!(Number::from_value(&Value::Bool(true)), Some(Number::Int(1))));
        assert!(matches!(Value::from(Number::Float(1.0)), Value::Float(_)));
        assert_eq!(Number::Int(1), Number::Float(1.0));
        assert_ne!(Number::Float(f64::NAN), Number::Float(f64::NAN));
        assert!(Number::from_value(&Value::str("1")).is_none());
    }

    #[test]
    fn squares_match_c_pow() {
        assert_eq!(square(3.0), 9.0);
        assert_eq!(square(-0.6352), 0.40347903999999996);
        assert_eq!(-0.6352 * -0.6352, 0.40347904);
        assert_eq!(square(f64::NEG_INFINITY), f64::INFINITY);
    }
}

//! Methods and attributes of numbers and dates.

use lmeval_pycompat::datetime::Date;
use lmeval_pycompat::{Value, repr};
use num_bigint::BigInt;
use num_traits::{FromPrimitive, One};

use super::unknown;
use crate::arguments::Args;
use crate::error::Error;
use crate::value::Val;

pub(super) const INTEGER_NAMES: [&str; 4] = ["as_integer_ratio", "bit_count", "bit_length", "conjugate"];
pub(super) const FLOAT_NAMES: [&str; 3] = ["as_integer_ratio", "conjugate", "is_integer"];

/// An attribute of a number or date.
pub(super) fn property(value: &Val, name: &str) -> Option<Val> {
    match (value, name) {
        (Val::Float(_), "real") => Some(value.clone()),
        (Val::Float(_), "imag") => Some(Val::Float(0.0)),
        (Val::Int(_) | Val::Big(_) | Val::Bool(_), "real" | "numerator") => {
            value.as_bigint().map(Val::from_bigint)
        }
        (Val::Int(_) | Val::Big(_) | Val::Bool(_), "imag") => Some(Val::Int(0)),
        (Val::Int(_) | Val::Big(_) | Val::Bool(_), "denominator") => Some(Val::Int(1)),
        (Val::Date(date), _) => date_property(*date, name),
        (Val::DateTime(instant), _) => {
            let (hour, minute, second) = instant.time();
            let number = match name {
                "hour" => i64::from(hour),
                "minute" => i64::from(minute),
                "second" => i64::from(second),
                "microsecond" => i64::from(instant.microsecond()),
                _ => return date_property(instant.date(), name),
            };
            Some(Val::Int(number))
        }
        _ => None,
    }
}

fn date_property(date: Date, name: &str) -> Option<Val> {
    Some(Val::Int(match name {
        "year" => i64::from(date.year()),
        "month" => i64::from(date.month()),
        "day" => i64::from(date.day()),
        _ => return None,
    }))
}

/// Calls a method of a number or date.
pub(super) fn call(value: &Val, name: &str, args: Args) -> Result<Val, Error> {
    args.none(name)?;
    match value {
        Val::Float(number) => float(value, *number, name),
        Val::Date(date) => Ok(call_date(*date, value, name)),
        Val::DateTime(instant) => Ok(match name {
            "date" => Val::Date(instant.date()),
            _ => call_date(instant.date(), value, name),
        }),
        _ => {
            let number = value.as_bigint().ok_or_else(|| unknown(value, name))?;
            Ok(match name {
                "bit_length" => Val::Int(number.bits() as i64),
                "bit_count" => Val::Int(number.magnitude().count_ones() as i64),
                "as_integer_ratio" => Val::tuple(vec![Val::from_bigint(number), Val::Int(1)]),
                _ => Val::from_bigint(number),
            })
        }
    }
}

fn call_date(date: Date, value: &Val, name: &str) -> Val {
    // 0001-01-01 was a Monday.
    let weekday = date.days() % 7;
    match name {
        "weekday" => Val::Int(weekday),
        "isoweekday" => Val::Int(weekday + 1),
        "toordinal" => Val::Int(date.days() + 1),
        _ => {
            let plain = value.to_value().unwrap_or(Value::None);
            let text = repr::str(&plain);
            Val::str(if matches!(value, Val::DateTime(_)) { text.replacen(' ', "T", 1) } else { text })
        }
    }
}

fn float(value: &Val, number: f64, name: &str) -> Result<Val, Error> {
    match name {
        "is_integer" => Ok(Val::Bool(number.is_finite() && number.fract() == 0.0)),
        "conjugate" => Ok(value.clone()),
        _ => {
            if !number.is_finite() {
                return Err(Error::value_error("Only finite numbers are ratios of integers"));
            }
            // Doubling a finite float until it is integral takes at most 1,074 steps and is exact.
            let mut numerator = number;
            let mut denominator = BigInt::one();
            while numerator.fract() != 0.0 {
                numerator *= 2.0;
                denominator *= 2;
            }
            let numerator = BigInt::from_f64(numerator).unwrap_or_default();
            Ok(Val::tuple(vec![Val::from_bigint(numerator), Val::from_bigint(denominator)]))
        }
    }
}

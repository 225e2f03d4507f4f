//! Filters on numbers.

use lmeval_pycompat::float::{parse_float, parse_int};
use num_bigint::BigInt;
use num_integer::Integer;
use num_traits::{FromPrimitive, Signed};

use super::attribute::Path;
use crate::arguments::{Args, integer};
use crate::ast::{BinaryOperator, UnaryOperator};
use crate::error::{Error, ErrorKind};
use crate::eval::Vm;
use crate::operators::{self, to_float};
use crate::value::{Iter, Val, less_than};

/// `abs`.
pub(super) fn abs(_: &mut Vm<'_>, value: &Val, args: Args) -> Result<Val, Error> {
    args.none("abs")?;
    match value {
        Val::Float(number) => Ok(Val::Float(number.abs())),
        _ if less_than(value, &Val::Int(0))? => operators::unary(UnaryOperator::Negative, value),
        _ => operators::unary(UnaryOperator::Positive, value),
    }
}

/// A float truncated to an integer; `None` if it is not finite.
fn truncated(number: f64) -> Option<Val> {
    BigInt::from_f64(number.trunc()).filter(|_| number.is_finite()).map(Val::from_bigint)
}

/// `int(default, base)`.
pub(super) fn int(_: &mut Vm<'_>, value: &Val, args: Args) -> Result<Val, Error> {
    let [default, base] = args.bind("int", ["default", "base"], 0)?;
    let default = default.unwrap_or(Val::Int(0));
    match value {
        Val::Undefined(undefined) => Err(undefined.error()),
        Val::Str(text) | Val::Markup(text) => {
            let base = base.map_or(Ok(10), |base| integer(&base))?;
            let base = u32::try_from(base).ok().filter(|base| *base == 0 || (2..=36).contains(base));
            if let Some(number) = base.and_then(|base| parse_int(text, base)) {
                return Ok(Val::from(&number));
            }
            Ok(parse_float(text).and_then(truncated).unwrap_or(default))
        }
        Val::Float(number) if number.is_infinite() => {
            Err(Error::new(ErrorKind::Arithmetic, "Infinity has no integer value"))
        }
        Val::Float(number) => Ok(truncated(*number).unwrap_or(default)),
        _ => Ok(value.as_bigint().map_or(default, Val::from_bigint)),
    }
}

/// `float(default)`.
pub(super) fn float(_: &mut Vm<'_>, value: &Val, args: Args) -> Result<Val, Error> {
    let [default] = args.bind("float", ["default"], 0)?;
    let default = default.unwrap_or(Val::Float(0.0));
    match value {
        Val::Undefined(undefined) => Err(undefined.error()),
        Val::Str(text) | Val::Markup(text) => Ok(parse_float(text).map_or(default, Val::Float)),
        _ => Ok(to_float(value)?.map_or(default, Val::Float)),
    }
}

/// `round(precision, method)`.
pub(super) fn round(vm: &mut Vm<'_>, value: &Val, args: Args) -> Result<Val, Error> {
    let [precision, method] = args.bind("round", ["precision", "method"], 0)?;
    let precision = precision.unwrap_or(Val::Int(0));
    let method = method.unwrap_or_else(|| Val::str("common"));
    let method = method.as_text().map_or("", |method| &**method);
    if !matches!(method, "common" | "ceil" | "floor") {
        return Err(Error::value_error("The method of `round` must be `common`, `ceil` or `floor`"));
    }
    if let Val::Undefined(undefined) = value {
        return Err(undefined.error());
    }
    if method != "common" {
        let scale = operators::binary(vm, BinaryOperator::Power, &Val::Int(10), &precision)?;
        let scaled = operators::binary(vm, BinaryOperator::Multiply, value, &scale)?;
        let whole = match &scaled {
            Val::Float(number) => {
                let rounded = if method == "ceil" { number.ceil() } else { number.floor() };
                truncated(rounded)
                    .ok_or_else(|| Error::new(ErrorKind::Arithmetic, "The number cannot be rounded"))?
            }
            other => other.as_bigint().map(Val::from_bigint).ok_or_else(|| {
                Error::type_error(format!("A value of type `{}` cannot be rounded", other.type_name()))
            })?,
        };
        return operators::binary(vm, BinaryOperator::Divide, &whole, &scale);
    }
    match value {
        Val::Float(number) if matches!(precision, Val::None) => truncated(round_half_even(*number))
            .ok_or_else(|| Error::new(ErrorKind::Arithmetic, "The number cannot be rounded")),
        Val::Float(number) => round_float(*number, integer(&precision)?),
        _ => {
            let number = value.as_bigint().ok_or_else(|| {
                Error::type_error(format!("A value of type `{}` cannot be rounded", value.type_name()))
            })?;
            if matches!(precision, Val::None) {
                return Ok(Val::from_bigint(number));
            }
            round_integer(number, integer(&precision)?)
        }
    }
}

fn round_half_even(number: f64) -> f64 {
    number.round_ties_even()
}

/// Python's `round(float, digits)`: the decimal nearest to the exact value.
fn round_float(number: f64, digits: i64) -> Result<Val, Error> {
    if !number.is_finite() || digits > 323 {
        return Ok(Val::Float(number));
    }
    if digits < -308 {
        return Ok(Val::Float(0.0_f64.copysign(number)));
    }
    if let Ok(digits) = usize::try_from(digits) {
        let text = format!("{number:.digits$}");
        return Ok(Val::Float(text.parse().unwrap_or(number)));
    }
    // The fraction matters only if the integer part is exactly half way.
    let whole = BigInt::from_f64(number.trunc()).unwrap_or_default();
    let doubled = whole * 2 + if number.fract() == 0.0 { 0 } else { number.signum() as i64 };
    let unit = BigInt::from(10).pow(digits.unsigned_abs() as u32);
    let rounded = nearest_multiple(&doubled, &(unit.clone() * 2)) * unit;
    let rounded: f64 = rounded.to_string().parse().unwrap_or(f64::INFINITY);
    if rounded.is_infinite() {
        return Err(Error::new(ErrorKind::Arithmetic, "The rounded value exceeds the range of a float"));
    }
    Ok(Val::Float(rounded.abs().copysign(number)))
}

/// `number / unit`, rounded half to even.
fn nearest_multiple(number: &BigInt, unit: &BigInt) -> BigInt {
    let (quotient, remainder) = number.div_mod_floor(unit);
    let twice: BigInt = remainder * 2;
    if twice > *unit || (twice == *unit && quotient.is_odd()) { quotient + 1 } else { quotient }
}

fn round_integer(number: BigInt, digits: i64) -> Result<Val, Error> {
    if digits >= 0 {
        return Ok(Val::from_bigint(number));
    }
    let Ok(digits) = u32::try_from(digits.unsigned_abs()) else {
        return Ok(Val::Int(0));
    };
    // If there are more digits than the number has, half of the unit exceeds the number.
    if u64::from(digits) > number.abs().bits() {
        return Ok(Val::Int(0));
    }
    let unit = BigInt::from(10).pow(digits);
    Ok(Val::from_bigint(nearest_multiple(&number, &unit) * unit))
}

/// `sum(attribute, start)`.
pub(super) fn sum(vm: &mut Vm<'_>, value: &Val, args: Args) -> Result<Val, Error> {
    let [attribute, start] = args.bind("sum", ["attribute", "start"], 0)?;
    let path = match attribute {
        None | Some(Val::None) => None,
        Some(attribute) => Some(Path::new(Some(&attribute), None)),
    };
    let mut total = start.unwrap_or(Val::Int(0));
    if total.as_text().is_some() {
        return Err(Error::type_error("`sum` does not add strings; use `join`"));
    }
    let mut iterator = Iter::over(value)?;
    while let Some(item) = iterator.next(vm)? {
        let item = match &path {
            Some(path) => path.get(vm, &item)?,
            None => item,
        };
        total = operators::binary(vm, BinaryOperator::Add, &total, &item)?;
    }
    Ok(total)
}

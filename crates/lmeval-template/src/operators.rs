//! Python's arithmetic.

use num_bigint::BigInt;
use num_integer::Integer;
use num_traits::{Signed, ToPrimitive, Zero};

use crate::ast::{BinaryOperator, UnaryOperator};
use crate::error::{Error, ErrorKind};
use crate::eval::Vm;
use crate::format;
use crate::value::{Items, Val, escape_html, str_of};

/// Larger integers are not computed.
const MAXIMUM_BITS: u64 = 1 << 24;

fn arithmetic(message: &str) -> Error {
    Error::new(ErrorKind::Arithmetic, message)
}

fn symbol(operator: BinaryOperator) -> &'static str {
    match operator {
        BinaryOperator::Add => "+",
        BinaryOperator::Subtract => "-",
        BinaryOperator::Multiply => "*",
        BinaryOperator::Divide => "/",
        BinaryOperator::FloorDivide => "//",
        BinaryOperator::Modulo => "%",
        BinaryOperator::Power => "**",
    }
}

/// `-value` and `+value`.
pub(crate) fn unary(operator: UnaryOperator, value: &Val) -> Result<Val, Error> {
    let negative = operator == UnaryOperator::Negative;
    match value {
        Val::Undefined(undefined) => Err(undefined.error()),
        Val::Float(number) => Ok(Val::Float(if negative { -number } else { *number })),
        _ => match value.as_bigint() {
            Some(number) => Ok(Val::from_bigint(if negative { -number } else { number })),
            None => Err(Error::type_error(format!(
                "Unary `+` and `-` do not work on a value of type `{}`",
                value.type_name()
            ))),
        },
    }
}

/// `left operator right`.
pub(crate) fn binary(
    vm: &mut Vm<'_>,
    operator: BinaryOperator,
    left: &Val,
    right: &Val,
) -> Result<Val, Error> {
    // Formatting handles its arguments itself: `'%s' % undefined` prints what the value prints.
    if let (BinaryOperator::Modulo, Val::Str(_) | Val::Markup(_)) = (operator, left) {
        return format::percent(left, right);
    }
    if let (Val::Undefined(undefined), _) | (_, Val::Undefined(undefined)) = (left, right) {
        return Err(undefined.error());
    }
    if let (Val::Int(left), Val::Int(right)) = (left, right) {
        let fast = match operator {
            BinaryOperator::Add => left.checked_add(*right),
            BinaryOperator::Subtract => left.checked_sub(*right),
            BinaryOperator::Multiply => left.checked_mul(*right),
            _ => None,
        };
        if let Some(number) = fast {
            return Ok(Val::Int(number));
        }
    }
    if let Some(result) = sequences(vm, operator, left, right)? {
        return Ok(result);
    }
    match (left, right) {
        (Val::Float(_), _) | (_, Val::Float(_)) => {
            if let (Some(left), Some(right)) = (to_float(left)?, to_float(right)?) {
                return floats(operator, left, right).map(Val::Float);
            }
        }
        _ => {
            if let (Some(left), Some(right)) = (left.as_bigint(), right.as_bigint()) {
                return integers(operator, &left, &right);
            }
        }
    }
    Err(Error::type_error(format!(
        "`{}` does not work on values of types `{}` and `{}`",
        symbol(operator),
        left.type_name(),
        right.type_name()
    )))
}

/// A number as a float; `None` if it is not a number.
pub(crate) fn to_float(value: &Val) -> Result<Option<f64>, Error> {
    Ok(match value {
        Val::Float(number) => Some(*number),
        Val::Int(number) => Some(*number as f64),
        Val::Bool(truth) => Some(f64::from(u8::from(*truth))),
        Val::Big(number) => match number.to_f64() {
            Some(float) if float.is_finite() => Some(float),
            _ => return Err(arithmetic("The integer exceeds the range of a float")),
        },
        _ => None,
    })
}

/// Concatenates and repeats strings and lists.
fn sequences(
    vm: &mut Vm<'_>,
    operator: BinaryOperator,
    left: &Val,
    right: &Val,
) -> Result<Option<Val>, Error> {
    match (operator, left, right) {
        (BinaryOperator::Add, Val::Str(first), Val::Str(second)) => {
            Vm::check_size(first.len().checked_add(second.len()))?;
            let mut text = String::with_capacity(first.len() + second.len());
            text.push_str(first);
            text.push_str(second);
            Ok(Some(Val::Str(text.into())))
        }
        (BinaryOperator::Add, Val::Markup(_), Val::Str(_) | Val::Markup(_))
        | (BinaryOperator::Add, Val::Str(_), Val::Markup(_)) => {
            let safe = |value: &Val| -> Result<String, Error> {
                let text = str_of(value)?;
                Ok(if matches!(value, Val::Markup(_)) { text.to_string() } else { escape_html(&text) })
            };
            Ok(Some(Val::Markup((safe(left)? + &safe(right)?).into())))
        }
        (BinaryOperator::Add, Val::List(first), Val::List(second)) => {
            Ok(Some(Val::list(joined(vm, first, second)?)))
        }
        (BinaryOperator::Add, Val::Tuple(first), Val::Tuple(second)) => {
            Ok(Some(Val::tuple(joined(vm, first, second)?)))
        }
        (BinaryOperator::Multiply, sequence, count)
            if is_sequence(sequence) && count.as_bigint().is_some() =>
        {
            repeated(vm, sequence, count).map(Some)
        }
        (BinaryOperator::Multiply, count, sequence)
            if is_sequence(sequence) && count.as_bigint().is_some() =>
        {
            repeated(vm, sequence, count).map(Some)
        }
        _ => Ok(None),
    }
}

fn joined(vm: &mut Vm<'_>, first: &Items, second: &Items) -> Result<Vec<Val>, Error> {
    let size = Vm::check_size(first.len().checked_add(second.len()))?;
    vm.spend(size as u64)?;
    let mut items = first.to_vec();
    items.extend(second.to_vec());
    Ok(items)
}

fn is_sequence(value: &Val) -> bool {
    matches!(value, Val::Str(_) | Val::Markup(_) | Val::List(_) | Val::Tuple(_))
}

fn repeated(vm: &mut Vm<'_>, sequence: &Val, count: &Val) -> Result<Val, Error> {
    let Some(count) = count.as_int() else {
        return Err(arithmetic("The repeat count is too large"));
    };
    let count = usize::try_from(count).unwrap_or(0);
    match sequence {
        Val::Str(text) | Val::Markup(text) => {
            let size = Vm::check_size(text.len().checked_mul(count))?;
            vm.spend(size as u64 / 64)?;
            Ok(Val::text_like(sequence, text.repeat(count)))
        }
        Val::List(items) | Val::Tuple(items) => {
            let size = Vm::check_size(items.len().checked_mul(count))?;
            vm.spend(size as u64)?;
            let once = items.to_vec();
            let mut all = Vec::with_capacity(size);
            for _ in 0..count.min(size) {
                all.extend(once.iter().cloned());
            }
            Ok(if matches!(sequence, Val::List(_)) { Val::list(all) } else { Val::tuple(all) })
        }
        _ => Err(Error::type_error("Only strings and lists can be repeated")),
    }
}

fn integers(operator: BinaryOperator, left: &BigInt, right: &BigInt) -> Result<Val, Error> {
    let zero = || arithmetic("Cannot divide by zero");
    Ok(Val::from_bigint(match operator {
        BinaryOperator::Add => left + right,
        BinaryOperator::Subtract => left - right,
        BinaryOperator::Multiply => {
            if left.bits() + right.bits() > MAXIMUM_BITS {
                return Err(Error::limit("The template computes an integer that is too large"));
            }
            left * right
        }
        BinaryOperator::Divide => return divide(left, right).map(Val::Float),
        BinaryOperator::FloorDivide if right.is_zero() => return Err(zero()),
        BinaryOperator::Modulo if right.is_zero() => return Err(zero()),
        BinaryOperator::FloorDivide => left.div_floor(right),
        BinaryOperator::Modulo => left.mod_floor(right),
        BinaryOperator::Power => {
            if right.is_negative() {
                let float = |number: &BigInt| {
                    number
                        .to_f64()
                        .filter(|float| float.is_finite())
                        .ok_or_else(|| arithmetic("The integer exceeds the range of a float"))
                };
                return floats(BinaryOperator::Power, float(left)?, float(right)?).map(Val::Float);
            }
            let exponent = right.to_u32();
            let bits = exponent.and_then(|exponent| left.bits().checked_mul(u64::from(exponent)));
            match (exponent, bits) {
                (Some(exponent), Some(bits)) if bits <= MAXIMUM_BITS => left.pow(exponent),
                _ if left.is_zero() || *left == BigInt::from(1) => left.clone(),
                _ if *left == BigInt::from(-1) => {
                    if right.is_even() {
                        BigInt::from(1)
                    } else {
                        left.clone()
                    }
                }
                _ => return Err(Error::limit("The template computes an integer that is too large")),
            }
        }
    }))
}

/// The float nearest to the exact quotient.
fn divide(left: &BigInt, right: &BigInt) -> Result<f64, Error> {
    if right.is_zero() {
        return Err(arithmetic("Cannot divide by zero"));
    }
    const EXACT: u64 = 53;
    if left.bits() <= EXACT
        && right.bits() <= EXACT
        && let (Some(left), Some(right)) = (left.to_f64(), right.to_f64())
    {
        return Ok(left / right);
    }
    // 66 bits of quotient and a sticky bit are more than a float holds, so only one rounding happens.
    let shift = 66 - (left.bits() as i64 - right.bits() as i64);
    let (numerator, denominator) = if shift >= 0 {
        (left.abs() << shift as u64, right.abs())
    } else {
        (left.abs(), right.abs() << shift.unsigned_abs())
    };
    let (mut quotient, remainder) = numerator.div_rem(&denominator);
    if !remainder.is_zero() && quotient.is_even() {
        quotient += 1;
    }
    let mut result = quotient.to_f64().unwrap_or(f64::INFINITY);
    let mut left_over = -shift;
    while left_over != 0 {
        let step = left_over.clamp(-1000, 1000);
        result *= 2f64.powi(step as i32);
        left_over -= step;
    }
    if result.is_infinite() {
        return Err(arithmetic("The quotient exceeds the range of a float"));
    }
    Ok(if left.is_negative() == right.is_negative() { result } else { -result })
}

fn floats(operator: BinaryOperator, left: f64, right: f64) -> Result<f64, Error> {
    Ok(match operator {
        BinaryOperator::Add => left + right,
        BinaryOperator::Subtract => left - right,
        BinaryOperator::Multiply => left * right,
        BinaryOperator::Divide | BinaryOperator::FloorDivide | BinaryOperator::Modulo if right == 0.0 => {
            return Err(arithmetic("Cannot divide by zero"));
        }
        BinaryOperator::Divide => left / right,
        BinaryOperator::FloorDivide => float_divmod(left, right).0,
        BinaryOperator::Modulo => float_divmod(left, right).1,
        BinaryOperator::Power => {
            if left == 0.0 && right < 0.0 {
                return Err(arithmetic("Negative powers of zero are not defined"));
            }
            if left < 0.0 && left.is_finite() && right.is_finite() && right.fract() != 0.0 {
                return Err(arithmetic(
                    "A fractional power of a negative number is complex, which is not supported",
                ));
            }
            let result = left.powf(right);
            if result.is_infinite() && left.is_finite() && right.is_finite() {
                return Err(arithmetic("The result exceeds the range of a float"));
            }
            result
        }
    })
}

/// Floor division and the remainder with the divisor's sign.
fn float_divmod(left: f64, right: f64) -> (f64, f64) {
    let mut remainder = left % right;
    let mut quotient = (left - remainder) / right;
    if remainder == 0.0 {
        remainder = 0.0_f64.copysign(right);
    } else if (right < 0.0) != (remainder < 0.0) {
        remainder += right;
        quotient -= 1.0;
    }
    if quotient == 0.0 {
        return (0.0_f64.copysign(left / right), remainder);
    }
    let mut floor = quotient.floor();
    if quotient - floor > 0.5 {
        floor += 1.0;
    }
    (floor, remainder)
}

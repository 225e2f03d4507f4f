//! Conversion of Arrow cells to Python values.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowDictionaryKeyType, Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type,
    Decimal256Type, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, TimeUnit};
use lmeval_pycompat::datetime::Date;
use lmeval_pycompat::{Dict, Value};
use num_bigint::BigInt;

use crate::timestamp;

/// The value of a cell, or a message if it cannot be represented.
pub(super) fn value_at(array: &dyn Array, index: usize) -> Result<Value, String> {
    if array.is_null(index) {
        return Ok(Value::None);
    }
    macro_rules! integer {
        ($kind:ty) => {
            Ok(Value::Int(i64::from(array.as_primitive::<$kind>().value(index))))
        };
    }
    match array.data_type() {
        DataType::Null => Ok(Value::None),
        DataType::Boolean => Ok(Value::Bool(array.as_boolean().value(index))),
        DataType::Int8 => integer!(Int8Type),
        DataType::Int16 => integer!(Int16Type),
        DataType::Int32 => integer!(Int32Type),
        DataType::Int64 => integer!(Int64Type),
        DataType::UInt8 => integer!(UInt8Type),
        DataType::UInt16 => integer!(UInt16Type),
        DataType::UInt32 => integer!(UInt32Type),
        DataType::UInt64 => Ok(Value::from_bigint(array.as_primitive::<UInt64Type>().value(index).into())),
        DataType::Float16 => Ok(Value::Float(f64::from(array.as_primitive::<Float16Type>().value(index)))),
        DataType::Float32 => Ok(Value::Float(f64::from(array.as_primitive::<Float32Type>().value(index)))),
        DataType::Float64 => Ok(Value::Float(array.as_primitive::<Float64Type>().value(index))),
        DataType::Utf8 => Ok(Value::str(array.as_string::<i32>().value(index))),
        DataType::LargeUtf8 => Ok(Value::str(array.as_string::<i64>().value(index))),
        DataType::Utf8View => Ok(Value::str(array.as_string_view().value(index))),
        DataType::Binary => Ok(Value::Bytes(array.as_binary::<i32>().value(index).into())),
        DataType::LargeBinary => Ok(Value::Bytes(array.as_binary::<i64>().value(index).into())),
        DataType::BinaryView => Ok(Value::Bytes(array.as_binary_view().value(index).into())),
        DataType::FixedSizeBinary(_) => Ok(Value::Bytes(array.as_fixed_size_binary().value(index).into())),
        DataType::List(_) => list(&array.as_list::<i32>().value(index)),
        DataType::LargeList(_) => list(&array.as_list::<i64>().value(index)),
        DataType::FixedSizeList(_, _) => list(&array.as_fixed_size_list().value(index)),
        DataType::ListView(_) => list(&array.as_list_view::<i32>().value(index)),
        DataType::LargeListView(_) => list(&array.as_list_view::<i64>().value(index)),
        DataType::Struct(fields) => {
            let columns = array.as_struct();
            let mut dict = Dict::with_capacity(fields.len());
            for (field, column) in fields.iter().zip(columns.columns()) {
                dict.insert(field.name().as_str(), value_at(column.as_ref(), index)?);
            }
            Ok(Value::from(dict))
        }
        DataType::Map(_, _) => {
            let entries = array.as_map().value(index);
            let pair = |entry| {
                let key = value_at(entries.column(0).as_ref(), entry)?;
                Ok(Value::tuple([key, value_at(entries.column(1).as_ref(), entry)?]))
            };
            (0..entries.len()).map(pair).collect::<Result<Vec<_>, String>>().map(Value::from)
        }
        DataType::Dictionary(key, _) => match **key {
            DataType::Int8 => dictionary::<Int8Type>(array, index),
            DataType::Int16 => dictionary::<Int16Type>(array, index),
            DataType::Int32 => dictionary::<Int32Type>(array, index),
            DataType::Int64 => dictionary::<Int64Type>(array, index),
            DataType::UInt8 => dictionary::<UInt8Type>(array, index),
            DataType::UInt16 => dictionary::<UInt16Type>(array, index),
            DataType::UInt32 => dictionary::<UInt32Type>(array, index),
            DataType::UInt64 => dictionary::<UInt64Type>(array, index),
            _ => Err("unknown kind of dictionary keys".into()),
        },
        DataType::Date32 => date(i64::from(array.as_primitive::<Date32Type>().value(index))),
        DataType::Date64 => date(array.as_primitive::<Date64Type>().value(index).div_euclid(86_400_000)),
        DataType::Timestamp(unit, zone) => moment(number(array, index)?, *unit, zone.as_deref()),
        DataType::Time32(unit) | DataType::Time64(unit) => clock(number(array, index)?, *unit),
        DataType::Duration(unit) => duration(number(array, index)?, *unit),
        DataType::Decimal32(_, scale) => {
            Ok(decimal(&array.as_primitive::<Decimal32Type>().value(index).into(), *scale))
        }
        DataType::Decimal64(_, scale) => {
            Ok(decimal(&array.as_primitive::<Decimal64Type>().value(index).into(), *scale))
        }
        DataType::Decimal128(_, scale) => {
            Ok(decimal(&array.as_primitive::<Decimal128Type>().value(index).into(), *scale))
        }
        DataType::Decimal256(_, scale) => {
            let bytes = array.as_primitive::<Decimal256Type>().value(index).to_le_bytes();
            Ok(decimal(&BigInt::from_signed_bytes_le(&bytes), *scale))
        }
        kind => Err(format!("columns of type `{kind}` are not supported")),
    }
}

fn list(items: &ArrayRef) -> Result<Value, String> {
    (0..items.len())
        .map(|index| value_at(items.as_ref(), index))
        .collect::<Result<Vec<_>, _>>()
        .map(Value::from)
}

fn dictionary<K: ArrowDictionaryKeyType>(array: &dyn Array, index: usize) -> Result<Value, String> {
    let dictionary = array.as_dictionary::<K>();
    match dictionary.key(index) {
        Some(key) if key < dictionary.values().len() => value_at(dictionary.values().as_ref(), key),
        _ => Err("a dictionary key is out of range".into()),
    }
}

/// The integer that represents a timestamp, time of day or duration.
fn number(array: &dyn Array, index: usize) -> Result<i64, String> {
    use arrow_array::types::{
        DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType, DurationSecondType,
        Time32MillisecondType, Time32SecondType, Time64MicrosecondType, Time64NanosecondType,
        TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
    };
    macro_rules! value {
        ($kind:ty) => {
            array.as_primitive::<$kind>().value(index)
        };
    }
    Ok(match array.data_type() {
        DataType::Timestamp(TimeUnit::Second, _) => value!(TimestampSecondType),
        DataType::Timestamp(TimeUnit::Millisecond, _) => value!(TimestampMillisecondType),
        DataType::Timestamp(TimeUnit::Microsecond, _) => value!(TimestampMicrosecondType),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => value!(TimestampNanosecondType),
        DataType::Duration(TimeUnit::Second) => value!(DurationSecondType),
        DataType::Duration(TimeUnit::Millisecond) => value!(DurationMillisecondType),
        DataType::Duration(TimeUnit::Microsecond) => value!(DurationMicrosecondType),
        DataType::Duration(TimeUnit::Nanosecond) => value!(DurationNanosecondType),
        DataType::Time32(TimeUnit::Second) => i64::from(value!(Time32SecondType)),
        DataType::Time32(_) => i64::from(value!(Time32MillisecondType)),
        DataType::Time64(TimeUnit::Microsecond) => value!(Time64MicrosecondType),
        DataType::Time64(_) => value!(Time64NanosecondType),
        kind => return Err(format!("columns of type `{kind}` are not supported")),
    })
}

fn micros(number: i64, unit: TimeUnit) -> Option<i64> {
    match unit {
        TimeUnit::Second => number.checked_mul(1_000_000),
        TimeUnit::Millisecond => number.checked_mul(1000),
        TimeUnit::Microsecond => Some(number),
        TimeUnit::Nanosecond => Some(number.div_euclid(1000)),
    }
}

fn date(days: i64) -> Result<Value, String> {
    Date::from_unix_days(days).map(Value::Date).ok_or_else(|| "the date is out of range".into())
}

fn moment(number: i64, unit: TimeUnit, zone: Option<&str>) -> Result<Value, String> {
    let offset = zone.map(offset_of);
    let moment = micros(number, unit).and_then(|micros| timestamp::with_offset(micros, offset));
    moment.map(Value::DateTime).ok_or_else(|| "the date-time is out of range".into())
}

/// Seconds east of UTC. Named zones other than UTC are converted to UTC: the same instant, another offset.
fn offset_of(zone: &str) -> i32 {
    let fixed = || {
        let (sign, rest) = match zone.strip_prefix('-') {
            Some(rest) => (-1, rest),
            None => (1, zone.strip_prefix('+')?),
        };
        let (hours, minutes) = rest.split_once(':').unwrap_or_else(|| rest.split_at(rest.len().min(2)));
        let minutes = if minutes.is_empty() { "0" } else { minutes };
        Some(sign * (hours.parse::<i32>().ok()? * 3600 + minutes.parse::<i32>().ok()? * 60))
    };
    fixed().filter(|offset| offset.abs() < 86_400).unwrap_or(0)
}

/// A time of day as Python prints it: there is no such value type, and templates only print it.
fn clock(number: i64, unit: TimeUnit) -> Result<Value, String> {
    let micros = micros(number, unit).filter(|micros| (0..86_400_000_000).contains(micros));
    let micros = micros.ok_or("the time of day is out of range")?;
    let (seconds, rest) = (micros / 1_000_000, micros % 1_000_000);
    let mut text = format!("{:0>8}", clock_text(seconds));
    text += &fraction_text(rest);
    Ok(Value::from(text))
}

/// Formats hours, minutes and seconds.
fn clock_text(seconds: i64) -> String {
    format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// Formats nonzero microseconds after a dot.
fn fraction_text(micros: i64) -> String {
    if micros == 0 { String::new() } else { format!(".{micros:06}") }
}

/// A duration as Python prints it.
fn duration(number: i64, unit: TimeUnit) -> Result<Value, String> {
    let micros = micros(number, unit).ok_or("the duration is out of range")?;
    let (days, rest) = (micros.div_euclid(86_400_000_000), micros.rem_euclid(86_400_000_000));
    let seconds = rest / 1_000_000;
    let mut text = match days {
        0 => String::new(),
        -1 | 1 => format!("{days} day, "),
        _ => format!("{days} days, "),
    };
    text += &clock_text(seconds);
    text += &fraction_text(rest % 1_000_000);
    Ok(Value::from(text))
}

/// A decimal as Python prints it: with all digits of the scale.
fn decimal(number: &BigInt, scale: i8) -> Value {
    let (sign, digits) = match number.to_string() {
        text if text.starts_with('-') => ("-", text[1..].to_owned()),
        text => ("", text),
    };
    let text = match usize::try_from(scale) {
        Ok(0) => digits,
        Ok(scale) => {
            let padded = format!("{digits:0>width$}", width = scale + 1);
            let (whole, fraction) = padded.split_at(padded.len() - scale);
            format!("{whole}.{fraction}")
        }
        Err(_) => format!("{digits}E+{}", scale.unsigned_abs()),
    };
    Value::from(format!("{sign}{text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_times_and_decimals_like_python() {
        let text = |value: Value| value.as_str().unwrap().to_owned();
        assert_eq!(text(decimal(&150.into(), 2)), "1.50");
        assert_eq!(text(decimal(&(-5).into(), 3)), "-0.005");
        assert_eq!(text(decimal(&7.into(), 0)), "7");
        assert_eq!(text(duration(-1, TimeUnit::Second).unwrap()), "-1 day, 23:59:59");
        assert_eq!(text(duration(90_061_500, TimeUnit::Millisecond).unwrap()), "1 day, 1:01:01.500000");
        assert_eq!(text(clock(3_661, TimeUnit::Second).unwrap()), "01:01:01");
        assert_eq!([offset_of("UTC"), offset_of("+05:30"), offset_of("-0100")], [0, 19_800, -3600]);
    }
}

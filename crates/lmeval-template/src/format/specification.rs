//! Python's format specifications, such as `>10` and `,.2f`.

use lmeval_pycompat::repr;
use num_bigint::{BigInt, Sign};
use num_traits::ToPrimitive;

use super::number::{decimal_exponent, float_digits, group};
use crate::error::Error;
use crate::eval::Vm;
use crate::operators::to_float;
use crate::value::{Val, str_of};

#[derive(Debug, Default)]
struct Specification {
    fill: Option<char>,
    align: Option<char>,
    sign: Option<char>,
    alternate: bool,
    zero: bool,
    width: usize,
    grouping: Option<char>,
    precision: Option<usize>,
    style: Option<char>,
}

fn parse(text: &str) -> Result<Specification, Error> {
    let mut specification = Specification::default();
    let characters: Vec<char> = text.chars().collect();
    let is_align = |character: Option<&char>| matches!(character, Some('<' | '>' | '=' | '^'));
    let mut index = 0;
    if is_align(characters.get(1)) {
        specification.fill = Some(characters[0]);
        specification.align = Some(characters[1]);
        index = 2;
    } else if is_align(characters.first()) {
        specification.align = Some(characters[0]);
        index = 1;
    }
    if let Some(sign @ ('+' | '-' | ' ')) = characters.get(index) {
        specification.sign = Some(*sign);
        index += 1;
    }
    if characters.get(index) == Some(&'z') {
        index += 1;
    }
    if characters.get(index) == Some(&'#') {
        specification.alternate = true;
        index += 1;
    }
    if characters.get(index) == Some(&'0') {
        specification.zero = true;
        index += 1;
    }
    let number = |index: &mut usize| -> Result<Option<usize>, Error> {
        let start = *index;
        while characters.get(*index).is_some_and(char::is_ascii_digit) {
            *index += 1;
        }
        let digits: String = characters[start..*index].iter().collect();
        if digits.is_empty() {
            return Ok(None);
        }
        Vm::check_size(digits.parse().ok()).map(Some)
    };
    specification.width = number(&mut index)?.unwrap_or(0);
    if let Some(separator @ (',' | '_')) = characters.get(index) {
        specification.grouping = Some(*separator);
        index += 1;
    }
    if characters.get(index) == Some(&'.') {
        index += 1;
        specification.precision = Some(number(&mut index)?.ok_or_else(|| invalid(text))?);
    }
    if let Some(style) = characters.get(index) {
        specification.style = Some(*style);
        index += 1;
    }
    if index < characters.len() {
        return Err(invalid(text));
    }
    Ok(specification)
}

fn invalid(text: &str) -> Error {
    Error::value_error(format!("`{text}` is not a valid format specification"))
}

/// Python's `format(value, specification)`.
pub(crate) fn format_value(value: &Val, specification: &str) -> Result<String, Error> {
    if specification.is_empty() {
        return str_of(value).map(|text| text.to_string());
    }
    let parsed = parse(specification)?;
    match value {
        Val::Str(text) | Val::Markup(text) => format_text(text, &parsed, specification),
        Val::Float(number) => format_float(*number, &parsed, specification),
        Val::Undefined(undefined) => Err(undefined.error()),
        _ => match value.as_bigint() {
            Some(number) => format_integer(value, &number, &parsed, specification),
            None => Err(Error::type_error(format!(
                "A value of type `{}` does not support a format specification",
                value.type_name()
            ))),
        },
    }
}

fn format_text(text: &str, parsed: &Specification, specification: &str) -> Result<String, Error> {
    let wrong = parsed.sign.is_some()
        || parsed.alternate
        || parsed.align == Some('=')
        || parsed.grouping.is_some()
        || parsed.style.is_some_and(|style| style != 's');
    if wrong {
        return Err(invalid(specification));
    }
    let text: String = match parsed.precision {
        Some(precision) => text.chars().take(precision).collect(),
        None => text.to_owned(),
    };
    let fill = parsed.fill.unwrap_or(if parsed.zero { '0' } else { ' ' });
    Ok(pad(&text, parsed.width, fill, parsed.align.unwrap_or('<')))
}

fn pad(text: &str, width: usize, fill: char, align: char) -> String {
    let length = text.chars().count();
    let missing = width.saturating_sub(length);
    let left = match align {
        '<' => 0,
        '^' => missing / 2,
        _ => missing,
    };
    let repeat = |count: usize| std::iter::repeat_n(fill, count).collect::<String>();
    format!("{}{text}{}", repeat(left), repeat(missing - left))
}

/// Combines sign, prefix, digits and padding.
fn finish(negative: bool, prefix: &str, digits: &str, parsed: &Specification, group_size: usize) -> String {
    let sign = match (negative, parsed.sign) {
        (true, _) => "-",
        (false, Some('+')) => "+",
        (false, Some(' ')) => " ",
        _ => "",
    };
    let zero_fill = parsed.zero && parsed.align.is_none();
    let fill = parsed.fill.unwrap_or(if parsed.zero { '0' } else { ' ' });
    let align = parsed.align.unwrap_or(if zero_fill { '=' } else { '>' });
    let head = format!("{sign}{prefix}");
    let mut body = match parsed.grouping {
        Some(separator) => group(digits, separator, group_size),
        None => digits.to_owned(),
    };
    if align == '=' {
        if let (Some(separator), '0') = (parsed.grouping, fill) {
            // Padding zeros are grouped as well.
            let mut padded = digits.to_owned();
            while head.len() + body.chars().count() < parsed.width {
                padded.insert(0, '0');
                body = group(&padded, separator, group_size);
            }
            return head + &body;
        }
        let missing = parsed.width.saturating_sub(head.chars().count() + body.chars().count());
        let filling: String = std::iter::repeat_n(fill, missing).collect();
        return format!("{head}{filling}{body}");
    }
    pad(&(head + &body), parsed.width, fill, align)
}

fn format_integer(
    value: &Val,
    number: &BigInt,
    parsed: &Specification,
    specification: &str,
) -> Result<String, Error> {
    let style = parsed.style.unwrap_or('d');
    if matches!(style, 'e' | 'E' | 'f' | 'F' | 'g' | 'G' | '%') {
        let float = to_float(value)?.unwrap_or_default();
        return format_float(float, parsed, specification);
    }
    if parsed.precision.is_some() {
        return Err(invalid(specification));
    }
    let magnitude = number.magnitude();
    let (prefix, digits, size) = match style {
        'd' | 'n' => ("", magnitude.to_string(), 3),
        'x' => ("0x", magnitude.to_str_radix(16), 4),
        'X' => ("0X", magnitude.to_str_radix(16).to_uppercase(), 4),
        'o' => ("0o", magnitude.to_str_radix(8), 4),
        'b' => ("0b", magnitude.to_str_radix(2), 4),
        'c' => {
            let character = number.to_u32().and_then(char::from_u32);
            let character = character.ok_or_else(|| Error::value_error("The number is not a code point"))?;
            let align = parsed.align.unwrap_or('<');
            return Ok(pad(&character.to_string(), parsed.width, parsed.fill.unwrap_or(' '), align));
        }
        _ => return Err(invalid(specification)),
    };
    if parsed.grouping == Some(',') && style != 'd' {
        return Err(invalid(specification));
    }
    let prefix = if parsed.alternate { prefix } else { "" };
    Ok(finish(number.sign() == Sign::Minus, prefix, &digits, parsed, size))
}

fn format_float(number: f64, parsed: &Specification, specification: &str) -> Result<String, Error> {
    let negative = number.is_sign_negative() && !number.is_nan();
    let magnitude = number.abs();
    let precision = parsed.precision.unwrap_or(6);
    let digits = match parsed.style {
        Some(style @ ('e' | 'E' | 'f' | 'F' | 'g' | 'G')) => {
            float_digits(magnitude, style, precision, parsed.alternate)
        }
        Some('n') => float_digits(magnitude, 'g', precision, parsed.alternate),
        Some('%') => float_digits(magnitude * 100.0, 'f', precision, parsed.alternate) + "%",
        None => match parsed.precision {
            None => repr::float_repr(magnitude),
            Some(precision) => shortest_general(magnitude, precision.max(1)),
        },
        Some(_) => return Err(invalid(specification)),
    };
    Ok(finish(negative, "", &digits, parsed, 3))
}

/// Style `g`, but with a decimal point in fixed notation, and exponents starting one digit earlier.
fn shortest_general(number: f64, precision: usize) -> String {
    if !number.is_finite() {
        return float_digits(number, 'g', precision, false);
    }
    let exponent = decimal_exponent(number, precision);
    if exponent >= -4 && i64::from(exponent) < precision as i64 - 1 {
        let text = float_digits(number, 'g', precision, false);
        return if text.contains('.') { text } else { text + ".0" };
    }
    if exponent < -4 {
        return float_digits(number, 'g', precision, false);
    }
    let text = float_digits(number, 'e', precision - 1, false);
    match text.split_once('e') {
        Some((mantissa, rest)) if mantissa.contains('.') => {
            format!("{}e{rest}", mantissa.trim_end_matches('0').trim_end_matches('.'))
        }
        _ => text,
    }
}

//! Digit strings in C's and Python's styles.

/// Digits of a finite, non-negative float in style `e`, `f` or `g`, or uppercase.
pub(super) fn float_digits(number: f64, style: char, precision: usize, alternate: bool) -> String {
    if number.is_nan() || number.is_infinite() {
        let text = if number.is_nan() { "nan" } else { "inf" };
        return if style.is_ascii_uppercase() { text.to_uppercase() } else { text.to_owned() };
    }
    match style.to_ascii_lowercase() {
        'e' => exponent_digits(number, precision, alternate, style.is_ascii_uppercase()),
        'f' => {
            let mut text = format!("{number:.precision$}");
            if alternate && precision == 0 {
                text.push('.');
            }
            text
        }
        _ => general_digits(number, precision.max(1), alternate, style.is_ascii_uppercase()),
    }
}

fn exponent_digits(number: f64, precision: usize, alternate: bool, upper: bool) -> String {
    let text = format!("{number:.precision$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, digits) = match exponent.strip_prefix('-') {
        Some(digits) => ('-', digits),
        None => ('+', exponent),
    };
    let dot = if alternate && precision == 0 { "." } else { "" };
    format!("{mantissa}{dot}{}{sign}{digits:0>2}", if upper { 'E' } else { 'e' })
}

/// The decimal exponent of a float rounded to this many digits.
pub(super) fn decimal_exponent(number: f64, digits: usize) -> i32 {
    let text = format!("{number:.*e}", digits.saturating_sub(1));
    text.split_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or(0)
}

fn general_digits(number: f64, precision: usize, alternate: bool, upper: bool) -> String {
    let exponent = decimal_exponent(number, precision);
    let fixed = exponent >= -4 && i64::from(exponent) < precision as i64;
    if fixed {
        let decimals = usize::try_from(precision as i64 - 1 - i64::from(exponent)).unwrap_or_default();
        let text = format!("{number:.decimals$}");
        return if alternate { with_dot(text) } else { strip_zeros(&text).to_owned() };
    }
    let text = exponent_digits(number, precision - 1, alternate, upper);
    if alternate {
        return text;
    }
    let mark = if upper { 'E' } else { 'e' };
    match text.split_once(mark) {
        Some((mantissa, rest)) => format!("{}{mark}{rest}", strip_zeros(mantissa)),
        None => text,
    }
}

fn with_dot(mut text: String) -> String {
    if !text.contains('.') {
        text.push('.');
    }
    text
}

fn strip_zeros(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

/// Inserts a separator between digit groups of the integer part.
pub(super) fn group(digits: &str, separator: char, size: usize) -> String {
    let end = digits.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(digits.len());
    // An exponent belongs to the rest, not to the integer part; hexadecimal digits never get here.
    let (whole, rest) = digits.split_at(end);
    let mut out = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(size) {
            out.push(separator);
        }
        out.push(digit);
    }
    out + rest
}

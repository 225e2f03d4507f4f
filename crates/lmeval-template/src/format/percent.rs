//! Formatting with `%`.

use std::fmt::Write as _;

use num_bigint::{BigInt, Sign};
use num_traits::FromPrimitive;

use super::number::float_digits;
use crate::error::Error;
use crate::eval::Vm;
use crate::operators::to_float;
use crate::value::{Val, escape_html, repr_of, str_of};

struct Arguments<'a> {
    values: Vec<Val>,
    next: usize,
    mapping: Option<&'a Val>,
}

impl Arguments<'_> {
    fn take(&mut self) -> Result<Val, Error> {
        let value = self.values.get(self.next).cloned();
        self.next += 1;
        value.ok_or_else(|| Error::type_error("The format string needs more arguments"))
    }
}

#[derive(Default)]
struct Flags {
    alternate: bool,
    zero: bool,
    left: bool,
    space: bool,
    plus: bool,
}

/// Python's `format % arguments`.
pub(crate) fn percent(format: &Val, arguments: &Val) -> Result<Val, Error> {
    let text = str_of(format)?;
    let escape = matches!(format, Val::Markup(_));
    let (values, is_tuple) = match arguments {
        Val::Tuple(items) => (items.to_vec(), true),
        other => (vec![other.clone()], false),
    };
    let is_mapping = matches!(arguments, Val::Dict(_));
    let mut arguments_left = Arguments { values, next: 0, mapping: is_mapping.then_some(arguments) };
    let mut out = String::new();
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        if character != '%' {
            out.push(character);
            continue;
        }
        directive(&mut out, &mut characters, &mut arguments_left, escape)?;
        Vm::check_size(Some(out.len()))?;
    }
    let tolerant = is_mapping || matches!(arguments, Val::List(_) | Val::Object(_) | Val::Undefined(_));
    if arguments_left.next < arguments_left.values.len() && (is_tuple || !tolerant) {
        return Err(Error::type_error("The format string has fewer fields than arguments"));
    }
    Ok(Val::text_like(format, out))
}

fn directive(
    out: &mut String,
    characters: &mut std::iter::Peekable<std::str::Chars<'_>>,
    arguments: &mut Arguments<'_>,
    escape: bool,
) -> Result<(), Error> {
    let incomplete = || Error::value_error("The format string ends inside of a `%` field");
    let mut value = None;
    if characters.peek() == Some(&'(') {
        characters.next();
        let mut name = String::new();
        let mut depth = 1;
        loop {
            let character = characters.next().ok_or_else(incomplete)?;
            match character {
                '(' => depth += 1,
                ')' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                break;
            }
            name.push(character);
        }
        let Some(Val::Dict(dict)) = arguments.mapping else {
            return Err(Error::type_error("`%(name)s` fields need a dictionary"));
        };
        let found = dict.get_str(&name);
        value = Some(found.ok_or_else(|| Error::value_error(format!("The dictionary has no key `{name}`")))?);
        arguments.next = arguments.values.len();
    }
    let mut flags = Flags::default();
    loop {
        match characters.peek() {
            Some('#') => flags.alternate = true,
            Some('0') => flags.zero = true,
            Some('-') => flags.left = true,
            Some(' ') => flags.space = true,
            Some('+') => flags.plus = true,
            _ => break,
        }
        characters.next();
    }
    let mut width = number(characters, arguments)?.unwrap_or(0);
    if width < 0 {
        flags.left = true;
        width = width.saturating_neg();
    }
    let mut precision = None;
    if characters.peek() == Some(&'.') {
        characters.next();
        precision = Some(number(characters, arguments)?.unwrap_or(0).max(0));
    }
    while matches!(characters.peek(), Some('h' | 'l' | 'L')) {
        characters.next();
    }
    let conversion = characters.next().ok_or_else(incomplete)?;
    if conversion == '%' {
        out.push('%');
        return Ok(());
    }
    let value = match value {
        Some(value) => value,
        None => arguments.take()?,
    };
    let width = Vm::check_size(usize::try_from(width).ok())?;
    let precision = match precision {
        Some(precision) => Some(Vm::check_size(usize::try_from(precision).ok())?),
        None => None,
    };
    let (head, body, numeric) = convert(conversion, &value, precision, &flags, escape)?;
    let length = head.chars().count() + body.chars().count();
    let missing = width.saturating_sub(length);
    let repeat = |character: char| std::iter::repeat_n(character, missing).collect::<String>();
    if flags.left {
        out.extend([head.as_str(), &body, &repeat(' ')]);
    } else if flags.zero && numeric {
        out.extend([head.as_str(), &repeat('0'), &body]);
    } else {
        out.extend([repeat(' ').as_str(), &head, &body]);
    }
    Ok(())
}

fn number(
    characters: &mut std::iter::Peekable<std::str::Chars<'_>>,
    arguments: &mut Arguments<'_>,
) -> Result<Option<i64>, Error> {
    if characters.peek() == Some(&'*') {
        characters.next();
        let value = arguments.take()?;
        return crate::arguments::integer(&value).map(Some);
    }
    let mut digits = String::new();
    while let Some(digit) = characters.peek().filter(|character| character.is_ascii_digit()) {
        digits.push(*digit);
        characters.next();
    }
    if digits.is_empty() {
        return Ok(None);
    }
    digits.parse().map(Some).map_err(|_| Error::value_error("The field width is too large"))
}

/// Sign and prefix, the rest, and whether zeros may be inserted between them.
fn convert(
    conversion: char,
    value: &Val,
    precision: Option<usize>,
    flags: &Flags,
    escape: bool,
) -> Result<(String, String, bool), Error> {
    let sign = |negative: bool| match (negative, flags.plus, flags.space) {
        (true, ..) => "-",
        (_, true, _) => "+",
        (_, _, true) => " ",
        _ => "",
    };
    match conversion {
        's' | 'r' | 'a' => {
            let mut text = match conversion {
                's' => str_of(value)?.to_string(),
                'r' => repr_of(value)?,
                _ => ascii(&repr_of(value)?),
            };
            if escape && !matches!(value, Val::Markup(_)) {
                text = escape_html(&text);
            }
            if let Some(precision) = precision {
                text = text.chars().take(precision).collect();
            }
            Ok((String::new(), text, false))
        }
        'c' => {
            let text = match value {
                Val::Str(text) | Val::Markup(text) if text.chars().count() == 1 => text.to_string(),
                _ => {
                    match value.as_int().and_then(|code| u32::try_from(code).ok()).and_then(char::from_u32) {
                        Some(character) => character.to_string(),
                        None => return Err(Error::type_error("`%c` needs a character or a code point")),
                    }
                }
            };
            Ok((String::new(), text, false))
        }
        'd' | 'i' | 'u' | 'x' | 'X' | 'o' => {
            let number = whole(value, matches!(conversion, 'd' | 'i' | 'u'), conversion)?;
            let magnitude = number.magnitude();
            let (prefix, mut digits) = match conversion {
                'x' => ("0x", magnitude.to_str_radix(16)),
                'X' => ("0X", magnitude.to_str_radix(16).to_uppercase()),
                'o' => ("0o", magnitude.to_str_radix(8)),
                _ => ("", magnitude.to_string()),
            };
            if let Some(precision) = precision {
                let missing = precision.saturating_sub(digits.len());
                digits.insert_str(0, &"0".repeat(missing));
            }
            let prefix = if flags.alternate { prefix } else { "" };
            Ok((format!("{}{prefix}", sign(number.sign() == Sign::Minus)), digits, true))
        }
        'e' | 'E' | 'f' | 'F' | 'g' | 'G' => {
            let number = match value {
                Val::Undefined(undefined) => return Err(undefined.error()),
                _ => to_float(value)?,
            };
            let number = number.ok_or_else(|| {
                Error::type_error(format!("`%{conversion}` formats numbers, not `{}`", value.type_name()))
            })?;
            let digits = float_digits(number.abs(), conversion, precision.unwrap_or(6), flags.alternate);
            let negative = number.is_sign_negative() && !number.is_nan();
            Ok((sign(negative).to_owned(), digits, true))
        }
        other => Err(Error::value_error(format!("`%{other}` is not a format conversion"))),
    }
}

fn whole(value: &Val, floats: bool, conversion: char) -> Result<BigInt, Error> {
    match value {
        Val::Undefined(undefined) => Err(undefined.error()),
        Val::Float(number) if floats => BigInt::from_f64(number.trunc())
            .ok_or_else(|| Error::value_error("Infinity and NaN have no integer value")),
        _ => value.as_bigint().ok_or_else(|| {
            Error::type_error(format!("`%{conversion}` formats numbers, not `{}`", value.type_name()))
        }),
    }
}

/// Python's `ascii` of a string that is already a `repr`.
pub(super) fn ascii(text: &str) -> String {
    let mut out = String::new();
    for character in text.chars() {
        let code = u32::from(character);
        match code {
            0..=0x7f => out.push(character),
            0x80..=0xff => {
                let _ = write!(out, "\\x{code:02x}");
            }
            0x100..=0xffff => {
                let _ = write!(out, "\\u{code:04x}");
            }
            _ => {
                let _ = write!(out, "\\U{code:08x}");
            }
        }
    }
    out
}

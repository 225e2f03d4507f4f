//! Classifies the cells of a column: the reference's table writer parses text as numbers where it can.

use lmeval_pycompat::Value;
use lmeval_pycompat::float::{parse_float, parse_int};
use lmeval_pycompat::repr::{self, float_repr};

/// The type of a cell or column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Text,
    Real,
    Int,
    Bool,
    Infinite,
    NotANumber,
    Empty,
}

/// Classes in order of precedence for the type of a column.
const BY_RANK: [Class; 7] =
    [Class::Text, Class::Real, Class::Int, Class::Bool, Class::Infinite, Class::NotANumber, Class::Empty];

/// A cell and its type.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cell {
    pub(super) class: Class,
    content: Content,
}

#[derive(Clone, Debug, PartialEq)]
enum Content {
    Text(String),
    Number(Decimal),
}

/// A number by its digits, so that no precision is lost.
#[derive(Clone, Debug, PartialEq)]
struct Decimal {
    negative: bool,
    whole: String,
    fraction: String,
}

/// Reads the cells of a column from top to bottom. If `infinity` is given, it replaces infinite values.
pub(super) fn read_column<'a>(
    values: impl IntoIterator<Item = &'a Value>,
    infinity: Option<&str>,
) -> Vec<Cell> {
    // The first of the most frequent classes decides whether text is still parsed as numbers.
    let mut seen: Vec<(Class, usize)> = Vec::new();
    values
        .into_iter()
        .map(|value| {
            let mut major: Option<(Class, usize)> = None;
            for &(class, count) in &seen {
                if major.is_none_or(|(_, most)| count > most) {
                    major = Some((class, count));
                }
            }
            let literal = major.is_some_and(|(class, _)| class == Class::Text);
            let mut cell = Cell::read(value, literal);
            if let (Class::Infinite, Some(text)) = (cell.class, infinity) {
                cell = Cell { class: Class::Text, content: Content::Text(text.to_owned()) };
            }
            match seen.iter_mut().find(|(class, _)| *class == cell.class) {
                Some((_, count)) => *count += 1,
                None => seen.push((cell.class, 1)),
            }
            cell
        })
        .collect()
}

/// The type of a column, from its cells.
pub(super) fn column_class(cells: &[Cell]) -> Class {
    use Class::{Bool, Empty, Infinite, Int, NotANumber, Real, Text};
    let present = |class: Class| cells.iter().any(|cell| cell.class == class);
    let several = |classes: [Class; 4]| classes.into_iter().filter(|class| present(*class)).count() >= 2;
    if !present(Text)
        && !present(Bool)
        && (several([Real, Infinite, NotANumber, Empty]) || several([Int, Real, Infinite, NotANumber]))
    {
        return Real;
    }
    if present(Bool) && cells.iter().any(|cell| cell.class != Bool) {
        return Text;
    }
    BY_RANK.into_iter().find(|class| present(*class)).unwrap_or(Empty)
}

impl Cell {
    fn read(value: &Value, literal: bool) -> Self {
        let text = |class: Class, text: String| Self { class, content: Content::Text(text) };
        match value {
            Value::None => text(Class::Empty, String::new()),
            Value::Bool(_) => text(Class::Bool, repr::repr(value)),
            Value::Int(_) | Value::BigInt(_) => Self::number(Class::Int, Decimal::read(&repr::repr(value))),
            Value::Float(number) if number.is_nan() => text(Class::NotANumber, "NaN".to_owned()),
            Value::Float(number) if number.is_infinite() => text(Class::Infinite, "Infinity".to_owned()),
            Value::Float(number) => {
                let class = if number.fract() == 0.0 { Class::Int } else { Class::Real };
                Self::number(class, Decimal::read(&float_repr(*number)))
            }
            Value::Str(given) => {
                let cleaned = clean(given);
                if is_blank(&cleaned) {
                    text(Class::Empty, cleaned)
                } else if literal {
                    text(Class::Text, cleaned)
                } else {
                    Self::read_text(cleaned)
                }
            }
            other => text(Class::Text, repr::str(other)),
        }
    }

    fn number(class: Class, number: Option<Decimal>) -> Self {
        let number =
            number.unwrap_or(Decimal { negative: false, whole: "0".into(), fraction: String::new() });
        Self { class, content: Content::Number(number) }
    }

    fn read_text(text: String) -> Self {
        let grouped = has_grouped_digits(&text);
        let plain = if grouped { text.replace(',', "") } else { text.clone() };
        let class = match Decimal::read(&plain) {
            // Reference: text that looks like grouped digits loses its fraction.
            Some(number) if grouped => return Self::number(Class::Int, Decimal::read(&number.show_whole())),
            Some(number) => {
                let class = if number.fraction.is_empty() { Class::Int } else { Class::Real };
                return Self::number(class, Some(number));
            }
            None => match plain.trim().to_ascii_lowercase().trim_start_matches(['+', '-']) {
                "inf" | "infinity" => {
                    return Self { class: Class::Infinite, content: Content::Text("Infinity".into()) };
                }
                "nan" => return Self { class: Class::NotANumber, content: Content::Text("NaN".into()) },
                _ => match text.to_ascii_lowercase().as_str() {
                    "true" => return Self { class: Class::Bool, content: Content::Text("True".into()) },
                    "false" => return Self { class: Class::Bool, content: Content::Text("False".into()) },
                    _ => Class::Text,
                },
            },
        };
        Self { class, content: Content::Text(text) }
    }

    /// The number of decimals the cell needs.
    pub(super) fn decimals(&self) -> Option<usize> {
        match (self.class, &self.content) {
            (Class::Int, _) => Some(0),
            (Class::Real, Content::Number(number)) => Some(number.decimals()),
            _ => None,
        }
    }

    /// Formats the cell for a column of a class, with this number of decimals for numbers.
    pub(super) fn show(&self, column: Class, decimals: usize) -> String {
        match &self.content {
            Content::Text(text) => text.clone(),
            Content::Number(number) => match (column, self.class) {
                (Class::Real, _) | (Class::Text, Class::Real) => number.show(decimals),
                _ => number.show(0),
            },
        }
    }

    /// Whether the cell is right-aligned in a column of a class.
    pub(super) fn is_right(&self, column: Class) -> bool {
        match column {
            Class::Int | Class::Real => true,
            Class::Text => matches!(self.class, Class::Int | Class::Real),
            _ => false,
        }
    }
}

impl Decimal {
    /// Parses a decimal number like Python; `None` for anything else, including infinity and NaN.
    fn read(text: &str) -> Option<Self> {
        let text: String =
            text.trim().chars().filter(|character| *character != '_').map(ascii_digit).collect();
        let (negative, text) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(&text)),
        };
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, read_exponent(exponent)?),
            None => (text, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = format!("{whole}{fraction}");
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let point = whole.len() as i64 + exponent;
        let (whole, fraction) = if point <= 0 {
            (String::new(), "0".repeat(point.unsigned_abs() as usize) + &digits)
        } else if point as usize >= digits.len() {
            (digits.clone() + &"0".repeat(point as usize - digits.len()), String::new())
        } else {
            let (whole, fraction) = digits.split_at(point as usize);
            (whole.to_owned(), fraction.to_owned())
        };
        let whole = whole.trim_start_matches('0');
        let whole = if whole.is_empty() { "0" } else { whole }.to_owned();
        let fraction = fraction.trim_end_matches('0').to_owned();
        let negative = negative && !(whole == "0" && fraction.is_empty());
        Some(Self { negative, whole, fraction })
    }

    /// Reference: counts the digits in Python's `repr` of the float, including its exponent if there is one.
    fn decimals(&self) -> usize {
        let number = parse_float(&format!("{}.{}", self.whole, self.fraction)).unwrap_or(0.0);
        let text = float_repr(number);
        if let Some((_, fraction)) = text.split_once('.') {
            return fraction.len();
        }
        text.split_once("e-").and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or(0)
    }

    /// The number without its fraction.
    fn show_whole(&self) -> String {
        format!("{}{}", if self.negative { "-" } else { "" }, self.whole)
    }

    fn show(&self, decimals: usize) -> String {
        let (whole, fraction) = self.rounded(decimals);
        let sign = if self.negative { "-" } else { "" };
        if decimals == 0 { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction:0<decimals$}") }
    }

    /// The digits before and after the decimal point, rounded half to even.
    fn rounded(&self, decimals: usize) -> (String, String) {
        if self.fraction.len() <= decimals {
            return (self.whole.clone(), self.fraction.clone());
        }
        let (digits_kept, rest) = self.fraction.split_at(decimals);
        let mut digits: Vec<u8> = format!("0{}{digits_kept}", self.whole).into_bytes();
        let is_odd = digits.last().is_some_and(|digit| (digit - b'0') % 2 == 1);
        let up = match rest.as_bytes() {
            [b'5', more @ ..] if more.iter().all(|digit| *digit == b'0') => is_odd,
            [first, ..] => *first >= b'5',
            [] => false,
        };
        if up {
            for digit in digits.iter_mut().rev() {
                if *digit == b'9' {
                    *digit = b'0';
                } else {
                    *digit += 1;
                    break;
                }
            }
        }
        let text: String = digits.into_iter().map(char::from).collect();
        let (whole, fraction) = text.split_at(text.len() - decimals);
        let whole = whole.trim_start_matches('0');
        (if whole.is_empty() { "0" } else { whole }.to_owned(), fraction.to_owned())
    }
}

/// Parses an exponent of at most two digits.
fn read_exponent(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let fits = (1..=2).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    if fits { text.parse().ok() } else { None }
}

/// Converts a digit of any script to ASCII.
fn ascii_digit(character: char) -> char {
    if character.is_ascii() || !character.is_numeric() {
        return character;
    }
    let digit = parse_int(character.encode_utf8(&mut [0; 4]), 10).and_then(|digit| digit.as_i64());
    digit.and_then(|digit| char::from_digit(digit as u32, 10)).unwrap_or(character)
}

fn is_blank(text: &str) -> bool {
    text.chars().all(char::is_whitespace)
}

/// Whether the text contains a digit, a comma and a digit in sequence.
fn has_grouped_digits(text: &str) -> bool {
    text.as_bytes()
        .windows(3)
        .any(|window| window[0].is_ascii_digit() && window[1] == b',' && window[2].is_ascii_digit())
}

/// Removes tabs, line breaks and enclosing quotes.
fn clean(text: &str) -> String {
    let text = text.replace('\t', "  ").replace("\r\n", " ").replace('\n', " ");
    for quote in ['"', '\''] {
        if text.len() >= 2
            && text.starts_with(quote)
            && text.ends_with(quote)
            && text.matches(quote).count() == 2
        {
            return text[1..text.len() - 1].to_owned();
        }
    }
    text
}

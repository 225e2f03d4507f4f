//! Tags of nodes, and implicit tags of plain scalars.

use super::timestamp::Timestamp;

/// The expansion of `!!`.
pub(super) const CORE_PREFIX: &str = "tag:yaml.org,2002:";

/// A tag that the safe loader can construct, or the name of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Tag {
    Null,
    Bool,
    Int,
    Float,
    Str,
    Binary,
    Timestamp,
    Seq,
    Map,
    Set,
    OrderedMap,
    Pairs,
    /// `<<`, which has its own tag since it only has a meaning as a key.
    Merge,
    /// `=`, for the same reason.
    Value,
    Function,
    Other(Box<str>),
}

impl Tag {
    /// The tag with a full name, such as `tag:yaml.org,2002:int` or `!function`.
    pub(super) fn named(name: &str) -> Self {
        match name.strip_prefix(CORE_PREFIX) {
            Some("null") => Self::Null,
            Some("bool") => Self::Bool,
            Some("int") => Self::Int,
            Some("float") => Self::Float,
            Some("str") => Self::Str,
            Some("binary") => Self::Binary,
            Some("timestamp") => Self::Timestamp,
            Some("seq") => Self::Seq,
            Some("map") => Self::Map,
            Some("set") => Self::Set,
            Some("omap") => Self::OrderedMap,
            Some("pairs") => Self::Pairs,
            Some("merge") => Self::Merge,
            Some("value") => Self::Value,
            _ if name == "!function" => Self::Function,
            _ => Self::Other(name.into()),
        }
    }

    /// The tag as written in a document.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Null => "!!null",
            Self::Bool => "!!bool",
            Self::Int => "!!int",
            Self::Float => "!!float",
            Self::Str => "!!str",
            Self::Binary => "!!binary",
            Self::Timestamp => "!!timestamp",
            Self::Seq => "!!seq",
            Self::Map => "!!map",
            Self::Set => "!!set",
            Self::OrderedMap => "!!omap",
            Self::Pairs => "!!pairs",
            Self::Merge => "!!merge",
            Self::Value => "!!value",
            Self::Function => "!function",
            Self::Other(name) => name,
        }
    }
}

/// The tag that PyYAML's regular expressions assign to a plain scalar.
pub(super) fn resolve(text: &str) -> Tag {
    let Some(&first) = text.as_bytes().first() else {
        return Tag::Null;
    };
    // Python's `$` also matches before a trailing line break, which `! |` scalars can have.
    let body = text.strip_suffix('\n').unwrap_or(text);
    match first {
        b'y' | b'Y' | b'n' | b'N' | b't' | b'T' | b'f' | b'F' | b'o' | b'O' => match body {
            "yes" | "Yes" | "YES" | "no" | "No" | "NO" => Tag::Bool,
            "true" | "True" | "TRUE" | "false" | "False" | "FALSE" => Tag::Bool,
            "on" | "On" | "ON" | "off" | "Off" | "OFF" => Tag::Bool,
            "null" | "Null" | "NULL" => Tag::Null,
            _ => Tag::Str,
        },
        b'~' if body == "~" => Tag::Null,
        b'<' if body == "<<" => Tag::Merge,
        b'=' if body == "=" => Tag::Value,
        b'!' | b'&' | b'*' if body.len() == 1 => Tag::Other(format!("{CORE_PREFIX}yaml").into()),
        b'0'..=b'9' | b'-' | b'+' | b'.' => {
            let bytes = body.as_bytes();
            if is_float(bytes) {
                Tag::Float
            } else if first != b'.' && is_integer(bytes) {
                Tag::Int
            } else if first.is_ascii_digit()
                && Timestamp::parse(body).is_some_and(|found| found.is_implicit())
            {
                Tag::Timestamp
            } else {
                Tag::Str
            }
        }
        _ => Tag::Str,
    }
}

fn unsigned(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"-").or_else(|| bytes.strip_prefix(b"+")).unwrap_or(bytes)
}

fn is_digit_or_underscore(byte: u8) -> bool {
    byte.is_ascii_digit() || byte == b'_'
}

fn split_digits(bytes: &[u8]) -> (&[u8], &[u8]) {
    bytes.split_at(bytes.iter().take_while(|byte| is_digit_or_underscore(**byte)).count())
}

/// `(:[0-5]?[0-9])+`
fn is_sexagesimal(bytes: &[u8]) -> bool {
    let mut parts = bytes.split(|byte| *byte == b':');
    let starts = parts.next().is_some_and(<[u8]>::is_empty);
    starts
        && bytes.len() > 1
        && parts.all(|part| match part {
            [digit] => digit.is_ascii_digit(),
            [tens, digit] => matches!(tens, b'0'..=b'5') && digit.is_ascii_digit(),
            _ => false,
        })
}

/// `([eE][-+][0-9]+)?`
fn is_exponent(bytes: &[u8]) -> bool {
    match bytes {
        [] => true,
        [b'e' | b'E', b'-' | b'+', digits @ ..] => {
            !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
        }
        _ => false,
    }
}

fn is_float(bytes: &[u8]) -> bool {
    let body = unsigned(bytes);
    if matches!(body, b".inf" | b".Inf" | b".INF") || matches!(bytes, b".nan" | b".NaN" | b".NAN") {
        return true;
    }
    match body {
        // Reference: a leading dot takes no sign, so `-.5` is a string.
        [b'.', digit, ..] if digit.is_ascii_digit() && bytes.len() == body.len() => {
            is_exponent(split_digits(&body[1..]).1)
        }
        [digit, ..] if digit.is_ascii_digit() => match split_digits(body).1 {
            [b'.', rest @ ..] => is_exponent(split_digits(rest).1),
            rest @ [b':', ..] => {
                let dot = rest.iter().position(|byte| *byte == b'.');
                dot.is_some_and(|dot| {
                    is_sexagesimal(&rest[..dot])
                        && rest[dot + 1..].iter().all(|byte| is_digit_or_underscore(*byte))
                })
            }
            _ => false,
        },
        _ => false,
    }
}

fn is_integer(bytes: &[u8]) -> bool {
    match unsigned(bytes) {
        [b'0'] => true,
        [b'0', b'b', rest @ ..] => {
            !rest.is_empty() && rest.iter().all(|byte| matches!(byte, b'0' | b'1' | b'_'))
        }
        [b'0', b'x', rest @ ..] => {
            !rest.is_empty() && rest.iter().all(|byte| byte.is_ascii_hexdigit() || *byte == b'_')
        }
        [b'0', rest @ ..] => rest.iter().all(|byte| matches!(byte, b'0'..=b'7' | b'_')),
        body @ [b'1'..=b'9', ..] => {
            let rest = split_digits(body).1;
            rest.is_empty() || is_sexagesimal(rest)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolves_plain_scalars() {
        let expected = [
            (Tag::Null, &["", "~", "null", "NULL", "~\n"][..]),
            (Tag::Bool, &["yes", "No", "ON", "off", "true", "FALSE"]),
            (
                Tag::Int,
                &["0", "-0", "010", "0_7", "0_", "1_000", "+5", "0b_", "-0x1F", "1:30", "1_:0", "190:20:30"],
            ),
            (
                Tag::Float,
                &["1.", ".5", "1.e+5", "1.5E-3", "0:0.", "1:59._", "-.inf", ".NaN", "0_._", "685_230.15"],
            ),
            (Tag::Timestamp, &["2020-01-01", "2020-13-45", "2020-1-1 1:00:00"]),
            (Tag::Merge, &["<<"]),
            (Tag::Value, &["="]),
            (
                Tag::Str,
                &[
                    "y", "N", "tRue", "nULL", "None", "\n", "0o17", "08", "1e5", "1.0e5", "1e-5", "-.5",
                    "1:60", "_1", "-.nan", "2020-1-1", "<<<", "==", "+", "-", ".", "._", "1.5:30", "0x",
                    "0b2", "1:", "1__:",
                ],
            ),
        ];
        for (tag, texts) in expected {
            for text in texts {
                assert_eq!(resolve(text), tag, "{text:?}");
            }
        }
    }
}

//! Options that take a dictionary: `key=value,…` or JSON.

use anyhow::{Result, bail};
use lmeval_core::Diagnostic;
use lmeval_pycompat::{Dict, Value, float, json, literal, repr, strings};

/// A parsed dictionary and the warnings about it.
#[derive(Debug, Default)]
pub(super) struct ParsedDict {
    pub dict: Dict,
    pub notes: Vec<String>,
}

/// Parses the words of an option, occurrence by occurrence.
pub(super) fn parse(option: &str, occurrences: &[Vec<String>]) -> Result<ParsedDict> {
    let mut parsed = ParsedDict::default();
    for words in occurrences {
        if let Some((first, rest)) = words.split_first()
            && let Some(object) = object(option, first)?
        {
            parsed.dict.update(&object);
            if !rest.is_empty() {
                parsed.notes.push(format!("Words after the JSON of `--{option}` are ignored"));
            }
            continue;
        }
        for word in words {
            pairs(option, word, &mut parsed)?;
        }
    }
    Ok(parsed)
}

/// Parses a word as a JSON object; `None` if it is to be parsed as pairs.
fn object(option: &str, word: &str) -> Result<Option<Dict>> {
    match json::loads(word) {
        Ok(Value::Dict(object)) => Ok(Some(Dict::clone(&object))),
        // The message does not quote the word: it may contain a key or a password.
        Err(error) if word.contains('{') => {
            let diagnostic = Diagnostic::new(format!("`--{option}` contains a brace but is not valid JSON"))
                .caused_by(error);
            bail!(diagnostic.hint("Write `key=value,…`, or a JSON object"))
        }
        _ => Ok(None),
    }
}

fn pairs(option: &str, word: &str, parsed: &mut ParsedDict) -> Result<()> {
    for (index, piece) in pieces(word).into_iter().enumerate() {
        let Some((key, value)) = piece.split_once('=') else {
            let diagnostic =
                Diagnostic::new(format!("Part {} of `--{option}` is not a `key=value` pair", index + 1));
            bail!(diagnostic.hint("Separate pairs with commas, or pass a JSON object"));
        };
        let Some(value) = coerce(value) else {
            bail!("The value of `{key}` in `--{option}` consists of numeric characters but is not a number");
        };
        if parsed.dict.insert(key, value).is_some() {
            parsed.notes.push(format!("`--{option}` gives `{key}` more than once; the last value wins"));
        }
    }
    Ok(())
}

/// Splits at commas outside brackets and quotes; drops empty pieces.
fn pieces(word: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let (mut start, mut depth, mut quote) = (0, 0_usize, None);
    for (at, character) in word.char_indices() {
        match (quote, character) {
            (Some(open), _) => quote = (character != open).then_some(open),
            (None, '"' | '\'') => quote = Some(character),
            (None, '[' | '(' | '{') => depth += 1,
            (None, ']' | ')' | '}') => depth = depth.saturating_sub(1),
            (None, ',') if depth == 0 => {
                pieces.push(&word[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    pieces.push(&word[start..]);
    pieces.retain(|piece| !piece.is_empty());
    pieces
}

/// Converts a value of the command line to a Python value; `None` if it consists of numeric characters but is not a number.
pub(super) fn coerce(text: &str) -> Option<Value> {
    if let Some(value) = boolean(text) {
        return Some(value);
    }
    if is_numeric(text) {
        return float::parse_int(text, 10);
    }
    if let Some(number) = float::parse_float(text) {
        return Some(Value::Float(number));
    }
    Some(literal::literal_eval(text).unwrap_or_else(|_| Value::str(text)))
}

/// Parses a string given for a dictionary in a settings file or a call from Python.
///
/// Reference: simpler than on the command line. A piece without `=` has an empty value, and there are no literals.
pub(crate) fn from_text(text: &str) -> Dict {
    let pieces = strings::strip(text).split(',').filter(|piece| !piece.is_empty());
    let pairs = pieces.map(|piece| piece.split_once('=').unwrap_or((piece, "")));
    pairs.map(|(key, value)| (Value::str(key), plain(strings::strip(value)))).collect()
}

/// Converts a stripped value of such a string; quotes make it a string whatever they enclose.
fn plain(text: &str) -> Value {
    let quoted = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote);
    if let Some(inner) = quoted('\'').or_else(|| quoted('"')) {
        return Value::str(inner);
    }
    if strings::lower(text) == "none" {
        return Value::None;
    }
    if let Some(value) = boolean(text) {
        return value;
    }
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if !digits.is_empty()
        && digits.chars().all(strings::is_decimal)
        && let Some(number) = float::parse_int(text, 10)
    {
        return number;
    }
    float::parse_float(text).map_or_else(|| Value::str(text), Value::Float)
}

fn boolean(text: &str) -> Option<Value> {
    match strings::lower(text).as_str() {
        "true" => Some(Value::Bool(true)),
        "false" => Some(Value::Bool(false)),
        _ => None,
    }
}

/// Python's `str.isnumeric`.
fn is_numeric(text: &str) -> bool {
    !text.is_empty() && text.chars().all(strings::is_numeric)
}

/// The dictionary as it is printed, with secrets masked.
pub(super) fn shown(dict: &Dict) -> String {
    repr::repr(&lmeval_core::secrets::mask_secrets(&Value::from(dict.clone())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(occurrences: &[&[&str]]) -> Result<String> {
        let words: Vec<Vec<String>> =
            occurrences.iter().map(|words| words.iter().map(|word| (*word).to_owned()).collect()).collect();
        Ok(repr::repr(&Value::from(parse("model_args", &words)?.dict)))
    }

    #[test]
    fn parses_pairs_and_json() {
        for (occurrences, expected) in [
            (&[&["pretrained=gpt2,dtype=float32"][..]][..], "{'pretrained': 'gpt2', 'dtype': 'float32'}"),
            (&[&["pretrained=gpt2", "dtype=float32"]], "{'pretrained': 'gpt2', 'dtype': 'float32'}"),
            (&[&[r#"{"a":1,"b":{"c":[1,2]}}"#]], "{'a': 1, 'b': {'c': [1, 2]}}"),
            (&[&[r#"{"a":1}"#, "x=2"]], "{'a': 1}"),
            (&[&["a=1"], &["b=2"]], "{'a': 1, 'b': 2}"),
            (&[&["a=1"], &[r#"{"b":2}"#]], "{'a': 1, 'b': 2}"),
            (&[&["a=b=c"]], "{'a': 'b=c'}"),
            (&[&["a="]], "{'a': ''}"),
            (&[&["a=[1]"]], "{'a': [1]}"),
            (&[&[r#"stop=["\n\n"]"#]], r"{'stop': ['\n\n']}"),
            (&[&[""]], "{}"),
            (&[&["a=1,"]], "{'a': 1}"),
            (&[&["a=[1,2],b=(3,'x,y')"]], "{'a': [1, 2], 'b': (3, 'x,y')}"),
            (&[&[r#"until=["a","b"]"#]], "{'until': ['a', 'b']}"),
            (&[&["a=1", "b={'x': 1, 'y': 2}"]], "{'a': 1, 'b': {'x': 1, 'y': 2}}"),
            (&[&["a=it's,b=2"]], "{'a': \"it's,b=2\"}"),
            (&[&["a=1,a=2"]], "{'a': 2}"),
            (&[&[" a = b"]], "{' a ': ' b'}"),
        ] {
            assert_eq!(read(occurrences).unwrap(), expected, "{occurrences:?}");
        }
    }

    #[test]
    fn rejects_other_words() {
        for words in
            [&["x=2", r#"{"a":1}"#][..], &["foo"], &["a={'x':1}"], &["5"], &["null"], &["a=²"], &["a=½"]]
        {
            assert!(read(&[words]).is_err(), "{words:?}");
        }
    }

    #[test]
    fn converts_values_like_python() {
        for (text, expected) in [
            ("12", "12"),
            ("007", "7"),
            ("-3", "-3.0"),
            ("+4", "4.0"),
            ("1e-3", "0.001"),
            (".5", "0.5"),
            ("5.", "5.0"),
            ("1_000", "1000.0"),
            (" 5 ", "5.0"),
            ("None", "None"),
            ("none", "'none'"),
            ("null", "'null'"),
            ("'abc'", "'abc'"),
            ("\"abc\"", "'abc'"),
            ("0x10", "16"),
            ("(1)", "1"),
            ("TRUE", "True"),
            ("false", "False"),
            ("True ", "True"),
            (" true", "' true'"),
            ("inf", "inf"),
            ("nan", "nan"),
            ("1e400", "inf"),
            ("cuda:0", "'cuda:0'"),
            ("3L", "'3L'"),
            ("[1", "'[1'"),
            ("", "''"),
            ("१२", "12"),
        ] {
            assert_eq!(repr::repr(&coerce(text).unwrap()), expected, "{text:?}");
        }
    }

    /// Recorded from 0.4.13.
    #[test]
    fn strings_in_files_have_no_literals() {
        let read = |text: &str| repr::repr(&Value::from(from_text(text)));
        assert_eq!(
            read(" a=1,,b=None,c=x=y,d=[1],e,f=True "),
            "{'a': 1, 'b': None, 'c': 'x=y', 'd': '[1]', 'e': '', 'f': True}"
        );
        assert_eq!(read(""), "{}");
        assert_eq!(read(" a=1 , b = 2 "), "{'a': 1, ' b ': 2}");
        for (text, expected) in [
            ("None", "None"),
            ("none", "None"),
            ("null", "'null'"),
            ("-1", "-1"),
            ("+4", "4"),
            ("-0", "0"),
            ("007", "7"),
            ("--1", "'--1'"),
            ("-", "'-'"),
            ("-1.5", "-1.5"),
            ("1e3", "1000.0"),
            ("1_000", "1000.0"),
            ("5.", "5.0"),
            ("inf", "inf"),
            (" 5 ", "5"),
            (" true", "True"),
            ("1 2", "'1 2'"),
            ("'x'", "'x'"),
            ("\"5\"", "'5'"),
            ("' 5 '", "' 5 '"),
            ("'none'", "'none'"),
            ("''", "''"),
            ("'", "\"'\""),
            ("'a", "\"'a\""),
            ("½", "'½'"),
            ("²", "'²'"),
            ("-½", "'-½'"),
            ("१२", "12"),
            ("-१", "-1"),
        ] {
            assert_eq!(read(&format!("a={text}")), format!("{{'a': {expected}}}"), "{text:?}");
        }
    }
}

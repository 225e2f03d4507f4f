//! Options that take a dictionary: `key=value,…`, or JSON.

use anyhow::{Result, bail};
use lmeval_core::Diagnostic;
use lmeval_pycompat::{Dict, Value, float, json, literal, repr, strings};

/// A dictionary that was typed, and what is doubtful about it.
#[derive(Debug, Default)]
pub(super) struct Typed {
    /// The dictionary.
    pub dict: Dict,
    /// Warnings.
    pub notes: Vec<String>,
}

/// Reads the words of an option, occurrence by occurrence.
pub(super) fn parse(option: &str, occurrences: &[Vec<String>]) -> Result<Typed> {
    let mut typed = Typed::default();
    for words in occurrences {
        if let Some((first, rest)) = words.split_first()
            && let Some(object) = object(option, first)?
        {
            typed.dict.update(&object);
            if !rest.is_empty() {
                typed.notes.push(format!("What follows the JSON of `--{option}` is ignored"));
            }
            continue;
        }
        for word in words {
            pairs(option, word, &mut typed)?;
        }
    }
    Ok(typed)
}

/// The JSON object that a word is; `None` where it is to be read as pairs.
fn object(option: &str, word: &str) -> Result<Option<Dict>> {
    match json::loads(word) {
        Ok(Value::Dict(object)) => Ok(Some(Dict::clone(&object))),
        // The text is not repeated: it may hold a key or a password.
        Err(error) if word.contains('{') => {
            let told = Diagnostic::new(format!("`--{option}` has a brace and is not JSON")).caused_by(error);
            bail!(told.hint("Write `key=value,…`, or a JSON object"))
        }
        _ => Ok(None),
    }
}

fn pairs(option: &str, word: &str, typed: &mut Typed) -> Result<()> {
    for (place, piece) in pieces(word).into_iter().enumerate() {
        let Some((key, value)) = piece.split_once('=') else {
            let told =
                Diagnostic::new(format!("Part {} of `--{option}` is not a `key=value` pair", place + 1));
            bail!(told.hint("Pairs are separated by commas, and may be given as JSON"));
        };
        let Some(value) = coerce(value) else {
            bail!("The value of `{key}` in `--{option}` has characters that are numbers, but is not one");
        };
        if typed.dict.insert(key, value).is_some() {
            typed.notes.push(format!("`--{option}` gives `{key}` more than once; the last one counts"));
        }
    }
    Ok(())
}

/// The parts between commas that stand outside of brackets and quotes; empty ones count for nothing.
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

/// What a value on the command line is; `None` where it looks like a number and is none.
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

/// Reads text that stands for a dictionary in a settings file or in a call from Python.
///
/// Reference: simpler than what is typed. A piece without `=` has an empty value, and there are no literals.
pub(super) fn from_text(text: &str) -> Dict {
    let pieces = strings::strip(text).split(',').filter(|piece| !piece.is_empty());
    let pairs = pieces.map(|piece| piece.split_once('=').unwrap_or((piece, "")));
    pairs.map(|(key, value)| (Value::str(key), plain(strings::strip(value)))).collect()
}

/// What a stripped value of such text is: quotes make it text whatever they enclose.
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

/// `str.isnumeric`.
fn is_numeric(text: &str) -> bool {
    !text.is_empty() && text.chars().all(strings::is_numeric)
}

/// The nearest thing to `key=value,…` that a dictionary can be shown as.
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
    fn words_are_pairs_or_json() {
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
    fn what_is_neither_is_an_error() {
        for words in
            [&["x=2", r#"{"a":1}"#][..], &["foo"], &["a={'x':1}"], &["5"], &["null"], &["a=²"], &["a=½"]]
        {
            assert!(read(&[words]).is_err(), "{words:?}");
        }
    }

    #[test]
    fn values_become_what_python_makes_of_them() {
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
    fn text_of_a_file_has_no_literals() {
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

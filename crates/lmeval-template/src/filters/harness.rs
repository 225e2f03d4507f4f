//! Filters that the harness adds to prompts.

use lmeval_pycompat::float::parse_int;
use lmeval_pycompat::re::{Flags, Regex};
use lmeval_pycompat::strings;

use crate::arguments::{Args, integer, text};
use crate::ast::BinaryOperator;
use crate::error::Error;
use crate::eval::Vm;
use crate::operators;
use crate::value::{Iter, Val, equals, str_of, write_str};

/// `regex_replace(pattern, repl, count)`: Python's `re.sub`.
pub(super) fn regex_replace(_: &mut Vm<'_>, value: &Val, args: Args) -> Result<Val, Error> {
    let [pattern, replacement, count] = args.bind("regex_replace", ["pattern", "repl", "count"], 2)?;
    let (pattern, replacement) = (pattern.unwrap_or(Val::None), replacement.unwrap_or(Val::None));
    let count = count.map_or(Ok(0), |count| integer(&count))?;
    let subject = text(value)?;
    let regex = Regex::new(text(&pattern)?, Flags::default())
        .map_err(|error| Error::value_error(format!("Invalid regular expression: {error}")))?;
    let count = usize::try_from(count).unwrap_or(0);
    let result = regex
        .sub(text(&replacement)?, subject, count)
        .map_err(|error| Error::value_error(format!("The replacement failed: {error}")))?;
    Ok(Val::str(&*result))
}

/// `letter_choices(sep, style)`: choices labelled `A`, `B` and so on.
pub(super) fn letter_choices(vm: &mut Vm<'_>, value: &Val, args: Args) -> Result<Val, Error> {
    let [separator, style] = args.bind("letter_choices", ["sep", "style"], 0)?;
    let separator = separator.map_or_else(|| Ok("\n".into()), |separator| text(&separator).cloned())?;
    let style = style.map_or_else(|| Ok(". ".into()), |style| str_of(&style))?;
    let mut iterator = Iter::over(value)?;
    let mut out = String::new();
    let mut letters = 'A'..='Z';
    let mut first = true;
    while let Some(choice) = iterator.next(vm)? {
        let Some(letter) = letters.next() else {
            return Err(Error::value_error("There are more choices than letters"));
        };
        if !first {
            out.push_str(&separator);
        }
        first = false;
        out.push(letter);
        out.push_str(&style);
        write_str(&mut out, &choice)?;
    }
    Ok(Val::str(out))
}

/// `answer_key_to_index(labels)`: the index of a label among the labels, the alphabet or the numbers from 1.
pub(super) fn answer_key_to_index(vm: &mut Vm<'_>, value: &Val, args: Args) -> Result<Val, Error> {
    let [labels] = args.bind("answer_key_to_index", ["labels"], 0)?;
    let key = str_of(value)?;
    let key = strings::strip(&key);
    match labels {
        None | Some(Val::None) => {}
        Some(labels) => {
            let mut iterator = Iter::over(&labels)?;
            let mut index = 0;
            while let Some(label) = iterator.next(vm)? {
                if equals(&label, &Val::str(key))? {
                    return Ok(Val::Int(index));
                }
                index += 1;
            }
            return Err(Error::value_error(format!("`{key}` is not among the labels")));
        }
    }
    let mut characters = key.chars();
    if let (Some(letter), None) = (characters.next(), characters.next())
        && strings::is_alpha(letter)
    {
        let upper = strings::upper(key);
        let mut upper = upper.chars();
        return match (upper.next(), upper.next()) {
            (Some(upper), None) => Ok(Val::Int(i64::from(u32::from(upper)) - i64::from(u32::from('A')))),
            _ => Err(Error::type_error(format!("`{key}` is not a single letter"))),
        };
    }
    match parse_int(key, 10) {
        Some(number) => operators::binary(vm, BinaryOperator::Subtract, &Val::from(&number), &Val::Int(1)),
        None => Err(Error::value_error(format!("`{key}` is neither a letter nor a number"))),
    }
}

//! Values as strings for people, with long ones folded.

use lmeval_analysis::samples::parts::target_option;
use lmeval_pycompat::{Value, json, repr};

/// Folds long strings, and counts them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Folding {
    /// Characters shown at the start and at the end of a long string; `None` shows everything.
    ends: Option<usize>,
    folded: usize,
}

impl Folding {
    /// Shows this number of characters at each end of a long string; `None` shows everything.
    pub(crate) fn new(ends: Option<usize>) -> Self {
        Self { ends, folded: 0 }
    }

    /// The string with its middle replaced by the number of characters there.
    pub(crate) fn fold(&mut self, text: String) -> String {
        let Some(ends) = self.ends else { return text };
        // Folding a few characters would hide more than the note about them takes.
        let most = 2 * ends + 40;
        if text.len() <= most {
            return text;
        }
        let count = text.chars().count();
        if count <= most {
            return text;
        }
        let offset_of =
            |index: usize| text.char_indices().nth(index).map_or(text.len(), |(offset, _)| offset);
        let (start, end) = (offset_of(ends), offset_of(count - ends));
        self.folded += 1;
        format!("{} … {} characters … {}", &text[..start], count - 2 * ends, &text[end..])
    }

    /// The number of folded strings.
    pub(crate) fn folded(&self) -> usize {
        self.folded
    }
}

/// A value for reading: strings as they are, lists of one item as that item, everything else as Python shows it.
pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::Str(text) => text.to_string(),
        // One answer of one request is the usual case.
        Value::List(items) if items.len() == 1 => shown(&items[0]),
        other => repr::repr(other),
    }
}

/// A value as a cell: strings as they are, nothing for a missing one, everything else as JSON.
pub(crate) fn cell(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::None) => String::new(),
        Some(Value::Str(text)) => text.to_string(),
        Some(value) => {
            let options = json::Options { ensure_ascii: false, ..json::Options::default() };
            json::dumps(value, &options).unwrap_or_else(|_| repr::repr(value))
        }
    }
}

/// A target as people read it: the option that it names, if it is an index into the options.
pub(crate) fn target_text(target: &Value, continuations: &[Value]) -> String {
    match target_option(target, continuations.len()) {
        Some(option) => format!("{} (option {option})", repr::repr(&continuations[option])),
        None => shown(target),
    }
}

/// Log-likelihoods beside their continuations, if these are the answer. `*` marks the largest, `✓` the right option.
pub(crate) fn likelihood_lines(
    continuations: &[Value],
    responses: &Value,
    target: Option<&Value>,
) -> Option<Vec<String>> {
    let responses = responses.as_list()?;
    if continuations.is_empty() || continuations.len() != responses.len() {
        return None;
    }
    let answers: Vec<(f64, String)> = responses.iter().map(likelihood).collect::<Option<_>>()?;
    let largest = answers.iter().map(|(number, _)| *number).fold(f64::NEG_INFINITY, f64::max);
    let width = answers.iter().map(|(_, shown)| shown.len()).max().unwrap_or(0);
    let right = target.and_then(|target| target_option(target, continuations.len()));
    let lines =
        answers.iter().zip(continuations).enumerate().map(|(index, ((number, shown), continuation))| {
            let chosen = if number.total_cmp(&largest).is_eq() { '*' } else { ' ' };
            let mark = if right == Some(index) { '✓' } else { ' ' };
            format!("{chosen}{mark} {shown:>width$}  {}", repr::repr(continuation))
        });
    Some(lines.collect())
}

/// The log-likelihood in a response such as `[["-3.2", "False"]]`; samples files have it as a string or as a number.
fn likelihood(response: &Value) -> Option<(f64, String)> {
    let pair = match response.as_list()? {
        [Value::List(inner)] => inner.as_slice(),
        other => other,
    };
    let [likelihood, _] = pair else { return None };
    let number = match likelihood {
        Value::Str(text) => text.parse().ok()?,
        other => other.to_f64()?,
    };
    Some((number, format!("{number:.4}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folded_texts_name_the_hidden_characters() {
        let mut folding = Folding::new(Some(3));
        assert_eq!(folding.fold("é".repeat(46)), "é".repeat(46));
        assert_eq!(folding.folded(), 0);
        let long = format!("日本語{}end", "x".repeat(100));
        assert_eq!(folding.fold(long), "日本語 … 100 characters … end");
        assert_eq!(folding.folded(), 1);
        assert_eq!(Folding::new(None).fold("x".repeat(1000)).len(), 1000);
    }

    #[test]
    fn cells_keep_strings_and_write_json() {
        assert_eq!(cell(Some(&Value::str("a\nb"))), "a\nb");
        assert_eq!(cell(Some(&Value::list([Value::str("é"), Value::Bool(true)]))), "[\"é\", true]");
        assert_eq!(cell(Some(&Value::Float(f64::NAN))), "NaN");
        assert_eq!(cell(None), "");
    }
}

//! The fields that rows show.

use anyhow::{Result, bail};
use lmeval_analysis::samples::Expression;

/// The fields of tables if none are chosen.
const USUAL: [&str; 8] =
    ["task", "doc_id", "filter", "outcome", "prompt", "target", "answer", "filtered_resps"];

/// Parses fields and expressions that are separated by commas outside of brackets and quotes.
pub(super) fn parse(text: &str, known: &[&str]) -> Result<Vec<Expression>> {
    let mut fields = Vec::new();
    for part in split(text) {
        if part.trim().is_empty() {
            bail!("--fields has an empty field: `{text}`");
        }
        let field = Expression::field(part, "--fields");
        field.check(known)?;
        fields.push(field);
    }
    Ok(fields)
}

/// The usual fields and all metrics.
pub(super) fn usual(metrics: &[String]) -> Vec<Expression> {
    let names = USUAL.into_iter().chain(metrics.iter().map(String::as_str));
    names.map(|name| Expression::field(name, "--fields")).collect()
}

fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0i32);
    let mut quote = None;
    let mut is_escaped = false;
    for (offset, character) in text.char_indices() {
        match (quote, character) {
            (Some(_), _) if is_escaped => is_escaped = false,
            (Some(_), '\\') => is_escaped = true,
            (Some(open), _) if open == character => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(character),
            (None, '(' | '[' | '{') => depth += 1,
            (None, ')' | ']' | '}') => depth -= 1,
            (None, ',') if depth <= 0 => {
                parts.push(&text[start..offset]);
                start = offset + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_in_brackets_and_quotes_do_not_separate() {
        assert_eq!(split("a,doc.b,c"), ["a", "doc.b", "c"]);
        assert_eq!(split("a[1,2], f('x,\\'y', z)|join(','),b"), ["a[1,2]", " f('x,\\'y', z)|join(',')", "b"]);
        assert_eq!(split("a,"), ["a", ""]);
    }
}

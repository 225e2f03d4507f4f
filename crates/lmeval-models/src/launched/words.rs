//! Splits a string into words as a shell does.

/// The words of a string: separated by spaces, with quotes and backslashes. `None` if a quote has no end.
pub(super) fn split_words(text: &str) -> Option<Vec<String>> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match (quote, character) {
            (Some(open), character) if character == open => quote = None,
            (None, '"' | '\'') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => word.get_or_insert_default().extend(characters.next()),
            (None, character) if character.is_whitespace() => words.extend(word.take()),
            (_, character) => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_like_a_shell() {
        let split = |text: &str| split_words(text).unwrap();
        assert_eq!(split("  --a 1\t--b=2 "), ["--a", "1", "--b=2"]);
        assert_eq!(split(r#"--c '{"x": "y z"}' """#), ["--c", r#"{"x": "y z"}"#, ""]);
        assert_eq!(split(r#"a\ b "c\"d" 'e\f'"#), ["a b", "c\"d", "e\\f"]);
        assert_eq!(split_words("--a 'b"), None);
        assert!(split("").is_empty());
    }
}

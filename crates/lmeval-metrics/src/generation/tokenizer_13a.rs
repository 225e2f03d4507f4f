//! BLEU's tokenizer.

use lmeval_pycompat::strings::split_whitespace;

/// Tokenizes a segment like `13a`: punctuation is separated, except inside numbers.
///
/// ```
/// use lmeval_metrics::generation::tokenize_13a;
///
/// assert_eq!(tokenize_13a("It costs $1,234.50, e.g.").join(" "), "It costs $ 1,234.50 , e . g .");
/// ```
pub fn tokenize_13a(text: &str) -> Vec<String> {
    let mut text = text.replace("<skipped>", "").replace("-\n", "").replace('\n', " ");
    if text.contains('&') {
        for (entity, character) in [("&quot;", "\""), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">")] {
            text = text.replace(entity, character);
        }
    }
    let padded: Vec<char> = [' '].into_iter().chain(text.chars()).chain([' ']).collect();
    let mut spaced = Vec::with_capacity(padded.len() * 2);
    for character in padded {
        if is_symbol(character) {
            spaced.extend([' ', character, ' ']);
        } else {
            spaced.push(character);
        }
    }
    let spaced = split_pairs(
        &spaced,
        |left, right| !left.is_ascii_digit() && is_point(right),
        |left, right| [left, ' ', right, ' '],
    );
    let spaced = split_pairs(
        &spaced,
        |left, right| is_point(left) && !right.is_ascii_digit(),
        |left, right| [' ', left, ' ', right],
    );
    let spaced = split_pairs(
        &spaced,
        |left, right| left.is_ascii_digit() && right == '-',
        |left, right| [left, ' ', right, ' '],
    );
    let text: String = spaced.into_iter().collect();
    split_whitespace(&text, None).into_iter().map(str::to_owned).collect()
}

/// Replaces each matching pair of adjacent characters, from the left and without overlap.
fn split_pairs(
    text: &[char],
    fits: impl Fn(char, char) -> bool,
    replace: impl Fn(char, char) -> [char; 4],
) -> Vec<char> {
    let mut out = Vec::with_capacity(text.len() + 16);
    let mut position = 0;
    while position < text.len() {
        let left = text[position];
        match text.get(position + 1) {
            Some(&right) if fits(left, right) => {
                out.extend(replace(left, right));
                position += 2;
            }
            _ => {
                out.push(left);
                position += 1;
            }
        }
    }
    out
}

fn is_point(character: char) -> bool {
    matches!(character, '.' | ',')
}

/// The characters that are always separated: all ASCII punctuation and the space, except `'`, `,`, `-` and `.`.
fn is_symbol(character: char) -> bool {
    (character.is_ascii_punctuation() || character == ' ') && !matches!(character, '\'' | ',' | '-' | '.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_numbers_intact() {
        for (text, expected) in [
            ("It costs $1,234.50, isn't it? 5-3 a-b x/y", "It costs $ 1,234.50 , isn't it ? 5 - 3 a-b x / y"),
            ("e.g. A.B 3,5", "e . g . A . B 3,5"),
            ("a &amp;lt; b-\nc\nd<skipped>", "a < bc d"),
            ("..x", ". . x"),
            ("", ""),
            ("日本。", "日本。"),
        ] {
            assert_eq!(tokenize_13a(text).join(" "), expected, "{text}");
        }
    }
}

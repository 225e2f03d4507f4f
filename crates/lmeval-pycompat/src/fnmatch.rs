//! `fnmatch.fnmatchcase`: shell-style patterns that match entire names.

/// One element of a pattern.
enum Element {
    /// `*`: any number of characters.
    Star,
    /// `?`: any one character.
    Any,
    /// A literal character.
    Literal(char),
    /// `[abc]`, `[a-z]`, `[!abc]`.
    Set { negated: bool, ranges: Vec<(char, char)> },
}

impl Element {
    fn accepts(&self, character: char) -> bool {
        match self {
            Self::Star | Self::Any => true,
            Self::Literal(expected) => *expected == character,
            Self::Set { negated, ranges } => {
                ranges.iter().any(|(low, high)| (*low..=*high).contains(&character)) != *negated
            }
        }
    }
}

/// A compiled pattern: `*`, `?`, `[seq]`, `[!seq]`; case-sensitive, and matches entire names.
///
/// ```
/// use lmeval_pycompat::fnmatch::Pattern;
///
/// assert!(Pattern::new("mmlu_*").matches("mmlu_anatomy"));
/// assert!(!Pattern::new("mmlu_[!a]*").matches("mmlu_anatomy"));
/// assert!(!Pattern::is_glob("mmlu"));
/// ```
pub struct Pattern {
    parts: Vec<Element>,
}

impl Pattern {
    /// Compiles a pattern; every string is valid.
    pub fn new(pattern: &str) -> Self {
        let characters: Vec<char> = pattern.chars().collect();
        let mut parts = Vec::with_capacity(characters.len());
        let mut position = 0;
        // After an unclosed bracket, no later one is closed either.
        let mut may_close = true;
        while let Some(&character) = characters.get(position) {
            position += 1;
            match character {
                '*' if matches!(parts.last(), Some(Element::Star)) => {}
                '*' => parts.push(Element::Star),
                '?' => parts.push(Element::Any),
                '[' if may_close => match set_end(&characters, position) {
                    Some(end) => {
                        parts.push(parse_set(&characters[position..end]));
                        position = end + 1;
                    }
                    None => {
                        may_close = false;
                        parts.push(Element::Literal('['));
                    }
                },
                other => parts.push(Element::Literal(other)),
            }
        }
        Self { parts }
    }

    /// Whether the string contains any of the special characters.
    pub fn is_glob(text: &str) -> bool {
        text.contains(['*', '?', '['])
    }

    /// Whether the entire name matches.
    pub fn matches(&self, name: &str) -> bool {
        let name: Vec<char> = name.chars().collect();
        let (mut part, mut at) = (0, 0);
        // Where to continue if the last star must match one more character.
        let mut retry: Option<(usize, usize)> = None;
        loop {
            match self.parts.get(part) {
                Some(Element::Star) => {
                    retry = Some((part + 1, at));
                    part += 1;
                    continue;
                }
                Some(other) if name.get(at).is_some_and(|character| other.accepts(*character)) => {
                    part += 1;
                    at += 1;
                    continue;
                }
                None if at == name.len() => return true,
                _ => {}
            }
            match retry {
                Some((after, start)) if start < name.len() => {
                    retry = Some((after, start + 1));
                    part = after;
                    at = start + 1;
                }
                _ => return false,
            }
        }
    }
}

/// The position of the bracket that closes a set; the first character may itself be a bracket.
fn set_end(characters: &[char], start: usize) -> Option<usize> {
    let mut position = start;
    if characters.get(position) == Some(&'!') {
        position += 1;
    }
    if characters.get(position) == Some(&']') {
        position += 1;
    }
    (position..characters.len()).find(|index| characters[*index] == ']')
}

fn parse_set(inside: &[char]) -> Element {
    let (negated, inside) = match inside.split_first() {
        Some(('!', rest)) => (true, rest),
        _ => (false, inside),
    };
    let mut ranges = Vec::new();
    let mut position = 0;
    while position < inside.len() {
        if position + 2 < inside.len() && inside[position + 1] == '-' {
            // A reversed range is empty.
            if inside[position] <= inside[position + 2] {
                ranges.push((inside[position], inside[position + 2]));
            }
            position += 3;
        } else {
            ranges.push((inside[position], inside[position]));
            position += 1;
        }
    }
    Element::Set { negated, ranges }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_as_in_python() {
        for (pattern, name, expected) in [
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("a*c*e", "abcde", true),
            ("a*c*e", "abcd", false),
            ("?", "é", true),
            ("[]a]", "]", true),
            ("[!]a]", "b", true),
            ("[!]a]", "]", false),
            ("[a-c]x", "bx", true),
            ("[c-a]", "b", false),
            ("[a-]", "-", true),
            ("[", "[", true),
            ("[abc", "[abc", true),
            ("[!]", "[!]", true),
            ("[][", "[][", true),
            ("[![]", "a", true),
            ("A", "a", false),
            ("**a", "bba", true),
            ("*ab", "aab", true),
        ] {
            assert_eq!(Pattern::new(pattern).matches(name), expected, "{pattern:?} on {name:?}");
        }
    }

    #[test]
    fn unclosed_brackets_take_linear_time() {
        let brackets = "[".repeat(1_000_000);
        assert!(Pattern::new(&brackets).matches(&brackets));
    }

    #[test]
    fn many_stars_take_polynomial_time() {
        let pattern = Pattern::new(&"*a".repeat(200));
        assert!(!pattern.matches(&"a".repeat(150)));
    }
}

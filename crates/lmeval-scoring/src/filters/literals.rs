//! Searching for literal strings.

use std::cmp::Reverse;
use std::iter::from_fn;

use lmeval_pycompat::re::escape;

use super::found::FoundItem;

/// A set of literal strings to search for, equivalent to a pattern of escaped alternatives.
///
/// Such a pattern would have to be compiled for every document: 100,000 documents with four options take 0.4 s
/// without it and 1.3 s with it.
#[derive(Debug)]
pub(super) struct Literals {
    texts: Vec<String>,
    /// The indices of the strings, in the order in which they are tried.
    order: Vec<usize>,
}

impl Literals {
    /// Strings that are tried in this order, or longest first (by escaped length).
    pub(super) fn new(texts: Vec<String>, longest_first: bool) -> Self {
        let mut order: Vec<usize> = (0..texts.len()).collect();
        if longest_first {
            order.sort_by_key(|&index| Reverse(escape(&texts[index]).chars().count()));
        }
        Self { texts, order }
    }

    /// The last index of a string.
    pub(super) fn last_index(&self, text: &str) -> Option<usize> {
        self.texts.iter().rposition(|own| own == text)
    }

    /// The equivalent regular expression.
    pub(super) fn pattern(&self) -> String {
        let escaped: Vec<String> = self.in_order().map(escape).collect();
        escaped.join("|")
    }

    /// Finds the match at an index; negative indices count from the end.
    pub(super) fn find<'t>(&self, text: &'t str, index: i64) -> FoundItem<'t> {
        let mut matches = 0;
        let wanted = match usize::try_from(index) {
            Ok(wanted) => Some(wanted),
            Err(_) => {
                let count = self.matches(text).count();
                usize::try_from(index.unsigned_abs()).ok().and_then(|back| count.checked_sub(back))
            }
        };
        for found in self.matches(text) {
            if Some(matches) == wanted {
                return FoundItem::Text(found);
            }
            matches += 1;
        }
        if matches == 0 { FoundItem::Nothing } else { FoundItem::OutOfRange { matches } }
    }

    /// All matches, as returned by `findall`: at any offset, an empty match may precede another one but not follow
    /// it.
    fn matches<'t>(&self, text: &'t str) -> impl Iterator<Item = &'t str> {
        let mut rest = text;
        let mut may_be_empty = true;
        from_fn(move || {
            loop {
                if let Some(length) = self.length_at(rest, may_be_empty) {
                    let (found, after) = rest.split_at(length);
                    rest = after;
                    may_be_empty = length > 0;
                    return Some(found);
                }
                let mut characters = rest.chars();
                characters.next()?;
                rest = characters.as_str();
                may_be_empty = true;
            }
        })
    }

    /// The length of the first string that is a prefix of the rest.
    fn length_at(&self, rest: &str, may_be_empty: bool) -> Option<usize> {
        if self.texts.is_empty() {
            return may_be_empty.then_some(0);
        }
        let first = rest.as_bytes().first();
        self.in_order()
            .find(|text| match text.as_bytes().first() {
                None => may_be_empty,
                start => start == first && rest.starts_with(text),
            })
            .map(str::len)
    }

    fn in_order(&self) -> impl Iterator<Item = &str> {
        self.order.iter().map(|&index| self.texts[index].as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filters::found::find;
    use lmeval_pycompat::re::{Flags, Regex};

    /// All strings over the characters, up to the given length.
    fn texts(characters: &[char], longest: usize) -> Vec<String> {
        let mut all = vec![String::new()];
        let mut last = all.clone();
        for _ in 0..longest {
            let longer = last.iter().flat_map(|text| characters.iter().map(move |c| format!("{text}{c}")));
            last = longer.collect();
            all.extend(last.iter().cloned());
        }
        all
    }

    #[test]
    fn agrees_with_the_pattern() {
        let words = texts(&['a', 'é', '.'], 2);
        let answers = texts(&['a', 'é', '.'], 4);
        let pairs = words.iter().flat_map(|one| words.iter().map(move |other| vec![one, other]));
        let lists = std::iter::once(Vec::new()).chain(words.iter().map(|word| vec![word])).chain(pairs);
        for (number, list) in lists.enumerate() {
            let literals = Literals::new(list.into_iter().cloned().collect(), number % 2 == 1);
            let regex = Regex::new(&literals.pattern(), Flags::NONE).unwrap();
            for answer in &answers {
                for index in [0, 1, 3, -1, -2] {
                    let expected = find(&regex, answer, index).unwrap();
                    assert_eq!(literals.find(answer, index), expected, "{literals:?} in {answer:?}");
                }
            }
        }
    }
}

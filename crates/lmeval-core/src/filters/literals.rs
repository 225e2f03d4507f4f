//! Texts that are searched for as they are.

use std::cmp::Reverse;
use std::iter::from_fn;

use lmeval_pycompat::re::escape;

use super::found::Found;

/// Texts, one of which is searched for, as in a pattern that lists them escaped.
///
/// Such a pattern would be compiled for every document: 100,000 documents with four options take 0.4 s without it and
/// 1.3 s with it.
#[derive(Debug)]
pub(super) struct Literals {
    texts: Vec<String>,
    /// The places of the texts, in the order in which they are tried.
    order: Vec<usize>,
}

impl Literals {
    /// Texts that are tried in this order, or the longest escaped ones first.
    pub(super) fn new(texts: Vec<String>, longest_first: bool) -> Self {
        let mut order: Vec<usize> = (0..texts.len()).collect();
        if longest_first {
            order.sort_by_key(|&place| Reverse(escape(&texts[place]).chars().count()));
        }
        Self { texts, order }
    }

    /// The last place of a text.
    pub(super) fn place(&self, text: &str) -> Option<usize> {
        self.texts.iter().rposition(|own| own == text)
    }

    /// The pattern that finds the same.
    pub(super) fn pattern(&self) -> String {
        let escaped: Vec<String> = self.tried().map(escape).collect();
        escaped.join("|")
    }

    /// Looks for the match of a number; negative numbers count from the last match.
    pub(super) fn find<'t>(&self, text: &'t str, index: i64) -> Found<'t> {
        let mut matches = 0;
        let place = match usize::try_from(index) {
            Ok(place) => Some(place),
            Err(_) => {
                let count = self.matches(text).count();
                usize::try_from(index.unsigned_abs()).ok().and_then(|back| count.checked_sub(back))
            }
        };
        for found in self.matches(text) {
            if Some(matches) == place {
                return Found::Text(found);
            }
            matches += 1;
        }
        if matches == 0 { Found::Nothing } else { Found::OutOfRange { matches } }
    }

    /// All matches, as `findall` gives them: at one place an empty one may come before another one, not after it.
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

    /// The length of the first text with which the rest begins.
    fn length_at(&self, rest: &str, may_be_empty: bool) -> Option<usize> {
        if self.texts.is_empty() {
            return may_be_empty.then_some(0);
        }
        let first = rest.as_bytes().first();
        self.tried()
            .find(|text| match text.as_bytes().first() {
                None => may_be_empty,
                start => start == first && rest.starts_with(text),
            })
            .map(str::len)
    }

    fn tried(&self) -> impl Iterator<Item = &str> {
        self.order.iter().map(|&place| self.texts[place].as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filters::found::find;
    use lmeval_pycompat::re::{Flags, Regex};

    /// All texts of up to so many of the characters.
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
    fn the_pattern_finds_the_same() {
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

//! Ranks names by a search word.

use lmeval_pycompat::fnmatch::Pattern;

/// A search word: a pattern, or a substring ignoring case.
pub(super) enum Search {
    Pattern(Pattern),
    Part(String),
}

impl Search {
    pub(super) fn new(word: &str) -> Self {
        if Pattern::is_glob(word) {
            Self::Pattern(Pattern::new(word))
        } else {
            Self::Part(word.to_lowercase())
        }
    }

    /// How well a name matches, 0 best: equal, prefix, start of a word, anywhere. Patterns do not rank.
    pub(super) fn rank(&self, name: &str) -> Option<u8> {
        let part = match self {
            Self::Pattern(pattern) => return pattern.matches(name).then_some(0),
            Self::Part(part) => part,
        };
        let name = name.to_lowercase();
        let starts_word = |offset: usize| !name[..offset].ends_with(char::is_alphanumeric);
        if name == *part {
            Some(0)
        } else if name.starts_with(part.as_str()) {
            Some(1)
        } else if name.match_indices(part.as_str()).any(|(offset, _)| starts_word(offset)) {
            Some(2)
        } else {
            name.contains(part.as_str()).then_some(3)
        }
    }
}

/// Filters items by a search, best matches first, otherwise in their original order.
pub(super) fn ranked<T>(
    search: Option<&Search>,
    items: impl IntoIterator<Item = T>,
    names: impl Fn(&T) -> Vec<String>,
) -> Vec<T> {
    let Some(search) = search else { return items.into_iter().collect() };
    let mut found: Vec<(u8, T)> = items
        .into_iter()
        .filter_map(|item| {
            let rank = names(&item).iter().filter_map(|name| search.rank(name)).min()?;
            Some((rank, item))
        })
        .collect();
    found.sort_by_key(|(rank, _)| *rank);
    found.into_iter().map(|(_, item)| item).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_the_best_match_first() {
        let names = ["bigarc", "lighteval_arc", "arc_easy", "hellaswag", "arc", "march"];
        let found = |word| {
            let search = Search::new(word);
            ranked(Some(&search), names, |name| vec![(*name).to_owned()])
        };
        assert_eq!(found("ARC"), ["arc", "arc_easy", "lighteval_arc", "bigarc", "march"]);
        assert_eq!(found("*arc"), ["bigarc", "lighteval_arc", "arc"]);
        assert!(found("zebra").is_empty());
        assert_eq!(ranked(None, names, |name| vec![(*name).to_owned()]), names);
    }
}

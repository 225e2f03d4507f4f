//! Pairs of tokens, in the order in which they are put together.

use rustc_hash::FxHashMap;

use super::GgufTokenKind;

/// How many bytes a token that is put together has at most; no vocabulary has longer ones.
const LONGEST: usize = 1024;
/// How many bytes all pairs may need. The largest vocabularies need a third of it; one of long tokens of one letter would need the
/// square of its size.
const MOST: usize = 1 << 27;

/// Pairs that a file lists, each in a text with a blank between the two.
pub(super) fn listed(
    merges: &[String],
    numbers: &FxHashMap<&str, u32>,
) -> Result<Vec<(String, String)>, String> {
    let pair = |merge: &String| {
        // The first character may be a blank itself.
        let first = merge.chars().next().map_or(0, char::len_utf8);
        let place = merge.get(first..).and_then(|rest| rest.find(' '));
        let place = place.ok_or_else(|| format!("its merge `{merge}` is no pair"))? + first;
        let (left, right) = (&merge[..place], &merge[place + 1..]);
        for token in [left, right, format!("{left}{right}").as_str()] {
            if !numbers.contains_key(token) {
                return Err(format!("its merge `{merge}` has or makes `{token}`, which is no token"));
            }
        }
        Ok((left.to_owned(), right.to_owned()))
    };
    merges.iter().map(pair).collect()
}

/// All pairs of tokens that make a token, those first whose token has the higher score.
pub(super) fn scored(
    tokens: &[String],
    kinds: &[GgufTokenKind],
    scores: &[f64],
    numbers: &FxHashMap<&str, u32>,
) -> Result<Vec<(String, String)>, String> {
    struct Pair<'a> {
        score: f64,
        left: &'a str,
        right: &'a str,
        lengths: (usize, usize),
    }
    let (mut pairs, mut needed) = (Vec::new(), 0);
    for (index, ((token, kind), score)) in tokens.iter().zip(kinds).zip(scores).enumerate() {
        if numbers.get(token.as_str()) != Some(&(index as u32)) {
            continue;
        }
        if token.len() > LONGEST {
            // The others are found as they are.
            if *kind == GgufTokenKind::Normal {
                return Err(format!(
                    "its token {index} has {} bytes, and no more than {LONGEST} are known here",
                    token.len()
                ));
            }
            continue;
        }
        // Some converters write a low score for tokens that are found first.
        let score = if *kind == GgufTokenKind::UserDefined { 0.0 } else { *score };
        let count = token.chars().count();
        let first = pairs.len();
        for (left_length, (place, _)) in token.char_indices().enumerate().skip(1) {
            let (left, right) = token.split_at(place);
            if numbers.contains_key(left) && numbers.contains_key(right) {
                needed += token.len() + size_of::<Pair<'_>>();
                if needed > MOST {
                    return Err("its tokens can be put together of each other in too many ways".into());
                }
                pairs.push(Pair { score, left, right, lengths: (left_length, count - left_length) });
            }
        }
        pairs[first..].sort_by_key(|pair| (numbers[pair.left], numbers[pair.right]));
    }
    pairs.sort_by(|a, b| b.score.total_cmp(&a.score).then(b.lengths.cmp(&a.lengths)));
    Ok(pairs.into_iter().map(|pair| (pair.left.to_owned(), pair.right.to_owned())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers<'a>(tokens: &[&'a str]) -> FxHashMap<&'a str, u32> {
        tokens.iter().zip(0..).map(|(token, number)| (*token, number)).collect()
    }

    #[test]
    fn listed_pairs_are_checked() {
        let numbers = numbers(&["a", "b", "ab", " ", " a"]);
        let listed = |merge: &str| listed(&[merge.to_owned()], &numbers);
        assert_eq!(listed("a b").unwrap(), [("a".to_owned(), "b".to_owned())]);
        assert_eq!(listed("  a").unwrap(), [(" ".to_owned(), "a".to_owned())]);
        for (merge, expected) in
            [("ab", "no pair"), ("", "no pair"), ("a c", "`c`"), ("ab b", "`abb`"), ("é", "no pair")]
        {
            assert!(listed(merge).unwrap_err().contains(expected), "{merge}");
        }
    }

    #[test]
    fn better_tokens_come_first() {
        let tokens = ["a", "b", "c", "ab", "bc", "abc"];
        let numbers = numbers(&tokens);
        let tokens = tokens.map(str::to_owned);
        let kinds = [GgufTokenKind::Normal; 6];
        let found = scored(&tokens, &kinds, &[-1.0, -2.0, -3.0, -4.0, -6.0, -5.0], &numbers).unwrap();
        let found: Vec<String> = found.into_iter().map(|(left, right)| format!("{left} {right}")).collect();
        assert_eq!(found, ["a b", "ab c", "a bc", "b c"]);
    }
    #[test]
    fn too_many_pairs_are_refused() {
        let scored = |tokens: &[String], kind| {
            let numbers = tokens.iter().zip(0..).map(|(token, number)| (token.as_str(), number)).collect();
            scored(tokens, &vec![kind; tokens.len()], &vec![0.0; tokens.len()], &numbers)
        };
        let runs =
            |longest: usize| -> Vec<String> { (1..=longest).map(|length| "a".repeat(length)).collect() };
        assert_eq!(scored(&runs(64), GgufTokenKind::Normal).unwrap().len(), 64 * 63 / 2);
        assert!(scored(&runs(1024), GgufTokenKind::Normal).unwrap_err().contains("too many ways"));
        let long = ["a".repeat(2000)];
        assert!(scored(&long, GgufTokenKind::Normal).unwrap_err().contains("2000 bytes"));
        assert!(scored(&long, GgufTokenKind::Control).unwrap().is_empty());
    }
}

//! BPE merges in order: listed by the file, or derived from token scores.

use rustc_hash::FxHashMap;

use super::GgufTokenKind;
use crate::merges::{LONGEST, Pairs, check_length};

/// Parses merges, each two tokens separated by a space.
pub(super) fn listed(merges: &[String], ids: &FxHashMap<&str, u32>) -> Result<Vec<(String, String)>, String> {
    let pair = |merge: &String| {
        // The first token may itself begin with a space.
        let first = merge.chars().next().map_or(0, char::len_utf8);
        let space = merge.get(first..).and_then(|rest| rest.find(' '));
        let space = space.ok_or_else(|| format!("its merge `{merge}` is not a pair"))? + first;
        let (left, right) = (&merge[..space], &merge[space + 1..]);
        for token in [left, right, format!("{left}{right}").as_str()] {
            if !ids.contains_key(token) {
                return Err(format!(
                    "its merge `{merge}` needs the token `{token}`, which is not in the vocabulary"
                ));
            }
        }
        Ok((left.to_owned(), right.to_owned()))
    };
    merges.iter().map(pair).collect()
}

/// All pairs of tokens that concatenate to a token, by the score of the result in descending order.
pub(super) fn scored(
    tokens: &[String],
    kinds: &[GgufTokenKind],
    scores: &[f64],
    ids: &FxHashMap<&str, u32>,
) -> Result<Vec<(String, String)>, String> {
    struct Pair<'a> {
        score: f64,
        left: &'a str,
        right: &'a str,
        lengths: (usize, usize),
    }
    let (mut pairs, mut splits) = (Vec::new(), Pairs::default());
    for (index, ((token, kind), score)) in tokens.iter().zip(kinds).zip(scores).enumerate() {
        if ids.get(token.as_str()) != Some(&(index as u32)) {
            continue;
        }
        if token.len() > LONGEST {
            // Other kinds are matched as a whole and need no merges.
            if *kind == GgufTokenKind::Normal {
                check_length(index, token)?;
            }
            continue;
        }
        // Some converters write a low score for tokens that are matched first.
        let score = if *kind == GgufTokenKind::UserDefined { 0.0 } else { *score };
        // SentencePiece writes -0 for its first merge, which sorts below 0 in total order.
        let score = if score == 0.0 { 0.0 } else { score };
        let count = token.chars().count();
        let first = pairs.len();
        for (left, right) in splits.of(token, ids)? {
            let left_length = left.chars().count();
            pairs.push(Pair { score, left, right, lengths: (left_length, count - left_length) });
        }
        pairs[first..].sort_by_key(|pair| (ids[pair.left], ids[pair.right]));
    }
    pairs.sort_by(|a, b| b.score.total_cmp(&a.score).then(b.lengths.cmp(&a.lengths)));
    Ok(pairs.into_iter().map(|pair| (pair.left.to_owned(), pair.right.to_owned())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids<'a>(tokens: &[&'a str]) -> FxHashMap<&'a str, u32> {
        tokens.iter().zip(0..).map(|(token, id)| (*token, id)).collect()
    }

    #[test]
    fn checks_listed_merges() {
        let ids = ids(&["a", "b", "ab", " ", " a"]);
        let listed = |merge: &str| listed(&[merge.to_owned()], &ids);
        assert_eq!(listed("a b").unwrap(), [("a".to_owned(), "b".to_owned())]);
        assert_eq!(listed("  a").unwrap(), [(" ".to_owned(), "a".to_owned())]);
        for (merge, expected) in
            [("ab", "not a pair"), ("", "not a pair"), ("a c", "`c`"), ("ab b", "`abb`"), ("é", "not a pair")]
        {
            assert!(listed(merge).unwrap_err().contains(expected), "{merge}");
        }
    }

    #[test]
    fn higher_scores_merge_first() {
        let tokens = ["a", "b", "c", "ab", "bc", "abc"];
        let ids = ids(&tokens);
        let tokens = tokens.map(str::to_owned);
        let kinds = [GgufTokenKind::Normal; 6];
        let found = scored(&tokens, &kinds, &[-1.0, -2.0, -3.0, -4.0, -6.0, -5.0], &ids).unwrap();
        let found: Vec<String> = found.into_iter().map(|(left, right)| format!("{left} {right}")).collect();
        assert_eq!(found, ["a b", "ab c", "a bc", "b c"]);
    }

    #[test]
    fn zero_has_no_sign() {
        let tokens = ["a", "b", "c", "ab", "bca", "bc"];
        let ids = ids(&tokens);
        let tokens = tokens.map(str::to_owned);
        let kinds = [GgufTokenKind::Normal; 6];
        let merges = scored(&tokens, &kinds, &[-1.0, -2.0, -3.0, 0.0, -0.0, -4.0], &ids).unwrap();
        let merges: Vec<String> = merges.into_iter().map(|(left, right)| format!("{left} {right}")).collect();
        assert_eq!(merges, ["bc a", "a b", "b c"]);
    }

    #[test]
    fn refuses_too_many_merges() {
        let scored = |tokens: &[String], kind| {
            let ids = tokens.iter().zip(0..).map(|(token, id)| (token.as_str(), id)).collect();
            scored(tokens, &vec![kind; tokens.len()], &vec![0.0; tokens.len()], &ids)
        };
        let runs =
            |longest: usize| -> Vec<String> { (1..=longest).map(|length| "a".repeat(length)).collect() };
        assert_eq!(scored(&runs(64), GgufTokenKind::Normal).unwrap().len(), 64 * 63 / 2);
        assert!(scored(&runs(1024), GgufTokenKind::Normal).unwrap_err().contains("too many possible merges"));
        let long = ["a".repeat(2000)];
        assert!(scored(&long, GgufTokenKind::Normal).unwrap_err().contains("2000 bytes"));
        assert!(scored(&long, GgufTokenKind::Control).unwrap().is_empty());
    }
}

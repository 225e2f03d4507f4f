//! Windows over a sequence that is longer than a model's context.

/// One window: context tokens, and the tokens scored after them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// Tokens the model sees but does not score.
    pub context: Vec<u32>,
    /// Tokens to score.
    pub continuation: Vec<u32>,
}

/// Splits a sequence into windows of at most `length` scored tokens, scoring each token exactly once.
///
/// Each window begins with at least `overlap` tokens that an earlier one scored; the first begins with `prefix`.
/// Requires `1 <= overlap <= length`.
pub fn windows(tokens: &[u32], prefix: u32, length: usize, overlap: usize) -> Vec<Window> {
    let mut found = Vec::new();
    let first = length.min(tokens.len());
    if first == 0 {
        return found;
    }
    found.push(Window { context: vec![prefix], continuation: tokens[..first].to_vec() });
    let step = length - overlap + 1;
    let mut done = first;
    while done < tokens.len() {
        let end = tokens.len().min(done + step);
        // The model sees `length` tokens before the last one it scores.
        let start = end - length - 1;
        found
            .push(Window { context: tokens[start..done].to_vec(), continuation: tokens[done..end].to_vec() });
        done = end;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(count: u32, length: usize, overlap: usize) -> Vec<(Vec<u32>, Vec<u32>)> {
        let tokens: Vec<u32> = (0..count).collect();
        let windows = windows(&tokens, 99, length, overlap);
        windows.into_iter().map(|window| (window.context, window.continuation)).collect()
    }

    #[test]
    fn matches_specification_examples() {
        let p = 99;
        assert_eq!(
            cut(10, 4, 1),
            [(vec![p], vec![0, 1, 2, 3]), (vec![3], vec![4, 5, 6, 7]), (vec![5, 6, 7], vec![8, 9])]
        );
        assert_eq!(cut(5, 4, 1), [(vec![p], vec![0, 1, 2, 3]), (vec![0, 1, 2, 3], vec![4])]);
        assert_eq!(
            cut(9, 4, 2),
            [(vec![p], vec![0, 1, 2, 3]), (vec![2, 3], vec![4, 5, 6]), (vec![4, 5, 6], vec![7, 8])]
        );
        assert_eq!(cut(3, 4, 1), [(vec![p], vec![0, 1, 2])]);
        assert!(cut(0, 4, 1).is_empty());
    }

    #[test]
    fn every_token_is_scored_once() {
        for count in 0..40 {
            for length in 1..12 {
                for overlap in 1..=length {
                    let scored: Vec<u32> =
                        cut(count, length, overlap).into_iter().flat_map(|window| window.1).collect();
                    assert_eq!(scored, (0..count).collect::<Vec<u32>>());
                }
            }
        }
    }
}

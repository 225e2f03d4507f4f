//! What a score would be with fewer repeats, from all repeats that there are.
//!
//! Each document's value is the mean over all choices of `k` of its repeats, so the score is unbiased. Its interval is the one
//! that a run with `k` repeats would have: it covers both the choice of documents and the chance in their answers.

use super::interval::{Interval, mean_interval};
use super::summary::{Moments, moments};

/// One answer to a document.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attempt {
    /// Its value, such as 1 if it is right.
    pub value: f64,
    /// What it says: equal numbers for equal answers.
    pub answer: usize,
}

/// A score with `k` repeats.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The mean over documents.
    pub value: f64,
    /// Its 95 % interval; `None` for a single document.
    pub interval: Option<Interval>,
}

/// How repeats become one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// The mean of `k` values.
    Average,
    /// Whether one of `k` answers is right.
    Pass,
    /// The value of the most frequent of `k` answers.
    Majority,
}

impl Reduction {
    /// All, in the order of tables.
    pub const ALL: [Self; 3] = [Self::Average, Self::Pass, Self::Majority];

    /// The name, without `@k`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Average => "avg",
            Self::Pass => "pass",
            Self::Majority => "maj",
        }
    }
}

/// The score of documents with `k` repeats each. `None` if a document has fewer, without any documents, or for
/// [`Reduction::Pass`] if a value is neither 0 nor 1.
pub fn with_repeats(documents: &[Vec<Attempt>], reduction: Reduction, k: usize) -> Option<Estimate> {
    if documents.is_empty() || k == 0 || documents.iter().any(|attempts| attempts.len() < k) {
        return None;
    }
    let values: Vec<f64> =
        documents.iter().map(|attempts| value(attempts, reduction, k)).collect::<Option<_>>()?;
    let mean = moments(&values).mean;
    let count = values.len() as f64;
    let stderr = match reduction {
        _ if count < 2.0 => None,
        Reduction::Average => Some(average_stderr(documents, k)),
        Reduction::Pass => Some((mean * (1.0 - mean) / (count - 1.0)).sqrt()),
        Reduction::Majority => Some(majority_stderr(documents, k, mean)),
    };
    Some(Estimate { value: mean, interval: mean_interval(mean, stderr, Some(count)) })
}

/// The standard error of the mean of votes, from the mean of their squares.
fn majority_stderr(documents: &[Vec<Attempt>], k: usize, mean: f64) -> f64 {
    let squared = |attempt: &Attempt| Attempt { value: attempt.value * attempt.value, ..*attempt };
    let squares =
        documents.iter().map(|attempts| majority(&attempts.iter().map(squared).collect::<Vec<_>>(), k));
    let count = documents.len() as f64;
    let variance = (squares.sum::<f64>() / count - mean * mean).max(0.0);
    (variance / (count - 1.0)).sqrt()
}

/// The standard error of the mean if each document had `k` repeats: the variance between documents, and that within them
/// divided by `k`.
fn average_stderr(documents: &[Vec<Attempt>], k: usize) -> f64 {
    let each: Vec<_> = documents
        .iter()
        .map(|attempts| moments(&attempts.iter().map(|attempt| attempt.value).collect::<Vec<_>>()))
        .collect();
    let count = each.len() as f64;
    let means: Vec<f64> = each.iter().map(|document| document.mean).collect();
    let is_repeated = documents.iter().all(|attempts| attempts.len() > 1);
    let within = |share: fn(usize) -> f64| {
        if !is_repeated {
            return 0.0;
        }
        let sum: f64 = each.iter().zip(documents).map(|(each, all)| variance(*each) * share(all.len())).sum();
        sum / count
    };
    // The means of documents vary by the noise of all of their repeats, too.
    let between = (variance(moments(&means)) - within(|repeats| 1.0 / repeats as f64)).max(0.0);
    ((between + within(|_| 1.0) / k as f64) / count).sqrt()
}

fn variance(moments: Moments) -> f64 {
    moments.deviation * moments.deviation
}

/// The mean value of a document over all choices of `k` of its attempts.
fn value(attempts: &[Attempt], reduction: Reduction, k: usize) -> Option<f64> {
    let count = attempts.len();
    match reduction {
        Reduction::Average => Some(attempts.iter().map(|attempt| attempt.value).sum::<f64>() / count as f64),
        Reduction::Pass => {
            let is_binary = |attempt: &Attempt| attempt.value == 0.0 || attempt.value == 1.0;
            let wrong = attempts.iter().filter(|attempt| attempt.value == 0.0).count();
            attempts.iter().all(is_binary).then(|| 1.0 - choose(wrong, k) / choose(count, k))
        }
        Reduction::Majority => Some(majority(attempts, k)),
    }
}

/// The mean value of the most frequent answer among `k` attempts; of equally frequent answers, each counts the same.
///
/// Counts the choices of `k` attempts by how often the most frequent answer occurs: for each such number, answers are
/// added one after the other, and `ways[total][ties]` has the number of choices of `total` attempts in which `ties` answers
/// occur as often as that, and the sum of those answers' values over all of these choices.
fn majority(attempts: &[Attempt], k: usize) -> f64 {
    let mut answers: Vec<(usize, usize, f64)> = Vec::new();
    for attempt in attempts {
        match answers.iter_mut().find(|(answer, ..)| *answer == attempt.answer) {
            Some((_, times, sum)) => (*times, *sum) = (*times + 1, *sum + attempt.value),
            None => answers.push((attempt.answer, 1, attempt.value)),
        }
    }
    let mut sum = 0.0;
    for most in 1..=k {
        let ties = k / most;
        let mut ways = vec![vec![(0.0, 0.0); ties + 1]; k + 1];
        ways[0][0] = (1.0, 0.0);
        for (_, times, values) in &answers {
            let value = values / *times as f64;
            let mut next = vec![vec![(0.0, 0.0); ties + 1]; k + 1];
            for (total, by_ties) in ways.iter().enumerate() {
                for (tied, (number, values)) in
                    by_ties.iter().enumerate().filter(|(_, (number, _))| *number > 0.0)
                {
                    for taken in 0..=most.min(*times).min(k - total) {
                        let chosen = choose(*times, taken);
                        let is_tied = taken == most;
                        if is_tied && tied == ties {
                            continue;
                        }
                        let entry: &mut (f64, f64) = &mut next[total + taken][tied + usize::from(is_tied)];
                        entry.0 += chosen * number;
                        entry.1 += chosen * (values + if is_tied { value * number } else { 0.0 });
                    }
                }
            }
            ways = next;
        }
        let of_ties = ways[k].iter().enumerate().skip(1);
        sum += of_ties.map(|(tied, (_, values))| values / tied as f64).sum::<f64>();
    }
    sum / choose(attempts.len(), k)
}

/// The number of ways to choose `k` of `n`.
fn choose(n: usize, k: usize) -> f64 {
    if k > n {
        return 0.0;
    }
    (0..k.min(n - k)).fold(1.0, |product, index| product * (n - index) as f64 / (index + 1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempts(values: &[(f64, usize)]) -> Vec<Attempt> {
        values.iter().map(|(value, answer)| Attempt { value: *value, answer: *answer }).collect()
    }

    /// The mean over all choices of `k` attempts, one by one.
    fn by_hand(attempts: &[Attempt], k: usize, of: impl Fn(&[Attempt]) -> f64) -> f64 {
        let (mut sum, mut count) = (0.0, 0.0);
        for mask in 0_u32..1 << attempts.len() {
            if mask.count_ones() as usize == k {
                let chosen: Vec<Attempt> = attempts
                    .iter()
                    .enumerate()
                    .filter(|(index, _)| mask >> index & 1 == 1)
                    .map(|(_, attempt)| *attempt)
                    .collect();
                sum += of(&chosen);
                count += 1.0;
            }
        }
        sum / count
    }

    fn most_frequent(chosen: &[Attempt]) -> f64 {
        let times = |answer| chosen.iter().filter(|attempt| attempt.answer == answer).count();
        let most = chosen.iter().map(|attempt| times(attempt.answer)).max().unwrap();
        // Attempts with one of the most frequent answers: each of these answers is there equally often.
        let tied: Vec<f64> = chosen
            .iter()
            .filter(|attempt| times(attempt.answer) == most)
            .map(|attempt| attempt.value)
            .collect();
        tied.iter().sum::<f64>() / tied.len() as f64
    }

    /// Forty documents of which none to all of four answers are right.
    fn documents() -> Vec<Vec<Attempt>> {
        let of_document = |rights| (0..4).map(move |repeat| (f64::from(repeat < rights), repeat as usize));
        (0..40).map(|index| attempts(&of_document(index % 5).collect::<Vec<_>>())).collect()
    }

    #[test]
    fn equals_the_mean_over_all_choices() {
        let document =
            attempts(&[(1.0, 0), (0.0, 1), (1.0, 0), (0.0, 2), (0.0, 1), (0.0, 3), (1.0, 0), (0.0, 1)]);
        for k in 1..=document.len() {
            let found = |reduction| value(&document, reduction, k).unwrap();
            let passes = |chosen: &[Attempt]| f64::from(chosen.iter().any(|attempt| attempt.value == 1.0));
            assert!((found(Reduction::Pass) - by_hand(&document, k, passes)).abs() < 1e-12, "{k}");
            assert!((found(Reduction::Majority) - by_hand(&document, k, most_frequent)).abs() < 1e-12, "{k}");
            assert!((found(Reduction::Average) - 0.375).abs() < 1e-12);
        }
    }

    #[test]
    fn more_repeats_narrow_the_interval_to_the_spread_of_documents() {
        let documents = documents();
        let width = |k| {
            let Interval { low, high } =
                with_repeats(&documents, Reduction::Average, k).unwrap().interval.unwrap();
            high - low
        };
        assert!(width(1) > width(2) && width(2) > width(4));
        let means: Vec<f64> =
            documents.iter().map(|all| value(all, Reduction::Average, 4).unwrap()).collect();
        let spread = moments(&means).stderr();
        assert!((average_stderr(&documents, 4) - spread).abs() < 1e-12);
    }

    #[test]
    fn intervals_are_those_of_a_run_with_as_many_repeats() {
        let documents = documents();
        let width = |reduction| {
            let Estimate { value, interval } = with_repeats(&documents, reduction, 1).unwrap();
            assert!((value - 0.5).abs() < 1e-12);
            interval.map(|Interval { low, high }| high - low).unwrap()
        };
        // A single answer is a right or a wrong one, however it is reduced.
        let expected = width(Reduction::Pass);
        for reduction in [Reduction::Average, Reduction::Majority] {
            assert!((width(reduction) / expected - 1.0).abs() < 0.1, "{reduction:?}");
        }
    }

    #[test]
    fn undefined_scores_are_absent() {
        let documents = [attempts(&[(0.5, 0), (1.0, 1)]), attempts(&[(1.0, 0)])];
        assert_eq!(with_repeats(&documents, Reduction::Average, 2), None);
        assert_eq!(with_repeats(&documents, Reduction::Pass, 1), None);
        assert_eq!(with_repeats(&[], Reduction::Average, 1), None);
        assert_eq!(with_repeats(&documents, Reduction::Average, 0), None);
        assert!(with_repeats(&documents, Reduction::Average, 1).unwrap().interval.is_some());
        assert_eq!(with_repeats(&documents[..1], Reduction::Average, 1).unwrap().interval, None);
    }
}

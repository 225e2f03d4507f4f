//! What a paired comparison says about the question whether two models are the same.

use crate::compare::{Compared, Test};

/// Whether a score of two models is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Judgement {
    /// No document has another value.
    Same,
    /// The difference is smaller than the margin, with the confidence of the comparison.
    Equivalent,
    /// The documents do not tell.
    Undecided,
    /// The paired test finds a difference, and it may exceed the margin.
    Different,
}

impl Judgement {
    /// The word in tables and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Equivalent => "equivalent",
            Self::Undecided => "undecided",
            Self::Different => "different",
        }
    }
}

/// The largest difference of a score that does not matter: the margin itself for scores between 0 and 1, and a share of the
/// score for others.
fn allowed(score: &Compared, margin: f64) -> f64 {
    let is_share = [score.outcome.base, score.outcome.new].iter().all(|value| (0.0..=1.0).contains(value));
    if is_share { margin } else { margin * score.outcome.base.abs() }
}

/// Judges a score by its interval and by its p-value after Holm, at this confidence.
pub fn judge(score: &Compared, margin: f64, confidence: f64) -> Judgement {
    let outcome = &score.outcome;
    let has_changed = match outcome.test {
        Test::Bootstrap | Test::Student => outcome.difference != 0.0,
        Test::McNemar | Test::SignFlip(_) => outcome.up + outcome.down > 0,
    };
    let allowed = allowed(score, margin);
    if !has_changed {
        Judgement::Same
    } else if outcome.interval.low >= -allowed && outcome.interval.high <= allowed {
        Judgement::Equivalent
    } else if score.holm < 1.0 - confidence && !score.is_within_bounds() {
        Judgement::Different
    } else {
        Judgement::Undecided
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{Precision, means};

    /// The judgement about a number of documents, of which some became right and some wrong.
    fn judged(count: usize, up: usize, down: usize) -> Judgement {
        let mut base = vec![1.0; count];
        let mut new = base.clone();
        base[..up].fill(0.0);
        new[count - down..].fill(0.0);
        let outcome = means(&base, &new, None, &Precision::default());
        let score = Compared {
            task: "t".to_owned(),
            filter: "none".to_owned(),
            metric: "acc".to_owned(),
            higher_is_better: Some(true),
            is_group: false,
            holm: outcome.p_value,
            benjamini_hochberg: outcome.p_value,
            outcome,
            only_base: 0,
            only_new: 0,
            possible: None,
            by: Vec::new(),
            flips: Vec::new(),
        };
        judge(&score, 0.01, 0.95)
    }

    #[test]
    fn the_paired_test_decides() {
        assert_eq!(judged(20, 0, 0), Judgement::Same);
        assert_eq!(judged(100, 2, 1), Judgement::Undecided);
        assert_eq!(judged(10_000, 20, 25), Judgement::Equivalent);
        assert_eq!(judged(1000, 5, 60), Judgement::Different);
        // Significant, and too small to matter.
        assert_eq!(judged(100_000, 10, 100), Judgement::Equivalent);
        assert!(Judgement::Different > Judgement::Undecided && Judgement::Equivalent > Judgement::Same);
    }
}

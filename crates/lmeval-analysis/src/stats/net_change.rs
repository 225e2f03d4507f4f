//! Whether a change of prompts makes more documents worse than better than a harmless change would.

/// How many documents of a comparison became better, became worse, and stayed the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// Documents that became better.
    pub won: usize,
    /// Documents that became worse.
    pub lost: usize,
    /// All documents.
    pub count: usize,
}

impl Changed {
    /// Both comparisons together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { won: self.won + other.won, lost: self.lost + other.lost, count: self.count + other.count }
    }
}

/// The probability that a harmless change moves the score by as many documents, in either direction.
///
/// Under the hypothesis, each document becomes better with a probability `r`, and worse with the same. `r` is estimated from the
/// documents of a control, a change that is known to be harmless, and from those that moved against the trend: a model that
/// answers every rephrased prompt differently has many of both. The difference of the two counts is then a sum over documents
/// of −1, 0 and 1, whose distribution is computed exactly.
///
/// McNemar's test has no control, so four documents lost out of twenty are not significant: four heads in a row are no surprise. If nothing
/// changes in the control, they are significant.
pub fn net_change(change: Changed, control: Changed) -> f64 {
    let net = change.won.abs_diff(change.lost);
    if net == 0 || change.count == 0 {
        return 1.0;
    }
    let against = change.won.min(change.lost) as f64;
    let moved = (control.won + control.lost) as f64 / 2.0;
    let rate = (against + moved + 0.5) / (change.count + control.count) as f64;
    let rate = rate.min(0.5);
    // `chances[index]` is the probability of a difference of `index − count` so far.
    let count = change.count;
    let mut chances = vec![0.0; 2 * count + 1];
    chances[count] = 1.0;
    for _ in 0..count {
        let at = |index: usize, chances: &[f64]| chances.get(index).copied().unwrap_or(0.0);
        let next = (0..chances.len()).map(|index| {
            let below = if index == 0 { 0.0 } else { at(index - 1, &chances) };
            chances[index] * (1.0 - 2.0 * rate) + rate * (below + at(index + 1, &chances))
        });
        chances = next.collect();
    }
    let tails = chances.iter().enumerate().filter(|(index, _)| index.abs_diff(count) >= net);
    tails.map(|(_, chance)| chance).sum::<f64>().min(1.0)
}

#[cfg(test)]
mod tests {
    use lmeval_testkit::Dice;

    use super::*;

    fn changed(won: usize, lost: usize, count: usize) -> Changed {
        Changed { won, lost, count }
    }

    #[test]
    fn losses_count_by_what_else_moves() {
        let still = changed(0, 0, 40);
        assert!(net_change(changed(0, 4, 20), still) < 1e-4);
        assert!(net_change(changed(4, 0, 20), still) < 1e-4);
        assert!(net_change(changed(0, 4, 20), changed(8, 9, 40)) > 0.1);
        assert!(net_change(changed(4, 8, 20), still) > 0.01);
        assert_eq!(net_change(changed(5, 5, 20), still), 1.0);
        assert_eq!(net_change(Changed::default(), Changed::default()), 1.0);
    }

    #[test]
    fn equals_a_sum_by_hand() {
        // One document, one control: r = 0.5 / 2, and either step is as large.
        let found = net_change(changed(0, 1, 1), changed(0, 0, 1));
        assert!((found - 0.5).abs() < 1e-12, "{found}");
        // Two documents with r = (0.5 + 0) / 4: P(|sum| = 2) = 2 r².
        let found = net_change(changed(2, 0, 2), changed(0, 0, 2));
        assert!((found - 2.0 * 0.125 * 0.125).abs() < 1e-12, "{found}");
    }

    #[test]
    fn harmless_changes_are_rarely_taken_for_harmful_ones() {
        let mut dice = Dice::new(11);
        let mut draw = |count: usize, percent: usize| {
            let mut drawn = changed(0, 0, count);
            for _ in 0..count {
                let rolled = dice.roll(100);
                drawn.won += usize::from(rolled < percent);
                drawn.lost += usize::from((percent..2 * percent).contains(&rolled));
            }
            drawn
        };
        for percent in [1, 3, 10, 25, 45] {
            let alarms = (0..20_000).filter(|_| {
                let (change, control) = (draw(20, percent), draw(60, percent));
                net_change(change, control) < 1e-4
            });
            // `r` is estimated, so a threshold of 1e-4 gives a false alarm rate of up to 6e-4.
            let alarms = alarms.count();
            assert!(alarms <= 16, "{alarms} of 20,000 at {percent} %");
        }
    }
}

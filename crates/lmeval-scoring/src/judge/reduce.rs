//! Combines votes into one value.

use lmeval_pycompat::float::sum;

/// How the votes on one answer are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reduce {
    /// The most frequent value; the mean of those that are equally frequent.
    Majority,
    Mean,
    Median,
    Min,
    Max,
}

impl Reduce {
    /// All names, in the order of the documentation.
    pub(super) const NAMES: [&'static str; 5] = ["majority", "mean", "median", "min", "max"];

    /// The reduction of a name.
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "majority" => Self::Majority,
            "mean" => Self::Mean,
            "median" => Self::Median,
            "min" => Self::Min,
            "max" => Self::Max,
            _ => return None,
        })
    }

    /// The name in task files.
    pub(super) fn name(self) -> &'static str {
        Self::NAMES[match self {
            Self::Majority => 0,
            Self::Mean => 1,
            Self::Median => 2,
            Self::Min => 3,
            Self::Max => 4,
        }]
    }

    /// The combined value; `None` without votes.
    pub(super) fn apply(self, votes: &[f64]) -> Option<f64> {
        if votes.is_empty() {
            return None;
        }
        let mut sorted = votes.to_vec();
        sorted.sort_by(f64::total_cmp);
        Some(match self {
            Self::Majority => mean(&modes(&sorted)),
            Self::Mean => mean(&sorted),
            Self::Median => {
                let middle = sorted.len() / 2;
                if sorted.len() % 2 == 1 { sorted[middle] } else { mean(&sorted[middle - 1..=middle]) }
            }
            Self::Min => sorted[0],
            Self::Max => sorted[sorted.len() - 1],
        })
    }
}

/// The mean, which must not be asked of nothing.
pub(super) fn mean(values: &[f64]) -> f64 {
    sum(values.iter().copied()) / values.len() as f64
}

/// The most frequent of sorted values.
fn modes(sorted: &[f64]) -> Vec<f64> {
    let mut counts: Vec<(f64, usize)> = Vec::new();
    for value in sorted {
        match counts.last_mut() {
            Some((known, count)) if *known == *value => *count += 1,
            _ => counts.push((*value, 1)),
        }
    }
    let most = counts.iter().map(|(_, count)| *count).max().unwrap_or(0);
    counts.into_iter().filter(|(_, count)| *count == most).map(|(value, _)| value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reduction() {
        let votes = [1.0, 0.0, 0.5, 1.0];
        let reduced: Vec<Option<f64>> =
            Reduce::NAMES.iter().map(|name| Reduce::named(name).unwrap().apply(&votes)).collect();
        assert_eq!(reduced, [Some(1.0), Some(0.625), Some(0.75), Some(0.0), Some(1.0)]);
        assert_eq!(Reduce::Majority.apply(&[0.0, 1.0]), Some(0.5));
        assert_eq!(Reduce::Majority.apply(&[]), None);
        assert!(Reduce::NAMES.iter().all(|name| Reduce::named(name).unwrap().name() == *name));
    }
}

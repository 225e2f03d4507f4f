//! Agreement between raters: Krippendorff's α and Cohen's κ.

use lmeval_pycompat::float::sum;

use crate::number::square;

/// How the values of a rating relate to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Categories: two values are equal or they are not.
    Nominal,
    /// Numbers: a disagreement counts as the square of the difference.
    Interval,
}

/// Krippendorff's α of several raters: `1 − observed / expected` disagreement.
///
/// `ratings` has one list per judge and one entry per unit. `None`, NaN, and the end of a list that is shorter than
/// the others are missing ratings. A unit with fewer than two ratings has no pairs and is left out. With `n` the
/// number of remaining ratings, `m` that of a unit, and `δ` the disagreement of a pair:
///
/// ```text
/// observed = Σ_units Σ_{i≠j in unit} δ(i, j) / (m − 1)
/// expected = Σ_{i≠j of all} δ(i, j) / (n − 1)
/// ```
///
/// `None` without pairs, or if all ratings are equal: then no disagreement is expected, and α is undefined.
///
/// ```
/// use lmeval_metrics::agreement::{Level, krippendorff_alpha};
///
/// let first = vec![Some(1.0), Some(0.0), Some(1.0), None];
/// let second = vec![Some(1.0), Some(0.0), Some(0.0), Some(1.0)];
/// let alpha = krippendorff_alpha(&[first, second], Level::Nominal);
/// assert!((alpha.unwrap() - 4.0 / 9.0).abs() < 1e-12);
/// ```
pub fn krippendorff_alpha(ratings: &[Vec<Option<f64>>], level: Level) -> Option<f64> {
    let units = ratings.iter().map(Vec::len).max().unwrap_or(0);
    let (mut observed, mut all) = (Vec::new(), Vec::new());
    for unit in 0..units {
        let values: Vec<f64> =
            ratings.iter().filter_map(|judge| judge.get(unit).copied().flatten()).filter_map(rated).collect();
        if values.len() > 1 {
            all.extend_from_slice(&values);
            let others = values.len() as f64 - 1.0;
            observed.push(disagreement(values, level) / others);
        }
    }
    if all.is_empty() {
        return None;
    }
    let others = all.len() as f64 - 1.0;
    let expected = disagreement(all, level) / others;
    (expected > 0.0).then(|| 1.0 - sum(observed) / expected)
}

/// Cohen's κ of two raters over the units that both rated: `(p_o − p_e) / (1 − p_e)`, with `p_o` the share of equal
/// ratings and `p_e` that of two independent raters with the same marginals.
///
/// `None` if they have no unit in common, or if both gave every unit the same single value: then κ is undefined.
///
/// ```
/// use lmeval_metrics::agreement::cohen_kappa;
///
/// let a = [Some(1.0), Some(1.0), Some(0.0), Some(0.0)];
/// assert_eq!(cohen_kappa(&a, &[Some(1.0), Some(0.0), Some(0.0), Some(0.0)]), Some(0.5));
/// ```
pub fn cohen_kappa(a: &[Option<f64>], b: &[Option<f64>]) -> Option<f64> {
    let pairs: Vec<(f64, f64)> =
        a.iter().zip(b).filter_map(|(a, b)| Some((rated((*a)?)?, rated((*b)?)?))).collect();
    let equal = pairs.iter().filter(|(a, b)| a == b).count() as f64;
    let (first, second) = pairs.iter().copied().unzip();
    let (first, second) = (counts(first), counts(second));
    // Counts are integers, so the products are exact: κ does not depend on the order of the units.
    let by_chance: f64 = first
        .iter()
        .filter_map(|(value, count)| {
            let found = second.binary_search_by(|(other, _)| other.total_cmp(value)).ok()?;
            Some(*count as f64 * second[found].1 as f64)
        })
        .sum();
    let total = pairs.len() as f64;
    let chance = square(total) - by_chance;
    (chance > 0.0).then(|| (equal * total - by_chance) / chance)
}

/// A rating that can be compared; zero has one sign.
fn rated(value: f64) -> Option<f64> {
    (!value.is_nan()).then_some(value + 0.0)
}

/// `Σ_{i≠j} δ(i, j)` over ordered pairs.
fn disagreement(values: Vec<f64>, level: Level) -> f64 {
    let total = values.len() as f64;
    match level {
        Level::Nominal => {
            let equal: f64 = counts(values).iter().map(|(_, count)| square(*count as f64)).sum();
            square(total) - equal
        }
        // Σ (x − y)² over all ordered pairs is 2n Σ (x − mean)².
        Level::Interval => {
            let mean = sum(values.iter().copied()) / total;
            2.0 * total * sum(values.iter().map(|value| square(value - mean)))
        }
    }
}

/// The distinct values in ascending order, with their counts.
fn counts(mut values: Vec<f64>) -> Vec<(f64, usize)> {
    values.sort_by(f64::total_cmp);
    let mut counts: Vec<(f64, usize)> = Vec::new();
    for value in values {
        match counts.last_mut() {
            Some((last, count)) if *last == value => *count += 1,
            _ => counts.push((value, 1)),
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratings(values: &[f64]) -> Vec<Option<f64>> {
        values.iter().copied().map(Some).collect()
    }

    #[test]
    fn undefined_without_pairs_or_variation() {
        for level in [Level::Nominal, Level::Interval] {
            assert_eq!(krippendorff_alpha(&[], level), None);
            assert_eq!(krippendorff_alpha(&[ratings(&[1.0, 0.0])], level), None);
            assert_eq!(krippendorff_alpha(&[ratings(&[1.0, 1.0]), ratings(&[1.0, 1.0])], level), None);
            let apart = [vec![Some(1.0), None], vec![None, Some(0.0)]];
            assert_eq!(krippendorff_alpha(&apart, level), None);
        }
        assert_eq!(cohen_kappa(&[], &[]), None);
        assert_eq!(cohen_kappa(&ratings(&[1.0, 1.0]), &ratings(&[1.0, 1.0])), None);
        assert_eq!(cohen_kappa(&[Some(f64::NAN)], &[Some(1.0)]), None);
    }

    #[test]
    fn perfect_and_opposite_raters() {
        let (up, down) = (ratings(&[0.0, 1.0, 0.0, 1.0]), ratings(&[1.0, 0.0, 1.0, 0.0]));
        assert_eq!(krippendorff_alpha(&[up.clone(), up.clone(), up.clone()], Level::Interval), Some(1.0));
        assert_eq!(cohen_kappa(&up, &up), Some(1.0));
        assert_eq!(cohen_kappa(&up, &down), Some(-1.0));
        assert!(krippendorff_alpha(&[up, down], Level::Nominal).unwrap() < 0.0);
    }

    #[test]
    fn missing_ratings_and_signs_of_zero_do_not_matter() {
        let a = ratings(&[0.0, 1.0, 0.0, 1.0, 1.0]);
        let long = ratings(&[-0.0, 1.0, 1.0, 1.0, 1.0, 0.0]);
        let holes = vec![Some(0.0), Some(1.0), Some(1.0), Some(1.0), Some(1.0), Some(f64::NAN)];
        assert_eq!(cohen_kappa(&a, &long), cohen_kappa(&a, &holes));
        for level in [Level::Nominal, Level::Interval] {
            let found = krippendorff_alpha(&[a.clone(), long.clone()], level);
            assert_eq!(found, krippendorff_alpha(&[holes.clone(), a.clone()], level));
        }
    }
}

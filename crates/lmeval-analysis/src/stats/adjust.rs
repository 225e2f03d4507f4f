//! Corrections for many comparisons.

/// Holm's step-down adjustment, which bounds the chance of *any* false alarm: for gates.
///
/// The i-th smallest of `m` p-values becomes the largest of `(m − j)·p_j` over `j ≤ i`, counted from 0, at most 1.
/// NaN stays NaN and is not counted in `m`.
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let order = ascending(p_values);
    let mut adjusted = vec![f64::NAN; p_values.len()];
    let mut largest = 0.0f64;
    for (rank, &index) in order.iter().enumerate() {
        largest = largest.max((order.len() - rank) as f64 * p_values[index]).min(1.0);
        adjusted[index] = largest;
    }
    adjusted
}

/// The step-up adjustment of Benjamini and Hochberg, which bounds the *share* of false alarms: for exploring.
///
/// The i-th smallest of `m` p-values becomes the smallest of `m/(j + 1)·p_j` over `j ≥ i`, counted from 0, at most 1.
/// NaN stays NaN and is not counted in `m`.
pub fn benjamini_hochberg(p_values: &[f64]) -> Vec<f64> {
    let order = ascending(p_values);
    let mut adjusted = vec![f64::NAN; p_values.len()];
    let mut smallest = 1.0f64;
    for (rank, &index) in order.iter().enumerate().rev() {
        smallest = smallest.min(order.len() as f64 / (rank + 1) as f64 * p_values[index]);
        adjusted[index] = smallest;
    }
    adjusted
}

/// Indices of the p-values that are numbers, smallest first.
fn ascending(p_values: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..p_values.len()).filter(|&index| !p_values[index].is_nan()).collect();
    order.sort_by(|&left, &right| p_values[left].total_cmp(&p_values[right]));
    order
}

//! How small a difference a comparison can see.

use super::special::normal_quantile;

/// The smallest true difference that a two-sided test at `alpha` finds with probability `power`:
/// `(z_{1−α/2} + z_{power})·stderr`.
pub fn detectable_difference(stderr: f64, alpha: f64, power: f64) -> f64 {
    (normal_quantile(1.0 - 0.5 * alpha) + normal_quantile(power)) * stderr
}

/// The number of documents at which [`detectable_difference`] is `margin`, if they vary as the `count` at hand do.
///
/// NaN where the standard error or the margin says nothing: without a single changed document, nothing is known about
/// how much documents vary.
pub fn documents_needed(stderr: f64, count: usize, margin: f64, alpha: f64, power: f64) -> f64 {
    let ratio = detectable_difference(stderr, alpha, power) / margin.abs();
    if ratio.is_finite() && ratio > 0.0 { (count as f64 * ratio * ratio).ceil().max(1.0) } else { f64::NAN }
}

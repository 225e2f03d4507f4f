//! Mean and variance.

use lmeval_pycompat::float::sum;

/// Count, mean and standard deviation of a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moments {
    /// The number of values.
    pub count: usize,
    /// The mean; NaN without values.
    pub mean: f64,
    /// `√(Σ(x−μ)² / (n−1))`; NaN for fewer than two values.
    pub deviation: f64,
}

impl Moments {
    /// The standard error of the mean, `s/√n`.
    pub fn stderr(self) -> f64 {
        self.deviation / (self.count as f64).sqrt()
    }
}

/// Mean and standard deviation in two passes, so that a large mean costs no digits of the deviation.
pub fn moments(values: &[f64]) -> Moments {
    let count = values.len();
    let mean = sum(values.iter().copied()) / count as f64;
    let squares = sum(values.iter().map(|value| (value - mean) * (value - mean)));
    let deviation = if count < 2 { f64::NAN } else { (squares / (count - 1) as f64).sqrt() };
    Moments { count, mean, deviation }
}

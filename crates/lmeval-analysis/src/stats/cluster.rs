//! Standard errors of documents that come in clusters, such as several questions about one passage.

use lmeval_pycompat::float::sum;

/// Whether the clustered variance is multiplied by `G/(G−1)` for `G` clusters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClusterCorrection {
    /// Multiply: unbiased for few clusters of equal size.
    #[default]
    SmallSample,
    /// Do not, as in equation 4 of Miller (2024), "Adding Error Bars to Evals".
    None,
}

/// The clustered standard error of a mean.
///
/// Residuals are summed within each cluster before they are squared, so correlation inside a cluster adds to the
/// error: `√(k · Σ_c (Σ_i (x_ci − μ))²) / n`, where `k` is `G/(G−1)` or 1. `clusters[i]` is the cluster of `values[i]`,
/// from 0 to `count` − 1. NaN for fewer than two clusters.
pub fn clustered_stderr(
    values: &[f64],
    clusters: &[u32],
    count: usize,
    correction: ClusterCorrection,
) -> f64 {
    if count < 2 {
        return f64::NAN;
    }
    let total = values.len() as f64;
    let mean = sum(values.iter().copied()) / total;
    let mut residuals = vec![0.0; count];
    for (value, &cluster) in values.iter().zip(clusters) {
        residuals[cluster as usize] += value - mean;
    }
    let factor = match correction {
        ClusterCorrection::SmallSample => count as f64 / (count - 1) as f64,
        ClusterCorrection::None => 1.0,
    };
    (factor * sum(residuals.iter().map(|residual| residual * residual))).sqrt() / total
}

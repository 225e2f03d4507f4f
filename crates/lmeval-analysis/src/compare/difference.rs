//! The difference of one metric on one task.

use rustc_hash::FxHashMap;

use crate::stats::{
    ClusterCorrection, Evidence, Interval, clustered_stderr, detectable_difference, documents_needed,
    mcnemar, moments, paired_proportions, sign_flip, student,
};

/// How certain, and how it is computed.
#[derive(Clone, Copy, Debug)]
pub struct Precision {
    /// The confidence of intervals, such as 0.95.
    pub confidence: f64,
    /// The power that [`Difference::detectable`] and [`Difference::needed`] are for.
    pub power: f64,
    /// A difference that matters, for [`Difference::needed`].
    pub margin: Option<f64>,
    /// Resamples of corpus metrics.
    pub resamples: usize,
    /// The seed of random draws.
    pub seed: u64,
    /// How clustered standard errors are corrected.
    pub correction: ClusterCorrection,
}

impl Default for Precision {
    fn default() -> Self {
        Self {
            confidence: 0.95,
            power: 0.8,
            margin: None,
            resamples: 2_000,
            seed: 0,
            correction: ClusterCorrection::default(),
        }
    }
}

/// The test that gave a p-value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Test {
    /// McNemar's exact test on 0/1 values.
    McNemar,
    /// Sign flips of documents or clusters.
    SignFlip(Evidence),
    /// Paired bootstrap of a corpus metric.
    Bootstrap,
    /// Student's t on a mean over several tasks.
    Student,
}

impl Test {
    /// The name of the test in tables and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::McNemar => "McNemar exact",
            Self::SignFlip(Evidence::Exact) => "sign flip exact",
            Self::SignFlip(Evidence::Drawn) => "sign flip",
            Self::SignFlip(Evidence::Normal) => "sign flip normal",
            Self::Bootstrap => "paired bootstrap",
            Self::Student => "paired t",
        }
    }
}

/// The outcome of comparing one score of two runs.
#[derive(Clone, Debug)]
pub struct Difference {
    /// The score of the base run on the shared documents.
    pub base: f64,
    /// The score of the new run on the shared documents.
    pub new: f64,
    /// `new − base`.
    pub difference: f64,
    /// The standard error of the difference.
    pub stderr: f64,
    /// The confidence interval of the difference.
    pub interval: Interval,
    /// The two-sided p-value.
    pub p_value: f64,
    /// The test of the p-value.
    pub test: Test,
    /// Shared documents.
    pub count: usize,
    /// Documents whose value went up.
    pub up: usize,
    /// Documents whose value went down.
    pub down: usize,
    /// Clusters, if documents are clustered.
    pub clusters: Option<usize>,
    /// The smallest difference that this comparison would probably have found.
    pub detectable: f64,
    /// The documents needed to find a difference of [`Precision::margin`].
    pub needed: Option<f64>,
}

impl Difference {
    /// Completes what follows from the standard error.
    pub(super) fn with_power(mut self, precision: &Precision) -> Self {
        let alpha = 1.0 - precision.confidence;
        self.detectable = detectable_difference(self.stderr, alpha, precision.power);
        self.needed = precision
            .margin
            .map(|margin| documents_needed(self.stderr, self.count, margin, alpha, precision.power));
        self
    }
}

/// Compares means of per-document values. `base[i]` and `new[i]` are of the same document; `clusters[i]` is its cluster.
pub fn means(base: &[f64], new: &[f64], clusters: Option<&[u32]>, precision: &Precision) -> Difference {
    let differences: Vec<f64> = base.iter().zip(new).map(|(base, new)| new - base).collect();
    let count = differences.len();
    let up = differences.iter().filter(|difference| **difference > 0.0).count();
    let down = differences.iter().filter(|difference| **difference < 0.0).count();
    let found = moments(&differences);
    let is_binary = base.iter().chain(new).all(|value| *value == 0.0 || *value == 1.0);
    let (stderr, interval, p_value, test, cluster_count) = if let Some(clusters) = clusters {
        let (labels, cluster_count) = dense(clusters);
        let stderr = clustered_stderr(&differences, &labels, cluster_count, precision.correction);
        let interval = student(found.mean, stderr, cluster_count as f64 - 1.0, precision.confidence);
        let mut sums = vec![0.0; cluster_count];
        for (difference, label) in differences.iter().zip(&labels) {
            sums[*label as usize] += difference;
        }
        let flips = sign_flip(&sums, precision.seed);
        (stderr, interval, flips.p_value, Test::SignFlip(flips.evidence), Some(cluster_count))
    } else if is_binary {
        let interval = paired_proportions(up as u64, down as u64, count as u64, precision.confidence);
        (found.stderr(), interval, mcnemar(up as u64, down as u64), Test::McNemar, None)
    } else {
        let interval = student(found.mean, found.stderr(), count as f64 - 1.0, precision.confidence);
        let flips = sign_flip(&differences, precision.seed);
        (found.stderr(), interval, flips.p_value, Test::SignFlip(flips.evidence), None)
    };
    Difference {
        base: moments(base).mean,
        new: moments(new).mean,
        difference: found.mean,
        stderr,
        interval,
        p_value,
        test,
        count,
        up,
        down,
        clusters: cluster_count,
        detectable: f64::NAN,
        needed: None,
    }
    .with_power(precision)
}

/// Labels renumbered from 0 without gaps, and how many there are.
fn dense(labels: &[u32]) -> (Vec<u32>, usize) {
    let mut seen: FxHashMap<u32, u32> = FxHashMap::default();
    let dense = labels
        .iter()
        .map(|label| {
            let next = seen.len() as u32;
            *seen.entry(*label).or_insert(next)
        })
        .collect();
    (dense, seen.len())
}

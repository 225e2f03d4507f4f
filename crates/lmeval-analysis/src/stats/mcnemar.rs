//! The exact test for paired 0/1 values.

use std::f64::consts::PI;

use super::special::stirling_error;

/// The two-sided p-value of McNemar's exact test.
///
/// `won` documents are right only in the new run, `lost` only in the base run. Under the null hypothesis each of these
/// discordant documents is a fair coin: `p = min(1, 2·P(X ≤ min(won, lost)))` with `X ~ Binomial(won + lost, ½)`.
///
/// ```
/// assert_eq!(lmeval_analysis::stats::mcnemar(1, 9), 22.0 / 1024.0);
/// assert_eq!(lmeval_analysis::stats::mcnemar(0, 0), 1.0);
/// ```
pub fn mcnemar(won: u64, lost: u64) -> f64 {
    let (fewer, all) = (won.min(lost), won + lost);
    if 2 * fewer >= all {
        return 1.0;
    }
    (2.0 * lower_tail(fewer, all)).min(1.0)
}

/// The one-sided p-value of McNemar's exact test against a loss: `P(X ≤ won)` with `X ~ Binomial(won + lost, ½)`.
///
/// ```
/// assert_eq!(lmeval_analysis::stats::mcnemar_loss(1, 9), 11.0 / 1024.0);
/// assert_eq!(lmeval_analysis::stats::mcnemar_loss(9, 1), 1023.0 / 1024.0);
/// assert_eq!(lmeval_analysis::stats::mcnemar_loss(0, 0), 1.0);
/// ```
pub fn mcnemar_loss(won: u64, lost: u64) -> f64 {
    match (won < lost, lost.checked_sub(1)) {
        (true, _) => lower_tail(won, won + lost),
        (false, Some(fewer)) => 1.0 - lower_tail(fewer, won + lost),
        (false, None) => 1.0,
    }
}

/// `P(X ≤ k)` for `X ~ Binomial(n, ½)` and `k < n/2`: the largest term times a sum that shrinks at least geometrically.
fn lower_tail(k: u64, n: u64) -> f64 {
    if n <= 1000 {
        // Powers of two are exact, so small cases are exact up to rounding of the sum.
        let mut term = 0.5f64.powi(n as i32);
        let mut sum = term;
        for index in 1..=k {
            term *= (n - index + 1) as f64 / index as f64;
            sum += term;
        }
        return sum;
    }
    let (mut term, mut sum) = (1.0, 1.0);
    for index in (1..=k).rev() {
        term *= index as f64 / (n - index + 1) as f64;
        sum += term;
        if term < sum * 1e-18 {
            break;
        }
    }
    sum * probability(k, n)
}

/// `P(X = k)` by Stirling's formula in deviance form, which keeps all digits where differences of factorials do not:
/// `√(n / (2πk(n−k))) · exp(δ(n) − δ(k) − δ(n−k) − n/2·[(1+x)ln(1+x) + (1−x)ln(1−x)])` with `x = (2k − n)/n`.
fn probability(k: u64, n: u64) -> f64 {
    let (count, total) = (k as f64, n as f64);
    if k < 20 {
        let choose: f64 = (0..k).map(|index| ((n - index) as f64 / (index + 1) as f64).ln()).sum();
        return (choose - total * std::f64::consts::LN_2).exp();
    }
    let rest = total - count;
    let x = (count - rest) / total;
    let deviance = 0.5 * total * ((1.0 + x) * x.ln_1p() + (1.0 - x) * (-x).ln_1p());
    let error = stirling_error(total) - stirling_error(count) - stirling_error(rest);
    (total / (2.0 * PI * count * rest)).sqrt() * (error - deviance).exp()
}

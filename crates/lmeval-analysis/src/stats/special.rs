//! Distribution functions: normal and Student's t.

use std::f64::consts::{FRAC_1_SQRT_2, PI};

/// The probability that a standard normal variable is at most `x`: `erfc(−x/√2) / 2`.
pub fn normal_cdf(x: f64) -> f64 {
    0.5 * libm::erfc(-x * FRAC_1_SQRT_2)
}

/// The inverse of [`normal_cdf`], infinite at 0 and 1 and NaN outside.
///
/// Newton's method on the logarithm of the smaller tail, which is concave, so it converges from any start.
pub fn normal_quantile(p: f64) -> f64 {
    if p.is_nan() || !(0.0..=1.0).contains(&p) {
        return f64::NAN;
    }
    if p == 0.0 || p == 1.0 {
        return if p == 0.0 { f64::NEG_INFINITY } else { f64::INFINITY };
    }
    if p > 0.5 {
        return -normal_quantile(1.0 - p);
    }
    let goal = p.ln();
    let mut x = -(-2.0 * goal).sqrt().max(f64::MIN_POSITIVE);
    for _ in 0..50 {
        let tail = normal_cdf(x);
        let density = (-0.5 * x * x).exp() / (2.0 * PI).sqrt();
        let step = (tail.ln() - goal) * tail / density;
        x -= step;
        if step.abs() <= 1e-15 * x.abs().max(1e-300) {
            break;
        }
    }
    x.min(0.0)
}

/// The probability that Student's t with `freedom` degrees is at most `t`.
pub fn student_cdf(t: f64, freedom: f64) -> f64 {
    if t.is_nan() || freedom.is_nan() || freedom <= 0.0 {
        return f64::NAN;
    }
    let square = t * t;
    // From the centre for a small t and from the tail for a large one: either way the small quantity is computed, not
    // the difference of two large ones.
    if square < 1.0 {
        let centre = 0.5 * incomplete_beta(0.5, 0.5 * freedom, square / (freedom + square));
        return 0.5 + centre.copysign(t);
    }
    let tail = 0.5 * incomplete_beta(0.5 * freedom, 0.5, freedom / (freedom + square));
    if t > 0.0 { 1.0 - tail } else { tail }
}

/// The inverse of [`student_cdf`] for probabilities between 0 and 1, by bisection between widening bounds.
pub fn student_quantile(p: f64, freedom: f64) -> f64 {
    if p.is_nan() || p <= 0.0 || p >= 1.0 || freedom.is_nan() || freedom <= 0.0 {
        return f64::NAN;
    }
    if p > 0.5 {
        return -student_quantile(1.0 - p, freedom);
    }
    let mut low = -1.0;
    while student_cdf(low, freedom) > p {
        low *= 2.0;
    }
    let mut high = 0.0;
    loop {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            return middle;
        }
        if student_cdf(middle, freedom) < p {
            low = middle;
        } else {
            high = middle;
        }
    }
}

/// The regularised incomplete beta function `I_x(a, b)`.
///
/// The continued fraction of DLMF 8.17.22, evaluated where it converges fast: for `x` above `(a+1)/(a+b+2)` through
/// `I_x(a, b) = 1 − I_{1−x}(b, a)`.
fn incomplete_beta(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(b, a, 1.0 - x);
    }
    let log_front = a * x.ln() + b * (-x).ln_1p() - log_beta(a, b);
    log_front.exp() * beta_fraction(a, b, x) / a
}

/// `ln B(a, b)`. For a large `a` the difference of two large logarithms would lose digits, so it is a series there.
fn log_beta(a: f64, b: f64) -> f64 {
    let (small, large) = if a < b { (a, b) } else { (b, a) };
    if large < 20.0 {
        return libm::lgamma(a) + libm::lgamma(b) - libm::lgamma(a + b);
    }
    // ln Γ(large) − ln Γ(large + small) by Stirling's formula.
    let total = large + small;
    let difference =
        (large - 0.5) * -(small / large).ln_1p() - small * total.ln() + small + stirling_error(large)
            - stirling_error(total);
    libm::lgamma(small) + difference
}

/// `ln Γ(z) − (z − ½) ln z + z − ½ ln 2π`, DLMF 5.11.1; exact to double precision from 20 on.
pub(super) fn stirling_error(z: f64) -> f64 {
    let inverse = 1.0 / (z * z);
    let series = [1.0 / 12.0, -1.0 / 360.0, 1.0 / 1260.0, -1.0 / 1680.0, 1.0 / 1188.0, -691.0 / 360_360.0];
    series.iter().rev().fold(0.0, |sum, term| sum * inverse + term) / z
}

/// The continued fraction `1/(1 + d1/(1 + d2/(1 + …)))` by the forward recurrence of numerators and denominators.
fn beta_fraction(a: f64, b: f64, x: f64) -> f64 {
    let (mut numerator, mut denominator) = (1.0, 1.0);
    let (mut last_numerator, mut last_denominator) = (0.0, 1.0);
    let mut value = 1.0;
    for index in 1..10_000 {
        let m = f64::from(index / 2);
        let coefficient = if index % 2 == 0 {
            m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m))
        } else {
            -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0))
        };
        (numerator, last_numerator) = (numerator + coefficient * last_numerator, numerator);
        (denominator, last_denominator) = (denominator + coefficient * last_denominator, denominator);
        // Both grow alike; only their ratio matters.
        let scale = 1.0 / denominator;
        numerator *= scale;
        last_numerator *= scale;
        last_denominator *= scale;
        denominator = 1.0;
        if (numerator - value).abs() <= 1e-16 * numerator.abs() {
            return numerator;
        }
        value = numerator;
    }
    value
}

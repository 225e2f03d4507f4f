//! Logarithm and exponential from basic arithmetic only.
//!
//! The standard library's come from the platform, and platforms differ in the last digit. These give the same
//! log-likelihoods everywhere.

use std::f64::consts::{LN_2, SQRT_2};

/// Natural logarithm of a positive normal number, to within two ulps.
pub(super) fn ln(number: f64) -> f64 {
    const MANTISSA: u64 = (1 << 52) - 1;
    let bits = number.to_bits();
    let mut exponent = (bits >> 52) as i64 - 1023;
    let mut mantissa = f64::from_bits((bits & MANTISSA) | 1.0_f64.to_bits());
    if mantissa > SQRT_2 {
        mantissa /= 2.0;
        exponent += 1;
    }
    // ln m = 2 artanh((m - 1) / (m + 1)); the series converges quickly for m between √½ and √2.
    let ratio = (mantissa - 1.0) / (mantissa + 1.0);
    let square = ratio * ratio;
    let series = (0..12).rev().fold(0.0, |sum, term| sum * square + 1.0 / f64::from(2 * term + 1));
    2.0 * ratio * series + exponent as f64 * LN_2
}

/// Exponential of a number that is at most 0.
pub(super) fn exp(number: f64) -> f64 {
    if number < -700.0 {
        return 0.0;
    }
    let power = (number / LN_2).round();
    let rest = number - power * LN_2;
    let series = (1..16).rev().fold(1.0, |sum, term| 1.0 + sum * rest / f64::from(term));
    series * f64::from_bits(((1023 + power as i64) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_platform() {
        let mut number = 1e-290;
        while number < 2.0 {
            let expected = f64::ln(number);
            assert!((ln(number) - expected).abs() <= 1e-15 * expected.abs().max(1e-3), "{number}");
            assert!((exp(expected.min(0.0)) / number.min(1.0) - 1.0).abs() < 1e-12, "{number}");
            number *= 1.3717;
        }
        assert_eq!(ln(1.0), 0.0);
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(-1e9), 0.0);
    }
}

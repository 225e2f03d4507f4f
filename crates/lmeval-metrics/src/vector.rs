//! Array arithmetic following numpy.

use crate::error::MetricError;

/// The index of the maximum; ties go to the first, and NaN wins over everything.
pub fn argmax(numbers: &[f64]) -> Result<usize, MetricError> {
    let mut best = 0;
    for (index, number) in numbers.iter().enumerate() {
        if number.is_nan() {
            return Ok(index);
        }
        if *number > numbers[best] {
            best = index;
        }
    }
    if numbers.is_empty() {
        return Err(MetricError::NoOptions);
    }
    Ok(best)
}

/// The sum in numpy's order of additions: eight running totals, and recursive halves above 128 numbers.
pub fn pairwise_sum(numbers: &[f64]) -> f64 {
    0.0 + pairwise(numbers)
}

fn pairwise(numbers: &[f64]) -> f64 {
    let count = numbers.len();
    if count < 8 {
        return numbers.iter().fold(0.0, |total, number| total + number);
    }
    if count > 128 {
        let half = count / 2;
        let (left, right) = numbers.split_at(half - half % 8);
        return pairwise(left) + pairwise(right);
    }
    let chunks = numbers.chunks_exact(8);
    let tail = chunks.remainder();
    let mut totals = [0.0; 8];
    for (position, chunk) in chunks.enumerate() {
        for (total, number) in totals.iter_mut().zip(chunk) {
            *total = if position == 0 { *number } else { *total + number };
        }
    }
    let pair = |first: usize| totals[first] + totals[first + 1];
    let total = (pair(0) + pair(2)) + (pair(4) + pair(6));
    tail.iter().fold(total, |total, number| total + number)
}

/// `ln(e^x + e^y)` without overflow.
pub fn log_add_exp(x: f64, y: f64) -> f64 {
    if x == y {
        // Also for infinities of equal sign, whose difference would be NaN.
        return x + std::f64::consts::LN_2;
    }
    let difference = x - y;
    if difference > 0.0 {
        x + (-difference).exp().ln_1p()
    } else if difference <= 0.0 {
        y + difference.exp().ln_1p()
    } else {
        difference
    }
}

/// `ln Σ e^x`, added from the left; `-inf` for an empty slice.
pub fn log_sum_exp(numbers: &[f64]) -> f64 {
    let Some((first, rest)) = numbers.split_first() else {
        return f64::NEG_INFINITY;
    };
    rest.iter().fold(*first, |total, number| log_add_exp(total, *number))
}

/// Probabilities from log-likelihoods; subtracts the maximum first.
pub fn softmax(numbers: &[f64]) -> Vec<f64> {
    let maximum = numbers.iter().fold(f64::NEG_INFINITY, |maximum, number| {
        if number.is_nan() || *number > maximum { *number } else { maximum }
    });
    let powers: Vec<f64> = numbers.iter().map(|number| (number - maximum).exp()).collect();
    let total = pairwise_sum(&powers);
    powers.iter().map(|power| power / total).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn argmax_ties_go_to_the_first() {
        assert_eq!(argmax(&[-1.0, -1.0]), Ok(0));
        assert_eq!(argmax(&[-1.0, f64::NAN, 0.0]), Ok(1));
        assert_eq!(argmax(&[f64::NEG_INFINITY; 3]), Ok(0));
        assert_eq!(argmax(&[]), Err(MetricError::NoOptions));
    }

    #[test]
    fn pairwise_sum_differs_from_plain_sum() {
        let tenths = [0.1; 10];
        assert_eq!(pairwise_sum(&tenths), 1.0);
        assert_eq!(lmeval_pycompat::float::sum(tenths), 0.9999999999999999);
        assert_eq!(pairwise_sum(&[0.1; 1000]), 100.00000000000001);
        assert!(pairwise_sum(&[]).is_sign_positive());
        assert!(pairwise_sum(&[-0.0]).is_sign_positive());
    }

    #[test]
    fn propagates_infinities_and_nan() {
        let low = f64::NEG_INFINITY;
        assert_eq!(log_sum_exp(&[low, -1.0]), -1.0);
        assert_eq!(log_sum_exp(&[low, low]), low);
        assert!(log_sum_exp(&[f64::NAN, 0.0]).is_nan());
        assert_eq!(softmax(&[low, -1.0]), [0.0, 1.0]);
        assert!(softmax(&[low, low])[0].is_nan());
        assert!(softmax(&[0.0, f64::NAN])[0].is_nan());
    }
}

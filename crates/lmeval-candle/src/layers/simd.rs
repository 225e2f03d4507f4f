//! Vectorised loops, dispatched at run time to the instruction set of the CPU.
//!
//! They are types rather than closures: a closure that is not inlined would be compiled for the baseline instruction set.

#![expect(
    clippy::inline_always,
    reason = "code outside a dispatched function is compiled for the baseline instruction set"
)]

use std::sync::LazyLock;

use pulp::{Arch, Simd, WithSimd};

/// Lanes of a panel: two 256-bit vectors.
pub(crate) const LANES: usize = 16;
/// Rows per step of [`multiply`]: the sums then take twelve of sixteen 256-bit registers.
const TILE: usize = 6;

/// The instruction set of this CPU.
pub(crate) static ARCH: LazyLock<Arch> = LazyLock::new(Arch::new);

/// `exp(x)` for `x <= 0` with a relative error below 3e-7; 0 below -87.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    // Adding and subtracting 1.5 · 2^23 rounds to an integer.
    const ROUND: f32 = 12_582_912.0;
    let clamped = x.clamp(-87.0, 88.0);
    let scaled = clamped.mul_add(std::f32::consts::LOG2_E, ROUND);
    let whole = scaled - ROUND;
    // ln 2 in two parts; the first has trailing zero bits.
    let rest = whole.mul_add(-0.693_359_4, clamped);
    let rest = whole.mul_add(2.121_944_4e-4, rest);
    let mut sum = 1.987_569_2e-4_f32;
    for factor in [1.398_2e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5, 1.0, 1.0] {
        sum = sum.mul_add(rest, factor);
    }
    let power = f32::from_bits((scaled.to_bits() << 23).wrapping_add(0x3f80_0000));
    if x < -87.0 { 0.0 } else { sum * power }
}

struct SiluTimes<'a> {
    gate: &'a mut [f32],
    rows: &'a [f32],
}

impl WithSimd for SiluTimes<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        for (gate, row) in self.gate.iter_mut().zip(self.rows) {
            let tail = exp(-gate.abs());
            // sigmoid(x) is 1 / (1 + e^-x) or e^x / (1 + e^x): take the one with the negative exponent.
            let above = if *gate >= 0.0 { 1.0 } else { tail };
            *gate = *gate * (above / (1.0 + tail)) * row;
        }
    }
}

/// Replaces `gate` with `silu(gate) · rows`.
pub(super) fn silu_times(gate: &mut [f32], rows: &[f32]) {
    ARCH.dispatch(SiluTimes { gate, rows });
}

/// The maximum of a non-empty slice.
#[inline(always)]
fn largest(numbers: &[f32]) -> f32 {
    let (chunks, rest) = numbers.as_chunks::<LANES>();
    let mut lanes = [f32::NEG_INFINITY; LANES];
    for chunk in chunks {
        for (lane, number) in lanes.iter_mut().zip(chunk) {
            *lane = lane.max(*number);
        }
    }
    lanes.iter().chain(rest).copied().fold(f32::NEG_INFINITY, f32::max)
}

struct Softmax<'a> {
    scores: &'a mut [f32],
    sink: f32,
}

impl WithSimd for Softmax<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let largest = largest(self.scores).max(self.sink);
        let mut sums = [0.0_f32; LANES];
        let (chunks, rest) = self.scores.as_chunks_mut::<LANES>();
        for chunk in chunks {
            for (sum, score) in sums.iter_mut().zip(chunk) {
                *score = exp(*score - largest);
                *sum += *score;
            }
        }
        let mut total: f32 = sums.iter().sum();
        for score in rest {
            *score = exp(*score - largest);
            total += *score;
        }
        total += exp(self.sink - largest);
        let scale = 1.0 / total;
        for score in self.scores.iter_mut() {
            *score *= scale;
        }
    }
}

/// Softmax in place, with a further score whose result is dropped; minus infinity for none. At least one score must be finite.
pub(super) fn softmax(scores: &mut [f32], sink: f32) {
    ARCH.dispatch(Softmax { scores, sink });
}

struct LogSumExp<'a>(&'a [f32]);

impl WithSimd for LogSumExp<'_> {
    type Output = (u32, f32, f32);

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> (u32, f32, f32) {
        let largest = largest(self.0);
        let (chunks, rest) = self.0.as_chunks::<LANES>();
        let mut sums = [0.0_f32; LANES];
        for chunk in chunks {
            for (sum, number) in sums.iter_mut().zip(chunk) {
                *sum += exp(*number - largest);
            }
        }
        let total = sums.iter().sum::<f32>() + rest.iter().map(|number| exp(*number - largest)).sum::<f32>();
        let best = self.0.iter().position(|number| *number == largest).unwrap_or(0);
        (best as u32, largest, total)
    }
}

/// The index of the maximum, the maximum, and the sum of `exp(x - maximum)`.
pub(crate) fn log_sum_exp(numbers: &[f32]) -> (u32, f32, f32) {
    ARCH.dispatch(LogSumExp(numbers))
}

/// Multiplies rows with a panel `[depth, LANES]` in row-major order.
///
/// `rows` has `depth` elements per row, `stride` apart. `write` gets the products of each row.
pub(super) fn multiply(
    rows: &[f32],
    stride: usize,
    count: usize,
    panel: &[[f32; LANES]],
    mut write: impl FnMut(usize, &[f32; LANES]),
) {
    let depth = panel.len();
    let mut first = 0;
    while first + TILE <= count {
        let row = |index: usize| &rows[(first + index) * stride..][..depth];
        let products = ARCH.dispatch(Tile { rows: std::array::from_fn::<_, TILE, _>(row), panel });
        for (index, products) in products.iter().enumerate() {
            write(first + index, products);
        }
        first += TILE;
    }
    for index in first..count {
        let row = &rows[index * stride..][..depth];
        let [products] = ARCH.dispatch(Tile { rows: [row], panel });
        write(index, &products);
    }
}

struct Tile<'a, const ROWS: usize> {
    rows: [&'a [f32]; ROWS],
    panel: &'a [[f32; LANES]],
}

impl<const ROWS: usize> WithSimd for Tile<'_, ROWS> {
    type Output = [[f32; LANES]; ROWS];

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> [[f32; LANES]; ROWS] {
        let mut sums = [[0.0_f32; LANES]; ROWS];
        for (index, lanes) in self.panel.iter().enumerate() {
            for (sums, row) in sums.iter_mut().zip(self.rows) {
                let factor = row[index];
                for (sum, lane) in sums.iter_mut().zip(lanes) {
                    *sum = factor.mul_add(*lane, *sum);
                }
            }
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponentials_are_exact_enough() {
        for step in 0..100_000 {
            let x = -(step as f32) / 1000.0;
            let exact = f64::from(x).exp();
            let error = (f64::from(exp(x)) - exact).abs();
            assert!(error <= exact * 3e-7 || (x < -87.0 && error < 1e-37), "{x}: {error}");
        }
        assert_eq!(exp(f32::NEG_INFINITY), 0.0);
        assert_eq!(exp(0.0), 1.0);
    }

    #[test]
    fn softmax_of_any_length() {
        for length in [1_usize, 5, 32, 33, 100] {
            let mut scores: Vec<f32> = (0..length).map(|index| (index as f32 * 0.7).sin() * 5.0).collect();
            let exact: Vec<f64> = scores.iter().map(|score| f64::from(*score).exp()).collect();
            let total: f64 = exact.iter().sum();
            softmax(&mut scores, f32::NEG_INFINITY);
            for (score, exact) in scores.iter().zip(exact) {
                assert!((f64::from(*score) - exact / total).abs() < 1e-6);
            }
        }
    }

    #[test]
    fn silu_of_both_signs() {
        let mut gate = vec![-100.0, -3.0, -0.5, 0.0, 0.5, 3.0, 100.0];
        let exact: Vec<f64> =
            gate.iter().map(|x| f64::from(*x) / (1.0 + (-f64::from(*x)).exp()) * 2.0).collect();
        silu_times(&mut gate, &[2.0; 7]);
        for (found, exact) in gate.iter().zip(exact) {
            assert!((f64::from(*found) - exact).abs() < 1e-5 * exact.abs().max(1e-3), "{found} {exact}");
        }
    }

    #[test]
    fn multiplies_any_number_of_rows() {
        let panel: Vec<[f32; LANES]> =
            (0..7).map(|depth| std::array::from_fn(|lane| (depth * lane) as f32 - 20.0)).collect();
        for count in 0..10 {
            let rows: Vec<f32> = (0..count * 9).map(|index| index as f32 / 3.0).collect();
            let mut written = 0;
            multiply(&rows, 9, count, &panel, |row, products| {
                written += 1;
                for (lane, product) in products.iter().enumerate() {
                    let exact: f32 = (0..7).map(|depth| rows[row * 9 + depth] * panel[depth][lane]).sum();
                    assert!((product - exact).abs() < 0.01);
                }
            });
            assert_eq!(written, count);
        }
    }
}

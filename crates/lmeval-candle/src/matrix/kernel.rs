//! The inner loops of products on the CPU: rows times a panel of 16 outputs.

#![expect(
    clippy::inline_always,
    reason = "code outside a dispatched function is compiled for the baseline instruction set"
)]

use pulp::{Simd, WithSimd};

use crate::layers::simd::{ARCH, LANES};

/// The outputs of a panel at one depth.
pub(crate) type Lanes = [f32; LANES];

/// Rows that are multiplied at a time: the sums then take twelve of sixteen 256-bit registers.
const TILE: usize = 6;

/// Adds the products of rows with a panel to `sums`, in the order of its depth. Rows are `stride` apart.
pub(super) fn add_products(rows: &[f32], stride: usize, panel: &[Lanes], sums: &mut [Lanes]) {
    ARCH.dispatch(AddProducts { rows, stride, panel, sums });
}

struct AddProducts<'a> {
    rows: &'a [f32],
    stride: usize,
    panel: &'a [Lanes],
    sums: &'a mut [Lanes],
}

impl WithSimd for AddProducts<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        match S::F32_LANES {
            16 => self.run::<S, 1>(simd),
            8 => self.run::<S, 2>(simd),
            4 => self.run::<S, 4>(simd),
            2 => self.run::<S, 8>(simd),
            _ => self.run::<S, LANES>(simd),
        }
    }
}

impl AddProducts<'_> {
    #[inline(always)]
    fn run<S: Simd, const VECTORS: usize>(self, simd: S) {
        let Self { rows, stride, panel, sums } = self;
        let mut tiles = sums.chunks_exact_mut(TILE);
        let mut first = 0;
        for sums in &mut tiles {
            add_tile::<S, VECTORS, TILE>(simd, &rows[first * stride..], stride, panel, sums);
            first += TILE;
        }
        let (rows, sums) = (rows.get(first * stride..).unwrap_or_default(), tiles.into_remainder());
        match sums.len() {
            0 => {}
            1 => add_tile::<S, VECTORS, 1>(simd, rows, stride, panel, sums),
            2 => add_tile::<S, VECTORS, 2>(simd, rows, stride, panel, sums),
            3 => add_tile::<S, VECTORS, 3>(simd, rows, stride, panel, sums),
            4 => add_tile::<S, VECTORS, 4>(simd, rows, stride, panel, sums),
            _ => add_tile::<S, VECTORS, 5>(simd, rows, stride, panel, sums),
        }
    }
}

/// The products of a few rows, with `VECTORS` vectors per panel row: all sums stay in registers.
#[inline(always)]
fn add_tile<S: Simd, const VECTORS: usize, const ROWS: usize>(
    simd: S,
    rows: &[f32],
    stride: usize,
    panel: &[Lanes],
    stored: &mut [Lanes],
) {
    let stored = stored.first_chunk_mut::<ROWS>().expect("the sums of each row");
    let rows: [&[f32]; ROWS] = std::array::from_fn(|row| &rows[row * stride..][..panel.len()]);
    let mut sums: [[S::f32s; VECTORS]; ROWS] = std::array::from_fn(|row| {
        let stored = S::as_simd_f32s(&stored[row]).0;
        std::array::from_fn(|vector| stored[vector])
    });
    for (index, lanes) in panel.iter().enumerate() {
        let lanes = S::as_simd_f32s(lanes).0;
        let lanes: [S::f32s; VECTORS] = std::array::from_fn(|vector| lanes[vector]);
        for (sums, row) in sums.iter_mut().zip(rows) {
            let factor = simd.splat_f32s(row[index]);
            for (sum, lanes) in sums.iter_mut().zip(lanes) {
                *sum = simd.mul_add_e_f32s(factor, lanes, *sum);
            }
        }
    }
    for (stored, sums) in stored.iter_mut().zip(sums) {
        S::as_mut_simd_f32s(stored).0.copy_from_slice(&sums);
    }
}

/// Turns up to 16 rows of `panel.len()` numbers into a panel. Missing rows leave their lanes as they are.
pub(super) fn transpose(rows: &[f32], count: usize, panel: &mut [Lanes]) {
    let width = panel.len();
    #[cfg(target_arch = "x86_64")]
    if count == LANES
        && let Some(simd) = pulp::x86::V3::try_new()
    {
        simd.vectorize(Transpose { simd, rows, panel });
        return;
    }
    for (lane, row) in rows.chunks_exact(width).take(count).enumerate() {
        for (lanes, number) in panel.iter_mut().zip(row) {
            lanes[lane] = *number;
        }
    }
}

#[cfg(target_arch = "x86_64")]
struct Transpose<'a> {
    simd: pulp::x86::V3,
    rows: &'a [f32],
    panel: &'a mut [Lanes],
}

#[cfg(target_arch = "x86_64")]
impl pulp::NullaryFnOnce for Transpose<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Self { simd, rows, panel } = self;
        let width = panel.len();
        let rows: [&[f32]; LANES] = std::array::from_fn(|row| &rows[row * width..][..width]);
        let (blocks, rest) = panel.as_chunks_mut::<BLOCK>();
        let first = BLOCK * blocks.len();
        for (index, block) in blocks.iter_mut().enumerate() {
            for half in 0..LANES / BLOCK {
                let mut taken = [[0.0; BLOCK]; BLOCK];
                for (taken, row) in taken.iter_mut().zip(&rows[half * BLOCK..]) {
                    *taken = row.as_chunks().0[index];
                }
                transpose_block(simd, &mut taken);
                for (lanes, turned) in block.iter_mut().zip(&taken) {
                    lanes.as_chunks_mut().0[half] = *turned;
                }
            }
        }
        for (index, lanes) in rest.iter_mut().enumerate() {
            for (lane, row) in lanes.iter_mut().zip(rows) {
                *lane = row[first + index];
            }
        }
    }
}

/// The side of the blocks that are transposed in registers.
#[cfg(target_arch = "x86_64")]
const BLOCK: usize = 8;

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn transpose_block(simd: pulp::x86::V3, block: &mut [[f32; BLOCK]; BLOCK]) {
    use std::arch::x86_64::__m256;
    let avx = simd.avx;
    let low = |a: __m256, b: __m256| avx._mm256_unpacklo_ps(a, b);
    let high = |a: __m256, b: __m256| avx._mm256_unpackhi_ps(a, b);
    let low_pairs = |a, b| pulp::cast(avx._mm256_unpacklo_pd(pulp::cast(a), pulp::cast(b)));
    let high_pairs = |a, b| pulp::cast(avx._mm256_unpackhi_pd(pulp::cast(a), pulp::cast(b)));
    let rows: [__m256; BLOCK] = pulp::cast(*block);
    // Interleaves single numbers of two rows, then pairs of four rows, then halves of eight.
    let four = |first: usize| -> [__m256; 4] {
        let singles = [low(rows[first], rows[first + 1]), low(rows[first + 2], rows[first + 3])];
        let others = [high(rows[first], rows[first + 1]), high(rows[first + 2], rows[first + 3])];
        [
            low_pairs(singles[0], singles[1]),
            high_pairs(singles[0], singles[1]),
            low_pairs(others[0], others[1]),
            high_pairs(others[0], others[1]),
        ]
    };
    let (upper, lower) = (four(0), four(4));
    let (first, rest) = block.split_at_mut(BLOCK / 2);
    for index in 0..BLOCK / 2 {
        first[index] = pulp::cast(avx._mm256_permute2f128_ps::<0x20>(upper[index], lower[index]));
        rest[index] = pulp::cast(avx._mm256_permute2f128_ps::<0x31>(upper[index], lower[index]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transposes_any_width_and_number_of_rows() {
        for width in [1, 5, 8, 31, 64, 256] {
            for count in [1, 7, 16] {
                let rows: Vec<f32> = (0..LANES * width).map(|index| index as f32).collect();
                let mut panel = vec![[-1.0; LANES]; width];
                transpose(&rows, count, &mut panel);
                for (column, lanes) in panel.iter().enumerate() {
                    for (lane, number) in lanes.iter().enumerate() {
                        let expected = if lane < count { (lane * width + column) as f32 } else { -1.0 };
                        assert_eq!(*number, expected, "{width} {count}");
                    }
                }
            }
        }
    }

    #[test]
    fn adds_products_of_any_number_of_rows() {
        let panel: Vec<Lanes> =
            (0..7).map(|depth| std::array::from_fn(|lane| (depth * lane) as f32 - 20.0)).collect();
        for count in 0..15 {
            let rows: Vec<f32> = (0..count * 9).map(|index| index as f32 / 3.0).collect();
            let mut sums = vec![[1.0; LANES]; count];
            add_products(&rows, 9, &panel, &mut sums);
            for (row, sums) in sums.iter().enumerate() {
                for (lane, sum) in sums.iter().enumerate() {
                    let exact: f32 = (0..7).map(|depth| rows[row * 9 + depth] * panel[depth][lane]).sum();
                    assert!((sum - exact - 1.0).abs() < 0.01);
                }
            }
        }
    }
}

//! Matrices with a change of low rank, which adapters make.

use std::fmt;
use std::sync::Arc;

use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use super::stored::{STEP, StoredMatrix};
use crate::layers::simd::ARCH;

/// A matrix `W + up · down`, whose rows may be scaled. The sum is computed when a row is read, so that `W` may stay in its stored form.
pub(crate) struct LowRank {
    matrix: Arc<dyn StoredMatrix>,
    /// `[rows, rank]`.
    up: Vec<f32>,
    /// `[rank, columns]`.
    down: Vec<f32>,
    rank: usize,
    /// A factor for each row.
    factors: Option<Vec<f32>>,
}

impl LowRank {
    /// Adds a product. Both factors must fit the matrix.
    pub(crate) fn new(matrix: Arc<dyn StoredMatrix>, up: Vec<f32>, down: Vec<f32>, rank: usize) -> Self {
        let (rows, columns) = matrix.shape();
        assert!(up.len() == rows * rank && down.len() == rank * columns, "the factors of a change");
        Self { matrix, up, down, rank, factors: None }
    }

    /// Scales each row to a length.
    pub(crate) fn with_lengths(mut self, lengths: &[f32]) -> Self {
        let (_, columns) = self.shape();
        let factors = lengths.par_iter().enumerate().map_init(
            || vec![0.0; columns],
            |numbers, (row, length)| {
                self.read(row, 0, numbers);
                let squares: f64 = numbers.iter().map(|number| f64::from(*number).powi(2)).sum();
                (f64::from(*length) / squares.sqrt()) as f32
            },
        );
        self.factors = Some(factors.collect());
        self
    }

    fn add(&self, row: usize, first: usize, into: &mut [f32]) {
        let (_, columns) = self.shape();
        let up = &self.up[row * self.rank..][..self.rank];
        let down = &self.down[first..];
        let factor = self.factors.as_ref().map_or(1.0, |factors| factors[row]);
        ARCH.dispatch(Add { up, down, columns, factor, into });
    }
}

struct Add<'a> {
    up: &'a [f32],
    /// From the first column on.
    down: &'a [f32],
    columns: usize,
    factor: f32,
    into: &'a mut [f32],
}

impl WithSimd for Add<'_> {
    type Output = ();

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "compiled for the instruction set of the dispatch")]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { up, down, columns, factor, into } = self;
        let mut change = [0.0_f32; STEP];
        let change = &mut change[..into.len()];
        for (rank, up) in up.iter().enumerate() {
            for (change, down) in change.iter_mut().zip(&down[rank * columns..]) {
                *change += up * down;
            }
        }
        for (into, change) in into.iter_mut().zip(change) {
            *into = (*into + *change) * factor;
        }
    }
}

impl fmt::Debug for LowRank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LowRank")
            .field("matrix", &self.matrix)
            .field("rank", &self.rank)
            .finish_non_exhaustive()
    }
}

impl StoredMatrix for LowRank {
    fn shape(&self) -> (usize, usize) {
        self.matrix.shape()
    }

    fn read(&self, row: usize, first: usize, into: &mut [f32]) {
        self.matrix.read(row, first, into);
        for (index, into) in into.chunks_mut(STEP).enumerate() {
            self.add(row, first + index * STEP, into);
        }
    }
}

/// A matrix some of whose rows are replaced.
#[derive(Debug)]
pub(crate) struct Patched {
    /// The matrix.
    pub(crate) matrix: Arc<dyn StoredMatrix>,
    /// The replaced rows, in ascending order.
    pub(crate) rows: Vec<u32>,
    /// Their numbers.
    pub(crate) numbers: Vec<f32>,
}

impl StoredMatrix for Patched {
    fn shape(&self) -> (usize, usize) {
        self.matrix.shape()
    }

    fn read(&self, row: usize, first: usize, into: &mut [f32]) {
        let (_, columns) = self.shape();
        match self.rows.binary_search(&(row as u32)) {
            Ok(index) => into.copy_from_slice(&self.numbers[index * columns + first..][..into.len()]),
            Err(_) => self.matrix.read(row, first, into),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::Owned;

    fn numbers(count: usize, salt: usize) -> Vec<f32> {
        (0..count).map(|index| ((index * index + salt) as f32 * 0.37).sin()).collect()
    }

    #[test]
    fn rows_are_changed_and_scaled() {
        let (rows, columns, rank) = (5, 300, 3);
        let [own, up, down] =
            [numbers(rows * columns, 0), numbers(rows * rank, 7), numbers(rank * columns, 9)];
        let matrix = Arc::new(Owned { numbers: own.clone(), shape: (rows, columns) });
        let changed = LowRank::new(matrix, up.clone(), down.clone(), rank);
        let expected = |row: usize, column: usize| {
            let change: f32 =
                (0..rank).map(|rank_| up[row * rank + rank_] * down[rank_ * columns + column]).sum();
            own[row * columns + column] + change
        };
        let read = |matrix: &dyn StoredMatrix, row: usize| {
            let (mut first, mut rest) = (vec![0.0; 256], vec![0.0; 44]);
            matrix.read(row, 0, &mut first);
            matrix.read(row, 256, &mut rest);
            let mut whole = vec![0.0; columns];
            matrix.read(row, 0, &mut whole);
            first.extend(rest);
            assert_eq!(first, whole);
            whole
        };
        for row in 0..rows {
            let found = read(&changed, row);
            assert!((0..columns).all(|column| (found[column] - expected(row, column)).abs() < 1e-5));
        }
        let lengths = [1.0, 2.0, 0.5, 3.0, 4.0];
        let scaled = changed.with_lengths(&lengths);
        for (row, length) in lengths.into_iter().enumerate() {
            let found = read(&scaled, row);
            let squares: f32 = found.iter().map(|number| number * number).sum();
            assert!((squares.sqrt() - length).abs() < 1e-4);
            assert!(found[7].signum() == expected(row, 7).signum());
        }
        let matrix: Arc<dyn StoredMatrix> = Arc::new(scaled);
        let patched =
            Patched { matrix: Arc::clone(&matrix), rows: vec![1, 4], numbers: numbers(2 * columns, 3) };
        assert_eq!(read(&patched, 4), &patched.numbers[columns..]);
        assert_eq!(read(&patched, 3), read(matrix.as_ref(), 3));
    }
}

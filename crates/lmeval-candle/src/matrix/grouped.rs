//! Matrices of small codes row by row, with a scale per group of weights.

#![expect(
    clippy::inline_always,
    reason = "code outside a dispatched function is compiled for the baseline instruction set"
)]

use std::fmt;
use std::sync::Arc;

#[cfg(feature = "cuda")]
use candle_core::{Device, Result};
use pulp::{Simd, WithSimd};

use super::convert::{CODES, lookup_floats};
use super::floats::FloatType;
#[cfg(feature = "cuda")]
use super::stored::DeviceMatrix;
use super::stored::StoredMatrix;
use crate::layers::simd::ARCH;

/// Bytes of a file or in memory.
pub(crate) type Bytes = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// How weights are coded.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Codes {
    /// Two codes per byte, of entries of a table.
    Nibbles {
        /// What the codes stand for.
        table: [f32; CODES],
        /// Whether the first code of a byte is its upper half.
        upper_first: bool,
    },
    /// Codes of some bits in 32-bit words, as many as fit, without signs: half of their range is added to each.
    Packed {
        /// The bits of a code.
        bits: u32,
    },
    /// Integers of eight bits.
    Integers,
    /// Floats.
    Floats(FloatType),
}

impl Codes {
    /// The bytes of a row.
    pub(crate) fn row_bytes(&self, columns: usize) -> usize {
        match self {
            Self::Nibbles { .. } => columns.div_ceil(2),
            Self::Packed { bits } => 4 * columns.div_ceil((32 / bits) as usize),
            Self::Integers => columns,
            Self::Floats(dtype) => columns * dtype.size(),
        }
    }

    /// Converts codes of a row from `first` on.
    fn read(&self, row: &[u8], first: usize, into: &mut [f32]) {
        match self {
            Self::Nibbles { table, upper_first } => {
                ARCH.dispatch(Nibbles { table, upper_first: *upper_first, bytes: &row[first / 2..], into });
            }
            Self::Packed { bits } => {
                let per_word = (32 / bits) as usize;
                let (words, middle) = (row.as_chunks::<4>().0, (1_u32 << (bits - 1)) as f32);
                for (index, into) in into.iter_mut().enumerate() {
                    let word = u32::from_le_bytes(words[(first + index) / per_word]);
                    let place = ((first + index) % per_word) as u32;
                    *into = (word >> (place * bits) & ((1 << bits) - 1)) as f32 - middle;
                }
            }
            Self::Integers => {
                for (into, byte) in into.iter_mut().zip(&row[first..]) {
                    *into = f32::from(byte.cast_signed());
                }
            }
            Self::Floats(dtype) => {
                dtype.read(&row[first * dtype.size()..][..into.len() * dtype.size()], into);
            }
        }
    }
}

struct Nibbles<'a> {
    table: &'a [f32; CODES],
    upper_first: bool,
    bytes: &'a [u8],
    into: &'a mut [f32],
}

impl WithSimd for Nibbles<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { table, upper_first, bytes, into } = self;
        let (blocks, rest) = into.as_chunks_mut::<CODES>();
        let first = blocks.len() * CODES / 2;
        for (bytes, into) in bytes.as_chunks::<8>().0.iter().zip(blocks) {
            let mut codes = [0; CODES];
            for index in 0..8 {
                codes[2 * index] = bytes[index] & 15;
                codes[2 * index + 1] = bytes[index] >> 4;
            }
            if upper_first {
                for pair in codes.as_chunks_mut::<2>().0 {
                    pair.swap(0, 1);
                }
            }
            *into = lookup_floats(table, &codes);
        }
        for (index, into) in rest.iter_mut().enumerate() {
            let byte = bytes[first + index / 2];
            let upper = (index % 2 == 1) != upper_first;
            *into = table[usize::from(if upper { byte >> 4 } else { byte & 15 })];
        }
    }
}

/// Which weights share a scale.
#[derive(Clone, Debug)]
pub(crate) enum Groups {
    /// Blocks of rows and columns.
    Blocks {
        /// The rows of a block.
        rows: usize,
        /// The columns of a block.
        columns: usize,
    },
    /// Consecutive weights, across rows.
    Runs(usize),
    /// The group of each column.
    Columns {
        /// The index of its group.
        group: Vec<u32>,
        /// The number of groups per row.
        count: usize,
    },
}

/// The scales of groups.
#[derive(Clone)]
pub(crate) struct Scales {
    /// The stored scales, in the order of groups.
    pub(crate) bytes: Bytes,
    /// Their type.
    pub(crate) dtype: FloatType,
    /// A factor of all of them.
    pub(crate) factor: f32,
    /// A number to subtract from the codes of each group before they are scaled.
    pub(crate) zeros: Option<Arc<[i8]>>,
    /// Which weights have the same scale.
    pub(crate) groups: Groups,
}

impl Scales {
    /// The number of scales of a matrix.
    pub(crate) fn count(&self, (rows, columns): (usize, usize)) -> usize {
        match &self.groups {
            Groups::Blocks { rows: height, columns: width } => {
                rows.div_ceil(*height) * columns.div_ceil(*width)
            }
            Groups::Runs(length) => (rows * columns).div_ceil(*length),
            Groups::Columns { count, .. } => rows * count,
        }
    }

    /// Scales codes of a row from a column on, less the zero point of their group.
    fn apply(&self, row: usize, first: usize, columns: usize, numbers: &mut [f32]) {
        let scale = |group: usize, numbers: &mut [f32]| {
            let scale = self.dtype.at(self.bytes.as_ref().as_ref(), group) * self.factor;
            let zero = self.zeros.as_ref().map_or(0.0, |zeros| f32::from(zeros[group]));
            for number in numbers {
                *number = (*number - zero) * scale;
            }
        };
        // The first weight in its sequence of groups, their length, and the first group of that sequence.
        let (place, length, base) = match &self.groups {
            Groups::Blocks { rows, columns: width } => (first, *width, row / rows * columns.div_ceil(*width)),
            Groups::Runs(length) => (row * columns + first, *length, 0),
            Groups::Columns { group, count } => {
                for (number, group) in numbers.iter_mut().zip(&group[first..]) {
                    scale(row * count + *group as usize, std::slice::from_mut(number));
                }
                return;
            }
        };
        let (begun, mut group) = (place % length, base + place / length);
        let (own, rest) = numbers.split_at_mut(numbers.len().min(length - begun));
        scale(group, own);
        for numbers in rest.chunks_mut(length) {
            group += 1;
            scale(group, numbers);
        }
    }
}

/// A matrix of codes in groups.
pub(crate) struct Grouped {
    bytes: Bytes,
    codes: Codes,
    scales: Scales,
    shape: (usize, usize),
}

impl Grouped {
    /// A matrix, if there are as many bytes, scales and zeros as it needs.
    pub(crate) fn new(bytes: Bytes, codes: Codes, scales: Scales, shape: (usize, usize)) -> Option<Self> {
        let own = bytes.as_ref().as_ref().len();
        let count = scales.count(shape);
        let fits = own == shape.0 * codes.row_bytes(shape.1)
            && scales.bytes.as_ref().as_ref().len() == count * scales.dtype.size()
            && scales.zeros.as_ref().is_none_or(|zeros| zeros.len() == count);
        fits.then_some(Self { bytes, codes, scales, shape })
    }

    /// The codes of all rows.
    #[cfg(feature = "cuda")]
    pub(crate) fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The kind of its codes, its scales and its shape.
    #[cfg(feature = "cuda")]
    pub(crate) fn parts(&self) -> (&Codes, &Scales, (usize, usize)) {
        (&self.codes, &self.scales, self.shape)
    }
}

impl fmt::Debug for Grouped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grouped").field("shape", &self.shape).finish_non_exhaustive()
    }
}

impl StoredMatrix for Grouped {
    fn shape(&self) -> (usize, usize) {
        self.shape
    }

    #[cfg(feature = "cuda")]
    fn on_device(&self, device: &Device) -> Result<Option<Arc<dyn DeviceMatrix>>> {
        Ok(Some(Arc::new(crate::cuda::GroupedOnDevice::new(self, device)?)))
    }

    fn read(&self, row: usize, first: usize, into: &mut [f32]) {
        let (_, columns) = self.shape;
        let length = self.codes.row_bytes(columns);
        self.codes.read(&self.bytes.as_ref().as_ref()[row * length..][..length], first, into);
        self.scales.apply(row, first, columns, into);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floats(numbers: &[f32]) -> Bytes {
        Arc::new(numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>())
    }

    fn read(matrix: &Grouped) -> Vec<f32> {
        let (rows, columns) = matrix.shape();
        let mut all = vec![0.0; rows * columns];
        for (row, into) in all.chunks_mut(columns).enumerate() {
            let (first, rest) = into.split_at_mut(256.min(columns));
            matrix.read(row, 0, first);
            if !rest.is_empty() {
                matrix.read(row, 256, rest);
            }
        }
        all
    }

    /// Some bytes for a matrix.
    fn bytes(count: usize) -> Vec<u8> {
        (0..count).map(|index| (index * 89 + index / 7) as u8).collect()
    }

    #[test]
    fn codes_of_all_kinds_are_scaled_by_group() {
        let (rows, columns) = (6, 300);
        let table: [f32; 16] = std::array::from_fn(|index| index as f32 * 1.5 - 3.0);
        for upper_first in [false, true] {
            let own = bytes(rows * columns / 2);
            let scales: Vec<f32> = (0..rows * columns / 20).map(|index| index as f32 + 0.5).collect();
            let scales = Scales {
                bytes: floats(&scales),
                dtype: FloatType::F32,
                factor: 2.0,
                zeros: None,
                groups: Groups::Runs(20),
            };
            let codes = Codes::Nibbles { table, upper_first };
            let found = read(&Grouped::new(Arc::new(own.clone()), codes, scales, (rows, columns)).unwrap());
            for (index, found) in found.iter().enumerate() {
                let shift = if (index % 2 == 1) == upper_first { 0 } else { 4 };
                let code = own[index / 2] >> shift & 15;
                assert_eq!(*found, table[usize::from(code)] * ((index / 20) as f32 + 0.5) * 2.0, "{index}");
            }
        }
        for bits in [2, 3, 4, 5, 8] {
            let per_word = (32 / bits) as usize;
            let own = bytes(rows * 4 * columns.div_ceil(per_word));
            let zeros: Vec<i8> = (0..6).map(|index| index * 2 - 5).collect();
            let groups = Groups::Blocks { rows: 2, columns: 150 };
            let scales = Scales {
                bytes: floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
                dtype: FloatType::F32,
                factor: 1.0,
                zeros: Some(zeros.clone().into()),
                groups,
            };
            let found = read(
                &Grouped::new(Arc::new(own.clone()), Codes::Packed { bits }, scales, (rows, columns))
                    .unwrap(),
            );
            for (index, found) in found.iter().enumerate() {
                let (row, column) = (index / columns, index % columns);
                let word = own[row * 4 * columns.div_ceil(per_word) + column / per_word * 4..]
                    .first_chunk()
                    .unwrap();
                let code =
                    u32::from_le_bytes(*word) >> (column % per_word * bits as usize) & ((1 << bits) - 1);
                let group = row / 2 * 2 + column / 150;
                let code = code as f32 - (1 << (bits - 1)) as f32 - f32::from(zeros[group]);
                assert_eq!(*found, code * (group + 1) as f32, "{bits} {index}");
            }
        }
        let own = bytes(rows * columns);
        let group: Vec<u32> = (0..columns as u32).map(|column| column * 7 % 3).collect();
        let groups = Groups::Columns { group: group.clone(), count: 3 };
        let scales: Vec<f32> = (0..18).map(|index| index as f32).collect();
        let scales =
            Scales { bytes: floats(&scales), dtype: FloatType::F32, factor: 1.0, zeros: None, groups };
        let found = read(
            &Grouped::new(Arc::new(own.clone()), Codes::Integers, scales.clone(), (rows, columns)).unwrap(),
        );
        for (index, found) in found.iter().enumerate() {
            let group = index / columns * 3 + group[index % columns] as usize;
            assert_eq!(*found, f32::from(own[index].cast_signed()) * group as f32);
        }
        assert!(Grouped::new(Arc::new(own), Codes::Integers, scales, (rows, columns - 1)).is_none());
    }
}

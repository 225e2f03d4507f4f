//! Matrices of floats as bytes of a file.

#![expect(
    clippy::inline_always,
    reason = "code outside a dispatched function is compiled for the baseline instruction set"
)]

use std::fmt;
use std::ops::Range;

use pulp::{Simd, WithSimd};

use super::stored::StoredMatrix;
use crate::layers::simd::{ARCH, LANES};

/// A type of floats in files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FloatType {
    F32,
    BF16,
    F16,
    /// Eight bits with four of exponent, without infinity.
    F8E4M3,
    /// Eight bits of exponent alone: a power of two.
    E8M0,
}

impl FloatType {
    /// The bytes of a number.
    pub(crate) fn size(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::BF16 | Self::F16 => 2,
            Self::F8E4M3 | Self::E8M0 => 1,
        }
    }

    /// Converts one number.
    pub(crate) fn at(self, bytes: &[u8], index: usize) -> f32 {
        let bytes = &bytes[index * self.size()..];
        let pair = || u16::from_le_bytes([bytes[0], bytes[1]]);
        match self {
            Self::F32 => f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]),
            Self::BF16 => bf16(pair()),
            Self::F16 => f16(pair()),
            Self::F8E4M3 => f8e4m3(bytes[0]),
            Self::E8M0 => half_power(bytes[0]) * 2.0,
        }
    }

    /// Converts numbers.
    pub(crate) fn read(self, bytes: &[u8], into: &mut [f32]) {
        ARCH.dispatch(Read { dtype: self, bytes, into });
    }
}

struct Read<'a> {
    dtype: FloatType,
    bytes: &'a [u8],
    into: &'a mut [f32],
}

impl WithSimd for Read<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { dtype, bytes, into } = self;
        let pairs = bytes.as_chunks().0.iter().map(|bytes| u16::from_le_bytes(*bytes));
        match dtype {
            FloatType::F32 => {
                let numbers = bytes.as_chunks().0.iter();
                into.iter_mut().zip(numbers).for_each(|(into, bytes)| *into = f32::from_le_bytes(*bytes));
            }
            FloatType::BF16 => into.iter_mut().zip(pairs).for_each(|(into, bits)| *into = bf16(bits)),
            FloatType::F16 => into.iter_mut().zip(pairs).for_each(|(into, bits)| *into = f16(bits)),
            FloatType::F8E4M3 => into.iter_mut().zip(bytes).for_each(|(into, bits)| *into = f8e4m3(*bits)),
            FloatType::E8M0 => {
                into.iter_mut().zip(bytes).for_each(|(into, bits)| *into = half_power(*bits) * 2.0);
            }
        }
    }
}

#[inline(always)]
fn bf16(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// Adds `bias` to the exponent of a number whose exponent and mantissa are in their positions of 32 bits. It has no branches and no
/// operations on subnormal numbers, which are slow.
#[inline(always)]
fn widened(bits: u32, bias: u32) -> f32 {
    const ONE: u32 = 1 << 23;
    let normal = bits + bias * ONE;
    // With the smallest exponent, the leading bit is not one: subtract what it adds.
    let smallest = (bias + 1) * ONE;
    let subnormal = (f32::from_bits(bits + smallest) - f32::from_bits(smallest)).to_bits();
    f32::from_bits(if bits < ONE { subnormal } else { normal })
}

/// A 16-bit float.
#[inline(always)]
pub(crate) fn f16(bits: u16) -> f32 {
    let bits = u32::from(bits);
    let size = widened((bits & 0x7fff) << 13, 112).to_bits();
    // Infinity and NaN have the largest exponent.
    let largest = if bits & 0x7c00 == 0x7c00 { 0x7f80_0000 } else { 0 };
    f32::from_bits(size | largest | (bits & 0x8000) << 16)
}

/// An eight-bit float with four bits of exponent, which has no infinity.
#[inline(always)]
pub(crate) fn f8e4m3(bits: u8) -> f32 {
    let bits = u32::from(bits);
    let size = widened((bits & 0x7f) << 20, 120).to_bits();
    let nan = if bits & 0x7f == 0x7f { 0x7fc0_0000 } else { 0 };
    f32::from_bits(size | nan | (bits & 0x80) << 24)
}

/// Twice the four-bit floats with two bits of exponent, as integers.
pub(crate) const FP4: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// Half the number of an eight-bit exponent, which has a bias of 127: a factor for [`FP4`].
#[inline(always)]
pub(crate) fn half_power(exponent: u8) -> f32 {
    let exponent = u32::from(exponent);
    // The two smallest are subnormal.
    f32::from_bits(if exponent < 2 { 0x0020_0000 << exponent } else { (exponent - 1) << 23 })
}

/// A matrix of floats.
pub(crate) struct Floats<B> {
    bytes: B,
    dtype: FloatType,
    shape: (usize, usize),
}

impl<B: AsRef<[u8]>> Floats<B> {
    /// A matrix of little-endian numbers, row by row. There must be as many bytes as the shape needs.
    pub(crate) fn new(bytes: B, dtype: FloatType, shape: (usize, usize)) -> Self {
        assert!(bytes.as_ref().len() == shape.0 * shape.1 * dtype.size(), "the bytes of a matrix");
        Self { bytes, dtype, shape }
    }
}

impl<B> fmt::Debug for Floats<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Floats")
            .field("dtype", &self.dtype)
            .field("shape", &self.shape)
            .finish_non_exhaustive()
    }
}

impl<B: AsRef<[u8]> + Send + Sync> StoredMatrix for Floats<B> {
    fn shape(&self) -> (usize, usize) {
        self.shape
    }

    fn read(&self, row: usize, first: usize, into: &mut [f32]) {
        let size = self.dtype.size();
        let bytes = &self.bytes.as_ref()[(row * self.shape.1 + first) * size..];
        self.dtype.read(&bytes[..into.len() * size], into);
    }
}

/// A matrix of floats whose transpose is stored row by row.
pub(crate) struct TransposedFloats<B> {
    bytes: B,
    dtype: FloatType,
    shape: (usize, usize),
}

impl<B: AsRef<[u8]>> TransposedFloats<B> {
    /// A matrix of little-endian numbers, column by column. There must be as many bytes as the shape needs.
    pub(crate) fn new(bytes: B, dtype: FloatType, shape: (usize, usize)) -> Self {
        assert!(bytes.as_ref().len() == shape.0 * shape.1 * dtype.size(), "the bytes of a matrix");
        Self { bytes, dtype, shape }
    }
}

impl<B> fmt::Debug for TransposedFloats<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransposedFloats").field("shape", &self.shape).finish_non_exhaustive()
    }
}

impl<B: AsRef<[u8]> + Send + Sync> StoredMatrix for TransposedFloats<B> {
    fn shape(&self) -> (usize, usize) {
        self.shape
    }

    fn read(&self, row: usize, first: usize, into: &mut [f32]) {
        for (index, into) in into.iter_mut().enumerate() {
            *into = self.dtype.at(self.bytes.as_ref(), (first + index) * self.shape.0 + row);
        }
    }

    fn panel(&self, rows: Range<usize>, first: usize, panel: &mut [[f32; LANES]], _: &mut [f32]) {
        let size = self.dtype.size();
        for (index, lanes) in panel.iter_mut().enumerate() {
            let bytes = &self.bytes.as_ref()[((first + index) * self.shape.0 + rows.start) * size..];
            self.dtype.read(&bytes[..rows.len() * size], &mut lanes[..rows.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether two numbers are equal, or both NaN.
    fn is_same(found: f32, expected: f32) -> bool {
        found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan()
    }

    #[test]
    fn every_number_is_exact() {
        for bits in 0..=u16::MAX {
            assert!(is_same(f16(bits), half::f16::from_bits(bits).to_f32()), "{bits:x}");
            assert!(is_same(bf16(bits), half::bf16::from_bits(bits).to_f32()), "{bits:x}");
        }
        for bits in 0..=u8::MAX {
            let (exponent, rest) = (i32::from(bits >> 3 & 15), f32::from(bits & 7));
            let size = match exponent {
                15 if bits & 7 == 7 => f32::NAN,
                0 => rest * 2.0_f32.powi(-9),
                _ => (8.0 + rest) * 2.0_f32.powi(exponent - 10),
            };
            let expected = if bits >= 128 { -size } else { size };
            assert!(is_same(f8e4m3(bits), expected), "{bits:x}");
        }
    }

    #[test]
    fn exponents_are_powers_of_two() {
        for exponent in 0..=u8::MAX {
            assert_eq!(f64::from(half_power(exponent)), 2.0_f64.powi(i32::from(exponent) - 128));
        }
    }

    #[test]
    fn rows_start_anywhere() {
        let bytes: Vec<u8> = (0..3 * 300 * 4).map(|index| (index * 37 % 251) as u8).collect();
        for dtype in [FloatType::F32, FloatType::BF16, FloatType::F16, FloatType::F8E4M3, FloatType::E8M0] {
            let size = dtype.size();
            let matrix = Floats::new(bytes[..3 * 300 * size].to_vec(), dtype, (3, 300));
            let mut whole = vec![0.0; 300];
            matrix.read(2, 0, &mut whole);
            let mut part = vec![0.0; 44];
            matrix.read(2, 256, &mut part);
            assert!(whole[256..].iter().zip(&part).all(|(a, b)| is_same(*a, *b)), "{dtype:?}");
            assert!(is_same(whole[7], dtype.at(&bytes, 2 * 300 + 7)), "{dtype:?}");
        }
    }
}

//! The data types of tensors: floats, and blocks of quantised weights.
//!
//! To add a type, add a variant with its row of [`BlockType::ALL`] and a function that converts a block, and record blocks of it with
//! `tests/record/gguf_blocks.py`.

#![expect(
    clippy::inline_always,
    reason = "code outside a dispatched function is compiled for the baseline instruction set"
)]

mod codebooks;
#[cfg(feature = "cuda")]
mod device;
mod groups;
mod simple;
mod superblocks;

use std::fmt;
#[cfg(feature = "cuda")]
use std::sync::Arc;

use pulp::{Simd, WithSimd};

use crate::layers::simd::ARCH;
#[cfg(feature = "cuda")]
use crate::matrix::DeviceMatrix;
use crate::matrix::{FloatType, StoredMatrix};

/// A data type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockType {
    F32,
    F16,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q8_1,
    Q2K,
    Q3K,
    Q4K,
    Q5K,
    Q6K,
    Q8K,
    Iq2Xxs,
    Iq2Xs,
    Iq3Xxs,
    Iq1S,
    Iq4Nl,
    Iq3S,
    Iq2S,
    Iq4Xs,
    F64,
    Iq1M,
    BF16,
    Tq1_0,
    Tq2_0,
    Mxfp4,
    Nvfp4,
    Q1_0,
    Q2_0,
}

/// Converts block after block. It is a macro, and dispatches each type on its own, because the compiler inlines neither functions that are
/// passed nor too many of them.
macro_rules! each {
    ($bytes:expr, $into:expr, $convert:path) => {{
        struct Each<'a> {
            bytes: &'a [u8],
            into: &'a mut [f32],
        }

        impl WithSimd for Each<'_> {
            type Output = ();

            #[inline(always)]
            fn with_simd<S: Simd>(self, _: S) {
                for (block, into) in self.bytes.as_chunks().0.iter().zip(self.into.as_chunks_mut().0) {
                    $convert(block, into);
                }
            }
        }

        ARCH.dispatch(Each { bytes: $bytes, into: $into });
    }};
}

impl BlockType {
    /// All types with their numbers in files and, per block, the numbers and bytes.
    const ALL: [(Self, u32, usize, usize); 31] = [
        (Self::F32, 0, 1, 4),
        (Self::F16, 1, 1, 2),
        (Self::Q4_0, 2, 32, 18),
        (Self::Q4_1, 3, 32, 20),
        (Self::Q5_0, 6, 32, 22),
        (Self::Q5_1, 7, 32, 24),
        (Self::Q8_0, 8, 32, 34),
        (Self::Q8_1, 9, 32, 36),
        (Self::Q2K, 10, 256, 84),
        (Self::Q3K, 11, 256, 110),
        (Self::Q4K, 12, 256, 144),
        (Self::Q5K, 13, 256, 176),
        (Self::Q6K, 14, 256, 210),
        (Self::Q8K, 15, 256, 292),
        (Self::Iq2Xxs, 16, 256, 66),
        (Self::Iq2Xs, 17, 256, 74),
        (Self::Iq3Xxs, 18, 256, 98),
        (Self::Iq1S, 19, 256, 50),
        (Self::Iq4Nl, 20, 32, 18),
        (Self::Iq3S, 21, 256, 110),
        (Self::Iq2S, 22, 256, 82),
        (Self::Iq4Xs, 23, 256, 136),
        (Self::F64, 28, 1, 8),
        (Self::Iq1M, 29, 256, 56),
        (Self::BF16, 30, 1, 2),
        (Self::Tq1_0, 34, 256, 54),
        (Self::Tq2_0, 35, 256, 66),
        (Self::Mxfp4, 39, 32, 17),
        (Self::Nvfp4, 40, 64, 36),
        (Self::Q1_0, 41, 128, 18),
        (Self::Q2_0, 42, 64, 18),
    ];

    /// The type with a number.
    pub(super) fn find(number: u32) -> Option<Self> {
        Self::ALL.iter().find(|(_, own, ..)| *own == number).map(|(kind, ..)| *kind)
    }

    /// The numbers and the bytes of a block.
    pub(super) fn block(self) -> (usize, usize) {
        let row = Self::ALL.iter().find(|(kind, ..)| *kind == self).expect("the table has all types");
        (row.2, row.3)
    }

    /// Converts whole blocks. Further numbers stay as they are.
    pub(super) fn read(self, bytes: &[u8], into: &mut [f32]) {
        match self {
            Self::F32 => FloatType::F32.read(bytes, into),
            Self::F16 => FloatType::F16.read(bytes, into),
            Self::BF16 => FloatType::BF16.read(bytes, into),
            Self::F64 => each!(bytes, into, simple::f64),
            Self::Q4_0 => each!(bytes, into, simple::q4_0),
            Self::Q4_1 => each!(bytes, into, simple::q4_1),
            Self::Q5_0 => each!(bytes, into, simple::q5_0),
            Self::Q5_1 => each!(bytes, into, simple::q5_1),
            Self::Q8_0 => each!(bytes, into, simple::q8_0),
            Self::Q8_1 => each!(bytes, into, simple::q8_1),
            Self::Q1_0 => each!(bytes, into, simple::q1_0),
            Self::Q2_0 => each!(bytes, into, simple::q2_0),
            Self::Iq4Nl => each!(bytes, into, simple::iq4_nl),
            Self::Mxfp4 => each!(bytes, into, simple::mxfp4),
            Self::Nvfp4 => each!(bytes, into, simple::nvfp4),
            Self::Q2K => each!(bytes, into, superblocks::q2_k),
            Self::Q3K => each!(bytes, into, superblocks::q3_k),
            Self::Q4K => each!(bytes, into, superblocks::q4_k),
            Self::Q5K => each!(bytes, into, superblocks::q5_k),
            Self::Q6K => each!(bytes, into, superblocks::q6_k),
            Self::Q8K => each!(bytes, into, superblocks::q8_k),
            Self::Iq4Xs => each!(bytes, into, superblocks::iq4_xs),
            Self::Tq1_0 => each!(bytes, into, superblocks::tq1_0),
            Self::Tq2_0 => each!(bytes, into, superblocks::tq2_0),
            Self::Iq1S => each!(bytes, into, groups::iq1_s),
            Self::Iq1M => each!(bytes, into, groups::iq1_m),
            Self::Iq2Xxs => each!(bytes, into, groups::iq2_xxs),
            Self::Iq2Xs => each!(bytes, into, groups::iq2_xs),
            Self::Iq2S => each!(bytes, into, groups::iq2_s),
            Self::Iq3Xxs => each!(bytes, into, groups::iq3_xxs),
            Self::Iq3S => each!(bytes, into, groups::iq3_s),
        }
    }
}

/// A part of a block.
#[inline(always)]
fn part<const LENGTH: usize>(block: &[u8], start: usize) -> &[u8; LENGTH] {
    block[start..].first_chunk().expect("fields are inside of blocks")
}

/// A 16-bit integer of a block.
#[inline(always)]
fn u16_at(block: &[u8], start: usize) -> u16 {
    u16::from_le_bytes(*part(block, start))
}

/// A 32-bit integer of a block.
#[inline(always)]
fn u32_at(block: &[u8], start: usize) -> u32 {
    u32::from_le_bytes(*part(block, start))
}

/// A 16-bit float of a block.
#[inline(always)]
fn f16_at(block: &[u8], start: usize) -> f32 {
    crate::matrix::f16(u16_at(block, start))
}

/// A matrix of blocks.
pub(super) struct Blocks<B> {
    bytes: B,
    kind: BlockType,
    shape: (usize, usize),
}

impl<B: AsRef<[u8]>> Blocks<B> {
    /// A matrix whose rows are whole blocks, one after the other. There must be as many bytes as the shape needs.
    pub(super) fn new(bytes: B, kind: BlockType, shape: (usize, usize)) -> Self {
        let (count, size) = kind.block();
        assert!(
            shape.1.is_multiple_of(count) && bytes.as_ref().len() == shape.0 * (shape.1 / count) * size,
            "the bytes of a matrix"
        );
        Self { bytes, kind, shape }
    }
}

impl<B> fmt::Debug for Blocks<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blocks").field("kind", &self.kind).field("shape", &self.shape).finish_non_exhaustive()
    }
}

impl<B: AsRef<[u8]> + Send + Sync> StoredMatrix for Blocks<B> {
    fn shape(&self) -> (usize, usize) {
        self.shape
    }

    #[cfg(feature = "cuda")]
    fn on_device(&self, device: &candle_core::Device) -> candle_core::Result<Option<Arc<dyn DeviceMatrix>>> {
        let Some(dtype) = device::dtype(self.kind) else { return Ok(None) };
        Ok(Some(Arc::new(device::BlocksOnDevice::new(self.bytes.as_ref(), dtype, self.shape, device)?)))
    }

    fn read(&self, row: usize, first: usize, into: &mut [f32]) {
        let (count, size) = self.kind.block();
        let start = (row * self.shape.1 + first) / count * size;
        self.kind.read(&self.bytes.as_ref()[start..][..into.len() / count * size], into);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from_hex(text: &str) -> Vec<u8> {
        let digits = text.as_bytes().as_chunks::<2>().0;
        digits.iter().map(|digits| u8::from_str_radix(str::from_utf8(digits).unwrap(), 16).unwrap()).collect()
    }

    #[test]
    fn blocks_have_the_recorded_numbers() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/gguf_blocks.json");
        let recorded: serde_json::Value = serde_json::from_slice(&fs_err::read(path).unwrap()).unwrap();
        let recorded = recorded.as_object().unwrap();
        for (name, recorded) in recorded {
            let number = |field: &str| recorded[field].as_u64().unwrap();
            let kind = BlockType::find(number("kind") as u32).unwrap_or_else(|| panic!("{name}"));
            assert_eq!(kind.block(), (number("count") as usize, number("size") as usize), "{name}");
            let pairs =
                recorded["blocks"].as_array().unwrap().iter().zip(recorded["numbers"].as_array().unwrap());
            for (blocks, numbers) in pairs {
                let [blocks, numbers] = [blocks, numbers].map(|hex| from_hex(hex.as_str().unwrap()));
                let mut expected = vec![0.0; numbers.len() / 4];
                FloatType::F32.read(&numbers, &mut expected);
                let mut found = vec![f32::NAN; expected.len()];
                kind.read(&blocks, &mut found);
                for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
                    let apart = (found - expected).abs();
                    assert!(
                        apart <= 1e-6 * expected.abs(),
                        "{name} at {index}: {found} instead of {expected}"
                    );
                }
            }
        }
        let tested = BlockType::ALL.iter().filter(|(_, number, count, _)| *count > 1 && *number != 9);
        assert_eq!(recorded.len(), tested.count());
    }
    #[cfg(feature = "cuda")]
    #[test]
    fn blocks_on_a_gpu_have_the_numbers_of_the_cpu() {
        use candle_core::DType;

        use crate::matrix::Matrix;

        let device = crate::engine::fixture::device();
        if device.is_cpu() {
            return;
        }
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/gguf_blocks.json");
        let recorded: serde_json::Value = serde_json::from_slice(&fs_err::read(path).unwrap()).unwrap();
        let mut tested = 0;
        for (name, recorded) in recorded.as_object().unwrap() {
            let kind = BlockType::find(recorded["kind"].as_u64().unwrap() as u32).unwrap();
            if device::dtype(kind).is_none() {
                continue;
            }
            tested += 1;
            let blocks = recorded["blocks"].as_array().unwrap();
            let blocks: Vec<u8> = blocks.iter().flat_map(|hex| from_hex(hex.as_str().unwrap())).collect();
            let (count, size) = kind.block();
            // Rows of a block each and of some, and more numbers than a thread block expands.
            for per_row in [1, 3] {
                let rows = (blocks.len() / size).max(300) / per_row;
                let bytes: Vec<u8> = blocks.iter().copied().cycle().take(rows * per_row * size).collect();
                let matrix = Blocks::new(bytes, kind, (rows, per_row * count));
                let own = Matrix::on_device(&matrix, DType::F32, &device).unwrap().unwrap();
                let host = Matrix::from(Arc::new(matrix) as Arc<dyn StoredMatrix>);
                let numbers = |matrix: &Matrix| {
                    let part = matrix.narrow(2, rows - 2).unwrap().tensor().unwrap();
                    part.contiguous().unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap()
                };
                for (found, expected) in numbers(&own).iter().zip(numbers(&host)) {
                    let apart = (found - expected).abs();
                    assert!(
                        apart <= 2e-6 * expected.abs().max(1e-3),
                        "{name}: {found} instead of {expected}"
                    );
                }
            }
        }
        assert_eq!(tested, 10);
    }
}

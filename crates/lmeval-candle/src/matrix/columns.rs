//! Matrices of integers whose words hold codes of one output (GPTQ) or of eight outputs (AWQ), output next to output.

#![expect(
    clippy::inline_always,
    reason = "code outside a dispatched function is compiled for the baseline instruction set"
)]

use std::fmt;
use std::ops::Range;
#[cfg(feature = "cuda")]
use std::sync::Arc;

#[cfg(feature = "cuda")]
use candle_core::{Device, Result};
use pulp::{Simd, WithSimd};

use super::floats::FloatType;
use super::grouped::Bytes;
use super::kernel::Lanes;
#[cfg(feature = "cuda")]
use super::stored::DeviceMatrix;
use super::stored::StoredMatrix;
use crate::layers::simd::{ARCH, LANES};

/// The places of eight outputs in a word of AWQ.
const PLACES: [u32; 8] = [0, 4, 1, 5, 2, 6, 3, 7];

/// How codes are packed into words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    /// A stream of codes of one output, `[input · bits / 32, output]`.
    Inputs {
        /// The bits of a code.
        bits: u32,
    },
    /// Codes of eight outputs in four bits, `[input, output / 8]`.
    Outputs,
}

/// A matrix of integers with a scale and a zero point per group of inputs and output.
pub(crate) struct Columns {
    /// The packed codes.
    pub(crate) words: Bytes,
    pub(crate) packing: Packing,
    /// The packed zero points, `[groups, output]`.
    pub(crate) zeros: Bytes,
    /// A number to add to each zero point.
    pub(crate) more: u32,
    /// `[groups, output]`.
    pub(crate) scales: Bytes,
    pub(crate) dtype: FloatType,
    /// The group of each input.
    pub(crate) group: Vec<u32>,
    pub(crate) groups: usize,
    /// Outputs and inputs.
    pub(crate) shape: (usize, usize),
}

impl Columns {
    /// Whether all parts have the sizes that the shape needs.
    pub(crate) fn is_complete(&self) -> bool {
        let (outputs, inputs) = self.shape;
        let length = |bytes: &Bytes| bytes.as_ref().as_ref().len();
        let (words, zeros) = match self.packing {
            Packing::Inputs { bits } => (
                (inputs * bits as usize).div_ceil(32) * outputs,
                self.groups * (outputs * bits as usize).div_ceil(32),
            ),
            Packing::Outputs => (inputs * (outputs / 8), self.groups * (outputs / 8)),
        };
        let fits = match self.packing {
            Packing::Inputs { bits } => (inputs * bits as usize).is_multiple_of(32),
            Packing::Outputs => outputs.is_multiple_of(8),
        };
        fits && length(&self.words) == 4 * words
            && length(&self.zeros) == 4 * zeros
            && length(&self.scales) == self.groups * outputs * self.dtype.size()
            && self.group.len() == inputs
            && self.group.iter().all(|group| (*group as usize) < self.groups)
    }

    /// Zero points and scales of a group for some outputs.
    fn parameters(&self, group: usize, outputs: &Range<usize>) -> Parameters {
        let mut made = Parameters::default();
        let all = self.shape.0;
        let zeros = self.zeros.as_ref().as_ref().as_chunks::<4>().0;
        for (lane, output) in outputs.clone().enumerate() {
            let zero = match self.packing {
                Packing::Inputs { bits } => {
                    let width = (all * bits as usize).div_ceil(32);
                    let place = output * bits as usize;
                    stream(&zeros[group * width..][..width], 1, 0, place, bits)
                }
                Packing::Outputs => {
                    let word = u32::from_le_bytes(zeros[group * (all / 8) + output / 8]);
                    word >> (4 * PLACES[output % 8]) & 15
                }
            };
            // The largest zero point plus one is zero.
            made.zeros[lane] = ((zero + self.more) & self.mask()) as f32;
            made.scales[lane] = self.dtype.at(self.scales.as_ref().as_ref(), group * all + output);
        }
        made
    }

    /// The words with the codes of an input for up to 16 outputs, and the shift of each lane. The second word has what does not fit
    /// into the first.
    fn words(&self, input: usize, outputs: &Range<usize>, found: &mut Words) {
        let words = self.words.as_ref().as_ref().as_chunks::<4>().0;
        match self.packing {
            Packing::Inputs { bits } => {
                let place = input * bits as usize;
                let (row, shift) = (place / 32, (place % 32) as u32);
                let take = |row: usize, into: &mut [u32; LANES]| {
                    let words = &words[row * self.shape.0 + outputs.start..][..outputs.len()];
                    for (into, word) in into.iter_mut().zip(words) {
                        *into = u32::from_le_bytes(*word);
                    }
                };
                if found.row != Some(row) {
                    take(row, &mut found.first);
                    found.row = Some(row);
                }
                found.straddles = shift + bits > 32;
                if found.straddles {
                    take(row + 1, &mut found.second);
                }
                found.shift = shift;
            }
            Packing::Outputs => {
                let words = &words[input * (self.shape.0 / 8)..][..self.shape.0 / 8];
                for (lane, output) in outputs.clone().enumerate() {
                    found.first[lane] = u32::from_le_bytes(words[output / 8]) >> (4 * PLACES[output % 8]);
                }
            }
        }
    }

    fn mask(&self) -> u32 {
        match self.packing {
            Packing::Inputs { bits } => (1 << bits) - 1,
            Packing::Outputs => 15,
        }
    }
}

/// A code in a stream of words that are `stride` apart.
fn stream(words: &[[u8; 4]], stride: usize, first: usize, place: usize, bits: u32) -> u32 {
    let (row, shift) = (place / 32, (place % 32) as u32);
    let word =
        |row: usize| words.get(row * stride + first).map_or(0, |word| u64::from(u32::from_le_bytes(*word)));
    ((word(row) | word(row + 1) << 32) >> shift) as u32 & ((1 << bits) - 1)
}

/// Zero points and scales of some outputs.
#[derive(Clone, Copy, Default)]
struct Parameters {
    zeros: Lanes,
    scales: Lanes,
}

/// Words of some outputs.
#[derive(Default)]
struct Words {
    /// The row of the first words.
    row: Option<usize>,
    first: [u32; LANES],
    second: [u32; LANES],
    shift: u32,
    straddles: bool,
}

impl fmt::Debug for Columns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Columns")
            .field("packing", &self.packing)
            .field("shape", &self.shape)
            .finish_non_exhaustive()
    }
}

impl StoredMatrix for Columns {
    fn shape(&self) -> (usize, usize) {
        self.shape
    }

    #[cfg(feature = "cuda")]
    fn on_device(&self, device: &Device) -> Result<Option<Arc<dyn DeviceMatrix>>> {
        Ok(Some(Arc::new(crate::cuda::ColumnsOnDevice::new(self, device)?)))
    }

    fn read(&self, row: usize, first: usize, into: &mut [f32]) {
        let mut panel = vec![[0.0; LANES]; into.len()];
        self.panel(row..row + 1, first, &mut panel, &mut []);
        for (into, lanes) in into.iter_mut().zip(&panel) {
            *into = lanes[0];
        }
    }

    fn panel(&self, rows: Range<usize>, first: usize, panel: &mut [Lanes], _: &mut [f32]) {
        ARCH.dispatch(Panel { matrix: self, rows, first, made: panel });
    }
}

struct Panel<'a> {
    matrix: &'a Columns,
    rows: Range<usize>,
    first: usize,
    made: &'a mut [Lanes],
}

impl WithSimd for Panel<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { matrix, rows, first, made } = self;
        let mask = matrix.mask();
        let groups = &matrix.group[first..][..made.len()];
        // In the order of activations, groups change with each input.
        let is_mixed = !groups.is_sorted();
        let count = if is_mixed { matrix.groups } else { 0 };
        let all: Vec<Parameters> = (0..count).map(|group| matrix.parameters(group, &rows)).collect();
        let mut current = (u32::MAX, Parameters::default());
        let mut words = Words::default();
        for (index, (lanes, group)) in made.iter_mut().zip(groups).enumerate() {
            matrix.words(first + index, &rows, &mut words);
            if current.0 != *group {
                let own = all.get(*group as usize).copied();
                current = (*group, own.unwrap_or_else(|| matrix.parameters(*group as usize, &rows)));
            }
            let mut codes = words.first;
            for code in &mut codes {
                *code >>= words.shift;
            }
            if words.straddles {
                for (code, second) in codes.iter_mut().zip(words.second) {
                    *code |= second << (32 - words.shift);
                }
            }
            for lane in 0..LANES {
                let code = (codes[lane] & mask) as i32 as f32;
                lanes[lane] = (code - current.1.zeros[lane]) * current.1.scales[lane];
            }
        }
    }
}
